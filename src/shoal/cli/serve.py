"""`shoal serve` and `shoal users`: the server, and who may use it."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import leave

if TYPE_CHECKING:
    from shoal.server.accounts import Accounts

_Config = Annotated[Path, typer.Argument(help="The server's configuration.")]
_DEMO = """[server]
ledger = "ledger.db"
accounts = "accounts.db"

[datasets.survey]
file = "survey.csv"
schema = "survey.toml"
modes = ["dp", "group", "correlated", "heuristic"]
about = "Household survey, synthetic, bundled with Shoal"
"""


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(serve)
    app.command()(mcp)
    group = typer.Typer(help="Add, list and revoke the accounts of a server.", no_args_is_help=True)
    group.command("add")(add)
    group.command("list")(list_users)
    group.command("revoke")(revoke)
    app.add_typer(group, name="users")


def serve(
    config: Annotated[Path | None, typer.Argument(help="The server's configuration (shoal.toml).")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on, instead of the one in the file.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on, instead of the one in the file.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer.")] = 1,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy on this machine adds TLS; trust its headers.")
    ] = False,
    expects: Annotated[
        str | None, typer.Option(help="A head of the ledger kept elsewhere, which it must hold.")
    ] = None,
    demo: Annotated[
        Path | None, typer.Option(help="Serve the bundled survey from this folder; prints one-time tokens.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only look: configuration, certificate, port, ledger, every file and column."
        ),
    ] = False,
) -> None:
    """Answer queries over HTTP, with web pages, an API and a lasting ledger.

    Example: shoal serve shoal.toml
    """
    from shoal.errors import ParameterError
    from shoal.server.config import Config

    if (config is None) == (demo is None):
        raise ParameterError("Give either a configuration file or --demo FOLDER.")
    path = config if demo is None else _make_demo(demo)
    assert path is not None  # one of them was given
    settings = Config.from_toml(path)
    settings = settings.changed(host=host, port=port)
    settings.check_address(behind_proxy=behind_proxy)
    from shoal.server.check import check_port, check_tls, look_through

    if check:
        for sentence in look_through(settings):
            typer.echo(sentence)
        typer.echo(f"{path}: all is well, data sets: {', '.join(settings.datasets) or 'none'}")
        return
    check_tls(settings)
    check_port(settings)  # before the tokens of an earlier demo are revoked
    scheme = "https" if settings.tls else "http"
    typer.echo(f"serving {scheme}://{settings.host}:{settings.port}/")
    if demo is not None:
        _print_tokens(settings.accounts)
    from shoal.server.run import run

    # Workers that cannot use the ledger would be started again and again: a broken chain or a lost secret ends here.
    ledger = settings.open_ledger(expects)
    ledger.ready()
    ledger.close()
    run(path, settings, workers=workers, behind_proxy=behind_proxy)


def mcp(
    config: _Config,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP instead of standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on, with --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on, with --http.")] = 8472,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy on this machine adds TLS.")
    ] = False,
) -> None:
    """Let a software agent ask over the model context protocol, with its own account and a small cap.

    The token of an account with the role agent is taken from the environment, SHOAL_TOKEN; with --http each request
    brings its own.

    Example: SHOAL_TOKEN=shoal-... shoal mcp shoal.toml
    """
    import os

    from shoal.errors import ParameterError
    from shoal.server.agents import run_http, run_stdio
    from shoal.server.check import check_port, check_tls
    from shoal.server.config import Config

    settings = Config.from_toml(config)
    if http:
        listening = settings.changed(host=host, port=port)
        listening.check_address(behind_proxy=behind_proxy)
        check_tls(listening)
        check_port(listening)
        typer.echo(f"serving agents on {host}:{port}/mcp", err=True)
        run_http(listening, host, port)
        return
    token = os.environ.get("SHOAL_TOKEN", "")
    if not token:
        raise ParameterError("'SHOAL_TOKEN' must hold the token of an account with the role agent. Got none.")
    try:
        run_stdio(settings, token)
    except KeyboardInterrupt:
        leave()  # a thread still waits for a line of standard input, and the process would wait for it


def add(
    config: _Config,
    name: Annotated[str, typer.Argument(help="Who; the ledger charges this name.")],
    role: Annotated[str, typer.Option(help="owner, analyst, auditor or agent.")] = "analyst",
    days: Annotated[float, typer.Option(help="How long the token is good.")] = 90,
) -> None:
    """Make an account and print its token, which is shown only once.

    Example: shoal users add shoal.toml ann --role analyst
    """
    with _noted(config) as (book, note):
        token = book.add(name, role, days)
        note("account added", f"{name}, {role}, {days:g} days")
    typer.echo(token)


def list_users(config: _Config) -> None:
    """List the accounts.

    Example: shoal users list shoal.toml
    """
    book = _book(config)
    for each in book.list():
        until = datetime.datetime.fromtimestamp(each.expires, datetime.UTC).date()
        state = "revoked" if each.revoked else f"until {until}" if each.active else f"expired {until}"
        typer.echo(f"{each.name}\t{each.role}\t{state}")
    book.close()


def revoke(
    config: _Config, name: Annotated[str, typer.Argument(help="Name of the account to close.")]
) -> None:
    """Close an account at once; what it spent stays in the ledger.

    Example: shoal users revoke shoal.toml ann
    """
    with _noted(config) as (book, note):
        book.revoke(name)
        note("account revoked", name)
    typer.echo(f"revoked: {name}")


def _book(config: Path) -> Accounts:
    from shoal.server.accounts import Accounts
    from shoal.server.config import Config

    return Accounts(Config.from_toml(config).accounts)


@contextlib.contextmanager
def _noted(config: Path) -> Iterator[tuple[Accounts, Callable[[str, str], None]]]:
    """The accounts, and a way to put what is done to them in the ledger's log, which is opened first."""
    from shoal.server.accounts import Accounts
    from shoal.server.config import Config

    settings = Config.from_toml(config)
    with settings.open_ledger() as ledger:
        ledger.ready()
        book = Accounts(settings.accounts)
        try:
            yield book, lambda event, text: ledger.note(event, "command line", text)
        finally:
            book.close()


def _make_demo(folder: Path) -> Path:
    from shoal.datasets import DATASETS
    from shoal.io import copy_files, write_text

    source = DATASETS["survey"].path
    assert source is not None  # bundled
    # What is there from an earlier run, and may have been changed, is kept.
    files = [file for file in (source, source.with_suffix(".toml")) if not (folder / file.name).exists()]
    copy_files(files, folder)
    path = folder / "shoal.toml"
    if not path.exists():
        write_text(_DEMO, path)
    return path


def _print_tokens(accounts: str) -> None:
    from shoal.server.accounts import Accounts

    book = Accounts(accounts)
    names = {each.name for each in book.list() if each.active}
    for role in ("owner", "analyst", "auditor"):
        name = f"demo-{role}"
        if name in names:
            book.revoke(name, last_owner=True)
        typer.echo(f"{role + ':':<9}{book.add(name, role, days=1)}")
    book.close()
    typer.echo("Sign in with one of these tokens; they are good for a day and shown this once.")
