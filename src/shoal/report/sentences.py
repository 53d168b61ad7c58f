"""The sentences at the head of a report: what happened, what could be found out, what is not covered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import polars as pl

from shoal.report.columns import LeftColumn
from shoal.report.words import counted, listed, number, percent
from shoal.schema import Schema
from shoal.typing import Json


class ProtectionLike(Protocol):
    """What a report reads of a protection."""

    @property
    def verdicts(self) -> tuple[Any, ...]: ...
    @property
    def figures(self) -> Any: ...
    @property
    def status(self) -> str: ...
    @property
    def reasons(self) -> tuple[str, ...]: ...
    @property
    def rule(self) -> str: ...
    @property
    def advice(self) -> str: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def sizes(self) -> np.ndarray: ...
    @property
    def original(self) -> pl.DataFrame: ...
    @property
    def published(self) -> pl.DataFrame: ...
    def settings(self) -> Json: ...
    def command(self) -> str: ...
    def python(self, *, public: bool = False) -> str: ...


def sentences_of(
    protection: ProtectionLike,
    height: int,
    sizes: np.ndarray,
    names: list[str],
    left: tuple[LeftColumn, ...],
    figures: Mapping[str, Any],
) -> tuple[str, ...]:
    """What happened, what could be found out, what is not covered: a sentence each."""
    # In a run of steps each step has a verdict, on fewer columns than the last one. The least value holds on all of them.
    held = [each.value for each in protection.verdicts if each.model.startswith("k-anonymity")]
    reached = min(held, default=None)
    alike = (
        ""
        if reached is None
        else (
            f": in {'it' if len(names) == 1 else 'them'}, everyone looks like at least {counted(reached - 1, 'other')}"
            if reached > 1
            else ", but someone has unique values in them"
        )
    )
    settings = protection.settings()
    strata = list(settings.get("strata", ()))
    apart = settings.get("method") == "steps" and int(sizes.min()) < int(settings.get("k", 0))
    within = f" within the strata of {listed(strata)}" if strata else ""
    first = (
        f"{counted(height, 'record')} were put into {counted(sizes.size, 'group')} of at least {sizes.min():,}"
        f"{within}, and {counted(len(names), 'protected column is', 'protected columns are')} the same for all "
        f"members of a group{alike}."
    )
    if apart:  # each set of columns keeps its k, all of them together do not
        first = (
            f"{counted(height, 'record')} were treated in several steps, each on columns of its own. Each verdict holds on the "
            f"columns it names and on no others: on all {number(len(names))} treated columns together, records are alike in "
            f"{counted(sizes.size, 'group')} of {sizes.min():,} to {sizes.max():,}."
        )
    if "dld" in figures:
        lost = f"; the price is {percent(figures['information_loss'])} of the variation between records"
        second = (
            "An intruder who holds the original values of these columns and takes the nearest original for each "
            f"published record would be right for {percent(100 * figures['dld'])} of them"
            f"{_knowing(figures)}{_of_a_sample(figures)}{lost if 'information_loss' in figures else ''}."
        )
    else:
        asked = [each for each in protection.verdicts if each.holds is not None]
        met = [_titled(each) for each in asked if each.holds]
        second = (
            f"The published table itself was checked: {len(met)} of {counted(len(asked), 'demanded model')} "
            f"{'holds' if len(asked) == 1 else 'hold'} ({listed(met)})."
        )
    what = "aggregated columns and strata" if strata else "aggregated columns"
    rest = listed([each.name for each in left]) if left else ""
    third = (
        f"This is k-anonymity of the {what} taken as quasi-identifiers, and nothing about columns left as they "
        f"are{f': {rest}' if rest else '; here there is none'}."
    )
    return first, second, third


def _knowing(figures: Mapping[str, Any]) -> str:
    """How much the columns left as they are add to linkage, if they do."""
    linked = figures.get("linkage")
    if linked is None or linked <= figures["dld"]:
        return ""
    return f", and for {percent(100 * linked)} with the columns left as they are"


def _of_a_sample(figures: Mapping[str, Any]) -> str:
    """A note if linkage was measured on only some of the records."""
    sought = figures.get("linked_records")
    return (
        ""
        if sought is None or sought >= figures.get("n_records", 0)
        else f" (a sample of {sought:,} was tried)"
    )


def _titled(verdict: Any) -> str:
    return f"{verdict.model} of {verdict.sensitive}" if verdict.sensitive else verdict.model
