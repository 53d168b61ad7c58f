"""The work on an uploaded table, in a process of its own: `python -m shoal.server.work look|run FOLDER`."""

from __future__ import annotations

import json
import os
import shlex
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.errors import InputError, ShoalError

MEMORY_BYTES = 16 << 30
UNPACKED_BYTES = 1 << 30


def main(what: str, folder: Path) -> None:
    """Do one piece of work and say in `job.json` how it went."""
    _limit()
    os.umask(0o077)
    try:
        (look if what == "look" else run)(folder)
        state, error = ("ready" if what == "look" else "done"), ""
    except ShoalError as problem:
        state, error = ("refused" if what == "look" else "ready"), _without(str(problem), folder)
    except MemoryError:
        state, error = "refused", "The table is too large for this server."
    except Exception as problem:  # the owner sees that it failed; what the table holds stays out of it
        state, error = "refused", f"The work failed inside ({type(problem).__name__})."
    from shoal.server.publish import _change

    _change(folder, state=state, error=error)


def look(folder: Path) -> None:
    """Guess roles and kinds."""
    from shoal.engine.guess import guess_schema

    source = _read(folder)
    guessed = guess_schema(source.frame, source.labelled())
    columns = [
        {"name": each.name, "role": each.effective_role, "kind": each.kind, "reason": each.reason}
        for each in guessed.columns.values()
    ]
    _write(
        folder / "look.json",
        {
            "columns": columns, "rows": source.frame.height, "notes": [_without(each, folder) for each in source.notes],
            "missing": sum(source.frame.null_count().row(0)),
        },
    )  # fmt: skip


def run(folder: Path) -> None:
    """Protect the table and write everything there is to take away."""
    from shoal import io
    from shoal.engine.guess import guess_schema
    from shoal.protect import protect
    from shoal.report.repeat import python_of
    from shoal.server.pages import escape_cell

    wanted = json.loads((folder / "wanted.json").read_text(encoding="utf-8"))
    with (folder / "progress.jsonl").open("a", encoding="utf-8") as file:

        def say(sentence: str) -> None:
            file.write(json.dumps(sentence) + "\n")
            file.flush()

        say("reading the table")
        source = _read(folder)
        schema = guess_schema(source.frame, source.labelled())
        schema = schema.with_columns(**{name: {"role": role} for name, role in wanted["roles"].items()})
        (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
        searches: dict[str, Any] = (
            {"time_limit": float(wanted["seconds"])} if wanted["method"] == "anneal" else {}
        )
        result = protect(
            source.frame, wanted["k"], method=wanted["method"], schema=schema, missing=wanted["missing"],
            integers="round" if wanted["round"] else "float", progress=say, **searches,
        )  # fmt: skip
        command = _command(wanted, result.settings, _ending(folder))
        settings = result.settings | {"command": command, "source": f"table{_ending(folder)}"}
        result = replace(result, settings=settings, notes=(*source.notes, *result.notes))
        say("writing the reports")
        result.report(folder / "report.html")
        result.report(folder / "public-report.html", public=True)
        say("writing the protected table")
        frame = result.frame
        if wanted["escape"]:
            import polars as pl

            frame = frame.with_columns(pl.col(pl.String).map_elements(escape_cell, return_dtype=pl.String))
        io.write_table(frame, folder / "protected.csv")
        facts = {
            "figures": {k: v for k, v in result.figures.items() if isinstance(v, (int, float))},
            "verdicts": [str(each) for each in result.verdicts],
            "notes": [_without(each, folder) for each in result.notes],
            "command": command,
            "python": python_of(settings, {}, with_schema=True),
            "escaped": wanted["escape"],
        }
        _write(folder / "result.json", facts)


def _read(folder: Path) -> Any:
    from shoal import io

    table = folder / f"table{_ending(folder)}"
    if zipfile.is_zipfile(table):
        with zipfile.ZipFile(table) as packed:
            if sum(each.file_size for each in packed.infolist()) > UNPACKED_BYTES:
                raise InputError("The file unpacks to more than this server takes.")
    return io.read_source(table)


def _ending(folder: Path) -> str:
    return str(json.loads((folder / "job.json").read_text(encoding="utf-8"))["ending"])


def _command(wanted: dict[str, Any], settings: dict[str, Any], ending: str) -> str:
    words = ["shoal", "protect", f"table{ending}", "-k", str(wanted["k"]), "-o", "protected.csv"]
    words += ["--method", wanted["method"], "--schema", "schema.toml", "--missing", wanted["missing"]]
    words += ["--integers", "round"] if wanted["round"] else []
    if settings.get("max_proposals") is not None:
        words += ["--max-proposals", str(settings["max_proposals"])]
    return shlex.join([*words, "--seed", "0"])


def _without(text: str, folder: Path) -> str:
    """A sentence in which the server's own paths do not appear."""
    return text.replace(f"{folder}/", "")


def _write(path: Path, facts: dict[str, Any]) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(facts, default=float), encoding="utf-8")
    draft.replace(path)


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
