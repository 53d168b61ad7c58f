from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.dp.budget import epsilon, micro, rounded_up_text, split
from shoal.errors import ParameterError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, 100_000),
        (0.3, 300_000),
        (1, 1_000_000),
        (1e-6, 1),
        (1.9999999, 1_999_999),
        (Decimal("0.7"), 700_000),
        (0.000249, 249),  # times a million as a float it is less
        (Decimal("0.99999999999999999999"), 999_999),  # as a float it is 1
        (np.float32(0.7), 700_000),  # as a float of double length it is less
        (np.int64(2), 2_000_000),
        (1_000_000, 10**12),
    ],
)
def test_epsilon_is_rounded_down_to_millionths(value, expected):
    assert micro(value) == expected
    assert micro(Fraction(str(value))) == expected


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        1e-7,
        1e-9,
        math.nan,
        math.inf,
        1e300,
        None,
        "x",
        True,
        "0.5",
        1e7,
        1_000_000.5,
        Decimal("nan"),
        Fraction(0),
    ],
)
def test_epsilon_outside_its_range_is_refused_in_one_sentence(value):
    with pytest.raises(ParameterError, match="'epsilon' must be a number in"):
        micro(value)


@given(st.integers(1, 10**12), st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_parts_add_up_exactly(total, weights):
    whole = sum(weights)
    if total < whole:
        return
    parts = split(total, tuple(weights))
    assert sum(parts) == total
    assert all(abs(part - total * weight / whole) <= 1 for part, weight in zip(parts, weights, strict=True))


def test_a_budget_too_small_to_split_is_refused():
    with pytest.raises(ParameterError, match="split over 3 parts"):
        split(2, (1, 1, 1))
    assert epsilon(2) == 0.000002


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.0, "1"), (12.3456412, "12.3457"), (0.1, "0.1"), (1e-9, "0.000000001"), (123456.1, "123457")],
)
def test_a_shown_amount_is_never_less_than_it_is(value, expected):
    assert rounded_up_text(value) == expected
