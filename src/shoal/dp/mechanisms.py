"""Noise: exact discrete samplers fed by the system's randomness, and nothing else.

The discrete Laplace distribution comes from `opendp`; the exponential mechanism is sampled by exact inversion
with directed rounding (docs/theory/exponential.md has the proof). No floating-point number is ever drawn.
"""

from __future__ import annotations

import math
import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from shoal.errors import InternalError, MissingExtraError

try:  # the narrow modules only: opendp's prelude loads scikit-learn
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features
except ImportError:
    raise MissingExtraError("opendp", "dp") from None

# Before this version its discrete Laplace noise had a wrong distribution; a bound of an extra binds nobody who
# installed opendp apart.
if tuple(int(part) for part in re.findall(r"\d+", version("opendp"))[:3]) < (0, 14, 2):
    raise MissingExtraError("opendp>=0.14.2", "dp")

enable_features("contrib")

Bits = Callable[[int], int]
CONFIDENCE = 0.95


def laplace(values: np.ndarray, scale: Fraction) -> np.ndarray:
    """Whole numbers plus discrete Laplace noise, P(z) proportional to exp(-|z| / scale).

    Parameters
    ----------
    values : int64 array
    scale : Fraction
        Rounded up to the next float, so that the noise is never less than asked for.

    Returns
    -------
    int64 array
        Saturated at the ends of int64, which is post-processing.

    Notes
    -----
    epsilon-DP for epsilon = (L1 sensitivity) / scale.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020,
       arXiv:2004.00010, section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms import laplace
    >>> laplace(np.array([3, 5]), Fraction(1, 1000))
    array([3, 5])
    """
    draw = _laplace(rounded_up(scale))
    flat = np.ascontiguousarray(values, dtype=np.int64).ravel()
    return np.array(draw(flat.tolist()), dtype=np.int64).reshape(np.shape(values))


def rounded_up(value: Fraction) -> float:
    """The smallest float at or above a fraction."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)


def laplace_radius(scale: Fraction, confidence: float = CONFIDENCE) -> int:
    """The smallest r such that discrete Laplace noise stays within [-r, r] with at least this probability.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms import laplace_radius
    >>> laplace_radius(Fraction(10))
    30
    """
    rate = 1 / float(scale)  # P(|Z| > r) = 2 exp(-(r + 1) rate) / (1 + exp(-rate))
    tail = (1 - confidence) * (1 + math.exp(-rate)) / 2
    return max(0, math.ceil(-math.log(tail) / rate - 1 - 1e-9))


def exponential(
    distances: np.ndarray,
    rate: Fraction,
    weights: np.ndarray | None = None,
    draws: int = 1,
    _bits: Bits = secrets.randbits,
) -> np.ndarray:
    """Positions drawn with probability proportional to weight * exp(-rate * distance), exactly.

    Parameters
    ----------
    distances : int64 array, at least 0
        How far each candidate's utility lies below the best conceivable one.
    rate : Fraction
        epsilon / (2 * sensitivity of a distance).
    weights : array of int, optional
        Public base weights, all at least 1.
    draws : int, default 1
    _bits : callable
        Source of random bits; for tests only.

    Returns
    -------
    int64 array of length `draws`

    Notes
    -----
    (2 * rate * sensitivity)-DP. Candidates at equal distance form one class; a class is drawn by inverting the
    distribution function at a uniform real number whose bits are drawn as needed, all sums kept as integers
    rounded both ways, and precision is doubled until both roundings agree. Within a class the draw is uniform.

    References
    ----------
    .. [1] F. McSherry, K. Talwar, "Mechanism design via differential privacy", FOCS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms import exponential
    >>> exponential(np.array([50, 0, 90]), Fraction(2))
    array([1])
    """
    steps, where = np.unique(np.asarray(distances, dtype=np.int64), return_inverse=True)
    base = np.ones(len(where), dtype=object) if weights is None else np.asarray(weights, dtype=object)
    order = np.argsort(where, kind="stable")
    starts = np.searchsorted(where[order], np.arange(len(steps) + 1))
    members = [order[starts[i] : starts[i + 1]] for i in range(len(steps))]
    cumulated = (
        [list(accumulate(int(each) for each in base[rows])) for rows in members]
        if weights is not None
        else None
    )
    sizes = [len(rows) for rows in members] if cumulated is None else [sums[-1] for sums in cumulated]
    pick = _Inversion([int(each) for each in steps], sizes, rate, _bits)
    answer = np.empty(draws, dtype=np.int64)
    for position in range(draws):
        chosen = pick()
        ticket = _below(sizes[chosen], _bits)
        inside = ticket if cumulated is None else bisect_right(cumulated[chosen], ticket)
        answer[position] = members[chosen][inside]
    return answer


class _Inversion:
    """Draws class i with probability proportional to sizes[i] * exp(-rate * steps[i])."""

    def __init__(self, steps: list[int], sizes: list[int], rate: Fraction, bits: Bits) -> None:
        self._steps, self._sizes, self._rate, self._bits = steps, sizes, rate, bits
        self._tables: dict[int, tuple[list[int], list[int]]] = {}

    def __call__(self) -> int:
        precision = 128
        uniform = self._bits(precision)  # the real number lies in [uniform, uniform + 1) / 2^precision
        while True:
            low, high = self._table(precision)
            # The class must be the same for the smallest and the largest point the number can stand for.
            first = bisect_right(high, (uniform * low[-1]) >> precision)
            last = bisect_left(low, -((-(uniform + 1) * high[-1]) >> precision))
            if first == last < len(self._steps):
                return first
            uniform = (uniform << precision) | self._bits(precision)
            precision *= 2

    def _table(self, precision: int) -> tuple[list[int], list[int]]:
        if precision not in self._tables:
            if precision > 1 << 16:
                raise InternalError("The exponential mechanism did not settle on a candidate.")
            lows, highs = exp_bounds(self._steps, self._rate, precision)
            self._tables[precision] = (
                list(accumulate(size * each for size, each in zip(self._sizes, lows, strict=True))),
                list(accumulate(size * each for size, each in zip(self._sizes, highs, strict=True))),
            )
        return self._tables[precision]


def exp_bounds(steps: list[int], rate: Fraction, precision: int) -> tuple[list[int], list[int]]:
    """Integers below and above exp(-rate * (step - first step)) * 2^precision, for rising steps.

    The common factor exp(rate * first step) cancels in the mechanism and keeps the largest weight at one.
    """
    one = 1 << precision
    lows, highs = [one], [one]
    gaps: dict[int, tuple[int, int]] = {}
    for before, after in pairwise(steps):
        gap = after - before
        if gap not in gaps:
            gaps[gap] = _exp_between(rate * gap, precision)
        low, high = gaps[gap]
        lows.append((lows[-1] * low) >> precision)
        highs.append(-((-highs[-1] * high) >> precision))
    return lows, highs


def _exp_between(x: Fraction, precision: int) -> tuple[int, int]:
    """Integers below and above exp(-x) * 2^precision, by the alternating series of exp(-x / 2^h) squared h times."""
    if x > precision:  # exp(-x) < 2^-precision
        return 0, 1
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 2)  # x / 2^h < 1
    work = precision + 2 * halvings + 16
    one, small = 1 << work, x / (1 << halvings)
    x_low = (small.numerator << work) // small.denominator
    x_high = x_low + 1
    low, high = _series(x_high, work)[0], _series(x_low, work)[1]  # exp(-x) falls in x
    for _ in range(halvings):
        low, high = (low * low) >> work, -((-high * high) >> work)
    return max(0, low >> (work - precision)), min(one, -(-high >> (work - precision)))


def _series(x: int, work: int) -> tuple[int, int]:
    """Bounds of exp(-x / 2^work) * 2^work for 0 <= x <= 2^work: partial sums of an alternating series."""
    term_low = term_high = low = high = 1 << work
    k = 0
    while term_high > 1 or k % 2:  # end after an even term: the value lies between this sum and the next
        k += 1
        term_low = term_low * x // (k << work)
        term_high = -(-term_high * x // (k << work))
        low, high = (low - term_high, high - term_low) if k % 2 else (low + term_low, high + term_high)
    return low - term_high, high


def _below(bound: int, bits: Bits) -> int:
    """A uniform integer in [0, bound), by rejection."""
    size = (bound - 1).bit_length()
    while True:
        draw = bits(size) if size else 0
        if draw < bound:
            return draw
