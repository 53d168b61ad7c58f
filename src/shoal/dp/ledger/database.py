"""Databases of the ledger: SQLite files that only their owner can read, and PostgreSQL."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.errors import LedgerError, MissingExtraError

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "dp") from None

_SQLITE = b"SQLite format 3\0"
# Connections of one process, none of which is closed while others will ask for one a moment later.
KEPT_OPEN = {"pool_size": 15, "max_overflow": 0}


def make_engine(where: str | Path | None) -> sa.Engine:
    """The engine of a file, a database URL, or of memory."""
    if where is None:
        pool = {
            "poolclass": sa.StaticPool,
            "connect_args": {"check_same_thread": False, "isolation_level": None},
        }
        return _immediate(sa.create_engine("sqlite://", **pool))
    text, file = str(where), file_of(where)
    if file is not None:
        own_only(file)
        url = f"sqlite:///{file.absolute()}"
        opened = {"timeout": 60, "isolation_level": None}
        return _immediate(sa.create_engine(url, **KEPT_OPEN, connect_args=opened))
    if text.startswith(("postgresql://", "postgres://")):
        text = "postgresql+psycopg://" + text.split("://", 1)[1]
    try:
        return sa.create_engine(text, **KEPT_OPEN, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise MissingExtraError("psycopg", "dp") from None
    except sa.exc.ArgumentError:
        raise LedgerError(f"A ledger must be a file or a database URL. Got {text!r}.") from None


def file_of(where: str | Path | None) -> Path | None:
    """The SQLite file, where there is one."""
    text = str(where)
    if where is None or ("://" in text and not text.startswith("sqlite:///")):
        return None
    return Path(text.removeprefix("sqlite:///"))


def identity(file: Path | None) -> tuple[int, int] | None:
    """What tells a file from another of its name; None where there is no file."""
    try:
        found = None if file is None else file.stat()
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def own_only(file: Path) -> None:
    """Make a database file that only its owner can read, or take the others' rights away; SQLite's own files follow it."""
    with contextlib.suppress(OSError):  # who cannot is told when the file is opened
        if not file.exists():
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        elif file.is_file() and file.stat().st_mode & 0o077:
            with file.open("rb") as opened:
                ours = opened.read(len(_SQLITE)) in (b"", _SQLITE)
            if ours:  # not a table that was named by mistake
                file.chmod(0o600)


@contextlib.contextmanager
def transaction(connection: sa.Connection, durable: bool) -> Iterator[None]:
    """One transaction; unless it is durable, the disk is not waited for, and the next durable one brings it there.

    Both databases write their logs in order, so that a power cut takes the end of the chain, never a link of it.
    """
    if connection.dialect.name == "sqlite":
        raw: Any = connection.connection.dbapi_connection
        raw.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        with connection.begin():
            yield
    else:
        with connection.begin():
            connection.exec_driver_sql(f"SET LOCAL synchronous_commit = {'on' if durable else 'off'}")
            yield


def reason_of(error: Exception) -> str:
    """The first line of what a database says."""
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0].rstrip(".")


def _immediate(engine: sa.Engine) -> sa.Engine:
    """Take SQLite's write lock when a transaction that writes begins."""

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        raw.execute("BEGIN" if connection.get_execution_options().get("shoal_reads") else "BEGIN IMMEDIATE")

    return engine
