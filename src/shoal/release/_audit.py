"""Releases in the distinguishing game: tables and graphs on which the bounds are attained."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from shoal.audit import ALPHA, STAGES, Mechanism, Report, audit_mechanisms
from shoal.dp import budget
from shoal.errors import ParameterError
from shoal.release._columns import Coded, code
from shoal.release._copula import noisy_concordances
from shoal.release._graph import read_graph
from shoal.release._groups import noise_scale, noisy_groups, total_order
from shoal.release._network import draw_graph
from shoal.release.marginals._audit import marginal_cases
from shoal.schema import Column

EPSILONS = (0.5, 1.0)
_K = 2


def audit_releases(
    mode: str = "release",
    epsilons: Sequence[float] = EPSILONS,
    stages: Sequence[int] = STAGES,
    alpha: float = ALPHA,
) -> Report:
    """Try to refute the claim of the table releases, of marginals, or of the graph release.

    Parameters
    ----------
    mode : {"release", "marginals", "graph"}
    epsilons : sequence of float
    stages : sequence of int
        Runs per case; marginals and the graph are played with at most 2,000, since each run is a whole release.
    alpha : float

    Examples
    --------
    >>> from shoal.release import audit_releases
    >>> audit_releases(epsilons=(1.0,), stages=(200,)).refuted
    False
    """
    if mode == "graph":
        few = [min(stage, 2_000) for stage in stages]
        return audit_mechanisms(mode, [graph_case(each) for each in epsilons], sorted(set(few)), alpha)
    if mode == "marginals":
        few = [min(stage, 2_000) for stage in stages]
        games = [game for each in epsilons for game in marginal_cases(each)]
        return audit_mechanisms(mode, games, sorted(set(few)), alpha)
    if mode != "release":
        raise ParameterError(f"'mode' must be 'release', 'marginals' or 'graph'. Got {mode!r}.")
    cases = [
        make(each)
        for each in epsilons
        for make in (total_order_case, curve_case, ranked_case, level_case, pair_case)
    ]
    return audit_mechanisms(mode, cases, stages, alpha)


def handing_on(order: str = "corner") -> tuple[list[Coded], list[np.ndarray]]:
    """Two tables apart by one record in which every group hands its first record on: the bound is attained."""
    codes = [code(Column(name, bounds=(0, 100), step=1)) for name in "abc"]
    if order == "corner":
        rows = [(100 * (p // _K % 2 == 0), 10 * p, 100 * (p // _K % 2)) for p in range(9)]
        return codes, [np.array(rows[:8]), np.array(rows[1:])]
    # The curve goes to and fro most often along the last column.
    grid = np.array([(a, b, last) for last in (0, 100) for a in range(101) for b in range(101)])
    along, rows = grid[total_order(grid, codes, order)], []
    for row in along:  # the next point of the curve on the side that is wanted
        if len(rows) < 9 and row[-1] == 100 * (len(rows) // _K % 2):
            rows.append(tuple(row))
    return codes, [np.array(rows[:8]), np.array(rows[1:])]


def total_order_case(epsilon: float, order: str = "corner") -> Mechanism:
    """Insensitive microaggregation of the last column."""
    codes, tables = handing_on(order)
    columns = [table[total_order(table, codes, order), -1] for table in tables]
    return _groups(f"every group hands a record on ({order})", epsilon, codes[-1], columns, ranked=False)


def curve_case(epsilon: float) -> Mechanism:
    """The same along the Hilbert curve."""
    return total_order_case(epsilon, "curve")


def ranked_case(epsilon: float) -> Mechanism:
    """Individual ranking of one column: a record leaps from the bottom to the top."""
    each = code(Column("a", bounds=(0, 100), step=1))
    columns = [np.array([0] * 8), np.array([0] * 7 + [100])]
    return _groups("a record leaps over a sorted column", epsilon, each, columns, ranked=True)


def level_case(epsilon: float) -> Mechanism:
    """The level of a rank group: a record leaps over two borders between levels."""
    each = code(Column("c", kind="category", levels=("x", "y", "z")))
    columns = [np.array([0, 0, 0, 1, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 1, 2, 2, 2])]
    return _groups("a record leaps over two levels", epsilon, each, columns, ranked=True)


def pair_case(epsilon: float) -> Mechanism:
    """Bought association: one record turns from the most concordant to the most discordant."""
    along = np.arange(8)
    tables = [np.column_stack([along, along]), np.column_stack([along, np.append(along[:-1], -1)])]
    micro = (budget.micro(epsilon),)

    def sample(side: int, draws: int) -> np.ndarray:
        drawn = [noisy_concordances(tables[side], micro) for _ in range(draws)]
        return np.stack(drawn).astype(np.float64)

    return Mechanism("one record turns round", epsilon, sample, ("concordant less discordant pairs",))


def graph_case(epsilon: float) -> Mechanism:
    """Two edges at once, for k = 2, on a graph of six vertices."""
    vertices, more = np.arange(6), [[4, 5], [3, 5]]
    sides = [[[0, 1], [1, 2]], [[0, 1], [1, 2], *more]]
    graphs = [read_graph(np.array(each), vertices) for each in sides]
    parts = tuple(Fraction(each, 2 * budget.MICRO) for each in budget.split(budget.micro(epsilon), (1, 1, 1)))

    def sample(side: int, draws: int) -> np.ndarray:
        rows = []
        for _ in range(draws):
            edges = draw_graph(graphs[side], parts)[0].tolist()
            rows.append([len(edges), sum(sorted(each) in edges for each in more)])
        return np.array(rows, dtype=np.float64)

    return Mechanism("two edges at once", epsilon, sample, ("edges", "of the two"))


def _groups(name: str, epsilon: float, each: Coded, columns: list[np.ndarray], *, ranked: bool) -> Mechanism:
    micro, n = budget.micro(epsilon), len(columns[0])
    exact = [np.add.reduceat(column, np.arange(n // _K) * _K) for column in columns]
    scale = float(noise_scale(each, n, _K, micro, ranked))

    def sample(side: int, draws: int) -> np.ndarray:
        noisy = noisy_groups(columns[side], each, _K, micro, ranked=ranked, draws=draws).astype(np.float64)
        ratio = (np.abs(noisy - exact[0]) - np.abs(noisy - exact[1])).sum(axis=1, keepdims=True) / scale
        return np.concatenate([noisy, noisy.sum(axis=1, keepdims=True), ratio], axis=1)

    names = (*(f"group {at}" for at in range(n // _K)), "their sum", "the log-likelihood ratio")
    return Mechanism(name, epsilon, sample, names)
