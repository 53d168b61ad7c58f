"""What a benchmark found, kept as a file from which the documentation makes its page."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"


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


def record(
    name: str, title: str, *, full: bool, rows: list[dict], text: str = "", folder: Path = FOLDER
) -> Path:
    """Write the facts of one benchmark."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    facts = {
        "title": title,
        "command": f"{'BENCH=full ' if full else ''}python -m benchmarks {name}",
        "machine": machine(),
        "records": rows,
        "text": text,
    }
    path.write_text(json.dumps(facts, indent=1, default=float) + "\n", encoding="utf-8")
    return path


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
