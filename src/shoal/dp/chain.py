"""The ledger's chain: replaying it, and moving it between ledgers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.dp.entries import ENTRIES, START, Check, Writer, entry_hash
from shoal.dp.ledger import Ledger
from shoal.errors import LedgerError
from shoal.io import write_text


def replay(entries: Iterable[dict[str, Any]], head: tuple[int, str]) -> Check:
    """Whether every entry follows from the one before it, and the totals from the charges."""
    seq, previous = 0, START
    spent: dict[str, int] = {}
    by_analyst: dict[tuple[str, str], int] = {}
    for entry in entries:
        seq += 1
        dataset, owner = entry["dataset"], (entry["dataset"], entry["analyst"])
        if entry["kind"] == "charge":
            spent[dataset] = spent.get(dataset, 0) + entry["micro"]
        if entry["kind"] in ("charge", "receipt"):
            by_analyst[owner] = by_analyst.get(owner, 0) + entry["micro"]
        totals = (spent.get(dataset, 0), by_analyst.get(owner, 0))
        if entry["seq"] != seq:
            return Check(False, seq - 1, previous, f"entry {seq} is missing")
        if entry["previous"] != previous or entry["hash"] != entry_hash(entry):
            return Check(False, seq - 1, previous, f"entry {seq} was changed")
        if (entry["dataset_total"], entry["analyst_total"]) != totals:
            return Check(False, seq - 1, previous, f"the totals of entry {seq} do not add up")
        previous = entry["hash"]
    if (seq, previous) != tuple(head):
        return Check(False, seq, previous, f"the ledger says it has {head[0]} entries, and {seq} are there")
    return Check(True, seq, previous)


def backup(ledger: Ledger, path: str | Path) -> Check:
    """Write all entries as JSON lines, after checking them; the last line says how many there are."""
    entries = list(ledger.entries())
    check = replay(entries, (len(entries), entries[-1]["hash"] if entries else START))
    if not check.holds:
        raise LedgerError(f"The ledger's chain is broken: {check.problem}.")
    lines = [*entries, {"entries": check.entries, "head": check.head}]
    write_text("".join(json.dumps(line) + "\n" for line in lines), path)
    return check


def read_backup(path: str | Path) -> tuple[list[dict[str, Any]], Check]:
    """The entries of a backup, its chain checked."""
    try:
        lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        *entries, last = lines
        check = replay(entries, (last["entries"], last["head"]))
    except FileNotFoundError:
        raise LedgerError(f"No backup file {str(path)!r}.") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise LedgerError(f"{str(path)!r} is not a whole ledger backup.") from None
    if not check.holds:
        raise LedgerError(f"The backup's chain is broken: {check.problem}.")
    return entries, check


def restore(ledger: Ledger, path: str | Path) -> Check:
    """Fill an empty ledger from a backup; charges made after the backup are not in it."""
    entries, check = read_backup(path)

    def write(writer: Writer) -> None:
        if ledger_size(writer.connection):
            raise LedgerError("A backup is restored into an empty ledger only; this one has entries.")
        writer.restore(entries)

    ledger._write(write)
    return check


def ledger_size(connection: sa.Connection) -> int:
    """Number of entries in a ledger."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(ENTRIES)).scalar_one())
