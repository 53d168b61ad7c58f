"""What a released graph keeps, for the owner: degrees, cuts, and pictures of the matrix before and after."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from markupsafe import Markup

from shoal.release._graph import Graph
from shoal.release._network import GraphRelease
from shoal.report.standalone import colours


@dataclass(frozen=True)
class GraphErrors:
    """How far a noisy graph is from the original.

    Parameters
    ----------
    edges : int
        How many it has.
    degree_distance : float
        Total variation between the two distributions of degrees, from 0 to 1.
    cut_error : float
        Median relative error of cut queries between random sets of vertices.
    near_cut_error : float
        The same between a neighbourhood and the rest.

    Examples
    --------
    >>> from shoal.release import GraphErrors
    >>> GraphErrors(edges=48, degree_distance=0.3, cut_error=0.2, near_cut_error=0.4).edges
    48
    """

    edges: int
    degree_distance: float
    cut_error: float
    near_cut_error: float


@dataclass(frozen=True)
class GraphFigures:
    """Errors of a released graph and of two noisy matrices at the same epsilon.

    Parameters
    ----------
    released : GraphErrors
    filtered : GraphErrors
        Noise on every pair of vertices, the largest pairs kept.
    naive : GraphErrors
        Noise on every pair, rounded.

    Examples
    --------
    >>> from shoal.release import GraphErrors, GraphFigures
    >>> near, far = GraphErrors(48, 0.3, 0.2, 0.4), GraphErrors(170, 0.9, 2.1, 3.0)
    >>> GraphFigures(released=near, filtered=far, naive=far).to_dict()["released_edges"]
    48
    """

    released: GraphErrors
    filtered: GraphErrors
    naive: GraphErrors

    def sides(self) -> dict[str, GraphErrors]:
        """The three by their names."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def to_dict(self) -> dict[str, float]:
        """Every figure of every side, as ``released_edges``."""
        return {
            f"{side}_{what}": value
            for side, each in self.sides().items()
            for what, value in vars(each).items()
        }


def graph_figures(release: GraphRelease, *, cuts: int = 200, random_state: int = 0) -> GraphFigures:
    """Errors of the release and of two noisy matrices at the same epsilon, computed from the private graph.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release import graph_figures, release_graph
    >>> ring = np.array([[i, (i + 1) % 50] for i in range(50)])
    >>> figures = graph_figures(release_graph(ring, k=2, epsilon=4.0), cuts=20)
    >>> figures.released.cut_error < figures.naive.cut_error
    True
    """
    original, rng = release.original, np.random.default_rng(random_state)
    rate = release.spent / release.k
    random_sets = [_two_sets(original.n, rng) for _ in range(cuts)]
    near = _neighbourhoods(original, cuts // 4, rng)
    released, filtered = (
        GraphErrors(
            edges=len(each.edges),
            degree_distance=degree_distance(original.degrees(), each.degrees()),
            cut_error=cut_error(original, [cut(each, s) for s in random_sets], random_sets),
            near_cut_error=cut_error(original, [cut(each, s) for s in near], near),
        )
        for each in (release.graph, filtered_matrix(original, rate, rng))
    )
    own, other = _tail(-0.5, rate), _tail(0.5, rate)

    def rounded(true: int, pairs: int) -> int:
        return int(rng.binomial(true, own) + rng.binomial(pairs - true, other))

    cells, degrees = original.n * (original.n - 1) // 2, original.degrees()
    noisy_degrees = rng.binomial(degrees, own) + rng.binomial(original.n - 1 - degrees, other)
    naive = GraphErrors(
        rounded(len(original.edges), cells),
        degree_distance(degrees, noisy_degrees),
        *(
            cut_error(original, [rounded(cut(original, s), _pairs_between(s)) for s in sets], sets)
            for sets in (random_sets, near)
        ),
    )
    return GraphFigures(released, filtered, naive)


def _pairs_between(sets: np.ndarray) -> int:
    return int((sets == 1).sum()) * int((sets == 2).sum())


def cut_error(original: Graph, found: list[int], sets: list[np.ndarray]) -> float:
    """Median relative error of cut queries; true cuts below a thousandth of the edges count as that."""
    floor = max(1.0, 0.001 * len(original.edges))
    truth = np.array([cut(original, each) for each in sets])
    return float(np.median(np.abs(np.array(found) - truth) / np.maximum(truth, floor)))


def _neighbourhoods(graph: Graph, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Vertices reached first from a random one, a twentieth of all, against the rest."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order

    a, b = graph.edges.T
    matrix = coo_matrix((np.ones(len(a)), (a, b)), shape=(graph.n, graph.n)).tocsr()
    found = []
    for start in rng.integers(graph.n, size=count).tolist():
        reached = breadth_first_order(matrix, start, directed=False, return_predecessors=False)
        marks = np.full(graph.n, 2, dtype=np.int64)
        marks[reached[: max(1, graph.n // 20)]] = 1
        found.append(marks)
    return found


def degree_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Total variation between the distributions of two lists of degrees."""
    top = int(max(first.max(), second.max())) + 1
    shares = [np.bincount(each, minlength=top) / len(each) for each in (first, second)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def cut(graph: Graph, sets: np.ndarray) -> int:
    """Edges between the vertices marked 1 and those marked 2."""
    a, b = sets[graph.edges[:, 0]], sets[graph.edges[:, 1]]
    return int((a * b == 2).sum())


def filtered_matrix(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Laplace noise on every pair, and as many largest pairs kept as there are edges noisily.

    Which pairs pass is drawn without the matrix: each edge passes with one probability, every other pair with
    another, and the threshold is where the expected number is right. Only for the owner's comparison.
    """
    cells, m = graph.n * (graph.n - 1) // 2, len(graph.edges)
    wanted = max(1.0, m + rng.laplace(scale=2 / rate))
    half = rate / 2  # the other half buys the number of edges
    low, high = -60.0 / half, 60.0 / half
    for _ in range(100):
        middle = (low + high) / 2
        expected = m * _tail(middle - 1, half) + (cells - m) * _tail(middle, half)
        low, high = (middle, high) if expected > wanted else (low, middle)
    own = graph.edges[rng.random(m) < _tail(low - 1, half)]
    others = int(rng.binomial(cells - m, _tail(low, half)))
    codes = set((graph.edges[:, 0] * graph.n + graph.edges[:, 1]).tolist())
    found: list[int] = []
    while len(found) < others:
        a, b = np.sort(rng.integers(graph.n, size=(2, others)), axis=0)
        for value in (a * graph.n + b)[a < b].tolist():
            if value not in codes and len(found) < others:
                codes.add(value)
                found.append(value)
    drawn = np.array(found, dtype=np.int64)
    return Graph(graph.names, np.concatenate([own, np.column_stack([drawn // graph.n, drawn % graph.n])]))


def _tail(threshold: float, rate: float) -> float:
    """P(Laplace noise of scale 1 / rate exceeds a threshold)."""
    half = 0.5 * math.exp(-abs(threshold) * rate)
    return half if threshold >= 0 else 1 - half


def _two_sets(n: int, rng: np.random.Generator) -> np.ndarray:
    """Two disjoint random sets of vertices, marked 1 and 2."""
    marks = np.zeros(n, dtype=np.int64)
    order, sizes = rng.permutation(n), rng.integers(max(1, n // 20), max(2, n // 3), size=2)
    marks[order[: sizes[0]]] = 1
    marks[order[sizes[0] : sizes[0] + sizes[1]]] = 2
    return marks


def spy_plot(graph: Graph, title: str, order: np.ndarray | None = None, bins: int = 60) -> Markup:
    """The adjacency matrix as a picture: darker where there are more edges.

    Parameters
    ----------
    graph : Graph
    title : str
    order : int64 array, optional
        Place of each vertex along the sides; by falling degree if left open.
    bins : int, default 60
    """
    from shoal.report.canvas import AFTER, CARD, canvas, drawing, to_svg

    if order is None:
        order = np.empty(graph.n, dtype=np.int64)
        order[np.argsort(-graph.degrees(), kind="stable")] = np.arange(graph.n)
    places = order[graph.edges] * min(bins, graph.n) // graph.n
    size = min(bins, graph.n)
    counts = np.zeros((size, size))
    np.add.at(counts, (places[:, 0], places[:, 1]), 1)
    counts = counts + counts.T
    with drawing():
        axes = canvas(320, 320, left=8, bottom=24, right=8, top=8)
        filled = np.argwhere(counts > 0)
        shade = np.sqrt(counts[counts > 0] / max(1.0, counts.max()))
        axes.scatter(filled[:, 1], filled[:, 0], s=12, marker="s", c=AFTER, alpha=shade, linewidths=0)
        axes.set_xlim(-1, size)
        axes.set_ylim(size, -1)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_facecolor(CARD)
        axes.set_xlabel(title)
        return to_svg(axes, f"Adjacency matrix, {title}: {len(graph.edges):,} edges, {graph.n:,} vertices.")


def graph_page(release: GraphRelease, figures: GraphFigures) -> str:
    """A page for the owner: the matrix before and after in one order of the vertices, and the errors."""
    order = np.empty(release.original.n, dtype=np.int64)
    order[np.argsort(-release.original.degrees(), kind="stable")] = np.arange(release.original.n)
    plots = spy_plot(release.original, "original", order) + spy_plot(release.graph, "released", order)
    head = "".join(f"<th>{each.name.replace('_', ' ')}</th>" for each in fields(GraphErrors))
    rows = "".join(
        f"<tr><th>{side}</th>" + "".join(f"<td>{value:.4g}</td>" for value in vars(each).values()) + "</tr>"
        for side, each in figures.sides().items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Released graph</title>'
        f"<style>:root{{{colours()}}}body{{font:16px system-ui;margin:2rem auto;max-width:50rem}}svg{{width:48%}}"
        "td,th{padding:.2rem .8rem;text-align:right}</style>"
        f"<h1>Released graph</h1><p>{release.guarantee}; epsilon {release.spent:g}, k = {release.k}.</p>"
        "<p>For the owner only: computed from the private graph.</p>"
        f"{plots}<table><tr><th></th>{head}</tr>{rows}</table></html>"
    )
