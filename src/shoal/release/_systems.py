"""The related systems side by side: what each is, what it promises, and its error on one common task."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import rankdata

from shoal.datasets import load_graph, load_survey, load_survey_schema
from shoal.dp import DependentDP, Pufferfish, Session
from shoal.dp.correlation import GivenDegrees
from shoal.dp.pufferfish import Scenario
from shoal.dp.pufferfish._answer import STAMP as PUFFERFISH
from shoal.dp.pufferfish._dependent import STAMP as DEPENDENT
from shoal.dp.unit import HEURISTIC_STAMP
from shoal.release._graph_utility import graph_figures
from shoal.release._network import STAMP as GRAPH
from shoal.release._network import release_graph
from shoal.release._table import STAMP as TABLE
from shoal.release._table import SmallGroupsWarning, release_table
from shoal.schema import Schema

EPSILON = 1.0
HOUSEHOLD = 6
COLUMNS = ("age", "income", "rent")
Query = dict[str, tuple[float, float]]


def common_queries(frame: pl.DataFrame, count: int, seed: int) -> list[Query]:
    """Random COUNT queries with one or two ranges that at least a tenth of the rows answer."""
    rng = np.random.default_rng(seed)
    found: list[Query] = []
    while len(found) < count:
        query: Query = {}
        for name in rng.choice(COLUMNS, size=rng.integers(1, 3), replace=False).tolist():
            low, high = np.sort(rng.choice(frame[name].to_numpy(), size=2))
            query[name] = (float(low), float(high))
        if answer(frame, query) >= frame.height / 10:
            found.append(query)
    return found


def answer(frame: pl.DataFrame, query: Query) -> int:
    """The exact count."""
    return frame.filter(pl.all_horizontal(pl.col(c).is_between(*ends) for c, ends in query.items())).height


def sql(query: Query) -> str:
    """The query as SQL."""
    ranges = " AND ".join(f"{c} BETWEEN {low} AND {high}" for c, (low, high) in query.items())
    return f"SELECT COUNT(*) FROM t WHERE {ranges}"  # noqa: S608 - numbers and names of our own


def measured(count: int = 40, seed: int = 0) -> dict[str, dict[str, float | None]]:
    """Median relative errors on the bundled survey: one query at epsilon 1, and all queries for epsilon 1.

    Returns
    -------
    dict
        System to `one` and `all`; None where a system answers only once. The graph's figure is the median
        relative error of cut queries on the bundled graph.
    """
    frame, schema = load_survey(), load_survey_schema()
    queries = common_queries(frame, count, seed)
    truth = np.array([answer(frame, each) for each in queries])

    def error(answers: list[float]) -> float:
        return float(np.median(np.abs(np.array(answers) - truth) / truth))

    def asked(epsilon: float, mode: str, **options: Any) -> float:
        session = Session(frame, schema, mode, budget=2.0 * count, per_analyst=2.0 * count, **options)
        return error([session.ask(sql(each), epsilon).value for each in queries])

    def released(**options: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallGroupsWarning)
            out = release_table(frame, schema, epsilon=EPSILON, columns=COLUMNS, **options).frame
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
    degrees = (
        ("zhu", _similarity(frame, ranks=False)),
        ("mendonca", _similarity(frame, ranks=True) * _clusters(frame)),
    )
    for name, matrix in degrees:
        found[name] = {
            part: asked(share, "heuristic", model=GivenDegrees(matrix=matrix))
            for part, share in (("one", EPSILON), ("all", EPSILON / count))
        }
    for name, options in (
        ("insensitive", {"k": 200}),
        ("individual-ranking", {"k": 20, "method": "individual-ranking", "association": "copula"}),
    ):
        error_of = released(**options)
        found[name] = {"one": error_of, "all": error_of}
    for mode in ("dp", "group", "correlated"):
        found[mode] = {
            part: asked(share, mode) for part, share in (("one", EPSILON), ("all", EPSILON / count))
        }
    return found


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


def _similarity(frame: pl.DataFrame, *, ranks: bool) -> np.ndarray:
    """Pearson's or Spearman's coefficient between the standardised rows of two records."""
    X = frame.select(*COLUMNS, "taxes").to_numpy().astype(np.float64)
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    matrix = np.clip(np.corrcoef(rankdata(rows, axis=1) if ranks else rows), -1, 1)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def _clusters(frame: pl.DataFrame) -> np.ndarray:
    """Whether two records lie in one cluster: DBSCAN on columns scaled to 0..1, each outlier by itself."""
    from sklearn.cluster import DBSCAN

    X = frame.select(COLUMNS).to_numpy().astype(np.float64)
    labels = DBSCAN(eps=0.03, min_samples=2).fit_predict((X - X.min(axis=0)) / np.ptp(X, axis=0))
    same = (labels[:, None] == labels[None, :]) & (labels[:, None] >= 0)
    np.fill_diagonal(same, True)
    return same.astype(np.float64)


_ROWS = (
    ("Kifer, Machanavajjhala 2014", "pufferfish", "either", "table", "customisable", "rules of the analyst",
     "`dp.Pufferfish`", "Wasserstein; Markov quilt", "stated scenarios", PUFFERFISH),
    ("Chen et al. 2014", "graph", "release", "graph", "exponential", "number of connections",
     "`shoal release-graph`", "Laplace and exponential", "k edges jointly", GRAPH),
    ("Zhu et al. 2015", "zhu", "interactive", "table", "Laplace", "Pearson",
     "mode `heuristic`", "Laplace", "degrees given", HEURISTIC_STAMP),
    ("Liu et al. 2016", "dependent", "either", "table", "dependent perturbation", "dependence of pairs",
     "`dp.DependentDP`", "Laplace", "coefficients given", DEPENDENT),
    ("Soria-Comas et al. 2014", "insensitive", "release", "table", "Laplace", "-",
     "`shoal release`", "Laplace once per centroid", "-", TABLE),
    ("Sanchez et al. 2016", "individual-ranking", "release", "table", "Laplace", "-",
     "`shoal release --method individual-ranking --association copula`", "Laplace once per centroid",
     "bought Kendall coefficients", TABLE),
    ("Mendonca et al. 2017", "mendonca", "interactive", "table", "Laplace", "Spearman within clusters",
     "mode `heuristic`", "Laplace", "degrees within clusters", HEURISTIC_STAMP),
    ("-", "dp", "interactive", "table", "-", "-", "mode `dp`", "discrete Laplace", "none", "record"),
    ("-", "group", "interactive", "table", "-", "-", "mode `group`", "discrete Laplace", "declared groups", "group"),
    ("-", "correlated", "interactive", "table", "-", "-", "mode `correlated`", "discrete Laplace",
     "look-alike cells", "correlated"),
)  # fmt: skip


def systems_page(count: int = 40, seed: int = 0) -> str:
    """The comparison as Markdown: the dissertation's table 8, ours beside it, and measured errors."""
    figures, schema = measured(count, seed), load_survey_schema()
    lines = [
        "# The related systems side by side",
        "",
        "Written by `shoal systems`; errors differ a little from run to run, since the noise does.",
        "The first half of each row is table 8 of the dissertation, the second what is offered here.",
        "",
        f"*Task*: {count} COUNT queries with one or two ranges on the bundled survey (1,012 rows), each answered by a",
        f"tenth of the rows or more. *One*: median relative error of a query that may spend epsilon {EPSILON:g}. *All*:",
        f"the same if all queries together may spend epsilon {EPSILON:g}. Graphs: cut queries on the bundled graph, k = 3.",
        f"Group, Pufferfish and dependent answers hide a household of {HOUSEHOLD}.",
        "",
        "| work | approach | data | mechanism | correlation | here | mechanism | correlation | guarantee | one | all |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
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
