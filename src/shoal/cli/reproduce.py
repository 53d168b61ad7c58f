"""`shoal reproduce`: the papers' tables, published beside ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli._console import print_json, progress
from shoal.cli._options import AsJson


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(reproduce)


def reproduce(
    experiment: Annotated[
        str, typer.Argument(help="table1, table2, brkga-parameters, split, derivative-free or correlated.")
    ],
    full: Annotated[bool, typer.Option("--full", help="As the paper did it: takes much longer.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the benchmark tables.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the table to this Markdown file.")] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the table, and its pictures if there are any, to this HTML file."),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(help="Of split and correlated: write the pictures as SVG files to this folder."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="A file that cells are written to as they are measured: a stopped run goes on from it."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Run the experiment of a paper again: published value, our value, difference, seconds, and whether sizes are kept.

    Example: shoal reproduce split
    """
    if data is not None:
        os.environ["SHOAL_DATA"] = str(data)
    from shoal import io
    from shoal.errors import ParameterError
    from shoal.research import reproduce as run

    io.check_apart({"--markdown": markdown, "--report": report, "--pictures": pictures, "--resume": resume})
    if pictures is not None and experiment not in ("split", "correlated"):
        raise ParameterError(f"Only the experiments split and correlated have pictures. Got {experiment!r}.")
    for path in (markdown, report, resume, None if pictures is None or pictures.is_dir() else pictures):
        if path is not None:
            io.check_folder(path)
    with progress() as say:
        result = run(experiment, full=full, progress=say, resume=resume)
    for path, text in ((markdown, result.to_markdown), (report, result.to_html)):
        if path is not None:
            io.write_text(text(), path)
    if pictures is not None:
        _draw(result, pictures)
    if json:
        print_json(result.to_dict())
        return
    header, cells = result.header(), result.cells()
    widths = [max(len(row[column]) for row in [header, *cells]) for column in range(len(header))]
    typer.echo(result.title)
    for row in [header, *cells]:
        typer.echo(
            "  ".join(
                cell.ljust(width) if at < 2 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )
    for note in result.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{len(cells)} cells in {result.seconds:.0f} s")
    for claim in result.claims:
        typer.echo(f"claim: {claim.claim}, {claim.data}: {'yes' if claim.holds else 'no'}, {claim.found}")


def _draw(result: Any, folder: Path) -> None:
    from shoal.io import write_text
    from shoal.report.standalone import standalone

    folder.mkdir(exist_ok=True)
    for name, picture in result.pictures().items():
        write_text(standalone(picture), folder / f"{name}.svg")
