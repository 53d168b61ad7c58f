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

from shoal.dp.ledger.entries import ENTRIES, HEAD, START
from shoal.dp.ledger.ledger import Ledger
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


class Cluster:
    """A PostgreSQL of our own in a temporary folder, run by a user who is not root."""

    def __init__(self, user: str | None) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="shoal-pg-"))
        quiet = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "cwd": self._home,
            "timeout": 120,
        }
        self._run = {**quiet, "user": user} if user else quiet
        if user:
            shutil.chown(self._home, user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._do("initdb", "-U", "shoal", "-A", "trust", "-E", "UTF8")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://shoal@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={self._port} -c unix_socket_directories={self._home}"
        )
        self._do("pg_ctl", "-w", "-o", options, "-l", self._home / "log", "start")

    def crash(self) -> None:
        """Stop without a checkpoint, as a power cut would."""
        self._do("pg_ctl", "-m", "immediate", "stop")

    def remove(self) -> None:
        self.crash()
        shutil.rmtree(self._home, ignore_errors=True)

    def _do(self, program: str, *words: object) -> None:
        subprocess.run([BIN / program, "-D", self._home / "db", *words], check=True, **self._run)


@pytest.fixture(scope="session")
def cluster():
    """A private PostgreSQL cluster, or a skip with the reason."""
    pytest.importorskip("psycopg")
    if not (BIN / "initdb").exists():
        pytest.skip(f"PostgreSQL 15 is not installed in {BIN}")
    user = system_user()
    if user is None and os.getuid() == 0:
        pytest.skip("PostgreSQL refuses to run as root, and there is no other user")
    made = Cluster(user)
    yield made
    made.remove()


@pytest.fixture
def postgres(cluster) -> str:
    """URL of a PostgreSQL whose ledger is empty."""
    ledger = Ledger(cluster.url)
    with ledger.store.engine.begin() as connection:
        connection.execute(ENTRIES.delete())
        connection.execute(HEAD.update().values(seq=0, hash=START))
    ledger.close()
    return cluster.url


def system_user() -> str | None:
    """Who may run PostgreSQL in our stead, since it refuses to run as root."""
    names = ("postgres", "nobody") if os.getuid() == 0 else ()
    return next((name for name in names if _known(name)), None)


def _known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
