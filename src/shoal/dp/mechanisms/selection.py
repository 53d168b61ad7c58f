"""Private choice among public candidates, drawn exactly and with the same work for every table.

Weights exp(-rate * distance) are products of one table entry per byte of the distance, so that each candidate
costs the same whatever the data. They are floats with a proven error; a draw that falls within that error of a
border (about one in a million millions) is decided by whole numbers of any length. The distribution is exact:
docs/theory/exponential.md has the proofs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shoal.errors import InternalError

Source = Callable[[int], bytes]
_FAR = 192  # exp(-x) counts as nothing but its upper bound 2^-276 beyond
_WORK = 464  # bits of the powers exp(-rate * 2^i)
_SLACK = 2.0**-44  # relative error of a weight: 63 factors and products within 2^-52 each
_TINY = 2.0**-270
_HALF = 2.0**-53
_WIDEST = 200  # bits of a weight that floats are used for
_AT_ONCE = 1 << 21  # random numbers held at one time


def exponential(
    distances: np.ndarray,
    rate: Fraction,
    weights: np.ndarray | None = None,
    draws: int = 1,
    _source: Source = secrets.token_bytes,
) -> np.ndarray:
    """Positions drawn with probability proportional to weight * exp(-rate * distance), exactly.

    Parameters
    ----------
    distances : int64 array, at least 0
        How far each candidate's utility lies below the best conceivable one.
    rate : Fraction
        epsilon / (2 * sensitivity of a distance); epsilon / sensitivity where all distances move the same way.
    weights : array of int, optional
        Public base weights, all at least 1; beyond 2^200 all is drawn by whole numbers.
    draws : int, default 1
    _source : callable
        Source of random bytes; for tests only.

    Returns
    -------
    int64 array of length `draws`

    References
    ----------
    .. [1] F. McSherry, K. Talwar, "Mechanism design via differential privacy", FOCS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms.selection import exponential
    >>> exponential(np.array([50, 0, 90]), Fraction(2))
    array([1])
    """
    apart = _above_least(distances)
    if weights is not None and max(int(each) for each in weights).bit_length() > _WIDEST:
        heads = _uniform(draws, _source)
        return np.array([_inverted(apart, rate, weights, int(each), _source) for each in heads])
    near = _products(apart, rate)
    size = len(near)
    base = np.ones(size) if weights is None else np.array([float(each) for each in weights])
    error = _SLACK + size * 2 * _HALF
    low = np.cumsum(near * base) * (1 - error)
    high = np.cumsum((near * (1 + _SLACK) + _TINY) * base) * (1 + error)
    heads = _uniform(draws, _source)
    first = np.searchsorted(high, heads * (_HALF * low[-1] * (1 - 4 * _HALF)), side="right")
    last = np.searchsorted(low, (heads + 1) * (_HALF * high[-1] * (1 + 4 * _HALF)), side="left")
    chosen = first.astype(np.int64)
    for doubt in np.flatnonzero((first != last) | (first >= size)):
        chosen[doubt] = _inverted(apart, rate, weights, int(heads[doubt]), _source)
    return chosen


def permute_and_flip(
    distances: np.ndarray, rate: Fraction, draws: int = 1, _source: Source = secrets.token_bytes
) -> np.ndarray:
    """Positions drawn by permute-and-flip: the first candidate of a random order whose coin shows heads.

    Parameters
    ----------
    distances : int64 array, at least 0
    rate : Fraction
        As for `exponential`; the privacy loss is the same, the expected distance never larger.
    draws : int, default 1
    _source : callable
        Source of random bytes; for tests only.

    Returns
    -------
    int64 array of length `draws`

    Notes
    -----
    Candidate i's coin shows heads with probability exp(-rate * (d_i - d_min)). The first heads in a random order
    is a uniform choice among all heads, so that all coins are tossed, whatever the data.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon, "Permute-and-flip: a new mechanism for differentially private selection",
       NeurIPS 2020, arXiv:2010.12603.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms.selection import permute_and_flip
    >>> permute_and_flip(np.array([50, 0, 90]), Fraction(2))
    array([1])
    """
    apart = _above_least(distances)
    near = _products(apart, rate)
    low = np.where(apart == 0, 1.0, near * (1 - _SLACK))
    high = np.where(apart == 0, 1.0, near * (1 + _SLACK) + _TINY)
    chosen = np.empty(draws, dtype=np.int64)
    rows = max(1, _AT_ONCE // len(near))
    for start in range(0, draws, rows):
        many = min(rows, draws - start)
        tossed = _uniform(many * len(near), _source).reshape(many, len(near))
        heads = (tossed + 1) * _HALF <= low
        for draw, place in zip(*np.nonzero((tossed * _HALF < high) & ~heads), strict=True):
            heads[draw, place] = _flipped(int(tossed[draw, place]), rate * int(apart[place]), _source)
        for draw in range(many):
            shown = np.flatnonzero(heads[draw])
            chosen[start + draw] = shown[_below(len(shown), _source)]
    return chosen


def _above_least(distances: np.ndarray) -> np.ndarray:
    whole = np.asarray(distances, dtype=np.int64)
    return whole - whole.min()


def _uniform(count: int, source: Source) -> np.ndarray:
    """Whole numbers below 2^53 as floats, which hold them exactly: the first bits of uniform real numbers."""
    return (np.frombuffer(source(8 * count), dtype=np.uint64) >> np.uint64(11)).astype(np.float64)


def _products(apart: np.ndarray, rate: Fraction) -> np.ndarray:
    """Floats within a relative error of 2^-44 of exp(-rate * distance), or below 2^-276 beside a smaller one."""
    tables = _tables(rate)
    octets = np.ascontiguousarray(apart, dtype="<i8").view(np.uint8).reshape(-1, 8)
    near = tables[0][octets[:, 0]]
    for place in range(1, 8):
        near *= tables[place][octets[:, place]]
    return near


@lru_cache(maxsize=256)
def _tables(rate: Fraction) -> np.ndarray:
    """exp(-rate * value of a byte) for each byte of a whole number, as products of exp(-rate * 2^i)."""
    powers = _powers(rate)
    tables = np.ones((8, 256))
    for place in range(8):
        for bit in range(8):
            # Without the bit, then with it.
            tables[place, 1 << bit : 2 << bit] = tables[place, : 1 << bit] * powers[8 * place + bit]
    return tables


def _powers(rate: Fraction) -> list[float]:
    """exp(-rate * 2^i), i = 0 to 63, each rounded once to a float; zero where it is below 2^-276."""
    found: list[float] = []
    low, high = exp_between(rate, _WORK)
    for i in range(64):
        if rate * (1 << i) > _FAR:
            found.append(0.0)
            continue
        found.append(float(Fraction(low + high, 2 << _WORK)))
        low, high = (low * low) >> _WORK, -((-high * high) >> _WORK)
    return found


def _inverted(
    apart: np.ndarray, rate: Fraction, weights: np.ndarray | None, head: int, source: Source
) -> int:
    """The candidate into which a uniform number with these first 53 bits falls, by whole numbers."""
    base = [1] * len(apart) if weights is None else [int(each) for each in weights]
    precision = 256
    uniform = (head << (precision - 53)) | _bits(precision - 53, source)
    while precision <= 1 << 16:
        low, high, lows, highs = 0, 0, [], []
        for below, above in _bounds(apart.tolist(), base, rate, precision):
            low, high = low + below, high + above
            lows.append(low)
            highs.append(high)
        first = sum(each <= (uniform * low) >> precision for each in highs)
        last = sum(each < -((-(uniform + 1) * high) >> precision) for each in lows)
        if first == last < len(base):
            return first
        uniform, precision = (uniform << precision) | _bits(precision, source), 2 * precision
    raise InternalError("The exponential mechanism did not settle on a candidate.")


class _Between(NamedTuple):
    """A number between low and high, both times a power of two: so many bits whatever its size."""

    low: int
    high: int
    power: int

    def times(self, other: _Between, bits: int) -> _Between:
        """The product, rounded outwards."""
        low, high, power = self.low * other.low, self.high * other.high, self.power + other.power
        over = max(0, high.bit_length() - bits)
        return _Between(low >> over, -(-high >> over), power + over)

    def scaled(self, power: int) -> tuple[int, int]:
        """Whole multiples of another power of two, rounded outwards."""
        over = power - self.power
        if over <= 0:
            return self.low << -over, self.high << -over
        if over > self.high.bit_length():
            return 0, 1
        return self.low >> over, -(-self.high >> over)


def _bounds(
    steps: list[int], weights: list[int], rate: Fraction, precision: int
) -> Iterator[tuple[int, int]]:
    """Integers below and above weight * exp(-rate * step), all times one power of two that the largest fixes."""
    halvings = max(0, rate.numerator.bit_length() - rate.denominator.bit_length() + 1)  # rate / 2^h <= 1
    bits = precision + halvings + 160
    power = _Between(*exp_between(rate / (1 << halvings), bits), -bits)
    for _ in range(halvings):
        power = power.times(power, bits)
    powers = [power]  # exp(-rate * 2^i)
    while len(powers) < max(steps).bit_length():
        powers.append(powers[-1].times(powers[-1], bits))
    found: dict[int, _Between] = {}
    for step in set(steps):
        one = _Between(1, 1, 0)
        for place in range(step.bit_length()):
            one = one.times(powers[place], bits) if step >> place & 1 else one
        found[step] = one
    terms = [
        found[step].times(_Between(weight, weight, 0), bits)
        for step, weight in zip(steps, weights, strict=True)
    ]
    least = max(each.power + each.high.bit_length() for each in terms) - precision - 64
    return (each.scaled(least) for each in terms)


def _flipped(head: int, x: Fraction, source: Source) -> bool:
    """Whether a uniform number with these first 53 bits lies below exp(-x)."""
    precision = 256
    uniform = (head << (precision - 53)) | _bits(precision - 53, source)
    while precision <= 1 << 16:
        low, high = exp_between(x, precision)
        if uniform + 1 <= low:
            return True
        if uniform >= high:
            return False
        uniform, precision = (uniform << precision) | _bits(precision, source), 2 * precision
    raise InternalError("A coin did not come to rest.")


def exp_between(x: Fraction, precision: int) -> tuple[int, int]:
    """Integers below and above exp(-x) * 2^precision, by the alternating series of exp(-x / 2^h) squared h times."""
    if x == 0:
        return 1 << precision, 1 << precision
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


def _below(bound: int, source: Source) -> int:
    """A uniform integer in [0, bound): where a uniform real number falls among `bound` equal parts."""
    precision = 128
    uniform = _bits(precision, source)
    while True:
        first, last = (uniform * bound) >> precision, ((uniform + 1) * bound - 1) >> precision
        if first == last:
            return first
        uniform, precision = (uniform << precision) | _bits(precision, source), 2 * precision


def _bits(count: int, source: Source) -> int:
    """A uniform integer of so many bits."""
    size = -(-count // 8)
    return int.from_bytes(source(size), "little") >> (8 * size - count)
