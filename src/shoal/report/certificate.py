"""How far from the least possible loss a partition can be, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.report.words import percent

OPTIMAL_GAP = 2e-4  # per cent: the tolerance of the integer programme behind a certificate


@dataclass(frozen=True)
class Certificate:
    """How far from the least possible loss the partition can be."""

    sentence: str
    rows: tuple[tuple[str, str], ...]


def certificate_of(figures: Mapping[str, Any]) -> Certificate | None:
    """The certificate among the figures of a protection, where there is one."""
    given = figures.get("certificate")
    if not given:
        return None
    bound, gap, proven = given.get("bound"), given.get("gap"), bool(given.get("proven"))
    if bound is None or gap is None:
        sentence = "No lower bound was found in the time given, so nothing is said about the optimum."
    elif not proven:
        sentence = f"A lower bound of {percent(bound)} was found but not proven, so nothing is said about the optimum."
    elif gap <= OPTIMAL_GAP:
        sentence = "No partition into groups of at least k loses less: this one is proven to be optimal."
    else:
        sentence = (
            f"No partition into groups of at least k can lose less than {percent(bound)}: another one could save "
            f"at most {percent(gap)} of the loss of this one."
        )
    rows = [("Lower bound of the loss", percent(bound) if bound is not None else "none")]
    if gap is not None:
        rows.append(("Gap", percent(gap)))
    rows.append(("Bound proven", "yes" if proven else "no"))
    if given.get("method"):
        rows.append(("Found by", str(given["method"])))
    if given.get("seconds") is not None:
        rows.append(("Time", f"{given['seconds']:.3g} s"))
    if given.get("note"):
        rows.append(("Note", str(given["note"])))
    return Certificate(sentence, tuple(rows))
