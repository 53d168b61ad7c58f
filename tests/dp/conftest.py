"""What the tests of private answers share: a small survey, its schema, and a PostgreSQL of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from shoal.schema import Cells, Column, Schema, Unit

BIN = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="session")
def schema() -> Schema:
    return Schema(
        {
            "age": Column("age", bounds=(0, 110), step=1),
            "income": Column("income", bounds=(-1000, 200_000)),
            "region": Column("region", kind="category", levels=("north", "south", "east")),
            "school": Column("school", kind="ordered", levels=("none", "basic", "high")),
            "smoker": Column("smoker", kind="boolean"),
            "born": Column("born", kind="date", bounds=("1900-01-01", "2020-12-31")),
            "house": Column("house", kind="category"),
        },
        id="survey",
        cells=Cells(("age", "income"), (22, 20), 8),
    )


@pytest.fixture(scope="session")
def survey() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    n = 2000
    days = rng.integers(-20_000, 10_000, n)
    return pl.DataFrame(
        {
            "age": rng.integers(0, 100, n),
            "income": rng.lognormal(10, 0.8, n).round(2),
            "region": rng.choice(["north", "south", "east", "mars"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "school": rng.choice(["none", "basic", "high"], n),
            "smoker": rng.random(n) < 0.3,
            "born": pl.Series(days.tolist(), dtype=pl.Int32).cast(pl.Date),
            "house": rng.integers(0, 700, n),
        }
    )


@pytest.fixture(scope="session")
def household() -> Unit:
    return Unit("house", 4)


@pytest.fixture(scope="session")
def postgres():
    """URL of a private PostgreSQL cluster, or a skip with the reason."""
    pytest.importorskip("psycopg")
    if not (BIN / "initdb").exists():
        pytest.skip(f"PostgreSQL 15 is not installed in {BIN}")
    user = None
    if os.getuid() == 0:
        user = next((name for name in ("postgres", "nobody") if _known(name)), None)
        if user is None:
            pytest.skip("PostgreSQL refuses to run as root, and there is no other user")
    home = Path(tempfile.mkdtemp(prefix="shoal-pg-"))
    if user:
        shutil.chown(home, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": home,
        "timeout": 120,
    }
    if user:
        run["user"] = user
    subprocess.run(
        [BIN / "initdb", "-D", home / "db", "-U", "shoal", "-A", "trust", "-E", "UTF8"], check=True, **run
    )
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={home}"
    start = [BIN / "pg_ctl", "-D", home / "db", "-w", "-o", options, "-l", home / "log", "start"]
    subprocess.run(start, check=True, **run)
    try:
        yield f"postgresql://shoal@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([BIN / "pg_ctl", "-D", home / "db", "-m", "immediate", "stop"], check=True, **run)
        shutil.rmtree(home, ignore_errors=True)


def _known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
