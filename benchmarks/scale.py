"""Speed and scale: fast kernels beside plain ones and rivals, and files of any size.

Figures are CPU seconds (kernels) and wall seconds (files), measured in one run: compare them with each
other, not with other machines. The documentation draws seconds over records from them.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from scipy.spatial import cKDTree

from benchmarks._record import Pieces, Row
from shoal.engine.encode import group_means, standardise, sum_of_squares
from shoal.measures import dld
from shoal.microaggregation import MDAV
from shoal.microaggregation.fixed_size.plain import plain_cbfs, plain_mdav, plain_v_mdav
from shoal.microaggregation.fixed_size.tree import fast_cbfs, fast_mdav, fast_v_mdav

# Columns, k, and the records for which both kernels run; more of them with `full`.
SIZES = {
    False: ((3, 3, (20_000,)), (10, 3, (20_000, 50_000)), (30, 3, (10_000,)), (10, 10, (20_000,))),
    True: (
        (3, 3, (20_000, 100_000)),
        (10, 3, (20_000, 50_000, 100_000, 1_000_000)),
        (30, 3, (20_000, 50_000)),
        (10, 10, (20_000, 100_000)),
    ),
}
# The plain kernel beyond this many records takes hours: its time is carried on by its growth exponent.
PLAIN = 100_000
# CPU seconds of sdcMicro's C++ MDAV on one core of a machine like the one these figures come from.
SDCMICRO = {(50_000, 3): 22.9, (100_000, 3): 105.6, (100_000, 10): 33.2}


Series = dict[str, list[tuple[int, float]]]


def pieces(full: bool) -> Pieces:
    """With `full` up to a million records in kernels and ten million in files and on Spark.

    What is kept is seconds over records, and the growth between the two largest sizes, for the picture.
    """
    found: Pieces = {
        "kernels": lambda: _rows(kernels(full)),
        "others": lambda: _rows(others()),
        "linkage": lambda: _rows(linkage(100_000 if full else 10_000)),
        "rivals": lambda: _rows(rivals()),
        "files": lambda: _rows(files(full)),
    }
    if full:
        found["spark"] = lambda: _rows(cluster((1_000_000, 10_000_000)))
    return found


def _rows(series: Series | None) -> list[Row]:
    return [
        {"series": name, "n": n, "seconds": seconds, "exponent": _exponent(points[-2:])}
        for name, points in (series or {}).items()
        for n, seconds in points
    ]


def kernels(full: bool) -> Series:
    """MDAV, plain and fast, over n, p and k."""
    warm = np.random.default_rng(0).normal(size=(9_000, 2))
    fast_mdav(warm, 3), fast_mdav(warm[:100], 3), plain_mdav(warm[:100], 3)
    print("MDAV, normal columns: CPU seconds (same labels checked where both ran)")
    print(f"{'p':>3} {'k':>3} {'n':>9} {'plain':>9} {'fast':>9} {'ratio':>7} {'sdcMicro':>9} {'IL %':>8}")
    series: Series = {}
    for p, k, sizes in SIZES[full]:
        plain: list[tuple[int, float]] = []
        for n in sizes:
            X = standardise(np.random.default_rng(n).normal(size=(n, p)))
            labels, fast = _timed(lambda X=X, k=k: fast_mdav(X, k))
            mark = " "
            if n <= PLAIN:
                expected, seconds = _timed(lambda X=X, k=k: plain_mdav(X, k))
                if not np.array_equal(labels, expected):
                    raise AssertionError(f"labels differ at n = {n}, p = {p}, k = {k}")
                plain.append((n, seconds))
            else:
                seconds, mark = plain[-1][1] * (n / plain[-1][0]) ** _exponent(plain), "*"
            loss = 100 * sum_of_squares(X, labels) / (X**2).sum()
            line = f"{p:3} {k:3} {n:9,} {seconds:8.2f}{mark} {fast:9.2f} {seconds / fast:6.1f}x"
            known = SDCMICRO.get((n, k)) if p == 10 else None
            line += f" {known / fast:8.1f}x" if known else " " * 10
            print(f"{line} {loss:8.3f}", flush=True)
            if p == 10 and k == 3:
                if n <= PLAIN:
                    series.setdefault("plain MDAV", []).append((n, seconds))
                series.setdefault("fast MDAV", []).append((n, fast))
    if full:
        print("* carried on by the growth exponent of the measured sizes")
    for name, points in series.items():
        print(f"growth exponent of {name}: {_exponent(points):.2f}")
    return series


def others() -> None:
    """CBFS and V-MDAV at one size."""
    X = standardise(np.random.default_rng(1).normal(size=(10_000, 10)))
    print("\nothers, n = 10,000, 10 normal columns, k = 3: CPU seconds plain, fast")
    for name, plain, fast in (
        ("CBFS", lambda: plain_cbfs(X, 3, False), lambda: fast_cbfs(X, 3, False)),
        ("V-MDAV", lambda: plain_v_mdav(X, 3, 0.2), lambda: fast_v_mdav(X, 3, 0.2)),
    ):
        plain(), fast()
        a, b = _timed(plain), _timed(fast)
        if not np.array_equal(a[0], b[0]):
            raise AssertionError(f"labels of {name} differ")
        print(f"{name:8} {a[1]:8.2f} {b[1]:8.2f} {a[1] / b[1]:6.1f}x")


def linkage(n: int) -> None:
    """Linkage by distance (DLD) beside asking scipy's tree for every record's nearest."""
    X = standardise(np.random.default_rng(4).normal(size=(n, 10)))
    labels = fast_mdav(X, 5)
    Y = group_means(X, labels)[labels]
    seconds, beside = _timed(lambda: dld(X, Y))[1], _timed(lambda: cKDTree(X).query(Y))[1]
    print(
        f"\nDLD, n = {n:,}, 10 normal columns, k = 5: CPU seconds {seconds:.2f}, scipy cKDTree {beside:.2f}"
    )
    print(f"ratio {seconds / beside:.2f}")


def rivals() -> None:
    """Rivals from PyPI where they are installed."""
    X = np.random.default_rng(2).normal(size=(2_000, 10))
    print("\nrivals, n = 2,000, 10 normal columns, k = 5: seconds, IL %")
    MDAV(k=5).fit(X[:100])
    fitted, seconds = _timed(lambda: MDAV(k=5).fit(X))
    print(f"{'shoal MDAV':24} {seconds:8.2f} {fitted.information_loss_:8.3f}")
    for name, rival in (("k-means-constrained", _k_means), ("anonypyx", plain_mdav_generic)):
        try:
            seconds, said = rival(X)
            print(f"{name:24} {seconds:8.2f} {said}", flush=True)
        except ImportError as error:
            print(f"{name}: left out ({error}; pip install {name})")


def _k_means(X: np.ndarray) -> tuple[float, str]:
    from k_means_constrained import KMeansConstrained

    Z = standardise(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = KMeansConstrained(len(Z) // 5, size_min=5, n_init=1, max_iter=10, random_state=0)
        labels, seconds = _timed(lambda: method.fit_predict(Z))
    return seconds, f"{100 * sum_of_squares(Z, labels) / (Z**2).sum():8.3f}"


def plain_mdav_generic(X: np.ndarray) -> tuple[float, str]:
    import anonypyx
    import pandas as pd

    Z = standardise(X)
    method = anonypyx.Anonymiser(
        pd.DataFrame(Z), k=5, algorithm="MDAV-generic", generalisation_strategy="microaggregation"
    )
    return _timed(method.anonymise)[1], "  MDAV-generic"


def files(full: bool) -> Series:
    """Parquet files protected part by part, and what blocks cost against the whole."""
    print("\nfiles, 10 normal columns, k = 5, MDAV, --memory 2GB: wall seconds, CPU of all processes")
    print(
        f"{'n':>11} {'seconds':>8} {'rows/s':>9} {'CPU us/row':>10} {'peak MB':>8} {'IL %':>8} {'whole IL %':>10} {'cost':>7}"
    )
    points = []
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        for n in (10_000, 100_000, *([1_000_000, 10_000_000] if full else [])):
            path = Path(folder) / "in.parquet"
            make_file(path, n)
            facts = _apart(path, Path(folder) / "out.parquet")
            seconds = facts["seconds"]
            line = f"{n:11,} {seconds:8.1f} {n / seconds:9,.0f} {1e6 * facts['cpu_seconds'] / n:10.1f}"
            line += f" {facts['peak_memory'] / 1e6:8.0f} {facts['information_loss']:8.3f}"
            if n <= 100_000:
                X = standardise(pl.read_parquet(path).to_numpy())
                whole = 100 * sum_of_squares(X, fast_mdav(X, 5)) / (X**2).sum()
                line += f" {whole:10.3f} {100 * (facts['information_loss'] / whole - 1):+6.2f}%"
            print(line, flush=True)
            points.append((n, seconds))
    print("small files: starting the processes is most of it")
    print(f"growth exponent between the two largest: {_exponent(points[-2:]):.2f}")
    return {"file in parts": points}


def cluster(sizes: tuple[int, ...]) -> Series:
    """The same on Spark with two threads, on this machine."""
    if not importlib.util.find_spec("pyspark") or (
        shutil.which("java") is None and "JAVA_HOME" not in os.environ
    ):
        print("\nSpark: left out, since pyspark or Java is not installed")
        return {}
    os.environ["SPARK_MASTER"] = "local[2]"
    points = []
    print("\nSpark local[2], 10 normal columns, k = 5, MDAV: wall seconds")
    print(f"{'n':>11} {'seconds':>8} {'rows/s':>9} {'IL %':>8}")
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
            path = Path(folder) / "in.parquet"
            make_file(path, n)
            facts = _apart(path, Path(folder) / "out", engine="spark")
        seconds = facts["seconds"]
        print(f"{n:11,} {seconds:8.1f} {n / seconds:9,.0f} {facts['information_loss']:8.3f}", flush=True)
        points.append((n, seconds))
    return {"Spark local[2]": points}


def make_file(path: Path, n: int, p: int = 10, chunk: int = 500_000) -> None:
    """A Parquet file of normal columns, written in chunks."""
    import pyarrow.parquet as pq

    rng = np.random.default_rng(n)
    writer = None
    for start in range(0, n, chunk):
        rows = min(chunk, n - start)
        table = pl.DataFrame({f"x{j}": rng.normal(size=rows) for j in range(p)}).to_arrow()
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _timed(work: Callable[[], object]) -> tuple:
    started = time.process_time()
    value = work()
    return value, time.process_time() - started


def _exponent(points: list[tuple[int, float]]) -> float:
    """Slope of a line through the points, both axes logarithmic."""
    n, seconds = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(n, seconds, 1)[0]) if len(points) > 1 else float("nan")


def _apart(path: Path, output: Path, engine: str = "local") -> dict:
    """Protect a file in a fresh process, so that its memory and CPU seconds are its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_protect, args=(path, output, engine, sender))
    started = time.perf_counter()
    process.start()
    facts = receiver.recv()
    process.join()
    return facts | {"seconds": time.perf_counter() - started}


def _protect(path: Path, output: Path, engine: str, sender) -> None:
    from shoal.publish import protect_file

    local = {} if engine == "spark" else {"memory": "2GB"}
    figures = protect_file(path, output, k=5, method="mdav", engine=engine, **local).figures.to_dict()
    told = ("information_loss", "peak_memory", "cpu_seconds")
    sender.send({name: figures.get(name, 0) for name in told})
