"""The steps of a run and the rules it kept, for reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.report.words import counted, number, percent

_HOW = {
    "construction": "by construction",
    "zeros": "by groups that are zero as a whole where one record is",
    "held": "without repair",
    "repair": "by repair",
}


@dataclass(frozen=True)
class StepFact:
    """One step: what it did to which columns, and what that cost."""

    method: str
    columns: str
    how: str
    loss: str
    figures: str


@dataclass(frozen=True)
class RuleFact:
    """One rule and how it was kept."""

    text: str
    kind: str
    before: str
    how: str


def step_facts(figures: Mapping[str, Any]) -> tuple[StepFact, ...]:
    """The steps of a run in their order; nothing where it was no run of steps."""
    return tuple(
        StepFact(
            each["method"],
            ", ".join(each["columns"]),
            _how(each),
            percent(each["information_loss"]),
            _figures(each),
        )
        for each in figures.get("steps") or ()
    )


def rule_facts(figures: Mapping[str, Any]) -> tuple[RuleFact, ...]:
    """The rules and how each was kept."""
    return tuple(
        RuleFact(
            each["rule"], each["kind"].replace("_", " "), number(each["broken_before"]),
            _HOW[each["how"]] + (f" of {counted(each['repaired'], 'record')}" if each["repaired"] else ""),
        )
        for each in figures.get("rules") or ()
    )  # fmt: skip


def _how(step: Mapping[str, Any]) -> str:
    said = []
    if "classes" in step or "groups" in step:
        said.append(f"k = {step['k']}")
    if step["level"] == "household":
        said.append("by household")
    if step["within"]:
        said.append(f"within {', '.join(step['within'])}")
    return "; ".join(said)


def _figures(step: Mapping[str, Any]) -> str:
    said = []
    cells = step.get("suppressed_cells")
    if cells is not None:
        listed = ", ".join(f"{name} {count:,}" for name, count in cells.items() if count)
        said.append(
            f"{counted(sum(cells.values()), 'cell')} made missing" + (f" ({listed})" if listed else "")
        )
    if "classes" in step:
        said.append(counted(step["classes"], "class", "classes"))
    if "gap" in step:
        gap = step["gap"]
        said.append(
            "proven least" if gap < 1e-9 else f"at most {percent(100 * gap)} of the loss could be saved"
        )
    if "groups" in step:
        said.append(f"{counted(step['groups'], 'group')} of {step['smallest']:,} to {step['largest']:,}")
    changed = step.get("changed_cells")
    if changed is not None:
        total = sum(changed.values()) if isinstance(changed, Mapping) else changed
        said.append(f"{counted(total, 'cell')} changed")
    if "swapped" in step:
        said.append(
            f"{step['swapped']:,} of {step['units']:,} swapped; {step['standing_out']:,} stood out, "
            f"{step['stayed']:,} of them stayed"
        )
    return "; ".join(said)
