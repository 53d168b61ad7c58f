"""Privacy budgets as whole numbers of micro-epsilon: they add up exactly and never drift."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.errors import ParameterError

MICRO = 1_000_000
LARGEST = 1_000_000 * MICRO


def micro(epsilon: Any, name: str = "epsilon") -> int:
    """Epsilon as a whole number of millionths, rounded down.

    Parameters
    ----------
    epsilon : float, int, Decimal or Fraction
        At least 0.000001 and at most 1,000,000. A float is read as the decimal number it prints as.
    name : str
        What to call it in an error.

    Returns
    -------
    int

    Examples
    --------
    >>> from shoal.dp.budget import micro
    >>> micro(0.3), micro(0.1234567)
    (300000, 123456)
    """
    expected = f"{name!r} must be a number in [0.000001, 1000000]. Got {epsilon!r}."
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float, Decimal, Fraction, np.number)):
        raise ParameterError(expected)
    try:
        exact = epsilon if isinstance(epsilon, Fraction) else Fraction(Decimal(str(epsilon)))
        whole = int(exact * MICRO // 1)
    except (InvalidOperation, ValueError, OverflowError):
        raise ParameterError(expected) from None
    if not 1 <= whole <= LARGEST:
        raise ParameterError(expected)
    return whole


def epsilon(millionths: int) -> float:
    """A number of millionths as epsilon, for people to read.

    Examples
    --------
    >>> from shoal.dp.budget import epsilon
    >>> epsilon(300000)
    0.3
    """
    return millionths / MICRO


def split(millionths: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    """Parts of a budget in proportion to whole weights; they add up to it exactly.

    Parameters
    ----------
    millionths : int
    weights : tuple of int
        All at least 1.

    Returns
    -------
    tuple of int
        All at least 1; what rounding leaves over goes to the first parts.

    Examples
    --------
    >>> from shoal.dp.budget import split
    >>> split(100, (2, 1, 1)), split(100, (1, 1, 1))
    ((50, 25, 25), (34, 33, 33))
    """
    whole = sum(weights)
    parts = [millionths * weight // whole for weight in weights]
    for position in range(millionths - sum(parts)):
        parts[position] += 1
    if min(parts) < 1:
        raise ParameterError(
            f"'epsilon' must be at least {epsilon(whole)} to be split over {len(weights)} parts. "
            f"Got {epsilon(millionths)}."
        )
    return tuple(parts)


def rounded_up_text(value: float) -> str:
    """Six digits of a number, never less than it.

    Examples
    --------
    >>> from shoal.dp.budget import rounded_up_text
    >>> rounded_up_text(12.3456412), rounded_up_text(1.0)
    ('12.3457', '1')
    """
    exact = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(repr(value)))
    return f"{exact.normalize():f}"
