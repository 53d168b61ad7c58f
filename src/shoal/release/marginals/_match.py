"""Drawn rows matched to their model: cells change until the rows' tables are the model's, as nearly as whole rows can be.

What a draw adds by chance is undone; only the model, which was bought, is looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from threadpoolctl import threadpool_limits

from shoal.engine.compile import kernel
from shoal.engine.kernels.exchange import random_bits
from shoal.release.marginals._mixture import Mixture

SINGLE = 10.0  # how much the squares of single columns count
ROUNDS = 3  # further ones change next to nothing
MOST_CELLS = 1 << 24  # of all tables of three columns together
WORK = (
    100_000_000  # numbers looked at in one pass: with more, tables of three columns are left out, then rows
)


@dataclass(frozen=True)
class Gaps:
    """Counts of rows less what the model expects, of all tables of one, two and three columns.

    Parameters
    ----------
    starts : int64 array
        Where each column's positions begin.
    single, pairs : float32 arrays
        By position, and by two positions.
    triples : float32 array
        All tables of three columns one after another; empty where they are too many.
    where : int64 array
        For each three columns where their table begins and the stride of each.
    """

    starts: np.ndarray
    single: np.ndarray
    pairs: np.ndarray
    triples: np.ndarray
    where: np.ndarray

    @property
    def looks(self) -> int:
        """Numbers looked at to judge one change."""
        columns = len(self.starts) - 1
        return columns + (math.comb(columns - 1, 2) if len(self.triples) else 0)


def match(
    codes: np.ndarray, mixture: Mixture, rng: np.random.Generator, single: np.ndarray | None = None
) -> np.ndarray:
    """Change cells of drawn rows while that brings tables of one, two and three columns nearer to the model, by squares.

    A cell takes the position of another row, or two rows exchange theirs; what brings the tables no nearer is not done.

    Parameters
    ----------
    codes : int64 array
        Rows of positions.
    mixture : Mixture
        The model that they were drawn from.
    rng : numpy.random.Generator
    single : float array, optional
        What single columns shall be, the shares of all positions side by side: as they were measured, which a mixture that
        is fitted to much more does not quite keep. The mixture's if left open.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release.marginals._match import match
    >>> from shoal.release.marginals._mixture import Mixture
    >>> fair = Mixture(np.full((1, 4), 0.5, np.float32), (0, 2, 4), 0.0, 0.0, 0)
    >>> rows = np.array([[0, 0]] * 15 + [[0, 1]] * 5 + [[1, 1]] * 20)
    >>> np.unique(match(rows, fair, np.random.default_rng(0)), axis=0, return_counts=True)[1]
    array([10, 10, 10, 10])
    """
    codes = np.ascontiguousarray(codes, dtype=np.int64).copy()
    rows, columns = codes.shape
    if rows < 2:
        return codes
    gaps = gaps_of(codes, mixture, single)
    tried = max(1, min(rows, WORK // (columns * gaps.looks)))
    for _ in range(ROUNDS):
        for swap in (False, True):
            first, seed = int(rng.integers(rows)), int(rng.integers(1, 1 << 62))
            _pass(
                codes, gaps.starts, gaps.single, gaps.pairs, gaps.triples, gaps.where, first, tried, swap, seed,
                SINGLE,
            )  # fmt: skip
    return codes


def gaps_of(codes: np.ndarray, mixture: Mixture, single: np.ndarray | None = None) -> Gaps:
    """How far the tables of some rows are from the model's."""
    rows, columns = codes.shape
    starts = np.array(mixture.starts, dtype=np.int64)
    sizes = np.diff(starts)
    with threadpool_limits(limits=1):
        shares = mixture.shares.mean(axis=0) if single is None else single.astype(np.float32)
        alone = shares * np.float32(-rows)
        pairs = mixture.shares.T @ mixture.shares * np.float32(-rows / len(mixture.shares))
        for at in range(columns):
            alone[starts[at] : starts[at + 1]] += np.bincount(codes[:, at], minlength=sizes[at])
        for key in combinations(range(columns), 2):
            here, there = (slice(starts[at], starts[at + 1]) for at in key)
            counts = _counts(codes, key, sizes).reshape(sizes[list(key)])
            pairs[here, there] += counts
            pairs[there, here] += counts.T
        triples, where = _triples(codes, mixture, sizes)
    return Gaps(starts, alone, np.ascontiguousarray(pairs), triples, where)


def _triples(codes: np.ndarray, mixture: Mixture, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = codes.shape
    keys = list(combinations(range(columns), 3))
    where = np.zeros((columns, columns, columns, 4), dtype=np.int64)
    whole = sum(math.prod(int(sizes[at]) for at in key) for key in keys)
    if whole > MOST_CELLS or rows * columns * (columns + math.comb(columns - 1, 2)) > WORK:
        return np.empty(0, np.float32), where
    found, begin = np.empty(whole, np.float32), 0
    for a, b, c in keys:
        strides = {a: sizes[b] * sizes[c], b: sizes[c], c: 1}
        for x, y, z in ((a, b, c), (b, a, c), (c, a, b)):
            where[x, y, z] = begin, strides[x], strides[y], strides[z]
        end = begin + int(sizes[a] * sizes[b] * sizes[c])
        found[begin:end] = _counts(codes, (a, b, c), sizes)
        found[begin:end] -= np.float32(rows) * mixture.marginal((a, b, c)).ravel()
        begin = end
    return found, where


def _counts(codes: np.ndarray, key: tuple[int, ...], sizes: np.ndarray) -> np.ndarray:
    place = codes[:, key[0]]
    for at in key[1:]:
        place = place * sizes[at] + codes[:, at]
    return np.bincount(place, minlength=math.prod(int(sizes[at]) for at in key))


@kernel()
def _pass(codes, starts, single, pairs, triples, where, first, tried, swap, seed, weight):
    """Try one change in each cell of some rows, and make those that lessen the sum of squared gaps."""
    rows, columns = codes.shape
    state = np.uint64(seed)
    for step in range(tried):
        row = (first + step) % rows
        for at in range(columns):
            state = random_bits(state)
            other = np.int64((state >> np.uint64(11)) % np.uint64(rows))
            old, new = codes[row, at], codes[other, at]
            if old == new:
                continue
            gain = _gain(codes, starts, pairs, triples, where, row, at, old, new)
            if swap:
                gain += _gain(codes, starts, pairs, triples, where, other, at, new, old)
                gain += _shared(codes, triples.size > 0, row, other, at)
            else:
                gain += weight * 2.0 * (single[starts[at] + old] - single[starts[at] + new] - 1.0)
            if gain > 1e-6:
                _move(codes, starts, single, pairs, triples, where, row, at, new)
                if swap:
                    _move(codes, starts, single, pairs, triples, where, other, at, old)


@kernel()
def _gain(codes, starts, pairs, triples, where, row, at, old, new):
    """By how much the squares of pairs and triples fall if one cell changes."""
    columns, gain = codes.shape[1], 0.0
    here, there = starts[at] + old, starts[at] + new
    for b in range(columns):
        if b == at:
            continue
        place = starts[b] + codes[row, b]
        gain += 2.0 * (pairs[here, place] - pairs[there, place] - 1.0)
        if triples.size == 0:
            continue
        for c in range(b + 1, columns):
            if c == at:
                continue
            begin, stride, of_b, of_c = where[at, b, c]
            base = begin + of_b * codes[row, b] + of_c * codes[row, c]
            gain += 2.0 * (triples[base + stride * old] - triples[base + stride * new] - 1.0)
    return gain


@kernel()
def _shared(codes, three, row, other, at):
    """What an exchange costs less than its two changes: tables in which both rows lie alike do not change at all."""
    columns, alike = codes.shape[1], 0
    for b in range(columns):
        if b != at and codes[row, b] == codes[other, b]:
            alike += 1
    if three:
        alike += alike * (alike - 1) // 2
    return 4.0 * alike


@kernel()
def _move(codes, starts, single, pairs, triples, where, row, at, new):
    """Change one cell, and the gaps with it."""
    columns, old = codes.shape[1], codes[row, at]
    here, there = starts[at] + old, starts[at] + new
    single[here] -= 1.0
    single[there] += 1.0
    for b in range(columns):
        if b == at:
            continue
        place = starts[b] + codes[row, b]
        pairs[here, place] -= 1.0
        pairs[place, here] -= 1.0
        pairs[there, place] += 1.0
        pairs[place, there] += 1.0
        if triples.size == 0:
            continue
        for c in range(b + 1, columns):
            if c == at:
                continue
            begin, stride, of_b, of_c = where[at, b, c]
            base = begin + of_b * codes[row, b] + of_c * codes[row, c]
            triples[base + stride * old] -= 1.0
            triples[base + stride * new] += 1.0
    codes[row, at] = new
