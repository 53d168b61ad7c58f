"""`shoal datasets`: the tables at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli._console import print_json
from shoal.cli._options import AsJson


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(datasets)


def datasets(
    copy: Annotated[
        Path | None, typer.Option(help="Copy the bundled tables and their schema to this folder.")
    ] = None,
    json: AsJson = False,
) -> None:
    """List the bundled and benchmark tables, and where they are.

    Example: shoal datasets --copy .
    """
    from shoal.datasets import DATASETS, copy_bundled

    if copy is not None:
        copied = copy_bundled(copy)
        if json:
            print_json({"copied": [str(path) for path in copied]})
            return
        for path in copied:
            typer.echo(path)
        return
    rows = [
        {
            "name": each.name,
            "rows": each.shape[0],
            "columns": each.shape[1],
            "about": each.about,
            "path": None if each.path is None else str(each.path),
            "source": each.source,
        }
        for each in DATASETS.values()
    ]
    if json:
        print_json({"datasets": rows})
        return
    for row in rows:
        where = row["path"] or f"not found; get it from: {row['source']}"
        typer.echo(
            f"{row['name']:<13} {row['rows']:>6} x {row['columns']:<4} {row['about']}\n{'':<13} {where}"
        )
