"""What a small table needs is loaded, and nothing else: that is most of the time it takes."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("sklearn", "scipy.spatial", "scipy.stats", "pandas", "highspy", "matplotlib")


def test_forming_groups_loads_no_heavy_library():
    code = (
        "import sys, numpy as np, polars as pl; import shoal.publish; from shoal.measures import propensity;"
        "from shoal.microaggregation import Anneal;"
        "X = np.random.default_rng(0).normal(size=(40, 2));"
        "Anneal(k=3, max_proposals=1000, random_state=0).partition(X); propensity(X, X[::-1].copy());"
        f"print(*[m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
