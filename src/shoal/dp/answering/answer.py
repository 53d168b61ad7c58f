"""A private answer as it is handed out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import polars as pl

from shoal.dp.budget import rounded_up_text
from shoal.typing import Json, Record


@dataclass(frozen=True)
class Answer:
    """A private answer.

    Parameters
    ----------
    value : number, or mapping of label to number, or list of such rows
        One figure; several figures; or one row per combination of declared levels.
    guarantee : str
        What is promised, word for word; `stamp` in JSON.
    epsilon : float
        What the analyst was charged; in zCDP what `rho` alone implies with `delta`.
    remaining : float
        What this analyst can still spend on this data set: epsilon, or rho in zCDP.
    interval : like `value`, with pairs
        Holds the figure asked for with 95 % probability over the noise, if values keep to their declared bounds and units
        to their declared rows. An end is None where no bound is known.
    notes : tuple of str
        What a reader should know: ranks aimed at, rows counted.
    cut_interval : like `interval`, optional
        Where units were cut to a limit: the 95 % interval of the cut figure, to which the noise was added. It is
        narrower, and need not hold the figure asked for.
    cautions : tuple of str
        For each figure with a cut interval: at what units were cut, and how far the full figure may lie away.
    entry : str, optional
        What names its charge in the ledger: `shoal ledger show` finds the answer by it.
    rho, delta : float, optional
        Of a data set counted in zCDP: what the analyst was charged, and the delta declared.

    Examples
    --------
    >>> from shoal.dp import Answer
    >>> print(Answer(12, "guarantee: epsilon-DP, add or remove one record", 0.1, 1.9, (-18, 42)).to_json())
    {"value": 12, "stamp": "guarantee: epsilon-DP, add or remove one record", "epsilon": 0.1, "remaining": 1.9,
     "interval": [-18, 42]}
    """

    value: Any
    guarantee: str
    epsilon: float
    remaining: float
    interval: Any
    notes: tuple[str, ...] = ()
    cut_interval: Any = None
    cautions: tuple[str, ...] = ()
    entry: str | None = None
    rho: float | None = None
    delta: float | None = None

    @property
    def cost(self) -> str:
        """What was charged and what is left, in words."""
        return charged_text(self.epsilon, self.remaining, self.rho, self.delta)

    def to_dict(self) -> Json:
        """The facts as plain values."""
        facts = {
            "value": self.value,
            "stamp": self.guarantee,
            "epsilon": self.epsilon,
            "remaining": self.remaining,
            "interval": self.interval,
        }
        if self.cautions:
            facts |= {"cut_interval": self.cut_interval, "cautions": list(self.cautions)}
        facts |= {"notes": list(self.notes)} if self.notes else {}
        facts |= {} if self.rho is None else {"rho": self.rho, "delta": self.delta}
        return facts | ({"entry": self.entry} if self.entry else {})

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """The answer that `to_dict` wrote, as it comes from a server."""
        value, guarantee = facts["value"], facts["stamp"]
        spent, left, interval = facts["epsilon"], facts["remaining"], facts["interval"]
        notes, cautions = tuple(facts.get("notes", ())), tuple(facts.get("cautions", ()))
        cut, entry = facts.get("cut_interval"), facts.get("entry")
        rho, delta = facts.get("rho"), facts.get("delta")
        return cls(value, guarantee, spent, left, interval, notes, cut, cautions, entry, rho, delta)

    def to_json(self) -> str:
        """The facts as JSON text."""
        return json.dumps(self.to_dict())

    def _repr_html_(self) -> str:
        from shoal.dp.answering.notebook import answer_html

        return answer_html(self)

    def to_frame(self) -> pl.DataFrame:
        """A row for each group: its labels, and each figure with the ends of its interval (and of its cut one).

        Examples
        --------
        >>> from shoal.dp import Answer
        >>> Answer([{"region": "north", "count": 12}], "...", 0.1, 1.9, [{"region": "north", "count": (4, 20)}]).to_frame()
        shape: (1, 4)
        ┌────────┬───────┬───────────┬────────────┐
        │ region ┆ count ┆ count_low ┆ count_high │
        │ ---    ┆ ---   ┆ ---       ┆ ---        │
        │ str    ┆ i64   ┆ i64       ┆ i64        │
        ╞════════╪═══════╪═══════════╪════════════╡
        │ north  ┆ 12    ┆ 4         ┆ 20         │
        └────────┴───────┴───────────┴────────────┘
        """
        rows = self.value if isinstance(self.value, list) else [self.value]
        one = not isinstance(self.value, list)
        table = []
        for place, row in enumerate(rows):
            named = row if isinstance(row, dict) else {"value": row}
            line: Record = {}
            for name, figure in named.items():
                line[name] = figure
                for suffix, all_ends in (("", self.interval), ("_cut", self.cut_interval)):
                    within = all_ends if one or all_ends is None else all_ends[place]
                    ends = within.get(name) if isinstance(within, Mapping) else within
                    if isinstance(ends, (tuple, list)):  # a group's label has no interval
                        line[f"{name}{suffix}_low"], line[f"{name}{suffix}_high"] = ends
            table.append(line)
        return pl.DataFrame(table, infer_schema_length=None)


def charged_text(epsilon: float, remaining: float, rho: float | None, delta: float | None) -> str:
    """What was charged and what is left, in words."""
    if rho is None:
        return f"epsilon {epsilon}, remaining {remaining}"
    alone = "" if rho == 0 else f" (alone ({rounded_up_text(epsilon)}, {delta:g})-DP)"
    return f"rho {rho:.6g}{alone}, remaining {remaining:.6g}"
