"""`shoal ask`: one private answer, charged to the ledger beside the schema."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli._console import print_json
from shoal.typing import Json, Keywords

if TYPE_CHECKING:
    from shoal.dp.answering.answer import Answer
    from shoal.dp.ledger.ledger import Ledger
    from shoal.dp.session import Session
    from shoal.schema import Schema


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ask)


def ask(
    file: Annotated[
        str,
        typer.Argument(
            help="The private table: a file, a folder of Parquet files, duckdb:///FILE?table=NAME or "
            "postgresql://USER@HOST/DATABASE?table=NAME."
        ),
    ],
    query: Annotated[str, typer.Argument(help="SELECT COUNT(*) FROM t WHERE ...")],
    schema: Annotated[Path, typer.Option(help="Schema file with bounds, levels, unit and budget.")],
    epsilon: Annotated[
        float | None, typer.Option(help="What to spend (heuristic: the noise parameter).")
    ] = None,
    rho: Annotated[
        float | None, typer.Option(help="What to spend in place of epsilon, of a data set counted in zCDP.")
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(help="Of COUNT and SUM: spend what it costs to be right within this with 95 %."),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="dp, group, correlated, pufferfish, dependent or heuristic.")
    ] = "dp",
    budget: Annotated[float | None, typer.Option(help="Total epsilon; the schema's if left out.")] = None,
    analyst: Annotated[str, typer.Option(help="Who asks.")] = "me",
    ledger: Annotated[
        str | None, typer.Option(help="Ledger file or URL; beside the schema if left out.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Mode group: records, or column:rows.")] = None,
    cells: Annotated[str | None, typer.Option(help="Mode correlated: column:bins,column:bins,...")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A saved model's file (correlated, heuristic), or, heuristic: dbscan:eps=0.4,min_points=2 | "
            "gmm:components=1-100 | rfe-gmm:target=income,keep=8,estimator=forest | spearman:threshold=0.2 | pearson. "
            "Modes pufferfish and dependent: the file of a declared model."
        ),
    ] = None,
    tau: Annotated[int | None, typer.Option(help="Mode correlated: rows of a cell that count.")] = None,
    tau_epsilon: Annotated[
        float | None, typer.Option(help="Mode correlated: buy tau for this epsilon.")
    ] = None,
    data_version: Annotated[
        str | None,
        typer.Option(help="The owner's word for this state of the table; answers are kept under it."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="A further table of the schema's links, as NAME=FILE:SCHEMA; may be repeated."),
    ] = None,
    expects: Annotated[
        str | None, typer.Option(help="A head of the ledger kept elsewhere, which it must hold.")
    ] = None,
    cost: Annotated[
        bool, typer.Option("--cost", help="Only show what it would cost, and the split.")
    ] = False,
    save_run: Annotated[
        Path | None, typer.Option(help="Write question and answer (owner only) as JSON: what dossier reads.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Answer an aggregate query on a private table, with its guarantee stamped on it.

    Example: shoal ask survey.csv "SELECT COUNT(*) FROM t WHERE age >= 40" --schema survey.toml --epsilon 0.1
    """
    from shoal.dp.correlation import load_model, named_model
    from shoal.dp.ledger.ledger import Ledger
    from shoal.dp.unit import STATED
    from shoal.errors import ParameterError
    from shoal.schema import Schema

    if save_run is not None and mode == "heuristic":
        raise ParameterError("'--save-run' keeps answers with a guarantee. Mode heuristic has none.")
    if save_run is not None:
        from shoal.io import check_apart, check_folder

        check_apart({"--save-run": save_run}, [Path(file), schema])
        check_folder(save_run)
    facts = _with_cells(Schema.from_toml(schema), cells)
    if model is not None and (mode not in ("correlated", "heuristic", *STATED) or cells is not None):
        raise ParameterError(
            "'--model' is for modes correlated, pufferfish, dependent and heuristic, and stands in for '--cells'."
        )
    read: Any = named_model if mode == "heuristic" else load_model
    alike: Any = model if model is None or mode in STATED else read(model, facts)
    unit = _unit(group, mode)
    where = ledger or str(schema.with_suffix(".ledger.db"))
    opened = Ledger(
        where, secret=schema.with_suffix(".ledger.secret") if "://" in where else None, expects=expects
    )
    try:
        if mode == "heuristic":
            if epsilon is None:
                raise ParameterError("'--epsilon' must give the noise parameter of mode heuristic.")
            _reproduce(file, facts, alike, opened, query, epsilon, analyst, as_json)
            return
        given = {"budget": budget, "analyst": analyst, "unit": unit, "model": alike, "tau": tau}
        given["data_version"] = data_version
        given["tables"] = _tables(table or [])
        session = _session(file, facts, mode, opened, given)
        if tau_epsilon is not None and mode == "correlated":
            session.buy_tau(tau_epsilon)
        if cost:
            _show_cost(session, query, {"epsilon": epsilon, "rho": rho, "error": error}, as_json)
        else:
            answer = session.ask(query, epsilon, rho=rho, error=error)
            if save_run is not None:
                from shoal.dp.loading.sources import without_password
                from shoal.evidence import run_of_answer

                asked = {
                    "query": query,
                    "epsilon": answer.epsilon if epsilon is None else epsilon,
                    "mode": mode,
                    "analyst": analyst,
                }
                run_of_answer(answer.to_dict(), facts, asked, without_password(file)).save(save_run)
            _show(answer, as_json)
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
    from shoal.dp.ledger.ledger import Ledger

    where = ledger or str(path.with_suffix(".ledger.db"))
    opened = Ledger(where, secret=path.with_suffix(".ledger.secret") if "://" in where else None)
    try:
        yield _session(file, schema, mode, opened, {**given, "tables": _tables(table)})
    finally:
        opened.close()


def _reproduce(
    file: str,
    schema: Schema,
    model: Any,
    ledger: Ledger,
    query: str,
    parameter: float,
    analyst: str,
    as_json: bool,
) -> None:
    from shoal.dp.correlation import BoundaryWarning, Grid
    from shoal.dp.heuristic import Heuristic

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


def _show_cost(session: Session, query: str, spend: dict[str, float | None], as_json: bool) -> None:
    cost, word = session.cost(query, **spend), session.currency.word  # type: ignore[arg-type]
    if as_json:
        facts = {"epsilon": cost.epsilon, "remaining": cost.remaining, "parts": list(cost.parts)}
        facts["questions_left"] = cost.questions_left
        print_json(facts | ({} if cost.rho is None else {"rho": cost.rho}))
        return
    for part in cost.parts:
        scale = f", noise scale {part['noise_scale']:.6g}" if "noise_scale" in part else ""
        scale += f", 95 % within {part['error']:.6g}" if "error" in part else ""
        typer.echo(
            f"{part['figure']} ({part['release']}): {word} {part['rho'] if word == 'rho' else part['epsilon']}{scale}"
        )
    more = "" if cost.questions_left is None else f", about {cost.questions_left:,} such questions"
    typer.echo(f"in all {word} {cost.spent}, remaining {cost.remaining}{more}")


def _unit(text: str | None, mode: str) -> Any:
    from shoal.dp.unit import AddRemoveUnit, Records
    from shoal.errors import ParameterError

    if text is None:
        return None
    if mode != "group":
        raise ParameterError(f"'--group' is for mode group. Got mode {mode!r}.")
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
