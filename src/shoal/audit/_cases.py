"""Neighbouring tables on which mechanisms tend to break, and the real path from them to noisy numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from shoal.audit._game import Mechanism
from shoal.audit._likelihood import log_likelihood
from shoal.dp import budget, heuristic
from shoal.dp.answering.exact import compute
from shoal.dp.answering.noise import add_noise
from shoal.dp.answering.plan import Plan, make_plan
from shoal.dp.answering.releases import Mean, Sums
from shoal.dp.correlation import GivenDegrees, Grid
from shoal.dp.loading.load import load, protect_rows
from shoal.dp.meaning.check import plain_query
from shoal.dp.mechanisms import tau
from shoal.dp.mechanisms.currency import EPSILON, Currency
from shoal.dp.sql.parse import parse
from shoal.dp.unit import resolve
from shoal.schema import Cells, Column, Schema, Unit
from shoal.typing import Keywords, Record

MODES = ("dp", "group", "correlated", "heuristic", "zcdp")
Rows = list[Record]
Changed = Callable[[Plan], Plan]


@dataclass(frozen=True)
class AuditCase:
    """A query on two tables that differ by one unit.

    Parameters
    ----------
    name : str
    mode : str
    sql : str
        "TAU r=..." stands for choosing tau.
    before, after : list of dict
        Rows with x (bounds -50 to 10), big (0 to 2e16), level (a, b) and unit; anything may be missing.
    options : dict
        Unit, group or tau of the mode; degrees of the heuristic.
    row : bool, default False
        The tables differ by one row of a unit, for which the plan states how often epsilon counts.
    """

    name: str
    mode: str
    sql: str
    before: Rows
    after: Rows
    options: Keywords = field(default_factory=dict)
    row: bool = False


def schema_of(case: AuditCase) -> Schema:
    """The public facts of the audited tables."""
    return Schema(
        {
            "x": Column("x", bounds=(-50, 10), step=1),
            "big": Column("big", bounds=(0, 2e16)),
            "level": Column("level", kind="category", levels=("a", "b")),
            "unit": Column("unit", kind="category"),
        },
        unit=case.options.get("unit", Unit()),
        cells=Cells(("x",), 60),
    )


def frame_of(rows: Rows) -> pl.DataFrame:
    """A table as it would come from a file: numbers may be anything."""
    types = {"x": pl.Float64, "big": pl.Float64, "level": pl.String, "unit": pl.String}
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in types}, schema=types)


def mechanism(
    case: AuditCase,
    epsilon: float,
    computed: Changed | None = None,
    drawn: Changed | None = None,
    currency: Currency = EPSILON,
) -> Mechanism:
    """The real load, plan, compute and noise of a case, to be played against.

    In zCDP `epsilon` is a rho.
    `computed` and `drawn` change the plan by which figures are computed or noise is drawn.
    """
    schema = schema_of(case)
    tables = [load(frame_of(rows), schema) for rows in (case.before, case.after)]
    if case.mode == "heuristic":
        return _heuristic(case, epsilon, schema, tables)
    model = Grid.of_schema(schema) if case.mode == "correlated" else None
    unit = resolve(case.mode, schema, case.options.get("group"), model, case.options.get("tau", 4))
    ready = [
        protect_rows(table, frame_of(rows), schema, unit, model)
        for table, rows in zip(tables, (case.before, case.after), strict=True)
    ]
    if case.sql.startswith("TAU"):
        return _tau(case, epsilon, [np.asarray(model.cell(table)) for table in ready], model.n_cells)  # type: ignore[union-attr]
    plan = make_plan(parse(case.sql), schema, unit, budget.micro(epsilon), None, currency)
    exact = [compute(table, computed(plan) if computed else plan) for table in ready]
    noise_plan = drawn(plan) if drawn else plan

    likelihoods = [log_likelihood(noise_plan, each) for each in exact]

    def sample(side: int, draws: int) -> np.ndarray:
        return columns_of(noise_plan, add_noise(noise_plan, exact[side], draws), likelihoods)

    claimed = epsilon * currency.times(plan.per_row if case.row else 1)
    return Mechanism(case.name, claimed, sample, names_of(noise_plan), rho=not currency.pure)


def columns_of(
    plan: Plan, noisy: tuple[np.ndarray, ...], likelihoods: Sequence[Callable[..., np.ndarray]]
) -> np.ndarray:
    """Every released number, their sum, averages, and the likelihood ratio of the two tables."""
    released = np.concatenate(noisy, axis=1).astype(np.float64)
    shown = [released, released.sum(axis=1, keepdims=True)]
    for release, drawn in zip(plan.releases, noisy, strict=True):
        if release.figure == "avg" and isinstance(release, Sums):
            above, below = (drawn[:, drawn.shape[1] - release.width + at :: 2] for at in (0, 1))
            shown.append(above / np.maximum(1, above + below))
    ratio = likelihoods[1](noisy) - likelihoods[0](noisy)
    return np.concatenate([*shown, ratio[:, None]], axis=1)


def names_of(plan: Plan) -> tuple[str, ...]:
    """Names of the columns of `columns_of`."""
    names, averages = [], []
    for aggregate, release in zip(plan.query.aggregates, plan.releases, strict=True):
        numbers = 3 if isinstance(release, Mean) else release.groups
        if isinstance(release, Sums):
            numbers = release.width
        drawn = not isinstance(release, Mean) and release.steps is not None
        names += [f"{aggregate.name} (limit)"] * drawn
        names += [f"{aggregate.name} (number {at})" for at in range(numbers)]
        if release.figure == "avg" and isinstance(release, Sums):
            averages += [aggregate.name] * release.groups
    return (*names, "the sum of all numbers", *averages, "the log-likelihood ratio")


def _tau(case: AuditCase, epsilon: float, cells: list[np.ndarray], n_cells: int) -> Mechanism:
    r, micro = int(case.sql.rpartition("=")[2]), budget.micro(epsilon)
    apart = [tau.tau_distances(np.bincount(each, minlength=n_cells), r) for each in cells]
    return Mechanism(
        case.name,
        epsilon,
        lambda side, draws: tau.draw_tau(apart[side], micro, draws)[:, None].astype(np.float64),
        ("log2 of tau",),
    )


def _heuristic(case: AuditCase, epsilon: float, schema: Schema, tables: list[pl.DataFrame]) -> Mechanism:
    query = plain_query(parse(case.sql), schema)
    aggregate = query.aggregates[0]
    found = []
    for table, degrees in zip(tables, case.options["degrees"], strict=True):
        model = heuristic.fitted(GivenDegrees(matrix=degrees) if len(degrees) else None, table)
        found.append(heuristic.exact_and_sensitivity(aggregate, table, np.arange(table.height), model))

    def sample(side: int, draws: int) -> np.ndarray:
        f, sensitivity = found[side]
        return heuristic.noisy(math.nan if f is None else f, sensitivity, epsilon, draws)[:, None]

    return Mechanism(case.name, epsilon, sample, (aggregate.name,))


def _rows(*values: Any, **same: Any) -> Rows:
    return [{"x": value, **same} for value in values]


_BASE = _rows(3.0, -20.0)
_ONE = "SELECT COUNT(*) FROM t"
_SUM, _AVG, _VAR = "SELECT SUM(x) FROM t", "SELECT AVG(x) FROM t", "SELECT VAR_POP(x) FROM t"
_MIN, _MAX, _MEDIAN = "SELECT MIN(x) FROM t", "SELECT MAX(x) FROM t", "SELECT MEDIAN(x) FROM t"
_HISTOGRAM = "SELECT level, COUNT(*) FROM t GROUP BY level"
_LEVELS = [{"x": 1.0, "level": "a"}, {"x": 2.0, "level": "b"}]


def _dp(name: str, sql: str, before: Rows, more: Rows, **options: Any) -> AuditCase:
    return AuditCase(name, "dp", sql, before, before + more, options)


_DP = (
    _dp("one row against none", _ONE, [], _rows(1.0)),
    _dp("a row at the upper bound", _SUM, _BASE, _rows(10.0)),
    _dp("a row at the lower bound, the larger one", _SUM, _BASE, _rows(-50.0)),
    _dp("a row beyond the bounds", _SUM, _BASE, _rows(-1e12)),
    _dp("a row that is not a number", _SUM, _BASE, _rows(math.nan)),
    _dp("an infinite row", _SUM, _BASE, _rows(-math.inf)),
    _dp("a missing row", "SELECT SUM(x), COUNT(x), COUNT(*) AS n FROM t", _BASE, _rows(None)),
    _dp("an average of none against one", _AVG, [], _rows(-50.0)),
    _dp("an average of one against two", _AVG, _rows(10.0), _rows(-50.0)),
    _dp("a variance of one against two", _VAR, _rows(10.0), _rows(-50.0)),
    _dp("a maximum of none against one", _MAX, [], _rows(10.0)),
    _dp("a maximum of many ties against one more at the end", _MAX, _rows(*[0.0] * 30), _rows(10.0)),
    _dp("a minimum of many ties against one more at the end", _MIN, _rows(*[0.0] * 30), _rows(-50.0)),
    _dp("a median between two heaps", _MEDIAN, _rows(*[-50.0] * 5, *[10.0] * 5), _rows(10.0)),
    _dp("a rare quantile", "SELECT QUANTILE(x, 0.9) FROM t", _rows(*[-50.0] * 9), _rows(10.0)),
    _dp("a row of a declared level", _HISTOGRAM, _LEVELS, [{"x": 1.0, "level": "a"}]),
    _dp("a row of an undeclared level", _HISTOGRAM, _LEVELS, [{"x": 1.0, "level": "z"}]),
    _dp("a number that floats round away", "SELECT SUM(big) FROM t", [{"big": 1e16}], [{"big": 1e16 + 2}]),
)
_PERSON = {"unit": Unit("unit", 2)}
_PERSONS = tuple(
    _dp(f"a person with more rows than count: {name}", sql, _rows(1.0, unit="q"), rows, **_PERSON)
    for name, sql, rows in (
        ("count", _ONE, _rows(1.0, 2.0, 3.0, unit="p")),
        ("sum", _SUM, _rows(-50.0, -50.0, -50.0, unit="p")),
        ("average", _AVG, _rows(-50.0, -50.0, -50.0, unit="p")),
        ("histogram", _HISTOGRAM, [{"x": 1.0, "level": each, "unit": "p"} for each in "aab"]),
        ("maximum", _MAX, _rows(10.0, 10.0, 10.0, unit="p")),
        ("rows without a person", _ONE, _rows(1.0, 2.0, 3.0, 4.0)),
    )
)
_MANY = {"unit": Unit("unit", 40)}
_OTHER_PERSONS = [
    {"x": float(each % 9), "unit": str(each // 3), "level": "ab"[each % 2]} for each in range(60)
]
_LOOSELY = tuple(
    _dp(f"a loosely declared person: {name}", sql, _OTHER_PERSONS, rows, **_MANY)
    for name, sql, rows in (
        ("count", _ONE, _rows(*[1.0] * 45, unit="p")),
        ("sum", _SUM, _rows(*[-50.0] * 45, unit="p")),
        ("average", _AVG, _rows(*[-50.0] * 45, unit="p")),
        ("variance", _VAR, _rows(*[-50.0] * 45, unit="p")),
        ("histogram", _HISTOGRAM, [{"x": 1.0, "level": "ab"[each % 2], "unit": "p"} for each in range(45)]),
        ("median", _MEDIAN, _rows(*[10.0] * 45, unit="p")),
        ("maximum", _MAX, _rows(*[10.0] * 45, unit="p")),
    )
)
_GROUP = tuple(
    AuditCase(f"{name}: {what}", "group", sql, _BASE, _BASE + rows, {"group": unit})
    for name, unit, same in (
        ("three records", 3, {}),
        ("a household with more rows than count", Unit("unit", 3), {"unit": "h"}),
    )
    for what, sql, rows in (
        ("count", _ONE, _rows(1.0, 2.0, 3.0, **same) + (_rows(1.0, **same) if same else [])),
        ("sum", _SUM, _rows(-50.0, -50.0, -50.0, **same) + (_rows(-50.0, **same) if same else [])),
        ("average", _AVG, _rows(-50.0, -50.0, -50.0, **same)),
        ("median", _MEDIAN, _rows(10.0, 10.0, 10.0, **same)),
        ("histogram", _HISTOGRAM, [{"x": 1.0, "level": each, **same} for each in "aab"]),
    )
)
_CELL = _rows(*[-50.0] * 9)  # a whole cell of tau + 5
_OTHERS = _rows(*[float(value) for value in range(-40, -10)])
_WHOLE_CELLS = tuple(
    AuditCase(f"a whole cell of tau + 5: {name}", "correlated", sql, _OTHERS, _OTHERS + rows)
    for name, sql, rows in (
        ("count", _ONE, _CELL),
        ("sum", _SUM, _CELL),
        ("average", _AVG, _CELL),
        ("variance", _VAR, _CELL),
        ("histogram", _HISTOGRAM, [{**row, "level": "ab"[i % 2]} for i, row in enumerate(_CELL)]),
        ("minimum", _MIN, _CELL),
        ("maximum", _MAX, _rows(*[10.0] * 9)),
        ("median", _MEDIAN, _CELL),
        ("missing values", _SUM, _rows(*[None] * 9)),
        ("choosing tau", "TAU r=1", _CELL + _rows(*[-45.0] * 9)),
        ("a cell that crosses r", "TAU r=0", _CELL),
    )
)
_ONE_SWAP = AuditCase(
    "one row of a cell that counts once",
    "correlated",
    _HISTOGRAM,
    [{"x": -50.0, "level": "b"}],
    [{"x": -50.0, "level": "a"}, {"x": -50.0, "level": "b"}],
    {"tau": 1},
    row=True,
)
_ONE_ROW = tuple(
    AuditCase(
        f"one row of a cell: {name}", "correlated", sql, _OTHERS + _CELL[:3], _OTHERS + _CELL[:4], row=True
    )
    for name, sql in (
        ("count", _ONE),
        ("sum", _SUM),
        ("average", _AVG),
        ("median", _MEDIAN),
        ("minimum", _MIN),
    )
)
_PAIR = [[1.0, 0.9], [0.9, 1.0]]
_HEURISTIC = (
    AuditCase(
        "two rows of degree 0.9 against one",
        "heuristic",
        _ONE,
        _rows(1.0),
        _rows(1.0, 1.0),
        {"degrees": ([[1.0]], _PAIR)},
    ),
    AuditCase("one row against none", "heuristic", _ONE, [], _rows(1.0), {"degrees": ((), [[1.0]])}),
    AuditCase(
        "a sum of zeros", "heuristic", _SUM, _rows(0.0), _rows(0.0, 5.0), {"degrees": ([[1.0]], _PAIR)}
    ),
    AuditCase("an average of none", "heuristic", _AVG, [], _rows(4.0), {"degrees": ((), [[1.0]])}),
    AuditCase(
        "a tied maximum",
        "heuristic",
        _MAX,
        _rows(4.0, 4.0),
        _rows(4.0, 4.0, 9.0),
        {"degrees": (_PAIR, np.eye(3))},
    ),
)
_ROLLUP = "SELECT level, COUNT(*) AS n FROM t GROUP BY ROLLUP(level)"
_COMPUTED = (
    _dp(
        "a computed row beyond its bounds",
        "SELECT SUM(x * x - big) FROM t",
        _BASE,
        [{"x": -1e9, "big": 9e99}],
    ),
    _dp(
        "a row divided by nothing", "SELECT SUM(CLAMP(big / x, 0, 5)) FROM t", _BASE, [{"x": 0.0, "big": 1.0}]
    ),
    _dp("a row of a computed group", "SELECT COUNT(*) FROM t GROUP BY FLOOR(x / 30)", _BASE, _rows(10.0)),
    _dp("a row in every grouping set", _ROLLUP, _LEVELS, [{"x": 1.0, "level": "a"}]),
    _dp("a value that no other row shows", "SELECT COUNT(DISTINCT x) FROM t", _rows(1.0), _rows(-50.0)),
    _dp("a covariance", "SELECT COVAR_POP(x, big) FROM t", _rows(10.0), [{"x": -50.0, "big": 2e16}]),
    _dp(
        "a covariance of a row beyond its bounds",
        "SELECT COVAR_POP(x, big) FROM t",
        [],
        [{"x": 9e9, "big": 1e18}],
    ),
    _dp("a correlation", "SELECT CORR(x, big) FROM t", [], [{"x": -50.0, "big": 9e99}]),
)
_RELATED = tuple(
    _dp(f"a person of several rows: {name}", sql, _rows(1.0, 4.0, unit="q"), rows, **_PERSON)
    for name, sql, rows in (
        ("counted once", "SELECT COUNT(DISTINCT unit) FROM t", _rows(1.0, 2.0, 3.0, unit="p")),
        ("more values than count", "SELECT COUNT(DISTINCT x) FROM t", _rows(*range(-9, 0), unit="p")),
        (
            "added up below the noise",
            "SELECT SUM(s) FROM (SELECT unit, SUM(x) AS s FROM t GROUP BY unit) q",
            _rows(-50.0, -50.0, -50.0, unit="p"),
        ),
        (
            "joined with itself",
            "SELECT COUNT(*) FROM t a JOIN t b ON a.unit = b.unit",
            _rows(*[1.0] * 5, unit="p"),
        ),
        (
            "kept by one of its rows",
            "SELECT COUNT(*) FROM t WHERE unit IN (SELECT unit FROM t WHERE x > 3)",
            _rows(1.0, 2.0, 4.0, unit="p"),
        ),
    )
)
_FOUR = {"unit": Unit("unit", 4)}
_CONCENTRATED = (
    *_DP[:3],
    *(each for each in _DP if each.name.startswith(("an average", "a variance", "a median", "a row of a"))),
    *(each for each in _COMPUTED if each.name.startswith(("a covariance", "a correlation"))),
    *_PERSONS,
    *_LOOSELY,
    _dp(
        "a person whose rows lie in one group",
        _HISTOGRAM,
        _LEVELS,
        [{"x": 1.0, "level": "a", "unit": "p"}] * 4,
        **_FOUR,
    ),
    _dp(
        "a person counted once in each group",
        "SELECT level, COUNT(DISTINCT unit) FROM t GROUP BY level",
        _LEVELS,
        [{"x": 1.0, "level": each, "unit": "p"} for each in "aabb"],
        **_FOUR,
    ),
    *_ONE_ROW,
)
CASES: dict[str, tuple[AuditCase, ...]] = {
    "dp": _DP + _PERSONS + _LOOSELY + _COMPUTED + _RELATED,
    "group": _GROUP,
    "correlated": (*_WHOLE_CELLS, *_ONE_ROW, _ONE_SWAP),
    "heuristic": _HEURISTIC,
    "zcdp": _CONCENTRATED,
}
RHO = Currency("zcdp", 1e-6)
