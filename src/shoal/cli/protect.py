"""`shoal protect`: a table in, a protected table out."""

from __future__ import annotations

import functools
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli._console import names, print_json, progress

if TYPE_CHECKING:
    from shoal.protect import Protection

# Files above these sizes (bytes) are taken in parts; Parquet is packed about four to one.
LARGE, LARGE_PARQUET = 1 << 30, 1 << 28


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(protect)
    app.command()(demo)


def protect(
    file: Annotated[
        str,
        typer.Argument(
            help="The table to protect (CSV, Parquet, Arrow, Excel, SPSS, Stata, SAS; - for a pipe)."
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="Where the protected table goes; its ending says the format."),
    ],
    k: Annotated[int, typer.Option("-k", "--k", help="Smallest group.")] = 5,
    method: Annotated[
        str | None, typer.Option(help="A method by name: anneal, or mdav where a table is taken in parts.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to aggregate, separated by commas.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Schema file (TOML): roles and kinds of columns.")
    ] = None,
    strata: Annotated[str | None, typer.Option(help="Columns whose values groups never cross.")] = None,
    weights: Annotated[str | None, typer.Option(help="Column of survey weights.")] = None,
    households: Annotated[
        str | None, typer.Option(help="Column whose rows stay together; groups hold k of its values.")
    ] = None,
    l: Annotated[
        int | None, typer.Option("--l", help="Also reach l-diversity of the sensitive columns.")
    ] = None,
    t: Annotated[
        float | None, typer.Option("--t", help="Also reach t-closeness of the sensitive columns.")
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="Missing cells: error, impute, category or drop.")
    ] = None,
    small_strata: Annotated[str, typer.Option(help="Strata below k: merge or refuse.")] = "merge",
    integers: Annotated[str, typer.Option(help="Integer columns: float or round.")] = "float",
    identifiers: Annotated[str, typer.Option(help="Identifiers: drop or hash.")] = "drop",
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds the method may search, instead of the default amount of work."),
    ] = None,
    max_proposals: Annotated[
        int | None, typer.Option(help="Proposals the method may try (repeats exactly).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random methods.")] = 0,
    certify: Annotated[
        bool, typer.Option("--certify", help="Bound what any partition would lose; up to two minutes more.")
    ] = False,
    labels: Annotated[
        Path | None, typer.Option(help="Write the group of each row to this CSV file (custodian only).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the report (custodian only) to this HTML file.")
    ] = None,
    public_report: Annotated[
        Path | None, typer.Option(help="Write a report without risk figures to this HTML file.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Take the table in parts: local or spark.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Take the table in parts within this memory, such as 2GB.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="In parts: go on from an interrupted run of the same settings.")
    ] = False,
    any_order: Annotated[
        bool, typer.Option("--any-order", help="In parts: write rows as they come, not in the input's order.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as one JSON object.")] = False,
) -> None:
    """Protect a table: everyone hides in a group of at least k.

    Example: shoal protect survey.csv -k 5 -o protected.csv --report report.html
    """
    from shoal import io
    from shoal.protect import protect as run

    io.check_apart(
        {"--output": output, "--labels": labels, "--report": report, "--public-report": public_report},
        [file, schema],
    )
    in_parts = engine is not None or memory is not None or resume or any_order or _is_large(file)
    if in_parts:
        whole = {
            "--households": households, "--l": l, "--t": t, "--certify": certify or None, "--labels": labels,
            "--report": report, "--public-report": public_report,
        }  # fmt: skip
        _end_total(schema)
        _protect_parts(
            whole, file, output, k, names(columns), method or "mdav", names(strata), weights, schema,
            missing=missing, small_strata=small_strata, integers=integers, identifiers=identifiers,
            time_limit=time_limit, max_proposals=max_proposals, random_state=seed, engine=engine or "local",
            memory=memory or "2GB", resume=resume, any_order=any_order, as_json=json,
        )  # fmt: skip
        return
    io.check_writable(output)
    if labels is not None:
        io.check_writable(labels)
    for page in (report, public_report):
        if page is not None:
            io.check_folder(page)
    with progress() as say:
        say(f"reading {file}")
        source = io.read_source(file)
        result = run(
            source.frame, k, names(columns), method or "anneal", names(strata), weights, schema,
            households=households, l=l, t=t, missing=missing, small_strata=small_strata, integers=integers,
            identifiers=identifiers, time_limit=time_limit, max_proposals=max_proposals, random_state=seed,
            certify=certify, labelled=source.labelled(), progress=say,
        )  # fmt: skip
        given = {
            "columns": columns, "schema": schema, "strata": strata, "weights": weights, "households": households,
            "l": l, "t": t, "missing": missing, "integers": integers if integers != "float" else None,
            "small-strata": small_strata if small_strata != "merge" else None,
            "identifiers": identifiers if identifiers != "drop" else None, "time-limit": time_limit,
        }  # fmt: skip
        result = replace(
            result,
            notes=(*source.notes, *result.notes),
            settings=result.settings
            | {"source": file, "command": _command(file, output, result, given, seed)},
        )
        say("writing")
        _end_total(schema)
        _write(result, source, output, labels, report, public_report)
    _tell(result, [output, labels, report, public_report], as_json=json)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the protected file and the report.")
    ] = Path("demo-output"),
    k: Annotated[int, typer.Option("-k", "--k", help="Smallest group.")] = 5,
    time_limit: Annotated[float, typer.Option(help="Seconds the method may search.")] = 5.0,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as one JSON object.")] = False,
) -> None:
    """Protect the bundled household survey and write the result and its report.

    Example: shoal demo -o demo-output
    """
    from shoal import datasets, io
    from shoal.protect import protect as run

    io.check_folder(io.make_folder(output) / "report.html")
    with progress() as say:
        result = run(
            datasets.load_survey(),
            k,
            schema=datasets.load_survey_schema(),
            time_limit=time_limit,
            progress=say,
        )
        result = replace(result, settings=result.settings | {"command": f"shoal demo -k {k}"})
        source = io.Source(datasets.load_survey(), ".csv")
        paths = [
            output / "protected.csv",
            output / "groups.csv",
            output / "report.html",
            output / "public-report.html",
        ]
        _write(result, source, *paths)
    _tell(result, list(paths), as_json=json)


def _is_large(file: str) -> bool:
    """Whether a file is too large to be taken whole without being asked to."""
    path = Path(file)
    size = path.stat().st_size if path.is_file() else 0
    return path.is_dir() or size > (LARGE_PARQUET if path.suffix == ".parquet" else LARGE)


def _end_total(schema: Path | None) -> None:
    """Note a protected copy, which tells about the table without any epsilon, in the ledger beside the schema."""
    beside = None if schema is None else schema.with_suffix(".ledger.db")
    if schema is None or beside is None or not beside.exists():
        return
    from shoal.dp.ledger import Ledger
    from shoal.schema import Schema

    ledger = Ledger(beside)
    try:
        ledger.end_total(Schema.from_toml(schema).id, "protected copy")
    finally:
        ledger.close()


def _protect_parts(whole: dict[str, Any], *args: Any, as_json: bool, **options: Any) -> None:
    """The table in parts; what needs all of it at once is refused."""
    from shoal.errors import ParameterError
    from shoal.scale import protect_file

    asked = [name for name, value in whole.items() if value is not None]
    if asked:
        raise ParameterError(f"A table taken in parts cannot have {asked[0]}: that needs all of it at once.")
    try:
        with progress() as say:
            facts = protect_file(*args, **options, progress=say)
    except KeyboardInterrupt:
        if options.get("engine") != "spark":
            typer.echo("interrupted: the parts already solved are kept for --resume", err=True)
        raise
    if as_json:
        print_json(facts)
        return
    for note in facts.get("notes", ()):
        typer.echo(f"note: {note}")
    typer.echo(
        f"{facts['n_records']:,} records in {facts['n_groups']:,} groups, smallest {facts['smallest_group']} "
        f"({facts['method']}, k = {facts['k']}, {facts['seconds']:.1f} s)"
    )
    linked = "" if facts["dld"] is None else f", records linked by distance {100 * facts['dld']:.1f} % (DLD)"
    typer.echo(f"information loss {facts['information_loss']:.3f} %{linked}")
    typer.echo(f"written: {args[1]}")


def _write(
    result: Protection,
    source: Any,
    output: str | Path,
    labels: Path | None,
    report: Path | None,
    public: Path | None,
) -> None:
    """Everything that goes to disk, all or nothing."""
    import polars as pl

    from shoal import io

    with io.together():
        if labels is not None:
            io.write_table(pl.DataFrame({"group": result.labels}), labels)
        if report is not None:
            result.report(report)
        if public is not None:
            result.report(public, public=True)
        io.write_table(result.frame, output, source)


def _command(file: str, output: str, result: Protection, given: dict[str, Any], seed: int) -> str:
    """The command that repeats the run."""
    words = [
        "shoal",
        "protect",
        file,
        "-k",
        str(result.settings["k"]),
        "-o",
        output,
        "--method",
        result.settings["method"],
    ]
    proposals = result.settings.get("max_proposals")
    if proposals is not None:
        given = {**given, "time-limit": None, "max-proposals": proposals}
    for name, value in given.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, "--seed", str(seed)])


def _tell(result: Protection, paths: list[Any], *, as_json: bool) -> None:
    from shoal.report.words import counted

    figures, settings = result.figures, result.settings
    low, high = figures["smallest_group"], figures["largest_group"]
    sizes = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    written = [str(path) for path in paths if path is not None]
    if as_json:
        print_json(
            {"method": settings["method"], "k": settings["k"]}
            | figures
            | {"verdicts": [verdict.to_dict() for verdict in result.verdicts], "notes": list(result.notes)}
            | {"settings": settings, "files": written}
        )
        return
    say = functools.partial(typer.echo, err=written[0] == "-")  # a pipe gets the table alone
    for note in result.notes:
        say(f"note: {note}")
    say(
        f"{counted(figures['n_records'], 'record')} in {counted(figures['n_groups'], 'group')} of {sizes} "
        f"({settings['method']}, {figures['seconds']:.1f} s)"
    )
    for verdict in result.verdicts:
        say(str(verdict))
    loss = f"information loss {figures['information_loss']:.3f} %"
    loss += f", IL2 {figures['il2']:.2f} %" if "il2" in figures else ""
    say(f"{loss}, records linked by distance {100 * figures['dld']:.1f} % (DLD)")
    if "certificate" in figures:
        certificate = figures["certificate"]
        say(
            f"no partition loses less than {certificate['bound']:.4f} %: at most {certificate['gap']:.2f} % of this loss "
            f"could be saved ({certificate['method']}, {certificate['seconds']:.0f} s)"
        )
    say(f"written: {', '.join(written)}")
