"""Plans: which whole numbers are released with how much noise, fixed by query, schema, unit and epsilon alone.

Sensitivities are those of docs/theory/sensitivities.md. Everything here is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from shoal.dp import budget
from shoal.dp.check import levels
from shoal.dp.query import Aggregate, Query
from shoal.dp.unit import Protected
from shoal.errors import QueryError
from shoal.schema import Column, Schema

BETA = 0.05  # a MIN or MAX lies beyond the data with at most this probability
GRID = 1000  # steps of the public grid of a column that declares none
MOST_POINTS = 5_000_000
_LARGEST = 2**30  # of one row's whole number: 2^32 rows add up within int64


@dataclass(frozen=True)
class Fixed:
    """A row's number as a whole number of quanta: round((clamped x - offset)^power / quantum)."""

    bounds: tuple[float, float]
    offset: float
    power: int
    quantum: Fraction
    least: int
    most: int

    @property
    def sensitivity(self) -> int:
        """The largest size of one row's whole number."""
        return max(abs(self.least), abs(self.most))


@dataclass(frozen=True)
class Grid:
    """Public candidates low, low + step, ... of a minimum, maximum or quantile."""

    low: float
    step: float
    size: int


@dataclass(frozen=True)
class Release:
    """One vector of whole numbers to be released, a number (or histogram) per group.

    Parameters
    ----------
    kind : {"count", "sum", "rank"}
    micro : int
        What this release costs.
    sensitivity : int
        Of one row, in whole numbers; of a rank, times the denominator of `share`.
    factor : int
        Rows of the unit by which the noise is multiplied.
    rows : int
        At most so many rows of a unit, or of a cell, count.
    column : str, optional
        Rows in which it is missing do not count.
    fixed : Fixed, optional
        How a summed column becomes whole.
    grid : Grid, optional
        The candidates of a rank release.
    share : Fraction, optional
        Of a quantile; a minimum or maximum aims at a rank instead.
    aim : int, default 0
        Ranks inside the minimum (from below) or maximum (from above).
    from_above : bool, default False
    limit : {"", "select", "clamp"}, default ""
        Whether at most `rows` rows per unit are selected, or each cell's total is clamped to so many rows.
    """

    kind: str
    micro: int
    sensitivity: int
    factor: int
    rows: int
    column: str | None = None
    fixed: Fixed | None = None
    grid: Grid | None = None
    share: Fraction | None = None
    aim: int = 0
    from_above: bool = False
    limit: str = ""

    @cached_property
    def scale(self) -> Fraction:
        """Scale of the discrete Laplace noise."""
        return Fraction(self.sensitivity * self.factor * budget.MICRO, self.micro)

    @cached_property
    def rate(self) -> Fraction:
        """Rate of the exponential mechanism."""
        return Fraction(self.micro, 2 * self.sensitivity * self.factor * budget.MICRO)


@dataclass(frozen=True)
class Plan:
    """All releases of a query, one tuple per aggregate, and whom they protect."""

    query: Query
    schema: Schema
    protected: Protected
    releases: tuple[tuple[Release, ...], ...]

    @property
    def flat(self) -> tuple[Release, ...]:
        """All releases in order."""
        return tuple(release for part in self.releases for release in part)

    @cached_property
    def micro(self) -> int:
        """What the whole query costs."""
        return sum(release.micro for release in self.flat)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of declared levels of each group column."""
        return tuple(len(levels(self.schema.columns[name]) or ()) for name in self.query.groups)

    @property
    def n_groups(self) -> int:
        """Number of groups answered, all combinations of levels."""
        return math.prod(self.shape)

    @property
    def together(self) -> str | None:
        """The column whose equal values must lie in one part before partial results are taken, if any."""
        if all(release.limit != "select" for release in self.flat):
            return None
        return CELL if self.protected.kind == "cell" else UNIT


UNIT, CELL = "shoal:unit", "shoal:cell"
_WEIGHTS = {"avg": (1, 1), "var": (1, 1, 1)}


def make_plan(query: Query, schema: Schema, protected: Protected, micro: int) -> Plan:
    """Split a budget over the releases a checked query needs.

    Parameters
    ----------
    query : Query
        Must have passed `shoal.dp.query.check`.
    schema : Schema
    protected : Protected
    micro : int
        Equal shares for the aggregates, equal shares within AVG (sum, count) and VAR (squares, sum, count).

    Returns
    -------
    Plan
    """
    shares = budget.split(micro, (1,) * len(query.aggregates))
    releases = []
    for aggregate, part in zip(query.aggregates, shares, strict=True):
        weights = _WEIGHTS.get(aggregate.kind, (1,))
        releases.append(
            _releases(aggregate, schema, protected, budget.split(part, weights), bool(query.groups))
        )
    plan = Plan(query, schema, protected, tuple(releases))
    points = max((release.grid.size for release in plan.flat if release.grid), default=0) * plan.n_groups
    if points > MOST_POINTS:
        raise QueryError(
            f"A query may have at most {MOST_POINTS} candidate values over all its groups; declare a larger 'step'. "
            f"Got {points}."
        )
    return plan


def _releases(
    aggregate: Aggregate, schema: Schema, protected: Protected, micros: tuple[int, ...], grouped: bool
) -> tuple[Release, ...]:
    rows, name = protected.rows, aggregate.column
    limit = {"column": "select", "cell": "clamp"}.get(protected.kind, "")
    if limit == "clamp" and (grouped or aggregate.kind == "quantile"):
        limit = "select"
    # One row more can swap a selected row of its cell for another: two rows' worth, also where tau is 1.
    factor = max(2, rows) if protected.kind == "cell" and limit == "select" else rows
    if aggregate.kind == "count":
        return (Release("count", micros[0], 1, factor, rows, name, limit=limit),)
    column = schema.columns[name or ""]
    if aggregate.kind in ("min", "max", "quantile"):
        return (_rank(aggregate, column, factor, rows, micros[0], limit),)
    centre = 0.0 if aggregate.kind == "sum" else column.bounds[0] / 2 + column.bounds[1] / 2  # type: ignore[index]
    powers = {"sum": (1,), "avg": (1,), "var": (2, 1)}[aggregate.kind]
    sums = []
    for power, part in zip(powers, micros, strict=False):
        fixed = fixed_point(column, centre, power)
        sums.append(Release("sum", part, max(1, fixed.sensitivity), factor, rows, name, fixed, limit=limit))
    if aggregate.kind != "sum":
        sums.append(Release("count", micros[-1], 1, factor, rows, name, limit=limit))
    return tuple(sums)


def fixed_point(column: Column, offset: float, power: int) -> Fixed:
    """How a column's rows become whole numbers of at most about 2^30, by its declared bounds alone."""
    low, high = finite_bounds(column)
    ends = [(Fraction(low) - Fraction(offset)) ** power, (Fraction(high) - Fraction(offset)) ** power]
    if power == 2:
        ends = [Fraction(0), max(ends)]
    largest = max(abs(end) for end in ends)
    quantum = Fraction(0)
    if column.step is not None and power == 1 and not offset:
        quantum = Fraction(str(column.step))
    if not quantum or largest / quantum > _LARGEST:
        exponent = math.frexp(float(largest))[1] - 30  # largest / 2^exponent lies in [2^29, 2^30]
        quantum = Fraction(2) ** exponent
    return Fixed(
        (low, high), offset, power, quantum, math.ceil(ends[0] / quantum), math.floor(ends[1] / quantum)
    )


def finite_bounds(column: Column) -> tuple[float, float]:
    """Declared bounds as floats (dates in days, ordered levels by position)."""
    if column.kind == "ordered":
        return 0.0, float(len(column.levels or ()) - 1)
    assert column.bounds is not None  # query.check has seen to it
    low, high = (_as_number(each) for each in column.bounds)
    if not (math.isfinite(low) and math.isfinite(high) and max(abs(low), abs(high)) <= 1e100):
        raise QueryError(f"The declared bounds of column {column.name!r} must be numbers within 1e100.")
    return low, high


def _as_number(value: object) -> float:
    if hasattr(value, "toordinal"):
        return float(value.toordinal())
    if isinstance(value, str):
        import datetime

        return float(datetime.date.fromisoformat(value).toordinal())
    return float(value)  # type: ignore[arg-type]


def grid_of(column: Column) -> Grid:
    """The public grid of a column: its declared step, or a thousandth of its range."""
    low, high = finite_bounds(column)
    step = (
        {"ordered": 1.0, "date": 1.0}.get(column.kind, (high - low) / GRID)
        if column.step is None
        else column.step
    )
    size = int(min((high - low) / step, 2.0 * MOST_POINTS) + 1e-9) + 1
    return Grid(low, float(step), size)


def _rank(aggregate: Aggregate, column: Column, factor: int, rows: int, micro: int, limit: str) -> Release:
    grid = grid_of(column)
    if aggregate.q is not None:
        sensitivity = max(aggregate.q.numerator, aggregate.q.denominator - aggregate.q.numerator)
        return Release(
            "rank", micro, sensitivity, factor, rows, column.name, grid=grid, share=aggregate.q, limit=limit
        )
    aim = math.ceil(2 * factor * budget.MICRO / micro * math.log(grid.size / BETA))
    return Release(
        "rank",
        micro,
        1,
        factor,
        rows,
        column.name,
        grid=grid,
        aim=aim,
        from_above=aggregate.kind == "max",
        limit=limit,
    )
