"""The parts of a dossier that are words: the three criteria, the standard's contents, the expert's statement."""

from __future__ import annotations

from markupsafe import Markup

from shoal.report import Section, table
from shoal.scenarios import ReleaseType

BLANK = Markup('<span class="blank">________________________________</span>')
# Clause and heading of the standard, what is wanted there in short, and where it is; by job where that differs.
_ISO: tuple[tuple[str, str, str | dict[str, str]], ...] = (
    ("6.2 Threat modelling", "What holds recipients back, what moves them, and what they can do",
     "Release and scenario; security and privacy practices of the recipients: "),
    ("6.3 Transparency and impact assessment", "Who was told and asked, and which harm could be done",
     "The public part; harm to people, and who was heard: "),
    ("7.2 Data features", "Whom the data is about, its kind, its columns and their roles, its properties",
     {"protect": "Methods and parameters; columns in the internal report; codebook",
      "release": "Methods and parameters; codebook", "ask": "Methods and parameters; the declared schema in internal/run.json"}),
    ("7.3 Attack modelling", "The weakest record or the average, sample or population, privacy models",
     {"protect": "Risk before and after (prosecutor, journalist, marketer, weights); verdicts on what is published",
      "release": "Guarantee: it bounds any attack on the weakest record", "ask": "Guarantee: it bounds any attack on the weakest record"}),
    ("8.2 Assessing identifiability", "Identifiability in figures, and tested by an adversary",
     {"protect": "Risk before and after; attacks, each with naive guess and control group",
      "release": "Guarantee; attacks, each with naive guess and control group", "ask": "Guarantee; no adversary was set on a single answer"}),
    ("8.3 Mitigation", "The environment changed, the data transformed, and judged again",
     {"protect": "Methods and parameters; figures after; conditions of the release type; changes of the environment: ",
      "release": "Methods and parameters; guarantee; changes of the environment: ", "ask": "Methods and parameters; guarantee; changes of the environment: "}),
    ("9.2 Before data are made available", "Roles, policies, how a disclosure is managed, stakeholders told", "Approved by: "),
    ("9.3 After data are made available", "The data environment watched", "Responsible, and how often it is looked at: "),
    ("9.4 Mitigation in case of incident", "What is done when somebody is found", "Whom to call, and what is done: "),
)  # fmt: skip
_EXPERT = (
    "I have appropriate knowledge of and experience with generally accepted statistical and scientific principles and "
    "methods for rendering information not individually identifiable.",
    "I have applied these principles and methods to what is described in this dossier, and have determined that the "
    "risk is very small that the information could be used, alone or in combination with other reasonably available "
    "information, by an anticipated recipient to identify an individual who is a subject of the information.",
    "The methods and the results that justify this determination are documented in this dossier.",
)


def release_section(limits: ReleaseType) -> Section:
    """To whom a protected table goes, against whom, under which conditions."""
    rows: list[list[str | Markup]] = [
        ["Release type", f"{limits.name}: {limits.title}"],
        ["Intruder taken to try", limits.intruder],
        ["Thresholds", limits.rule],
        ["Conditions", " ".join(limits.conditions) or "none stated: no release type was chosen"],
    ]
    return Section("Release and scenario", table(["question", "answer"], rows + _blanks()))


def private_release_section(intruder: str, threshold: str, conditions: tuple[str, ...]) -> Section:
    """The same of what leaves under a guarantee."""
    rows: list[list[str | Markup]] = [["Intruder taken to try", intruder]]
    rows += [["Thresholds", threshold]] if threshold else []
    rows.append(["Conditions", " ".join(conditions)])
    return Section("Release and scenario", table(["question", "answer"], rows + _blanks()))


def _blanks() -> list[list[str | Markup]]:
    """What only a person can say."""
    return [[name, BLANK] for name in ("Purpose of the release", "Legal basis", "Recipients")]


def iso_section(job: str) -> Section:
    """What the standard asks for, and where it is."""
    rows = []
    for name, what, places in _ISO:
        where = places if isinstance(places, str) else places[job]
        rows.append([name, what, Markup("{}{}").format(where, BLANK if where.endswith(": ") else "")])
    return Section(
        "Contents by ISO/IEC 27559", table(["clause", "asked for", "in this dossier"], rows),
        "What only a person can decide is left open.",
    )  # fmt: skip


def statement_section() -> Section:
    """The expert's statement, with blanks that only a person may fill."""
    words = Markup("").join(Markup("<p>{}</p>").format(sentence) for sentence in _EXPERT)
    rows = [
        [name, BLANK]
        for name in (
            "Name",
            "Qualification",
            "Determination holds until",
            "Reservations",
            "Place and date",
            "Signature",
        )
    ]
    return Section(
        "Expert's statement", words + table(["to be filled in", "by the expert"], rows),
        "Not a statement of the software. It becomes one when an expert who agrees with every sentence signs it.",
    )  # fmt: skip


def residual_section(status: str, reasons: tuple[str, ...], limits: ReleaseType) -> Section:
    """What is left of a protected table's risk, and what must hold for it to be enough."""
    conditions = limits.conditions or ("No release type was chosen, so none is stated.",)
    open_ends = (
        "Attacks were tried with the knowledge described here; other knowledge can find more.",
        "k-anonymity says nothing about columns left as they are, nor about membership in the table.",
        "A second release of the same people can be combined with this one: judge it again then.",
    )
    return _residual(
        (f"status {status}, because", reasons or ("No condition was missed.",)), conditions, open_ends
    )


def private_residual_section(
    status: str, reasons: tuple[str, ...], conditions: tuple[str, ...], open_ends: tuple[str, ...]
) -> Section:
    """The same of what left under a guarantee."""
    return _residual(
        (f"status {status}, because", reasons or ("No attack went beyond its limit.",)), conditions, open_ends
    )


def _residual(
    found: tuple[str, tuple[str, ...]], conditions: tuple[str, ...], open_ends: tuple[str, ...]
) -> Section:
    body = table([found[0]], [[each] for each in found[1]])
    body += table(["conditions"], [[each] for each in conditions])
    body += table(["what no figure here covers"], [[each] for each in open_ends])
    return Section("Residual risk and conditions", body)
