"""Pages made from the code: the command line's own help, the registry of methods, pictures.

Run by `conf.py` at each build; `python docs/generate.py` does the same by hand.
"""

from __future__ import annotations

import inspect
from pathlib import Path

ROOMS = {
    "shoal.protect": ["protect", "Protection"],
    "shoal.compare": None,
    "shoal.microaggregation": None,
    "shoal.measures": None,
    "shoal.privacy": None,
    "shoal.masking": None,
    "shoal.bounds": None,
    "shoal.dp": None,
    "shoal.release": None,
    "shoal.datasets": None,
    "shoal.schema": ["Schema", "Column", "Unit"],
    "shoal.io": ["read_table", "read_source", "write_table", "Source"],
    "shoal.errors": None,
}


def write_pages(docs: Path) -> None:
    """Write the generated pages below `docs/reference` and the pictures."""
    (docs / "reference").mkdir(exist_ok=True)
    _write(docs / "reference" / "commands.md", commands_page())
    _write(docs / "reference" / "methods.md", methods_page())
    for room, names in ROOMS.items():
        _write(docs / "reference" / f"{room}.md", room_page(room, names))


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


def room_page(room: str, names: list[str] | None) -> str:
    """A room's public names with their docstrings."""
    import importlib

    module = importlib.import_module(room)
    public = names or getattr(module, "__all__", None) or _own_classes(module)
    lines = [f"# {room}", "", (inspect.getdoc(module) or "").splitlines()[0], "", "```{eval-rst}"]
    for name in public:
        target = getattr(module, name)
        if inspect.isclass(target):
            lines += [f".. autoclass:: {room}.{name}", "   :members:", ""]
        elif inspect.isfunction(target):
            lines += [f".. autofunction:: {room}.{name}", ""]
    return "\n".join([*lines, "```", ""])


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
