"""What can be released about a table: sums with noise, an average drawn in one piece, a point of a grid by its rank.

Each release is a frozen value of public facts. `shoal.dp.answering.exact` computes the numbers that it needs,
`shoal.dp.answering.noise` draws the noise, and `shoal.dp.answering.figures` turns the result into figures. Proofs:
docs/theory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from shoal.dp.budget import MICRO
from shoal.dp.mechanisms.currency import PURE, Noise, choice_range, sums_noise

Matrix = tuple[tuple[int, ...], ...]
BETA = Fraction(1, 20)  # a MIN or MAX lies beyond the data with at most this probability
SCORE = 1024  # steps of a score
ROW = 1 << 16  # parts of a row, where a unit's rows are weighted


@dataclass(frozen=True)
class Fixed:
    """A row's number as a whole number of quanta: round((clamped x - offset) / quantum), within [least, most]."""

    bounds: tuple[float, float]
    offset: float
    quantum: Fraction
    least: int
    most: int


@dataclass(frozen=True)
class Candidates:
    """Public candidates low, low + step, ... of a minimum, maximum or quantile."""

    low: float
    step: float
    size: int


@dataclass(frozen=True)
class Limit:
    """How much of one unit may count in an answer.

    Parameters
    ----------
    rows : int
        At most as much as so many rows of a unit.
    column : str, optional
        Rows with the same value are a unit. None: any `rows` records are hidden jointly, and nothing is cut.
    chosen : bool, default False
        Whether the limit is drawn privately, up to `rows`, from part of the release's epsilon.
    """

    rows: int
    column: str | None = None
    chosen: bool = False


@dataclass(frozen=True)
class LimitChoices:
    """The limits from which one is drawn, in rising order, and the share of epsilon that the draw costs.

    Parameters
    ----------
    limits : tuple of int
    share : Fraction
    bits : int
        The public weight of a limit falls by 2^-bits from one to the next.
    """

    limits: tuple[int, ...]
    share: Fraction
    bits: int

    @cached_property
    def weights(self) -> np.ndarray:
        """Public base weights, whole numbers."""
        last = len(self.limits) - 1
        return np.array([1 << (self.bits * (last - j)) for j in range(last + 1)], dtype=object)


@lru_cache(maxsize=256)
def steps_up_to(first: int, last: int, share: Fraction, bits: int) -> LimitChoices:
    """Limits first, 2 first, 4 first, ... below `last`, and `last` itself."""
    limits = []
    step = max(1, min(first, last))
    while step < last:
        limits.append(step)
        step *= 2
    return LimitChoices((*limits, last), share, bits)


@dataclass(frozen=True)
class Pair:
    """The second column of a covariance or correlation. The sums are over products of polynomials of both columns.

    Parameters
    ----------
    column : str
        Rows in which it is missing do not count.
    fixed : Fixed
        How it becomes whole, in as many quanta as the first.
    polynomials : tuple of 3 int each
        Coefficients of 1, v and v^2; of a row every product of one of the first column and one of the second is summed.
    divisor : int
        A product becomes the nearest whole number of so many.
    """

    column: str
    fixed: Fixed
    polynomials: Matrix
    divisor: int


@dataclass(frozen=True)
class Sums:
    """Whole-number sums per group, with discrete Laplace or Gaussian noise.

    A row's number is v; what is released is `terms`, whole combinations of the number of rows, the sum of v and
    the sum of v^2; of two columns, of the number of rows and the sums of the products of their polynomials.

    Parameters
    ----------
    figure : {"count", "sum", "avg", "var", "var_samp", "covar", "covar_samp", "corr", "units", "distinct"}
        Of units and of different values, a unit counts once for each; see docs/theory/distinct.md.
    micro : int
        What it costs.
    column : str, optional
        Rows in which it is missing do not count.
    fixed : Fixed, optional
        How the column becomes whole.
    terms : tuple of tuple of int
    sensitivity : int
        L1 size of one row's terms.
    limit : Limit
    signed : bool
        Whether a row's terms can be below 0.
    groups : int
        Number of groups answered.
    currency : {"pure", "zcdp"}
        What `micro` is counted in.
    square : int, optional
        Square of the L2 size of one row's terms; that of the L1 size if left open.
    pair : Pair, optional
        Of a covariance or correlation.
    """

    figure: str
    micro: int
    column: str | None
    fixed: Fixed | None
    terms: Matrix
    sensitivity: int
    limit: Limit
    signed: bool
    groups: int
    currency: str = PURE
    square: int | None = None
    pair: Pair | None = None

    @property
    def powers(self) -> int:
        """The highest power of v that is summed."""
        return 0 if self.fixed is None else 2 if self.figure in ("var", "var_samp") else 1

    @property
    def width(self) -> int:
        """How many numbers are released, over all groups."""
        return self.groups * len(self.terms)

    @property
    def scalar(self) -> bool:
        """Whether a unit's contribution is a single number."""
        return self.width == 1

    @cached_property
    def steps(self) -> LimitChoices | None:
        """The limits to draw from, if the limit is drawn."""
        if not self.limit.chosen:
            return None
        # A signed sum is not cut below one row's size, so that one row moves it by no more than the limit.
        first = (
            max(1, self.sensitivity // 8) if self.figure == "sum" and not self.signed else self.sensitivity
        )
        return steps_up_to(first, self.most, *CHOICE[self.figure])

    @property
    def most(self) -> int:
        """The L1 size of a unit's terms, at most."""
        return self.limit.rows * self.sensitivity

    def noise(self, limit: int | None = None) -> Noise:
        """The noise on every number, for a drawn limit where one is drawn."""
        amount, size = Fraction(self.micro, MICRO), self.most
        if self.steps is not None:
            assert limit is not None  # the caller has drawn it
            amount, size = amount * (1 - self.steps.share), limit
        return sums_noise(self.currency, amount, size, self._square(size))

    def _square(self, size: int) -> int:
        """Square of the L2 length of what a unit adds, of which the L1 length is `size` at most."""
        if self.limit.column is None:
            return self.limit.rows**2 * (self.sensitivity**2 if self.square is None else self.square)
        return size if self.figure == "units" else size**2  # a unit adds 0 or 1 to the units of each group

    def scale(self, limit: int | None = None) -> Fraction:
        """Scale of the noise, for a drawn limit where one is drawn."""
        return Fraction(self.noise(limit).scale)

    @cached_property
    def score_rate(self) -> Fraction:
        """Rate at which a limit is drawn, per part of a score: all scores move the same way, by at most 1024."""
        assert self.steps is not None  # the limit is drawn
        return choice_range(self.currency, self.steps.share * Fraction(self.micro, MICRO)) / SCORE


@dataclass(frozen=True)
class Mean:
    """An average over units. The limit of a unit's pull and the average are drawn in one piece, then a width.

    Parameters
    ----------
    micro : int
    column : str
    fixed : Fixed
        With offset at the lower bound: v lies in [0, most].
    limit : Limit
    points : int
        Candidates of the average, equally spaced over the declared range.
    """

    micro: int
    column: str
    fixed: Fixed
    limit: Limit
    points: int = 2049
    figure: str = "avg"
    groups: int = 1
    powers: int = 1
    currency: str = PURE

    @property
    def spacing(self) -> int:
        """Quanta between two candidates."""
        return self.fixed.most // (self.points - 1)

    @cached_property
    def steps(self) -> LimitChoices:
        """Limits of a unit's pull, in quanta; the share is that of the first draw, average and limit."""
        first = max(1, self.fixed.most // 8)
        return steps_up_to(first, min(self.limit.rows, 1 << 20) * self.fixed.most, MEAN_SHARE, 5)

    @cached_property
    def rate(self) -> Fraction:
        """Of the first draw, per part of a score: 2 |pull| / limit and the number of units cut, in 1/1024."""
        return choice_range(self.currency, MEAN_SHARE * Fraction(self.micro, MICRO)) / (5 * SCORE)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Half widths to draw from, in candidates: 1, 2, 4, ... and the whole range."""
        return (*(1 << j for j in range((self.points - 1).bit_length() - 1)), self.points - 1)

    @cached_property
    def width_rate(self) -> Fraction:
        """Of the second draw, per 1/1024 of |pull| / limit."""
        return choice_range(self.currency, (1 - MEAN_SHARE) * Fraction(self.micro, MICRO)) / (2 * SCORE)

    @cached_property
    def aim(self) -> int:
        """How much pull the ends of the interval are aimed to have, in 1/1024 of the limit."""
        return math.ceil(math.log(len(self.widths) / float(BETA)) / float(self.width_rate))


@dataclass(frozen=True)
class Ranks:
    """A point of a public grid per group, drawn by its rank.

    Parameters
    ----------
    figure : {"min", "max", "quantile"}
    micro : int
    column : str
    grid : Candidates
    limit : Limit
    groups : int
    share : Fraction, optional
        The share of a quantile; a minimum or maximum aims at a rank instead.
    """

    figure: str
    micro: int
    column: str
    grid: Candidates
    limit: Limit
    groups: int
    share: Fraction | None = None
    currency: str = PURE

    @property
    def extreme(self) -> bool:
        """Whether the figure is a minimum or maximum. Then only the outermost row of a unit counts, in each group."""
        return self.share is None

    @property
    def most(self) -> int:
        """At most so many rows' worth of a unit count."""
        if self.extreme and self.limit.column is not None:
            return min(self.limit.rows, self.groups)
        return self.limit.rows

    @cached_property
    def steps(self) -> LimitChoices | None:
        """The limits to draw from, if the limit is drawn."""
        if not self.limit.chosen or self.most < LEAST_CHOSEN["rank"]:
            return None
        return steps_up_to(1, self.most, *CHOICE["rank"])

    @property
    def part(self) -> int:
        """Into how many parts a row is divided, so that a unit's rows can be weighted."""
        return 1 if self.limit.column is None else ROW

    def rate(self, limit: int | None = None) -> Fraction:
        """Rate of the choice per unit of `shoal.dp.answering.noise.distances`."""
        rows = self.most if self.steps is None else limit
        assert rows is not None  # the caller has drawn it
        spent = Fraction(self.micro, MICRO) * (1 if self.steps is None else 1 - self.steps.share)
        return choice_range(self.currency, spent) / (2 * rows * self.part * self.sensitivity)

    @cached_property
    def score_rate(self) -> Fraction:
        """Rate at which a limit is drawn, as of `Sums`."""
        assert self.steps is not None  # the limit is drawn
        return choice_range(self.currency, self.steps.share * Fraction(self.micro, MICRO)) / SCORE

    @property
    def sensitivity(self) -> int:
        """Of a distance, to a whole row."""
        if self.share is None:
            return 1
        return max(self.share.numerator, self.share.denominator - self.share.numerator)

    def aim(self, limit: int | None = None) -> int:
        """Rows inside the minimum or maximum, so that it lies beyond the data with at most 5 %."""
        return math.ceil(math.log(self.grid.size / float(BETA)) / float(self.rate(limit)) / self.part)


Release = Sums | Mean | Ranks


def columns_of(release: Release) -> tuple[str, ...]:
    """The columns of a release: none, one or two."""
    other = release.pair.column if isinstance(release, Sums) and release.pair is not None else None
    return tuple(each for each in (release.column, other) if each is not None)


# Share of epsilon that draws a limit, and bits by which its public weight falls from one to the next.
CHOICE = {
    "count": (Fraction(1, 5), 1),
    "sum": (Fraction(2, 5), 3),
    "avg": (Fraction(1, 5), 1),
    "var": (Fraction(1, 5), 1),
    "var_samp": (Fraction(1, 5), 1),
    "covar": (Fraction(1, 5), 1),
    "covar_samp": (Fraction(1, 5), 1),
    "corr": (Fraction(1, 5), 1),
    "units": (Fraction(1, 5), 1),
    "rank": (Fraction(1, 5), 1),
}
MEAN_SHARE = Fraction(4, 5)
# A declared limit below these is used as it is: the interval then holds without a bias, and drawing gains little.
LEAST_CHOSEN = {"avg": 9, "rank": 9} | dict.fromkeys(("count", "sum", "var", "var_samp", "units"), 32)
