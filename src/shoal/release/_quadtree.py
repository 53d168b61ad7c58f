"""The noisy quadtree over the upper triangle of an adjacency matrix, and the arrangement of edges in its leaves.

Only edges and explored regions are held; the matrix itself never is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb

import numpy as np

from shoal.dp.mechanisms.discrete_laplace import laplace
from shoal.dp.mechanisms.selection import exponential


@dataclass
class Region:
    """A block of the matrix: vertices in rows and columns, its edges, and what is known noisily of it.

    It is square unless `width` says otherwise.
    """

    row: int
    column: int
    side: int
    edges: np.ndarray = field(repr=False)
    level: int
    count: float = 0.0
    children: list[Region] = field(default_factory=list, repr=False)
    width: int | None = None

    @property
    def across(self) -> int:
        """Number of columns."""
        return self.side if self.width is None else self.width

    @property
    def diagonal(self) -> bool:
        """Whether it lies on the diagonal, so that only pairs above it count."""
        return self.row == self.column

    def cells(self, n: int) -> int:
        """Pairs of vertices in the block, above the diagonal and within the matrix."""
        rows = max(0, min(self.side, n - self.row))
        columns = max(0, min(self.across, n - self.column))
        if self.diagonal:
            return rows * (rows - 1) // 2
        return rows * columns


def explore(edges: np.ndarray, n: int, height: int, rate: Fraction, total: float) -> list[Region]:
    """Noisy leaves: the matrix is quartered where it looks dense.

    Parameters
    ----------
    edges : int64 (m, 2)
        Labels, first below second.
    n : int
    height : int
        Levels with a noisy count, at least 1.
    rate : Fraction
        Budget per edge of the whole tree, shared by the levels; an edge lies in one region of each.
    total : float
        Number of edges as bought before.

    Returns
    -------
    list of Region
        Leaves with consistent, possibly fractional counts.
    """
    side = 1 << max(1, (n - 1).bit_length())
    root = Region(0, 0, side, edges, 0)
    scale = Fraction(height) / rate
    threshold = 2.0 * float(scale)
    grow(
        root,
        height,
        scale,
        cut=lambda region, level: quarter(region, level, n),
        splits=lambda region: region.count > threshold and region.side > 2,
    )
    settle(root, n, total)
    return leaves_of(root)


def grow(
    root: Region,
    height: int,
    scale: Fraction,
    *,
    cut: Callable[[Region, int], list[Region]],
    splits: Callable[[Region], bool],
) -> None:
    """Grow a tree level by level: cut the regions that split, and give each part a noisy count."""
    ahead = [root]
    for level in range(1, height + 1):
        fresh: list[Region] = []
        for region in ahead:
            region.children = cut(region, level)
            fresh += region.children
        if not fresh:
            break
        noisy = laplace(np.array([len(each.edges) for each in fresh], dtype=np.int64), scale)
        for each, count in zip(fresh, noisy, strict=True):
            each.count = float(count)
        ahead = [each for each in fresh if splits(each)]


def quarter(
    region: Region, level: int, n: int, down_at: int | None = None, across_at: int | None = None
) -> list[Region]:
    """The parts of a region, cut after so many rows and columns; in halves if left open."""
    top = region.side // 2 if down_at is None else down_at
    left = region.across // 2 if across_at is None else across_at
    low = region.edges[:, 0] >= region.row + top
    right = region.edges[:, 1] >= region.column + left
    parts = []
    for down in (False, True):
        for across in (False, True):
            if down and not across and region.diagonal:
                continue  # below the diagonal
            part = Region(
                region.row + top * down,
                region.column + left * across,
                region.side - top if down else top,
                region.edges[(low == down) & (right == across)],
                level,
                width=region.across - left if across else left,
            )
            if part.cells(n) > 0:
                parts.append(part)
    return parts


def settle(root: Region, n: int, total: float) -> None:
    """Make counts consistent: average each with the sum of its children, then share the total downwards."""
    order, at = [root], 0
    while at < len(order):
        order += order[at].children
        at += 1
    weight: dict[int, float] = {}
    for each in reversed(order):  # in units of one noisy count's precision
        if not each.children:
            weight[id(each)] = 1.0
            continue
        below = 1.0 / sum(1.0 / weight[id(child)] for child in each.children)
        own = 0.0 if each is root else 1.0
        inside = sum(child.count for child in each.children)
        each.count = (own * each.count + below * inside) / (own + below)
        weight[id(each)] = own + below
    root.count = min(max(total, 0.0), float(root.cells(n)))
    for each in order:  # every count at least 0, at most its pairs, and adding up to the parent's
        if each.children:
            found = _share(
                each.count,
                np.array([child.count for child in each.children]),
                np.array([float(child.cells(n)) for child in each.children]),
            )
            for child, count in zip(each.children, found.tolist(), strict=True):
                child.count = count


def _share(total: float, counts: np.ndarray, most: np.ndarray) -> np.ndarray:
    """The nearest counts in [0, most] that add up to a total, by moving all of them alike."""
    low, high = -float(np.max(np.abs(counts))) - total - 1, float(np.max(most)) + total + 1
    high += float(np.max(np.abs(counts)))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(counts + middle, 0, most).sum() < total else (low, middle)
    return np.clip(counts + high, 0, most)


def leaves_of(root: Region) -> list[Region]:
    found, ahead = [], [root]
    while ahead:
        region = ahead.pop()
        if region.children:
            ahead += region.children
        else:
            found.append(region)
    return found


def whole_counts(leaves: list[Region], n: int, rng: np.random.Generator) -> list[int]:
    """Counts of the leaves rounded at random with the same mean: post-processing, so that small ones add up."""
    counts = np.array([each.count for each in leaves])
    whole = np.floor(counts + rng.random(len(counts))).astype(np.int64)
    return [min(int(count), each.cells(n)) for count, each in zip(whole, leaves, strict=True)]


def arrange(region: Region, count: int, n: int, rate: Fraction) -> np.ndarray:
    """Edges of a leaf by the exponential mechanism over all sets of `count` pairs, exactly.

    The utility of a set is how many true edges it holds: it moves by at most one with an edge, and always in
    one direction, so that the rate is the whole budget. The size of the overlap is drawn first, then the set.

    Parameters
    ----------
    region : Region
    count : int
    n : int
    rate : Fraction

    Returns
    -------
    int64 (count, 2)
    """
    cells, true = region.cells(n), len(region.edges)
    if count <= 0:
        return np.empty((0, 2), dtype=np.int64)
    most, least = min(count, true), max(0, count - (cells - true))
    ways = _ways(cells, true, count, least, most)
    kept = least + int(exponential(np.arange(most - least, -1, -1), rate, np.array(ways, dtype=object))[0])
    rng = secrets.SystemRandom()  # this choice is the mechanism's own, so an ordinary generator will not do
    own = region.edges[np.array(rng.sample(range(true), kept), dtype=np.int64)]
    return np.concatenate([own, _others(region, count - kept, n, rng)])


def _ways(cells: int, true: int, count: int, least: int, most: int) -> list[int]:
    """How many sets of `count` cells hold j true edges, for j from least to most: each from the one before."""
    ways = [comb(true, least) * comb(cells - true, count - least)]
    for j in range(least, most):
        ways.append(ways[-1] * (true - j) * (count - j) // ((j + 1) * (cells - true - count + j + 1)))
    return ways


def _others(region: Region, count: int, n: int, rng: secrets.SystemRandom) -> np.ndarray:
    """Pairs of a leaf that are no edges, uniformly without repetition."""
    taken = set(map(tuple, region.edges.tolist()))
    rows, columns = min(region.side, n - region.row), min(region.across, n - region.column)
    if 2 * (count + len(taken)) > region.cells(n):  # crowded: list them all
        pairs = np.array(
            [
                (r, c)
                for r in range(region.row, region.row + rows)
                for c in range(region.column, region.column + columns)
                if r < c and (r, c) not in taken
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        return pairs[np.array(rng.sample(range(len(pairs)), count), dtype=np.int64)]
    found: list[tuple[int, int]] = []
    while len(found) < count:
        pair = (region.row + rng.randrange(rows), region.column + rng.randrange(columns))
        if pair[0] < pair[1] and pair not in taken:
            taken.add(pair)
            found.append(pair)
    return np.array(found, dtype=np.int64).reshape(-1, 2)
