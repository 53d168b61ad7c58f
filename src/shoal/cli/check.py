"""`shoal check`: what a table reaches of k-anonymity, l-diversity, t-closeness and delta-presence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from shoal.cli._console import names, print_json, progress
from shoal.cli._options import AsJson
from shoal.typing import Json, Keywords

if TYPE_CHECKING:
    import polars as pl

    from shoal.privacy import Verdict
    from shoal.schema import Schema

SHOWN = 3


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(check)


def check(
    file: Annotated[str, typer.Argument(help="The table to check; - for a pipe.")],
    quasi: Annotated[
        str | None, typer.Option(help="Columns an intruder knows, separated by commas; else the schema's.")
    ] = None,
    sensitive: Annotated[
        str | None, typer.Option(help="Columns to stay uncertain, separated by commas; else the schema's.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Column of survey weights: risk in the population behind the sample.")
    ] = None,
    households: Annotated[
        str | None, typer.Option(help="Column of households: one member found reveals the others.")
    ] = None,
    original: Annotated[
        str | None, typer.Option(help="The table before protection: the same figures, and linkage.")
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="A table of everyone: delta-presence and risk in the population.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", help="Demand: smallest class.")] = None,
    l: Annotated[float | None, typer.Option("--l", help="Demand: different sensitive values.")] = None,
    t: Annotated[float | None, typer.Option("--t", help="Demand: largest distance of a class.")] = None,
    c: Annotated[
        float | None, typer.Option("--c", help="Also recursive (c, l)-diversity with this c.")
    ] = None,
    entropy_l: Annotated[
        float | None, typer.Option(help="Demand: entropy l-diversity of the sensitive columns.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Demand: largest share of a sensitive value in a class.")
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="Demand: largest gain of a sensitive value's share (beta-likeness).")
    ] = None,
    enhanced_beta: Annotated[
        float | None,
        typer.Option(help="Demand: the same, and at most -log of the value's share in the table."),
    ] = None,
    delta_disclosure: Annotated[
        float | None, typer.Option(help="Demand: largest absolute logarithm of the ratio of these shares.")
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="Demand for --population: smallest,largest probability of presence.")
    ] = None,
    distance: Annotated[
        str, typer.Option(help="Distance of sensitive values: auto, equal, ordered or hierarchical.")
    ] = "auto",
    schema: Annotated[
        Path | None, typer.Option(help="Schema file (TOML): roles, order and hierarchy of levels.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Check a table: which privacy models hold, whether they meet the demands (if not, exit 1), and the worst class.

    Example: shoal check survey.csv --quasi age,region --sensitive disease --k 5 --l 2 --t 0.2
    """
    from shoal import privacy
    from shoal.errors import ParameterError
    from shoal.schema import Schema

    if delta is not None and population is None:
        raise ParameterError("'--delta' is a demand on presence in a population: give --population too.")
    demands: Keywords = {
        "k": k, "l": l, "t": t, "c": c, "entropy_l": entropy_l, "alpha": alpha, "beta": beta, "enhanced_beta": enhanced_beta,
        "delta_disclosure": delta_disclosure,
    }  # fmt: skip
    with progress() as say:
        say(f"reading {file}")
        facts = None if schema is None else Schema.from_toml(schema)
        asked = _Asked.of(facts, names(quasi), names(sensitive), demands, distance)
        frame = asked.read(file, exact=population is None and original is None)
        say("checking")
        verdicts = list(asked.verdicts(frame))
        # A published file lacks the household's number, which its schema still names.
        weights = weights or _only(facts, "weight", frame)
        households = households or _only(facts, "household", frame)
        figures: Json = {"risk": _risk(frame, asked.known, weights, households)}
        if population is not None:
            everyone = asked.read(population)
            verdicts.append(privacy.delta_presence(frame, everyone, asked.known, limits=_limits(delta)))
            figures["population"] = _population_risk(frame, everyone, asked.known)
        if original is not None:
            say("comparing with the original")
            before = asked.read(original)
            figures["original"] = _summary(asked.verdicts(before))
            figures["original"]["risk"] = _risk(before, asked.known, weights, households)
            figures |= _linkage(before, frame, asked.known, facts)
    summary = _summary(verdicts) | figures
    summary["expected_reidentifications"] = figures["risk"].get("expected_reidentifications")
    if json:
        print_json(summary | {"verdicts": [verdict.to_dict() for verdict in verdicts]})
    else:
        _tell(verdicts, figures)
    if summary["holds"] is False:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Asked:
    """What is asked of every table that the command reads: the columns, the demands, how values are compared."""

    facts: Schema | None
    known: list[str]
    hidden: list[str]
    options: Keywords

    @classmethod
    def of(
        cls,
        facts: Schema | None,
        quasi: list[str] | None,
        sensitive: list[str] | None,
        demands: Keywords,
        distance: str,
    ) -> Self:
        """Columns as the options name them, else as the schema does."""
        from shoal.errors import InputError

        known = quasi or ([] if facts is None else [*facts.names("quasi"), *facts.names("stratum")])
        if not known:
            raise InputError("The check needs quasi-identifiers: give --quasi or a schema with such roles.")
        hidden = sensitive or ([] if facts is None else facts.names("sensitive"))
        distances, levels = _distances(facts, hidden, distance)
        return cls(facts, known, hidden, {**demands, "distance": distances, "levels": levels})

    def read(self, path: str, *, exact: bool = False) -> pl.DataFrame:
        """A table under the schema; exact: who sees the file tells 250.10 from 250.1, so numbers stay as they are written."""
        from shoal.io import read_table
        from shoal.schema import decode_table

        marks = None if self.facts is None else self.facts.file
        return decode_table(read_table(path, marks, exact=self.known if exact else ()), self.facts)

    def verdicts(self, frame: pl.DataFrame) -> tuple[Verdict, ...]:
        """Whether a table meets the demands."""
        from shoal import privacy

        return tuple(privacy.check(frame, self.known, self.hidden, **self.options))


def _distances(
    facts: Schema | None, hidden: list[str], distance: str
) -> tuple[str | dict[str, str], Keywords]:
    """The distance of each sensitive column's values, where the schema declares one."""
    columns = {} if facts is None else {n: facts.columns[n] for n in hidden if n in facts.columns}
    levels = {
        name: column.hierarchy or column.levels
        for name, column in columns.items()
        if column.hierarchy or (column.kind == "ordered" and column.levels)
    }
    if distance != "auto":
        return distance, levels
    return {name: "hierarchical" for name in levels if columns[name].hierarchy}, levels


def _limits(delta: str | None) -> tuple[float, float] | None:
    from shoal.errors import ParameterError

    parts = names(delta)
    if parts is None:
        return None
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise ParameterError(f"'--delta' must be two numbers, such as 0.05,0.5. Got {delta!r}.") from None
    return low, high


def _summary(verdicts: list[Verdict] | tuple[Verdict, ...]) -> Json:
    """The figures of all verdicts in a few keys; of several sensitive columns the worst."""
    import numpy as np

    def values(start: str) -> list[Any]:
        return [verdict.value for verdict in verdicts if verdict.model.startswith(start)]

    demanded = [verdict for verdict in verdicts if verdict.limit is not None]
    inside = [each for each in verdicts if not each.model.startswith("delta-presence")]
    # With demands, whoever is in a class that misses one; without, whoever is unique.
    masks = [each.at_risk for each in inside if each.limit is not None] or [inside[0].at_risk]
    at_risk = np.logical_or.reduce([mask for mask in masks if mask is not None])
    facts = {
        "k": values("k-")[0],
        "l_distinct": min(values("distinct"), default=None),
        "l_entropy": min(values("entropy"), default=None),
        "l_recursive": min(values("recursive"), default=None),
        "t": max(values("t-"), default=None),
        "alpha": max(values("(alpha"), default=None),
        "beta": max(values("beta"), default=None),
        "enhanced_beta": None if None in values("enhanced") else max(values("enhanced"), default=None),
        "delta_disclosure": None if None in values("delta-d") else max(values("delta-d"), default=None),
        "delta": next(iter(values("delta-presence")), None),
        "records_at_risk": int(at_risk.sum()),
        "share_at_risk": float(at_risk.mean()),
        "n_records": inside[0].n_records,
        "n_classes": inside[0].n_classes,
        "missing_records": inside[0].missing_records,
        "holds": all(verdict.holds for verdict in demanded) if demanded else None,
    }
    optional = ("l_recursive", "alpha", "beta", "enhanced_beta", "delta_disclosure", "delta")
    return {key: value for key, value in facts.items() if key not in optional or value is not None}


def _only(facts: Schema | None, role: str, frame: pl.DataFrame) -> str | None:
    """The one column of a role, where the schema declares it and the table has it."""
    found = [] if facts is None else [name for name in facts.names(role) if name in frame.columns]
    return found[0] if found else None


def _risk(frame: pl.DataFrame, known: list[str], weights: str | None, households: str | None) -> Json:
    """Records in small classes; with weights or households what an intruder is expected to find."""
    from shoal import risk

    found = risk.measure(frame, known, weights=weights, households=households)
    figures = found.to_dict()
    if weights is not None:
        from shoal.engine.frame import Frame

        people = float(risk.survey_weights(Frame(frame), weights).sum())
        fraction = min(1.0, found.n_records / people)
        unique = risk.population_uniqueness(frame, known, sampling_fraction=fraction)
        figures["population_uniqueness"] = unique.to_dict()
    elif households is None:
        figures.pop("expected_reidentifications")
    if households is not None:
        figures["composition"] = risk.composition(frame, known, households).to_dict()
    return figures


def _population_risk(frame: pl.DataFrame, everyone: pl.DataFrame, known: list[str]) -> dict[str, float]:
    from shoal import risk

    return risk.measure(frame, known, population=everyone).to_dict()


def _linkage(
    before: pl.DataFrame, after: pl.DataFrame, known: list[str], facts: Schema | None
) -> dict[str, float]:
    """Linkage by all quasi-identifiers, as `protect` measures it, where both tables have the same rows."""
    from shoal.engine.roles import settled_schema
    from shoal.measures import coordinates, linked_share, probabilistic_linkage
    from shoal.publish.stages.measure import MEASURED_RECORDS
    from shoal.schema import Schema

    if before.height != after.height:
        return {}
    declared = {} if facts is None else {n: facts.columns[n] for n in known if n in facts.columns}
    settled = settled_schema(before.select(known), Schema(declared), {"quasi": known})[0]
    A, B = coordinates(before, after, [settled.columns[name] for name in known])
    return {
        "dld": linked_share(A, B, max_records=MEASURED_RECORDS),
        "probabilistic_linkage": probabilistic_linkage(A, B).share,
    }


def _tell(verdicts: list[Verdict], figures: Json) -> None:
    _tell_expected(figures["risk"])
    for verdict in verdicts:
        mark = {True: "holds", False: "FAILS", None: "-----"}[verdict.holds]
        typer.echo(f"{mark}  {verdict}")
        if verdict.holds is False:
            for worst in verdict.worst[:SHOWN]:
                typer.echo(f"       worst: {worst}")
        for note in verdict.notes:
            typer.echo(f"       note: {note}")
    _tell_risk(figures["risk"], "Records in classes below")
    if "population" in figures:
        risk = figures["population"]
        typer.echo(
            f"In the population: smallest class {risk['k_map']:g}, journalist risk {risk['journalist']:.3g}, "
            f"{risk['expected_reidentifications']:.4g} right matches expected."
        )
    if "original" in figures:
        was = figures["original"]
        shown = ", ".join(
            f"{key} {was[key]:.4g}" for key in ("k", "l_distinct", "l_entropy", "t") if was[key] is not None
        )
        typer.echo(f"Before protection: {shown}, {was['records_at_risk']:,} records at risk.")
        _tell_risk(was["risk"], "       records in classes below")
    if "dld" in figures:
        typer.echo(
            f"Linked to their own original: {100 * figures['dld']:.3g} % by distance, "
            f"{100 * figures['probabilistic_linkage']:.3g} % by probability (for the custodian only)."
        )


def _tell_risk(figures: Json, start: str) -> None:
    counts = ", ".join(f"{size}: {figures[f'below_{size}']:,}" for size in (2, 3, 5))
    typer.echo(f"{start} {counts}.")
    if start.strip()[0].islower():
        _tell_expected(figures, "       ")
    homes = figures.get("composition")
    if homes is not None:
        found = ", ".join(f"{homes[f'below_{size}']:,}" for size in (2, 3, 5))
        typer.echo(
            f"Households with a composition that occurs in fewer than 2, 3, 5 households: {found} of {homes['households']:,}."
        )


def _tell_expected(figures: Json, start: str = "") -> None:
    """The headline: how many people would be found."""
    if "expected_reidentifications" not in figures:
        return
    line = f"{start}Expected re-identifications {figures['expected_reidentifications']:.4g}"
    if "expected_with_households" in figures:
        line += f", {figures['expected_with_households']:.4g} with households"
    line += f" (by {figures['source']})."
    uniques = figures.get("population_uniqueness", {}).get("population_uniques")
    if uniques is not None and figures["unique"]:
        line += f" Unique in the population: about {uniques:,.0f} people."
    typer.echo(line)
