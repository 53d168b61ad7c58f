"""What was done, for a reader: the settings of a run by their ordinary names, its steps, rules and notes."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from shoal.evidence._run import Run
from shoal.report import Section, table
from shoal.scenarios import ReleaseType
from shoal.typing import Json

# Settings that tell of the run's chance or of the owner's files.
_HIDDEN = ("random_state", "source", "command", "key")
# Of a step what was asked for.
_OF_STEP = ("method", "columns", "k", "level", "within")
# Of a private release or answer what its method takes; who asked is nobody's business.
_ASKED = {
    "marginals": ("method", "epsilon", "delta", "columns", "marginals", "bins", "rows", "shared", "mode", "neighbours"),
    "insensitive": ("method", "epsilon", "k", "columns", "order"),
    "individual-ranking": ("method", "epsilon", "k", "columns", "association"),
    "ask": ("query", "epsilon", "mode"),
}  # fmt: skip
_NAMES = {
    "columns": "protected columns",
    "strata": "strata, never crossed by a group",
    "weights": "survey weights",
    "sensitive": "sensitive columns",
    "left": "columns left as they were",
    "l": "l-diversity demanded",
    "t": "t-closeness demanded",
    "on_missing": "missing cells",
    "small_strata": "strata below k",
    "integers": "whole numbers become",
    "order": "order of the rows",
    "max_proposals": "steps of the search, at most",
    "search_plan": "plan that these steps follow",
    "parts": "parts the table was taken in",
    "parameters": "parameters of the method",
    "release_type": "release type",
    "version": "version of shoal",
    "shared": "columns shared by a household",
    "rows": "rows asked for",
}


def methods_of(run: Run, limits: ReleaseType) -> Json:
    """What was done, without the seed, the owner's files and whoever asked."""
    version = {"version": run.versions.get("shoal", "")}
    if run.job != "protect":
        kind = "ask" if run.job == "ask" else str(run.request.get("method") or "marginals")
        asked = {name: run.request.get(name) for name in _ASKED.get(kind, ("method", "epsilon"))}
        return {name: value for name, value in asked.items() if value is not None} | version
    settings = {name: value for name, value in run.facts.get("settings", {}).items() if name not in _HIDDEN}
    own = {name: value for name, value in settings.pop("parameters", {}).items() if name not in _HIDDEN}
    # Of steps and rules what was asked for: their figures tell about the original.
    steps = [{name: each.get(name) for name in _OF_STEP} for each in run.facts.get("steps") or ()]
    rules = [{name: each[name] for name in ("rule", "kind")} for each in run.facts.get("rules") or ()]
    return settings | {
        "parameters": own,
        **({"steps": steps} if steps else {}),
        **({"rules": rules} if rules else {}),
        "release_type": limits.name,
        **version,
    }


def how_section(run: Run, limits: ReleaseType, *, public: bool) -> Section:
    """Methods and parameters; for the officer the seed, the notes of the run and what repeats it too."""
    told = methods_of(run, limits)
    if run.job == "protect":
        told = _without_repeats(told) | ({} if public else {"seed": run.request.get("random_state", 0)})
    rows = [
        [_NAMES.get(name, name.replace("_", " ")), shown(value)]
        for name, value in told.items()
        if value not in (None, [], {}, "") and name not in ("steps", "rules")
    ]
    body = table(["setting", "value"], rows)
    if told.get("steps"):
        body += Markup("<h3>Steps, in their order</h3>") + table(
            ["method", "columns", "k", "level", "within"],
            [
                [each["method"], ", ".join(each["columns"]), shown(each["k"]), each["level"], ", ".join(each["within"])]
                for each in told["steps"]
            ],
        )  # fmt: skip
    if told.get("rules"):
        body += Markup("<h3>Rules that were kept</h3>") + table(
            ["rule", "kind"], [[each["rule"], each["kind"].replace("_", " ")] for each in told["rules"]]
        )
    if not public:
        body += _notes(run)
    return Section("Methods and parameters", body)


def _without_repeats(told: Json) -> Json:
    """Settings worth a line: what `identifiers` says already, and one part, is left out."""
    plain = {"hidden": None, "parts": 1, "order": "keep"}
    return {
        name: value for name, value in told.items() if name not in plain or (plain[name] not in (None, value))
    }


def _notes(run: Run) -> Markup:
    body = Markup("")
    if run.facts.get("notes") and run.job != "ask":  # an answer's stand beside it
        body += Markup("<h3>What else was done</h3>") + notes_list(run.facts["notes"])
    if run.command:
        body += Markup("<h3>Repeat</h3><pre>{}</pre>").format(run.command)
    return body


def notes_list(notes: Any) -> Markup:
    """Sentences as a list."""
    lines = Markup("").join(Markup("<li>{}</li>").format(note) for note in notes)
    return Markup("<ul class='notes'>{}</ul>").format(lines)


def shown(value: Any) -> str:
    """A setting for reading."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items() if each is not None)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
