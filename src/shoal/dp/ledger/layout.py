"""How a ledger's tables are laid out: a version, and the steps from each version to the next."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from shoal.dp.ledger.entries import ENTRIES, HEAD, METADATA, START
from shoal.errors import LedgerError

LAYOUT = sa.Table(
    "shoal_layout",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
)


def _sealed(connection: sa.Connection) -> None:
    """From 1 to 2: nonces and seals. Entries there are keep their hashes; those to come are sealed."""
    for column in ("nonce", "seal"):
        connection.exec_driver_sql(f"ALTER TABLE {ENTRIES.name} ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")
    LAYOUT.create(connection)
    connection.execute(LAYOUT.insert().values(id=1, version=2))


MIGRATIONS: dict[int, Callable[[sa.Connection], None]] = {1: _sealed}
LATEST = max(MIGRATIONS) + 1


def version_of(connection: sa.Connection) -> int:
    """The version of the tables in a database; 0 where there are none."""
    tables = set(sa.inspect(connection).get_table_names())
    if ENTRIES.name not in tables or HEAD.name not in tables:
        return 0
    if LAYOUT.name not in tables:
        return 1
    return int(connection.execute(sa.select(LAYOUT.c.version)).scalar_one())


def prepare(connection: sa.Connection) -> None:
    """Make the tables, or bring them to the latest version; in one transaction."""
    version = version_of(connection)
    if version == 0:
        METADATA.create_all(connection)
        connection.execute(HEAD.insert().values(id=1, seq=0, hash=START))
        connection.execute(LAYOUT.insert().values(id=1, version=LATEST))
        return
    check(version)
    for step in range(version, LATEST):
        MIGRATIONS[step](connection)
        connection.execute(LAYOUT.update().values(version=step + 1))


def check(version: int) -> None:
    """Refuse a layout that a later Shoal wrote."""
    if version > LATEST:
        raise LedgerError(
            f"The ledger was written by a later version of Shoal: layout {LATEST} at most was expected. Got {version}."
        )
