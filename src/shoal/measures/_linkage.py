"""Probabilistic record linkage in the manner of Fellegi and Sunter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from shoal.engine.encode import Standardiser
from shoal.errors import ParameterError
from shoal.measures._arrays import pair
from shoal.params import Interval, check_params

# Differences in standard deviations up to which two cells agree, from closest agreement to none.
TOLERANCES = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6)
_STEPS = 60
_TIE = 1e-9


@dataclass(frozen=True)
class Linkage:
    """What a probabilistic linkage of two tables of the same records achieves.

    Attributes
    ----------
    share : float
        Protected records whose best candidate is their own; m equally good ones count 1/m.
    expected_share : float
        What the linker himself expects: the probability of the best candidate, averaged.
    m, u : arrays of float64, (n_columns, n_grades)
        Probability of each grade of agreement among matches and among non-matches.
    weights : array of float64, (n_columns,)
        log2(m / u) of the closest agreement: how much each column tells.
    n_candidates : int
        Candidate pairs compared.
    found : float
        Share of protected records whose own original is among the candidates at all.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.measures import probabilistic_linkage
    >>> X = np.arange(60.0).reshape(20, 3)
    >>> found = probabilistic_linkage(X, X)
    >>> found.share, found.found, found.weights.shape
    (1.0, 1.0, (3,))
    """

    share: float
    expected_share: float
    m: np.ndarray
    u: np.ndarray
    weights: np.ndarray
    n_candidates: int
    found: float

    def __float__(self) -> float:
        return self.share


def probabilistic_linkage(
    original: Any,
    protected: Any,
    *,
    candidates: int = 10,
    tolerances: Sequence[float] = TOLERANCES,
    blocks: Any = None,
    random_state: int = 0,
) -> Linkage:
    """Link protected records to originals by agreement patterns, and count how often this is right.

    Cells agree in grades: within each of `tolerances` standard deviations of the original, or not at all.
    The probabilities of the grades among non-matches are taken from random pairs, those among matches by
    expectation maximisation over the candidates' patterns, one candidate of each record being the match; then
    each protected record goes to the candidate with the highest likelihood ratio. The linker is not told
    which pairs belong together.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order
    candidates : int, default 10
        Nearest originals compared with each protected record.
    tolerances : ascending numbers, default (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6)
    blocks : array of int, (n_records,), optional
        Only records of the same block are compared: something published that the intruder knows as well.
    random_state : int, default 0
        Draws the random pairs.

    Returns
    -------
    Linkage

    Notes
    -----
    O(n log n + n * candidates * columns); nothing of size n x n. Grades are taken as independent given match
    or non-match, the usual assumption, so the weights of columns that repeat each other are too large; and
    candidates, being near, agree more often than random pairs do, so all weights are somewhat too large.
    On Census and Tarragona it links a little less than `dld`, which knows the distances themselves.

    References
    ----------
    .. [1] I. P. Fellegi, A. B. Sunter (1969). A theory for record linkage. Journal of the American
       Statistical Association 64, 1183-1210. doi:10.1080/01621459.1969.10501049
    .. [2] M. A. Jaro (1989). Advances in record-linkage methodology as applied to matching the 1985 census of
       Tampa, Florida. Journal of the American Statistical Association 84, 414-420.
       doi:10.1080/01621459.1989.10478785

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.measures._linkage import probabilistic_linkage
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> probabilistic_linkage(X, X).share
    1.0
    >>> probabilistic_linkage(X, np.zeros_like(X)).share < 0.05
    True
    """
    check_params("probabilistic_linkage", {"candidates": Interval(Integral, 1)}, {"candidates": candidates})
    bars = np.asarray(tolerances, dtype=np.float64)
    if bars.ndim != 1 or bars.size == 0 or (bars <= 0).any() or (np.diff(bars) <= 0).any():
        raise ParameterError(
            f"'tolerances' of probabilistic_linkage must be ascending numbers above 0. Got {tolerances!r}."
        )
    X, Y = pair(original, protected)
    n = X.shape[0]
    parts = np.zeros(n, np.int64) if blocks is None else np.unique(np.asarray(blocks), return_inverse=True)[1]
    if parts.size != n:
        raise ParameterError(f"'blocks' must have one entry per record, {n}. Got {parts.size}.")
    standardiser = Standardiser.fit(X)
    A, B = standardiser.transform(X), standardiser.transform(Y)
    who, whom = _pairs(A, B, parts.reshape(-1), candidates)
    grades = _grades(A[whom], B[who], bars)
    u = _random_grades(A, B, bars, random_state)
    patterns, of_pair = np.unique(grades, axis=0, return_inverse=True)
    m = _matched_grades(patterns, of_pair.reshape(-1), who, u)
    ratio = _ratios(patterns, m, u)[of_pair.reshape(-1)]
    return _score(n, who, whom, ratio, m, u)


def _pairs(A: np.ndarray, B: np.ndarray, parts: np.ndarray, candidates: int) -> tuple[np.ndarray, np.ndarray]:
    """Candidate pairs (protected, original): the nearest originals of the same block."""
    who, whom = [], []
    order = np.argsort(parts, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1):
        count = min(candidates, rows.size)
        # All rows of a group are the same point: ask once for each.
        points, back = np.unique(B[rows], axis=0, return_inverse=True)
        from scipy.spatial import cKDTree  # takes a while

        near = cKDTree(A[rows]).query(points, k=np.arange(1, count + 1), workers=-1)[1]
        who.append(np.repeat(rows, count))
        whom.append(rows[near[back.reshape(-1)]].reshape(-1))
    return np.concatenate(who), np.concatenate(whom)


def _grades(A: np.ndarray, B: np.ndarray, bars: np.ndarray) -> np.ndarray:
    """Grade of agreement of each cell: 0 the closest, len(bars) none."""
    return np.searchsorted(bars, np.abs(A - B), side="left").astype(np.int8)


def _random_grades(A: np.ndarray, B: np.ndarray, bars: np.ndarray, seed: int) -> np.ndarray:
    """Probability of each grade among pairs of different records, by columns."""
    n = A.shape[0]
    draws = np.random.default_rng(seed)
    size = max(20 * n, 20_000) if n < 10_000 else 200_000
    i = draws.integers(0, n, size)
    j = (i + draws.integers(1, max(n, 2), size)) % n
    grades = _grades(A[i], B[j], bars)
    return _shares(grades, np.ones(size), bars.size + 1)


def _shares(grades: np.ndarray, mass: np.ndarray, n_grades: int) -> np.ndarray:
    """Share of each grade in each column, none of them zero."""
    counts = np.stack([np.bincount(column, weights=mass, minlength=n_grades) for column in grades.T]) + 0.5
    return counts / counts.sum(axis=1, keepdims=True)


def _ratios(patterns: np.ndarray, m: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Log likelihood ratio of each pattern."""
    weight = np.log(m) - np.log(u)
    return weight[np.arange(patterns.shape[1]), patterns].sum(axis=1)


def _matched_grades(patterns: np.ndarray, of_pair: np.ndarray, who: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Probability of each grade among matches, one candidate of each record being its match."""
    n_grades = u.shape[1]
    # Matches agree closely to begin with: each grade half as likely as the one before.
    m = np.tile(0.5 ** np.arange(n_grades), (patterns.shape[1], 1))
    m /= m.sum(axis=1, keepdims=True)
    for _ in range(_STEPS):
        belief = _beliefs(_ratios(patterns, m, u)[of_pair], who)[0]
        new = _shares(patterns, np.bincount(of_pair, weights=belief, minlength=len(patterns)), n_grades)
        change = float(np.abs(new - m).max())
        m = new
        if change < 1e-5:
            break
    return m


def _beliefs(ratio: np.ndarray, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability that each candidate is its record's match, and the best ratio of each record."""
    n = int(who.max()) + 1
    best = np.full(n, -np.inf)
    np.maximum.at(best, who, ratio)
    odds = np.exp(ratio - best[who])
    return odds / np.bincount(who, weights=odds, minlength=n)[who], best


def _score(
    n: int, who: np.ndarray, whom: np.ndarray, ratio: np.ndarray, m: np.ndarray, u: np.ndarray
) -> Linkage:
    """Count the records whose best candidate is their own."""
    belief, best = _beliefs(ratio, who)
    chosen = ratio >= best[who] - _TIE
    ties = np.bincount(who[chosen], minlength=n)
    own = who == whom
    return Linkage(
        share=float((1.0 / ties[who[chosen & own]]).sum() / n),
        expected_share=_mean_best(belief, who, n),
        m=m,
        u=u,
        weights=np.log2(m[:, 0] / u[:, 0]),
        n_candidates=int(who.size),
        found=float(own.sum() / n),
    )


def _mean_best(belief: np.ndarray, who: np.ndarray, n: int) -> float:
    best = np.zeros(n)
    np.maximum.at(best, who, belief)
    return float(best.mean())
