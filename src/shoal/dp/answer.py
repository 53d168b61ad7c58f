"""A private answer as it is handed out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class Answer:
    """A private answer.

    Parameters
    ----------
    value : number, or mapping of label to number, or list of such rows
        One figure; several figures; or one row per combination of declared levels.
    stamp : str
        What is guaranteed, word for word.
    epsilon : float or None
        What the analyst was charged; None in mode `heuristic`.
    remaining : float or None
        What this analyst can still spend on this data set.
    interval : like `value`, with pairs
        Holds the clamped exact figure with 95 % probability over the noise; None in mode `heuristic`.
    noise_parameter : float, optional
        In mode `heuristic` only.
    notes : tuple of str
        What a reader should know: ranks aimed at, rows counted.

    Examples
    --------
    >>> from shoal.dp import Answer
    >>> print(Answer(12, "guarantee: epsilon-DP, add or remove one record", 0.1, 1.9, (-18, 42)).to_json())
    {"value": 12, "stamp": "guarantee: epsilon-DP, add or remove one record", "epsilon": 0.1, "remaining": 1.9,
     "interval": [-18, 42]}
    """

    value: Any
    stamp: str
    epsilon: float | None
    remaining: float | None
    interval: Any
    noise_parameter: float | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain values."""
        facts = asdict(self)
        facts["notes"] = list(self.notes)
        return {key: value for key, value in facts.items() if value not in (None, []) or key in _ALWAYS}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """The answer that `to_dict` wrote, as it comes from a server."""
        known = {each.name for each in fields(cls)}
        taken = {name: value for name, value in facts.items() if name in known}
        return cls(**{**taken, "notes": tuple(facts.get("notes", ()))})

    def to_json(self) -> str:
        """The facts as JSON text."""
        return json.dumps(self.to_dict())


_ALWAYS = ("value", "stamp", "epsilon", "remaining", "interval")
