"""Gaussian mixtures by expectation and maximisation on quadratic features, and their number by BIC.

With the features [1, x, x_i x_j] the log-density of every component is linear, so that each E step and each
M step is one matrix product.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

RIDGE = 1e-6
WIDEST = 60  # columns for which whole covariances are estimated
_BLOCK = 8192
_LLOYD = 10  # rounds of k-means before the first E step
_KEPT = 30_000_000  # features kept in memory, 240 MB


class BoundaryWarning(UserWarning):
    """The number of components chosen by BIC is the largest that was tried."""


@dataclass(frozen=True)
class Gaussians:
    """A fitted mixture.

    Attributes
    ----------
    weights : float64 array (K,)
    means : float64 array (K, d)
    precisions : float64 array (K, d, d), or (K, d) where covariances are diagonal
    """

    weights: np.ndarray
    means: np.ndarray
    precisions: np.ndarray

    @property
    def n_components(self) -> int:
        """K."""
        return len(self.weights)

    @property
    def n_parameters(self) -> int:
        """Free parameters, as BIC counts them."""
        count, d = self.means.shape
        shape = d if self.precisions.ndim == 2 else d * (d + 1) // 2
        return count * (d + shape) + count - 1

    def coefficients(self) -> np.ndarray:
        """Log of weight times density of each component, as coefficients of the features (p, K)."""
        d = self.means.shape[1]
        if self.precisions.ndim == 2:
            linear = self.precisions * self.means
            logdet = np.log(self.precisions).sum(axis=1)
            quadratic = -0.5 * self.precisions
        else:
            linear = np.einsum("kij,kj->ki", self.precisions, self.means)
            logdet = np.linalg.slogdet(self.precisions)[1]
            upper = np.triu_indices(d)
            factor = np.where(upper[0] == upper[1], -0.5, -1.0)
            quadratic = self.precisions[:, upper[0], upper[1]] * factor
        constant = (
            np.log(np.maximum(self.weights, 1e-300))
            + 0.5 * (logdet - d * np.log(2 * np.pi))
            - 0.5 * (linear * self.means).sum(axis=1)
        )
        return np.concatenate([constant[:, None], linear, quadratic], axis=1).T.copy()

    def memberships(self, X: np.ndarray) -> np.ndarray:
        """M[i, k], the probability that record i belongs to component k, float64 (n, K)."""
        return _expect(X, self)[0]

    def log_likelihood(self, X: np.ndarray) -> float:
        """Of all records together."""
        return float(self.log_densities(X).sum())

    def log_densities(self, X: np.ndarray) -> np.ndarray:
        """Of each record."""
        return _expect(X, self)[1]

    def bic(self, X: np.ndarray) -> float:
        """-2 log-likelihood + parameters * log n; smaller is better."""
        return -2.0 * self.log_likelihood(X) + self.n_parameters * float(np.log(len(X)))


def features(X: np.ndarray, *, diagonal: bool) -> np.ndarray:
    """[1, x, x_i x_j for i <= j], or squares alone."""
    if diagonal:
        return np.concatenate([np.ones((len(X), 1)), X, X**2], axis=1)
    upper = np.triu_indices(X.shape[1])
    return np.concatenate([np.ones((len(X), 1)), X, X[:, upper[0]] * X[:, upper[1]]], axis=1)


def fit_mixture(
    X: np.ndarray,
    n_components: int,
    *,
    diagonal: bool = False,
    start: Gaussians | None = None,
    rounds: int = 100,
    tol: float = 1e-3,
    random_state: int = 0,
) -> Gaussians:
    """One mixture by EM, from k-means or from a mixture fitted before.

    Parameters
    ----------
    X : float64 array (n, d)
    n_components : int
    diagonal : bool, default False
    start : Gaussians, optional
    rounds : int, default 100
    tol : float, default 1e-3
        Stop when the mean log-likelihood gains less.
    random_state : int, default 0

    Returns
    -------
    Gaussians
        The best of the rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.dp.correlation._mixture import fit_mixture
    >>> X = np.concatenate([np.zeros((50, 2)), np.full((50, 2), 9.0)]) + np.random.default_rng(0).normal(size=(100, 2))
    >>> sorted(fit_mixture(X, 2).weights.round(6).tolist())
    [0.5, 0.5]
    """
    now = start if start is not None else _from_kmeans(X, n_components, diagonal, random_state)
    last, blocks = -np.inf, _blocks(X, diagonal=diagonal)
    for _ in range(rounds):
        sums, total = _round(blocks, now)
        now = _maximise(sums, diagonal)
        if total / len(X) - last < tol:
            break
        last = total / len(X)
    return now


def choose_mixture(
    X: np.ndarray,
    candidates: Sequence[int],
    *,
    diagonal: bool = False,
    sample: int = 10_000,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> tuple[Gaussians, dict[int, float]]:
    """A mixture with the number of components that BIC prefers.

    The number is chosen on a sample, over the coarse grid `candidates` and then around its best, with the
    sample's mean log-likelihood for that of all records; one fit on all records follows.

    Parameters
    ----------
    X : float64 array (n, d)
    candidates : sequence of int
        Rising.
    diagonal : bool, default False
    sample : int, default 10,000
    random_state : int, default 0
    progress : callable, optional

    Returns
    -------
    (Gaussians, dict)
        The fit on all records, and the estimated BIC of each number tried.

    Warns
    -----
    BoundaryWarning
        Where the largest number tried is best: on coded columns the likelihood is nearly degenerate and BIC
        falls on and on.
    """
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(X))[: max(sample, 2)]
    train = X[order]
    usable = sorted({int(each) for each in candidates if 1 <= each <= max(1, len(train) // 2)}) or [1]
    scores: dict[int, float] = {}
    fits: dict[int, Gaussians] = {}

    def score(count: int) -> float:
        if count not in scores:
            fits[count] = fit_mixture(
                train, count, diagonal=diagonal, rounds=40, tol=3e-3, random_state=random_state
            )
            mean = fits[count].log_likelihood(train) / len(train)
            scores[count] = -2.0 * mean * len(X) + fits[count].n_parameters * float(np.log(len(X)))
            if progress is not None:
                progress(f"{count} components: BIC about {scores[count]:.0f}")
        return scores[count]

    best = min(usable, key=score)
    at = usable.index(best)
    low, high = usable[max(0, at - 1)], usable[min(at + 1, len(usable) - 1)]
    around = {(low + best) // 2, (best + high) // 2} - set(usable)
    best = min([best, *sorted(around)], key=score)
    if best == usable[-1] and len(usable) > 1:
        warnings.warn(
            f"BIC prefers {best} components, the most that were tried.", BoundaryWarning, stacklevel=2
        )
    start = fits[best] if len(X) > len(train) else None
    fit = fit_mixture(X, best, diagonal=diagonal, start=start, random_state=random_state)
    return fit, dict(sorted(scores.items()))


def _from_kmeans(X: np.ndarray, n_components: int, diagonal: bool, random_state: int) -> Gaussians:
    from sklearn.cluster import kmeans_plusplus

    n_components = min(n_components, len(np.unique(X[: 4 * n_components + 1000], axis=0)))
    centres = kmeans_plusplus(X, n_components, random_state=random_state)[0]
    for _ in range(_LLOYD):
        labels = _nearest(X, centres)
        order = np.argsort(labels, kind="stable")
        there, starts = np.unique(labels[order], return_index=True)
        sizes = np.diff(np.append(starts, len(X)))
        centres[there] = np.add.reduceat(X[order], starts, axis=0) / sizes[:, None]
    labels = _nearest(X, centres)
    sums, start = np.zeros(()), 0
    for F in _Again(X, diagonal):
        hard = (labels[start : start + len(F), None] == np.arange(n_components)).astype(np.float64)
        sums, start = sums + hard.T @ F, start + len(F)
    return _maximise(sums, diagonal)


def _nearest(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    half = 0.5 * (centres**2).sum(axis=1)
    parts = [
        (X[start : start + _BLOCK] @ centres.T - half).argmax(axis=1) for start in range(0, len(X), _BLOCK)
    ]
    return np.concatenate(parts)


def _blocks(X: np.ndarray, *, diagonal: bool) -> Iterable[np.ndarray]:
    """The features block by block; kept where they fit well in memory, since each round reads them again."""
    d = X.shape[1]
    width = 1 + 2 * d if diagonal else 1 + d + d * (d + 1) // 2
    starts = range(0, len(X), _BLOCK)
    if len(X) * width <= _KEPT:
        return [features(X[start : start + _BLOCK], diagonal=diagonal) for start in starts]
    return _Again(X, diagonal)


@dataclass(frozen=True)
class _Again:
    """Features computed anew at each pass."""

    X: np.ndarray
    diagonal: bool

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.X), _BLOCK):
            yield features(self.X[start : start + _BLOCK], diagonal=self.diagonal)


def _expect(X: np.ndarray, mixture: Gaussians) -> tuple[np.ndarray, np.ndarray]:
    """Memberships and log-likelihoods of the records."""
    coefficients, diagonal = mixture.coefficients(), mixture.precisions.ndim == 2
    M, fits, start = np.empty((len(X), mixture.n_components)), np.empty(len(X)), 0
    for F in _Again(X, diagonal):
        stop = start + len(F)
        M[start:stop], fits[start:stop] = _soften(F @ coefficients)
        start = stop
    return M, fits


def _round(blocks: Iterable[np.ndarray], mixture: Gaussians) -> tuple[np.ndarray, float]:
    """Sums of the features weighted by membership (K, p), and the log-likelihood: one E and half an M step."""
    coefficients = mixture.coefficients()
    sums, total = np.zeros(coefficients.T.shape), 0.0
    for F in blocks:
        R, gain = _soften(F @ coefficients)
        sums += R.T @ F
        total += float(gain.sum())
    return sums, total


def _soften(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    top = scores.max(axis=1, keepdims=True)
    np.exp(scores - top, out=scores)
    norm = scores.sum(axis=1, keepdims=True)
    scores /= norm
    return scores, (top + np.log(norm))[:, 0]


def _maximise(sums: np.ndarray, diagonal: bool) -> Gaussians:
    """Weights, means and precisions from the sums of the features; components without records are dropped."""
    sums = sums[sums[:, 0] > 1e-8 * sums[:, 0].sum()]
    counts = sums[:, 0] + 10 * np.finfo(np.float64).eps
    p = sums.shape[1]
    d = (p - 1) // 2 if diagonal else round((-3 + float(np.sqrt(9 + 8 * (p - 1)))) / 2)
    means = sums[:, 1 : d + 1] / counts[:, None]
    second = sums[:, d + 1 :] / counts[:, None]
    weights = counts / counts.sum()
    if diagonal:
        return Gaussians(weights, means, 1.0 / (np.maximum(second - means**2, 0.0) + RIDGE))
    upper = np.triu_indices(d)
    covariance = np.zeros((len(sums), d, d))
    covariance[:, upper[0], upper[1]] = second
    covariance[:, upper[1], upper[0]] = second
    covariance -= means[:, :, None] * means[:, None, :]
    covariance[:, np.arange(d), np.arange(d)] += RIDGE
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, RIDGE)  # rounding may take a flat direction below the ridge
    return Gaussians(weights, means, (vectors / values[:, None, :]) @ vectors.transpose(0, 2, 1))
