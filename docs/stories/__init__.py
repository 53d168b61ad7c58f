"""Three stories on real tables: scripts in cells, which the tests run and the documentation shows with their output.

A cell starts with `# %%`; the comment lines that follow are its text. `python docs/stories/__init__.py` runs them
all and keeps what they print beside them, so that the documentation builds where the tables are not at hand.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent


class Cell(NamedTuple):
    """Words and code that belong together."""

    text: str
    code: str


def story_paths() -> list[Path]:
    """The scripts."""
    return sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))


def cells(path: Path) -> list[Cell]:
    """A script taken apart; what stands above the first cell are its title and needs."""
    found = []
    for part in path.read_text(encoding="utf-8").split("\n# %%")[1:]:
        lines = part.lstrip(" ").splitlines()
        words = [each for each in lines if each]
        count = next((at for at, each in enumerate(words) if not each.startswith("#")), len(words))
        text = "\n".join(each.removeprefix("#").strip() for each in words[:count])
        start = lines.index(words[count]) if count < len(words) else len(lines)
        found.append(Cell(text, "\n".join(lines[start:]).strip()))
    return found


def run(path: Path) -> Iterator[str]:
    """What each cell prints; all share their names, as in a script."""
    names: dict = {"__name__": path.stem}
    for number, cell in enumerate(cells(path)):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(cell.code, f"{path.name}, cell {number}", "exec"), names)
        yield printed.getvalue()


def keep(path: Path) -> None:
    """Run a story and keep its output beside it."""
    path.with_suffix(".json").write_text(json.dumps(list(run(path)), indent=1) + "\n", encoding="utf-8")


def story_page(path: Path) -> str:
    """A story as a page: words, code, and what it printed."""
    title = path.read_text(encoding="utf-8").split('"""')[1].strip().splitlines()[0].rstrip(".")
    kept = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    lines = [f"# {title}", "", f"This page is the script `docs/stories/{path.name}`; the tests run it.", ""]
    for cell, printed in zip(cells(path), kept, strict=True):
        lines += [cell.text, "", "```python", cell.code, "```", ""]
        if printed.strip():
            lines += ["```text", printed.rstrip(), "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    for each in story_paths():
        print(each.name, flush=True)
        keep(each)
