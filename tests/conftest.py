"""What the tests share: benchmark tables where they are at hand, and registered methods."""

from __future__ import annotations

import gc
import os
import shutil
import sys
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
# Together, first and on one worker: they compile nearly all kernels, which the other worker would else do as well.
COMPILING = ("tests/common/test_microaggregators.py", "tests/common/test_estimator_api.py")
LONG = (
    "tests/microaggregation/",
    "tests/server/",
    "tests/audit/",
    "tests/publish/",
    "tests/system/",
    "tests/test_",
)

# Looking for garbage among all that is loaded takes a twentieth of the tests' time.
gc.set_threshold(100_000, 50, 100)

# Commands run in other folders find the tree under test, and keep what Python makes of its files for the next.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files go to one worker each, so that what a file shares (a server, a protection, compiled kernels) is made once."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # else files of many tests come first, which are not the long ones

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if "spark" in nodeid.lower():
                return "spark"  # one Java machine serves them all
            if file.endswith(COMPILING):
                return "compiling"
            if "tests/common/" in file:
                return "source"  # parsed once for all that look at it
            return nodeid if file.endswith(ALONE) else file

    return ByFile(config, log)


def pytest_collection_modifyitems(items):
    """Long files first, so that no worker waits at the end; those without kernels while kernels are compiled."""
    items.sort(key=lambda item: order(item.nodeid.partition("::")[0]))


def pytest_collection_finish():
    """What was loaded by now stays: it need not be looked through again."""
    gc.collect()
    gc.freeze()


def order(file: str) -> int:
    for place, some in enumerate((COMPILING, ("tests/dp/",), LONG, ("tests/",))):
        if any(each in file for each in some):
            return place
    return 9


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


@pytest.fixture(scope="session")
def spark():
    """One Spark for all tests: each start takes seconds. It compiles little, as it does not run long."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
