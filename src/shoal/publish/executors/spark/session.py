"""A Spark session, and errors that come through one told as sentences."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shoal.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(master: str | None = None) -> SparkSession:
    """The running Spark session, or a new one (`local[*]` unless `SPARK_MASTER` or `master` says otherwise)."""
    try:
        from pyspark.errors import PySparkException, PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("pyspark", "spark") from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise InputError(
            "Spark needs Java 17 or later: no 'java' was found on the path and JAVA_HOME is not set."
        )
    master = master or os.environ.get("SPARK_MASTER", "local[*]")
    if master.startswith("local"):
        # Workers on this machine have what this interpreter has; 'python3' on the path may not.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # What goes wrong is told by the command; warnings of a session that is ours would stand between its lines. Of
    # pandas Spark uses nothing here.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    try:
        return (
            SparkSession.builder.master(master)
            .appName("shoal")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
            .getOrCreate()
        )
    except (PySparkRuntimeError, PySparkException) as error:
        raise InputError(f"Spark cannot be started: {line_of(error)}") from None


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Errors of Spark, and ours that come through it, as one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        for kind in ("InputError: ", "ParameterError: "):
            if kind in text:
                raise InputError(text.split(kind, 1)[1].splitlines()[0]) from None
        # Of an error in a worker, what it says rather than that there was one.
        inside = re.search(r"^\w+Error: .+$", text, re.MULTILINE)
        raise InputError(f"Spark could not finish: {line_of(inside[0] if inside else error)}") from None


def line_of(error: BaseException | str) -> str:
    """The first line of an error, as a sentence."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return text if text.endswith(".") else text + "."
