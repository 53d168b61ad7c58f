"""What the attacks found, and the status that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from shoal.attacks._rates import Rate
from shoal.scenarios import ReleaseType
from shoal.typing import Json

COLOURS = ("green", "amber", "red")


@dataclass(frozen=True)
class Attack:
    """One attack that was tried.

    Attributes
    ----------
    name : str
    title : str
        What the intruder does, in a few words.
    criterion : {"singling out", "linkability", "inference", "record linkage", "membership"}
    rate : Rate
        Of success against the published table.
    baseline : Rate
        Of someone who guesses without looking at single published rows.
    compared, control : Rate or None
        The same attack on people of the table and on as many who are not in it; `compared` is `rate` unless a split was
        made for the purpose.
    limit : float
        What the release type allows: of the rate for record linkage, else of the excess over the control group.
    details : mapping of str to float
    note : str

    Examples
    --------
    >>> import polars as pl, shoal
    >>> table = pl.DataFrame({"age": list(range(20, 60)), "town": list("ABCD") * 10})
    >>> found = shoal.attack(table, table)["linkage-nearest"]
    >>> found.criterion, found.rate.value, found.colour
    ('record linkage', 1.0, 'red')
    """

    name: str
    title: str
    criterion: str
    rate: Rate
    baseline: Rate
    limit: float
    compared: Rate | None = None
    control: Rate | None = None
    details: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def excess(self) -> Rate | None:
        """What the attack finds beyond the control group; None without one."""
        return None if self.compared is None or self.control is None else self.compared.over(self.control)

    @property
    def judged(self) -> Rate:
        """The figure that the limit is about."""
        if self.criterion == "record linkage":
            return self.rate
        return self.excess or self.rate.over(self.baseline)

    @property
    def colour(self) -> str:
        """Red where the figure is above the limit beyond its interval, amber where it may be, else green.

        Without a control group only record linkage can be red: what is learned about everybody tells on nobody. Only
        differential privacy promises anything about membership, so only there it can be red.
        """
        judged = self.judged
        certain = self.criterion == "record linkage" or self.excess is not None
        if self.criterion == "membership":
            certain = "most under epsilon-DP" in self.details
        if judged.low > self.limit:
            return "red" if certain else "amber"
        return "amber" if judged.value > self.limit else "green"

    @property
    def reason(self) -> str:
        """The finding as a sentence."""
        what = "of the records" if self.criterion == "record linkage" else "beyond the control group"
        if self.criterion != "record linkage" and self.excess is None:
            what = "beyond a naive guess, and no control group was there to compare with"
        return (
            f"{self.title}: {100 * self.judged.value:.3g} % {what} where {100 * self.limit:.3g} % is allowed"
        )

    def to_dict(self) -> Json:
        """As plain values."""
        told: Json = {"name": self.name, "title": self.title, "criterion": self.criterion}
        told |= self.rate.to_dict()
        told["baseline"] = self.baseline.value
        told["compared"] = None if self.compared is None else self.compared.value
        told["control"] = None if self.control is None else self.control.value
        told["control_interval"] = None if self.control is None else [self.control.low, self.control.high]
        told["excess"] = None if self.excess is None else self.excess.value
        told |= {"limit": self.limit, "status": self.colour, "details": dict(self.details), "note": self.note}
        return told


@dataclass(frozen=True, repr=False)
class Attacks:
    """All attacks that were tried on a published table.

    Attributes
    ----------
    results : tuple of Attack
    release_type : ReleaseType
        The limits.
    untouched : tuple of str
        Columns published as they were, sensitive ones left out.
    n_original, n_published, n_control : int
    notes : tuple of str
        What was not tried, and why.
    seconds : float

    Examples
    --------
    >>> import polars as pl, shoal
    >>> table = pl.DataFrame({"age": list(range(20, 60)), "town": list("ABCD") * 10})
    >>> found = shoal.attack(table, table)
    >>> found.status, found.untouched, found["linkage-nearest"].rate.value
    ('red', ('age', 'town'), 1.0)
    """

    results: tuple[Attack, ...]
    release_type: ReleaseType
    untouched: tuple[str, ...]
    n_original: int
    n_published: int
    n_control: int
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """The worst colour of all attacks."""
        return COLOURS[max((COLOURS.index(each.colour) for each in self.results), default=0)]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every attack that is not green, the worst first; untouched columns are named where records were found."""
        worst = sorted(
            (each for each in self.results if each.colour != "green"), key=lambda each: each.colour != "red"
        )
        said = [each.reason for each in worst]
        if self.untouched and any(each.criterion == "record linkage" for each in worst):
            names = ", ".join(self.untouched[:8])
            said.append(f"published unchanged, so anyone who knows the person knows them: {names}")
        return tuple(said)

    def __getitem__(self, name: str) -> Attack:
        return next(each for each in self.results if each.name == name)

    def __repr__(self) -> str:
        return f"<Attacks, status {self.status}: {len(self.results)} tried in {self.seconds:.1f} s>"

    def lines(self) -> list[str]:
        """What to say, the status first."""
        why = "; ".join(self.reasons)
        said = [f"status {self.status}" + (f" ({why})" if why else "")]
        for each in self.results:
            line = f"{each.colour:5}  {each.title}: {each.rate}, baseline {100 * each.baseline.value:.1f} %"
            if each.control is not None and each.compared is not None and each.excess is not None:
                if each.compared.value != each.rate.value:
                    line += f"; against a control group of equal size {100 * each.compared.value:.1f} %"
                line += f", control {100 * each.control.value:.1f} %, excess {100 * each.excess.value:.1f} %"
            said.append(line)
        said.append(self.release_type.rule)
        said.append(
            f"{len(self.results)} attacks on {self.n_published:,} published rows with {self.n_original:,} originals and "
            f"{self.n_control:,} people of a control group in {self.seconds:.1f} s (for the custodian only)"
        )
        return [*said, *(f"note: {note}" for note in self.notes)]

    def frame(self) -> pl.DataFrame:
        """The figures as a table."""
        keys = ("name", "criterion", "rate", "baseline", "compared", "control", "excess", "limit", "status")
        return pl.DataFrame([{key: each.to_dict()[key] for key in keys} for each in self.results])

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {
            "status": self.status,
            "reasons": list(self.reasons),
            "release_type": self.release_type.to_dict(),
            "untouched": list(self.untouched),
            "n_original": self.n_original,
            "n_published": self.n_published,
            "n_control": self.n_control,
            "attacks": [each.to_dict() for each in self.results],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def report(self, path: str | Path) -> None:
        """Write the figures and their picture as one HTML file (custodian only)."""
        from shoal.report.attacks import write_attacks

        write_attacks(self, path)
