"""Whether draws follow a stated distribution."""

from __future__ import annotations

import numpy as np
from scipy import stats


def fits(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """p-value of a chi-square test with rare outcomes pooled."""
    expected = probabilities * observed.sum()
    common = expected >= 10
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 0
    return stats.chisquare(f_obs[keep], f_exp[keep] * f_obs[keep].sum() / f_exp[keep].sum()).pvalue
