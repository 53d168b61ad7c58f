"""The pages of a dossier: one for the custodian and the officer, one that may be published."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from markupsafe import Markup

from shoal import __version__
from shoal.attacks import Attacks
from shoal.errors import InputError
from shoal.evidence import _private
from shoal.evidence._codebook import DRAWN, variables_of
from shoal.evidence._methods import how_section, notes_list, shown
from shoal.evidence._run import Run
from shoal.evidence._saved import SavedProtection
from shoal.evidence._texts import (
    iso_section,
    private_release_section,
    private_residual_section,
    release_section,
    residual_section,
    statement_section,
)
from shoal.report import Section, page, table, tiles
from shoal.report.attacks import CRITERIA, attack_table, rates_picture
from shoal.report.html import figure
from shoal.report.indicators import indicators_body
from shoal.report.words import identification_facts, percent, sample_words
from shoal.scenarios import ReleaseType
from shoal.utility import Fitness, General

COLOURS = ("green", "amber", "red")
_FILES = {
    "internal/report.html": "the run in full", "internal/attacks.html": "all attacks",
    "internal/attacks.json": "the attacks as figures", "internal/fitness.json": "indicators and utility as figures",
    "internal/run.json": "the run as it was saved", "public/index.html": "what may be published",
    "public/report.html": "the public report", "public/codebook.xml": "the codebook (DDI-Codebook 2.5)",
    "public/methods.json": "methods and parameters without the seed", "public/registry.json": "the registry's three tiers",
}  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """Everything that the pages are made of."""

    run: Run
    limits: ReleaseType
    published: pl.DataFrame | None = None
    saved: SavedProtection | None = None
    attacks: Attacks | None = None
    fitness: Fitness | None = None
    general: General | None = None
    mismatches: tuple[str, ...] = ()

    @property
    def treatments(self) -> dict[str, str]:
        """What was done to a column where its role does not say it: drawn under a guarantee, or changed by steps."""
        if self.private:
            return dict.fromkeys([] if self.published is None else self.published.columns, DRAWN)
        by_step: dict[str, list[str]] = {}
        for step in self.run.facts.get("steps") or ():
            for name in step.get("columns") or ():
                by_step.setdefault(name, []).append(str(step.get("method")))
        return {
            name: f"Changed by {', then '.join(each)}; not always the record's own."
            for name, each in by_step.items()
        }

    @property
    def private(self) -> bool:
        """Whether it left under a guarantee of differential privacy or one beside it."""
        return self.run.job != "protect"

    @property
    def status(self) -> str:
        if self.run.job == "ask":
            return "none"
        told = [str(self.run.facts.get("status", "green"))]
        told += [] if self.attacks is None else [self.attacks.status]
        told += ["red"] if self.mismatches else []
        return max(told, key=COLOURS.index)

    @property
    def reasons(self) -> tuple[str, ...]:
        if self.run.job == "ask":
            return ("a private answer stands by its guarantee; nothing was attacked",)
        own = (*self.mismatches, *self.run.facts.get("reasons", ()))
        return own + (() if self.attacks is None else self.attacks.reasons)


def internal_page(found: Evidence, files: Sequence[str]) -> str:
    run = found.run
    sections = [_summary(found), _scenario(found), how_section(run, found.limits, public=False)]
    if found.private:
        sections.append(_private.guarantee_section(run))
    if run.job == "ask":
        sections.append(_private.answer_section(run))
    if found.saved is not None:
        sections += [_risk(found), _verdicts(run, public=False)]
    if found.attacks is not None:
        sections += _criteria(found, found.attacks)
    if found.fitness is not None:
        words = "What the owner listed as what must still come out."
        sections.append(Section("Fitness for use", indicators_body(found.fitness), words))
    if found.general is not None:
        sections.append(_general(found.general))
    sections += [_residual(found), iso_section(run.job), statement_section(), _files(found, files)]
    when = run.written.replace("T", " ").replace("Z", " UTC")
    return page(
        f"Dossier: {run.schema.id}", sections, mark="Custodian and officer only",
        subtitle=f"Run of {when}, dossier written by shoal {__version__}. Print it as it is.",
    )  # fmt: skip


def public_page(found: Evidence, allow: tuple[str, ...]) -> str:
    run = found.run
    sections = [how_section(run, found.limits, public=True)]
    if found.private:
        sections.append(_private.guarantee_section(run))
    else:
        status = table(["what", "found"], [["status", run.facts["status"]], ["rule", run.rule]])
        sections += [_verdicts(run, public=True), Section("Status", status)]
    if run.job == "ask":
        sections.append(_private.answer_section(run))
    if "attacks" in allow and found.attacks is not None:
        sections += _criteria(found, found.attacks)
    if "indicators" in allow and found.fitness is not None:
        sections.append(Section("Fitness for use", indicators_body(found.fitness)))
    if "loss" in allow and "information_loss" in run.facts:
        lost = [["information loss", f"{run.facts['information_loss']:.3f} %"]]
        sections.append(Section("Loss", table(["measure", "lost"], lost)))
    if found.published is not None:
        sections.append(_codebook(found))
    words = (
        f"Allowed by the custodian: {', '.join(allow)}."
        if allow
        else "Nothing here was computed from the original."
    )
    if found.private:
        words = "Nothing here was computed from the original but what the guarantee covers."
    about = "answer" if run.job == "ask" else "table"
    return page(f"About this {about}: {run.schema.id}", sections, subtitle=words)


def _summary(found: Evidence) -> Section:
    run, facts = found.run, found.run.facts
    figures = [("status", found.status), ("job", run.job)]
    if "n_records" in facts:
        figures.append(("records", f"{facts['n_records']:,}"))
    figures += [(name, str(facts[name])) for name in ("k", "epsilon") if facts.get(name) is not None]
    if found.attacks is not None:
        figures.append(("attacks tried", str(len(found.attacks.results))))
    if found.fitness is not None:
        figures.append(("indicators kept", f"{100 * found.fitness.kept:.0f} %"))
    why = table(["why"], [[reason] for reason in found.reasons]) if found.reasons else Markup("")
    words = "The status is the worse of what is published and of what the attacks found."
    return Section("Summary", tiles(figures) + why, "" if found.attacks is None else words)


def _scenario(found: Evidence) -> Section:
    if not found.private:
        return release_section(found.limits)
    threshold = "" if found.attacks is None else _private.threshold(found.run, found.limits)
    return private_release_section(_private.INTRUDER, threshold, _private.conditions(found.run))


def _residual(found: Evidence) -> Section:
    if not found.private:
        return residual_section(found.status, found.reasons, found.limits)
    return private_residual_section(
        found.status, found.reasons, _private.conditions(found.run), _private.LEFT_OPEN
    )


def _verdicts(run: Run, *, public: bool) -> Section:
    """The models checked on what is published; how many records miss them is for the officer."""
    rows = []
    for each in run.facts.get("verdicts", ()):
        about = f" of {each['sensitive']}" if each["sensitive"] else ""
        demanded = "not demanded" if each["limit"] is None else shown(each["limit"])
        row = [each["model"] + about, ", ".join(each["quasi"]), shown(each["value"]), demanded]
        risk = each.get("records_at_risk")
        rows.append(row if public else [*row, "" if risk is None else shown(risk)])
    header = ["model", "columns", "reached", "demanded"] + ([] if public else ["records at risk"])
    return Section("Verdicts", table(header, rows), "Checked on the table that is published.")


def _risk(found: Evidence) -> Section:
    """Risk before and after, with the scenario, in the words of the report."""
    facts = found.run.facts
    rows = [
        [
            "Records at risk", "", percent(100 * facts.get("at_risk", 0)),
            "Below k in all published columns that are not sensitive.",
        ]
    ]  # fmt: skip
    rows += [[each.name, each.before, each.after, each.meaning] for each in identification_facts(facts)]
    rows += [
        [
            f"One value of {name}",
            "",
            percent(100 * share),
            "Every record that looks like them has the same value of it.",
        ]
        for name, share in (facts.get("attribute_disclosure") or {}).items()
    ]
    sample = sample_words(facts)
    for key, name, words in (
        ("dld", "Linked by the protected columns", "The nearest original is the record's own"),
        ("linkage", "Linked with all known columns", "The same with the columns left as they are"),
    ):
        if facts.get(key) is not None:
            rows.append([name, "", percent(100 * facts[key]), f"{words}{sample}."])
    return Section(
        "Risk before and after",
        table(["figure", "before", "after", "what it says"], rows),
        found.limits.intruder,
    )


def _criteria(found: Evidence, tried: Attacks) -> list[Section]:
    """A section for each criterion that was tried, the picture first."""
    rule = _private.threshold(found.run, found.limits) if found.private else tried.release_type.rule
    body = figure(rates_picture(tried.results), wide=True)
    body += notes_list(tried.notes) if tried.notes else Markup("")
    parts = [Section("Attacks", body, rule)]
    for criterion, question in CRITERIA.items():
        rows = [each for each in tried.results if each.criterion == criterion]
        if rows:
            parts.append(Section(criterion.capitalize(), attack_table(rows), question))
    return parts


def _general(told: General) -> Section:
    def share(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.3f}"

    rows = [
        ["told apart from the original (propensity)", share(told.propensity), "0 not at all, 1 perfectly"],
        ["difference of pairs of columns", share(told.total_variation),
         f"mean total variation, 0 none; worst: {', '.join(told.worst_pair)}"],
        ["change of mutual information", share(told.mutual_information), "mean over pairs of columns, 0 none"],
    ]  # fmt: skip
    if told.target is not None:
        rows += [
            [f"{told.target} guessed by a model of the originals", share(told.trained_here), "share of right guesses"],
            [f"{told.target} guessed by a model of the published rows", share(told.trained_there), "the same people asked about"],
            [f"{told.target} guessed as its most frequent value", share(told.naive), "what a model must beat"],
        ]  # fmt: skip
    words = "What nobody has listed: how near the published table is to the original as a whole."
    return Section("Utility in general", table(["measure", "figure", "what it says"], rows), words)


def _codebook(found: Evidence) -> Section:
    assert found.published is not None
    rows = [
        [each.name, "categories" if each.discrete else "numbers",
         f"{each.low:.6g} to {each.high:.6g}" if isinstance(each.low, float) and isinstance(each.high, float)
         else ", ".join(value for value, _, _ in each.categories[:12]) + (" ..." if len(each.categories) > 12 else ""),
         each.missing or 0, each.text]
        for each in variables_of(found.published, found.run.schema, done=found.treatments)
    ]  # fmt: skip
    words = "The same as XML for archives (DDI-Codebook 2.5): codebook.xml."
    return Section("Codebook", table(["column", "kind", "values", "missing", "what was done"], rows), words)


def _files(found: Evidence, files: Sequence[str]) -> Section:
    """What is in the folder, and the published file's own digest."""
    rows: list[list[Any]] = [
        [Markup('<a href="{}">{}</a>').format(name, name), what]
        for name, what in _FILES.items()
        if name in files
    ]
    rows += _digests(found)
    return Section("Files", table(["file", "what it is"], rows))


def _digests(found: Evidence) -> list[list[Any]]:
    """The published file, or each file of a published folder, with its digest."""
    try:
        place = found.run.path("output")
    except InputError:
        return []
    files = (
        [place] if place.is_file() else sorted(each for each in place.iterdir() if each.name[0] not in "._")
    )
    return [
        [each.name, f"the published file, SHA-256 {hashlib.sha256(each.read_bytes()).hexdigest()}"]
        for each in files
        if each.is_file()
    ]
