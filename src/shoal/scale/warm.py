"""What workers need, imported once by the process they are forked from: packages and compiled kernels.

No kernel here starts threads, and no table is touched: a forked process would inherit locks, not threads.
"""

from __future__ import annotations

import time

import numpy as np

from shoal.microaggregation import MDAV, mend
from shoal.scale import pool  # noqa: F401 (what a worker runs)

_Z = np.random.default_rng(0).normal(size=(64, 2))
mend(_Z, MDAV(k=2).partition(_Z), 1)

# CPU seconds that starting took, which the workers report with their own.
SPENT = time.process_time()
