"""The facts of a report as plain values, taken from a protection; nothing here knows HTML.

A public report must not tell anything that only the original tells. So `gather` with `public=True` reads
the published table, its labels, verdicts and settings, and looks at nothing else.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl

from shoal import __version__
from shoal.report.columns import (
    ColumnComparison,
    ColumnsFact,
    LeftColumn,
    column_facts,
    compare_columns,
    left_columns,
)
from shoal.report.repeat import settings_rows
from shoal.report.steps import RuleFact, StepFact, rule_facts, step_facts
from shoal.report.words import (
    BeforeAfter,
    FigureFact,
    counted,
    identification_facts,
    listed,
    loss_facts,
    number,
    percent,
    risk_facts,
    riskiest_column,
    verdict_meaning,
)
from shoal.schema import Schema
from shoal.typing import Json

DRAWN_COLUMNS = 24
OPTIMAL_GAP = 2e-4  # per cent: the tolerance of the integer programme behind a certificate


class ProtectionLike(Protocol):
    """What a report reads of a protection."""

    @property
    def verdicts(self) -> tuple[Any, ...]: ...  # noqa: D102
    @property
    def figures(self) -> Any: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def reasons(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def rule(self) -> str: ...  # noqa: D102
    @property
    def advice(self) -> str: ...  # noqa: D102
    @property
    def schema(self) -> Schema: ...  # noqa: D102
    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def sizes(self) -> np.ndarray: ...  # noqa: D102
    @property
    def original(self) -> pl.DataFrame: ...  # noqa: D102
    @property
    def published(self) -> pl.DataFrame: ...  # noqa: D102
    def settings(self) -> Json: ...  # noqa: D102
    def command(self) -> str: ...  # noqa: D102
    def python(self, *, public: bool = False) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class StatusFact:
    """The status for reading: colour, what it asks the custodian to do, why, and the rule."""

    colour: str
    advice: str
    reasons: tuple[str, ...]
    rule: str


@dataclass(frozen=True)
class VerdictFact:
    """A verdict for reading; `state` is "holds", "fails" or "reported" where nothing was demanded."""

    model: str
    about: str
    columns: str
    reached: str
    demanded: str
    state: str
    groups: str
    at_risk: str
    meaning: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ColumnLoss:
    """The loss of one column in per cent, and its share of the largest one for a bar."""

    name: str
    loss: float
    shown: str
    bar: float


@dataclass(frozen=True)
class Certificate:
    """How far from the least possible loss the partition can be."""

    sentence: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ReportFacts:
    """Everything a report says, in the order it says it."""

    title: str
    public: bool
    version: str
    written: str
    k: int
    status: StatusFact
    sentences: tuple[str, ...]
    tiles: tuple[tuple[str, str], ...]
    how: tuple[tuple[str, str], ...]
    columns: tuple[ColumnsFact, ...]
    verdicts: tuple[VerdictFact, ...]
    sizes: np.ndarray
    comparisons: tuple[ColumnComparison, ...]
    not_drawn: int
    loss: tuple[FigureFact, ...]
    risk: tuple[FigureFact, ...]
    steps: tuple[StepFact, ...]
    rules: tuple[RuleFact, ...]
    identification: tuple[BeforeAfter, ...]
    riskiest: str
    measured: str
    loss_per_column: tuple[ColumnLoss, ...]
    left: tuple[LeftColumn, ...]
    left_together: str
    notes: tuple[str, ...]
    readings: tuple[str, ...]
    certificate: Certificate | None
    settings: tuple[tuple[str, str], ...]
    command: str
    python: str
    schema: str
    fitness: Any


def gather(
    protection: ProtectionLike, *, public: bool = False, now: datetime.datetime | None = None
) -> ReportFacts:
    """Collect the facts of a report.

    Parameters
    ----------
    protection : Protection
    public : bool, default False
        Leave out all that is computed from the original.
    now : datetime, optional
        When the report is written.
    """
    settings = protection.settings()
    table = protection.published
    sizes = protection.sizes
    height = int(sizes.sum())
    k = int(settings.get("k", sizes.min()))
    figures: Mapping[str, Any] = {} if public else protection.figures.to_dict()
    left, together = left_columns(table, settings)
    names = [name for name in settings.get("columns", ()) if name in table.columns]
    per_column = figures.get("loss_per_column", {})
    drawn = [] if public else names[:DRAWN_COLUMNS]
    notes = () if public else protection.notes
    stamp = now or datetime.datetime.now(datetime.UTC)
    return ReportFacts(
        title=_title(protection.schema),
        public=public,
        version=__version__,
        written=stamp.strftime("%Y-%m-%d %H:%M %Z").strip(),
        k=k,
        status=StatusFact(
            protection.status, "" if public else protection.advice, protection.reasons, protection.rule
        ),
        sentences=_sentences(protection, height, sizes, names, left, figures),
        tiles=_tiles(height, sizes, len(names), figures),
        how=_how(settings, height, sizes, figures),
        columns=column_facts(settings, protection.schema),
        verdicts=tuple(_verdict(each) for each in protection.verdicts),
        sizes=sizes,
        comparisons=compare_columns(
            protection.original, table, protection.schema, drawn, per_column, settings.get("weights")
        )
        if drawn
        else (),
        not_drawn=0 if public else len(names) - len(drawn),
        loss=loss_facts(figures),
        risk=risk_facts(figures, sizes.size / max(height, 1)),
        steps=step_facts(figures),
        rules=rule_facts(figures),
        identification=identification_facts(figures),
        riskiest=riskiest_column(figures),
        measured=_measured(figures),
        loss_per_column=_losses(per_column),
        left=left,
        left_together=_together(left, together, table.height),
        notes=tuple(note for note in notes if not _is_reading(note)),
        readings=tuple(note for note in notes if _is_reading(note)),
        certificate=_certificate(figures),
        settings=settings_rows(_public(settings) if public else settings),
        command="" if public else protection.command(),
        python=protection.python(public=public),
        schema="" if public else protection.schema.to_toml(),
        fitness=None if public else getattr(protection, "fitness", None),
    )


def _title(schema: Schema) -> str:
    return "Protection report" if schema.id == "table" else f"Protection report: {schema.id}"


def _titled(verdict: Any) -> str:
    return f"{verdict.model} of {verdict.sensitive}" if verdict.sensitive else verdict.model


def _k_words(settings: Mapping[str, Any], sizes: np.ndarray, unit: str) -> str:
    """What k holds of; in a run of steps all treated columns together may keep less."""
    k = settings.get("k", sizes.min())
    if settings.get("method") == "steps" and int(sizes.min()) < int(k):
        return (
            f"{k} on the columns of each step that keeps one (see the verdicts), not on all of them together"
        )
    return f"every group has at least {k} {unit}"


def _sentences(
    protection: ProtectionLike,
    height: int,
    sizes: np.ndarray,
    names: list[str],
    left: tuple[LeftColumn, ...],
    figures: Mapping[str, Any],
) -> tuple[str, ...]:
    """What happened, what could be found out, what is not covered: a sentence each."""
    # Of several steps each has a verdict, on fewer columns than the last: what holds on all of them is the least.
    held = [each.value for each in protection.verdicts if each.model.startswith("k-anonymity")]
    reached = min(held, default=None)
    alike = (
        ""
        if reached is None
        else (
            f": on {'it' if len(names) == 1 else 'them'} everyone looks like at least {counted(reached - 1, 'other')}"
            if reached > 1
            else ", and yet someone is alone on them"
        )
    )
    settings = protection.settings()
    strata = list(settings.get("strata", ()))
    apart = settings.get("method") == "steps" and int(sizes.min()) < int(settings.get("k", 0))
    within = f" within the strata of {listed(strata)}" if strata else ""
    first = (
        f"{counted(height, 'record')} were put into {counted(sizes.size, 'group')} of at least {sizes.min():,}"
        f"{within}, and {counted(len(names), 'protected column is', 'protected columns are')} the same for all "
        f"members of a group{alike}."
    )
    if apart:  # each set of columns keeps its k, all of them together do not
        first = (
            f"{counted(height, 'record')} were treated in several steps, each on columns of its own. Each verdict holds on the "
            f"columns it names and on no others: on all {number(len(names))} treated columns together, records are alike in "
            f"{counted(sizes.size, 'group')} of {sizes.min():,} to {sizes.max():,}."
        )
    if "dld" in figures:
        lost = f"; the price is {percent(figures['information_loss'])} of the variation between records"
        second = (
            "An intruder who holds the original values of these columns and takes the nearest original for each "
            f"published record would be right for {percent(100 * figures['dld'])} of them"
            f"{_knowing(figures)}{_of_a_sample(figures)}{lost if 'information_loss' in figures else ''}."
        )
    else:
        asked = [each for each in protection.verdicts if each.holds is not None]
        met = [_titled(each) for each in asked if each.holds]
        second = (
            f"The published table itself was checked: {len(met)} of {counted(len(asked), 'demanded model')} "
            f"{'holds' if len(asked) == 1 else 'hold'} ({listed(met)})."
        )
    what = "aggregated columns and strata" if strata else "aggregated columns"
    rest = listed([each.name for each in left]) if left else ""
    third = (
        f"This is k-anonymity of the {what} taken as quasi-identifiers, and nothing about columns left as they "
        f"are{f': {rest}' if rest else '; here there is none'}."
    )
    return first, second, third


def _knowing(figures: Mapping[str, Any]) -> str:
    """What the columns left as they are add to linkage, where they add anything."""
    linked = figures.get("linkage")
    if linked is None or linked <= figures["dld"]:
        return ""
    return f", and for {percent(100 * linked)} with the columns left as they are"


def _of_a_sample(figures: Mapping[str, Any]) -> str:
    """Said where linkage was sought for some of the records only."""
    sought = figures.get("linked_records")
    return (
        ""
        if sought is None or sought >= figures.get("n_records", 0)
        else f" (a sample of {sought:,} was tried)"
    )


def _tiles(
    height: int, sizes: np.ndarray, columns: int, figures: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    tiles = [
        ("records", f"{height:,}"),
        ("groups", f"{sizes.size:,}"),
        ("smallest group", f"{sizes.min():,}"),
        ("columns", f"{columns:,}"),
    ]
    if "at_risk" in figures:
        tiles.append(("at risk", percent(100 * figures["at_risk"])))
    if "information_loss" in figures:
        tiles.append(("information lost", percent(figures["information_loss"])))
    if "dld" in figures:
        tiles.append(("linked back", percent(100 * figures.get("linkage", figures["dld"]))))
    return tuple(tiles)


def _how(
    settings: Mapping[str, Any], height: int, sizes: np.ndarray, figures: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    # The methods bring their compiler, which pages without a protection do not need.
    from shoal.microaggregation import methods

    name = str(settings.get("method", ""))
    known = methods()
    what = (known[name].__doc__ or "").strip().splitlines()[0].replace("`", "") if name in known else ""
    spread = (
        f"each of {counted(sizes.min(), 'record')}"
        if sizes.min() == sizes.max()
        else f"of {sizes.min():,} to {sizes.max():,} records, {sizes.mean():.3g} on average"
    )
    apart = name in ("steps", "suppress", "generalize")  # these count records unless a step says otherwise
    unit = "households" if settings.get("households") and not apart else "records"
    rows = [
        ("Method", f"{name} ({what.rstrip('.')})" if what else name),
        ("k", _k_words(settings, sizes, unit)),
        ("Records", f"{height:,}"),
        ("Groups", f"{sizes.size:,}, {spread}"),
    ]
    for key, title in (("strata", "Strata"), ("weights", "Survey weights"), ("households", "Households")):
        if settings.get(key):
            value = settings[key]
            rows.append((title, value if isinstance(value, str) else listed(value)))
    if settings.get("integers") == "round":
        rows.append(("Integers", "means of integer columns are rounded"))
    if "seconds" in figures:
        rows.append(("Time", f"{figures['seconds']:.3g} s"))
    return tuple(rows)


def _verdict(verdict: Any) -> VerdictFact:
    return VerdictFact(
        model=verdict.model,
        about=verdict.sensitive or "",
        columns=listed(verdict.quasi),
        reached=number(verdict.value),
        demanded="–" if verdict.limit is None else number(verdict.limit),
        state={True: "holds", False: "fails", None: "reported"}[verdict.holds],
        groups=f"{verdict.n_classes:,}",
        at_risk="–" if verdict.records_at_risk is None else f"{verdict.records_at_risk:,}",
        meaning=verdict_meaning(verdict.model, verdict.sensitive, verdict.value),
        notes=tuple(verdict.notes),
    )


def _measured(figures: Mapping[str, Any]) -> str:
    count = figures.get("measured_records")
    if not count or count == figures.get("n_records"):
        return ""
    return f"Linkage and the figures of number columns were measured on even selections of at most {count:,} records."


def _losses(per_column: Mapping[str, float]) -> tuple[ColumnLoss, ...]:
    largest = max(per_column.values(), default=0.0)
    return tuple(
        ColumnLoss(name, loss, percent(loss), max(0.0, loss) / largest if largest > 0 else 0.0)
        for name, loss in sorted(per_column.items(), key=lambda item: -item[1])
    )


def _together(left: tuple[LeftColumn, ...], share: float, height: int) -> str:
    untouched = [each.name for each in left if each.role == "leave"]
    if len(untouched) < 2:
        return ""
    alone = counted(round(share * height), "record")
    return f"Taken together, the columns left as they are single out {alone} ({percent(100 * share)}) of the published table."


def _is_reading(note: str) -> bool:
    """Whether a note only says how a column was read where no schema said so."""
    return note.startswith("Column ") and " was taken as " in note


def _certificate(figures: Mapping[str, Any]) -> Certificate | None:
    given = figures.get("certificate")
    if not given:
        return None
    bound, gap, proven = given.get("bound"), given.get("gap"), bool(given.get("proven"))
    if bound is None or gap is None:
        sentence = "No lower bound was found in the time given, so nothing is said about the optimum."
    elif not proven:
        sentence = f"A lower bound of {percent(bound)} was found but not proven, so nothing is said about the optimum."
    elif gap <= OPTIMAL_GAP:
        sentence = "No partition into groups of at least k loses less: this one is proven to be optimal."
    else:
        sentence = (
            f"No partition into groups of at least k can lose less than {percent(bound)}: another one could save "
            f"at most {percent(gap)} of the loss of this one."
        )
    rows = [("Lower bound of the loss", percent(bound) if bound is not None else "none")]
    if gap is not None:
        rows.append(("Gap", percent(gap)))
    rows.append(("Bound proven", "yes" if proven else "no"))
    if given.get("method"):
        rows.append(("Found by", str(given["method"])))
    if given.get("seconds") is not None:
        rows.append(("Time", f"{given['seconds']:.3g} s"))
    if given.get("note"):
        rows.append(("Note", str(given["note"])))
    return Certificate(sentence, tuple(rows))


def _public(settings: Mapping[str, Any]) -> Json:
    """The settings without where the files lie and without the seed."""
    hidden = ("source", "command", "random_state")
    told = {name: value for name, value in settings.items() if name not in hidden}
    own = settings.get("parameters", {})
    return told | {"parameters": {name: value for name, value in own.items() if name not in hidden}}
