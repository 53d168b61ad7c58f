"""`shoal systems`: the related systems side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(systems)


def systems(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Markdown file to write; printed if left out.")
    ] = None,
    queries: Annotated[int, typer.Option(help="COUNT queries of the common task.")] = 40,
    data: Annotated[
        str | None, typer.Option(help="adult or survey; adult if it is there and nothing is given.")
    ] = None,
) -> None:
    """Compare the related systems, with their errors on one common task.

    Example: shoal systems -o systems.md
    """
    from shoal.errors import ParameterError
    from shoal.io import check_folder, write_text
    from shoal.research import systems_page

    if queries < 2:
        raise ParameterError(f"'queries' must be an int of at least 2. Got {queries}.")
    if output is not None:
        check_folder(output)
    page = systems_page(queries, data=data)
    if output is None:
        typer.echo(page)
    else:
        write_text(page, output)
