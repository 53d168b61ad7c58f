"""The documentation does what it says: every command and every block of Python on its pages is run.

A page is run from top to bottom in an empty folder. A block that cannot be run here carries a comment above it,
`<!-- not run: reason -->`; those are few, and counted below.
"""

from __future__ import annotations

import importlib.util
import io
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Pages whose blocks other tests run, and where.
ELSEWHERE = {
    "docs/server.md": "tests/server",
    "docs/theory/attacks.md": "tests/privacy/test_attacks.py",
}
PLAIN = ("text", "toml", "ini", "dockerfile", "{toctree}", "{raw}", "{include}", "{figure}")
BLOCK = re.compile(r"^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<code>.*?)^(?P=fence)\s*$", flags=re.M | re.S)
# Seconds that a search may take here; the pages leave the default, or name more.
SHORT = {"protect": ["--time-limit", "0.3"], "compare": ["--time-limit", "1", "--methods", "mdav,fdm"]}


class Block(NamedTuple):
    """Code on a page."""

    kind: str
    code: str
    skipped: str
    line: int


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        above = text[: match.start()].rstrip().rpartition("\n")[2]
        reason = re.fullmatch(r"<!-- not run: (.+) -->", above)
        line = text[: match.start()].count("\n") + 1
        found.append(Block(match["kind"].strip(), match["code"], reason[1] if reason else "", line))
    return found


def pages() -> list[Path]:
    written = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    made = {DOCS / "generated", DOCS / "reference", DOCS / "_build"}
    return [path for path in written if not made.intersection(path.parents)]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def commands(code: str) -> list[list[str]]:
    lines = code.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if shlex.split(line, comments=True)]


RUN = [
    path
    for path in pages()
    if named(path) not in ELSEWHERE and any(block.kind in ("sh", "python") for block in blocks(path))
]


@pytest.mark.parametrize("path", pages(), ids=named)
def test_every_block_says_what_it_is(path):
    if named(path) in ELSEWHERE:
        return
    for block in blocks(path):
        assert block.kind.split(" ")[0] in ("sh", "python", *PLAIN), (
            f"{named(path)}:{block.line}: ```{block.kind}"
        )


def test_what_runs_elsewhere_is_there():
    for path, tests in ELSEWHERE.items():
        assert (ROOT / path).is_file(), path
        assert (ROOT / tests).exists(), tests


def test_few_blocks_are_not_run():
    left = [(named(path), block.skipped) for path in pages() for block in blocks(path) if block.skipped]
    assert len(left) <= 8, left


@pytest.mark.parametrize("path", RUN, ids=named)
def test_a_page_holds(path, tmp_path, monkeypatch, capsys):
    pytest.importorskip("opendp", reason="private answers need the extra 'dp'")
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "page"}
    for block in blocks(path):
        if block.skipped or block.kind not in ("sh", "python"):
            continue
        if block.kind == "python":
            exec(compile(block.code, f"{named(path)}, line {block.line}", "exec"), names)
            continue
        for words in commands(block.code):
            code = _shoal(words, monkeypatch)
            assert code == 0, f"{named(path)}:{block.line}: {' '.join(words)}\n{capsys.readouterr().err}"


def _shoal(words: list[str], monkeypatch) -> int:
    """Run a command of ours in this process, as its entry point does."""
    from shoal.cli import main

    assert words[0].removeprefix(".venv/bin/") == "shoal", words
    extra = SHORT.get(words[1], [])
    if {"--method", "--methods", "--time-limit", "--memory"} & set(words):
        extra = []
    if words[1] == "bound" and "--effort" in words:
        extra = ["--effort", "3"]  # the last one counts
    monkeypatch.setattr(sys, "argv", ["shoal", *words[1:], *extra])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code


def test_links_lead_somewhere():
    made = {
        f"generated/{name}"
        for name in ("benchmarks.md", "census-published.md", "adult-queried.md", "hapt-by-subject.md")
    }
    for path in pages():
        text = BLOCK.sub("", path.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if target.startswith("http"):
                continue
            place = (path.parent / target).resolve()
            known = place.exists() or place.is_relative_to(DOCS / "reference")
            assert known or place.relative_to(DOCS).as_posix() in made, f"{named(path)}: {target}"


def test_every_command_is_on_a_page():
    import typer.main

    from shoal.cli import app

    text = "\n".join(path.read_text(encoding="utf-8") for path in pages())
    absent = [name for name in typer.main.get_command(app).commands if f"shoal {name}" not in text]
    assert not absent


def test_every_name_on_a_page_exists():
    for path in pages():
        for name in re.findall(r"`(shoal(?:\.\w+)+)", path.read_text(encoding="utf-8")):
            if name.rpartition(".")[2] not in ("csv", "toml", "svg", "db", "html"):
                assert _resolves(name), f"{named(path)}: {name}"


def _resolves(name: str) -> bool:
    """Whether a dotted name is a module or something in one."""
    module, _, attribute = name.rpartition(".")
    if importlib.util.find_spec(module) is not None:
        try:
            if importlib.util.find_spec(name) is not None:
                return True
        except ModuleNotFoundError:
            pass  # its parent is no package, so it is a name within
        return hasattr(importlib.import_module(module), attribute)
    return False


def test_every_page_is_in_the_table_of_contents():
    listed = set(
        re.findall(r"^([\w./-]+)$", "\n".join(block.code for block in blocks(DOCS / "index.md")), flags=re.M)
    )
    for path in pages():
        if DOCS in path.parents and path.name != "index.md":
            assert path.relative_to(DOCS).with_suffix("").as_posix() in listed, named(path)
