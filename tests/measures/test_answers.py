"""Definition 10: relative errors of answers."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.errors import InputError
from shoal.measures import mean_relative_error, relative_error


def test_relative_errors_by_hand():
    np.testing.assert_allclose(relative_error([12, -4, 0], [15, -5, 3]), [0.25, 0.25, np.nan])
    assert mean_relative_error([12, -4, 0], [15, -5, 3]) == 0.25
    assert np.isnan(mean_relative_error([0], [1]))
    with pytest.raises(InputError, match="in pairs"):
        relative_error([1, 2], [1])
