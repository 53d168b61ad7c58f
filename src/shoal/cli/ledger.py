"""`shoal ledger`: check, save and bring back what was charged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli._console import print_json

if TYPE_CHECKING:
    from shoal.dp.ledger.chain import Check
    from shoal.dp.ledger.ledger import Ledger

_Where = Annotated[str, typer.Argument(help="Ledger file or database URL.")]
_Expects = Annotated[
    str | None,
    typer.Option(
        help="A head kept elsewhere, which the chain must hold: its hash, its signed line, or a file whose last line is one."
    ),
]
_PublicKey = Annotated[
    Path | None, typer.Option(help="File of the public key that must have signed the head.")
]
_By = Annotated[str, typer.Option(help="Who says so, for the record.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(
        help="Check, save and bring back the ledger of privacy charges.", no_args_is_help=True
    )
    group.command()(verify)
    group.command()(backup)
    group.command()(restore)
    group.command()(cap)
    group.command()(rekey)
    group.command()(show)
    group.command()(sign)
    app.add_typer(group, name="ledger")


def verify(
    ledger: _Where,
    expects: _Expects = None,
    public_key: _PublicKey = None,
    as_json: _Json = False,
) -> None:
    """Check the chain: hashes, order, totals and caps. Keep the printed head elsewhere: it shows whether the end was cut off.

    Example: shoal ledger verify survey.ledger.db --expects 3f1a...
    """
    kept = _kept(expects, public_key)
    opened = _open(ledger)
    try:
        check = opened.verify(kept)
    finally:
        opened.close()
    _show(check, as_json)
    if not check.holds:
        raise typer.Exit(1)


def backup(
    ledger: _Where, path: Annotated[Path, typer.Argument(help="File to write.")], as_json: _Json = False
) -> None:
    """Write all entries to a file of JSON lines."""
    from shoal.dp.ledger import backup as saved
    from shoal.io import check_apart

    beside = ("", "-wal", "-shm", ".secret", ".signing-key", ".signing-key.pub", ".streams")
    check_apart({"the backup": path}, [ledger + each for each in beside])
    opened = _open(ledger)
    try:
        _show(saved.backup(opened, path), as_json)
    finally:
        opened.close()


def restore(
    ledger: _Where,
    path: Annotated[Path, typer.Argument(help="File to read.")],
    expects: _Expects = None,
    public_key: _PublicKey = None,
    by: _By = "owner",
    as_json: _Json = False,
) -> None:
    """Fill an empty ledger from a backup. Charges made after the backup are missing, and an entry of the log says so.

    Example: shoal ledger restore ledger.db ledger-2026-11-16.jsonl --expects heads.txt
    """
    from shoal.dp.ledger import backup as saved
    from shoal.dp.ledger.ledger import Ledger

    kept = _kept(expects, public_key)
    saved.read_backup(path, kept)  # before a new ledger is made for it
    opened = Ledger(ledger)
    try:
        _show(saved.restore(opened, path, kept, by), as_json)
    finally:
        opened.close()
    if not as_json:
        typer.echo(
            "Charges made after this backup are not in it: their budget can be spent again unless caps are lowered."
        )


def cap(
    ledger: _Where,
    dataset: Annotated[str, typer.Argument(help="The data set's id.")],
    budget: Annotated[
        float, typer.Option(help="Total from now on: epsilon, or rho of a data set counted in zCDP.")
    ],
    per_analyst: Annotated[
        float | None, typer.Option(help="Of each analyst; the whole budget if left out.")
    ] = None,
    keys: Annotated[
        float | None,
        typer.Option(help="Part of delta for groups that are not declared; as it was if left out."),
    ] = None,
    by: _By = "owner",
) -> None:
    """Set the caps of a data set: the owner's entry, and the only way to raise them.

    Example: shoal ledger cap survey.ledger.db survey --budget 3
    """
    from shoal.dp.budget import epsilon, micro
    from shoal.dp.ledger.claims import CURRENCIES, delta_parts

    opened = _open(ledger)
    try:
        own = None if per_analyst is None else micro(per_analyst, "per_analyst")
        reserved = None if keys is None else delta_parts(keys)
        caps = opened.set_caps(dataset, micro(budget, "budget"), own, by, reserved)
    finally:
        opened.close()
    word = "" if caps.currency == "pure" else f"{CURRENCIES[caps.currency]} "
    typer.echo(f"{dataset}: budget {word}{epsilon(caps.total)}, per analyst {epsilon(caps.per_analyst)}")


def rekey(
    ledger: _Where,
    secret: Annotated[
        Path | None, typer.Option(help="File of the secret; beside a ledger file if left out.")
    ] = None,
) -> None:
    """Make another secret if the old one is lost. Charges stay; stored answers must be paid for again.

    Example: shoal ledger rekey survey.ledger.db
    """
    from shoal.errors import ParameterError

    if secret is None and "://" in ledger:
        raise ParameterError("'--secret' must name the file of the secret of a ledger in a database.")
    opened = _open(ledger, secret)
    try:
        opened.rekey()
    finally:
        opened.close()
    typer.echo("a new secret was made")


def show(
    ledger: _Where,
    entry: Annotated[str, typer.Argument(help="What an answer carries as its entry, or an entry's number.")],
    as_json: _Json = False,
) -> None:
    """Show the charge behind an answer: who asked what and when, what it cost, and the numbers that were released.

    Example: shoal ledger show survey.ledger.db 3f1a09c2d4e5b687
    """
    from shoal.dp.budget import epsilon
    from shoal.dp.past import find
    from shoal.errors import LedgerError

    opened = _open(ledger)
    try:
        charge, released = find(opened, entry)
        check = opened.verify()
    finally:
        opened.close()
    if not check.holds:
        raise LedgerError(f"The chain does not hold: {check.problem}.")
    facts = {
        "entry": charge.name,
        "seq": charge.seq,
        "at": charge.at,
        "kind": charge.kind,
        "dataset": charge.dataset,
        "analyst": charge.analyst,
        "question": charge.body,
        "epsilon": epsilon(charge.micro),
        "unit": charge.unit,
        "released": released,
        "hash": charge.hash,
    }
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        typer.echo(f"{name + ':':<10}{'-' if value is None else value}")
    typer.echo("The chain of the whole ledger holds.")


def sign(
    ledger: _Where,
    key: Annotated[
        Path | None, typer.Option(help="File of the signing key; beside a ledger file if left out.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to which the line is added; printed if left out."),
    ] = None,
) -> None:
    """Sign the ledger's head with Ed25519. Keep this line elsewhere; `verify --expects` compares it.

    Example: shoal ledger sign survey.ledger.db -o heads.txt
    """
    from shoal.dp.ledger.signing import SigningKey, key_beside
    from shoal.errors import ParameterError

    path = key or key_beside(ledger)
    if path is None:
        raise ParameterError("'--key' must name the file of the signing key of a ledger in a database.")
    opened = _open(ledger)
    try:
        opened.ready()  # a broken chain is not signed
        line = SigningKey(path).sign(opened.head()).line
    finally:
        opened.close()
    if output is None:
        typer.echo(line)
        return
    with output.open("a", encoding="ascii") as file:
        file.write(line + "\n")


def _kept(expects: str | None, public_key: Path | None) -> str | None:
    """The hash of the head that is expected, once its signature holds."""
    from shoal.errors import ParameterError

    if expects is None:
        if public_key is not None:
            raise ParameterError("'--public-key' is for a signed head: give it with '--expects'.")
        return None
    words = _last_line(Path(expects)).split() if Path(expects).is_file() else expects.split()
    if len(words) < 2:
        if public_key is not None:
            raise ParameterError("'--public-key' is for a signed head. Got a hash alone.")
        if not re.fullmatch("[0-9a-f]{64}", "".join(words).lower()):
            raise ParameterError(
                f"'--expects' must be a head's hash, its signed line, or a file whose last line is one. Got {expects!r}."
            )
        return words[0].lower()
    if len(words) == 3:  # a line of an anchor that signs nothing
        return words[1]
    from shoal.dp.ledger.signing import kept_head, public_key_in

    return kept_head(" ".join(words), None if public_key is None else public_key_in(public_key))


def _last_line(file: Path) -> str:
    lines = file.read_text(encoding="ascii", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")


def _open(where: str, secret: Path | None = None) -> Ledger:
    from shoal.dp.ledger.ledger import Ledger
    from shoal.errors import InputError, LedgerError

    if "://" not in where:
        if not Path(where).is_file():
            raise InputError(f"No ledger file {where!r}.")
        if not Path(where).stat().st_size:
            raise LedgerError(f"The ledger file {where!r} is empty.")
    return Ledger(where, secret=secret)


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
