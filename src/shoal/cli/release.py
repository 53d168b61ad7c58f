"""`shoal release`: tables that may leave the house."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli._console import names, show_release
from shoal.typing import Json, Keywords

if TYPE_CHECKING:
    from shoal.schema import Schema


_OWNER = "Losses are computed from the private table: for the owner only."


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(release)


def release(
    file: Annotated[
        str,
        typer.Argument(
            help="The private table: a file, a folder of Parquet files, duckdb:///FILE?table=NAME or "
            "postgresql://USER@HOST/DATABASE?table=NAME."
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="What to spend.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Schema file with bounds, levels and budget; the table's name with .toml if left out."
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="marginals, insensitive or individual-ranking.")] = "marginals",
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            "--k",
            help="Of insensitive and individual-ranking: records per group; a good number from public figures if left out.",
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Of marginals: Gaussian noise, counted in zCDP; pure if left out.")
    ] = None,
    bins: Annotated[
        str | None,
        typer.Option(
            help="Of marginals: bins of numbers, such as 24, quantiles:16 or income=quantiles,age=10; the schema's "
            "breaks or grid if left out."
        ),
    ] = None,
    marginals: Annotated[
        str,
        typer.Option(
            help="Of marginals: chosen, all tables of 1, 2 or 3 columns, or named ones such as age+sex+job,age+income."
        ),
    ] = "chosen",
    rows: Annotated[
        int | None,
        typer.Option(
            help="Of marginals: rows (with --shared: households) to draw; the noisy number if left out."
        ),
    ] = None,
    neighbours: Annotated[
        str, typer.Option(help="Of marginals: add-remove, or replace (number of records public).")
    ] = "add-remove",
    mode: Annotated[str, typer.Option(help="Of marginals: dp, group or correlated.")] = "dp",
    association: Annotated[
        str, typer.Option(help="Of individual-ranking: none, copula or as-printed.")
    ] = "none",
    order: Annotated[
        str, typer.Option(help="Of insensitive: curve (through all columns), or corner as in the original.")
    ] = "curve",
    columns: Annotated[
        str | None, typer.Option(help="Columns to release, by commas; all quasi and sensitive if left out.")
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(help="column:weight,... by which columns share the budget; equal if left out."),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Total epsilon; the schema's if left out.")] = None,
    analyst: Annotated[str, typer.Option(help="Who is charged.")] = "me",
    ledger: Annotated[
        str | None, typer.Option(help="Ledger file or URL; beside the schema if left out.")
    ] = None,
    data_version: Annotated[
        str | None,
        typer.Option(help="The owner's word for this state of the table; the same release is free under it."),
    ] = None,
    shared: Annotated[
        str | None,
        typer.Option(
            help="Of marginals: columns that the persons of a household share, by commas; releases households with persons, "
            "the schema's unit being the household."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Of marginals: HTML for the owner: what is kept, measured on the table."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Of --report: a column that a classifier trained on the rows predicts.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(help="Of --report: a column for whose levels figures are given one by one.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Of --report: epsilons, by commas, at which loss and membership attack are drawn."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="SVG for the owner: loss against epsilon, beside plain noise.")
    ] = None,
    save_run: Annotated[
        Path | None, typer.Option(help="Write request and result (owner only) as JSON: what dossier reads.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Release a whole table under differential privacy, with its guarantee stamped on it.

    Example: shoal release survey.csv --epsilon 1 -o public.csv
    """
    from shoal.io import check_apart, check_folder, check_writable
    from shoal.schema import Schema

    schema = schema or _beside(file)
    check_apart(
        {"--output": output, "--picture": picture, "--report": report, "--save-run": save_run},
        [schema] if "://" in file else [Path(file), schema],
    )
    check_writable(output)
    for each in (picture, report, save_run):
        if each is not None:
            check_folder(each)
    wanted = _Wanted(
        file,
        Schema.from_toml(schema),
        epsilon,
        output,
        names(columns),
        budget,
        analyst,
        ledger or str(schema.with_suffix(".ledger.db")),
        data_version,
        picture,
    )
    if method == "marginals":
        _refuse_with_marginals({"-k": k, "--shares": shares, "--picture": picture})
        if association != "none":
            _refuse_with_marginals({"--association": association})
        if order != "curve":
            _refuse_with_marginals({"--order": order})
        shown = _Shown(report, target, within, _epsilons(against))
        if shared is not None:
            _refuse_with_households(
                {"--report": report, "--marginals": None if marginals == "chosen" else marginals, "--mode": None if mode == "dp" else mode,
                 "--neighbours": None if neighbours == "add-remove" else neighbours}
            )  # fmt: skip
            facts = _households(wanted, delta, _bins(bins), names(shared) or [], rows)
        else:
            facts = _marginals(wanted, delta, _bins(bins), _sets(marginals), rows, neighbours, mode, shown)
    else:
        facts = _microaggregated(wanted, k, method, association, order, _shares(shares))
    if save_run is not None:
        from shoal.evidence import run_of_release

        asked = {
            "epsilon": epsilon, "method": method, "k": k, "delta": delta, "bins": bins, "marginals": marginals, "shared": names(shared), "rows": rows, "mode": mode,
            "neighbours": neighbours, "association": association, "order": order, "columns": names(columns), "analyst": analyst,
            "data_version": data_version,
        }  # fmt: skip
        run_of_release(facts, wanted.schema, asked, str(file), str(output)).save(save_run)
    show_release(facts, as_json)


def _beside(given: str) -> Path:
    """The schema beside a table, where none is named."""
    from shoal.errors import ParameterError

    file = Path(given.partition("?")[0])
    found = file.with_suffix(".toml")
    if not found.exists():
        raise ParameterError(
            f"A release needs a schema with bounds, levels and a budget (--schema). Got none, and there is no "
            f"{found.name!r}; 'shoal schema {file.name}' drafts one."
        )
    return found


@dataclass(frozen=True)
class _Wanted:
    """What all methods of `shoal release` take."""

    file: str
    schema: Schema
    epsilon: float
    output: Path
    columns: list[str] | None
    budget: float | None
    analyst: str
    ledger: str
    data_version: str | None
    picture: Path | None


@dataclass(frozen=True)
class _Shown:
    """What the owner's report of a release shall show."""

    report: Path | None
    target: str | None
    within: str | None
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        from shoal.errors import ParameterError

        given = {"--target": self.target, "--within": self.within, "--against": self.epsilons or None}
        for name, value in given.items():
            if value is not None and self.report is None:
                raise ParameterError(f"{name} is shown on the page of --report. Got no --report.")


def _refuse_with_households(given: Keywords) -> None:
    from shoal.errors import ParameterError

    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"A release of households (--shared) does not take {name}. Got {value}.")


def _households(wanted: _Wanted, delta: float | None, bins: Any, shared: list[str], rows: int | None) -> Json:
    from shoal.dp.loading.sources import whole_table
    from shoal.io import write_table
    from shoal.release import release_households

    out = release_households(
        whole_table(wanted.file, wanted.schema),
        wanted.schema,
        wanted.epsilon,
        shared=shared,
        delta=delta,
        columns=wanted.columns,
        bins=bins,
        households=rows,
        budget=wanted.budget,
        analyst=wanted.analyst,
        ledger=wanted.ledger,
        data_version=wanted.data_version,
    )
    write_table(out.frame, wanted.output)
    return {
        "stamp": out.guarantee,
        "epsilon": out.epsilon,
        "delta": out.delta,
        "remaining": out.remaining,
        "method": "marginals",
        "n_households": out.households.height,
        "n_records": out.frame.height,
        "notes": list(out.notes),
    }


def _refuse_with_marginals(given: Keywords) -> None:
    from shoal.errors import ParameterError

    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"Method 'marginals' does not take {name}. Got {value}.")


def _marginals(
    wanted: _Wanted,
    delta: float | None,
    bins: Any,
    marginals: Any,
    rows: int | None,
    neighbours: str,
    mode: str,
    shown: _Shown,
) -> Json:
    from shoal.dp.loading.sources import whole_table
    from shoal.io import write_table
    from shoal.release import release_marginals, utility

    frame = whole_table(wanted.file, wanted.schema)
    out = release_marginals(
        frame,
        wanted.schema,
        wanted.epsilon,
        delta=delta,
        columns=wanted.columns,
        bins=bins,
        marginals=marginals,
        rows=rows,
        mode=mode,
        neighbours=neighbours,
        budget=wanted.budget,
        analyst=wanted.analyst,
        ledger=wanted.ledger,
        data_version=wanted.data_version,
    )
    write_table(out.frame, wanted.output)
    kept = utility(out, frame, target=shown.target, within=shown.within)
    if shown.report is not None:
        _report(out, kept, frame, shown)
    return {
        "stamp": out.guarantee,
        "epsilon": out.epsilon,
        "delta": out.delta,
        "remaining": out.remaining,
        "method": "marginals",
        "n_records": out.frame.height,
        "information_loss": kept.information_loss,
        "total_variation": list(kept.total_variation),
        "ranges": kept.ranges,
        "notes": [*out.notes, _OWNER],
    }


def _report(out: Any, kept: Any, frame: Any, shown: _Shown) -> None:
    """The owner's page, with loss and attack against epsilon where asked for."""
    from shoal.io import write_text
    from shoal.release import risk_utility, utility_page

    against: Any = ()
    if shown.epsilons:
        against = risk_utility(frame, out.schema, shown.epsilons, delta=out.delta, like=out)
    assert shown.report is not None  # the caller has looked
    write_text(utility_page(out, kept, against), shown.report)


def _epsilons(text: str | None) -> tuple[float, ...]:
    from shoal.errors import ParameterError

    found = []
    for word in (text or "").split(",") if text is not None else []:
        try:
            found.append(float(word))
        except ValueError:
            raise ParameterError(
                f"'--against' must be numbers by commas, such as 0.1,1,10. Got {text!r}."
            ) from None
    return tuple(found)


def _bins(text: str | None) -> Any:
    """`--bins` as Python takes it: a number, a text, or one of them for each column."""
    if text is None:
        return None
    if "=" in text:
        pairs = [each.partition("=") for each in text.split(",")]
        return {name.strip(): _bins(value.strip()) for name, _, value in pairs}
    try:
        return int(text)
    except ValueError:
        return text.strip()


def _sets(text: str) -> Any:
    """`--marginals` as Python takes it."""
    text = text.strip()
    if text.lstrip("-").isdecimal():
        return int(text)
    if "+" in text:
        return [[name.strip() for name in each.split("+")] for each in text.split(",")]
    return text


def _microaggregated(
    wanted: _Wanted, k: int | None, method: str, association: str, order: str, shares: dict[str, int] | None
) -> Json:
    from shoal.dp.loading.sources import whole_table
    from shoal.io import write_table, write_text
    from shoal.release import SmallGroupsWarning, release_table, utility_picture

    frame = whole_table(wanted.file, wanted.schema)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", SmallGroupsWarning)
        out = release_table(
            frame,
            wanted.schema,
            k,
            wanted.epsilon,
            method=method,
            association=association,
            order=order,
            columns=wanted.columns,
            shares=shares,
            budget=wanted.budget,
            analyst=wanted.analyst,
            ledger=wanted.ledger,
            data_version=wanted.data_version,
        )
    write_table(out.frame, wanted.output)
    if wanted.picture is not None:
        write_text(utility_picture(frame, wanted.schema, out), wanted.picture)
    return {
        "stamp": out.guarantee,
        "epsilon": out.epsilon,
        "remaining": out.remaining,
        "method": method,
        "association": association,
        "order": order if method == "insensitive" else None,
        "k": out.plan.k,
        "n_records": out.frame.height,
        **out.figures,
        "notes": [*(str(each.message) for each in told), *out.notes],
    }


def _shares(text: str | None) -> dict[str, int] | None:
    from shoal.errors import ParameterError

    if text is None:
        return None
    pairs = [each.strip().rpartition(":") for each in text.split(",")]
    if any(not name or not weight.isdigit() for name, _, weight in pairs):
        raise ParameterError(f"'--shares' must be column:weight,column:weight,... Got {text!r}.")
    return {name: int(weight) for name, _, weight in pairs}
