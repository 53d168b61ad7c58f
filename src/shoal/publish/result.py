"""The result: the protected table and all facts about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from shoal import privacy
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.measure import Figures
from shoal.publish.stages.roles import Roles
from shoal.publish.status import WORDS, Status, named, rule_of
from shoal.schema import Schema
from shoal.typing import Json

if TYPE_CHECKING:
    from shoal.microaggregation import SearchWork
    from shoal.utility import Fitness


@dataclass(frozen=True, repr=False)
class Protection:
    """A protected table and all facts about it.

    Attributes
    ----------
    frame : the same kind of table as came in, or None
        What may be published; None if it was written to a file.
    labels : array of int64 or None
        The group of each row of `frame`.
    verdicts : tuple of Verdict
        The privacy models that were checked on the published table.
    figures : Figures
        Loss and risk. Computed from the original: for the custodian only.
    status : {"green", "amber", "red"}
        By one rule on all published columns that are not sensitive; see `rule`.
    reasons : tuple of str
        The reasons for the status.
    request : ProtectionRequest
    schema : Schema
        The facts that the run used, including guessed ones.
    notes : tuple of str
        What was guessed, merged, dropped or left unchanged, one sentence each.
    sizes : array of int64
        Records of each group.
    original, published : polars.DataFrame
        An even selection of rows before and after, for the custodian's report; all rows of a small table.
    work : SearchWork or None
        The work of the search, which repeats it.
    parts : int
        How many parts the table was divided into.
    source, output : str or None
        The file that was read and the file that was written.

    Examples
    --------
    >>> import polars as pl
    >>> import shoal
    >>> table = pl.DataFrame({"age": [20, 21, 22, 60, 61, 62]})
    >>> done = shoal.protect(table, k=3, method="mdav")
    >>> done.status, done.frame["age"].to_list(), done.labels.tolist()
    ('green', [21.0, 21.0, 21.0, 61.0, 61.0, 61.0], [0, 0, 0, 1, 1, 1])
    >>> print(done.lines()[0])
    status green: all conditions met
    """

    frame: Any
    labels: np.ndarray | None
    verdicts: tuple[privacy.Verdict, ...]
    figures: Figures
    status: str
    reasons: tuple[str, ...]
    request: ProtectionRequest
    roles: Roles
    notes: tuple[str, ...]
    sizes: np.ndarray
    original: pl.DataFrame
    published: pl.DataFrame
    work: SearchWork | None = None
    parts: int = 1
    parameters: Mapping[str, object] | None = None
    source: str | None = None
    output: str | None = None

    @property
    def schema(self) -> Schema:
        """The facts that the run used, including guessed ones."""
        return self.roles.schema

    @cached_property
    def fitness(self) -> Fitness | None:
        """The schema's indicators before and after, on the rows of `original` and `published`; None without any."""
        if not self.schema.indicators:
            return None
        from shoal.utility import fitness

        # Codes of missing cells were decoded when the rows were read.
        plain = replace(
            self.schema, columns={n: replace(c, missing_codes=()) for n, c in self.schema.columns.items()}
        )
        return fitness(self.original, self.published, plain, weights=self.roles.weight)

    @property
    def method(self) -> str:
        """The method's name."""
        return self.request.method_name

    def placed(self, source: str, output: str, notes: tuple[str, ...] = ()) -> Self:
        """The same result with the names of its files, and with notes on what was guessed in reading."""
        return replace(self, source=source, output=output, notes=(*notes, *self.notes))

    def command(self) -> str:
        """The command that repeats the run; empty if the table did not come from a file."""
        if self.source is None:
            return ""
        return self.request.repeating(self.work).to_command(self.source, self.output or "OUT")

    def python(self, *, public: bool = False) -> str:
        """Python code that repeats the run; the public one has no names of the owner's files and no seed."""
        asked = self.request.repeating(self.work)
        if public:
            roles = self.roles
            asked = replace(
                asked, schema=None, schema_file=None, random_state=0, columns=tuple(roles.quasi_names), leave=roles.left,
                sensitive=roles.sensitive, strata=roles.strata, weights=roles.weight, households=roles.household,
            )  # fmt: skip
            return asked.to_python()
        return asked.to_python(self.source or "table.csv")

    @property
    def rule(self) -> str:
        """The rule behind the status."""
        return rule_of(self.request.limits)

    @property
    def advice(self) -> str:
        """What the status asks the custodian to do."""
        return WORDS[self.status]

    def lines(self) -> list[str]:
        """The main facts as lines of text, the status first."""
        figures = self.figures
        low, high = figures.smallest_group, figures.largest_group
        sizes = f"{low:,} to {high:,}" if low < high else f"{low:,}"
        link = "" if figures.dld is None else f", records linked by distance {100 * figures.dld:.1f} % (DLD)"
        il2 = "" if figures.il2 is None else f", IL2 {figures.il2:.2f} %"
        said = [
            str(Status(self.status, self.reasons)),
            f"{figures.n_records:,} records in {figures.n_groups:,} groups of {sizes} ({self.method}, "
            f"{figures.seconds:.1f} s); at risk {100 * figures.at_risk:.3g} % on {named(self.roles.open)}",
            *(str(verdict) for verdict in self.verdicts),
            f"information loss {figures.information_loss:.3f} %{il2}{link}",
        ]
        grouped = all(step.k for step in figures.steps or ())  # perturbed columns alone form no groups
        if figures.dld is not None and grouped and not self.roles.left:
            most = figures.n_groups / figures.n_records
            said[-1] += f"; groups of {low:,} or more allow at most {100 * most:.3g} % of all records"
        elif figures.linkage is not None:
            said[-1] += f", with the columns left as they are {100 * figures.linkage:.1f} %"
        sought = figures.linked_records
        if figures.dld is not None and sought is not None and sought < figures.n_records:
            said[-1] += f"; linkage is of a sample of {sought:,} records"
        if figures.certificate is not None:
            proof = figures.certificate
            said.append(
                f"no partition loses less than {proof.bound:.4f} %: at most {proof.gap:.2f} % of this loss could "
                f"be saved ({proof.method}, {proof.seconds:.0f} s)"
            )
        said += [] if self.fitness is None else self.fitness.lines()
        return [*said, *(f"note: {note}" for note in self.notes)]

    def to_dict(self) -> Json:
        """The facts as plain values, ready for JSON."""
        return (
            {"method": self.method, "k": self.request.k, "status": self.status, "reasons": list(self.reasons)}
            | self.figures.to_dict()
            | ({} if self.fitness is None else {"indicators": self.fitness.to_dict()})
            | {
                "verdicts": [verdict.to_dict() for verdict in self.verdicts],
                "notes": list(self.notes),
                "settings": self.settings(),
            }
        )

    def settings(self) -> Json:
        """Method, parameters and roles: what is needed to repeat the run."""
        roles, request = self.roles, self.request
        return {
            "method": self.method,
            "k": request.k,
            "parameters": dict(self.parameters or {}),
            "columns": roles.quasi_names,
            "strata": list(roles.strata),
            "weights": roles.weight,
            "households": roles.household,
            "sensitive": list(roles.sensitive),
            "left": list(roles.left),
            "identifiers": dict.fromkeys(roles.identifiers, request.identifiers),
            "hidden": request.identifiers,
            **{
                name: getattr(request, name)
                for name in ("l", "t", "on_missing", "small_strata", "integers", "order", "random_state")
            },
            "max_proposals": None if self.work is None else self.work.proposals,
            "search_plan": None if self.work is None else self.work.plan,
            "parts": self.parts,
            "source": self.source,
            "command": self.command(),
        }

    def __repr__(self) -> str:
        figures = self.figures
        return (
            f"<Protection, status {self.status}: {figures.n_records:,} records in {figures.n_groups:,} groups of at "
            f"least {figures.smallest_group} by {self.method}, {figures.information_loss:.3f} % lost>"
        )

    def _repr_html_(self) -> str:
        from shoal.report.notebook import protection_html

        return protection_html(self)

    def report(self, path: str | Path, *, public: bool = False) -> None:
        """Write the report as one HTML file. The public one contains nothing that is computed from the original."""
        from shoal.report import write_report

        write_report(self, path, public=public)
