"""Prices of records by entropic dual ascent: the strong bound without a linear programme, for large tables.

The relaxation's dual asks for prices pi of largest sum such that no group costs less than its records, c(S) >=
pi(S). Over a pool of groups its smooth form maximises sum(pi) - eps * sum over S of exp((pi(S) - c(S)) / eps). One price at
a time the maximum is known: pi_i falls or rises by -eps log(sum over S containing i of exp(-q_S / eps)), q = c -
pi(S). As eps falls the prices approach those of the linear programme. Groups that undercut them are searched among
near records and join the pool. None of that needs to be exact: `price_all` then lowers the prices until they are
proven.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from shoal.engine.compile import kernel
from shoal.relaxation.rooted import price_all, price_near
from shoal.relaxation.surroundings import Surroundings

FIRST, LAST, FALL = 0.03, 0.0008, 0.8
"""First and last eps, in mean prices, and its fall from round to round."""

FLOOR = 1e-3
"""Least scale of a price, in mean prices."""

CALM = 3
"""First rounds that go half the way only."""

PER_RECORD, TRIMMED = 25, 15
"""Groups of the pool for each record beyond which it is trimmed, and to how many."""


ROUNDS, PROOFS, PASSES = 18, 2, 60
"""Rounds of ascent, proofs after them, and passes over the prices in a round."""

EARLY = 4
"""The round that ends with a proof, since it finds the groups that reach beyond near records while prices still move.
From `WIDE` on a proof takes long; it comes at the end instead."""

NODES, PROOF_NODES = 300, 20_000
"""Most nodes of the search from one root in either."""

PROOF_TIME = 8.0
"""What proofs to the end take, in rounds; so much is kept for them when time is short."""

WIDE = 8
"""From this k on so many groups are close to their price that lower prices prove more."""


class Ascent:
    """Rounds of ascent and pricing; after any of them the best bound is valid.

    Parameters
    ----------
    around : Surroundings
    duals : array of float64, (n,)
        Prices that no group undercuts, by record.
    labels : array of int64, (n,), or None
        A good partition, by record.
    time_left : function
        Seconds that may still be used.

    Attributes
    ----------
    value : float
        The best bound so far.
    pi : array of float64, (n,)
        Prices that prove it, by record.
    cut : int
        Roots whose search was cut short in the best proof.
    """

    def __init__(
        self,
        around: Surroundings,
        duals: np.ndarray,
        labels: np.ndarray | None,
        time_left: Callable[[], float],
    ) -> None:
        self._around, self._time_left = around, time_left
        self._rng = np.random.default_rng(1)
        self.pi, self.value, self.cut = duals, math.fsum(duals), 0
        self._groups = np.empty((0, around.k), np.int64)
        self._keys, self._costs = np.empty(0, np.uint64), np.empty(0)
        self._add(first_pool(around, labels, self._rng))
        by_place = duals[around.order]
        self._prices = by_place * self._first_scale(labels)
        self._shrink = 1.0 if around.k < WIDE else 0.92

    def _first_scale(self, labels: np.ndarray | None) -> float:
        """How much the first prices lie above proven ones: nearly up to the partition, where there is one."""
        if labels is None or self.value <= 0:
            return 1.3
        X = self._around.space.columns.T
        return max(1.0, 0.97 * _loss(X, labels[self._around.order]) / self.value)

    def run(self, target: float, report: Callable[[str, float], None]) -> None:
        """Raise the bound until the rounds are over, it meets a target, or time is up."""
        share, last, wide = FIRST, 0.0, self._around.k >= WIDE
        for turn in range(ROUNDS):
            if self._time_left() <= PROOF_TIME * last:
                break
            begun = time.monotonic()
            eps = share * scale_of(self._around, self._prices)
            self._ascend(eps, calm=turn < CALM)
            self._add(price_near(self._around, self._prices + 0.5 * eps, NODES).groups)
            # The first round may have compiled.
            last = time.monotonic() - begun if turn > 0 else 0.0
            if turn == EARLY and not wide and self._time_left() > 3 * PROOF_TIME * last:
                self._prove()
            report("prices", self.value)
            share = max(LAST, share * FALL)
        for turn in range(PROOFS + wide):
            if turn > 0:
                self._ascend(share * scale_of(self._around, self._prices), calm=False)
            self._prove()
            report("proof", self.value)
            if self._time_left() <= 3 * last or self.value >= target:
                return

    @property
    def pool(self) -> tuple[np.ndarray, np.ndarray]:
        """The last prices and the groups they come from, by place."""
        return self._prices, self._groups

    def _ascend(self, eps: np.ndarray, calm: bool) -> None:
        old = self._prices.copy()
        start, listed = by_member(self._groups, old.size)
        entropic(
            self._costs.copy(), start, listed, self._prices, eps, PASSES, self._rng.permutation(old.size)
        )
        if calm:
            self._prices = 0.5 * (self._prices + old)

    def _prove(self) -> None:
        around, asked = self._around, self._prices * self._shrink
        found = price_all(around, asked, PROOF_NODES)
        assert found.proven is not None
        value = math.fsum(found.proven)
        if value > self.value:
            self.value, self.cut = value, found.cut
            self.pi = np.empty_like(found.proven)
            self.pi[around.order] = found.proven
        if around.k >= WIDE:
            self._shrink = 0.5 * (1.0 + self._shrink) if value > 0.98 * asked.sum() else 0.9 * self._shrink
        self._add(found.groups)

    def _add(self, groups: np.ndarray) -> None:
        """Add groups that are not in the pool, and trim it where it has grown large."""
        if self._costs.size > PER_RECORD * self._around.n:
            left = TRIMMED * self._around.n
            q = self._costs - self._prices[self._groups].sum(axis=1)
            keep = q < np.partition(q, left)[left]
            self._groups, self._costs, self._keys = self._groups[keep], self._costs[keep], self._keys[keep]
        groups = np.sort(groups, axis=1).astype(np.int64)
        keys, first = np.unique(keys_of(groups), return_index=True)
        fresh = first[~np.isin(keys, self._keys)]
        new = np.ascontiguousarray(groups[fresh])
        self._groups = np.concatenate([self._groups, new])
        self._keys = np.concatenate([self._keys, keys_of(new)])
        self._costs = np.concatenate([self._costs, squares_of(self._around.space.columns, new)])


def scale_of(around: Surroundings, prices: np.ndarray) -> np.ndarray:
    """What is a large change of each price: the mean price around it."""
    size = np.abs(prices)
    size = (size + size[around.near[:, : around.k - 1]].sum(axis=1)) / around.k
    return np.maximum(size, FLOOR * size.mean())


def first_pool(around: Surroundings, labels: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Each record with its nearest, with some of its near ones by chance, and the groups of a partition."""
    k, n = around.k, around.n
    near = around.near.astype(np.int64)
    own = np.arange(n)[:, None]
    rows = [np.hstack([own, near[:, : k - 1]])]
    reach = min(near.shape[1], 2 * k - 1)
    for _ in range(3 if reach > k - 1 else 0):
        some = np.argsort(rng.random((n, reach)), axis=1)[:, : k - 1]
        rows.append(np.hstack([own, np.take_along_axis(near, some, axis=1)]))
    if labels is not None:
        rows.append(_subsets_of(labels[around.order], k))
    return np.concatenate(rows)


def _subsets_of(labels: np.ndarray, k: int) -> np.ndarray:
    """Groups of k consecutive members, around each group of a partition in turn."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    start = np.cumsum(sizes) - sizes
    group = labels[order]
    place = np.arange(order.size) - start[group]
    each = place[:, None] + np.arange(k)
    return order[start[group][:, None] + each % sizes[group][:, None]]


def _loss(X: np.ndarray, labels: np.ndarray) -> float:
    counts = np.bincount(labels)
    total = 0.0
    for column in X.T:
        means = np.bincount(labels, column) / counts
        total += float(((column - means[labels]) ** 2).sum())
    return total


def by_member(groups: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the groups of each record begin, and the groups, one record after the other."""
    counts = np.bincount(groups[groups >= 0], minlength=n)
    start = np.concatenate([[0], np.cumsum(counts)])
    return start, _sorted_groups(groups, start)


# Kernels


@kernel()
def _sorted_groups(groups, start):
    listed, at = np.empty(start[-1], np.int32), start.copy()
    for g in range(groups.shape[0]):
        for i in groups[g]:
            if i >= 0:
                listed[at[i]] = g
                at[i] += 1
    return listed


@kernel()
def keys_of(groups):
    """A number for each group; that two groups share one is so rare that losing a group does not matter."""
    out = np.empty(groups.shape[0], np.uint64)
    for g in range(groups.shape[0]):
        key = np.uint64(1469598103934665603)
        for i in groups[g]:
            key = (key ^ np.uint64(i)) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        out[g] = key
    return out


@kernel()
def squares_of(columns, groups):
    """Sum of squares of each group (rows filled up with -1), from the squared distances of its pairs."""
    m, width = groups.shape
    out = np.zeros(m)
    for g in range(m):
        size = width
        while groups[g, size - 1] < 0:
            size -= 1
        for x in range(size):
            for y in range(x):
                for a in range(columns.shape[0]):
                    t = columns[a, groups[g, x]] - columns[a, groups[g, y]]
                    out[g] += t * t
        out[g] /= size
    return out


@kernel()
def entropic(q, start, listed, pi, eps, passes, order):
    """Set each price in turn to the maximum over it alone, forwards and backwards, again and again.

    `q` holds the costs of the groups and becomes what they cost above their prices.
    """
    for i in range(pi.size):
        for e in range(start[i], start[i + 1]):
            q[listed[e]] -= pi[i]
    for turn in range(passes):
        for x in range(order.size):
            i = order[x] if turn % 2 == 0 else order[order.size - 1 - x]
            low, own = np.inf, eps[i]
            for e in range(start[i], start[i + 1]):
                low = min(low, q[listed[e]])
            total = 0.0
            for e in range(start[i], start[i + 1]):
                y = (low - q[listed[e]]) / own
                if y > -20.0:
                    total += np.exp(y)
            step = low - own * np.log(total)
            pi[i] += step
            for e in range(start[i], start[i + 1]):
                q[listed[e]] -= step
