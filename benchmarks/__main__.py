"""Run every benchmark: small sizes by default, the large ones with BENCH=full.

    python -m benchmarks                      all, but for what was measured with this code before
    python -m benchmarks large bounds         some
    python -m benchmarks large:20000          one piece, though it was measured before
    python -m benchmarks anneal:10-census     those whose names begin so
    python -m benchmarks 'anneal:10-*-101'    those whose names are so
    python -m benchmarks --commits            after a rebase: name the commits that now hold the code of what is kept
    python -m benchmarks --list               what there is

What is found is kept in docs/benchmarks piece by piece, from which `make docs` makes a page. A run that was broken off
goes on where it was.
"""

from __future__ import annotations

import fnmatch
import importlib
import os
import pkgutil
import sys
import time
from functools import partial
from types import ModuleType

import benchmarks
from benchmarks._record import FOLDER, Pieces, Record, measure


def pieces_of(module: ModuleType, *, full: bool) -> Pieces:
    """The pieces of a benchmark by name; one for all where it is not cut up."""
    if hasattr(module, "pieces"):
        return module.pieces(full)
    return {"all": partial(module.run, full=full)}


def main() -> None:
    full = os.environ.get("BENCH", "") == "full"
    if sys.argv[1:] == ["--commits"]:
        name_commits()
        return
    names = [each.name for each in pkgutil.iter_modules(benchmarks.__path__) if not each.name.startswith("_")]
    listing = sys.argv[1:] == ["--list"]
    for asked in ([] if listing else sys.argv[1:]) or [each for each in names if each != "server"]:
        name, _, only = asked.partition(":")
        module = importlib.import_module(f"benchmarks.{name}")
        pieces = pieces_of(module, full=full)
        chosen = {piece: run for piece, run in pieces.items() if is_asked(piece, only)}
        if not pieces and not listing:
            print(f"{name} is left out: its tables are not at hand (SHOAL_DATA names their folder).")
            continue
        if not chosen and not listing:
            sys.exit(f"{name} has no piece {only!r}. It has: {', '.join(pieces)}.")
        if listing:
            print(f"{name}: {', '.join(pieces)}")
            continue
        title = (module.__doc__ or name).splitlines()[0].rstrip(".")
        run_pieces(Record(name, title, full=full), chosen, again=only in chosen)
    if listing:
        print("server: by itself, `make bench-server`, since it begins processes that listen")


def is_asked(piece: str, only: str) -> bool:
    """Whether a piece is named, begins so or matches; all are where nothing is asked for."""
    return not only or f"{piece}-".startswith(f"{only}-") or fnmatch.fnmatchcase(piece, only)


def name_commits() -> None:
    """Name commits of this history in every file, and say which pieces are of code that is not in it."""
    for path in sorted(FOLDER.glob("*.json")):
        if not path.stem.startswith("reproduce"):
            for piece in Record(path.stem, "", full=False).find_commits():
                print(
                    f"{path.stem}:{piece} must be measured again: its code is not that of a commit of this history."
                )


def run_pieces(record: Record, pieces: Pieces, *, again: bool) -> None:
    """Run what was not measured with this code yet, or all again."""
    for piece, run in pieces.items():
        print(f"\n== {record.path.stem}: {piece}", flush=True)
        if record.holds(piece) and not again:
            print(f"measured before, at {record.pieces[piece].commit}")
            continue
        start = time.perf_counter()
        record.keep(measure(piece, run))
        print(f"-- {time.perf_counter() - start:.0f} s, kept in {record.path}", flush=True)


if __name__ == "__main__":
    main()
