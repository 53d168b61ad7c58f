"""Options and arguments that several commands take, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PrivateTable = Annotated[
    str,
    typer.Argument(
        help="The private table: a file, a folder of Parquet files, duckdb:///FILE?table=NAME or "
        "postgresql://USER@HOST/DATABASE?table=NAME."
    ),
]
PublicFacts = Annotated[Path, typer.Option(help="Schema file with bounds, levels, unit and budget.")]
Rho = Annotated[
    float | None, typer.Option(help="What to spend instead of epsilon, if the data set is counted in zCDP.")
]
Budget = Annotated[float | None, typer.Option(help="Total epsilon; the schema's if left out.")]
Analyst = Annotated[str, typer.Option(help="Who asks.")]
Charged = Annotated[str, typer.Option(help="Who is charged.")]
LedgerPlace = Annotated[str | None, typer.Option(help="Ledger file or URL; beside the schema if left out.")]
Expects = Annotated[str | None, typer.Option(help="A head of the ledger kept elsewhere, which it must hold.")]
DataVersion = Annotated[
    str | None, typer.Option(help="The owner's word for this state of the table; answers are kept under it.")
]
FurtherTables = Annotated[
    list[str] | None,
    typer.Option(help="A further table of the schema's links, as NAME=FILE:SCHEMA; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the facts as one JSON object.")]
