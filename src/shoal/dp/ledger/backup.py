"""Ledgers saved to a file of JSON lines, and brought back."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from shoal.dp.ledger.chain import NOT_MET, Check, replay
from shoal.dp.ledger.entries import ENTRIES, START, Entry, Head
from shoal.dp.ledger.writer import Writer
from shoal.errors import LedgerError
from shoal.io import atomic, check_folder

if TYPE_CHECKING:
    from shoal.dp.ledger.ledger import Ledger

RESTORED = "restored"


def backup(ledger: Ledger, path: str | Path) -> Check:
    """Write all entries, after checking them, for the owner's eyes only; the last line says how many there are.

    The ledger's secret is no part of it.
    """
    entries = list(ledger.entries())
    check = replay(entries, Head(len(entries), entries[-1].hash if entries else START))
    if not check.holds:
        raise LedgerError(f"The ledger's chain is broken: {check.problem}.")
    lines = [*(asdict(each) for each in entries), {"entries": check.entries, "head": check.head}]
    check_folder(path)
    with atomic(path, 0o600) as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return check


def read_backup(path: str | Path, expects: str | None = None) -> tuple[list[Entry], Check]:
    """The entries of a backup, its chain checked, and that it holds the head expected."""
    try:
        lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        *rest, last = lines
        entries = [Entry(**each) for each in rest]
        check = replay(entries, Head(int(last["entries"]), str(last["head"])), expects)
    except FileNotFoundError:
        raise LedgerError(f"No backup file {str(path)!r}.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LedgerError(f"{str(path)!r} is not a whole ledger backup.") from None
    if not check.holds:
        if check.problem == NOT_MET:
            raise LedgerError(
                "The backup is older than the head expected, or of another ledger: charges made since are not in it."
            )
        raise LedgerError(f"The backup's chain is broken: {check.problem}.")
    return entries, check


def restore(ledger: Ledger, path: str | Path, expects: str | None = None, by: str = "owner") -> Check:
    """Fill an empty ledger from a backup; charges made after the backup are not in it, and an entry says so.

    Parameters
    ----------
    ledger : Ledger
    path : str or Path
    expects : str, optional
        A head kept elsewhere; a backup that does not hold it is refused.
    by : str
        Who says so, for the record.

    Returns
    -------
    Check
        Of the backup.
    """
    entries, check = read_backup(path, expects)

    def write(writer: Writer) -> None:
        if ledger_size(writer.connection):
            raise LedgerError("A backup is restored into an empty ledger only; this one has entries.")
        writer.restore(entries)
        writer.note(
            RESTORED, by, f"a backup of {check.entries} entries; charges made after it are not here", ""
        )

    ledger.store.write(write)
    return check


def ledger_size(connection: sa.Connection) -> int:
    """Number of entries in a ledger."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(ENTRIES)).scalar_one())
