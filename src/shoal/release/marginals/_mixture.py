"""A mixture of products fitted to measured residuals, and rows drawn from it: post-processing throughout."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from shoal.release.marginals._residuals import Key, Residual, Residuals, Sizes, centred

COMPONENTS = 2_000  # at most
ROWS_EACH = 8  # records to a component at least: fewer would be drawn one by one, with their chance
ITERATIONS = 300
RATE = 0.1  # of Adam, on logits
AGAIN = 0.03  # where a fit goes on from another
STOP = 0.85  # loss per degree of freedom at which the noise begins to be fitted
_JITTER = 0.4


@dataclass(frozen=True)
class Mixture:
    """Equally weighted products of distributions, one row of `shares` for each.

    Parameters
    ----------
    shares : float32 array
        Components in rows; the positions of all columns side by side.
    starts : tuple of int
        Where each column begins, and the end.
    loss, freedom : float
        The weighted squares left when the fit stopped, and the degrees of freedom of the measurements.
    iterations : int
    """

    shares: np.ndarray
    starts: tuple[int, ...]
    loss: float
    freedom: float
    iterations: int

    def column(self, at: int) -> np.ndarray:
        """The distributions of one column, components in rows."""
        return self.shares[:, self.starts[at] : self.starts[at + 1]]

    def marginal(self, key: Key) -> np.ndarray:
        """The distribution of some columns together."""
        weight = np.ones((len(self.shares), 1), self.shares.dtype)
        for at in key[:-1]:
            weight = (weight[:, :, None] * self.column(at)[:, None, :]).reshape(len(self.shares), -1)
        last = self.column(key[-1]) if key else weight
        shape = [self.starts[at + 1] - self.starts[at] for at in key]
        return (weight.T @ last).reshape(shape).astype(np.float64) / len(self.shares)


def fit(
    total: float,
    residuals: Residuals,
    sizes: Sizes,
    seed: int,
    *,
    components: int | None = None,
    iterations: int = ITERATIONS,
    start: Mixture | None = None,
) -> Mixture:
    """Fit a mixture of products to residuals by weighted least squares, stopped before it fits their noise.

    Parameters
    ----------
    total : float
        The (noisy) number of records.
    residuals : mapping
        Of single columns, pairs and triples; larger sets are not used.
    sizes : sequence of int
    seed : int
        Of the starting point; touches no data.
    components : int, optional
        By the number of records if left open.
    iterations : int
        At most.
    start : Mixture, optional
        A fit to go on from.

    Returns
    -------
    Mixture
    """
    if components is None:
        components = int(min(max(total / ROWS_EACH, 64), COMPONENTS)) if start is None else len(start.shares)
    with threadpool_limits(limits=1):
        return _Fit(total, residuals, sizes, seed, components, start).run(iterations)


class _Fit:
    """The state of one fit."""

    def __init__(
        self,
        total: float,
        residuals: Residuals,
        sizes: Sizes,
        seed: int,
        components: int,
        start: Mixture | None,
    ) -> None:
        self.total, self.sizes, self.components = max(1.0, total), sizes, components
        self.starts = tuple(int(each) for each in np.concatenate([[0], np.cumsum(sizes)]))
        self.blocks = [slice(*self.starts[at : at + 2]) for at in range(len(sizes))]
        width = self.starts[-1]
        self.target1, self.worth1 = np.zeros(width, np.float32), np.zeros(width, np.float32)
        wide = width if any(len(key) == 2 for key in residuals) else 0
        self.target2, self.worth2 = np.zeros((2, wide, wide), np.float32)
        self.triples: list[tuple[Key, np.ndarray, float]] = []
        self.freedom, self.rate = 0.0, RATE if start is None else AGAIN
        for key, each in residuals.items():
            if 1 <= len(key) <= 3:
                self._add(key, each)
        if start is not None:
            self.logits = np.log(np.maximum(start.shares, 1e-9))
        else:
            self.logits = self._start(np.random.default_rng(seed))

    def _add(self, key: Key, each: Residual) -> None:
        worth = np.float32(1 / each.variance)
        self.freedom += math.prod(self.sizes[at] - 1 for at in key)
        blocks = [self.blocks[at] for at in key]
        if len(key) == 1:
            self.target1[blocks[0]], self.worth1[blocks[0]] = each.values, worth
        elif len(key) == 2:
            first, second = blocks
            self.target2[first, second], self.target2[second, first] = each.values, each.values.T
            self.worth2[first, second] = self.worth2[second, first] = worth
        else:
            self.triples.append((key, each.values.astype(np.float32), float(worth)))

    def _start(self, rng: np.random.Generator) -> np.ndarray:
        """Single columns as measured, made distributions, with a different shake for each component."""
        logits = np.empty((self.components, self.starts[-1]), np.float32)
        for block, size in zip(self.blocks, self.sizes, strict=True):
            share = simplex(self.target1[block].astype(np.float64) / self.total + 1 / size)
            logits[:, block] = np.log(0.98 * share + 0.02 / size)
        return logits + rng.normal(0, _JITTER, logits.shape).astype(np.float32)

    def _shares(self) -> np.ndarray:
        shares = np.empty_like(self.logits)
        for block in self.blocks:
            part = np.exp(self.logits[:, block] - self.logits[:, block].max(axis=1, keepdims=True))
            shares[:, block] = part / part.sum(axis=1, keepdims=True)
        return shares

    def _centre(self, values: np.ndarray) -> np.ndarray:
        """Mean within each column's block taken off, along the last axis."""
        for block in self.blocks:
            values[..., block] -= values[..., block].mean(axis=-1, keepdims=True)
        return values

    def _slope(self, shares: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss and its derivative by the shares, up to a common factor."""
        single = self._centre(shares.mean(axis=0) * self.total) - self.target1
        loss = float((self.worth1 * single * single).sum())
        slope = np.repeat((self.worth1 * single)[None], len(shares), axis=0)
        if self.worth2.any():
            both = self._centre(shares.T @ shares * np.float32(self.total / self.components))
            both = self._centre(both.T.copy()) - self.target2
            weighted = self.worth2 * both
            loss += 0.5 * float((weighted * both).sum())
            slope += shares @ weighted
        for key, target, worth in self.triples:
            loss += self._triple(shares, slope, key, target, worth)
        return loss, slope

    def _triple(
        self, shares: np.ndarray, slope: np.ndarray, key: Key, target: np.ndarray, worth: float
    ) -> float:
        a, b, c = (shares[:, self.blocks[at]] for at in key)
        pair = (a[:, :, None] * b[:, None, :]).reshape(self.components, -1)
        table = (pair.T @ c * np.float32(self.total / self.components)).reshape(target.shape)
        off = centred(table) - target
        weighted = (worth * off).astype(np.float32)
        back = (c @ weighted.reshape(-1, c.shape[1]).T).reshape(self.components, a.shape[1], b.shape[1])
        slope[:, self.blocks[key[0]]] += np.einsum("kij,kj->ki", back, b)
        slope[:, self.blocks[key[1]]] += np.einsum("kij,ki->kj", back, a)
        slope[:, self.blocks[key[2]]] += pair @ weighted.reshape(-1, c.shape[1])
        return float(worth * (off * off).sum())

    def run(self, iterations: int) -> Mixture:
        """Adam on the logits until the loss is what the noise alone would leave."""
        first, second = np.zeros_like(self.logits), np.zeros_like(self.logits)
        scale, loss, step = 0.0, math.inf, 0
        while True:
            shares = self._shares()
            loss, slope = self._slope(shares)
            if loss <= STOP * self.freedom or step == iterations:
                return Mixture(shares, self.starts, loss, self.freedom, step)
            for block in self.blocks:
                part = shares[:, block]
                slope[:, block] = part * (
                    slope[:, block] - (slope[:, block] * part).sum(axis=1, keepdims=True)
                )
            scale = scale or 1 / max(float(np.abs(slope).max()), 1e-12)
            slope *= np.float32(scale)
            step += 1
            first += np.float32(0.1) * (slope - first)
            second += np.float32(0.01) * (slope * slope - second)
            rate = self.rate * min(1.0, (iterations - step + 1) / (0.3 * iterations))
            mean, spread = first / (1 - 0.9**step), second / (1 - 0.99**step)
            self.logits -= np.float32(rate) * mean / (np.sqrt(spread) + np.float32(1e-6))


def simplex(values: np.ndarray) -> np.ndarray:
    """The nearest distribution to some numbers, by least squares.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release.marginals._mixture import simplex
    >>> simplex(np.array([0.5, 0.75, -0.25]))
    array([0.375, 0.625, 0.   ])
    """
    falling = np.sort(values)[::-1]
    above = np.cumsum(falling) - 1
    last = np.flatnonzero(falling * np.arange(1, len(values) + 1) > above)[-1]
    return np.maximum(values - above[last] / (last + 1), 0)


def draw(mixture: Mixture, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of positions, as many of each component as its weight says, each column by systematic sampling.

    Within a component a column's positions appear as often as its distribution says, up to one; their order is
    random, so that columns are independent there.
    """
    components = len(mixture.shares)
    counts = np.full(components, rows // components)
    counts[rng.permutation(components)[: rows - int(counts.sum())]] += 1
    of = np.repeat(np.arange(components), counts)
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
    out = np.empty((rows, len(mixture.starts) - 1), dtype=np.int64)
    for at in range(out.shape[1]):
        order = np.argsort(rng.random(rows) + of)
        place = np.empty(rows, dtype=np.int64)
        place[order] = np.arange(rows)
        u = (place - begins[of] + rng.random(components)[of]) / counts[of]
        out[:, at] = _inverted(mixture.column(at), of, np.clip(u, 0.0, np.nextafter(1.0, 0.0)))
    return out[rng.permutation(rows)]


def _inverted(shares: np.ndarray, of: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The position at which each row's distribution function passes u."""
    steps = np.cumsum(shares.astype(np.float64), axis=1)
    steps /= steps[:, -1:]
    size = steps.shape[1]
    steps[:, -1] = 1.0
    flat = (steps + np.arange(len(steps))[:, None]).ravel()
    place = np.searchsorted(flat, of + u, side="right") - of * size
    return np.clip(place, 0, size - 1)


def total_variation(first: np.ndarray, second: np.ndarray) -> float:
    """Half the sum of the differences of two tables of shares."""
    return 0.5 * float(np.abs(first - second).sum())
