"""Prices raised where small blocks of records are solved as wholes: see `blocks`.

Blocks are grown from the groups that the relaxation takes in part: where it is whole, nothing is to be gained.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.relaxation.ascent import PASSES, Ascent, by_member, keys_of, scale_of, squares_of
from shoal.relaxation.blocks import (
    LARGEST,
    RecordBlocks,
    best_choices,
    entropic_in_blocks,
    near_groups,
    prove,
)
from shoal.relaxation.pricing import padded
from shoal.relaxation.surroundings import Surroundings

FIRST, LAST, FALL = 0.01, 0.0008, 0.7
"""First and last eps, in mean prices, and its fall from turn to turn."""

ROUNDS, TURNS = 4, 6
"""How often blocks are grown, and turns of ascent each time."""

LARGEST_K = LARGEST // 2
"""Beyond, a block has room for one group only."""

HIGHER = 0.5
"""How far prices may rise between two growths of the blocks, in mean prices."""

MARGIN = 1.5
"""A turn is begun where so many times the seconds of the longest one are left."""

PART = 0.02
"""A group of this weight or more, and no more than 1 less it, is taken in part."""


class BlockAscent:
    """Ascent with blocks; after any step the best bound is valid.

    Parameters
    ----------
    around : Surroundings
    ascent : Ascent
        Of the same table, at its end.
    labels : array of int64, (n,)
        A good partition, by record.
    time_left : function
        Seconds that may still be used.

    Attributes
    ----------
    value : float
        The best bound so far.
    """

    def __init__(
        self, around: Surroundings, ascent: Ascent, labels: np.ndarray, time_left: Callable[[], float]
    ) -> None:
        self._around, self._time_left = around, time_left
        self._rng = np.random.default_rng(2)
        self.value = ascent.value
        self._width = 2 * around.k - 1
        prices, groups = ascent.pool
        self._prices = prices.copy()
        self._groups = np.empty((0, self._width), np.int64)
        self._costs, self._keys = np.empty(0), np.empty(0, np.uint64)
        self._blocks = RecordBlocks.none(around.n)
        self._ceiling = self._prices
        self._add([groups, *_whole(labels[around.order], self._width)])
        self._choices, self._choice_costs = np.empty(0, np.int64), np.empty(0)

    def run(self, target: float, report: Callable[[str, float], None]) -> None:
        """Grow blocks and raise prices until rounds are over, the bound meets a target, or time is up."""
        share, longest = LAST, 0.0
        for _ in range(ROUNDS):
            self._grow_blocks(share)
            share = FIRST
            for turn in range(TURNS):
                before = self._time_left()
                eps = share * scale_of(self._around, self._prices)
                self._choose(self._prices + 0.5 * eps)
                self._ascend(eps)
                self._add(near_groups(self._around, self._blocks, self._prices + 0.5 * eps))
                share = max(LAST, share * FALL)
                if turn == TURNS - 1:
                    self._prove()
                    report("blocks", self.value)
                longest = max(longest, before - self._time_left())
                if self._time_left() <= MARGIN * longest or self.value >= target:
                    return

    def _prove(self) -> None:
        found = prove(self._around, self._blocks, self._prices)
        self.value = max(self.value, found.value)
        self._add(found.groups)

    def _grow_blocks(self, share: float) -> None:
        """Join the records of groups taken in part; groups across blocks stay in the pool."""
        priced = np.append(self._prices, 0.0)[self._groups].sum(axis=1)
        eps = share * scale_of(self._around, self._prices)
        weight = np.exp(np.minimum(0.0, (priced - self._costs) / eps[self._groups[:, 0]]))
        part = (weight > PART) & (weight < 1.0 - PART)
        self._blocks = self._blocks.joined(self._groups[part], weight[part], self._around.k)
        self._choices, self._choice_costs = np.empty(0, np.int64), np.empty(0)
        keep = self._blocks.across(self._groups)
        self._groups, self._costs, self._keys = self._groups[keep], self._costs[keep], self._keys[keep]
        self._ceiling = self._prices + HIGHER * scale_of(self._around, self._prices)

    def _choose(self, prices: np.ndarray) -> None:
        """Add the best choices of each block at some prices."""
        _, sets, costs = best_choices(self._around.space, self._blocks, prices, self._around.k)
        keys = (np.arange(sets.shape[0])[:, None] << LARGEST) | sets
        some = sets > 0
        keys = np.concatenate([self._choices, keys[some]])
        # The same records may be grouped otherwise at other prices: the cheaper way stays.
        order = np.lexsort((np.concatenate([self._choice_costs, costs[some]]), keys))
        costs = np.concatenate([self._choice_costs, costs[some]])[order]
        self._choices, first = np.unique(keys[order], return_index=True)
        self._choice_costs = costs[first]

    def _ascend(self, eps: np.ndarray) -> None:
        n, blocks = self._around.n, self._blocks
        start, listed = by_member(self._groups, n)
        first = np.searchsorted(self._choices >> LARGEST, np.arange(blocks.members.shape[0] + 1))
        entropic_in_blocks(
            self._costs.copy(), start, listed, self._prices, self._ceiling, eps, PASSES, self._rng.permutation(n),
            blocks.of, blocks.bit, first, self._choices & ((1 << LARGEST) - 1), self._choice_costs.copy(),
        )  # fmt: skip

    def _add(self, parts: list[np.ndarray]) -> None:
        """Add groups across blocks that are not in the pool."""
        rows = np.concatenate([padded(each, self._width) for each in parts])
        rows = rows[self._blocks.across(rows)]
        keys, first = np.unique(keys_of(rows), return_index=True)
        new = np.ascontiguousarray(rows[first[~np.isin(keys, self._keys)]])
        self._groups = np.concatenate([self._groups, new])
        self._keys = np.concatenate([self._keys, keys_of(new)])
        self._costs = np.concatenate([self._costs, squares_of(self._around.space.columns, new)])


def _whole(labels: np.ndarray, most: int) -> list[np.ndarray]:
    """The groups of a partition that cannot be split."""
    order = np.argsort(labels, kind="stable")
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    return [each[None, :] for each in np.split(order, ends) if each.size <= most]
