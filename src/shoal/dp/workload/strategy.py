"""Strategies: which sums are measured, with which share of the budget, and the variance of every query that follows.

Along each column counts are taken apart in one of three ways, whose blocks are orthogonal to each other: even (the
total, and what a position has more than the mean: marginals by residuals), halves (the total, and differences of
halves, quarters, ...: a consistent hierarchy of ranges), or cells (every position). A block of the whole table is a
product of one block of each column. Everything here is public. Proofs: docs/theory/workloads.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shoal.dp.mechanisms.currency import PURE, Noise, sums_noise
from shoal.dp.mechanisms.dyadic import depth_of, level_matrices, widths

MOST_COMPARED = 30  # combinations of ways that are compared


@dataclass(frozen=True, eq=False)
class Part:
    """One block of a column.

    Parameters
    ----------
    rows : int array (entries, positions)
        What is measured.
    back : float array (entries, positions)
        Applied to a query's weights: what each entry counts in its answer.
    size, square : int
        L1 length, and square of the L2 length, of what one record moves.
    """

    rows: np.ndarray
    back: np.ndarray
    size: int
    square: int


@lru_cache(maxsize=256)
def even(size: int) -> tuple[Part, ...]:
    """The total, and the differences from the mean, times the number of positions so that they are whole."""
    ones, eye = np.ones((1, size), dtype=np.int64), np.eye(size, dtype=np.int64)
    total = Part(ones, ones / size, 1, 1)
    if size == 1:
        return (total,)
    rest = size * eye - 1
    return total, Part(rest, rest / size**2, 2 * (size - 1), size * (size - 1))


@lru_cache(maxsize=256)
def halves(size: int) -> tuple[Part, ...]:
    """The total, and a level of differences for each halving; beyond the last position a query goes on as it ends."""
    padded = 1 << depth_of(size)
    further = np.eye(size)[np.minimum(np.arange(padded), size - 1)]
    found = []
    for rows, width in zip(level_matrices(padded), widths(size), strict=True):
        kept = rows[(rows[:, :size] != 0).any(axis=1)]
        found.append(Part(kept[:, :size].astype(np.int64), kept @ further / width, 1, 1))
    return tuple(found)


@lru_cache(maxsize=256)
def cells(size: int) -> tuple[Part, ...]:
    """Every position."""
    return (Part(np.eye(size, dtype=np.int64), np.eye(size), 1, 1),)


WAYS: dict[str, Callable[[int], tuple[Part, ...]]] = {"even": even, "halves": halves, "cells": cells}


@dataclass(frozen=True, eq=False)
class Strategy:
    """What is measured for a workload.

    Parameters
    ----------
    ways : tuple of str
        How each column is taken apart; empty where the queries are answered one by one.
    currency : {"pure", "zcdp"}
    amount : Fraction
    rows : int
        Rows that one unit can bring.
    shares : tuple of Fraction
        Of each block, or of each query.
    variances : float array
        Of each query and group.
    """

    ways: tuple[str, ...]
    currency: str
    amount: Fraction
    rows: int
    shares: tuple[Fraction, ...]
    variances: np.ndarray

    @property
    def name(self) -> str:
        """In words."""
        return ", ".join(self.ways) if self.ways else "one by one"

    def noise(self, at: int, size: int = 1, square: int = 1) -> Noise:
        """On the entries of a block, of which one record moves so much."""
        amount = self.amount * self.shares[at]
        return sums_noise(self.currency, amount, self.rows * size, self.rows**2 * square)

    def measured(
        self, counts: np.ndarray, draws: int = 1
    ) -> Iterator[tuple[tuple[Part, ...], Noise, np.ndarray, np.ndarray]]:
        """Each block that is measured, its noise, its exact numbers, and draws of the noisy ones (draws, entries)."""
        for at, block in enumerate(blocks(self.ways, counts.shape)):
            if self.shares[at]:
                noise = self.noise(at, *lengths(block))
                exact = applied(counts, [each.rows for each in block])
                yield block, noise, exact, noise.add(np.broadcast_to(exact, (draws, *exact.shape)))

    def answers(self, counts: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """Noisy answers from the exact counts of all combinations: every block is measured once."""
        found = np.zeros(len(queries))
        for block, _, exact, noisy in self.measured(counts):
            back = applied(queries, [each.back for each in block], 1)
            found += np.tensordot(back, noisy[0].astype(np.float64), axes=exact.ndim)
        return found


def blocks(ways: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[Part, ...]]:
    """All products of one block of each column."""
    return itertools.product(*(WAYS[way](size) for way, size in zip(ways, sizes, strict=True)))


def lengths(block: tuple[Part, ...]) -> tuple[int, int]:
    """L1 length, and square of the L2 length, of what a record moves in a block."""
    return math.prod(each.size for each in block), math.prod(each.square for each in block)


def choose_strategy(
    queries: np.ndarray | None,
    groups: Sequence[int],
    currency: str,
    amount: Fraction,
    rows: int = 1,
    orders: Sequence[bool] = (),
) -> Strategy:
    """The strategy with the least mean variance over all queries and groups.

    Parameters
    ----------
    queries : float array (queries and groups, positions of each column), optional
        What each counts; None where the combinations are too many, so that the queries are answered one by one.
    groups : sequence of int
        Groups of each query.
    currency : {"pure", "zcdp"}
    amount : Fraction
    rows : int, default 1
    orders : sequence of bool
        Which columns have an order.

    Returns
    -------
    Strategy

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from shoal.dp.workload import choose_strategy
    >>> ranges = np.array([[a <= at < b for at in range(64)] for a in range(0, 64, 3) for b in range(a + 1, 65, 3)])
    >>> choose_strategy(ranges.astype(float), [1] * len(ranges), "zcdp", Fraction(1, 10), orders=[True]).name
    'halves'
    """
    best = alone(groups, currency, amount, rows)
    if queries is not None:
        taken = Products.of(queries)
        for ways in _ways(queries.shape[1:], orders):
            found = _taken_apart(taken, ways, currency, amount, rows)
            best = found if found.variances.mean() < best.variances.mean() else best
    return best


def alone(
    groups: Sequence[int], currency: str, amount: Fraction, rows: int = 1, *, alike: bool = False
) -> Strategy:
    """Every query by itself; alike, or with the shares that make the mean variance least."""
    weights = np.ones(len(groups)) if alike else np.array(groups, dtype=np.float64)
    shares = _shares(weights if alike else weights ** _power(currency))
    found = Strategy((), currency, amount, rows, shares, np.zeros(0))
    each = [found.noise(at).deviation ** 2 for at in range(len(groups))]
    return Strategy((), currency, amount, rows, shares, np.repeat(each, groups))


def _ways(sizes: Sequence[int], orders: Sequence[bool]) -> Iterator[tuple[str, ...]]:
    """All ways where these are few, else all columns alike and by their order."""
    if len(WAYS) ** len(sizes) <= MOST_COMPARED:
        yield from itertools.product(WAYS, repeat=len(sizes))
        return
    yield from (tuple([way] * len(sizes)) for way in WAYS)
    for ordered, other in (("halves", "even"), ("halves", "cells"), ("cells", "even")):
        yield tuple(ordered if each else other for each in orders)


@dataclass(frozen=True, eq=False)
class Products:
    """Queries with those apart that are a condition on each column: their loads are products, found at once.

    Parameters
    ----------
    plain : bool array (queries,)
        Which are such products.
    factors : tuple of float arrays (plain queries, positions of a column)
        Their conditions, column by column.
    rest : float array (other queries, positions of each column)
    """

    plain: np.ndarray
    factors: tuple[np.ndarray, ...]
    rest: np.ndarray

    @classmethod
    def of(cls, queries: np.ndarray) -> Products:
        """Which queries are products, by trying."""
        axes = range(1, queries.ndim)
        factors = [queries.max(axis=tuple(each for each in axes if each != at)) for at in axes]
        whole = np.ones((1,) * queries.ndim)
        for at, each in zip(axes, factors, strict=True):
            shape = [size if axis in (0, at) else 1 for axis, size in enumerate(queries.shape)]
            whole = whole * each.reshape(shape)
        plain = (whole == queries).reshape(len(queries), -1).all(axis=1)
        return cls(plain, tuple(each[plain] for each in factors), queries[~plain])

    def loads(self, ways: tuple[str, ...]) -> np.ndarray:
        """How much each entry of each block weighs in the variance of each query (blocks, queries)."""
        parts = [WAYS[way](size) for way, size in zip(ways, self.rest.shape[1:], strict=True)]
        norms = [
            [((each @ part.back.T) ** 2).sum(axis=1) for part in some]
            for each, some in zip(self.factors, parts, strict=True)
        ]
        found = np.empty((math.prod(map(len, parts)), self.plain.size))
        for load, block, norm in zip(
            found, itertools.product(*parts), itertools.product(*norms), strict=True
        ):
            load[self.plain] = np.prod(norm, axis=0)
            if len(self.rest):
                back = applied(self.rest, [each.back for each in block], 1)
                load[~self.plain] = (back.reshape(len(self.rest), -1) ** 2).sum(axis=1)
        return found


def _taken_apart(
    queries: Products, ways: tuple[str, ...], currency: str, amount: Fraction, rows: int
) -> Strategy:
    """A strategy of blocks, with the shares that make the mean variance least."""
    moves = [lengths(block) for block in blocks(ways, queries.rest.shape[1:])]
    load = queries.loads(ways)
    move = np.array([size**2 if currency == PURE else square for size, square in moves], dtype=np.float64)
    shares = _shares((load.sum(axis=1) * move) ** _power(currency))
    found = Strategy(ways, currency, amount, rows, shares, np.zeros(0))
    each = np.array(
        [found.noise(at, *moved).deviation ** 2 if shares[at] else 0.0 for at, moved in enumerate(moves)]
    )
    return Strategy(ways, currency, amount, rows, shares, each @ load)


def _power(currency: str) -> float:
    """Shares that make a sum of loads / share^2 (pure) or loads / share least."""
    return 1 / 3 if currency == PURE else 1 / 2


def _shares(weights: np.ndarray) -> tuple[Fraction, ...]:
    """Fractions in proportion to weights that add up to 1; what counts for next to nothing is not measured."""
    kept = np.where(weights > 1e-9 * weights.max(), weights, 0.0)
    exact = [Fraction(float(each)) for each in kept]
    total = sum(exact)
    return tuple(each / total for each in exact)


def applied(table: np.ndarray, matrices: Sequence[np.ndarray], first: int = 0) -> np.ndarray:
    """A matrix along each axis, from `first` on."""
    for axis, each in enumerate(matrices, first):
        table = np.moveaxis(np.tensordot(each, table, axes=(1, axis)), 0, axis)
    return table
