"""Other libraries' answers at the same epsilon, on the same column: the root of the mean squared error of many draws.

OpenDP is installed with the extra `dp`. diffprivlib is looked for in the folder that SHOAL_RIVALS names
(`pip install --no-deps --target FOLDER diffprivlib`), and left out where it is not.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

Draw = Callable[[np.ndarray, float], float]


def opendp_answers() -> dict[str, Draw]:
    """COUNT, SUM, AVG, VAR and MEDIAN as OpenDP's constructors give them; what it has no constructor for is made of its sums."""
    import opendp.prelude as dp

    dp.enable_features("contrib")

    def laplace(values: list[int], scale: float) -> list[int]:
        noise = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale)
        return list(noise(values))

    def moments(x: np.ndarray, epsilon: float, powers: int) -> list[float]:
        share, fine = epsilon / (powers + 1), 1 << 20
        found = []
        for power in range(powers + 1):
            size = 1 if power == 0 else fine
            whole = int(np.round((x / 100) ** power * size).sum())
            found.append(laplace([whole], size / share)[0] / size)
        return found

    def mean(x: np.ndarray, epsilon: float) -> float:
        n, total = moments(x, epsilon, 1)
        return float(np.clip(100 * total / max(n, 1), 0, 100))

    def variance(x: np.ndarray, epsilon: float) -> float:
        n, total, squares = (max(each, 0.0) for each in moments(x, epsilon, 2))
        n = max(n, 1)
        return float(np.clip(100**2 * (squares / n - (total / n) ** 2), 0, 50**2))

    grid = [float(each) for each in np.linspace(0, 100, 1001)]

    @lru_cache
    def median_of(epsilon: float) -> Any:
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
        scores = space >> dp.t.then_quantile_score_candidates(grid, alpha=0.5)

        def chosen(scale: float) -> Any:
            return scores >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True)

        return dp.binary_search_chain(chosen, d_in=1, d_out=epsilon, T=float)

    def median(x: np.ndarray, epsilon: float) -> float:
        return grid[median_of(epsilon)(x.tolist())]

    return {
        "COUNT": lambda x, e: laplace([len(x)], 1 / e)[0],
        "SUM": lambda x, e: laplace([int(x.sum() * 1024)], 100 * 1024 / e)[0] / 1024,
        "AVG": mean,
        "VAR_POP": variance,
        "MEDIAN": median,
    }


def opendp_pairs() -> dict[str, Callable[[np.ndarray, np.ndarray, float], float]]:
    """COVAR_POP and CORR of two columns in [0, 100] from OpenDP's noise on the number, the sums and the sums of products."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    fine = 1 << 20

    def means(values: list[np.ndarray], n: int, epsilon: float) -> list[float]:
        share = epsilon / (len(values) + 1)
        noise = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), fine / share)
        rows = max(noise(n * fine) / fine, 1.0)
        return [noise(int(np.round(each * fine).sum())) / fine / rows for each in values]

    def covariance(x: np.ndarray, y: np.ndarray, epsilon: float) -> float:
        u, w = x / 100, y / 100
        first, other, both = means([u, w, u * w], len(u), epsilon)
        return float(100**2 * np.clip(both - first * other, -0.25, 0.25))

    def correlation(x: np.ndarray, y: np.ndarray, epsilon: float) -> float:
        u, w = x / 100, y / 100
        first, other, both, one, two = means([u, w, u * w, u * u, w * w], len(u), epsilon)
        spread = max(one - first**2, 1e-6) * max(two - other**2, 1e-6)
        return float(np.clip((both - first * other) / np.sqrt(spread), -1, 1))

    return {"COVAR_POP": covariance, "CORR": correlation}


def diffprivlib_answers() -> dict[str, Draw]:
    """The same of diffprivlib: it takes the number of rows as public, which is a weaker promise."""
    sys.path.append(os.environ.get("SHOAL_RIVALS", "/nowhere"))
    try:
        tools = importlib.import_module("diffprivlib.tools")
    except ImportError:
        return {}
    finally:
        sys.path.pop()

    def of(name: str) -> Draw:
        def draw(x: np.ndarray, epsilon: float) -> float:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return float(getattr(tools, name)(x, epsilon=epsilon, bounds=(0, 100)))

        return draw

    return {"SUM": of("sum"), "AVG": of("mean"), "VAR_POP": of("var"), "MEDIAN": of("median")}
