"""The status of a protected table: green, amber or red, by one rule that is the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shoal.errors import GuaranteeError
from shoal.privacy import Verdict
from shoal.publish.stages.check import Exposure
from shoal.scenarios import RED_SHARE, ReleaseType
from shoal.typing import Json

HOW_TO_ACCEPT = " (--accept-risk, or accept_risk=True)"
WORDS = {
    "green": "all conditions met",
    "amber": "publish after a look at the reasons",
    "red": "do not publish",
}


def rule_of(limits: ReleaseType | None = None) -> str:
    """The rule behind the status, with the thresholds of the release type if one was chosen."""
    share = RED_SHARE if limits is None else limits.red_share
    typed = "" if limits is None else f" {limits.rule} Taken to try: {limits.intruder}"
    fewer = "" if limits is None else ", k is below what the release type asks for"
    return (
        "It looks at all published columns that are not sensitive, also at those that were left as they are. Green: every "
        "model that was asked for holds, every record has the same values in these columns as at least k - 1 others, and "
        f"such records do not all have one sensitive value. Red: a model that was asked for does not hold{fewer}, or more "
        f"than {100 * share:.3g} % of the records share these values with fewer than k - 1 others. Amber: anything else. "
        "Rows with the same hash of an identifier are judged together. If every record shares these values with k - 1 "
        f"others, linkage cannot exceed 1/k, so it needs no condition of its own.{typed}"
    )


@dataclass(frozen=True)
class Status:
    """The colour, and why it is that colour.

    Attributes
    ----------
    colour : {"green", "amber", "red"}
    reasons : tuple of str
        Each names its columns.
    """

    colour: str
    reasons: tuple[str, ...]

    @property
    def word(self) -> str:
        """What to do at this colour."""
        return WORDS[self.colour]

    def __str__(self) -> str:
        why = "; ".join(self.reasons)
        return f"status {self.colour}: {self.word}" + (f" ({why})" if why else "")

    def to_dict(self) -> Json:
        """Colour and reasons as plain values."""
        return {"status": self.colour, "reasons": list(self.reasons)}


def status_of(
    verdicts: Iterable[Verdict], exposure: Exposure, k: int, limits: ReleaseType | None = None
) -> Status:
    """Decide the colour from what would be published, and nothing else.

    Parameters
    ----------
    verdicts : iterable of Verdict
    exposure : Exposure
    k : int
    limits : ReleaseType, optional
        The thresholds of the release type, if one was chosen.

    Examples
    --------
    >>> from shoal.publish.stages.check import Exposure
    >>> from shoal.publish.status import status_of
    >>> print(status_of([], Exposure(0.0, ("age",), {}), 5))
    status green: all conditions met
    >>> status_of([], Exposure(0.4, ("age", "note"), {}), 5).colour
    'red'
    """
    red = [
        f"{each.model}{f' of {each.sensitive}' if each.sensitive else ''} does not hold on {named(each.quasi)}"
        for each in verdicts
        if each.holds is False
    ]
    amber: list[str] = []
    if limits is not None and k < limits.k:
        red.append(f"k = {k} is below the {limits.k} of the release type {limits.name}")
    share = RED_SHARE if limits is None else limits.red_share
    if exposure.at_risk > 0:
        sentence = (
            f"{_percent(exposure.at_risk)} of the records share {named(exposure.columns)} with fewer than "
            f"{k - 1} others"
        )
        (red if exposure.at_risk > share else amber).append(sentence)
    for name, linked in exposure.linked.items():
        if linked > 0:
            sentence = (
                f"the rows that the hashed {name} links, taken together, look like those of fewer than {k - 1} others for "
                f"{_percent(linked)} of the records (an identifier that is dropped links nothing)"
            )
            (red if linked > share else amber).append(sentence)
    amber += [
        f"{_percent(share)} of the records have the same {name} as every record that looks like them"
        for name, share in exposure.attributes.items()
        if share > 0
    ]
    colour = "red" if red else "amber" if amber else "green"
    return Status(colour, tuple(red + amber))


def refuse_red(status: Status, *, accepted: bool) -> None:
    """Raise `GuaranteeError` if the status is red and the risk was not accepted."""
    if status.colour == "red" and not accepted:
        raise GuaranteeError(
            f"Status red, so nothing is given out: {'; '.join(status.reasons)}. Protect these columns too, or accept "
            f"the risk{HOW_TO_ACCEPT}."
        )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.9995 or share == 1 else "more than 99.9 %"


def named(names: Iterable[str], most: int = 8) -> str:
    """Names in a sentence; if there are very many, only the first ones."""
    listed = list(names)
    if len(listed) > most:
        return f"{', '.join(listed[: most - 1])} and {len(listed) - most + 1} more"
    return ", ".join(listed)
