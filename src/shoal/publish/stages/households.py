"""Households: sets of at least k of them share the household's own values, and their members are grouped inside.

A column that is the same for all members of every household (rent, region) belongs to the household. It is protected
once, over the whole set. A column that differs between members (age, sex) is protected among the members of the set.
They are put in order along their main direction. The first members of all households form a group, then the second
ones, and so on. A place that fewer than k households fill is joined to the place before, and members of a household
change places if this lowers the loss. So every group has members of at least k households, and a child does not get
its parents' age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.errors import InputError
from shoal.publish.stages.members import exchanged, main_axis, places_of
from shoal.publish.stages.survey import kept_rows

if TYPE_CHECKING:
    from shoal.publish.stages.encode import Encoded
    from shoal.publish.stages.plan import PublishPlan

HOME, STRATUM, ROWS, PART = "__home__", "__stratum__", "__rows__", "__part__"
# A column that so small a share of the households has several values of was probably meant to be the household's.
NEARLY_OWN = 0.05


@dataclass(frozen=True)
class Households:
    """What a pass over the table has found about its households.

    Attributes
    ----------
    table : polars.DataFrame
        For each household its stratum, its rows and the sums of their coordinates; and its part, once routed.
    differing : array of int64
        For each quasi-identifier the households that have more than one value of it.
    strata : list of tuple
        The strata, by their number in `table`.
    per_part : array of int64 or None
        Households of each part.
    """

    table: pl.DataFrame
    differing: np.ndarray
    strata: list[tuple[Any, ...]]
    per_part: np.ndarray | None = None

    @property
    def own(self) -> np.ndarray:
        """For each quasi-identifier whether it is the household's: each household has one value of it."""
        return self.differing == 0

    def notes(self, names: Sequence[str]) -> list[str]:
        """A sentence on each column of which nearly every household has one value: probably a mistake in the table."""
        few = np.flatnonzero((self.differing > 0) & (self.differing <= NEARLY_OWN * self.table.height))
        return [
            f"{names[at]!r} differs within {self.differing[at]:,} of {self.table.height:,} households, so it was "
            "protected among their members, not once for each household: correct these rows if it is the household's."
            for at in few.tolist()
        ]

    @property
    def per_stratum(self) -> dict[tuple[Any, ...], int]:
        """Households of each stratum."""
        return dict(zip(self.strata, np.bincount(self.table[STRATUM]).tolist(), strict=True))

    def routed(
        self, parts_of: Callable[[tuple[Any, ...], np.ndarray], np.ndarray | int], n_parts: int
    ) -> Households:
        """Each household sent to the part in which its middle lies."""
        sums = self.table.select(pl.exclude(HOME, STRATUM, ROWS)).to_numpy()
        centres = np.ascontiguousarray(sums / self.table[ROWS].to_numpy()[:, None])
        parts = np.zeros(self.table.height, np.int64)
        strata = self.table[STRATUM].to_numpy()
        for number, key in enumerate(self.strata):
            inside = np.flatnonzero(strata == number)
            parts[inside] = parts_of(key, centres[inside])
        table = self.table.select(HOME, pl.Series(PART, parts))
        return replace(self, table=table, per_part=np.bincount(parts, minlength=n_parts))

    def parts_of(self, batch: pl.DataFrame, household: str) -> np.ndarray:
        """The part of each row."""
        joined = batch.select(pl.col(household).alias(HOME)).join(
            self.table, on=HOME, how="left", maintain_order="left", nulls_equal=True
        )
        return joined[PART].to_numpy()


def household_sums(batch: pl.DataFrame, plan: PublishPlan) -> pl.DataFrame:
    """For each household of a decoded batch: rows, sums of coordinates, least and largest value of each column."""
    batch = kept_rows(batch, plan.roles.quasi)
    typed = plan.typed(batch)
    Z = plan.encoder.transform(typed)
    values = [np.where(each.missing, -np.inf, each.values) for each in typed]
    table = batch.select(pl.col(plan.roles.household or "").alias(HOME), *plan.roles.strata).with_columns(
        pl.lit(1, pl.Int64).alias(ROWS),
        *(pl.Series(f"z{j}", Z[:, j]) for j in range(Z.shape[1])),
        *(pl.Series(f"{end}{j}", each) for j, each in enumerate(values) for end in ("low", "high")),
    )
    return _added(table, plan)


def households_of(found: Iterable[pl.DataFrame], plan: PublishPlan) -> Households:
    """All of them together; a household must lie in one stratum."""
    table = _added(pl.concat(list(found)), plan).sort(HOME)
    if table[HOME].null_count():
        raise InputError(f"Each row must have a household. Cells of {plan.roles.household!r} are missing.")
    if table[HOME].n_unique() < table.height:
        raise InputError("A household must lie in one stratum. One has records in two.")
    differing = np.array(
        [int((table[f"low{j}"] != table[f"high{j}"]).sum()) for j in range(len(plan.templates))]
    )
    strata = list(plan.roles.strata)
    keys = table.select(strata).unique(maintain_order=True).rows() if strata else [()]
    number = {key: at for at, key in enumerate(keys)}
    codes = [number[key] for key in table.select(strata).rows()] if strata else [0] * table.height
    kept = table.select(HOME, pl.Series(STRATUM, codes, dtype=pl.Int64), ROWS, pl.col(r"^z\d+$"))
    return Households(kept, differing, keys)


def _added(table: pl.DataFrame, plan: PublishPlan) -> pl.DataFrame:
    return table.group_by(HOME, *plan.roles.strata, maintain_order=True).agg(
        pl.col(ROWS).sum(), pl.col(r"^z\d+$").sum(), pl.col(r"^low\d+$").min(), pl.col(r"^high\d+$").max()
    )


def within_households(part: Encoded, outer: np.ndarray, own: np.ndarray, k: int) -> np.ndarray:
    """Groups of members inside each set of households."""
    assert part.households is not None
    if own.all():
        return outer
    between = ~np.repeat(own, part.widths)
    labels, following = np.empty(outer.size, np.int64), 0
    for rows in np.split(np.argsort(outer, kind="stable"), np.cumsum(np.bincount(outer))[:-1]):
        Z = part.Z[np.ix_(rows, np.flatnonzero(between))]
        places = places_of(Z, part.households[rows], main_axis(Z))
        # From the last place on, those that too few households fill join the one before.
        counts = np.bincount(places)
        place = np.arange(counts.size)
        for last in range(counts.size - 1, 0, -1):
            if counts[last] < k:
                place[place == last] = last - 1
        found = np.unique(place[places], return_inverse=True)[1].reshape(-1)
        labels[rows] = following + found
        following += int(found.max()) + 1
    return exchanged(part.Z[:, between], labels, part.households, k)


def hold_together(labels: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Sets of households joined where a group now reaches over several of them."""
    parent = np.arange(int(outer.max()) + 1)

    def root(each: int) -> int:
        while parent[each] != each:
            each = int(parent[each])
        return each

    first: dict[int, int] = {}
    for label, home in np.unique(np.stack([labels, outer]), axis=1).T.tolist():
        a, b = root(first.setdefault(label, home)), root(home)
        parent[max(a, b)] = min(a, b)
    joined = np.array([root(each) for each in range(parent.size)])[outer]
    return np.unique(joined, return_inverse=True)[1].astype(np.int64).reshape(-1)
