"""The check of what would be published: how many records share its columns, and what the models say.

A 64-bit hash of the published cells distinguishes records. So batches that are written one after the other, here or on many
machines, are counted like a table in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from shoal import privacy
from shoal.errors import GuaranteeError
from shoal.privacy import Verdict
from shoal.publish.stages.distances import distances_of
from shoal.publish.stages.release import hidden
from shoal.publish.stages.roles import DecidedRoles
from shoal.schema.steps import CONDITIONS

# A class on the protected columns, on all that are not sensitive, a row's household, which protected cells are
# missing (their places, each with a comma), and rows; and a column for each identifier that is published as a hash.
KNOWN, OPEN, HOME, GAP, ROWS = "__known__", "__open__", "__home__", "__gap__", "__rows__"
LINK = "__link__"


@dataclass(frozen=True)
class Exposure:
    """What the published table reveals by itself.

    Attributes
    ----------
    at_risk : float
        Share of records whose published values, without the sensitive ones, occur in fewer than k records.
    columns : tuple of str
        These columns.
    attributes : mapping of str to float
        For each sensitive column, the share of records that have the same value as every record that looks like them.
    linked : mapping of str to float
        For each identifier that is published as a hash, the share of records that are at risk by all rows with their
        hash together: these rows look like those of fewer than k others.
    """

    at_risk: float
    columns: tuple[str, ...]
    attributes: Mapping[str, float]
    linked: Mapping[str, float] = field(default_factory=dict)


def class_rows(
    published: pl.DataFrame, plan: DecidedRoles, households: pl.Series | None = None
) -> pl.DataFrame:
    """The classes of published rows, with counts; equal rows are added up."""
    roles = plan.roles
    sensitive = [pl.col(name) for name in roles.sensitive]
    home = [] if households is None else [households.hash(seed=7).alias(HOME)]
    links = [
        pl.when(pl.col(name).is_not_null()).then(pl.col(name).hash(seed=7)).alias(LINK + name)
        for name in _hashed(plan)
    ]
    rows = published.select(
        pl.struct(roles.known).hash(seed=7).alias(KNOWN),
        pl.struct(*roles.open, *_minus_zeros(published, roles.left)).hash(seed=7).alias(OPEN),
        _gaps(published, roles.known).alias(GAP),
        *sensitive,
        *home,
        *links,
    )
    return rows.group_by(pl.all()).len(ROWS).with_columns(pl.col(ROWS).cast(pl.Int64))


def _gaps(published: pl.DataFrame, names: list[str]) -> pl.Expr:
    """Which of the named cells of each row are missing."""
    some = [(place, name) for place, name in enumerate(names) if published[name].null_count()]
    each = [
        pl.when(pl.col(name).is_null()).then(pl.lit(f"{place},")).otherwise(pl.lit(""))
        for place, name in some
    ]
    return pl.concat_str(each) if each else pl.lit("")


def _missing_cells(classes: pl.DataFrame, names: list[str]) -> dict[str, int]:
    """Missing cells of each of the named columns that has any."""
    gaps = classes.filter(pl.col(GAP) != "").group_by(GAP).agg(pl.col(ROWS).sum()).rows()
    counts = dict.fromkeys(range(len(names)), 0)
    for places, rows in gaps:
        for place in places.split(",")[:-1]:
            counts[int(place)] += rows
    return {names[place]: count for place, count in counts.items() if count}


def _minus_zeros(published: pl.DataFrame, names: Iterable[str]) -> list[pl.Expr]:
    """Whether cells are zeros with a minus: equal to zero, so that they hash alike, but not written alike."""
    floats = [name for name in names if published.schema[name].is_float()]
    return [(1 / pl.col(name) == -float("inf")).alias(f"__minus__{name}") for name in floats]


def _hashed(plan: DecidedRoles) -> list[str]:
    """Identifiers that are published as hashes. Everyone can see which rows have the same hash."""
    return hidden(plan.roles) if plan.request.identifiers != "drop" else []


def added(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Classes of several batches together."""
    whole = pl.concat(list(frames))
    return whole.group_by(pl.exclude(ROWS)).agg(pl.col(ROWS).sum())


def verdicts_of(published: pl.DataFrame, classes: pl.DataFrame, plan: DecidedRoles) -> tuple[Verdict, ...]:
    """The models on a published table in memory."""
    distances, levels = distances_of(plan.roles)
    found = privacy.check(
        published, plan.roles.known, list(plan.roles.sensitive), k=plan.request.k,
        **_demands(plan), distance=distances, levels=levels,
    )  # fmt: skip
    return (*found, *of_households(classes, plan))


def verdicts_of_classes(
    classes: pl.DataFrame, plan: DecidedRoles, *, demanded: bool = True
) -> tuple[Verdict, ...]:
    """The same on classes that were counted while batches were written. Without a demand, k is only reported."""
    sensitive = list(plan.roles.sensitive)
    distances, levels = distances_of(plan.roles)
    by = classes.group_by(KNOWN, *sensitive).agg(pl.col(ROWS).sum())
    rows = by.select(KNOWN, *sensitive)[np.repeat(np.arange(by.height), by[ROWS].to_numpy())]
    gaps = int(classes.filter(pl.col(GAP) != "")[ROWS].sum())
    missing = _missing_cells(classes, plan.roles.known)
    found = privacy.check(
        rows, [KNOWN], sensitive, k=plan.request.k if demanded else None, **_demands(plan), distance=distances, levels=levels,
    )  # fmt: skip
    note = "Counted while the rows were written; a 64-bit hash distinguishes the classes."
    named = (
        replace(
            each, quasi=tuple(plan.roles.known), worst=(), labels=None, classes_at_risk=None,
            missing=missing | {name: count for name, count in each.missing.items() if name != KNOWN},
            missing_records=gaps, notes=(*each.notes, note),
        )
        for each in found
    )  # fmt: skip
    return (*named, *of_households(classes, plan))


def _demands(plan: DecidedRoles) -> dict[str, float | None]:
    """What was asked of the sensitive columns."""
    return {name: getattr(plan.request, name) for name in CONDITIONS}


def refuse_broken(verdicts: Iterable[Verdict]) -> None:
    """Raise `GuaranteeError` if a model that was asked for does not hold."""
    for verdict in verdicts:
        if verdict.holds is False:
            raise GuaranteeError(
                f"The protected table does not keep its promise, so it is not given out: {verdict}"
            )


def exposure_of(classes: pl.DataFrame, plan: DecidedRoles) -> Exposure:
    """What all published columns together reveal."""
    sensitive = list(plan.roles.sensitive)
    by = classes.group_by(OPEN).agg(
        pl.col(ROWS).sum(), *(pl.col(name).n_unique().alias(f"{ROWS}{j}") for j, name in enumerate(sensitive))
    )
    n = max(1, int(by[ROWS].sum()))
    return Exposure(
        at_risk=int(by.filter(pl.col(ROWS) < plan.request.k)[ROWS].sum()) / n,
        columns=tuple(plan.roles.open),
        attributes={
            name: int(by.filter(pl.col(f"{ROWS}{j}") == 1)[ROWS].sum()) / n
            for j, name in enumerate(sensitive)
        },
        linked={name: _linked_share(classes, LINK + name, plan.request.k) / n for name in _hashed(plan)},
    )


def _linked_share(classes: pl.DataFrame, link: str, k: int) -> int:
    """Records whose linked rows, all taken together, are alike for fewer than k hashes."""
    rows = classes.filter(pl.col(link).is_not_null()).group_by(link, OPEN).agg(pl.col(ROWS).sum())
    alike = [pl.struct(OPEN, ROWS).hash(seed=seed).sum().alias(f"{link}{seed}") for seed in (3, 5)]
    each = rows.group_by(link).agg(*alike, pl.col(ROWS).sum())
    sets = each.group_by(f"{link}3", f"{link}5").agg(pl.len().alias("hashes"), pl.col(ROWS).sum())
    return int(sets.filter(pl.col("hashes") < k)[ROWS].sum())


def of_households(classes: pl.DataFrame, plan: DecidedRoles) -> tuple[Verdict, ...]:
    """How many households share the protected columns, if there are households."""
    if HOME not in classes.columns:
        return ()
    by = classes.group_by(KNOWN).agg(pl.col(HOME).n_unique().alias("homes"), pl.col(ROWS).sum())
    k, fewest = plan.request.k, int(by["homes"].min())  # type: ignore[arg-type]
    return (
        Verdict(
            model="k-anonymity of households",
            quasi=tuple(plan.roles.known),
            sensitive=None,
            value=fewest,
            limit=k,
            holds=fewest >= k,
            n_records=int(by[ROWS].sum()),
            n_classes=by.height,
            worst=(),
            records_at_risk=int(by.filter(pl.col("homes") < k)[ROWS].sum()),
            notes=("Households that share the protected columns of a record, counted instead of records.",),
        ),
    )
