"""What a dossier says of a private answer or release: the guarantee, the answer, and what the guarantee leaves open."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from shoal.attacks import allowed
from shoal.evidence._methods import notes_list, shown
from shoal.evidence._run import Run
from shoal.report import Section, table
from shoal.scenarios import ReleaseType

INTRUDER = "Anyone, whatever else they know or get to know: the guarantee makes no assumption about it."
_LEDGER = "What is asked or released from the same table is kept in one ledger, whose cap is the sum that is promised."
_STAYS = "Figures that were computed from the private table (attacks and utility in this dossier) stay with the custodian."
LEFT_OPEN = (
    "What holds for the whole population can be learned, and so be guessed of its members.",
    "Every other answer or release about the same people adds up with this one, those of other software too.",
)


def promise(run: Run) -> str:
    """The guarantee without the word before it."""
    return str(run.facts.get("stamp", "")).removeprefix("guarantee: ")


def conditions(run: Run) -> tuple[str, ...]:
    """What must hold for the promise to be enough."""
    return (_LEDGER,) if run.job == "ask" else (_LEDGER, _STAYS)


def guarantee_section(run: Run) -> Section:
    """What is promised, word for word."""
    names = {"epsilon": "epsilon", "delta": "delta", "rho": "rho (zero-concentrated)"}
    rows = [["guarantee", run.facts.get("stamp", "")]]
    rows += [
        [words, shown(run.facts[name])] for name, words in names.items() if run.facts.get(name) is not None
    ]
    return Section("Guarantee", table(["promise", "word for word"], rows), "What is promised, word for word.")


def threshold(run: Run, limits: ReleaseType) -> str:
    """What turns the attacks on a private release red."""
    return (
        f"Red above {100 * allowed(run.epsilon or 0.0):.1f} % right guesses about membership, the most that epsilon = "
        f"{run.epsilon or 0.0:g} allows (half is chance), or where another attack finds more than "
        f"{100 * limits.excess:.3g} % beyond a control group."
    )


def answer_section(run: Run) -> Section:
    """The answer as it was given, with its intervals."""
    value, interval = run.facts.get("value"), run.facts.get("interval")
    if isinstance(value, list) and value and isinstance(value[0], dict):
        beside = interval if isinstance(interval, list) and len(interval) == len(value) else [{}] * len(value)
        figures = [name for name in value[0] if _ends(beside[0].get(name))]
        rows = [
            [shown(each[name]) for name in each] + [_ends(ends.get(name)) for name in figures]
            for each, ends in zip(value, beside, strict=True)
        ]
        body = table([*value[0], *(f"{name}, 95 %" for name in figures)], rows)
    else:
        body = table(["what", "value"], [["answer", shown(value)], ["95 % interval", _ends(interval)]])
    for name in ("notes", "cautions"):
        body += notes_list(run.facts[name]) if run.facts.get(name) else Markup("")
    return Section("Answer", body, "As it was given out, noise included.")


def _ends(interval: Any) -> str:
    if (
        isinstance(interval, (list, tuple))
        and len(interval) == 2
        and not isinstance(interval[0], (dict, str))
    ):
        return f"{shown(interval[0])} to {shown(interval[1])}"
    return ""
