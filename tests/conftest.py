"""What the tests share: benchmark tables where they are at hand, and registered methods."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from shoal import datasets

# A busy machine is no defect: no property test fails by the clock.
settings.register_profile(
    "shoal", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shoal")

# Files of many long tests that share nothing: each of their tests may go to any worker.
ALONE = (
    "tests/test_docs.py",
    "tests/test_stories.py",
    "tests/test_migration.py",
    "tests/audit/test_audit.py",
)

# Commands run in other folders find the tree under test.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files go to one worker each, so that what a file shares (a server, a protection, compiled kernels) is made once."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if "spark" in nodeid.lower():
                return "spark"  # one Java machine serves them all
            return nodeid if file.endswith(ALONE) else file

    return ByFile(config, log)


def benchmark(name: str):
    """A benchmark table, or a skip with the reason."""
    if datasets.DATASETS[name].path is None:
        pytest.skip(f"the benchmark table {name!r} is not at hand (set SHOAL_DATA)")
    return datasets.load_eia() if name == "eia" else datasets.load(name)


@pytest.fixture(scope="session")
def census():
    return benchmark("census")


@pytest.fixture(scope="session")
def tarragona():
    return benchmark("tarragona")


@pytest.fixture(scope="session")
def eia():
    return benchmark("eia")


@pytest.fixture
def blobs():
    """Sixty records around five centres in three columns."""
    rng = np.random.default_rng(7)
    return rng.normal(size=(60, 3)) + 6 * rng.normal(size=(5, 3))[np.arange(60) % 5]
