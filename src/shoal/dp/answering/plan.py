"""Plans: which whole numbers are released, and with how much noise. They depend only on query, schema, unit and epsilon.

The sensitivities are proven in docs/theory/sensitivities.md. Everything here is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from shoal.dp import budget
from shoal.dp.answering.releases import (
    LEAST_CHOSEN,
    Candidates,
    Fixed,
    Limit,
    Matrix,
    Mean,
    Pair,
    Ranks,
    Release,
    Sums,
)
from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.meaning.check import Keys, check, levels
from shoal.dp.meaning.lower import Lowered
from shoal.dp.meaning.relation import CELL, UNIT, Catalog
from shoal.dp.mechanisms.currency import EPSILON, Currency
from shoal.dp.sql.expressions import col
from shoal.dp.sql.query import Aggregate, Query
from shoal.dp.unit import AddRemoveCell, AddRemoveUnit, Protected
from shoal.errors import QueryError
from shoal.schema import Column, Schema

GRID = 1000  # steps of the public grid of a column that declares none
MOST_POINTS = 5_000_000
MOST_FIGURES = 200_000  # groups times figures
_SQUARED = 3 << 12  # of a row's whole number where squares are summed
_PRODUCED = 1 << 15  # of each row's whole numbers where their products are summed
_DIVISOR = 1 << 28  # of products of squares, so that 2^32 rows add up within int64
_AVERAGED = 1 << 24  # of a row's whole number where an average is drawn whole
_WIDEST = 1 << 57  # of a noise scale or an aim: its 95 % radius is exact in 64 bits


@dataclass(frozen=True)
class Plan:
    """The releases of a query, one for each figure and grouping set, and whom they protect.

    Parameters
    ----------
    query : Query
        Over plain columns; a figure for each release.
    schema : Schema
        Declares the computed columns as well.
    protected : Protected
    releases : tuple of Release
    lowered : Lowered
        What was asked, which columns are computed, and what is made of the figures.
    sets : tuple of tuple of int
        Of each release, the places of its group columns.
    """

    query: Query
    schema: Schema
    protected: Protected
    releases: tuple[Release, ...]
    lowered: Lowered
    sets: tuple[tuple[int, ...], ...]

    @cached_property
    def micro(self) -> int:
        """What the whole query costs."""
        return sum(release.micro for release in self.releases)

    @cached_property
    def size(self) -> int:
        """How many numbers are answered: figures times groups; public."""
        return sum(release.groups for release in self.releases)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of declared levels of each group column."""
        return tuple(len(levels(self.schema.columns[name]) or ()) for name in self.query.groups)

    @property
    def per_row(self) -> int:
        """How often epsilon counts for one row of a unit (docs/theory/composition.md)."""
        if self.lowered.relation is not None:  # one row below may move all that its unit adds
            return 2 if self.protected.kind in ("column", "cell") else 1
        return max(_per_row(release) for release in self.releases)

    @property
    def unit(self) -> Protected:
        """Whom these releases protect, with what they count for one row of it: the unit to be charged in."""
        if isinstance(self.protected, (AddRemoveUnit, AddRemoveCell)):
            return replace(self.protected, per_row=self.per_row)
        return self.protected


def _per_row(release: Release) -> int:
    """One row of a unit: once where its contribution is one clamped number, else as the unit taken out and put back."""
    if release.limit.column is None:
        return 1
    if isinstance(release, Sums):
        return 1 if release.scalar else 2
    return 1 if isinstance(release, Ranks) and release.extreme and release.groups == 1 else 2


def make_plan(
    query: Query,
    schema: Schema,
    protected: Protected,
    micro: int,
    catalog: Catalog | None = None,
    currency: Currency = EPSILON,
    keys: Keys | None = None,
) -> Plan:
    """Split a budget equally over the figures of a query and its grouping sets, or raise `QueryError`.

    Parameters
    ----------
    query : Query
    schema : Schema
    protected : Protected
    micro : int
    catalog : Catalog, optional
        The tables of a session that has several.
    currency : Currency
        What `micro` is counted in.
    keys : mapping of str to tuple, optional
        Values that were drawn, of columns that declare none.

    Returns
    -------
    Plan
    """
    unit = protected.column if protected.kind == "column" else None
    found = check(query, schema, unit or "", protected.rows, catalog, keys)
    counted = protected.rows if found.relation is None else min(protected.rows, found.relation.rows)
    said = check_options(found.asked, protected, micro, currency)
    found = replace(found, said=(*found.said, *said)) if said else found
    sets = found.asked.sets or (tuple(range(len(found.core.groups))),)
    figures = found.core.aggregates * len(sets)
    sizes = [len(levels(found.schema.columns[name]) or ()) for name in found.core.groups]
    shares = budget.split(micro, (1,) * len(figures))
    placed = tuple(chosen for chosen in sets for _ in found.core.aggregates)
    releases = tuple(
        replace(
            _release(
                aggregate,
                found.schema,
                _limit(protected, aggregate.kind, counted),
                part,
                math.prod(sizes[at] for at in chosen),
            ),
            currency=currency.name,
        )
        for aggregate, part, chosen in zip(figures, shares, placed, strict=True)
    )
    core = found.core if len(sets) == 1 else replace(found.core, aggregates=figures)
    plan = Plan(core, found.schema, protected, releases, found, placed)
    numbers = sum(release.groups for release in releases)
    if numbers > MOST_FIGURES:
        raise QueryError(
            f"A query may ask for at most {MOST_FIGURES} figures over all its groups. Got {numbers}."
        )
    for release in releases:
        _check_range(release, currency)
    points = sum(each.grid.size * each.groups for each in releases if isinstance(each, Ranks))
    if points > MOST_POINTS:
        raise QueryError(
            f"A query may have at most {MOST_POINTS} candidate values over all its groups; declare a larger 'step'. "
            f"Got {points}."
        )
    return plan


def _check_range(release: Release, currency: Currency) -> None:
    """Refuse what could leave 64 bits, by public facts: the largest noise, and the largest rank aimed at."""
    if isinstance(release, Sums):
        limit = None if release.steps is None else release.steps.limits[-1]
        fits = release.scale(limit) <= _WIDEST
    elif isinstance(release, Ranks):
        limit = None if release.steps is None else release.steps.limits[-1]
        fits = release.aim(limit) * release.part <= _WIDEST
    else:
        fits = release.steps.limits[-1] <= _WIDEST and release.aim <= _WIDEST
    if not fits:
        raise QueryError(
            f"With at most {release.limit.rows} rows of a unit and {currency.word} "
            f"{budget.epsilon(release.micro)} the noise of {release.figure.upper()} leaves 64 bits: "
            "declare fewer rows, or spend more."
        )


def _limit(protected: Protected, figure: str, counted: int) -> Limit:
    if protected.kind == "column":
        return Limit(counted, UNIT, counted >= LEAST_CHOSEN.get(figure, 32))
    if protected.kind == "cell":
        return Limit(protected.rows, CELL, protected.rows > 1)
    return Limit(protected.rows)


def _release(aggregate: Aggregate, schema: Schema, limit: Limit, micro: int, groups: int) -> Release:
    name = aggregate.column
    assert name is None or isinstance(name, str)  # the query is over plain columns
    if aggregate.kind == "count":
        return Sums("count", micro, name, None, ((1, 0, 0),), 1, limit, False, groups)
    if aggregate.kind == "distinct":
        return _distinct(str(name), schema, limit, micro, groups)
    column = schema.columns[name or ""]
    if aggregate.kind in ("min", "max", "quantile"):
        return Ranks(aggregate.kind, micro, column.name, grid_of(column), limit, groups, aggregate.q)
    bounds = finite_bounds(column)
    if aggregate.kind == "sum":
        fixed = from_zero(bounds, _bits(limit.rows))
        size = max(1, abs(fixed.least), abs(fixed.most))
        return Sums("sum", micro, name, fixed, ((0, 1, 0),), size, limit, fixed.least < 0, groups)
    if aggregate.other is not None:
        return _pair(aggregate, schema, limit, micro, groups)
    if aggregate.kind == "avg" and limit.chosen and groups == 1:
        return Mean(micro, column.name, from_low(bounds, _AVERAGED), limit)
    most = 1 << _bits(limit.rows) if aggregate.kind == "avg" else _SQUARED
    terms = averaged(most) if aggregate.kind == "avg" else squared(most)
    size, square = (most, most**2) if aggregate.kind == "avg" else _size_of_squares()
    return Sums(
        aggregate.kind,
        micro,
        name,
        from_low(bounds, most),
        terms,
        size,
        limit,
        aggregate.kind != "avg",
        groups,
        square=square,
    )


def _pair(aggregate: Aggregate, schema: Schema, limit: Limit, micro: int, groups: int) -> Sums:
    """Products of the terms of AVG give a covariance, those of VAR a correlation: docs/theory/sensitivities.md."""
    assert isinstance(aggregate.column, str)
    assert isinstance(aggregate.other, col)  # the query is over plain columns
    squares = aggregate.kind == "corr"
    most, divisor = (_SQUARED, _DIVISOR) if squares else (_PRODUCED, 1)
    polynomials = squared(most) if squares else averaged(most)
    each, length = _size_of_squares() if squares else (most, most**2)  # L1 size, square of the L2 size
    many = len(polynomials) ** 2
    x, y = (
        from_low(finite_bounds(schema.columns[name]), most)
        for name in (aggregate.column, aggregate.other.name)
    )
    # A product moves by at most half a whole number when it is rounded.
    size = -(-(each**2) // divisor) + (many if squares else 0)
    square = (-(-length // divisor) + (len(polynomials) if squares else 0)) ** 2
    return Sums(
        aggregate.kind,
        micro,
        aggregate.column,
        x,
        tuple(tuple(int(at == place + 1) for at in range(many + 1)) for place in range(many)),
        size,
        limit,
        squares,
        groups,
        square=square,
        pair=Pair(aggregate.other.name, y, polynomials, divisor),
    )


def _distinct(name: str, schema: Schema, limit: Limit, micro: int, groups: int) -> Sums:
    """Different units: each counts once in each group. Different values: each of a unit's rows shows at most one."""
    if name not in schema.columns or not name.endswith(" (levels)"):
        once = replace(
            limit, rows=min(limit.rows, groups), chosen=limit.chosen and groups >= LEAST_CHOSEN["units"]
        )
        return Sums("units", micro, None, None, ((1, 0, 0),), 1, once, False, groups)
    size = len(levels(schema.columns[name]) or ())
    return Sums(
        "distinct",
        micro,
        name,
        None,
        ((1, 0, 0),),
        1,
        replace(limit, rows=min(limit.rows, size * groups), chosen=False),
        False,
        groups,
    )


def check_options(query: Query, protected: Protected, micro: int, currency: Currency) -> list[str]:
    """Hold what a text declares about privacy against the session; what it changes nothing of is said."""
    said = []
    for name, value in query.options:
        if name == "epsilon":
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or currency.millionths(float(value)) != micro
            ):
                raise QueryError(
                    f"The text spends epsilon {value!r}, the request {currency.word} {budget.epsilon(micro)}: they must agree."
                )
        elif name == "privacy_unit_column":
            if protected.column != value:
                raise QueryError(
                    f"The unit of this data set is {protected.column or protected.kind!r}. Got privacy_unit_column = {value!r}."
                )
        elif name == "clamped_units":
            if protected.kind in ("column", "cell") and protected.rows > 1:
                raise QueryError(
                    "CLAMPED BETWEEN and contribution_bounds_per_group bound what all rows of a unit add, which is done here by the "
                    "schema's rows: write contribution_bounds_per_row => (low, high), or CLAMP(x, low, high)."
                )
        elif name == "privacy_clause":
            several = protected.kind in ("column", "cell") and protected.rows > 1
            if several and any(each.kind in ("avg", "quantile") for each in query.aggregates):
                raise QueryError(
                    "WITH DIFFERENTIAL_PRIVACY averages and ranks what each unit gives, not rows: write a sub-query that "
                    "groups by the unit, or leave the clause out."
                )
        elif name == "group_selection_strategy" and str(value).upper() == "PUBLIC_GROUPS":
            pass
        elif name in ("delta", "kappa", "k_threshold", "max_groups_contributed", "max_rows_contributed"):
            said.append(
                f"option {name} is not needed: groups are declared, and what a unit adds is bounded by the schema"
            )
        else:
            raise QueryError(
                f"Option {name!r} is not known. Known are epsilon, delta, privacy_unit_column, max_groups_contributed."
            )
    return said


def averaged(most: int) -> Matrix:
    """Terms of AVG: the sums of x - L and U - x. One row's add up to U - L."""
    return ((0, 1, 0), (most, -1, 0))


def squared(most: int) -> Matrix:
    """Terms of VAR: three polynomials of x that add up to a constant, docs/theory/sensitivities.md."""
    return ((0, -most, 4), (3 * most * most, -7 * most, 4), (0, 8 * most, -8))


@lru_cache(maxsize=1)
def _size_of_squares() -> tuple[int, int]:
    """The largest L1 size of one row's terms of VAR, and largest squared L2 size, over every number that a row can be."""
    v = np.arange(_SQUARED + 1, dtype=np.int64)
    sizes = np.abs([a + b * v + c * v * v for a, b, c in squared(_SQUARED)])
    # A square has up to 60 bits, so that three of them stay within int64.
    return int(sizes.sum(axis=0).max()), int((sizes**2).sum(axis=0).max())


def _bits(rows: int) -> int:
    """Bits of one row's whole number: 30, so that 2^32 rows add up within int64; fewer where a unit has many rows."""
    return max(10, min(30, 48 - rows.bit_length()))


def from_zero(bounds: tuple[float, float], bits: int = 30) -> Fixed:
    """How a summed column becomes whole: a power of two as quantum, and at most 2^bits quanta a row."""
    low, high = bounds
    exponent = (
        math.frexp(max(abs(low), abs(high)))[1] - bits
    )  # the largest lies in [2^(bits-1), 2^bits) quanta
    quantum = Fraction(2) ** exponent
    least, most = math.ceil(Fraction(low) / quantum), math.floor(Fraction(high) / quantum)
    return Fixed(bounds, 0.0, quantum, least, most)


def from_low(bounds: tuple[float, float], most: int) -> Fixed:
    """How an averaged column becomes whole: so many quanta from the lower bound to the upper one."""
    low, high = bounds
    quantum = (Fraction(high) - Fraction(low)) / most
    return Fixed(bounds, low, quantum, 0, most)


def grid_of(column: Column) -> Candidates:
    """The public grid of a column: its declared step, or a thousandth of its range."""
    low, high = finite_bounds(column)
    step = (
        {"ordered": 1.0, "date": 1.0}.get(column.kind, (high - low) / GRID)
        if column.step is None
        else column.step
    )
    size = int(min((high - low) / step, 2.0 * MOST_POINTS) + 1e-9) + 1
    return Candidates(low, float(step), size)
