"""`shoal schema`: a first schema of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shoal.schema import FileFormat


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(schema)


def schema(
    file: Annotated[str, typer.Argument(help="The table, or a DDI codebook (.xml).")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the schema; printed if left out.")
    ] = None,
    codebook: Annotated[
        Path | None, typer.Option(help="Also write a DDI codebook (.xml), with the file's labels.")
    ] = None,
) -> None:
    """Guess a first schema, with reasons. Someone who knows the table must check its roles and kinds.

    The schema also states the encoding, separator and decimal mark of a text file, so it is always read in the same way.

    From a DDI codebook it makes the schema that the codebook documents, without roles.

    Example: shoal schema survey.csv -o survey.toml
    """
    from dataclasses import replace

    from shoal import io
    from shoal.engine.guess import guess_schema
    from shoal.schema import read_codebook, write_codebook

    io.check_apart({"--output": output, "--codebook": codebook}, [file])
    for path in (output, codebook):
        if path is not None:
            io.check_folder(path)
    if Path(file).suffix.lower() == ".xml":
        found, labels = read_codebook(file), {}
        text = "# From a codebook: give every column its role.\n" + found.to_toml()
    else:
        source = io.read_source(file)
        name = Path(file).stem if file != "-" else "table"
        found, labels = (
            replace(guess_schema(source.frame, source.labelled()), id=name, file=source.file),
            source.labels,
        )
        text = (
            "# Guessed: check every role and kind. Bounds and levels are left open on purpose; for private answers\n"
            "# they must come from the codebook, not from the table.\n" + found.to_toml()
        )
        for note in (*source.notes, *_over_lines(file, found.file)):
            typer.echo(f"note: {note}", err=True)
    if codebook is not None:
        write_codebook(found, codebook, labels)
        typer.echo(f"written: {codebook}", err=output is None)
    if output is None:
        typer.echo(text, nl=False)
        return
    io.write_text(text, output)
    typer.echo(f"written: {output}")


def _over_lines(file: str, marks: FileFormat | None) -> list[str]:
    """What the owner must know before private answers are given about a file with ends of lines inside its cells."""
    from shoal import io

    many = 0 if marks is None or file == "-" else io.records_over_lines(Path(file).read_bytes(), marks)
    if not many:
        return []
    return [
        f"{many} {'record has an end of line' if many == 1 else 'records have ends of lines'} inside quotes. Private answers "
        "read each line as a row: take them out first, or give a Parquet file."
    ]
