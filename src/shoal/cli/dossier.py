"""`shoal dossier`: one folder of evidence about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli._console import names, print_json, stages
from shoal.cli._options import AsJson


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(dossier)


def dossier(
    run: Annotated[Path, typer.Argument(help="A run that --save-run wrote.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")],
    original: Annotated[
        Path | None, typer.Option(help="The original table; the path in the run if left out.")
    ] = None,
    protected: Annotated[
        Path | None, typer.Option(help="The published table; the path in the run if left out.")
    ] = None,
    control: Annotated[
        Path | None, typer.Option(help="People who are not in the published table; held out if left out.")
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            help="Results from the original that may be public: attacks, indicators, loss; by commas."
        ),
    ] = None,
    targets: Annotated[int, typer.Option(help="People that the attacks look for.")] = 2_000,
    json: AsJson = False,
) -> None:
    """Write the dossier of a run: reports, attacks, indicators, codebook, statement; one index to print.

    Example: shoal dossier run.json -o dossier
    """
    from shoal import evidence

    with stages() as tell:
        made = evidence.dossier(
            run, output, original=original, protected=protected, control=control, allow=names(allow) or (),
            targets=targets, progress=tell,
        )  # fmt: skip
    if json:
        print_json(made.to_dict())
        return
    why = "; ".join(made.reasons)
    typer.echo(f"status {made.status}" + (f" ({why})" if why else ""))
    typer.echo(f"written: {made.folder / 'index.html'} and {len(made.files) - 1} files beside it")
