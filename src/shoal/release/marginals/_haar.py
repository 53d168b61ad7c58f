"""Ranges on few columns: differences of halves, quarters and so on, measured block by block.

A column of d positions is laid out on the next power of two. Level 0 is the total; level l has 2^(l-1) entries, each
the count in the left half of a dyadic interval less that in the right half. A block joins one level of each of some
columns. A record changes exactly one entry of every block, by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np

from shoal.dp.mechanisms.dyadic import depth_of, level_matrices, widths
from shoal.release.marginals._mixture import simplex
from shoal.release.marginals._residuals import Key, Sizes, count_table
from shoal.release.marginals._spend import Measurement, Purse

MOST_CELLS = 1 << 18  # of the joint table that is fitted
MOST_COLUMNS = 3
MOST_VALUES = 256  # of one column
DEEPEST_PAIR = {"zcdp": 7, "pure": 6}  # levels of a pair's block add up to at most this
STOP = 0.6  # loss per measured number at which the fit ends
ITERATIONS = 200
Levels = tuple[int, ...]


def fits(sizes: Sizes) -> bool:
    """Whether the joint table of some columns is small enough for ranges."""
    return len(sizes) <= MOST_COLUMNS and max(sizes) <= MOST_VALUES and math.prod(sizes) <= MOST_CELLS


def blocks_of(sizes: Sizes, deepest: int) -> list[tuple[Key, Levels]]:
    """All blocks of no, one and two columns that are measured."""
    found: list[tuple[Key, Levels]] = []
    for key in [
        key for count in range(min(2, len(sizes)) + 1) for key in combinations(range(len(sizes)), count)
    ]:
        for levels in product(*(range(1, depth_of(sizes[at]) + 1) for at in key)):
            if len(key) < 2 or sum(levels) <= deepest:
                found.append((key, levels))
    return found


@lru_cache(maxsize=64)
def range_loads(size: int) -> tuple[float, ...]:
    """Mean squared weight of each level in the count of a range whose ends are two even draws."""
    first, last = np.indices((size, size)).reshape(2, -1)
    low, high = np.minimum(first, last), np.maximum(first, last) + 1
    loads = []
    for rows, width in zip(level_matrices(size), widths(size), strict=True):
        running = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
        loads.append(float((((running[:, high] - running[:, low]) / width) ** 2).sum(axis=0).mean()))
    return tuple(loads)


def block_loads(sizes: Sizes, deepest: int) -> dict[tuple[Key, Levels], float]:
    """Mean squared weight of each block in ranges on one and on two columns, half of each; public."""
    ways = [way for way in (1, 2) if way <= len(sizes)]
    asked = [
        (key, 1 / (len(ways) * math.comb(len(sizes), way)))
        for way in ways
        for key in combinations(range(len(sizes)), way)
    ]
    loads = {}
    for key, levels in blocks_of(sizes, deepest):
        load = 1e-9
        for columns, share in asked:
            if set(key) <= set(columns):
                level = dict(zip(key, levels, strict=True))
                load += share * math.prod(range_loads(sizes[at])[level.get(at, 0)] for at in columns)
        loads[key, levels] = load
    return loads


def block_counts(table: np.ndarray, levels: Levels) -> np.ndarray:
    """The exact block of a marginal, in whole numbers."""
    for axis, level in enumerate(levels):
        rows = level_matrices(table.shape[axis])[level].astype(np.int64)
        table = np.moveaxis(np.tensordot(rows, table, axes=(1, axis)), 0, axis)
    return np.asarray(table, dtype=np.int64)


def measure_blocks(codes: np.ndarray, sizes: Sizes, purse: Purse) -> list[Measurement]:
    """All blocks, each with the share that makes the mean squared error of ranges least."""
    loads = block_loads(sizes, DEEPEST_PAIR[purse.currency])
    if purse.replaced:
        loads.pop(((), ()))
    power = 1 / 3 if purse.currency == "pure" else 1 / 2
    parts = purse.split([each**power for each in loads.values()])
    found = [Measurement((), "block", 0.0, count_table(codes, (), sizes))] if purse.replaced else []
    for (key, levels), part in zip(loads, parts, strict=True):
        exact = block_counts(count_table(codes, key, sizes), levels)
        found.append(part.measure_block(exact, key, levels))
    return found


@dataclass(frozen=True)
class Joint:
    """A joint distribution of few columns.

    Parameters
    ----------
    counts : float64 array
        One axis for each column; sums to the number of records.
    loss : float
        The weighted squares left, per measured number.
    iterations : int
    """

    counts: np.ndarray
    loss: float
    iterations: int


def fit_joint(measurements: Sequence[Measurement], sizes: Sizes, iterations: int = ITERATIONS) -> Joint:
    """The joint table of largest entropy that agrees with the blocks, stopped before it fits their noise.

    Accelerated exponentiated gradient with restarts, from the product of the single columns.
    """
    return _Ascent(measurements, sizes).run(iterations)


def total_of_blocks(measurements: Sequence[Measurement]) -> float:
    """The number of records as measured."""
    return max(1.0, float(next(each.numbers for each in measurements if each.key == ())))


def linear(
    measurements: Sequence[Measurement], key: Key, weights: Mapping[int, np.ndarray], sizes: Sizes
) -> tuple[float, float]:
    """An unbiased count of one column's weighted positions, and its exact variance.

    Parameters
    ----------
    key : tuple of int
        At most one column.
    weights : mapping
        Of that column to a weight for each of its positions.
    """
    value, variance = 0.0, 0.0
    for each in measurements:
        if set(each.key) <= set(key):
            factor = np.ones(1)
            for at in key:
                level = each.levels[0] if each.key else 0
                factor = level_matrices(sizes[at])[level] @ weights[at] / widths(sizes[at])[level]
            value += float((factor * each.numbers.ravel()).sum())
            variance += each.variance * float((factor**2).sum())
    return value, variance


class _Ascent:
    """The state of one fit."""

    def __init__(self, measurements: Sequence[Measurement], sizes: Sizes) -> None:
        self.sizes = sizes
        self.total = total_of_blocks(measurements)
        self.faces: list[Key] = [(0,)] if len(sizes) == 1 else list(combinations(range(len(sizes)), 2))
        self.stacked = [np.concatenate(level_matrices(size)) for size in sizes]
        self.level = [
            np.concatenate([[at] * len(rows) for at, rows in enumerate(level_matrices(size))])
            for size in sizes
        ]
        self.numbers = sum(each.numbers.size for each in measurements if each.scale)
        self.targets = [self._target(face, measurements) for face in self.faces]
        self.start = self._product(measurements)

    def _target(self, face: Key, measurements: Sequence[Measurement]) -> tuple[np.ndarray, np.ndarray]:
        """What a face's levels should be, and what each is worth; blocks in several faces share their worth."""
        shape = [len(self.stacked[at]) for at in face]
        target, worth = np.zeros(shape), np.zeros(shape)
        for each in measurements:
            if each.scale and set(each.key) <= set(face):
                level = dict(zip(each.key, each.levels, strict=True))
                places = np.ix_(*(np.flatnonzero(self.level[at] == level.get(at, 0)) for at in face))
                shared = sum(set(each.key) <= set(other) for other in self.faces)
                target[places] = each.numbers.reshape(target[places].shape)
                worth[places] = 1 / each.variance / shared
        return target, worth

    def _product(self, measurements: Sequence[Measurement]) -> np.ndarray:
        logs = np.zeros(self.sizes)
        for at, size in enumerate(self.sizes):
            counts = np.full(size, self.total / (1 << depth_of(size)))
            for each in measurements:
                if each.key == (at,):
                    rows = level_matrices(size)[each.levels[0]]
                    counts = counts + rows.T @ each.numbers / widths(size)[each.levels[0]]
            share = np.maximum(simplex(counts / self.total), 0.05 / self.total)
            logs = logs + np.log(share).reshape([-1 if axis == at else 1 for axis in range(len(self.sizes))])
        return logs

    def _at(self, logs: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """The table of some logarithms, its loss, and the derivative by its cells."""
        table = np.exp(logs - logs.max())
        table *= self.total / table.sum()
        loss, slope = 0.0, np.zeros(())
        for face, (target, worth) in zip(self.faces, self.targets, strict=True):
            others = tuple(axis for axis in range(table.ndim) if axis not in face)
            part = table.sum(axis=others)
            off = self.stacked[face[0]] @ part
            off = (off @ self.stacked[face[1]].T if len(face) == 2 else off) - target
            loss += float((worth * off * off).sum())
            back = self.stacked[face[0]].T @ (worth * off)
            back = back @ self.stacked[face[1]] if len(face) == 2 else back
            slope = slope + np.expand_dims(back, others)
        return table, loss, slope

    def run(self, iterations: int) -> Joint:
        """Steps with momentum; a step that raises the loss starts the momentum anew."""
        logs = before = self.start
        table, loss, slope = self._at(logs)
        size, moment, step = 1e-3, 0, 0
        while step < iterations and loss > STOP * self.numbers:
            step, moment = step + 1, moment + 1
            ahead = logs + moment / (moment + 3) * (logs - before)
            ahead = ahead - ahead.max()
            there, ahead_loss, ahead_slope = self._at(ahead)
            if ahead_loss > loss:
                ahead, there, ahead_loss, ahead_slope, moment = logs, table, loss, slope, 0
            while True:
                tried = ahead - size * ahead_slope
                new, new_loss, new_slope = self._at(tried)
                fall = float((ahead_slope * (there - new)).sum())
                if new_loss <= ahead_loss - 0.25 * fall or size < 1e-12:
                    break
                size *= 0.5
            before, logs = logs, tried
            table, loss, slope = new, new_loss, new_slope
            size *= 1.1
        return Joint(table, loss / max(1, self.numbers), step)


def draw_joint(joint: Joint, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of positions: even steps through the cells in dyadic order, so that dyadic boxes are hit as they should."""
    places = np.indices(joint.counts.shape).reshape(joint.counts.ndim, -1)
    order = np.argsort(_interleaved(places), kind="stable")
    running = np.cumsum(joint.counts.ravel()[order])
    marks = (np.arange(rows) + rng.random()) / rows * running[-1]
    cells = order[np.minimum(np.searchsorted(running, marks, side="right"), len(order) - 1)]
    return places[:, cells].T[rng.permutation(rows)]


def _interleaved(places: np.ndarray) -> np.ndarray:
    """A number for each cell whose bits are those of its positions in turn, the highest first."""
    depth = max(1, int(places.max()).bit_length())
    code = np.zeros(places.shape[1], dtype=np.int64)
    for bit in range(depth - 1, -1, -1):
        for each in places:
            code = code * 2 + (each >> bit & 1)
    return code
