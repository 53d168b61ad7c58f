"""Private tables: mean total variation of 1-, 2- and 3-way tables, beside AIM, MST and PrivBayes on the same positions.

Tables are read from the folder in SHOAL_DATA; rivals run in the environment whose interpreter SHOAL_RIVALS names
(`pip install dpmm`), each for at most SHOAL_RIVAL_SECONDS of CPU (900). What they drew is kept in the folder SHOAL_RIVAL_ROWS, and what is
there is not run again; a run that did not end leaves the seconds it had. SHOAL_TABLES names the tables to measure, by commas,
SHOAL_EPSILONS the epsilons and SHOAL_METHODS the methods ("shoal", "aim", "mst", "privbayes"); rows about others are kept from the
last run.

    SHOAL_DATA=data SHOAL_RIVALS=/tmp/rivals/bin/python python -m benchmarks private_tables
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks._private_tables import tables
from benchmarks._record import FOLDER
from shoal.release import release_marginals, utility
from shoal.release.marginals._plan import make_plan
from shoal.release.marginals._release import load_codes
from shoal.schema import Column, Schema

DELTA = 1e-9
EPSILONS = (0.1, 1.0, 10.0)
RUNS = 3
RIVALS = ("mst", "privbayes", "aim")
MODEL_SIZE = 80.0  # MB, of the rivals that take one
RANGED = {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99)}


def run(full: bool = False) -> list[dict]:
    folder = Path(os.environ.get("SHOAL_DATA", "data"))
    named = os.environ.get("SHOAL_TABLES", "adult,sdc_survey,ccc").split(",")
    usual = ",".join(map(str, EPSILONS if full else (1.0,)))
    epsilons = [float(each) for each in os.environ.get("SHOAL_EPSILONS", usual).split(",")]
    rows = []
    for name, (frame, schema) in tables(folder).items():
        if name in named:
            rows += _of_table(name, frame, schema, epsilons)
    return sorted(_kept(rows) + rows, key=lambda each: (each["table"], each["epsilon"] or 0, each["method"]))


def _of_table(name: str, frame: pl.DataFrame, schema: Schema, epsilons: list[float]) -> list[dict]:
    codes, sizes, names = _coded(frame, schema)
    rng = np.random.default_rng(0)
    resampled = _distances(codes, codes[rng.integers(0, len(codes), len(codes))], sizes)
    rows = [_told(name, "resampled", None, [resampled], 0.0)]
    if "shoal" in _methods():
        for epsilon in epsilons:
            for delta in (DELTA, None):
                rows.append(_ours(name, frame, schema, epsilon, delta, codes, sizes))
        rows += [_ranges(frame, delta) for delta in (DELTA, None)] if name == "adult" else []
    return rows + _rivals(name, codes, sizes, names, epsilons)


def _methods() -> list[str]:
    return os.environ.get("SHOAL_METHODS", "shoal,mst,privbayes,aim").split(",")


def _kept(rows: list[dict]) -> list[dict]:
    """Rows of the last run about what was not measured now."""
    path = FOLDER / "private_tables.json"
    old = json.loads(path.read_text())["records"] if path.exists() else []
    now = {(each["table"], each["method"], each["epsilon"]) for each in rows}
    return [each for each in old if (each["table"], each["method"], each["epsilon"]) not in now]


def _coded(frame: pl.DataFrame, schema: Schema) -> tuple[np.ndarray, list[int], list[str]]:
    plan = make_plan(schema, 1.0, workload="tables")
    return (
        load_codes(frame, schema, plan, None),
        [each.size for each in plan.axes],
        [each.name for each in plan.axes],
    )


def _ours(name, frame, schema, epsilon, delta, codes, sizes) -> dict:
    runs, start = [], time.process_time()
    for _ in range(1 if epsilon > 1 and len(codes) > 10_000 else RUNS):
        out = release_marginals(frame, schema, epsilon, delta=delta, workload="tables", rows=len(codes))
        runs.append(_distances(codes, _coded(out.frame, schema)[0], sizes))
    seconds = (time.process_time() - start) / len(runs)
    kind = "shoal, pure" if delta is None else "shoal, zCDP"
    return _told(name, kind, epsilon, runs, seconds)


def _rivals(name: str, codes: np.ndarray, sizes: list[int], names: list[str], epsilons) -> list[dict]:
    wanted = [each for each in RIVALS if each in _methods()]
    if "SHOAL_RIVALS" not in os.environ:
        return []
    found = []
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "in.npz"
        np.savez(source, codes=codes, sizes=sizes, names=names)
        folder = Path(os.environ.get("SHOAL_RIVAL_ROWS", place))
        for epsilon in epsilons:
            for method in wanted:
                target = folder / f"{name}_{method}_{epsilon:g}.npz"
                capped = target.with_suffix(".capped")
                if not target.exists() and not capped.exists():
                    _run_rival(method, epsilon, source, target, capped)
                if capped.exists():
                    found.append(_capped(name, method, epsilon, int(capped.read_text())))
                else:
                    kept = np.load(target)
                    apart = _distances(codes, kept["codes"], sizes)
                    found.append(_told(name, method, epsilon, [apart], float(kept["seconds"])))
    return found


def _run_rival(method: str, epsilon: float, source: Path, target: Path, capped: Path) -> None:
    """Rows of a rival, or the CPU seconds after which it was ended."""
    most = int(os.environ.get("SHOAL_RIVAL_SECONDS", "900"))
    script = Path(__file__).with_name("_table_rivals.py")
    words = [os.environ["SHOAL_RIVALS"], script, method, epsilon, DELTA, source, target, MODEL_SIZE]
    done = subprocess.run(
        [str(each) for each in words],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)),
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
        check=False,
    )
    if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        capped.write_text(str(most))
    else:
        done.check_returncode()


def _capped(table: str, method: str, epsilon: float, seconds: int) -> dict:
    print(f"{table:<11}{method:<13}{epsilon!s:<5}not ended in {seconds} CPU s")
    return {
        "table": table, "method": method, "epsilon": epsilon, "capped": seconds, "runs": 0, "seconds": float(seconds),
    }  # fmt: skip


def _distances(true: np.ndarray, ours: np.ndarray, sizes: list[int]) -> list[float]:
    """Mean total variation of all tables of one, two and three columns."""
    means = []
    for way in (1, 2, 3):
        found = [
            0.5 * np.abs(_shares(true, key, sizes) - _shares(ours, key, sizes)).sum()
            for key in combinations(range(len(sizes)), way)
        ]
        means.append(float(np.mean(found)))
    return means


def _shares(codes: np.ndarray, key: tuple[int, ...], sizes: list[int]) -> np.ndarray:
    place = np.zeros(len(codes), dtype=np.int64)
    for at in key:
        place = place * sizes[at] + codes[:, at]
    return np.bincount(place, minlength=int(np.prod([sizes[at] for at in key]))) / len(codes)


def _ranges(frame: pl.DataFrame, delta: float | None, runs: int = 5) -> dict:
    """Median relative error of ranges on three columns of Adult at epsilon 1, the median of several runs."""
    columns = {name: Column(name, bounds=ends, step=1) for name, ends in RANGED.items()}
    schema, found = Schema(columns, id="ranges", budget=1.0), []
    start = time.process_time()
    for seed in range(runs):
        out = release_marginals(frame, schema, 1.0, delta=delta)
        found.append(utility(out, frame, seed=seed).ranges)
    seconds = (time.process_time() - start) / runs
    kind = "ranges, pure" if delta is None else "ranges, zCDP"
    print(f"adult, three columns, {kind}: {np.median(found):.4f} ({min(found):.4f} to {max(found):.4f})")
    return {
        "table": "adult",
        "method": kind,
        "epsilon": 1.0,
        "ranges": float(np.median(found)),
        "seconds": seconds,
    }


def _told(table: str, method: str, epsilon: float | None, runs: list[list[float]], seconds: float) -> dict:
    means = np.mean(runs, axis=0)
    least, most = min(each[2] for each in runs), max(each[2] for each in runs)
    said = " / ".join(f"{each:.4f}" for each in means) + (
        f" ({least:.4f} to {most:.4f})" if len(runs) > 1 else ""
    )
    print(
        f"{table:<11}{method:<13}{'' if epsilon is None else epsilon!s:<5}{said}  {seconds:.1f} CPU s",
        flush=True,
    )
    return {
        "table": table, "method": method, "epsilon": epsilon, "one": means[0], "two": means[1], "three": means[2],
        "least": least, "most": most, "runs": len(runs), "seconds": seconds,
    }  # fmt: skip
