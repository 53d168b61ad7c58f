"""A graph release: plan, charge, label, explore, arrange, settle."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.dp import budget as micros
from shoal.dp.ledger.claims import Amount, Caps, Claim
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.mechanisms.discrete_laplace import laplace
from shoal.dp.unit import ENDED, Edges
from shoal.errors import ParameterError
from shoal.params import Constraint, Interval, Options, check_params
from shoal.release._graph import Graph, read_graph
from shoal.release._quadtree import arrange, explore, whole_counts

READINGS = ("edges", "vertex")
GRAPH_GUARANTEE = Edges(1).guarantee
_LEAF = 8  # vertices on the side of the smallest explored block


@dataclass(frozen=True)
class GraphRelease:
    """A graph that may be given out.

    Parameters
    ----------
    graph : Graph
        The vertices of the original and arranged edges.
    guarantee : str
        What is promised, word for word.
    epsilon, remaining : float
        Charged now (0 for a release already paid for), and left.
    spent : float
        Epsilon with which it was drawn.
    k : int
    reading : str
    height : int
        Explored levels of the quadtree.
    notes : tuple of str
    original : Graph
        For the owner's comparison; never written.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release import release_graph
    >>> ring = np.array([[i, (i + 1) % 50] for i in range(50)])
    >>> out = release_graph(ring, k=2, epsilon=4.0)
    >>> out.epsilon, out.remaining, out.k, len(out.graph.names)
    (4.0, 0.0, 2, 50)
    """

    graph: Graph
    guarantee: str
    epsilon: float
    remaining: float
    spent: float
    k: int
    reading: str
    height: int
    notes: tuple[str, ...]
    original: Graph = field(repr=False)

    @property
    def frame(self) -> pl.DataFrame:
        """The edges by the names of their ends."""
        ends = self.graph.names[self.graph.edges]
        return pl.DataFrame({"source": ends[:, 0], "target": ends[:, 1]})

    def to_sparse(self) -> Any:
        """The symmetric adjacency matrix as scipy.sparse."""
        from scipy.sparse import coo_matrix

        a, b = self.graph.edges.T
        ends = (np.concatenate([a, b]), np.concatenate([b, a]))
        return coo_matrix((np.ones(2 * len(a)), ends), shape=(self.graph.n, self.graph.n)).tocsr()

    def to_networkx(self) -> Any:
        """The graph as networkx.Graph."""
        try:
            import networkx as nx
        except ImportError:
            from shoal.errors import MissingExtraError

            raise MissingExtraError("networkx", "graph") from None
        out = nx.Graph()
        out.add_nodes_from(self.graph.names.tolist())
        out.add_edges_from(self.graph.names[self.graph.edges].tolist())
        return out


def release_graph(
    data: Any,
    k: int,
    epsilon: float,
    *,
    reading: str = "edges",
    labelling: str = "degree",
    quadtree: str = "noisy",
    vertices: Any = None,
    dataset: str = "graph",
    budget: float | None = None,
    analyst: str = "me",
    ledger: Ledger | str | Path | None = None,
    data_version: str | None = None,
) -> GraphRelease:
    """Release a graph whose edges may depend on each other, under differential privacy for any k of them.

    Parameters
    ----------
    data : frame of two columns, array of pairs, networkx.Graph or scipy.sparse matrix
    k : int
        How many edges go together. 1 protects single edges only.
    epsilon : float
        For any k edges jointly: each edge gets epsilon / k, in three parts.
    reading : {"edges", "vertex"}
        k correlated edges, as in the original; or k as the largest number of edges at a vertex, as in the
        dissertation: then all edges of a vertex that has at most k are hidden jointly, and no vertex of the
        released graph has more than k.
    labelling : {"degree", "greedy"}
        Ours, or as the authors describe it: see Notes.
    quadtree : {"noisy", "exponential"}
        Likewise.
    vertices : sequence, optional
        The public vertex set; what the data name if left open.
    dataset : str, default "graph"
        Names the data set in the ledger.
    budget : float, optional
        Total epsilon; this release alone if left open.
    analyst : str, default "me"
    ledger : Ledger, path or database URL, optional
    data_version : str, optional
        The owner's word for this state of the graph; drawn at random if left open.

    Returns
    -------
    GraphRelease

    Notes
    -----
    Reading taken of the three steps. *Labelling*: vertices are ordered by noisy degree (one edge moves two degrees by
    one), which gathers dense rows; the original permutes labels greedily (``labelling="greedy"``: exchanges drawn by
    the exponential mechanism). *Exploration*: a quadtree over the upper triangle with noisy counts on every level,
    quartered where a count exceeds twice the noise scale, and made consistent afterwards; a tenth of its part buys
    the number of edges, which fixes the height. In the original the exponential mechanism explores dense regions
    (``quadtree="exponential"``: it draws where a region is cut). *Arrangement*: in each leaf the exponential
    mechanism chooses among all sets of so many pairs by the number of true edges they hold; leaves are disjoint.
    Proof: docs/theory/releases.md.

    References
    ----------
    .. [1] R. Chen, B. C. M. Fung, P. S. Yu, B. C. Desai (2014). Correlated network data publication via
       differential privacy. VLDB Journal 23(4), 653-676.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release import release_graph
    >>> ring = np.array([[i, (i + 1) % 50] for i in range(50)])
    >>> out = release_graph(ring, k=2, epsilon=4.0)
    >>> out.guarantee
    'guarantee: epsilon-DP for any k edges jointly, vertices public'
    """
    rules: dict[str, Constraint] = {
        "k": Interval(Integral, 1),
        "reading": Options(READINGS),
        "labelling": Options(("degree", "greedy")),
        "quadtree": Options(("noisy", "exponential")),
    }
    check_params(
        "release_graph", rules, {"k": k, "reading": reading, "labelling": labelling, "quadtree": quadtree}
    )
    steps = NetworkSteps(labelling, quadtree, int(k) if reading == "vertex" else None)
    graph, micro = read_graph(data, vertices), micros.micro(epsilon)
    parts = tuple(Fraction(part, micros.MICRO * int(k)) for part in micros.split(micro, (1, 1, 1)))
    _check_budget(graph.n, parts[1], float(micros.epsilon(micro)), int(k))
    cap = None if budget is None else micros.micro(budget, "budget")
    kept = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        if cap is None and kept.caps(dataset) is None:
            cap = micro
        _, limit = kept.declare(dataset, cap)
        told = f"{reading} labelling={labelling} quadtree={quadtree}"
        claim = _claim(dataset, analyst, int(k), micro, told, data_version, limit)
        receipt = kept.once(claim, lambda: _drawn(graph, parts, steps))
    finally:
        if kept is not ledger:
            kept.close()
    listed, height = json.loads(receipt.body)
    edges = np.array(listed, dtype=np.int64).reshape(-1, 2)
    guarantee = GRAPH_GUARANTEE + (ENDED if receipt.ended else "")
    spent, left = micros.epsilon(receipt.charged), micros.epsilon(receipt.remaining)
    notes, out = _notes(int(k), reading, vertices), Graph(graph.names, edges)
    drawn = micros.epsilon(micro)
    return GraphRelease(out, guarantee, spent, left, drawn, int(k), reading, height, notes, graph)


def _check_budget(n: int, rate: Fraction, epsilon: float, k: int) -> None:
    """Refuse, by public facts alone, a budget that cannot explore one level."""
    cells = n * (n - 1) // 2
    if 1 / rate > cells:
        raise ParameterError(
            f"'epsilon' / k is too small to explore one level: its noise would exceed all {cells} pairs of "
            f"{n} vertices. Got {epsilon} / {k}."
        )


def tree_height(n: int, total: float, rate: Fraction) -> int:
    """Levels worth exploring: while an even share of the edges stands out from the noise of one more level.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.release._network import tree_height
    >>> tree_height(2000, 6500.0, Fraction(1, 5)), tree_height(2000, 6500.0, Fraction(10))
    (3, 6)
    """
    deepest = max(1, (n - 1).bit_length() - (_LEAF - 1).bit_length())
    height = 1
    while height < deepest and total / (4 ** (height + 1) / 2) > 3 * float((height + 1) / rate):
        height += 1
    return height


@dataclass(frozen=True)
class NetworkSteps:
    """How the three steps are done: labelling, exploration, and at most so many edges at a vertex."""

    labelling: str = "degree"
    quadtree: str = "noisy"
    most: int | None = None


def draw_graph(
    graph: Graph, parts: tuple[Fraction, ...], steps: NetworkSteps | None = None
) -> tuple[np.ndarray, int]:
    """All three private steps; gives edges as pairs of the original vertex numbers, and the explored levels."""
    from shoal.release._chen import explore_exponentially, label_greedily

    steps = steps or NetworkSteps()
    label = label_greedily if steps.labelling == "greedy" else label_vertices
    labels = label(graph, parts[0])
    pairs = np.sort(labels[graph.edges], axis=1)
    for_total = parts[1] / 10
    total = max(0.0, float(laplace(np.array([len(pairs)]), 1 / for_total)[0]))
    height = tree_height(graph.n, total, parts[1] - for_total)
    look = explore_exponentially if steps.quadtree == "exponential" else explore
    leaves = look(pairs, graph.n, height, parts[1] - for_total, total)
    rng = np.random.default_rng(secrets.randbits(128))  # of post-processing: touches no data
    counts = whole_counts(leaves, graph.n, rng)
    arranged = [
        arrange(each, count, graph.n, parts[2]) for each, count in zip(leaves, counts, strict=True) if count
    ]
    if not arranged:
        return np.empty((0, 2), dtype=np.int64), height
    vertex = np.argsort(labels)
    edges = np.sort(vertex[np.concatenate(arranged)], axis=1)
    edges = edges[np.lexsort(edges.T[::-1])]  # in an order that tells nothing
    return (edges if steps.most is None else _at_most(edges, graph.n, steps.most, rng)), height


def label_vertices(graph: Graph, rate: Fraction) -> np.ndarray:
    """Labels by falling noisy degree: one edge moves two degrees by one, so noise of scale 2 / rate."""
    noisy = laplace(graph.degrees().astype(np.int64), 2 / rate)
    labels = np.empty(graph.n, dtype=np.int64)
    labels[np.argsort(-noisy, kind="stable")] = np.arange(graph.n)
    return labels


def _at_most(edges: np.ndarray, n: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Drop edges, in random order, that would give a vertex more than `most`."""
    degrees, kept = [0] * n, []
    for at in rng.permutation(len(edges)).tolist():
        a, b = edges[at].tolist()
        if degrees[a] < most and degrees[b] < most:
            degrees[a] += 1
            degrees[b] += 1
            kept.append(at)
    return edges[sorted(kept)]


def _drawn(graph: Graph, parts: tuple[Fraction, ...], steps: NetworkSteps) -> str:
    edges, height = draw_graph(graph, parts, steps)
    return json.dumps([edges.tolist(), height])


def _claim(
    dataset: str, analyst: str, k: int, micro: int, reading: str, data: str | None, limit: Caps | None
) -> Claim:
    text = f"RELEASE GRAPH k={k} reading={reading}"
    return Claim(dataset, analyst, text, data or secrets.token_hex(16), Amount(micro), Edges(k), limit)


def _notes(k: int, reading: str, vertices: Any) -> tuple[str, ...]:
    notes = []
    if vertices is None:
        notes.append(
            "The vertices that the edges name are taken as public; declare them to hide who has no edge."
        )
    if k == 1:
        notes.append("k = 1 protects single edges: nothing is promised about edges that go together.")
    if reading == "vertex":
        notes.append(f"All edges of a vertex are hidden jointly where it has at most {k}.")
    return tuple(notes)
