"""The two steps of correlated network publication as its authors describe them, beside ours.

*Greedy labelling*: labels of two vertices are exchanged, again and again, to gather edges in the blocks on the
diagonal; each exchange is drawn by the exponential mechanism. *Exponential quadtree*: where a region is cut is drawn
by the exponential mechanism, for the cut that sets dense and empty parts apart best. Proofs: docs/theory/releases.md.
"""

from __future__ import annotations

import secrets
from fractions import Fraction

import numpy as np

from shoal.dp.mechanisms.selection import exponential
from shoal.release._graph import Graph
from shoal.release._quadtree import Region, grow, leaves_of, quarter, settle

ROUNDS = 32
CANDIDATES = 128
BLOCKS = 8
CUTS = (Fraction(1, 4), Fraction(3, 8), Fraction(1, 2), Fraction(5, 8), Fraction(3, 4))


def label_greedily(graph: Graph, rate: Fraction, rounds: int = ROUNDS) -> np.ndarray:
    """Labels by exchanges that gather edges in diagonal blocks, each drawn from random candidates and no exchange at all.

    The utility of a labelling is the number of edges inside the blocks: one edge raises that of every candidate by 0 or
    1, all in one direction, so that a round may spend its whole share as the rate.

    Parameters
    ----------
    graph : Graph
    rate : Fraction
        Budget per edge of all rounds together.
    rounds : int, default 32
    """
    rng = np.random.default_rng(secrets.randbits(128))  # of candidates: touches no data
    labels = rng.permutation(graph.n)
    block = -(-graph.n // BLOCKS)
    starts, others = _neighbours(graph)
    share = rate / rounds
    for _ in range(rounds):
        pairs = rng.integers(0, graph.n, (CANDIDATES, 2))
        gains = np.array([_gain(labels // block, int(a), int(b), starts, others) for a, b in pairs] + [0])
        chosen = int(exponential(gains.max() - gains, share, np.ones(len(gains), dtype=object))[0])
        if chosen < CANDIDATES:
            a, b = pairs[chosen]
            labels[[a, b]] = labels[[b, a]]
    return labels


def _neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    ends = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    return np.searchsorted(ends[:, 0], np.arange(graph.n + 1)), ends[:, 1]


def _gain(block: np.ndarray, a: int, b: int, starts: np.ndarray, others: np.ndarray) -> int:
    """How many more edges lie inside blocks when two vertices exchange their labels."""
    if block[a] == block[b]:
        return 0
    of_a, of_b = (others[starts[each] : starts[each + 1]] for each in (a, b))
    of_a, of_b = of_a[of_a != b], of_b[of_b != a]  # an edge between the two stays across
    moved = int((block[of_a] == block[b]).sum()) - int((block[of_a] == block[a]).sum())
    return moved + int((block[of_b] == block[a]).sum()) - int((block[of_b] == block[b]).sum())


def explore_exponentially(
    edges: np.ndarray, n: int, height: int, rate: Fraction, total: float
) -> list[Region]:
    """Noisy leaves of a quadtree whose cuts are drawn; the arguments are those of `explore`.

    Half of a level's budget draws the cuts, half the counts. The utility of a cut is the largest difference between the
    edges of one of its parts and what an even spread of the bought total would give it: one edge moves it by at most 1.
    """
    root = Region(0, 0, n, edges, 0)
    scale = 2 * Fraction(height) / rate
    threshold = 2.0 * float(scale)
    cut_rate = rate / (4 * height)  # half of the level's budget, and half again as utilities move both ways
    density = total / max(1, root.cells(n))
    grow(
        root,
        height,
        scale,
        cut=lambda region, level: _cut(region, level, n, cut_rate, density),
        splits=lambda region: region.count > threshold and min(region.side, region.across) > 3,
    )
    settle(root, n, total)
    return leaves_of(root)


def _cut(region: Region, level: int, n: int, rate: Fraction, density: float) -> list[Region]:
    """The parts of a region by a drawn cut; on the diagonal rows and columns are cut alike."""
    choices = [
        (max(1, int(down * region.side)), max(1, int(across * region.across)))
        for down in CUTS
        for across in ((down,) if region.diagonal else CUTS)
    ]
    ways = [quarter(region, level, n, *each) for each in choices]
    scores = np.array(
        [max((abs(len(p.edges) - density * p.cells(n)) for p in parts), default=0.0) for parts in ways]
    )
    whole = np.floor(scores * 1024).astype(np.int64)  # rounding moves a score by less than one step of 1,024
    weights = np.ones(len(ways), dtype=object)
    return ways[int(exponential(whole.max() - whole, rate / 1025, weights)[0])]
