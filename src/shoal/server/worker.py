"""The work on an uploaded table, in a process of its own: `python -m shoal.server.worker look|run|compare FOLDER`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shoal.errors import InputError, ShoalError
from shoal.schema import Schema, decode_table
from shoal.server.jobs import change, read, write

MAP_SECONDS = 1.0
MEMORY_BYTES = 16 << 30
UNPACKED_BYTES = 1 << 30


def main(what: str, folder: Path) -> None:
    """Do one piece of work and say in `job.json` how it went."""
    _limit()
    os.umask(0o077)
    error, failed = "", "refused" if what == "look" else "ready"
    try:
        {"look": look, "run": run, "compare": compare}[what](folder)
        state = "done" if (folder / "result.json").exists() else "ready"
    except ShoalError as problem:
        from shoal.publish.status import HOW_TO_ACCEPT

        state, error = failed, _without(str(problem), folder).replace(HOW_TO_ACCEPT, " below")
    except MemoryError:
        state, error = "refused", "The table is too large for this server."
    except Exception as problem:  # the owner sees that it failed; what the table holds stays out of it
        state, error = "refused", f"The work failed inside ({type(problem).__name__})."
    change(folder, state=state, error=error)


def look(folder: Path) -> None:
    """Guess roles and kinds."""
    codebook = _codebook(folder)
    source = _read(folder, codebook)
    schema = _schema(codebook, source)
    columns = [
        {"name": each.name, "role": each.effective_role, "kind": each.kind, "reason": each.reason}
        for each in schema.columns.values()
    ]
    notes = [_without(each, folder) for each in source.notes]
    missing = _missing(source.frame, schema)
    facts = {"columns": columns, "rows": source.frame.height, "notes": notes, "missing": missing}
    write(folder / "look.json", facts | {"codebook": codebook is not None})


def run(folder: Path) -> None:
    """Protect the table and write everything there is to take away."""
    from shoal import io
    from shoal.evidence import run_of_protection
    from shoal.publish.executors.memory import Memory
    from shoal.publish.pipeline import protect
    from shoal.publish.request import ProtectionRequest

    wanted = read(folder / "wanted.json")
    with _saying(folder) as tell:
        source, schema = _ready(folder, wanted, tell)
        (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
        request = ProtectionRequest.from_dict({**wanted["request"], "schema": schema})
        result = protect(request, Memory(source.frame, source.labelled()), tell)
        result = result.placed(f"table{_ending(folder)}", "protected.csv", tuple(source.notes))
        tell("writing the reports", 0, 0)
        result.report(folder / "report.html")
        result.report(folder / "public-report.html", public=True)
        tell("writing the protected table", 0, 0)
        frame = _escaped(result.frame) if wanted["escape"] else result.frame
        io.write_table(frame, folder / "protected.csv", source)
        # What `shoal attack` and `shoal dossier` start from, beside the two tables.
        run_of_protection(result).save(folder / "run.json")
        figures = result.figures.to_dict()
        facts = {
            "status": result.status,
            "advice": result.advice,
            "reasons": list(result.reasons),
            "figures": {k: v for k, v in figures.items() if isinstance(v, (int, float))},
            "verdicts": [str(each) for each in result.verdicts],
            "notes": [_without(each, folder) for each in result.notes],
            "command": result.command(),
            "python": result.python(),
            "escaped": wanted["escape"],
        }
        write(folder / "result.json", facts)


def compare(folder: Path) -> None:
    """Draw the risk-utility map: a spread of methods and k, each search cut short."""
    from shoal.comparison import compare as compare_methods

    wanted = read(folder / "wanted.json")
    k = wanted["request"].get("k", 5)
    with _saying(folder) as tell:
        source, schema = _ready(folder, wanted, tell)
        ks = sorted({each for each in (3, k, 2 * k) if 2 * each <= source.frame.height})
        found = compare_methods(
            source.frame, ks or [k], schema=schema, fixed_k=k if k in ks else None, on_missing=wanted["request"].get("on_missing"),
            time_limit=MAP_SECONDS, n_jobs=1, progress=tell,
        )  # fmt: skip
        tell("drawing the map", 0, 0)
        found.report(folder / "map.html")
        notes = [_without(each, folder) for each in found.notes]
        best = {"method": found.recommended.method, "k": found.recommended.k}
        write(
            folder / "map.json",
            {"reason": found.reason, "best": best, "notes": notes, "ks": ks, "seconds": MAP_SECONDS},
        )


def _missing(frame: Any, schema: Schema) -> int:
    """Cells that are empty, or hold one of the codes that the schema declares as missing."""
    return sum(column.null_count() for column in decode_table(frame, schema).iter_columns())


@contextlib.contextmanager
def _saying(folder: Path) -> Iterator[Callable[[str, float, float], None]]:
    """A way to tell what is being done, line by line; shares of one stage at most every ten per cent."""
    with (folder / "progress.jsonl").open("a", encoding="utf-8") as file:
        last = ("", -1)

        def tell(stage: str, done: float, of: float) -> None:
            nonlocal last
            tenth = int(10 * min(done / of, 1.0)) if of > 0 else 0
            if (stage, tenth) != last:
                last = (stage, tenth)
                file.write(json.dumps(f"{stage}, {10 * tenth} %" if tenth else stage) + "\n")
                file.flush()

        yield tell


def _ready(
    folder: Path, wanted: dict[str, Any], tell: Callable[[str, float, float], None]
) -> tuple[Any, Schema]:
    """The table, and its schema with the roles that the form gave."""
    tell("reading the table", 0, 0)
    codebook = _codebook(folder)
    source = _read(folder, codebook)
    schema = _schema(codebook, source)
    return source, schema.with_columns(**{name: {"role": role} for name, role in wanted["roles"].items()})


def _codebook(folder: Path) -> Schema | None:
    """The table's own schema, where it came with one."""
    codebook = folder / "codebook.toml"
    return Schema.from_toml(codebook) if codebook.exists() else None


def _schema(codebook: Schema | None, source: Any) -> Schema:
    """The table's own schema where it came with one, else a guess."""
    from shoal.engine.guess import guess_schema

    return codebook if codebook is not None else guess_schema(source.frame, source.labelled())


def _escaped(frame: Any) -> Any:
    """The table with no cell or heading that a spreadsheet takes for a formula."""
    import polars as pl

    from shoal.server.pages import escape_cell

    headed = frame.rename({name: escape_cell(name) for name in frame.columns})
    return headed.with_columns(pl.col(pl.String).map_elements(escape_cell, return_dtype=pl.String))


def _read(folder: Path, codebook: Schema | None) -> Any:
    from shoal import io

    table = folder / f"table{_ending(folder)}"
    if _unpacked(table) > UNPACKED_BYTES:
        raise InputError("The file unpacks to more than this server takes.")
    return io.read_source(table, None if codebook is None else codebook.file)


def _unpacked(table: Path) -> int:
    """How many bytes a packed file says it holds; 0 where it says nothing, or nothing that can be read."""
    import polars as pl

    if zipfile.is_zipfile(table):
        with zipfile.ZipFile(table) as packed:
            return sum(each.file_size for each in packed.infolist())
    scans = {".parquet": pl.scan_parquet} | dict.fromkeys((".arrow", ".feather", ".ipc"), pl.scan_ipc)
    if table.suffix not in scans:
        return 0
    try:
        scanned = scans[table.suffix](table)
        rows = scanned.select(pl.len()).collect().item()
        return int(8 * rows * len(scanned.collect_schema()))
    except (pl.exceptions.PolarsError, OSError):
        return 0


def _ending(folder: Path) -> str:
    return str(read(folder / "job.json")["ending"])


def _without(text: str, folder: Path) -> str:
    """A sentence in which the server's own paths do not appear."""
    return text.replace(f"{folder}/", "")


def _limit() -> None:
    """A table that unpacks to more than the machine holds ends this process, not the server."""
    try:
        import resource
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
