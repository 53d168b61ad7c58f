"""`shoal workload`: counting queries answered together, for one charge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli._console import print_json
from shoal.cli._options import (
    Analyst,
    AsJson,
    Budget,
    DataVersion,
    FurtherTables,
    LedgerPlace,
    PublicFacts,
    Rho,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(workload)


def workload(
    file: Annotated[
        str, typer.Argument(help="The private table: a file, a folder or an address, as for shoal ask.")
    ],
    queries: Annotated[Path, typer.Argument(help="A text file with queries, ended by ';'.")],
    schema: PublicFacts,
    epsilon: Annotated[float | None, typer.Option(help="What to spend on all of them.")] = None,
    rho: Rho = None,
    mode: Annotated[str, typer.Option(help="dp, group or correlated.")] = "dp",
    budget: Budget = None,
    analyst: Analyst = "me",
    ledger: LedgerPlace = None,
    data_version: DataVersion = None,
    table: FurtherTables = None,
    as_json: AsJson = False,
) -> None:
    """Answer counting queries together: marginals, histograms and ranges, with less noise than one by one.

    Example: shoal workload survey.csv queries.sql --schema survey.toml --epsilon 0.5
    """
    from shoal.cli.ask import figure_line, opened_session
    from shoal.dp.workload import statements
    from shoal.errors import InputError, ParameterError
    from shoal.schema import Schema

    if mode not in ("dp", "group", "correlated"):
        raise ParameterError(f"'--mode' must be dp, group or correlated. Got {mode!r}.")
    try:
        text = queries.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"No file {str(queries)!r}.") from None
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{str(queries)!r} cannot be read as UTF-8 text.") from None
    asked, facts = statements(text), Schema.from_toml(schema)
    given = {"budget": budget, "analyst": analyst, "data_version": data_version}
    with opened_session(file, schema, facts, mode, ledger, table or [], **given) as session:
        found = session.workload(asked, epsilon, rho=rho)
    if as_json:
        print_json(found.to_dict())
        return
    for each in found.answers:
        typer.echo(f"{each.query}  (deviation {each.deviation:.4g}, one by one {each.alone:.4g})")
        rows = each.value if isinstance(each.value, list) else [each.value]
        ends = each.interval if isinstance(each.value, list) else [each.interval]
        for row, interval in zip(rows, ends, strict=True):
            typer.echo(f"  {figure_line(row, interval)}")
    typer.echo(found.guarantee)
    typer.echo(found.cost)
    typer.echo(
        f"measured: {found.strategy}; mean squared error {found.gain:.3g} times smaller than one by one"
    )
    for note in found.notes:
        typer.echo(f"note: {note}")
