"""`shoal compare` answers: which method, which k."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli._console import names, print_json, stages
from shoal.cli._options import AsJson

if TYPE_CHECKING:
    from shoal.comparison import Comparison, TableMap
    from shoal.io import ReadTable


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(compare)


def compare(
    file: Annotated[str, typer.Argument(help="The table.")],
    k: Annotated[str, typer.Option("-k", "--k", help="Smallest groups, separated by commas.")] = "3,5,10",
    methods: Annotated[
        str | None,
        typer.Option(help="Methods, separated by commas; a spread over the families if left open."),
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to aggregate, separated by commas.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema file (TOML).")] = None,
    strata: Annotated[str | None, typer.Option(help="Columns whose values groups never cross.")] = None,
    weights: Annotated[str | None, typer.Option(help="Column of survey weights.")] = None,
    households: Annotated[str | None, typer.Option(help="Column of households, which stay together.")] = None,
    leave: Annotated[str | None, typer.Option(help="Columns published as they are.")] = None,
    sensitive: Annotated[str | None, typer.Option(help="Sensitive columns.")] = None,
    on_missing: Annotated[
        str | None, typer.Option(help="Missing cells: error, impute, category or drop.")
    ] = None,
    fixed_k: Annotated[
        int | None,
        typer.Option(help="Recommend the least loss at this k; 5, else the largest, if left open."),
    ] = None,
    risk_limit: Annotated[
        float | None,
        typer.Option(help="Recommend the least loss with at most this share (0 to 1) linked."),
    ] = None,
    aim: Annotated[
        str | None,
        typer.Option(help="Recommend what comes nearest to LOSS,LINKED (per cent, share 0 to 1)."),
    ] = None,
    epsilons: Annotated[
        str | None,
        typer.Option(
            help="Epsilons by commas: private tables, microaggregation and generalisation on one map; needs a schema with "
            "bounds and levels."
        ),
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for each cell of a searching method.")] = 5.0,
    search: Annotated[
        bool, typer.Option("--search", help="Fill the front by a multi-objective search.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of random methods.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the table, protected as recommended, to this file."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the risk-utility map to this HTML file (custodian only).")
    ] = None,
    json: AsJson = False,
) -> None:
    """Compare methods and values of k on one table: loss, linkage and time. Recommends one of them.

    Example: shoal compare survey.csv -k 3,5,10 --report map.html
    """
    from shoal import io
    from shoal.comparison import compared
    from shoal.publish.request import ProtectionRequest

    ks = _sizes(k)
    io.check_apart({"--report": report, "--output": output}, [file, schema])
    if output is not None:
        io.check_writable(output)
    if report is not None:
        io.check_page(report)
    with stages() as tell:
        request = ProtectionRequest.of(
            schema=schema, columns=names(columns), leave=names(leave), sensitive=names(sensitive),
            strata=names(strata), weights=weights, households=households, on_missing=on_missing, random_state=seed,
        )  # fmt: skip
        source = io.read_source(file, request.file, request.untouched, request.as_written)
        result = compared(
            source.frame, ks, request, methods=names(methods), fixed_k=fixed_k, risk_limit=risk_limit, aim=_aim(aim),
            time_limit=time_limit, search=search, labelled=source.labelled(), progress=tell,
        )  # fmt: skip
        result = replace(result, source=file, tables=_tables(source.frame, schema, ks, epsilons))
        if output is not None:
            _write(result, source, output)
        if report is not None:
            result.report(report)
    if json:
        written = {"report": report, "output": output}
        print_json(
            result.to_dict() | {name: None if path is None else str(path) for name, path in written.items()}
        )
        return
    _tell(result, output, report)


def _sizes(text: str) -> list[int]:
    from shoal.errors import ParameterError

    try:
        return [int(part) for part in names(text) or []]
    except ValueError:
        raise ParameterError(f"'k' must be whole numbers separated by commas. Got {text!r}.") from None


def _write(result: Comparison, source: ReadTable, output: Path) -> None:
    """Protect as recommended; the table is written, and the data set's total ended, together."""
    from shoal import io
    from shoal.publish.calls import end_total
    from shoal.publish.executors.memory import Memory
    from shoal.publish.pipeline import protect

    made = protect(result.request, Memory(source.frame, source.labelled()))
    with io.together():
        io.write_table(made.frame, output, source)
        end_total(made.request)


def _tell(result: Comparison, output: Path | None, report: Path | None) -> None:
    typer.echo(f"{'method':<16}{'k':>5}{'loss %':>10}{'linked %':>10}{'groups':>9}{'seconds':>9}")
    for cell in result.cells:
        mark = "  front" if cell.on_front else ""
        if cell.indicators_kept is not None:
            mark = f"  indicators kept {100 * cell.indicators_kept:.0f} %{mark}"
        typer.echo(
            f"{cell.method:<16}{cell.k:>5}{cell.information_loss:>10.3f}{100 * cell.dld:>10.1f}{cell.n_groups:>9,}{cell.seconds:>9.2f}{mark}"
        )
    if result.tables is not None:
        typer.echo(f"{'on one map':<18}{'k or eps':>9}{'lost %':>9}{'linked %':>10}")
        for each in result.tables.points:
            typer.echo(
                f"{each.family:<18}{each.strength:>9g}{100 * each.lost:>9.1f}{100 * each.linked:>10.2f}"
            )
    typer.echo(result.reason)
    typer.echo(result.command() if output is None else result.command(str(output)))
    written_to = ", ".join(str(each) for each in (output, report) if each is not None)
    if written_to:
        typer.echo(f"written: {written_to}")


def _tables(frame: Any, schema: Path | None, ks: list[int], text: str | None) -> TableMap | None:
    from shoal.comparison import table_map
    from shoal.errors import ParameterError

    if text is None:
        return None
    if schema is None:
        raise ParameterError("'--epsilons' needs --schema: bounds and levels are never read from the table.")
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            f"'--epsilons' must be numbers by commas, such as 0.1,1,10. Got {text!r}."
        ) from None
    return table_map(frame, schema, ks, found)


def _aim(text: str | None) -> tuple[float, float] | None:
    from shoal.errors import ParameterError

    if text is None:
        return None
    try:
        loss, linked = (float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(f"'--aim' must be LOSS,LINKED, such as 8,0.2. Got {text!r}.") from None
    return loss, linked
