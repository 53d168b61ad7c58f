"""What a benchmark found, kept as a file from which the documentation makes its page.

A benchmark is made of pieces. Each is kept as soon as it has run, with the commit, the machine and its CPU seconds, so
that a long run may be broken off and taken up again: a piece that was measured with the same code is not measured again.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"

Row = dict[str, str | int | float | None]
Pieces = dict[str, Callable[[], list[Row]]]


def machine() -> dict[str, str | int | float]:
    """Where and when, without which a figure of time says nothing."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(
            (each.split(":")[1].strip() for each in lines if each.startswith("model name")), processor
        )
    return {
        "processor": processor,
        "cores": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "date": date.today().isoformat(),
    }


def revision() -> tuple[str, str]:
    """The commit, and what the code is known by: empty where it is not that of a commit."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "src", "benchmarks")
        return (f"{commit} and changes", "") if changed else (commit, _git("rev-parse", "HEAD:src"))
    except (OSError, subprocess.CalledProcessError):
        return "", ""


def _git(*words: str) -> str:
    here = Path(__file__).parent.parent
    return subprocess.run(
        ["git", *words], cwd=here, capture_output=True, text=True, check=True
    ).stdout.strip()


def in_history(commit: str) -> bool:
    """Whether a commit, perhaps with changes, is one of those that led here."""
    try:
        _git("merge-base", "--is-ancestor", commit.split(maxsplit=1)[0], "HEAD")
    except (OSError, IndexError, subprocess.CalledProcessError):
        return False
    return True


def commit_of(code: str) -> str:
    """The last commit of this history with such code; empty where there is none."""
    commits = _git("log", "--format=%h", "--", "src").split()
    trees = _git("rev-parse", *(f"{each}:src" for each in commits)).split()
    return next((each for each, tree in zip(commits, trees, strict=True) if tree == code), "")


@dataclass(frozen=True)
class MeasuredPiece:
    """One piece: what it found, and where and by what it was measured."""

    name: str
    commit: str
    code: str
    machine: dict[str, str | int | float]
    cpu_seconds: float
    records: list[Row] = field(default_factory=list)
    text: str = ""


def measure(name: str, run: Callable[[], list[Row]]) -> MeasuredPiece:
    """Run a piece."""
    commit, code = revision()
    started = time.process_time()
    with listening() as printed:
        rows = run() or []
    seconds = round(time.process_time() - started, 1)
    return MeasuredPiece(name, commit, code, machine(), seconds, rows, printed.getvalue())


class Record:
    """The file of one benchmark, written again after each piece."""

    def __init__(self, name: str, title: str, *, full: bool, folder: Path = FOLDER) -> None:
        self.path = folder / f"{name}.json"
        self.title = title
        self.command = f"{'BENCH=full ' if full else ''}python -m benchmarks {name}"
        self.pieces = {each.name: each for each in _read(self.path)} if self.path.exists() else {}

    def holds(self, piece: str) -> bool:
        """Whether a piece was measured with the code as it is."""
        code = revision()[1]
        return bool(code) and piece in self.pieces and self.pieces[piece].code == code

    def keep(self, piece: MeasuredPiece) -> None:
        """Put a piece in its place and write the file."""
        self.pieces[piece.name] = piece
        self._write(self.title, self.command, piece.machine)

    def find_commits(self) -> list[str]:
        """Name the commits of this history that hold the code of pieces measured at others; pieces without one.

        A branch that was measured and then moved onto other work has new commits, often with the same code.
        """
        lost = {each.name: each for each in self.pieces.values() if not in_history(each.commit)}
        found = {name: commit_of(each.code) for name, each in lost.items()}
        self.pieces |= {name: replace(lost[name], commit=commit) for name, commit in found.items() if commit}
        if any(found.values()):
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            self._write(kept["title"], kept["command"], kept["machine"])
        return [name for name, commit in found.items() if not commit]

    def _write(self, title: str, command: str, at: dict[str, str | int | float]) -> None:
        """Whole or not at all."""
        facts = {
            "title": title,
            "command": command,
            "machine": at,
            "pieces": [_without_found(each) for each in self.pieces.values()],
            "records": [row for each in self.pieces.values() for row in each.records],
            "text": "".join(each.text for each in self.pieces.values()),
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(facts, indent=1, default=float) + "\n", encoding="utf-8")
        new.replace(self.path)


def _without_found(piece: MeasuredPiece) -> dict[str, object]:
    """A piece as it is kept: of what it found only how many rows and characters of the whole are its own."""
    return {**asdict(piece), "records": len(piece.records), "text": len(piece.text)}


def _read(path: Path) -> Iterator[MeasuredPiece]:
    facts = json.loads(path.read_text(encoding="utf-8"))
    row = letter = 0
    for each in facts.get("pieces", []):
        records = facts["records"][row : row + each["records"]]
        text = facts["text"][letter : letter + each["text"]]
        row, letter = row + each["records"], letter + each["text"]
        yield MeasuredPiece(**{**each, "records": records, "text": text})


@contextlib.contextmanager
def listening() -> Iterator[io.StringIO]:
    """What is printed meanwhile, which is printed all the same."""
    kept, out = io.StringIO(), sys.stdout

    class Both(io.TextIOBase):
        def write(self, words: str) -> int:
            out.write(words)
            return kept.write(words)

        def flush(self) -> None:
            out.flush()

    with contextlib.redirect_stdout(Both()):
        yield kept
