"""`shoal ledger`: check, save and bring back what was charged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli._console import print_json

if TYPE_CHECKING:
    from shoal.dp.entries import Check
    from shoal.dp.ledger import Ledger

_Where = Annotated[str, typer.Argument(help="Ledger file or database URL.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(
        help="Check, save and bring back the ledger of privacy charges.", no_args_is_help=True
    )
    group.command()(verify)
    group.command()(backup)
    group.command()(restore)
    app.add_typer(group, name="ledger")


def verify(ledger: _Where, as_json: _Json = False) -> None:
    """Replay the chain: hashes, order and totals. Keep the printed head elsewhere to notice a cut tail."""
    opened = _open(ledger)
    check = opened.verify()
    opened.close()
    _show(check, as_json)
    if not check.holds:
        raise typer.Exit(1)


def backup(
    ledger: _Where, path: Annotated[Path, typer.Argument(help="File to write.")], as_json: _Json = False
) -> None:
    """Write all entries to a file of JSON lines."""
    from shoal.dp import chain
    from shoal.io import check_apart

    check_apart({"the backup": path}, [ledger])
    opened = _open(ledger)
    try:
        _show(chain.backup(opened, path), as_json)
    finally:
        opened.close()


def restore(
    ledger: _Where, path: Annotated[Path, typer.Argument(help="File to read.")], as_json: _Json = False
) -> None:
    """Fill an empty ledger from a backup. Charges made after the backup are not in it."""
    from shoal.dp import chain
    from shoal.dp.ledger import Ledger

    chain.read_backup(path)  # before a new ledger is made for it
    opened = Ledger(ledger)
    try:
        _show(chain.restore(opened, path), as_json)
    finally:
        opened.close()


def _open(where: str) -> Ledger:
    from shoal.dp.ledger import Ledger
    from shoal.errors import InputError, LedgerError

    if "://" not in where:
        if not Path(where).is_file():
            raise InputError(f"No ledger file {where!r}.")
        if not Path(where).stat().st_size:
            raise LedgerError(f"The ledger file {where!r} is empty.")
    return Ledger(where)


def _show(check: Check, as_json: bool) -> None:
    facts = {
        "holds": check.holds,
        "entries": check.entries,
        "head": check.head,
        "problem": check.problem or None,
    }
    if as_json:
        print_json(facts)
    elif check.holds:
        typer.echo(f"{check.entries} entries, the chain holds, head {check.head}")
    else:
        typer.echo(f"The chain does not hold: {check.problem}.")
