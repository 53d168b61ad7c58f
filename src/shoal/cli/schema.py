"""`shoal schema`: a first schema of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(schema)


def schema(
    file: Annotated[str, typer.Argument(help="The table.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the schema goes; else it is printed.")
    ] = None,
) -> None:
    """Guess a first schema, with reasons: roles and kinds to be checked by someone who knows the table.

    The encoding, separator and decimal mark of a text file are written down too, so that it is read the same way ever after.

    Example: shoal schema survey.csv -o survey.toml
    """
    from dataclasses import replace

    from shoal import io
    from shoal.engine.guess import guess_schema

    if output is not None:
        io.check_apart({"--output": output}, [file])
        io.check_folder(output)
    source = io.read_source(file)
    name = Path(file).stem if file != "-" else "table"
    guessed = replace(guess_schema(source.frame, source.labelled()), id=name, file=source.file)
    text = (
        "# Guessed: check every role and kind. Bounds and levels are left open on purpose; for private answers\n"
        "# they must come from the codebook, not from the table.\n" + guessed.to_toml()
    )
    for note in source.notes:
        typer.echo(f"note: {note}", err=True)
    if output is None:
        typer.echo(text, nl=False)
        return
    io.write_text(text, output)
    typer.echo(f"written: {output}")
