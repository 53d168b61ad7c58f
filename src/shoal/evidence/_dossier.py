"""The dossier of a run: what goes to the officer, what may be published, the codebook, the registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from shoal import __version__, io
from shoal.attacks import Attacks
from shoal.errors import InputError
from shoal.evidence._attack import attack
from shoal.evidence._codebook import variables_of
from shoal.evidence._registry import registry_tiers
from shoal.evidence._run import Run, read_run
from shoal.evidence._saved import SavedProtection
from shoal.evidence._texts import iso_section, release_section, residual_section, statement_section
from shoal.report import Section, page, table, tiles, write_report
from shoal.report.attacks import CRITERIA, attack_sections, attack_table, rates_picture
from shoal.report.html import figure
from shoal.report.indicators import indicators_body
from shoal.scenarios import ReleaseType, release_type
from shoal.utility import Fitness, General, general

ALLOWED = ("attacks", "indicators", "loss")
COLOURS = ("green", "amber", "red")
Tell = Callable[[str, float, float], None]
# Settings that tell of the run's chance or of the owner's files.
_HIDDEN = ("random_state", "source", "command", "key")


@dataclass(frozen=True)
class Dossier:
    """What was written.

    Attributes
    ----------
    folder : Path
    files : tuple of str
        Names in the folder.
    status : str
        The worse of the run's and the attacks'.
    reasons : tuple of str
    """

    folder: Path
    files: tuple[str, ...]
    status: str
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "folder": str(self.folder), "files": list(self.files), "status": self.status, "reasons": list(self.reasons),
        }  # fmt: skip


@dataclass(frozen=True)
class _Evidence:
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


def dossier(
    run: Run | str | Path,
    folder: str | Path,
    *,
    original: str | Path | None = None,
    protected: str | Path | None = None,
    control: str | Path | None = None,
    allow: Sequence[str] = (),
    targets: int = 2_000,
    progress: Tell | None = None,
) -> Dossier:
    """Write the dossier of a saved run to a folder.

    `index.html` and `internal/` are for the custodian and the officer; `public/` holds nothing that was computed from
    the original, unless `allow` names it.

    Parameters
    ----------
    run : Run or path
        As `--save-run` writes it.
    folder : str or Path
    original, protected : path, optional
        The tables; where the run says they are if left open.
    control : path, optional
        People who are not in the published table; held out from the original if left open.
    allow : sequence of {"attacks", "indicators", "loss"}
        What of the original may be told in the public part.
    targets : int, default 2000
        People that the attacks look for.
    progress : callable, optional

    Returns
    -------
    Dossier

    References
    ----------
    .. [1] ISO/IEC 27559:2022. Privacy enhancing data de-identification framework.
    .. [2] 45 CFR 164.514(b)(1): expert determination.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl, shoal
    >>> from shoal.evidence import dossier, run_of_protection
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> frame = pl.DataFrame({"age": list(range(20, 50)), "town": list("ABC") * 10})
    >>> frame.write_csv(folder / "in.csv")
    >>> done = shoal.protect(frame, k=3, method="mdav")
    >>> done.frame.write_csv(folder / "out.csv")
    >>> run = run_of_protection(done.placed(str(folder / "in.csv"), str(folder / "out.csv")))
    >>> "public/codebook.xml" in dossier(run, folder / "dossier", targets=20).files
    True
    """
    tell = progress or (lambda _stage, _done, _of: None)
    unknown = [name for name in allow if name not in ALLOWED]
    if unknown:
        raise InputError(f"What may be allowed in public is {', '.join(ALLOWED)}. Got {unknown[0]!r}.")
    kept = read_run(run)
    found = _gather(kept, original, protected, control, targets, tell)
    target = io.make_folder(folder)
    tell("writing", 0, 0)
    files = _write(found, target, tuple(allow))
    return Dossier(target, tuple(files), found.status, found.reasons)


def _gather(
    run: Run,
    original: str | Path | None,
    protected: str | Path | None,
    control: str | Path | None,
    targets: int,
    tell: Tell,
) -> _Evidence:
    limits = release_type(run.request.get("release_type"), run.k)
    if run.job == "ask":
        return _Evidence(run, limits)
    marks = run.schema.file
    after = io.read_table(run.path("output", protected), marks)
    before = io.read_table(run.path("source", original), marks)
    others = None if control is None else io.read_table(control, marks)
    same = run.job == "protect" and before.height == after.height and run.request.get("order") != "shuffle"
    tried = attack(
        after,
        before,
        control=others,
        run=run,
        rows="same" if same else "unrelated",
        targets=targets,
        progress=tell,
    )
    tell("measuring what is kept", 0, 0)
    saved = SavedProtection(run, before, after) if run.job == "protect" else None
    kept = None if saved is None else saved.fitness
    return _Evidence(run, limits, after, saved, tried, kept, general(before, after, schema=run.schema))


def _write(found: _Evidence, folder: Path, allow: tuple[str, ...]) -> list[str]:
    """All files, or none."""
    texts = {"index.html": _internal_index(found), "internal/run.json": _json(found.run.to_dict())}
    texts["public/index.html"] = _public_index(found, allow)
    if found.attacks is not None:
        texts["internal/attacks.html"] = page(
            "Attacks on the published table", attack_sections(found.attacks), mark="Custodian only"
        )
        texts["internal/attacks.json"] = _json(found.attacks.to_dict())
    if found.fitness is not None or found.general is not None:
        texts["internal/fitness.json"] = _json(
            {
                "indicators": None if found.fitness is None else found.fitness.to_dict(),
                "general": None if found.general is None else found.general.to_dict(),
            }
        )
    if found.published is not None:
        variables = variables_of(found.published, found.run.schema)
        texts["public/codebook.xml"] = io.ddi_codebook(
            found.run.schema.id, variables, n_records=found.published.height,
            file=Path(found.run.output or "").name, abstract=_abstract(found), producer=f"shoal {__version__}",
        )  # fmt: skip
    if found.run.job == "protect":
        texts["public/methods.json"] = _json(_methods(found))
    else:
        texts["public/registry.json"] = _json(registry_tiers(found.run))
    for name in ("internal", "public"):
        io.make_folder(folder / name)
    with io.together():
        for name, text in texts.items():
            io.write_text(text, folder / name)
        if found.saved is not None:
            write_report(found.saved, folder / "internal" / "report.html")
            write_report(found.saved, folder / "public" / "report.html", public=True)
            texts |= {"internal/report.html": "", "public/report.html": ""}
    return sorted(texts)


def _internal_index(found: _Evidence) -> str:
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


def _public_index(found: _Evidence, allow: tuple[str, ...]) -> str:
    run = found.run
    sections = [_how(found, public=True)]
    if run.job == "protect":
        verdicts = [
            [each["model"] + (f" of {each['sensitive']}" if each["sensitive"] else ""), _shown(each["value"]),
             "" if each["limit"] is None else _shown(each["limit"])]
            for each in run.facts.get("verdicts", ())
        ]  # fmt: skip
        sections.append(
            Section(
                "Verdicts",
                table(["model", "reached", "demanded"], verdicts),
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


def _summary(found: _Evidence) -> Section:
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


def _how(found: _Evidence, *, public: bool) -> Section:
    run = found.run
    told = _methods(found) if public else {**_methods(found), "seed": run.request.get("random_state", 0)}
    rows = [
        [name.replace("_", " "), _shown(value)]
        for name, value in told.items()
        if value not in (None, [], {}, "")
    ]
    body = table(["", ""], rows)
    if not public and run.command:
        body += Markup("<h3>Repeat</h3><pre>{}</pre>").format(run.command)
    return Section("Methods and parameters", body)


def _methods(found: _Evidence) -> dict[str, Any]:
    """What was done, without the seed and without the owner's files."""
    run = found.run
    if run.job != "protect":
        asked = {
            name: value for name, value in run.request.items() if name not in _HIDDEN and value is not None
        }
        return {"job": run.job, "version": __version__} | asked
    settings = {name: value for name, value in run.facts.get("settings", {}).items() if name not in _HIDDEN}
    own = {name: value for name, value in settings.pop("parameters", {}).items() if name not in _HIDDEN}
    return settings | {
        "parameters": own,
        "release_type": found.limits.name,
        "version": run.versions.get("shoal", ""),
    }


def _risk(found: _Evidence) -> Section:
    """Risk before and after, with the scenario."""
    facts = found.run.facts
    rows = [
        [
            "records below k in all published columns that are not sensitive",
            "",
            f"{100 * facts.get('at_risk', 0):.3g} %",
        ]
    ]
    given = facts.get("identification") or {}
    before, after = given.get("before"), given.get("after")
    if isinstance(before, dict) and isinstance(after, dict):
        rows += [
            [str(name).replace("_", " "), _shown(before[name]), _shown(after.get(name))]
            for name in before
            if isinstance(before[name], (int, float)) and isinstance(after.get(name), (int, float))
        ]
    rows += [
        [f"all alike have one value of {name}", "", f"{100 * share:.3g} %"]
        for name, share in (facts.get("attribute_disclosure") or {}).items()
    ]
    for key, words in (
        ("dld", "linked by the protected columns"),
        ("linkage", "linked with all known columns"),
    ):
        if facts.get(key) is not None:
            rows.append([words, "", f"{100 * facts[key]:.3g} %"])
    return Section("Risk before and after", table(["figure", "before", "after"], rows), found.limits.intruder)


def _criteria(tried: Attacks) -> list[Section]:
    """A section for each criterion that was tried, the picture first."""
    parts = [Section("Attacks", figure(rates_picture(tried.results), wide=True), tried.release_type.rule)]
    for criterion, question in CRITERIA.items():
        rows = [each for each in tried.results if each.criterion == criterion]
        if rows:
            parts.append(Section(criterion.capitalize(), attack_table(rows), question))
    return parts


def _guarantee(found: _Evidence) -> Section:
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


def _codebook(found: _Evidence) -> Section:
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


def _files(found: _Evidence) -> Section:
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
    try:
        digest = hashlib.sha256(found.run.path("output").read_bytes()).hexdigest()
        rows.append([Path(found.run.output or "").name, f"the published file, SHA-256 {digest}"])
    except InputError:
        pass
    return Section("Files", table(["file", "what it is"], rows))


def _abstract(found: _Evidence) -> str:
    run = found.run
    if run.job == "protect":
        return f"Protected by {run.facts.get('method')} with k = {run.k}. Status {run.facts['status']}."
    return str(run.facts.get("stamp", ""))


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items() if each is not None)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _json(told: dict[str, Any]) -> str:
    return json.dumps(told, indent=2, default=str, allow_nan=False) + "\n"
