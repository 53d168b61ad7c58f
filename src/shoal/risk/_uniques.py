"""Special uniques: records that few columns already single out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any

import numpy as np

from shoal.errors import ParameterError
from shoal.params import AnyOf, Interval, Unset, check_params
from shoal.privacy.cells import CodedCells, cells_of, names_of, opened
from shoal.privacy.classes import classes_of

MOST_SUBSETS = 40_000


@dataclass(frozen=True)
class Suda:
    """Minimal sample uniques and what they say.

    Attributes
    ----------
    scores : array of float64, (n_records,)
        Sum over the record's minimal sample uniques of size s of the product of (columns - i), i = s..M;
        0 for records without any.
    n_minimal : array of int64, (n_records,)
        Minimal sample uniques of each record.
    smallest : array of int64, (n_records,)
        Columns of its smallest one; 0 where there is none.
    contributions : dict of str to float
        Share of the total score that comes from minimal sample uniques with this column, largest first.
    match_probability : float or None
        Probability that a unique match is right (data intrusion simulation), for a given sampling fraction.
    dis_scores : array of float64, (n_records,), or None
        DIS-SUDA as sdcMicro and the program of its authors compute it; 0 for records without a minimal sample
        unique.
    shared_scores : array of float64, (n_records,), or None
        `match_probability` shared out by the scores so that its mean is kept; our own, see Notes.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"sex": ["m", "m", "f", "m"], "age": [1, 1, 1, 2], "job": ["x", "x", "x", "y"]})
    >>> found = risk.suda(table, ["sex", "age", "job"], max_size=2)
    >>> found.n_minimal.tolist(), {name: round(share, 2) for name, share in found.contributions.items()}
    ([0, 0, 1, 2], {'sex': 0.33, 'age': 0.33, 'job': 0.33})
    """

    scores: np.ndarray
    n_minimal: np.ndarray
    smallest: np.ndarray
    contributions: dict[str, float]
    match_probability: float | None
    dis_scores: np.ndarray | None
    shared_scores: np.ndarray | None


def suda(
    frame: Any,
    quasi: Sequence[str] | str,
    *,
    max_size: int | None = None,
    sampling_fraction: float | None = None,
) -> Suda:
    """Find minimal sample uniques and score the records by them.

    A minimal sample unique is a set of columns in which a record is unique while it is in no proper subset.
    The smaller the sets and the more of them, the riskier the record: it is likely to be unique in the
    population too.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
    max_size : int, optional
        Sets of up to so many columns are looked at. Left open: sets of any size, as sdcMicro does.
    sampling_fraction : float, optional
        The share of the population in the table; gives `match_probability`, `dis_scores` and
        `shared_scores` (sdcMicro takes 0.01 where nothing is said).

    Notes
    -----
    One pass over the table per set of columns; uniqueness of a set's subsets is remembered for the records
    that are unique at all.

    With the score S of a record, sampling fraction f, P records in classes of two and Q = 1 + (8 - columns) / 20,
    DIS-SUDA is 1 / (1 + P (1 - f) / f / (S^Q A)), A being the sum of S^-Q over the records with a score. It is a
    scale, not a probability: its mean is not `match_probability`.

    `shared_scores` is q S / (1 + q S): a probability that grows with the score. One factor q serves all records; it
    is chosen so that the mean over records with a score is `match_probability`.

    References
    ----------
    .. [1] M. J. Elliot, A. M. Manning, R. W. Ford (2002). A computational algorithm for handling the special
       uniques problem. International Journal of Uncertainty, Fuzziness and Knowledge-Based Systems 10(5),
       493-509. doi:10.1142/S0218488502001600
    .. [2] C. J. Skinner, M. J. Elliot (2002). A measure of disclosure risk for microdata. Journal of the
       Royal Statistical Society B 64(4), 855-867. doi:10.1111/1467-9868.00365

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"sex": ["m", "m", "f", "m"], "age": [1, 1, 1, 2], "job": ["x", "x", "x", "y"]})
    >>> found = risk.suda(table, ["sex", "age", "job"], max_size=2)
    >>> found.scores.tolist(), found.smallest.tolist()
    ([0.0, 0.0, 2.0, 4.0], [0, 0, 1, 1])
    """
    check_params(
        "suda",
        {
            "max_size": AnyOf((Unset(), Interval(Integral, 1))),
            "sampling_fraction": AnyOf((Unset(), Interval(Real, 0, 1))),
        },
        {"max_size": max_size, "sampling_fraction": sampling_fraction},
    )
    names = names_of(quasi, "quasi")
    depth = len(names) if max_size is None else min(max_size, len(names))
    subsets = sum(math.comb(len(names), size) for size in range(1, depth + 1))
    if subsets > MOST_SUBSETS:
        raise ParameterError(
            f"'max_size' of suda must leave at most {MOST_SUBSETS} sets of columns. Got {subsets} with {depth}."
        )
    columns = cells_of(opened(frame, names), names)
    whole = classes_of(columns)
    uniques = np.sort(whole.first[whole.sizes == 1])
    n_minimal, smallest, scores, shares = _search(columns, uniques, depth)
    total = scores.sum()
    match = _match_probability(whole.sizes, sampling_fraction)
    contributions = {
        name: float(share / total) if total else 0.0 for name, share in zip(names, shares, strict=True)
    }
    return Suda(
        scores=_spread(scores, uniques, whole.n_records),
        n_minimal=_spread(n_minimal, uniques, whole.n_records),
        smallest=_spread(smallest, uniques, whole.n_records),
        contributions=dict(sorted(contributions.items(), key=lambda pair: -pair[1])),
        match_probability=match,
        dis_scores=None
        if sampling_fraction is None
        else _spread(_dis(scores, whole.sizes, sampling_fraction, len(names)), uniques, whole.n_records),
        shared_scores=None
        if match is None
        else _spread(_shared_out(scores, match), uniques, whole.n_records),
    )


def _spread(values: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros(n, values.dtype)
    out[rows] = values
    return out


def _search(
    columns: list[CodedCells], uniques: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Go through sets of growing size; everything is kept for unique records only."""
    width = len(columns)
    n_minimal = np.zeros(uniques.size, np.int64)
    smallest = np.zeros(uniques.size, np.int64)
    scores = np.zeros(uniques.size)
    shares = np.zeros(width)
    below: dict[tuple[int, ...], np.ndarray] = {(): np.zeros(uniques.size, bool)}
    for size in range(1, depth + 1 if uniques.size else 1):
        # M is at most the number of columns less one, or the product would vanish.
        points = float(math.prod(width - i for i in range(size, min(depth, width - 1) + 1)))
        here = {}
        for chosen in combinations(range(width), size):
            classes = classes_of([columns[j] for j in chosen])
            alone = classes.sizes[classes.labels[uniques]] == 1
            here[chosen] = alone
            minimal = alone.copy()
            for left_out in range(size):
                minimal &= ~below[chosen[:left_out] + chosen[left_out + 1 :]]
            n_minimal += minimal
            smallest[minimal & (smallest == 0)] = size
            scores[minimal] += points
            shares[list(chosen)] += points * minimal.sum()
        below = here
    return n_minimal, smallest, scores, shares


def _match_probability(sizes: np.ndarray, fraction: float | None) -> float | None:
    """Unique matches that are right: uniques against pairs, as if records were taken out and matched."""
    if fraction is None:
        return None
    ones, pairs = float((sizes == 1).sum()) * fraction, 2.0 * float((sizes == 2).sum()) * (1.0 - fraction)
    return ones / (ones + pairs) if ones + pairs > 0 else 0.0


def _dis(scores: np.ndarray, sizes: np.ndarray, fraction: float, width: int) -> np.ndarray:
    """Scores between 0 and 1 that set each record's score against the pairs in the table."""
    out, scored = np.zeros(scores.size), scores > 0
    if fraction <= 0.0 or not scored.any():
        return out
    power = scores[scored] ** (1.0 + (8.0 - width) / 20.0)
    pairs = 2.0 * float((sizes == 2).sum())
    out[scored] = 1.0 / (1.0 + pairs * (1.0 - fraction) / fraction / (power * (1.0 / power).sum()))
    return out


def _shared_out(scores: np.ndarray, match: float) -> np.ndarray:
    """Probabilities q S / (1 + q S) of the scores above 0 whose mean is `match`; found by halving log q."""
    scored = scores > 0
    if match <= 0.0 or match >= 1.0 or not scored.any():
        return scored * float(match)
    S = scores[scored]
    low, high = -800.0, 800.0
    for _ in range(100):
        middle = (low + high) / 2
        # Written with exp so that neither end overflows.
        mean = (1.0 / (1.0 + np.exp(np.clip(-middle - np.log(S), -700, 700)))).mean()
        low, high = (middle, high) if mean < match else (low, middle)
    out = np.zeros(scores.size)
    out[scored] = 1.0 / (1.0 + np.exp(np.clip(-middle - np.log(S), -700, 700)))
    return out
