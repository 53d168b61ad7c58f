"""The risk that a record is found by its quasi-identifiers, before protection and after: for the custodian."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import polars as pl

from shoal import risk
from shoal.publish.stages.roles import DecidedRoles
from shoal.publish.stages.survey import weights_of
from shoal.typing import Json

# Sets of columns times records that the search for special uniques may look at.
SUDA_CELLS = 20_000_000
# A record is special where no more columns than these single it out.
SPECIAL = 3
# Keys (records times columns) that are held at once, before and after: 320 MB. Larger tables are not measured.
MOST_KEYS = 20_000_000
NOT_MEASURED = (
    "The risk of being found before and after is not measured in a table of this size: it needs the keys of all records "
    "at once."
)


@dataclass(frozen=True)
class Identification:
    """The risk that a record is found by its quasi-identifiers.

    Attributes
    ----------
    before, after : dict
        Of the original and of the published table: figures by name, see `shoal.risk.Risk`.
    source : {"weights", "sample"}
        How the population was estimated.
    suda_size : int
        The size of the largest sets of columns in which special uniques were searched.
    per_column : dict
        How much each column adds to the mean risk before protection.
    """

    before: dict[str, float]
    after: dict[str, float]
    source: str
    suda_size: int
    per_column: dict[str, float]

    def to_dict(self) -> Json:
        """The figures as plain values."""
        return asdict(self)


def is_measured(n_records: int, plan: DecidedRoles) -> bool:
    """Whether the keys of so many records are held at once; the same wherever rows live."""
    return n_records * len(plan.roles.known) <= MOST_KEYS


def keys_of(rows: pl.DataFrame, plan: DecidedRoles, households: pl.Series | None = None) -> pl.DataFrame:
    """What the risk is measured on: a number for each quasi-identifier of each row, its weight and its household.

    Parameters
    ----------
    rows : polars.DataFrame
        Decoded rows, or rows as published.
    households : polars.Series, optional
        Of published rows, which do not hold it.
    """
    roles = plan.roles
    keys = [pl.col(name).hash(seed=7).reinterpret(signed=True) for name in roles.known]
    kept: list[pl.Series] = []
    if roles.weight is not None:
        kept.append(pl.Series(roles.weight, weights_of(rows, roles.weight)))
    if roles.household is not None:
        home = rows[roles.household] if households is None else households
        kept.append(home.hash(seed=7).reinterpret(signed=True).alias(roles.household))
    return rows.select(keys).with_columns(kept)


def identification(before: pl.DataFrame, after: pl.DataFrame, plan: DecidedRoles) -> Identification | None:
    """The same of a table in memory, its rows decoded and as published; None where it is too large."""
    if not is_measured(before.height, plan):
        return None
    home = None if plan.roles.household is None else before[plan.roles.household]
    return identification_of(keys_of(before, plan), keys_of(after, plan, home), plan)


def identification_of(before: pl.DataFrame, after: pl.DataFrame, plan: DecidedRoles) -> Identification:
    """Figures of re-identification on the original and on the published table, and what brings the risk.

    Parameters
    ----------
    before, after : polars.DataFrame
        The keys of all records, see `keys_of`.
    """
    roles = plan.roles
    fraction = None
    if roles.weight:
        weights = before[roles.weight].to_numpy()
        fraction = min(1.0, weights.size / float(weights.sum()))
    size = _suda_size(len(roles.known), before.height)
    return Identification(
        before=_figures(before, plan, size, fraction),
        after=_figures(after, plan, size, fraction),
        source="weights" if roles.weight else "sample",
        suda_size=min(size, SPECIAL),
        per_column=risk.column_risks(before, roles.known, weights=roles.weight),
    )


def _figures(
    table: pl.DataFrame, plan: DecidedRoles, suda_size: int, fraction: float | None
) -> dict[str, float]:
    roles = plan.roles
    found = risk.measure(table, roles.known, weights=roles.weight, households=roles.household)
    figures = {name: value for name, value in found.to_dict().items() if name != "source"}
    if roles.household is not None:
        homes = risk.composition(table, roles.known, roles.household)
        figures |= {f"households_below_{size}": count for size, count in homes.below.items()}
    if suda_size:
        special = risk.suda(table, roles.known, max_size=suda_size, sampling_fraction=fraction)
        figures["special_uniques"] = int(((special.n_minimal > 0) & (special.smallest <= SPECIAL)).sum())
        if special.dis_scores is not None:
            figures["dis_suda_largest"] = float(special.dis_scores.max())
    return figures


def _suda_size(columns: int, records: int) -> int:
    """The largest sets of columns to look at: all where that can be; 0 where even single columns are too many."""
    sets, size = 0, 0
    while size < columns:
        sets += math.comb(columns, size + 1)
        if sets > risk.MOST_SUBSETS or sets * records > SUDA_CELLS:
            break
        size += 1
    return size
