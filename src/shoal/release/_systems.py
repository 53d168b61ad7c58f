"""The related systems side by side: what each is, what it promises, and its error on one common task."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from shoal import datasets
from shoal.datasets import load_graph, load_survey, load_survey_schema
from shoal.dp import DependentDP, Pufferfish, Session
from shoal.dp.correlation import DBSCANModel, Pearson
from shoal.dp.heuristic import exact_and_sensitivity, noisy
from shoal.dp.load import load
from shoal.dp.pufferfish import Scenario
from shoal.dp.pufferfish._answer import STAMP as PUFFERFISH
from shoal.dp.pufferfish._dependent import STAMP as DEPENDENT
from shoal.dp.query import Aggregate
from shoal.dp.unit import HEURISTIC_STAMP
from shoal.errors import ParameterError
from shoal.release._graph_utility import graph_figures
from shoal.release._network import STAMP as GRAPH
from shoal.release._network import release_graph
from shoal.release._table import STAMP as TABLE
from shoal.release._table import SmallGroupsWarning, release_table
from shoal.schema import Cells, Column, Schema

EPSILON = 1.0
HOUSEHOLD = 6
Query = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Task:
    """The table on which the systems are measured, and what each of them is given.

    Parameters
    ----------
    name : str
        In words.
    frame : polars.DataFrame
    schema : Schema
    columns : tuple of str
        Those of the queries, of the releases and of the models.
    k, k_ranked : int
        Records per group of the two table releases.
    eps : float
        Of DBSCAN.
    """

    name: str
    frame: pl.DataFrame
    schema: Schema
    columns: tuple[str, ...]
    k: int
    k_ranked: int
    eps: float


def task(name: str) -> Task:
    """The table `adult`, whose bounds are those of its codebook, or the bundled `survey`."""
    if name == "survey":
        columns = ("age", "income", "rent")
        return Task("the bundled survey", load_survey(), load_survey_schema(), columns, 200, 20, 0.03)
    if name != "adult":
        raise ParameterError(f"'data' must be adult or survey. Got {name!r}.")
    bounds = {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99)}
    schema = Schema(
        {each: Column(each, role="quasi", bounds=ends, step=1) for each, ends in bounds.items()},
        id="adult",
        budget=EPSILON,
        group=HOUSEHOLD,
        cells=Cells(tuple(bounds), (73, 15, 49), 32),
    )
    frame = datasets.load("adult").select(list(bounds))
    return Task("Adult", frame, schema, tuple(bounds), 2000, 100, 0.01)


def common_queries(at: Task, count: int, random_state: int) -> list[Query]:
    """Random COUNT queries with one or two ranges that at least a tenth of the rows answer."""
    rng, frame = np.random.default_rng(random_state), at.frame
    found: list[Query] = []
    while len(found) < count:
        query: Query = {}
        for name in rng.choice(at.columns, size=rng.integers(1, 3), replace=False).tolist():
            low, high = np.sort(rng.choice(frame[name].to_numpy(), size=2))
            query[name] = (float(low), float(high))
        if answer(frame, query) >= frame.height / 10:
            found.append(query)
    return found


def answer(frame: pl.DataFrame, query: Query) -> int:
    """The exact count."""
    return frame.filter(_within(query)).height


def sql(query: Query) -> str:
    """The query as SQL."""
    ranges = " AND ".join(f"{c} BETWEEN {low} AND {high}" for c, (low, high) in query.items())
    return f"SELECT COUNT(*) FROM t WHERE {ranges}"  # noqa: S608 - numbers and names of our own


def measured(at: Task, count: int = 40, random_state: int = 0) -> dict[str, dict[str, float | None]]:
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

    def error(answers: list[float]) -> float:
        return float(np.median(np.abs(np.array(answers) - truth) / truth))

    def asked(epsilon: float, mode: str, **options: Any) -> float:
        session = Session(frame, schema, mode, budget=2.0 * count, per_analyst=2.0 * count, **options)
        return error([session.ask(sql(each), epsilon).value for each in queries])

    def released(**options: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallGroupsWarning)
            out = release_table(frame, schema, epsilon=EPSILON, columns=at.columns, **options).frame
        return error([answer(out, each) for each in queries])

    once: dict[str, Callable[[], float]] = {
        "pufferfish": lambda: error([_family(int(each)) for each in truth]),
        "dependent": lambda: error([_dependent(frame, each) for each in queries]),
    }
    found: dict[str, dict[str, float | None]] = {
        name: {"one": make(), "all": None} for name, make in once.items()
    }
    cut = graph_figures(release_graph(load_graph(), 3, EPSILON))["released"]["cut_error"]
    found["graph"] = {"one": cut, "all": cut}
    models = {
        "zhu": lambda: Pearson(columns=at.columns),
        "mendonca": lambda: DBSCANModel(at.eps, columns=at.columns),
    }
    for name, model in models.items():
        found[name] = {
            part: error(answers)
            for part, answers in _reproduced(at, queries, model(), (EPSILON, EPSILON / count)).items()
        }
    for name, options in (
        ("insensitive", {"k": at.k}),
        ("individual-ranking", {"k": at.k_ranked, "method": "individual-ranking", "association": "copula"}),
    ):
        error_of = released(**options)
        found[name] = {"one": error_of, "all": error_of}
    for mode in ("dp", "group", "correlated"):
        found[mode] = {
            part: asked(share, mode) for part, share in (("one", EPSILON), ("all", EPSILON / count))
        }
    return found


def _reproduced(
    at: Task, queries: list[Query], model: Any, shares: tuple[float, float]
) -> dict[str, list[float]]:
    """Answers of mode `heuristic` at both shares; the sensitivity, which takes the time, is found once."""
    frame = load(at.frame, at.schema)
    fitted, found = model.fit(frame), []
    for query in queries:
        rows = np.flatnonzero(frame.select(_within(query)).to_series().to_numpy())
        found.append(exact_and_sensitivity(Aggregate("count"), frame, rows, fitted))
    return {
        part: [float(noisy(f or 0.0, sensitivity, share)[0]) for f, sensitivity in found]
        for part, share in zip(("one", "all"), shares, strict=True)
    }


def _within(query: Query) -> pl.Expr:
    return pl.all_horizontal(pl.col(column).is_between(*ends) for column, ends in query.items())


def _family(count: int) -> float:
    """A Wasserstein answer about a table in which one household of six is ill or well as a whole."""
    rest = count - HOUSEHOLD - 1  # known to the observer; one more person is independent of all
    worlds = {(ill, rest, own): "1/4" for ill in (0, HOUSEHOLD) for own in (0, 1)}
    secrets = {"ill": lambda world: world[0] > 0, "well": lambda world: world[0] == 0}
    asked = Pufferfish(secrets, [("ill", "well")], [Scenario(worlds)])
    return float(asked.ask(sum, EPSILON, (HOUSEHOLD, rest, 1)).value)


def _dependent(frame: pl.DataFrame, query: Query) -> float:
    """A sum of marks of one household's members, all dependent, beside a count that the observer knows."""
    coefficients = [[1] * HOUSEHOLD for _ in range(HOUSEHOLD)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = DependentDP(coefficients, (0, 1))
    return asked.ask([1] * HOUSEHOLD, EPSILON).value - HOUSEHOLD + answer(frame, query)


_ROWS = (
    ("Kifer, Machanavajjhala 2014", "pufferfish", "interactive or not", "relational", "DP", "customisable",
     "rules set by the analyst", "`dp.Pufferfish`", "Wasserstein; Markov quilt", "stated scenarios", PUFFERFISH),
    ("Chen et al. 2014", "graph", "not interactive", "graph", "DP", "exponential", "number of connections",
     "`shoal release-graph`", "Laplace and exponential", "k edges jointly", GRAPH),
    ("Zhu et al. 2015", "zhu", "interactive", "relational", "DP", "Laplace", "Pearson",
     "mode `heuristic`, `Pearson`", "Laplace", "Pearson", HEURISTIC_STAMP),
    ("Liu et al. 2016", "dependent", "interactive or not", "relational", "dependent DP", "dependent perturbation",
     "dependence of pairs", "`dp.DependentDP`", "Laplace", "coefficients given", DEPENDENT),
    ("Soria-Comas et al. 2014", "insensitive", "not interactive", "relational", "k-anonymity and DP", "Laplace", "-",
     "`shoal release`", "Laplace once per centroid", "-", TABLE),
    ("Sanchez et al. 2016", "individual-ranking", "not interactive", "relational", "k-anonymity and DP", "Laplace", "-",
     "`shoal release --method individual-ranking --association copula`", "Laplace once per centroid",
     "bought Kendall coefficients", TABLE),
    ("Mendonca et al. 2017", "mendonca", "interactive", "relational", "DP", "Laplace", "Spearman within clusters",
     "mode `heuristic`, `DBSCANModel`", "Laplace", "Spearman within clusters", HEURISTIC_STAMP),
    ("-", "dp", "interactive", "relational", "DP", "-", "-", "mode `dp`", "discrete Laplace", "none", "record"),
    ("-", "group", "interactive", "relational", "DP", "-", "-", "mode `group`", "discrete Laplace", "declared groups",
     "group"),
    ("-", "correlated", "interactive", "relational", "DP", "-", "-", "mode `correlated`", "discrete Laplace",
     "look-alike cells", "correlated"),
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
        "The first half of each row is table 8 of the dissertation, the second what is offered here.",
        "",
        f"*Task*: {count} COUNT queries with one or two ranges on {at.name} ({at.frame.height:,} rows), each answered by a",
        f"tenth of the rows or more. *One*: median relative error of a query that may spend epsilon {EPSILON:g}. *All*:",
        f"the same if all queries together may spend epsilon {EPSILON:g}. Graphs: cut queries on the bundled graph, k = 3.",
        f"Group, Pufferfish and dependent answers hide {HOUSEHOLD} records jointly.",
        "",
        "| work | approach | data | model | mechanism | correlation | here | mechanism | correlation | guarantee | one | all |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for work, key, *facts, stamp in _ROWS:
        said = _stamp(stamp, schema).removeprefix("guarantee: ")
        shown = ["once only" if value is None else f"{value:.3g}" for value in figures[key].values()]
        lines.append("| " + " | ".join([work, *facts, said, *shown]) + " |")
    lines += [
        "",
        "Zhu et al. also have an iteration mechanism for batches of queries: why it is not here is said in",
        "{doc}`releases`. Mode `heuristic` promises nothing, so that its errors are not comparable with the rest.",
        "",
    ]
    return "\n".join(lines)


def _stamp(stamp: str, schema: Schema) -> str:
    from shoal.dp.correlation import Grid
    from shoal.dp.unit import resolve

    if stamp == "record":
        return resolve("dp", schema).stamp
    if stamp == "group":
        return resolve("group", schema).stamp
    if stamp == "correlated":
        tau = None if schema.cells is None else schema.cells.tau
        return resolve("correlated", schema, None, Grid.of_schema(schema), tau).stamp
    return stamp
