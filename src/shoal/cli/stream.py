"""`shoal stream`: running totals of rows that come period by period, for one charge."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli._console import print_json
from shoal.cli._options import Analyst, AsJson, PublicFacts
from shoal.typing import Record

if TYPE_CHECKING:
    from shoal.dp.continual import PeriodTotal
    from shoal.dp.session import Session

_Name = Annotated[str, typer.Argument(help="What the stream is called.")]
_Query = Annotated[str, typer.Option(help="One COUNT or SUM, which may have WHERE and GROUP BY.")]
_Periods = Annotated[int, typer.Option(help="How many periods there may be.")]
_Epsilon = Annotated[float | None, typer.Option(help="What the whole stream costs, once.")]
_Rho = Annotated[float | None, typer.Option(help="Instead of epsilon, if the data set is counted in zCDP.")]
_Ledger = Annotated[str | None, typer.Option(help="Ledger file; beside the schema if left out.")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Running totals of rows that come period by period.", no_args_is_help=True)
    group.command()(add)
    group.command()(show)
    app.add_typer(group, name="stream")


def add(
    name: _Name,
    file: Annotated[str, typer.Argument(help="The rows of the next period: a file, a folder or an address.")],
    schema: PublicFacts,
    query: _Query,
    periods: _Periods,
    epsilon: _Epsilon = None,
    rho: _Rho = None,
    period: Annotated[
        int | None, typer.Option(help="Which period it is meant to be; another than the next is refused.")
    ] = None,
    ledger: _Ledger = None,
    analyst: Analyst = "me",
    as_json: AsJson = False,
) -> None:
    """Add the rows of the next period and print the running total. The first call opens the stream and charges for it.

    Example: shoal stream add weekly week1.csv --schema visits.toml --query "SELECT COUNT(*) FROM visits" --periods 52 --epsilon 1
    """
    from shoal.dp.loading.sources import open_table
    from shoal.schema import Schema

    facts = Schema.from_toml(schema)
    rows = open_table(file, facts)  # what cannot be read is told before anything is charged
    with _session(schema, ledger, analyst) as session:
        stream = session.stream(name, query, epsilon, periods, rho=rho)
        step = stream.add(rows, period)
        if as_json:
            print_json(
                {
                    "stream": name,
                    "period": step.period,
                    "rows": list(step.rows),
                    "guarantee": stream.guarantee,
                    "spent": stream.epsilon,
                    "remaining": session.remaining(),
                }
            )
            return
        _tell(step)
        typer.echo(stream.guarantee)
        typer.echo(f"{stream.epsilon:g} for all {periods} periods, remaining {session.remaining()}")


def show(name: _Name, schema: PublicFacts, ledger: _Ledger = None, as_json: AsJson = False) -> None:
    """Show all running totals so far.

    Example: shoal stream show weekly --schema visits.toml
    """
    from shoal.dp.continual import state_of, told
    from shoal.errors import InputError
    from shoal.schema import Schema

    facts = Schema.from_toml(schema)
    with _session(schema, ledger, "me") as session:
        ended = session.ledger.ended(facts.id)
        every = told(state_of(session.ledger), facts.id, ended=ended)
        found = [each for each in every if each["name"] == name]
    if not found:
        raise InputError(f"There is no stream {name!r} of data set {facts.id!r}.")
    if as_json:
        print_json(found[-1])
        return
    typer.echo(f"{found[-1]['question']}, {found[-1]['periods']} periods")
    for row in found[-1]["steps"]:
        typer.echo(_line(row.pop("period"), row))
    typer.echo(found[-1]["guarantee"])


def _tell(step: PeriodTotal) -> None:
    for row in step.rows:
        typer.echo(_line(step.period, dict(row)))


def _line(period: int, row: Record) -> str:
    total, low, high, change = (row.pop(each) for each in ("total", "low", "high", "change"))
    labels = "".join(f", {name} = {value}" for name, value in row.items())
    return f"period {period}{labels}: total {total:g}  (95 %: {low:g} to {high:g}), change {change:g}"


@contextlib.contextmanager
def _session(schema: Path, ledger: str | None, analyst: str) -> Iterator[Session]:
    """A session without rows: those of a stream are handed in."""
    import polars as pl

    from shoal.dp.loading.sources import wanted_columns
    from shoal.dp.session import Session
    from shoal.schema import Schema

    facts = Schema.from_toml(schema)
    nothing = pl.DataFrame(schema=dict.fromkeys(sorted(wanted_columns(facts)), pl.String))
    with Session(
        nothing, facts, ledger=ledger or str(schema.with_suffix(".ledger.db")), analyst=analyst
    ) as session:
        yield session
