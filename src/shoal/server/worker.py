"""The work on an uploaded table, in a process of its own: `python -m shoal.server.worker look|run|compare FOLDER`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shoal.errors import InputError, ShoalError
from shoal.schema import Column, Schema, decode_table, read_codebook
from shoal.server.job_files import JobState, RiskMap, RunResult, TableLook, WantedRun, change
from shoal.server.map_size import MapSample, many_values
from shoal.server.models import ColumnLook, ComparedMethod, RecommendedMethod
from shoal.typing import Json

if TYPE_CHECKING:
    import polars as pl

    from shoal.comparison import Cell
    from shoal.publish.request import ProtectionRequest
    from shoal.server.models import Colour

MAP_SECONDS = 1.0
SAMPLES = 4
MOST_COLUMNS = 2000
HIERARCHIES = "hierarchies"
MEMORY_BYTES = 16 << 30
UNPACKED_BYTES = 1 << 30


def main(what: str, folder: Path) -> None:
    """Do one piece of work and say in `job.json` how it went."""
    _limit()
    os.umask(0o077)
    error, failed = "", "refused" if what == "look" else "ready"
    try:
        {"look": look, "run": run, "compare": compare}[what](folder)
        state = "done" if (folder / RunResult.FILE).exists() else "ready"
    except ShoalError as problem:
        from shoal.publish.status import HOW_TO_ACCEPT

        state, error = failed, _without(str(problem), folder).replace(HOW_TO_ACCEPT, " below")
    except MemoryError:
        state, error = "refused", "The table is too large for this server."
    except Exception as problem:  # the owner sees that it failed; what the table holds stays out of it
        state, error = "refused", f"The work failed inside ({type(problem).__name__})."
    change(folder, state=state, error=error)


def look(folder: Path) -> None:
    """Guess roles and kinds, and describe each column to the owner."""
    codebook = _codebook(folder)
    source = _read(folder, codebook)
    if source.frame.width > MOST_COLUMNS:
        raise InputError(
            f"The page takes tables of at most {MOST_COLUMNS:,} columns; `shoal protect` takes more. Got {source.frame.width:,}."
        )
    schema = _schema(codebook, source)
    decoded = decode_table(source.frame, schema)
    hierarchies = _uploaded(folder)
    columns = [_described(each, decoded, hierarchies) for each in schema.columns.values()]
    notes = [_without(each, folder) for each in source.notes]
    notes += [
        f"The hierarchy of {name!r} fits no column of the table."
        for name in sorted(hierarchies - set(schema.columns))
    ]
    notes += many_values(schema, decoded)
    if hierarchies & set(schema.columns):
        notes.append("The hierarchies are used by the methods generalize and suppress.")
    missing = sum(column.null_count() for column in decoded.iter_columns())
    TableLook(
        columns=columns, rows=source.frame.height, notes=notes, missing=missing, codebook=codebook is not None
    ).write(folder)


def _uploaded(folder: Path) -> set[str]:
    """The columns for which hierarchies came along; each is read, so that a broken one is refused at once."""
    if not (folder / HIERARCHIES).is_dir():
        return set()
    from shoal.generalization import read_hierarchies

    return set(read_hierarchies(folder / HIERARCHIES))


def _described(column: Column, frame: pl.DataFrame, hierarchies: Collection[str]) -> ColumnLook:
    """What the owner sees of a column: what it is taken for and why, some of its values, how many there are."""
    there = column.name in frame.columns
    values = frame[column.name].drop_nulls() if there else None
    some = () if values is None else values.head(2000).unique(maintain_order=True).head(SAMPLES)
    return ColumnLook(
        name=column.name,
        role=column.effective_role,
        kind=column.kind,
        reason=column.reason,
        bounds=None if column.bounds is None else [str(each) for each in column.bounds],
        levels=len(column.levels or ()),
        hierarchy=column.hierarchy is not None or column.name in hierarchies,
        samples=[str(each)[:40] for each in some],
        distinct=0 if values is None else values.n_unique(),
        missing=0 if values is None else len(frame) - len(values),
    )


def run(folder: Path) -> None:
    """Protect the table and write everything there is to take away."""
    from shoal import io
    from shoal.evidence import run_of_protection
    from shoal.publish.executors.memory import Memory
    from shoal.publish.pipeline import protect
    from shoal.publish.request import ProtectionRequest

    wanted = WantedRun.read(folder)
    with _saying(folder) as tell:
        source, schema = _ready(folder, wanted, tell)
        (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
        # A red result stays in this folder until the owner has typed that it is to be given out.
        asked = {**wanted.request, "schema": schema}
        here, there = _hierarchies(folder, asked)
        request = ProtectionRequest.from_dict({**asked, **here, "accept_risk": True})
        result = protect(request, Memory(source.frame, source.labelled()), tell)
        # To repeat it, no risk need be accepted unless it is red, and hierarchies lie beside the table.
        risk = {"accept_risk": True} if result.status == "red" else {}
        result = replace(result, request=ProtectionRequest.from_dict({**asked, **there, **risk}))
        result = result.placed(f"table{_ending(folder)}", "protected.csv", tuple(source.notes))
        tell("writing the reports", 0, 0)
        result.report(folder / "report.html")
        result.report(folder / "public-report.html", public=True)
        tell("writing the protected table", 0, 0)
        frame = _escaped(result.frame) if wanted.escape else result.frame
        io.write_table(frame, folder / "protected.csv", source)
        # What `shoal attack` and `shoal dossier` start from, beside the two tables.
        run_of_protection(result).save(folder / "run.json")
        figures = result.figures.to_dict()
        RunResult(
            status=cast("Colour", result.status),
            advice=result.advice,
            reasons=list(result.reasons),
            figures={name: each for name, each in figures.items() if isinstance(each, (int, float))},
            verdicts=[str(each) for each in result.verdicts],
            notes=[_without(each, folder) for each in result.notes],
            command=result.command(),
            python=result.python(),
            escaped=wanted.escape,
        ).write(folder)


def _hierarchies(folder: Path, asked: Json) -> tuple[dict[str, str], dict[str, str]]:
    """Where uploaded hierarchies lie now, and where they lie for who repeats the run; for methods that use them."""
    from shoal.publish.recoding import CHANGING

    if not (folder / HIERARCHIES).is_dir() or asked.get("method") not in CHANGING:
        return {}, {}
    return {"hierarchies": str(folder / HIERARCHIES)}, {"hierarchies": HIERARCHIES}


def compare(folder: Path) -> None:
    """Draw the risk-utility map: a spread of methods and k, each search cut short."""
    from shoal.comparison import DEFAULT_METHODS
    from shoal.comparison import compare as compare_methods

    wanted = WantedRun.read(folder)
    k = wanted.request.get("k", 5)
    with _saying(folder) as tell:
        source, schema = _ready(folder, wanted, tell)
        sample = MapSample.of(source.frame, schema, DEFAULT_METHODS)
        ks = sorted({each for each in (3, k, 2 * k) if 2 * each <= sample.frame.height})
        found = compare_methods(
            sample.frame, ks or [k], methods=sample.methods, schema=schema, fixed_k=k if k in ks else None, on_missing=wanted.request.get("on_missing"),
            time_limit=MAP_SECONDS, n_jobs=1, progress=tell,
        )  # fmt: skip
        found = replace(found, notes=(*sample.notes, *found.notes))
        tell("drawing the map", 0, 0)
        found.report(folder / "map.html")
        notes = [_without(each, folder) for each in found.notes]
        RiskMap(
            reason=found.reason,
            best=RecommendedMethod(method=found.recommended.method, k=found.recommended.k),
            notes=notes,
            ks=ks,
            seconds=MAP_SECONDS,
            cells=[_point(each) for each in found.cells],
        ).write(folder)


def _point(cell: Cell) -> ComparedMethod:
    """One method at one k, as the map shows it."""
    return ComparedMethod(
        method=cell.method,
        k=cell.k,
        information_loss=cell.information_loss,
        dld=cell.dld,
        smallest_group=int(cell.smallest_group),
        on_front=bool(cell.on_front),
    )


@contextlib.contextmanager
def _saying(folder: Path) -> Iterator[Callable[[str, float, float], None]]:
    """A way to tell what is being done, line by line; shares of one stage at most every per cent."""
    with (folder / "progress.jsonl").open("a", encoding="utf-8") as file:
        last = ("", -1)

        def tell(stage: str, done: float, of: float) -> None:
            nonlocal last
            percent = int(100 * min(done / of, 1.0)) if of > 0 else -1
            if (stage, percent) != last:
                last = (stage, percent)
                file.write(json.dumps([stage, None if percent < 0 else percent / 100]) + "\n")
                file.flush()

        yield tell


def _ready(folder: Path, wanted: WantedRun, tell: Callable[[str, float, float], None]) -> tuple[Any, Schema]:
    """The table, and its schema with the roles that the form gave."""
    from shoal.publish.request import ProtectionRequest

    tell("reading the table", 0, 0)
    codebook = _codebook(folder)
    wishes = {name: wish.said for name, wish in wanted.columns.items()}
    schema = _schema(codebook, _read(folder, codebook)).with_columns(**wishes)
    asked = ProtectionRequest.from_dict({**wanted.request, "schema": schema})
    return _read(folder, codebook, asked), schema


def _codebook(folder: Path) -> Schema | None:
    """The table's own schema or DDI codebook, where it came with one."""
    if (folder / "codebook.xml").exists():
        return read_codebook(folder / "codebook.xml")
    codebook = folder / "codebook.toml"
    # Where it lies on the server is nobody's business, and no ledger lies beside it.
    return replace(Schema.from_toml(codebook), path=None) if codebook.exists() else None


def _schema(codebook: Schema | None, source: Any) -> Schema:
    """The table's own schema where it came with one, a guess for what that does not name."""
    from shoal.engine.guess import guess_schema

    if codebook is None:
        return guess_schema(source.frame, source.labelled())
    open_columns = [name for name in source.frame.columns if name not in codebook.columns]
    roles_open = all(each.role is None for each in codebook.columns.values())
    if not open_columns and not roles_open:
        return codebook
    guessed = guess_schema(source.frame, source.labelled()).columns
    columns = {name: guessed[name] for name in open_columns if name in guessed}
    columns |= {
        name: replace(each, role=guessed[name].effective_role, reason=guessed[name].reason)
        if roles_open and name in guessed
        else each
        for name, each in codebook.columns.items()
    }
    return replace(codebook, columns=columns)


def _escaped(frame: Any) -> Any:
    """The table with no cell or heading that a spreadsheet takes for a formula."""
    import polars as pl

    from shoal.server.pages import escape_cell

    headed = frame.rename({name: escape_cell(name) for name in frame.columns})
    return headed.with_columns(pl.col(pl.String).map_elements(escape_cell, return_dtype=pl.String))


def _read(folder: Path, codebook: Schema | None, asked: ProtectionRequest | None = None) -> Any:
    """The table, with the cells of some columns as they stand in the file where it is known what is asked for."""
    from shoal import io

    table = folder / f"table{_ending(folder)}"
    if _unpacked(table) > UNPACKED_BYTES:
        raise InputError("The file unpacks to more than this server takes.")
    kept = ((), ()) if asked is None else (asked.untouched, asked.as_written)
    return io.read_source(table, None if codebook is None else codebook.file, *kept)


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
    return JobState.read(folder).ending


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
