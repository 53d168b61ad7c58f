"""`shoal attack`: what an intruder would find in a published table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli._console import names, print_json, stages
from shoal.cli._options import AsJson


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(attack)
    app.command()(score)


def attack(
    protected: Annotated[str, typer.Argument(help="The table that is published.")],
    original: Annotated[str, typer.Option(help="The table it was made from.")],
    control: Annotated[
        str | None, typer.Option(help="People of the same population who are not in the published table.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="The run that made it (--save-run): schema, k, and a control group held out."),
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema file: kinds and roles of columns.")] = None,
    sensitive: Annotated[
        str | None, typer.Option(help="Columns to be inferred, separated by commas; else the schema's.")
    ] = None,
    rows: Annotated[
        str,
        typer.Option(
            help="same: the rows of the original in its order; unrelated: rows that belong to nobody."
        ),
    ] = "same",
    release_type: Annotated[
        str | None, typer.Option(help="public, scientific or enclave: sets the limits of the status.")
    ] = None,
    targets: Annotated[int, typer.Option(help="People that the intruder looks for.")] = 2_000,
    epsilon: Annotated[
        float | None, typer.Option(help="Of a private release: what membership may reveal.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Write a report (custodian only) as HTML.")] = None,
    pack: Annotated[
        Path | None,
        typer.Option(help="Write an intruder pack for a human tester, and its key, to this folder."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Attack a published table: singling out, linkability, inference, record linkage, membership.

    The first line is the status. If it is red, the exit code is 1.

    Example: shoal attack protected.csv --original survey.csv --run run.json --report attacks.html
    """
    from shoal import evidence, io
    from shoal.schema import Schema

    io.check_apart({"--report": report}, [protected, original, control, run, schema])
    if report is not None:
        io.check_page(report)
    if pack is not None:
        evidence.check_pack(pack)
    facts = None if schema is None else Schema.from_toml(schema)
    kept = None if run is None else evidence.read_run(run)
    marks = facts.file if facts is not None else None if kept is None else kept.schema.file
    with stages() as tell:
        tell("reading", 0, 0)
        after, before = io.read_table(protected, marks, published=True), io.read_table(original, marks)
        others = None if control is None else io.read_table(control, marks)
        found = evidence.attack(
            after,
            before,
            control=others,
            run=kept,
            schema=facts,
            sensitive=names(sensitive),
            rows=rows,
            release=release_type,
            targets=targets,
            epsilon=epsilon,
            random_state=seed,
            progress=tell,
        )
    written = []
    if report is not None:
        found.report(report)
        written.append(str(report))
    if pack is not None:
        used = facts if facts is not None else None if kept is None else kept.schema
        files = evidence.write_pack(
            after, before, pack, control=others, schema=used, sensitive=names(sensitive)
        )
        written += [str(pack / name) for name in files]
    if json:
        print_json(found.to_dict() | {"files": written})
    else:
        for line in found.lines():
            typer.echo(line)
        if written:
            typer.echo(f"written: {', '.join(written)}")
    if found.status == "red":
        raise typer.Exit(1)


def score(
    key: Annotated[Path, typer.Argument(help="The key of an intruder pack (officer/key.csv).")],
    answers: Annotated[Path, typer.Argument(help="The tester's answers (answers.csv).")],
    json: AsJson = False,
) -> None:
    """Compare the answers of a human tester with the key of an intruder pack.

    Example: shoal score pack/officer/key.csv answers.csv
    """
    from shoal.evidence import score_pack

    found = score_pack(key, answers)
    if json:
        print_json(found.to_dict())
        return
    for line in found.lines():
        typer.echo(line)
