"""Opening a data set: its tables are read once for all workers, and each of its modes gets a session on one ledger."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from shoal.dp.correlation import Grid, named_model
from shoal.dp.heuristic import Heuristic
from shoal.dp.ledger.claims import Caps
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.loading.quality import ColumnQuality, quality
from shoal.dp.loading.shared import KeptFrames, SharedTable
from shoal.dp.loading.sources import Source, open_source, read_private
from shoal.dp.opening import FewCellsWarning, digest
from shoal.dp.session import Session
from shoal.dp.unit import STATED
from shoal.release import KeptReleases
from shoal.schema import Schema
from shoal.server.served import ServedDataset
from shoal.typing import Keywords

Further = dict[str, tuple[SharedTable | Source, Schema]]
"""Tables beside the first, by name, each with its schema."""


def declared(facts: ServedDataset) -> str:
    """A word for a data set as it was declared, its linked tables with it; nothing in it is read from rows."""
    further = [(name, str(each.file), each.schema.to_toml()) for name, each in (facts.tables or {}).items()]
    return digest(repr((str(facts.file), facts.version, facts.schema.to_toml(), further)))


def table_of(facts: ServedDataset, kept: KeptFrames) -> SharedTable | Source:
    """The cells of a file, or a source that is read when it is asked: a folder of Parquet files, or a database."""
    alone = not facts.tables and isinstance(facts.file, Path) and facts.file.is_file()
    return _opened(facts.file, facts.schema, kept, "cells", alone=alone, also=bool(facts.tables))


def further_tables(facts: ServedDataset, kept: KeptFrames) -> Further:
    """The further tables of a data set with their schemas, read or ready to be read."""
    return {
        name: (_opened(each.file, each.schema, kept, f"cells of {name}", also=True), each.schema)
        for name, each in (facts.tables or {}).items()
    }


def _opened(
    file: Path | str, schema: Schema, kept: KeptFrames, name: str, *, alone: bool = False, also: bool = False
) -> SharedTable | Source:
    source = None if alone else open_source(file, schema)
    if source is not None:
        return source
    return SharedTable(kept.frame(name, lambda: read_private(file, schema, also=also)), kept)


def cells_or_source(table: SharedTable | Source) -> Any:
    """What a table's rows can be read from."""
    return table.cells if isinstance(table, SharedTable) else table


def kept_quality(
    facts: ServedDataset, table: SharedTable | Source, further: Further, kept: KeptFrames
) -> tuple[ColumnQuality, ...]:
    """How the cells of all tables were understood, looked at once; columns of further tables after their names."""
    names = [each.name for each in fields(ColumnQuality)]

    def look() -> pl.DataFrame:
        found = list(quality(cells_or_source(table), facts.schema))
        for name, (data, schema) in further.items():
            found += [
                replace(each, name=f"{name}.{each.name}") for each in quality(cells_or_source(data), schema)
            ]
        rows = [tuple(getattr(each, name) for name in names) for each in found]
        types = [pl.String, *[pl.Int64] * (len(names) - 1)]
        return pl.DataFrame(rows, schema=dict(zip(names, types, strict=True)), orient="row")

    return tuple(ColumnQuality(*row) for row in kept.frame("quality", look).rows())


def open_sessions(
    facts: ServedDataset,
    frame: Any,
    ledger: Ledger,
    version: str,
    minimum: float,
    further: Further | None = None,
) -> dict[str, Session | Heuristic]:
    """A session for each mode of a data set, on one ledger."""
    sessions: dict[str, Session | Heuristic] = {}
    more: Keywords = {"tables": further} if further else {}
    for mode in facts.modes:
        if mode == "heuristic":
            model = Grid.of_schema(facts.schema) if facts.schema.cells else None
            if facts.model is not None:
                model = named_model(facts.model, facts.schema)
            sessions[mode] = Heuristic(frame, facts.schema, model, ledger=ledger)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewCellsWarning)  # the answers' notes say it
            sessions[mode] = Session(
                frame,
                facts.schema,
                mode,
                facts.budget,
                per_analyst=facts.per_analyst,
                ledger=ledger,
                tau=facts.tau if mode == "correlated" else None,
                model=facts.model if mode in STATED else None,
                data_version=facts.version or facts.schema.version or version,
                minimum=minimum,
                releases=() if mode in STATED or further else (KeptReleases(ledger, facts.schema),),
                **more,
            )
    return sessions


def narrow(by_mode: dict[str, Session | Heuristic], most: int) -> None:
    """Let no account spend more; the ledger holds its own caps besides."""
    for mode, session in list(by_mode.items()):
        if isinstance(session, Heuristic):
            del by_mode[mode]  # it guarantees nothing, so there is nothing to cap
            continue
        caps = session.caps.within(session.limit)
        session.limit = caps.within(Caps(caps.total, most, caps.currency))
