"""`shoal release`: tables that may be given out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli._console import names, show_release
from shoal.cli._options import AsJson, Budget, Charged, LedgerPlace, PrivateTable
from shoal.cli._release_words import bins_of, epsilons_of, refuse, sets_of, shares_of, unless
from shoal.typing import Json, Keywords

if TYPE_CHECKING:
    from shoal.schema import Schema


METHODS = ("marginals", "insensitive", "individual-ranking")
_OWNER = "Losses are computed from the private table: for the owner only."


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(release)


def release(
    file: PrivateTable,
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
    budget: Budget = None,
    analyst: Charged = "me",
    ledger: LedgerPlace = None,
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
        str | None, typer.Option(help="Of --report: a column; figures are given for each of its levels.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Of --report: epsilons, by commas, at which loss and membership attack are drawn."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="SVG for the owner: loss against epsilon, compared with plain noise.")
    ] = None,
    save_run: Annotated[
        Path | None, typer.Option(help="Write request and result (owner only) as JSON: what dossier reads.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Release a whole table under differential privacy, and state its guarantee.

    Example: shoal release survey.csv --epsilon 1 -o public.csv
    """
    schema = schema or _beside(file)
    _check_files(file, schema, output, {"--picture": picture, "--report": report, "--save-run": save_run})
    of_marginals = {
        "--delta": delta, "--bins": bins, "--marginals": unless(marginals, "chosen"), "--rows": rows,
        "--neighbours": unless(neighbours, "add-remove"), "--mode": unless(mode, "dp"), "--shared": shared, "--report": report,
        "--target": target, "--within": within, "--against": against,
    }  # fmt: skip
    of_groups = {
        "-k": k, "--shares": shares, "--picture": picture, "--association": unless(association, "none"),
        "--order": unless(order, "curve"),
    }  # fmt: skip
    _refuse_others(method, of_marginals, of_groups)
    wanted = _Wanted.of(
        file, schema, epsilon, output, names(columns), budget, analyst, ledger, data_version, picture
    )
    if method != "marginals":
        facts = _microaggregated(wanted, k, method, association, order, shares_of(shares))
    elif shared is not None:
        facts = _households(wanted, delta, bins_of(bins), names(shared) or [], rows)
    else:
        shown = _Shown(report, target, within, epsilons_of(against))
        facts = _marginals(wanted, delta, bins_of(bins), sets_of(marginals), rows, neighbours, mode, shown)
    if save_run is not None:
        asked = {
            "epsilon": epsilon, "method": method, "k": k, "delta": delta, "bins": bins, "marginals": marginals,
            "shared": names(shared), "rows": rows, "mode": mode, "neighbours": neighbours, "association": association,
            "order": order, "columns": names(columns), "analyst": analyst, "data_version": data_version,
        }  # fmt: skip
        _save(facts, wanted, asked, save_run)
    show_release(facts, as_json)


def _check_files(file: str, schema: Path, output: Path, others: dict[str, Path | None]) -> None:
    """Refuse what could not be written, or would be written over what is read."""
    from shoal.io import check_apart, check_folder, check_page, check_writable

    check_apart({"--output": output, **others}, [schema] if "://" in file else [Path(file), schema])
    check_writable(output)
    for option, path in others.items():
        if path is not None:
            (check_page if option == "--report" else check_folder)(path)


def _refuse_others(method: str, of_marginals: Keywords, of_groups: Keywords) -> None:
    """Refuse the options of other methods."""
    from shoal.errors import ParameterError

    if method not in METHODS:
        raise ParameterError(f"'method' must be one of {', '.join(METHODS)}. Got {method!r}.")
    refuse(f"Method {method!r}", of_groups if method == "marginals" else of_marginals)
    if of_marginals["--shared"] is not None:
        alone = ("--report", "--marginals", "--mode", "--neighbours")
        refuse("A release of households (--shared)", {name: of_marginals[name] for name in alone})


def _save(facts: Json, wanted: _Wanted, asked: Keywords, path: Path) -> None:
    from shoal.evidence import run_of_release

    run_of_release(facts, wanted.schema, asked, wanted.file, str(wanted.output)).save(path)


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

    @classmethod
    def of(
        cls, file: str, schema: Path, epsilon: float, output: Path, columns: list[str] | None, budget: float | None,
        analyst: str, ledger: str | None, data_version: str | None, picture: Path | None,
    ) -> _Wanted:  # fmt: skip
        """With the schema read, and the ledger beside it where none is named."""
        from shoal.schema import Schema

        place = ledger or str(schema.with_suffix(".ledger.db"))
        facts = Schema.from_toml(schema)
        return cls(file, facts, epsilon, output, columns, budget, analyst, place, data_version, picture)


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

    def check(self, released: list[str]) -> None:
        """Refuse a column that is not released."""
        from shoal.errors import ParameterError

        for name, value in (("--target", self.target), ("--within", self.within)):
            if value is not None and value not in released:
                raise ParameterError(f"{name} must be one of {', '.join(released)}. Got {value!r}.")


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
    from shoal.release.marginals import make_plan

    for each in (wanted.epsilon, *shown.epsilons):  # what the report needs is refused before the charge too
        plan = make_plan(
            wanted.schema, each, delta, wanted.columns, bins, mode, neighbours, marginals=marginals
        )
    shown.check([each.name for each in plan.axes])
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
