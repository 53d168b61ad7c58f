"""All commands, and how a mistake in one becomes a sentence and an exit code."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

from shoal import __version__
from shoal.cli import EXIT_CODE, _interrupt, _output, interrupted
from shoal.errors import ImportFailedError, InternalError, ShoalError
from shoal.typing import Keywords

# typer brings its own copy of click or uses the installed one: its errors are found from what it exports.
_CommandError: type[Exception] = next(
    each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException"
)

COMMANDS = (
    "demo",
    "protect",
    "compare",
    "check",
    "attack",
    "dossier",
    "bound",
    "schema",
    "ask",
    "workload",
    "stream",
    "release",
    "release_graph",
    "systems",
    "ledger",
    "serve",
    "audit",
    "reproduce",
    "datasets",
)

_SETTINGS: Keywords = {
    "name": "shoal",
    "help": "Protects people in data: publish tables in groups of at least k, answer queries with a budget.",
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(**_SETTINGS)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"shoal {__version__}")
        raise typer.Exit


for _name in COMMANDS:
    import_module(f"shoal.cli.{_name}").register(app)


def _asked(words: list[str]) -> typer.Typer:
    """The command that is asked for by name alone, as building all of them takes a quarter of a second."""
    word = words[0] if words else ""
    alone = typer.Typer(**_SETTINGS)
    alone.registered_callback = app.registered_callback
    alone.registered_commands = [each for each in app.registered_commands if _named(each) == word]
    alone.registered_groups = [each for each in app.registered_groups if each.name == word]
    return alone if alone.registered_commands or alone.registered_groups else app


def _named(command: typer.models.CommandInfo) -> str:
    """What a command is called, as typer calls it."""
    return command.name or str(getattr(command.callback, "__name__", "")).lower().replace("_", "-")


def run() -> None:
    """Run the command; mistakes become one sentence on the error stream and an exit code."""
    try:
        _interrupt.install()
        _output.install()
        code = _asked(sys.argv[1:])(standalone_mode=False, prog_name="shoal")
        if code == EXIT_CODE:  # typer tells of Ctrl-C by the code alone
            raise KeyboardInterrupt
    except ShoalError as error:
        code = _fail(str(error), error.exit_code)
    except _CommandError as error:
        code = _fail(" ".join(error.format_message().split()), 2)  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        code = _fail(interrupted(), EXIT_CODE)
    except OSError as error:
        named = "" if error.filename is None else f"{str(error.filename)!r}: "
        code = _fail(f"{named}{error.strerror or error}.", 2)
    except ImportError as error:
        code = _fail(str(ImportFailedError(error.name or "needed here", error)), 2)
    except (MemoryError, InternalError) as error:
        code = _fail(f"{type(error).__name__}: {error or 'the table does not fit in memory'}", 2)
    exec("")  # noqa: S102 (Python forgets a Ctrl-C that it heard inside an exec, or would end by the signal, not this code)
    raise SystemExit(code or 0)


def _fail(message: str, code: int) -> int:
    typer.echo(f"shoal: {message}", err=True)
    return code
