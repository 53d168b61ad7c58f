"""The pages of a dossier: one for the custodian and the officer, one that may be published."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import polars as pl
from markupsafe import Markup

from shoal import __version__
from shoal.attacks import Attacks
from shoal.errors import InputError
from shoal.evidence._codebook import variables_of
from shoal.evidence._run import Run
from shoal.evidence._saved import SavedProtection
from shoal.evidence._texts import iso_section, release_section, residual_section, statement_section
from shoal.report import Section, page, table, tiles
from shoal.report.attacks import CRITERIA, attack_table, rates_picture
from shoal.report.html import figure
from shoal.report.indicators import indicators_body
from shoal.report.words import identification_facts, percent, sample_words
from shoal.scenarios import ReleaseType
from shoal.typing import Json
from shoal.utility import Fitness, General

COLOURS = ("green", "amber", "red")
# Of a step what was asked for.
_OF_STEP = ("method", "columns", "k", "level", "within")
# Settings that tell of the run's chance or of the owner's files.
_HIDDEN = ("random_state", "source", "command", "key")


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

    @property
    def status(self) -> str:
        told = [str(self.run.facts.get("status", "green"))]
        told += [] if self.attacks is None else [self.attacks.status]
        return max(told, key=COLOURS.index)

    @property
    def reasons(self) -> tuple[str, ...]:
        own = tuple(self.run.facts.get("reasons", ()))
        return own + (() if self.attacks is None else self.attacks.reasons)


def internal_page(found: Evidence) -> str:
    run = found.run
    sections = [_summary(found), release_section(found.limits), _how(found, public=False)]
    if found.saved is not None:
        sections.append(_risk(found))
    if found.attacks is not None:
        sections += _criteria(found.attacks)
    if found.fitness is not None:
        sections.append(
            Section(
                "Fitness for use",
                indicators_body(found.fitness),
                "What the owner listed as what must still come out.",
            )
        )
    if found.general is not None:
        sections.append(Section("Utility in general", _general(found.general)))
    if run.job != "protect":
        sections.append(_guarantee(found))
    sections += [
        residual_section(found.status, found.reasons, found.limits),
        iso_section(),
        statement_section(),
    ]
    sections.append(_files(found))
    return page(
        f"Dossier: {run.schema.id}", sections, mark="Custodian and officer only",
        subtitle=f"Run of {run.written}, dossier written by shoal {__version__}. Print it as it is.",
    )  # fmt: skip


def public_page(found: Evidence, allow: tuple[str, ...]) -> str:
    run = found.run
    sections = [_how(found, public=True)]
    if run.job == "protect":
        verdicts = [
            [each["model"] + (f" of {each['sensitive']}" if each["sensitive"] else ""), ", ".join(each["quasi"]), _shown(each["value"]),
             "" if each["limit"] is None else _shown(each["limit"])]
            for each in run.facts.get("verdicts", ())
        ]  # fmt: skip
        sections.append(
            Section(
                "Verdicts",
                table(["model", "columns", "reached", "demanded"], verdicts),
                "Checked on the table that is published.",
            )
        )
        sections.append(
            Section("Status", table(["", ""], [["status", run.facts["status"]], ["rule", run.rule]]))
        )
    else:
        sections.append(_guarantee(found))
    if "attacks" in allow and found.attacks is not None:
        sections += _criteria(found.attacks)
    if "indicators" in allow and found.fitness is not None:
        sections.append(Section("Fitness for use", indicators_body(found.fitness)))
    if "loss" in allow and "information_loss" in run.facts:
        sections.append(
            Section("Loss", table(["", ""], [["information loss", f"{run.facts['information_loss']:.3f} %"]]))
        )
    if found.published is not None:
        sections.append(_codebook(found))
    allowed = f" Allowed by the custodian: {', '.join(allow)}." if allow else ""
    return page(
        f"About this table: {run.schema.id}", sections,
        subtitle=f"Nothing here was computed from the original.{allowed}" if not allow else allowed.strip(),
    )  # fmt: skip


def _summary(found: Evidence) -> Section:
    run, facts = found.run, found.run.facts
    shown = [("status", found.status), ("job", run.job)]
    if "n_records" in facts:
        shown.append(("records", f"{facts['n_records']:,}"))
    shown += [(name, str(facts[name])) for name in ("k", "epsilon") if facts.get(name) is not None]
    if found.attacks is not None:
        shown.append(("attacks tried", str(len(found.attacks.results))))
    if found.fitness is not None:
        shown.append(("indicators kept", f"{100 * found.fitness.kept:.0f} %"))
    why = table(["why"], [[reason] for reason in found.reasons]) if found.reasons else Markup("")
    return Section(
        "Summary",
        tiles(shown) + why,
        "The status is the worse of what is published and of what the attacks found.",
    )


def _how(found: Evidence, *, public: bool) -> Section:
    run = found.run
    told = methods_of(found) if public else {**methods_of(found), "seed": run.request.get("random_state", 0)}
    rows = [
        [name.replace("_", " "), _shown(value)]
        for name, value in told.items()
        if value not in (None, [], {}, "")
    ]
    body = table(["", ""], [row for row in rows if row[0] not in ("steps", "rules")])
    if told.get("steps"):
        body += Markup("<h3>Steps, in their order</h3>") + table(
            ["method", "columns", "k", "level", "within"],
            [
                [
                    each["method"],
                    ", ".join(each["columns"]),
                    _shown(each["k"]),
                    each["level"],
                    ", ".join(each["within"]),
                ]
                for each in told["steps"]
            ],
        )
    if told.get("rules"):
        body += Markup("<h3>Rules that were kept</h3>") + table(
            ["rule", "kind"], [[each["rule"], each["kind"].replace("_", " ")] for each in told["rules"]]
        )
    if not public and run.command:
        body += Markup("<h3>Repeat</h3><pre>{}</pre>").format(run.command)
    return Section("Methods and parameters", body)


def methods_of(found: Evidence) -> Json:
    """What was done, without the seed and without the owner's files."""
    run = found.run
    if run.job != "protect":
        asked = {
            name: value for name, value in run.request.items() if name not in _HIDDEN and value is not None
        }
        return {"job": run.job, "version": __version__} | asked
    settings = {name: value for name, value in run.facts.get("settings", {}).items() if name not in _HIDDEN}
    own = {name: value for name, value in settings.pop("parameters", {}).items() if name not in _HIDDEN}
    # Of steps and rules what was asked for: their figures tell about the original.
    steps = [{name: each.get(name) for name in _OF_STEP} for each in run.facts.get("steps") or ()]
    rules = [{name: each[name] for name in ("rule", "kind")} for each in run.facts.get("rules") or ()]
    return settings | {
        "parameters": own,
        **({"steps": steps} if steps else {}),
        **({"rules": rules} if rules else {}),
        "release_type": found.limits.name,
        "version": run.versions.get("shoal", ""),
    }


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
        [f"All alike in {name}", "", percent(100 * share), "All records alike have one value of it."]
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


def _criteria(tried: Attacks) -> list[Section]:
    """A section for each criterion that was tried, the picture first."""
    parts = [Section("Attacks", figure(rates_picture(tried.results), wide=True), tried.release_type.rule)]
    for criterion, question in CRITERIA.items():
        rows = [each for each in tried.results if each.criterion == criterion]
        if rows:
            parts.append(Section(criterion.capitalize(), attack_table(rows), question))
    return parts


def _guarantee(found: Evidence) -> Section:
    facts = found.run.facts
    rows = [
        [name, _shown(facts.get(name))]
        for name in ("stamp", "epsilon", "delta")
        if facts.get(name) is not None
    ]
    return Section("Guarantee", table(["", ""], rows), "What is promised, word for word.")


def _general(told: General) -> Markup:
    def share(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.4f}"

    rows = [
        ["told apart from the original (propensity, 0 to 1)", share(told.propensity)],
        ["mean total variation of pairs of columns", share(told.total_variation)],
        ["worst pair", ", ".join(told.worst_pair)],
        ["mean change of mutual information", share(told.mutual_information)],
    ]
    if told.target is not None:
        rows += [
            [f"{told.target} guessed by a model trained on originals", share(told.trained_here)],
            [f"{told.target} guessed by a model trained on the published table", share(told.trained_there)],
            [f"{told.target} guessed as its most frequent value", share(told.naive)],
        ]
    return table(["", ""], rows)


def _codebook(found: Evidence) -> Section:
    assert found.published is not None
    rows = [
        [each.name, "categories" if each.discrete else "numbers",
         f"{each.low:.6g} to {each.high:.6g}" if isinstance(each.low, float) and isinstance(each.high, float)
         else ", ".join(value for value, _, _ in each.categories[:12]) + (" ..." if len(each.categories) > 12 else ""),
         each.missing or 0, each.text]
        for each in variables_of(found.published, found.run.schema)
    ]  # fmt: skip
    words = "The same as XML for archives (DDI-Codebook 2.5): codebook.xml."
    return Section("Codebook", table(["column", "kind", "values", "missing", "what was done"], rows), words)


def _files(found: Evidence) -> Section:
    """What is in the folder, and the published file's own digest."""
    rows: list[list[Any]] = []
    names = {
        "internal/report.html": "the run in full", "internal/attacks.html": "all attacks",
        "internal/run.json": "the run as it was saved, with its seed", "public/index.html": "what may be published",
        "public/report.html": "the public report", "public/codebook.xml": "the codebook (DDI)",
        "public/methods.json": "methods and parameters without the seed", "public/registry.json": "the registry's tiers",
    }  # fmt: skip
    private = found.run.job != "protect"
    for name, what in names.items():
        if name.endswith("report.html") and found.saved is None:
            continue
        if name.endswith(("attacks.html", "codebook.xml")) and found.published is None:
            continue
        if private == name.endswith("methods.json") or (not private and name.endswith("registry.json")):
            continue
        rows.append([Markup('<a href="{}">{}</a>').format(name, name), what])
    rows += _digests(found)
    return Section("Files", table(["file", "what it is"], rows))


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items() if each is not None)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


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
