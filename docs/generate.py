"""Pages made from the code: the command line's own help, the methods, what `make bench` measured, pictures, stories.

Run by `conf.py` at each build; `python docs/generate.py` does the same by hand, and draws the README's picture.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from drawings import draw_all, draw_cover
from drawings.partitions import FAMILIES
from private_tables import private_tables
from stories import story_page, story_paths

PACKAGES = {
    "shoal.publish": ["protect", "protect_file", "Protection", "ProtectionRequest"],
    "shoal.comparison": None,
    "shoal.evidence": None,
    "shoal.attacks": ["Attack", "Attacks", "Rate", "allowed", "read_tables", "run_attacks"],
    "shoal.scenarios": ["RELEASE_TYPES", "ReleaseType", "release_type"],
    "shoal.microaggregation": None,
    "shoal.measures": None,
    "shoal.privacy": None,
    "shoal.risk": None,
    "shoal.utility": None,
    "shoal.masking": None,
    "shoal.bounds": None,
    "shoal.dp": None,
    "shoal.release": None,
    "shoal.audit": None,
    "shoal.client": ["Client"],
    "shoal.research": ["reproduce", "ReproducedTable", "PaperRow"],
    "shoal.datasets": None,
    "shoal.schema": ["Schema", "Column", "Unit"],
    "shoal.io": ["read_table", "read_source", "write_table", "ReadTable"],
    "shoal.errors": None,
}


LONG = 40  # rows; a longer table is shown in short, and folded


def write_pages(docs: Path) -> None:
    """Write the generated pages and draw the pictures."""
    for folder in ("reference", "generated"):
        (docs / folder).mkdir(exist_ok=True)
    draw_all(docs / "generated")
    for path in story_paths():
        _write(docs / "generated" / f"{path.stem.replace('_', '-')}.md", story_page(path))
    for family, methods in FAMILIES.items():
        text = published(docs / "benchmarks", [method.name for method in methods])
        _write(docs / "generated" / f"published-{family}.md", text)
        _write(docs / "generated" / f"references-{family}.md", references([type(each) for each in methods]))
    _write(docs / "generated" / "benchmarks.md", benchmarks_page(docs / "benchmarks"))
    _write(docs / "generated" / "private-tables.md", private_tables(docs / "benchmarks"))
    _write(docs / "reference" / "commands.md", commands_page())
    _write(docs / "reference" / "methods.md", methods_page())
    for package, names in PACKAGES.items():
        _write(docs / "reference" / f"{package}.md", package_page(package, names))


def commands_page() -> str:
    """Every command with its own help."""
    import typer.main

    from shoal.cli import app

    lines = ["# Commands", "", "Generated from the commands themselves.", ""]
    group = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        lines += _command(f"shoal {name}", command)
    return "\n".join(lines)


def _command(title: str, command: object) -> list[str]:
    lines = [f"## {title}", "", "```text"]
    inner = getattr(command, "commands", None)
    context = command.make_context(title, [], resilient_parsing=True)
    lines += [line.rstrip() for line in command.get_help(context).splitlines()] + ["```", ""]
    for name, each in sorted((inner or {}).items()):
        lines += _command(f"{title} {name}", each)
    return lines


def methods_page() -> str:
    """Every registered method in one line."""
    import shoal

    lines = ["# Methods by name", "", "| name | class | what it does |", "|---|---|---|"]
    for name, method in shoal.methods().items():
        first = inspect.getdoc(method).splitlines()[0].replace("|", "\\|")
        lines.append(f"| `{name}` | {{class}}`~shoal.microaggregation.{method.__name__}` | {first} |")
    return "\n".join([*lines, ""]).replace("{class}", "{py:class}")


def package_page(package: str, names: list[str] | None) -> str:
    """A package's public names with their docstrings."""
    import importlib

    module = importlib.import_module(package)
    public = names or getattr(module, "__all__", None) or _own_classes(module)
    lines = [f"# {package}", "", (inspect.getdoc(module) or "").splitlines()[0], "", "```{eval-rst}"]
    for name in public:
        target = getattr(module, name)
        if inspect.isclass(target):
            lines += [f".. autoclass:: {package}.{name}", "   :members:", ""]
        elif inspect.isfunction(target):
            lines += [f".. autofunction:: {package}.{name}", ""]
    return "\n".join([*lines, "```", ""])


def benchmarks_page(folder: Path) -> str:
    """Every file that `make bench` or `shoal reproduce --json` has left in `folder`, as a section with its machine."""
    lines = [
        "# Benchmarks",
        "",
        "Made from the files in `docs/benchmarks`, which `make bench` and `shoal reproduce EXPERIMENT --json` write.",
        "Seconds depend on the machine, which is named below each title; losses do not, unless the clock ended a search.",
        "",
    ]
    for path in sorted(
        folder.glob("*.json"), key=lambda each: (each.stem.startswith("reproduce"), each.stem)
    ):
        facts = json.loads(path.read_text(encoding="utf-8"))
        facts = {"records": facts} if isinstance(facts, list) else facts
        lines += _measured(facts.get("title") or path.stem.replace("-", " "), facts)
    return "\n".join(lines)


def published(folder: Path, methods: list[str]) -> str:
    """The losses of some methods by k, as printed and as found, from what `shoal reproduce` has left in `folder`."""
    path = folder / "reproduce-table1.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    rows = [row for row in rows if row["method"] in methods]
    if not rows:
        return "`shoal reproduce table1` prints the published figures beside ours.\n"
    last = "Information loss in per cent, by `shoal reproduce table1`; see the [benchmarks](../generated/benchmarks.md)."
    return "\n".join([*_by_k(rows), last, ""])


def _summary(rows: list[dict[str, Any]]) -> list[str]:
    """Many rows in short, where they are losses; others have a page that says what they mean."""
    names = set.intersection(*(set(row) for row in rows))
    if {"data", "method", "k", "published", "ours"} <= names:
        return _by_k(rows)
    if {"table", "k", "seconds", "seed", "il"} <= names:
        return _by_seed(rows)
    return _by_table(rows) if {"table", "method", "il", "seconds"} <= names else []


def _by_seed(rows: list[dict[str, Any]]) -> list[str]:
    """Mean, spread and number of seeds of a search, a line for each table, k and amount of work."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["table"], row["k"], row["seconds"]), []).append(row)
    lines = ["| table | k | work, seconds of two cores | seeds | mean | spread | goal |", f"|{'---|' * 7}"]
    for (table, k, seconds), own in cells.items():
        losses = [each["il"] for each in own]
        spread = f"{min(losses):.4f} to {max(losses):.4f}"
        goal = "" if own[0].get("goal") is None else f"{own[0]['goal']:g}"
        mean = sum(losses) / len(losses)
        lines.append(f"| {table} | {k} | {seconds} | {len(own)} | {mean:.4f} | {spread} | {goal} |")
    return [*lines, ""]


def _by_k(rows: list[dict[str, Any]]) -> list[str]:
    """Published and found losses, a line for each method and table, a column for each k."""
    found: dict[tuple[str, str], dict[int, tuple[float | None, float]]] = {}
    for row in rows:
        how = ", ".join(str(row[name]) for name in ("reading", "start", "gamma0") if row.get(name))
        name = f"{row['method']} ({how})" if how else row["method"]
        found.setdefault((row["data"], name), {})[row["k"]] = (row["published"], row["ours"])
    ks = sorted({k for each in found.values() for k in each})
    lines = [f"| data | method | | {' | '.join(f'k = {k}' for k in ks)} |", f"|{'---|' * (len(ks) + 3)}"]
    for (data, name), each in sorted(found.items(), key=lambda item: item[0][0]):
        if any(printed is not None for printed, _ in each.values()):
            cells = (f"{each[k][0]:.3f}" if k in each and each[k][0] is not None else "" for k in ks)
            lines.append(f"| {data} | {name} | published | {' | '.join(cells)} |")
        cells = (f"{each[k][1]:.3f}" if k in each else "" for k in ks)
        lines.append(f"| {data} | {name} | ours | {' | '.join(cells)} |")
    return [*lines, ""]


def _by_table(rows: list[dict[str, Any]]) -> list[str]:
    """What each method loses where it ends, and its seconds: a line for each method, a column for each table."""
    tables, methods = (list(dict.fromkeys(row[name] for row in rows)) for name in ("table", "method"))
    last = {(row["table"], row["method"]): row for row in rows}  # of a search, its end
    lines = [f"| method | {' | '.join(tables)} |", f"|{'---|' * (len(tables) + 1)}"]
    for method in methods:
        cells = [last.get((table, method)) for table in tables]
        texts = ("" if each is None else f"{each['il']:.3f} ({each['seconds']:.2g} s)" for each in cells)
        lines.append(f"| {method} | {' | '.join(texts)} |")
    return [*lines, ""]


def references(classes: list[type]) -> str:
    """The papers that the docstrings of these classes name, each once."""
    found: dict[str, None] = {}
    for each in classes:
        _, _, below = (inspect.getdoc(each) or "").partition("References\n----------\n")
        for entry in re.split(r"^\.\. \[\d+\] ", below.partition("\n\n")[0], flags=re.M)[1:]:
            found[" ".join(entry.split())] = None
    return "\n".join([*(f"- {each}" for each in found), ""])


def _measured(title: str, facts: dict[str, Any]) -> list[str]:
    lines = [f"## {title}", ""]
    if facts.get("command"):
        lines += [f"`{facts['command']}`", ""]
    if facts.get("machine"):
        lines += [", ".join(f"{name} {value}" for name, value in facts["machine"].items()) + ".", ""]
    if facts.get("pieces"):
        lines += [_commits(facts["pieces"]), ""]
    rows = facts.get("records") or facts.get("rows") or []
    if rows and "series" in rows[0]:  # drawn, on the page of what it measures
        rows = []
    if len(rows) > LONG:
        lines += [
            *_summary(rows),
            f"<details><summary>All {len(rows)} rows</summary>",
            "",
            *_table(rows),
            "</details>",
            "",
        ]
    elif rows:
        lines += _table(rows)
    elif facts.get("text"):
        lines += ["```text", facts["text"].strip(), "```", ""]
    return [*lines, *(f"- {note}" for note in facts.get("notes", [])), ""]


def _commits(pieces: list[dict[str, Any]]) -> str:
    """Of which code the figures are, and how long they took."""
    found: dict[str, list[str]] = {}
    for each in pieces:
        found.setdefault(each["commit"], []).append(each["name"])
    seconds = sum(each["cpu_seconds"] for each in pieces)
    parts = (
        f"commit {commit}" + (f" ({', '.join(names)})" if len(found) > 1 else "")
        for commit, names in found.items()
    )
    return f"Code: {'; '.join(parts)}. {seconds:.0f} CPU seconds."


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Records as a table: columns in the order they first appear, those without a value left out."""
    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if any(row.get(name) not in (None, "") and not isinstance(row.get(name), dict | list) for row in rows)
    ]
    header = [f"| {' | '.join(name.replace('_', ' ') for name in names)} |", f"|{'---|' * len(names)}"]
    return [*header, *(f"| {' | '.join(_cell(row.get(name)) for name in names)} |" for row in rows), ""]


def _cell(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _own_classes(module: object) -> list[str]:
    return [
        name
        for name, each in vars(module).items()
        if inspect.isclass(each) and each.__module__ == module.__name__
    ]


def _write(path: Path, text: str) -> None:
    """Write only what changed, so that unchanged pages are not built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(__file__).parent)
    draw_cover(Path(__file__).parent / "pictures" / "shoal.svg")
