"""What the commands share in talking: progress on a terminal, JSON on request, lists of names."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from shoal.typing import Json


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A line that tells what is being done; silent where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    from shoal.engine.compile import tell_compiling

    status = Console(stderr=True).status("starting")
    with status, tell_compiling(lambda: status.update("compiling, once after the installation: about 20 s")):
        yield status.update


@contextmanager
def stages() -> Iterator[Callable[[str, float, float], None]]:
    """A line that tells the stage of a run and the share of it that is done; silent where nobody watches."""
    with progress() as say:

        def tell(stage: str, done: float, of: float) -> None:
            say(f"{stage}, {100 * min(done / of, 1.0):.0f} %" if of > 0 and done >= 0 else stage)

        yield tell


def print_json(facts: Json, err: bool = False) -> None:
    """One object on the output stream, or on that of errors."""
    typer.echo(json.dumps(facts, default=_plain, allow_nan=False), err=err)


def names(text: str | None) -> list[str] | None:
    """Names separated by commas, one that holds a comma in double quotes; at least one, where any were given."""
    if text is None:
        return None
    from shoal.publish.fields import split

    return list(split(text))


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return (
        value.item() if hasattr(value, "item") else value.tolist() if hasattr(value, "tolist") else str(value)
    )


def show_release(facts: Json, as_json: bool) -> None:
    """Print what is known of a release: its guarantee first, its notes last."""
    if as_json:
        print_json(facts)
        return
    typer.echo(facts["stamp"])
    for name, value in facts.items():
        if name not in ("stamp", "notes") and value is not None:
            shown = _shown(value)
            typer.echo(f"{name.replace('_', ' ')}: {shown}")
    for note in facts["notes"]:
        typer.echo(f"note: {note}")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(each) for each in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
