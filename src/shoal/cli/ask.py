"""`shoal ask`: one private answer, charged to the ledger beside the schema."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli._console import print_json
from shoal.cli._options import (
    Analyst,
    AsJson,
    Budget,
    DataVersion,
    Expects,
    FurtherTables,
    LedgerPlace,
    PrivateTable,
    PublicFacts,
    Rho,
)
from shoal.typing import Json, Keywords

if TYPE_CHECKING:
    from shoal.dp.answering.answer import Answer
    from shoal.dp.answering.cost import CostPart
    from shoal.dp.ledger.ledger import Ledger
    from shoal.dp.session import Session
    from shoal.schema import Schema


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ask)


_MODEL = (
    "A saved model's file (correlated, heuristic), or, heuristic: dbscan:eps=0.4,min_points=2 | "
    "gmm:components=1-100 | rfe-gmm:target=income,keep=8,estimator=forest | spearman:threshold=0.2 | pearson. "
    "Modes pufferfish and dependent: the file of a declared model."
)


def ask(
    file: PrivateTable,
    query: Annotated[str, typer.Argument(help="SELECT COUNT(*) FROM t WHERE ...")],
    schema: PublicFacts,
    epsilon: Annotated[
        float | None, typer.Option(help="What to spend (heuristic: the noise parameter).")
    ] = None,
    rho: Rho = None,
    error: Annotated[
        float | None,
        typer.Option(help="Of COUNT and SUM: spend what it costs to be right within this with 95 %."),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="dp, group, correlated, pufferfish, dependent or heuristic.")
    ] = "dp",
    budget: Budget = None,
    analyst: Analyst = "me",
    ledger: LedgerPlace = None,
    group: Annotated[str | None, typer.Option(help="Mode group: records, or column:rows.")] = None,
    cells: Annotated[str | None, typer.Option(help="Mode correlated: column:bins,column:bins,...")] = None,
    model: Annotated[str | None, typer.Option(help=_MODEL)] = None,
    tau: Annotated[int | None, typer.Option(help="Mode correlated: rows of a cell that count.")] = None,
    tau_epsilon: Annotated[
        float | None, typer.Option(help="Mode correlated: buy tau for this epsilon.")
    ] = None,
    data_version: DataVersion = None,
    table: FurtherTables = None,
    expects: Expects = None,
    cost: Annotated[
        bool, typer.Option("--cost", help="Only show what it would cost, and the split.")
    ] = False,
    save_run: Annotated[
        Path | None, typer.Option(help="Write question and answer (owner only) as JSON: what dossier reads.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer an aggregate query about a private table, and state the guarantee of the answer.

    Example: shoal ask survey.csv "SELECT COUNT(*) FROM t WHERE age >= 40" --schema survey.toml --epsilon 0.1
    """
    from shoal.schema import Schema

    _refuse_in(
        mode,
        {
            "--group": group, "--cells": cells, "--model": model, "--tau": tau, "--tau-epsilon": tau_epsilon, "--rho": rho,
            "--error": error, "--budget": budget, "--data-version": data_version, "--table": table, "--cost": cost or None,
            "--save-run": save_run,
        },
    )  # fmt: skip
    _check_run(save_run, cost, file, schema)
    facts = _with_cells(Schema.from_toml(schema), cells)
    alike = _model(model, cells, mode, facts)
    given = {
        "analyst": analyst,
        "unit": _unit(group),
        "model": alike,
        "tau": tau,
        "data_version": data_version,
    }
    with opened_ledger(schema, ledger, expects) as opened:
        if mode == "heuristic":
            _reproduce(file, facts, alike, opened, query, epsilon, analyst, as_json)
            return
        session = _session(
            file, facts, mode, opened, {**given, "budget": budget, "tables": _tables(table or [])}
        )
        if tau_epsilon is not None:
            session.buy_tau(tau_epsilon)
        if cost:
            _show_cost(session, query, {"epsilon": epsilon, "rho": rho, "error": error}, as_json)
            return
        answer = session.ask(query, epsilon, rho=rho, error=error)
        if save_run is not None:
            spent = answer.epsilon if epsilon is None else epsilon
            asked = {"query": query, "epsilon": spent, "mode": mode, "analyst": analyst}
            _save(answer, facts, asked, file, save_run)
        _show(answer, as_json)


def _refuse_in(mode: str, given: Keywords) -> None:
    """Refuse options that the mode would not heed."""
    from shoal.dp.unit import MODES, STATED
    from shoal.errors import ParameterError

    private = (*MODES, *STATED)
    if mode not in (*private, "heuristic"):
        raise ParameterError(f"'--mode' must be one of {', '.join((*private, 'heuristic'))}. Got {mode!r}.")
    taken = {
        "--group": ("group",),
        "--cells": ("correlated", "heuristic"),
        "--model": ("correlated", *STATED, "heuristic"),
        "--tau": ("correlated",),
        "--tau-epsilon": ("correlated",),
    }
    for name, value in given.items():
        modes = taken.get(name, private)
        if value is not None and mode not in modes:
            one = "mode" if len(modes) == 1 else "modes"
            raise ParameterError(f"'{name}' is for {one} {', '.join(modes)}. Got mode {mode!r}.")


def _check_run(save_run: Path | None, cost: bool, file: str, schema: Path) -> None:
    from shoal.errors import ParameterError
    from shoal.io import check_apart, check_folder

    if save_run is None:
        return
    if cost:
        raise ParameterError("'--save-run' keeps an answer, and '--cost' gives none: leave one of them out.")
    check_apart({"--save-run": save_run}, [Path(file), schema])
    check_folder(save_run)


def _model(text: str | None, cells: str | None, mode: str, facts: Schema) -> Any:
    """The model of look-alike records as the mode takes it: read, or the file of a stated one."""
    from shoal.dp.correlation import load_model, named_model
    from shoal.dp.unit import STATED
    from shoal.errors import ParameterError

    if text is None or mode in STATED:
        return text
    if cells is not None:
        raise ParameterError("'--model' stands in for '--cells': leave one of them out.")
    return named_model(text, facts) if mode == "heuristic" else load_model(text, facts)


def _save(answer: Answer, facts: Schema, asked: Keywords, file: str, path: Path) -> None:
    from shoal.dp.loading.sources import without_password
    from shoal.evidence import run_of_answer

    run_of_answer(answer.to_dict(), facts, asked, without_password(file)).save(path)


@contextlib.contextmanager
def opened_ledger(schema: Path, place: str | None, expects: str | None = None) -> Iterator[Ledger]:
    """The ledger beside its schema, or the one that is named."""
    from shoal.dp.ledger.ledger import Ledger

    where = place or str(schema.with_suffix(".ledger.db"))
    secret = schema.with_suffix(".ledger.secret") if "://" in where else None
    opened = Ledger(where, secret=secret, expects=expects)
    try:
        yield opened
    finally:
        opened.close()


def _tables(given: list[str]) -> Json:
    """Further tables, each read by its own schema."""
    from shoal.errors import ParameterError
    from shoal.schema import Schema

    found = {}
    for each in given:
        name, _, rest = each.partition("=")
        file, _, facts = rest.rpartition(":")
        if not (name and file and facts):
            raise ParameterError(f"'--table' must be NAME=FILE:SCHEMA. Got {each!r}.")
        schema = Schema.from_toml(Path(facts))
        found[name] = (file, schema)
    return found


def _session(file: str, schema: Schema, mode: str, ledger: Ledger, given: Keywords) -> Session:
    from shoal.dp.opening import FewCellsWarning
    from shoal.dp.session import Session
    from shoal.dp.unit import STATED

    if mode not in STATED and not given["tables"]:
        from shoal.release import KeptReleases

        given = {**given, "releases": (KeptReleases(ledger, schema),)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewCellsWarning)  # the answer's notes say it
        return Session(file, schema, mode, ledger=ledger, **given)


@contextlib.contextmanager
def opened_session(
    file: str, path: Path, schema: Schema, mode: str, ledger: str | None, table: list[str], **given: Any
) -> Iterator[Session]:
    """A session on the ledger beside its schema, or on the one that is named; `table` as of `shoal ask`."""
    with opened_ledger(path, ledger) as opened:
        yield _session(file, schema, mode, opened, {**given, "tables": _tables(table)})


def _reproduce(
    file: str,
    schema: Schema,
    model: Any,
    ledger: Ledger,
    query: str,
    parameter: float | None,
    analyst: str,
    as_json: bool,
) -> None:
    from shoal.dp.correlation import BoundaryWarning, Grid
    from shoal.dp.heuristic import Heuristic
    from shoal.errors import ParameterError

    if parameter is None:
        raise ParameterError("'--epsilon' must give the noise parameter of mode heuristic.")
    if model is None and schema.cells is not None:
        model = Grid.of_schema(schema)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", BoundaryWarning)
        asked = Heuristic(file, schema, model, analyst=analyst, ledger=ledger)
    for each in told:
        typer.echo(f"note: {each.message}", err=True)
    found = asked.ask(query, parameter)
    if as_json:
        typer.echo(found.to_json())
        return
    for row in found.value if isinstance(found.value, list) else [found.value]:
        typer.echo(figure_line(row, None))
    typer.echo(found.guarantee)
    typer.echo(f"noise parameter {found.noise_parameter}")


def _show(answer: Answer, as_json: bool) -> None:
    if as_json:
        typer.echo(answer.to_json())
        return
    rows = answer.value if isinstance(answer.value, list) else [answer.value]
    every = [
        each if isinstance(answer.value, list) and each is not None else [each] * len(rows)
        for each in (answer.interval, answer.cut_interval)
    ]
    for row, interval, cut in zip(rows, *every, strict=True):
        typer.echo(figure_line(row, interval, cut))
    for each in answer.cautions:
        typer.echo(f"CAUTION: {each}")
    typer.echo(answer.guarantee)
    typer.echo(answer.cost)
    for note in answer.notes:
        typer.echo(f"note: {note}")


def figure_line(row: Any, interval: Any, cut: Any = None) -> str:
    """A figure, or a row of figures, with its interval."""
    if not isinstance(row, dict):
        return _figure(row, interval, cut)
    shown = []
    for name, value in row.items():
        within = None if interval is None else interval[name]
        labelled = interval is not None and not isinstance(
            within, (list, tuple)
        )  # a group's label has no interval
        narrow = None if cut is None else cut.get(name)
        shown.append(f"{name} = {value if labelled else _figure(value, within, narrow)}")
    return ", ".join(shown)


def _figure(value: Any, interval: Any, cut: Any = None) -> str:
    if interval is None:
        return _number(value)
    within = "95 %: " + _ends(interval)
    return f"{_number(value)}  ({within}{'' if cut is None else f'; of the cut figure {_ends(cut)}'})"


def _ends(interval: Any) -> str:
    low, high = ("no known bound" if each is None else _number(each) for each in interval)
    return f"{low} to {high}"


def _number(value: Any) -> str:
    return f"{value:.8g}" if isinstance(value, float) else str(value)


_IN_ROWS = {
    "quantile": ", 95 % within {:,} ranks",
    "min": ", 95 % with at most {:,} rows below it",
    "max": ", 95 % with at most {:,} rows above it",
    "mode": ", 95 % with no level {:,} rows more frequent",
}


def _accuracy(part: CostPart) -> str:
    """The error to expect of one figure, as far as public facts tell it."""
    said = f", noise scale {part['noise_scale']:.6g}" if "noise_scale" in part else ""
    if "error" in part:
        said += f", 95 % within {part['error']:.6g}"
    elif "error_of_1000_rows" in part:
        said += f", 95 % within {part['error_of_1000_rows']:.6g} with 1,000 rows"
    elif "square_of_1000_rows" in part:
        said += f", its square 95 % within {part['square_of_1000_rows']:.6g} with 1,000 rows"
    elif "error_in_rows" in part:
        said += _IN_ROWS.get(part["release"], "").format(part["error_in_rows"])
    return said


def _show_cost(session: Session, query: str, spend: dict[str, float | None], as_json: bool) -> None:
    cost, word = session.cost(query, **spend), session.currency.word  # type: ignore[arg-type]
    if as_json:
        facts = {"epsilon": cost.epsilon, "remaining": cost.remaining, "parts": list(cost.parts)}
        facts["questions_left"] = cost.questions_left
        print_json(facts | ({} if cost.rho is None else {"rho": cost.rho}))
        return
    for part in cost.parts:
        amount = part["rho"] if word == "rho" else part["epsilon"]
        typer.echo(f"{part['figure']} ({part['release']}): {word} {amount}{_accuracy(part)}")
    more = "" if cost.questions_left is None else f", about {cost.questions_left:,} such questions"
    typer.echo(f"in all {word} {cost.spent}, remaining {cost.remaining}{more}")


def _unit(text: str | None) -> Any:
    from shoal.dp.unit import AddRemoveUnit, Records
    from shoal.errors import ParameterError

    if text is None:
        return None
    column, _, rows = text.rpartition(":")
    if not rows.isdigit():
        raise ParameterError(f"'--group' must be a number of records, or column:rows. Got {text!r}.")
    return AddRemoveUnit(column, int(rows), jointly=True) if column else Records(int(rows))


def _with_cells(schema: Schema, text: str | None) -> Schema:
    from dataclasses import replace

    from shoal.errors import ParameterError
    from shoal.schema import Cells

    if text is None:
        return schema
    pairs = [each.strip().rpartition(":") for each in text.split(",")]
    if any(not rest.isdigit() or not name for name, _, rest in pairs):
        raise ParameterError(f"'--cells' must be column:bins,column:bins,... Got {text!r}.")
    tau = None if schema.cells is None else schema.cells.tau
    return replace(
        schema, cells=Cells(tuple(name for name, *_ in pairs), tuple(int(rest) for *_, rest in pairs), tau)
    )
