"""A bought release answers for nothing only where it is at least as exact as what would be paid for."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from scipy.stats import norm

from shoal.dp.answering.free import GAUSSIAN, LAPLACE, free_answer


def asked(interval, widths, cut=None):
    answer = SimpleNamespace(interval=interval, cut_interval=cut)
    nothing, something = (SimpleNamespace(free=lambda *_, found=found: found) for found in (None, answer))
    found = free_answer([nothing, something], "SELECT COUNT(*) FROM t", "t", "ann", "1", lambda: widths)
    assert found in (None, answer)
    return found is not None


@pytest.mark.parametrize(
    ("interval", "widths", "given"),
    [
        ((0.0, 10.0), {"count": 5.0}, True),
        ((0.0, 10.0), {"count": 4.9}, False),
        ((0.0, 10.0), {}, True),  # nothing is known of the noise to be paid for
        (None, {}, False),  # nor of that of the release
        ((None, 3.0), {}, False),
        ([{"g": "a", "n": (0.0, 4.0)}, {"g": "b", "n": (1.0, 5.0)}], {"n": 2.0}, True),
        ([{"g": "a", "n": (0.0, 4.0)}, {"g": "b", "n": (1.0, 5.1)}], {"n": 2.0}, False),
        ([{"g": "a", "n": (0.0, 4.0), "s": None}], {"n": 2.0}, False),
    ],
)
def test_what_is_less_exact_is_paid_for(interval, widths, given):
    assert asked(interval, widths) is given


def test_where_rows_were_cut_the_interval_with_them_counts():
    assert asked((0.0, 10.0), {"count": 5.0}, cut=(0.0, 10.0))
    assert not asked((0.0, 10.0), {"count": 5.0}, cut=(0.0, 11.0))


def test_the_scales_hold_95_per_cent_of_the_noise():
    assert math.exp(-LAPLACE) == pytest.approx(0.05)
    assert pytest.approx(norm.ppf(0.975), abs=1e-3) == GAUSSIAN
