"""`shoal demo`: the bundled survey protected, with everything needed to do it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli._console import stages
from shoal.cli._options import AsJson


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(demo)


def demo(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the survey, the protected file and the reports."),
    ] = Path("demo-output"),
    k: Annotated[int, typer.Option("-k", "--k", help="Smallest group.")] = 5,
    json: AsJson = False,
) -> None:
    """Protect the bundled household survey and write the result and its report.

    It first copies the survey and its schema to the folder. The last line it prints is a command that repeats the run.

    Example: shoal demo -o demo-output
    """
    from shoal import io
    from shoal.cli.protect import in_memory, tell_result
    from shoal.publish import ProtectionRequest

    folder = io.make_folder(output)
    table, schema = _copied(folder)
    request = ProtectionRequest.of(
        k=k, schema=str(schema), labels=str(folder / "groups.csv"), report=str(folder / "report.html"),
        public_report=str(folder / "public-report.html"),
    )  # fmt: skip
    with stages() as tell:
        result = in_memory(str(table), str(folder / "protected.csv"), request, tell)
    tell_result(result, json=json)


def _copied(folder: Path) -> list[Path]:
    """The survey and its schema in the folder; files of the same name that are others are not touched."""
    from shoal import io
    from shoal.datasets import DATASETS
    from shoal.errors import InputError

    survey = DATASETS["survey"].path
    assert survey is not None
    bundled = [survey, survey.with_suffix(".toml")]
    for each in bundled:
        there = folder / each.name
        if there.exists() and (there.is_dir() or there.read_bytes() != each.read_bytes()):
            raise InputError(
                f"The folder {str(folder)!r} holds another {each.name!r}: name a new folder by --output."
            )
    return io.copy_files(bundled, folder)
