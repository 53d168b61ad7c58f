"""Concentrated differential privacy: from rho to (epsilon, delta) and back, rounded to the safe side.

A mechanism that is rho-zCDP is (epsilon, delta)-DP for every alpha > 1 with

    delta >= exp((alpha - 1) (alpha rho - epsilon)) / (alpha - 1) * (1 - 1 / alpha)^alpha.

Any alpha gives a true statement, so it is chosen in floating point and the bound is then computed with sixty digits
and a margin far above their error. Rounding can make a result worse by less than a millionth, never too good.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

from shoal.dp import budget
from shoal.errors import ParameterError

_DIGITS = 60
_LEAST = Decimal(-10_000)  # logarithm of the smallest delta that is stated
_MARGIN = Decimal("1e-40")  # on logarithms; the sums below err by less than 1e-50


def delta_bound(rho: Fraction, epsilon: Fraction) -> Fraction:
    """A delta for which rho-zCDP implies (epsilon, delta)-DP, at most a hair above the best of this formula.

    Parameters
    ----------
    rho, epsilon : Fraction
        Above 0.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020,
       arXiv:2004.00010, corollary 13.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.dp.accounting import delta_bound
    >>> float(delta_bound(Fraction(1, 100), Fraction(1))) < 1e-9
    True
    """
    with localcontext() as context:
        context.prec = _DIGITS
        log_delta = _log_delta(rho, epsilon, _best_alpha(float(rho), float(epsilon))) + _MARGIN
        if log_delta >= 0:
            return Fraction(1)
        log_delta = max(log_delta, _LEAST)  # below it a decimal would round to nothing
        return min(Fraction(1), Fraction(log_delta.exp()) * (1 + Fraction(1, 10**40)))


def rho_of_epsilon(epsilon: float, delta: float) -> int:
    """The largest whole number of millionths of rho that implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Read as `shoal.dp.budget.micro` reads it.
    delta : float
        In (0, 1).

    Examples
    --------
    >>> from shoal.dp.accounting import rho_of_epsilon
    >>> rho_of_epsilon(1.0, 1e-9)
    14973
    """
    exact, limit = Fraction(budget.micro(epsilon), budget.MICRO), _checked(delta)
    low, high = 0, budget.LARGEST
    while high - low > 1:
        middle = (low + high) // 2
        if delta_bound(Fraction(middle, budget.MICRO), exact) <= limit:
            low = middle
        else:
            high = middle
    if low == 0:
        raise ParameterError(
            f"'epsilon' must be larger for delta {delta:g}: rho would be less than a millionth. Got {epsilon!r}."
        )
    return low


def epsilon_of_rho(millionths: int, delta: float) -> float:
    """The smallest epsilon, rounded up to a millionth, that so many millionths of rho imply with this delta.

    Examples
    --------
    >>> from shoal.dp.accounting import epsilon_of_rho
    >>> epsilon_of_rho(14973, 1e-9)
    0.999998
    """
    if isinstance(millionths, bool) or not isinstance(millionths, int) or millionths < 1:
        raise ParameterError(f"'rho' must be at least a millionth. Got {millionths!r} millionths.")
    rho, limit = Fraction(millionths, budget.MICRO), _checked(delta)
    low, high = 0, 1
    while delta_bound(rho, Fraction(high, budget.MICRO)) > limit:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if delta_bound(rho, Fraction(middle, budget.MICRO)) <= limit:
            high = middle
        else:
            low = middle
    return budget.epsilon(high)


def _best_alpha(rho: float, epsilon: float) -> Fraction:
    """The best order found in floating point, as a fraction above 1."""
    from scipy.optimize import minimize_scalar  # takes a while

    def log_delta(log_order: float) -> float:
        less = math.exp(log_order)  # alpha - 1
        alpha = less + 1
        return less * (alpha * rho - epsilon) + alpha * (math.log(less) - math.log1p(less)) - math.log(less)

    found = minimize_scalar(log_delta, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-10})
    return 1 + Fraction(math.exp(float(found.x)))


def _log_delta(rho: Fraction, epsilon: Fraction, alpha: Fraction) -> Decimal:
    """The logarithm of the formula, to about fifty digits."""
    less = alpha - 1
    linear = _decimal(less * (alpha * rho - epsilon))
    ratio = _decimal(alpha) * (_decimal(less).ln() - _decimal(alpha).ln())
    return linear + ratio - _decimal(less).ln()


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _checked(delta: float) -> Fraction:
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 < delta < 1:
        raise ParameterError(f"'delta' must be a number above 0 and below 1. Got {delta!r}.")
    return Fraction(delta)
