"""The facts of a report as plain values, taken from a protection; nothing here knows HTML.

A public report must not tell anything that only the original tells. So `gather` with `public=True` reads
the published table, its labels, verdicts and settings, and looks at nothing else.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal import __version__
from shoal.report.certificate import Certificate, certificate_of
from shoal.report.columns import (
    ColumnComparison,
    ColumnsFact,
    LeftColumn,
    column_facts,
    compare_columns,
    left_columns,
)
from shoal.report.repeat import settings_rows
from shoal.report.sentences import ProtectionLike, sentences_of
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
    moment = now or datetime.datetime.now(datetime.UTC)
    return ReportFacts(
        title=_title(protection.schema),
        public=public,
        version=__version__,
        written=moment.strftime("%Y-%m-%d %H:%M %Z").strip(),
        k=k,
        status=StatusFact(
            protection.status, "" if public else protection.advice, protection.reasons, protection.rule
        ),
        sentences=sentences_of(protection, height, sizes, names, left, figures),
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
        certificate=certificate_of(figures),
        settings=settings_rows(_public(settings) if public else settings),
        command="" if public else protection.command(),
        python=protection.python(public=public),
        schema="" if public else protection.schema.to_toml(),
        fitness=None if public else getattr(protection, "fitness", None),
    )


def _title(schema: Schema) -> str:
    return "Protection report" if schema.id == "table" else f"Protection report: {schema.id}"


def _k_words(settings: Mapping[str, Any], sizes: np.ndarray, unit: str) -> str:
    """What k holds of; in a run of steps all treated columns together may keep less."""
    k = settings.get("k", sizes.min())
    if settings.get("method") == "steps" and int(sizes.min()) < int(k):
        return (
            f"{k} on the columns of each step that keeps one (see the verdicts), not on all of them together"
        )
    return f"every group has at least {k} {unit}"


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


def _public(settings: Mapping[str, Any]) -> Json:
    """The settings without where the files lie and without the seed."""
    hidden = ("source", "command", "random_state")
    told = {name: value for name, value in settings.items() if name not in hidden}
    own = settings.get("parameters", {})
    return told | {"parameters": {name: value for name, value in own.items() if name not in hidden}}
