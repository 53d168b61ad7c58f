"""What a check says: the figure reached, whether it is enough, and where it is worst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.typing import Json

NAMED = 12  # names that a sentence lists


@dataclass(frozen=True)
class WorstClass:
    """One equivalence class: its quasi-identifiers, its number of records, its figure.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"zip": ["47*", "47*", "47*", "48*"]})
    >>> privacy.k_anonymity(table, "zip").worst[0]
    WorstClass(values={'zip': '48*'}, size=1, figure=1)
    """

    values: Mapping[str, Any]
    size: int
    figure: float

    def __str__(self) -> str:
        cells = ", ".join(f"{name} = {'missing' if v is None else v}" for name, v in self.values.items())
        return f"{cells}: {self.size} record{'s' if self.size != 1 else ''}, {figure_text(self.figure)}"


@dataclass(frozen=True, repr=False)
class Verdict:
    """What one privacy model says about a table.

    Attributes
    ----------
    model : str
    quasi : tuple of str
        The quasi-identifiers: the columns an intruder is taken to know.
    sensitive : str or None
    value : number, (smallest, largest) for delta-presence, or None where it is not bounded
        What the table reaches.
    limit : the same, or None
        What was demanded.
    holds : bool or None
        Whether the demand is met; None where nothing was demanded.
    n_records, n_classes : int
    worst : tuple of WorstClass
        The classes with the worst figures, worst first.
    records_at_risk : int or None
        Records in classes that miss the demand. Without a demand: records that are unique (k), whose class
        has a single sensitive value (l), or whose presence is certain (delta); None for t-closeness.
    missing : mapping of str to int
        Missing cells per column that was looked at, where there are any. They count as one value of its
        own, so that no record is left out.
    missing_records : int
        Records with at least one missing quasi-identifier.
    notes : tuple of str
        What else a reader must know.
    labels : array of int64 or None
        The class of each record.
    classes_at_risk : array of bool or None
        Which classes `records_at_risk` counts.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"zip": ["47*", "47*", "47*", "48*"]})
    >>> verdict = privacy.k_anonymity(table, "zip", k=2)
    >>> verdict.value, verdict.limit, verdict.holds, verdict.records_at_risk
    (1, 2, False, 1)
    >>> print(verdict)
    k-anonymity on zip: 1 in 2 classes where 2 was demanded, so the demand is not met; 1 of 4 records (25 %) at risk.
    """

    model: str
    quasi: tuple[str, ...]
    sensitive: str | None
    value: Any
    limit: Any
    holds: bool | None
    n_records: int
    n_classes: int
    worst: tuple[WorstClass, ...]
    records_at_risk: int | None
    missing: Mapping[str, int] = field(default_factory=dict)
    missing_records: int = 0
    notes: tuple[str, ...] = ()
    labels: np.ndarray | None = field(default=None, compare=False)
    classes_at_risk: np.ndarray | None = field(default=None, compare=False)

    @property
    def at_risk(self) -> np.ndarray | None:
        """Which records are at risk, one truth value each; None where there is no such count."""
        if self.labels is None or self.classes_at_risk is None:
            return None
        return self.classes_at_risk[self.labels]

    @property
    def share_at_risk(self) -> float | None:
        """`records_at_risk` as a share of all records."""
        return None if self.records_at_risk is None else self.records_at_risk / self.n_records

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        about = f" of {self.sensitive}" if self.sensitive else ""
        text = f"{self.model}{about} on {_named(self.quasi)}: {figure_text(self.value)}"
        text += f" in {self.n_classes:,} class{'es' if self.n_classes != 1 else ''}"
        if self.limit is not None:
            verdict = "the demand is met" if self.holds else "the demand is not met"
            text += f" where {figure_text(self.limit)} was demanded, so {verdict}"
        if self.records_at_risk is not None:
            text += f"; {self.records_at_risk:,} of {self.n_records:,} records"
            text += f" ({100 * (self.share_at_risk or 0):.3g} %) at risk"
        if self.missing_records:
            ending = "" if self.missing_records == 1 else "s"
            text += f"; {self.missing_records:,} record{ending} with a missing quasi-identifier, which counts"
            text += " as a value of its own"
        return text + "."

    def to_dict(self) -> Json:
        """The facts as plain values, ready for JSON."""
        return {
            "model": self.model,
            "quasi": list(self.quasi),
            "sensitive": self.sensitive,
            "value": list(self.value) if isinstance(self.value, tuple) else self.value,
            "limit": list(self.limit) if isinstance(self.limit, tuple) else self.limit,
            "holds": self.holds,
            "n_records": self.n_records,
            "n_classes": self.n_classes,
            "records_at_risk": self.records_at_risk,
            "share_at_risk": self.share_at_risk,
            "missing": dict(self.missing),
            "missing_records": self.missing_records,
            "worst": [
                {
                    "values": {k: _plain(v) for k, v in each.values.items()},
                    "size": each.size,
                    "figure": each.figure,
                }
                for each in self.worst
            ],
            "notes": list(self.notes),
        }


def figure_text(value: Any) -> str:
    """A figure for reading: integers as they are, others to four digits, pairs in brackets, None as not bounded."""
    if isinstance(value, tuple):
        return "(" + ", ".join(figure_text(each) for each in value) + ")"
    if value is None:
        return "not bounded"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _named(names: tuple[str, ...]) -> str:
    """Names in a sentence; of very many the first."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
