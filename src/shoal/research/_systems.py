"""The related systems side by side: what each is, what it promises, and its error on one common task."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from shoal import datasets
from shoal.dp import Session
from shoal.dp.correlation import BoundaryWarning, DBSCANModel, Model, Pearson, SelectedMixture
from shoal.dp.heuristic import exact_and_sensitivity, noisy
from shoal.dp.loading.load import load
from shoal.dp.pufferfish import (
    DEPENDENT_GUARANTEE,
    PUFFERFISH_GUARANTEE,
    Coefficients,
    GroupScenarios,
    Scenario,
    StatedModel,
)
from shoal.dp.sql.query import Aggregate
from shoal.dp.unit import NO_GUARANTEE
from shoal.errors import ParameterError
from shoal.release import (
    GRAPH_GUARANTEE,
    TABLE_GUARANTEE,
    SmallGroupsWarning,
    graph_figures,
    release_graph,
    release_table,
)
from shoal.schema import Cells, Column, Schema
from shoal.typing import Keywords

EPSILON = 1.0
HOME = 6  # rows that belong together
LEAST = 20  # a query is answered by this part of the rows or more
SECRET, KEY = "secret", "home"
Query = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class SystemsTask:
    """The table on which the systems are measured, and what each of them is given.

    Parameters
    ----------
    name, secret : str
        The table, and what the column `secret` (0 or 1) says of a row.
    frame : polars.DataFrame
        The columns of the queries, `secret` and `home`.
    schema : Schema
    columns : tuple of str
        Those of the queries, of the releases and of the cells.
    whole : polars.DataFrame
        The loaded table on which the correlation models are fitted, in the same order.
    compared : tuple of str
        Its columns that they compare.
    eps : float
        Of DBSCAN, over min-max scaled columns.
    target : str
    keep, components : int
        Of approach 3.
    """

    name: str
    secret: str
    frame: pl.DataFrame
    schema: Schema
    columns: tuple[str, ...]
    whole: pl.DataFrame
    compared: tuple[str, ...]
    eps: float
    target: str
    keep: int
    components: int


def task(name: str) -> SystemsTask:
    """The table `adult`, whose bounds are those of its codebook, or the bundled `survey`."""
    if name == "survey":
        return _survey()
    if name != "adult":
        raise ParameterError(f"'data' must be adult or survey. Got {name!r}.")
    from shoal.research._correlated_queries import bench

    table = bench("adult")
    bounds = {"age": (17.0, 90.0), "education_num": (1.0, 16.0), "hours_per_week": (1.0, 99.0)}
    frame = table.frame.select(
        *bounds, (pl.col("income").str.strip_chars() == ">50K").cast(pl.Float64).alias(SECRET)
    )
    schema = _schema("adult", bounds, (73, 15, 49))
    return SystemsTask(
        "Adult", "an income above 50,000", _homes(frame), schema, tuple(bounds), table.loaded(),
        table.features, table.eps, table.target, table.keep, 12,
    )  # fmt: skip


def _survey() -> SystemsTask:
    bounds = {"age": (0.0, 110.0), "income": (0.0, 500_000.0), "rent": (0.0, 8000.0)}
    frame, schema = datasets.load_survey(), datasets.load_survey_schema()
    ill = (pl.col("disease") != "none").cast(pl.Float64).alias(SECRET)
    compared = ("age", "sex", "region", "income", "rent", "taxes")
    return SystemsTask(
        "the bundled survey", "a disease", _homes(frame.select(*bounds, ill)), _schema("survey", bounds, (20, 5, 5)),
        tuple(bounds), load(frame, schema), compared, 0.1, "disease", 4, 8,
    )  # fmt: skip


def _schema(name: str, bounds: dict[str, tuple[float, float]], bins: tuple[int, ...]) -> Schema:
    columns = {each: Column(each, role="quasi", bounds=ends) for each, ends in bounds.items()}
    if name == "adult":
        columns = {each: replace(column, step=1.0) for each, column in columns.items()}
    columns[SECRET] = Column(SECRET, role="quasi", bounds=(0.0, 1.0))
    cells = Cells(tuple(bounds), bins, 32)
    return Schema(columns, id=name, budget=EPSILON, group=HOME, cells=cells)


def _homes(frame: pl.DataFrame) -> pl.DataFrame:
    """Homes of so many rows each, made up from the order of the table, since Adult has none."""
    return frame.with_columns((pl.int_range(pl.len()) // HOME).alias(KEY))


def common_queries(at: SystemsTask, count: int, random_state: int) -> list[Query]:
    """COUNT of rows that have the secret, within one or two random ranges that a twentieth of the rows answer."""
    rng, frame = np.random.default_rng(random_state), at.frame
    found: list[Query] = []
    while len(found) < count:
        query: Query = {SECRET: (0.5, 1.0)}
        for name in rng.choice(at.columns, size=rng.integers(1, 3), replace=False).tolist():
            low, high = np.sort(rng.choice(frame[name].to_numpy(), size=2))
            query[name] = (float(low), float(high))
        if answer(frame, query) >= frame.height / LEAST:
            found.append(query)
    return found


def answer(frame: pl.DataFrame, query: Query) -> int:
    """The exact count."""
    return frame.filter(_within(query)).height


def sql(query: Query) -> str:
    """The query as SQL."""
    ranges = " AND ".join(f"{c} BETWEEN {low} AND {high}" for c, (low, high) in query.items())
    return f"SELECT COUNT(*) FROM t WHERE {ranges}"  # noqa: S608 - numbers and names of our own


def stated() -> tuple[StatedModel, StatedModel]:
    """What the two declared models are given: homes that share the secret, all or none, and coefficients of one."""
    home = Scenario({(0,) * HOME: "3/4", (1,) * HOME: "1/4"}, "all or none")
    return GroupScenarios(KEY, SECRET, (home,)), Coefficients((KEY,), HOME, 1)


def models(at: SystemsTask) -> dict[str, Model]:
    """The correlation models of mode `heuristic`, with the dissertation's parameters."""
    same: Keywords = {"columns": at.compared, "preprocessing": "min-max"}
    return {
        "zhu": Pearson(**same),
        "mendonca": DBSCANModel(at.eps, **same),
        "approach 3": SelectedMixture(at.target, at.keep, n_components=at.components, **same),
    }


def measured(at: SystemsTask, count: int = 40, random_state: int = 0) -> dict[str, dict[str, float | None]]:
    """Median relative errors on a table: one query at epsilon 1, and all queries for epsilon 1.

    Returns
    -------
    dict
        System to `one` and `all`; None where a system answers only once. The graph's figure is the median
        relative error of cut queries on the bundled graph.
    """
    frame, schema = at.frame, at.schema
    queries = common_queries(at, count, random_state)
    truth = np.array([answer(frame, each) for each in queries])

    def error(answers: Sequence[float]) -> float:
        return float(np.median(np.abs(np.array(answers) - truth) / truth))

    def asked(epsilon: float, mode: str) -> float:
        session = Session(frame, schema, mode, budget=2.0 * count, per_analyst=2.0 * count)
        return error([session.ask(sql(each), epsilon).value for each in queries])

    def released(**options: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallGroupsWarning)
            out = release_table(frame, schema, None, EPSILON, columns=(*at.columns, SECRET), **options).frame
        return error([answer(out, each) for each in queries])

    found: dict[str, dict[str, float | None]] = {}
    for model in stated():  # a data set gives one answer, so that each query is asked of a fresh ledger
        answers = [
            Session(frame, schema, model.mode, model=model).ask(sql(each), EPSILON).value for each in queries
        ]
        found[model.mode] = {"one": error(answers), "all": None}
    cut = graph_figures(release_graph(datasets.load_graph(), 3, EPSILON)).released.cut_error
    found["graph"] = {"one": cut, "all": cut}
    for name, each in models(at).items():
        drawn = _reproduced(at, queries, each, (EPSILON, EPSILON / count))
        found[name] = {part: error(answers) for part, answers in drawn.items()}
    for name, options in (
        ("insensitive", {}),
        ("individual-ranking", {"method": "individual-ranking", "association": "copula"}),
    ):
        error_of = released(**options)
        found[name] = {"one": error_of, "all": error_of}
    for mode in ("dp", "group", "correlated"):
        found[mode] = {
            part: asked(share, mode) for part, share in (("one", EPSILON), ("all", EPSILON / count))
        }
    return found


def _reproduced(
    at: SystemsTask, queries: list[Query], model: Any, shares: tuple[float, float]
) -> dict[str, list[float]]:
    """Answers of mode `heuristic` at both shares; the sensitivity, which takes the time, is found once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fitted, found = model.fit(at.whole), []
    for query in queries:
        rows = np.flatnonzero(at.frame.select(_within(query)).to_series().to_numpy())
        found.append(exact_and_sensitivity(Aggregate("count"), at.whole, rows, fitted))
    return {
        part: [float(noisy(f or 0.0, sensitivity, share)[0]) for f, sensitivity in found]
        for part, share in zip(("one", "all"), shares, strict=True)
    }


def _within(query: Query) -> pl.Expr:
    return pl.all_horizontal(pl.col(column).is_between(*ends) for column, ends in query.items())


_ROWS = (
    ("Kifer, Machanavajjhala 2014", "pufferfish", "interactive or not", "relational", "PD", "customisable",
     "rules set by the analyst", "mode `pufferfish`", "Wasserstein; Markov quilt", "stated scenarios", PUFFERFISH_GUARANTEE),
    ("Chen et al. 2014", "graph", "not interactive", "graph", "PD", "exponential", "number of connections",
     "`shoal release-graph`", "Laplace and exponential", "k edges jointly", GRAPH_GUARANTEE),
    ("Zhu et al. 2015", "zhu", "interactive", "relational", "PD", "Laplace, or another", "Pearson, or another",
     "mode `heuristic`, `pearson`", "Laplace", "Pearson", NO_GUARANTEE),
    ("Liu et al. 2016", "dependent", "interactive or not", "relational", "PD", "dependent perturbation",
     "number of dependent people, and their dependence", "mode `dependent`", "discrete Laplace", "coefficients given",
     DEPENDENT_GUARANTEE),
    ("Soria-Comas et al. 2014", "insensitive", "not interactive", "relational", "k-anonymity + PD", "Laplace", "-",
     "`shoal release --method insensitive`", "Laplace once per centroid", "-", TABLE_GUARANTEE),
    ("Sánchez et al. 2016", "individual-ranking", "not interactive", "relational", "k-anonymity + PD", "Laplace", "-",
     "`shoal release --method individual-ranking --association copula`", "Laplace once per centroid",
     "bought Kendall coefficients", TABLE_GUARANTEE),
    ("Mendonça et al. 2017", "mendonca", "interactive", "relational", "PD", "Laplace", "Spearman, within clusters",
     "mode `heuristic`, `dbscan`", "Laplace", "Spearman within clusters", NO_GUARANTEE),
    ("the dissertation's approach 3 (not in table 8)", "approach 3", "-", "-", "-", "-", "-",
     "mode `heuristic`, `rfe-gmm`", "Laplace", "probability of a common component", NO_GUARANTEE),
    ("-", "dp", "-", "-", "-", "-", "-", "mode `dp`", "discrete Laplace", "none", "record"),
    ("-", "group", "-", "-", "-", "-", "-", "mode `group`", "discrete Laplace", "declared groups", "group"),
    ("-", "correlated", "-", "-", "-", "-", "-", "mode `correlated`", "discrete Laplace", "look-alike cells",
     "correlated"),
)  # fmt: skip


def systems_page(count: int = 40, random_state: int = 0, data: str | None = None) -> str:
    """The comparison as Markdown: the dissertation's table 8, ours beside it, and measured errors.

    Parameters
    ----------
    count : int, default 40
        COUNT queries.
    random_state : int, default 0
        Of the queries.
    data : {"adult", "survey"}, optional
        Adult where it is to be had, else the bundled survey, if left open.
    """
    if data is None:
        data = "survey" if datasets.DATASETS["adult"].path is None else "adult"
    at = task(data)
    figures, schema = measured(at, count, random_state), at.schema
    lines = [
        "# The related systems side by side",
        "",
        "Written by `shoal systems`; errors differ a little from run to run, since the noise does.",
        "The first half of each row is table 8 of the dissertation, where PD stands for differential privacy; the second",
        "half is what is offered here.",
        "",
        f"*Task, the same for every system on tables*: {count} COUNT queries on {at.name} ({at.frame.height:,} rows), each of the rows",
        f"that have {at.secret} within one or two ranges of {', '.join(at.columns)}, answered by one row in {LEAST} or more.",
        f"*One*: median relative error of a query that may spend epsilon {EPSILON:g}. *All*: the same if all queries together may",
        f"spend epsilon {EPSILON:g}; *once only*: the system gives one answer about a data set. Graphs are another task: cut queries on the",
        "bundled graph, k = 3.",
        "",
        f"Modes `group`, `pufferfish` and `dependent` hide {HOME} rows that belong together: homes of {HOME} rows are made up from the order",
        "of the table. The scenario: a home has the secret as a whole or not at all. The coefficients: 1. Mode `correlated` hides",
        f"look-alike cells of {', '.join(at.columns)}. The models of mode `heuristic` compare {len(at.compared)} columns, min-max",
        f"scaled, with DBSCAN's eps {at.eps:g}, and approach 3 keeps {at.keep} columns and has {at.components} components"
        + (", all as printed." if data == "adult" else "."),
        "",
        "| work | approach | data | model | mechanism | correlation | here | mechanism | correlation | guarantee | one | all |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for work, key, *facts, guarantee in _ROWS:
        said = _guarantee(guarantee, schema).removeprefix("guarantee: ")
        shown = ["once only" if value is None else f"{value:.3g}" for value in figures[key].values()]
        lines.append("| " + " | ".join([work, *facts, said, *shown]) + " |")
    lines += [
        "",
        "Zhu et al. also have an iteration mechanism for batches of queries: why it is not here is said in",
        "{doc}`releases`. Mode `heuristic` promises nothing, so that its errors are not comparable with the rest.",
        "",
    ]
    return "\n".join(lines)


def _guarantee(guarantee: str, schema: Schema) -> str:
    from shoal.dp.correlation import Grid
    from shoal.dp.unit import resolve

    if guarantee == "record":
        return resolve("dp", schema).guarantee
    if guarantee == "group":
        return resolve("group", schema).guarantee
    if guarantee == "correlated":
        tau = None if schema.cells is None else schema.cells.tau
        return resolve("correlated", schema, None, Grid.of_schema(schema), tau).guarantee
    return guarantee
