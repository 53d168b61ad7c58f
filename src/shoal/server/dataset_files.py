"""Data sets that owners add and change while the server runs: their files, their versions, and how workers notice."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.dp.ledger.ledger import Ledger
from shoal.dp.loading.quality import ColumnQuality, quality
from shoal.dp.loading.sources import read_private
from shoal.engine.guess import guess_schema
from shoal.errors import InputError, ParameterError
from shoal.io import FORMATS, read_source, write_text
from shoal.schema import Schema
from shoal.server.config import Dataset, dataset_of

FACTS = "dataset.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DRAFT = re.compile("[0-9a-f]{24}")
SAMPLES = 5


@dataclass(frozen=True)
class Sample:
    """For the owner: some values of a column."""

    name: str
    values: tuple[str, ...]
    different: int


class DatasetFiles:
    """A folder with one folder for each data set, in which every version of its files is kept.

    Parameters
    ----------
    folder : Path
        Made when the first data set is added. Servers that share it see each other's data sets.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def revision(self) -> int:
        """A number that changes whenever a data set was added, changed or taken out."""
        try:
            return (self.folder / "revision").stat().st_mtime_ns
        except OSError:
            return 0

    def read(self) -> dict[str, Dataset]:
        """All data sets of the folder."""
        found = {}
        for path in sorted(self.folder.glob(f"*/{FACTS}")):
            facts = tomllib.loads(path.read_text(encoding="utf-8"))
            made = dataset_of(facts, path.parent, str(path))
            found[made.schema.id] = made
        return found

    def draft(self, source: Path | Any, ending: str) -> str:
        """Take a table in, a path or a file that is open, and give the name of the draft."""
        if ending not in FORMATS:
            raise InputError(f"The file must end in one of {', '.join(FORMATS)}. Got {ending[:20]!r}.")
        name = secrets.token_hex(12)
        place = self.folder / "drafts" / name
        place.mkdir(parents=True, mode=0o700)
        table = place / f"table{ending}"
        if isinstance(source, Path):
            shutil.copyfile(source, table)
        else:
            with table.open("xb") as file:
                shutil.copyfileobj(source, file)
        os.chmod(table, 0o600)
        return name

    def table(self, draft: str) -> Path:
        """The table of a draft."""
        if _DRAFT.fullmatch(draft):
            for path in (self.folder / "drafts" / draft).glob("table.*"):
                return path
        raise InputError("There is no such draft: it was saved or thrown away.")

    def guess(self, draft: str) -> tuple[str, tuple[Sample, ...]]:
        """For the owner: a first schema, without bounds and levels, and some values of each column."""
        source = read_source(self.table(draft))
        schema = Schema(guess_schema(source.frame, source.labelled()).columns, id="table", file=source.file)
        return schema.to_toml(), tuple(_sample(source.frame[name]) for name in source.frame.columns)

    def samples(self, draft: str) -> tuple[Sample, ...]:
        """For the owner: some values of each column."""
        frame = read_source(self.table(draft)).frame
        return tuple(_sample(frame[name]) for name in frame.columns)

    def look(
        self, draft: str, schema: str, facts: dict[str, Any], minimum: float
    ) -> tuple[ColumnQuality, ...]:
        """Read the table as it would be asked; raises a sentence about what is wrong, and changes nothing."""
        from shoal.server.service import open_sessions

        table = self.table(draft)
        made = self._made(table, schema, facts)
        frame = read_private(made.file, made.schema)
        with Ledger() as ledger:
            open_sessions(made, frame, ledger, "look", minimum)
        return quality(frame, made.schema)

    def save(self, draft: str, schema: str, facts: dict[str, Any]) -> Dataset:
        """Make a draft the newest version of its data set."""
        table = self.table(draft)
        made = self._made(table, schema, facts)
        place = self.folder / made.schema.id
        place.mkdir(mode=0o700, exist_ok=True)
        version = 1 + max(
            (int(each.stem.rpartition("-")[2]) for each in place.glob("schema-*.toml")), default=0
        )
        file, codebook = place / f"table-{version}{table.suffix}", place / f"schema-{version}.toml"
        os.replace(table, file)
        write_text(schema, codebook)
        named = facts | {"file": file.name, "schema": codebook.name}
        # The state of the table has a name that is drawn, never computed from its rows.
        named.setdefault("version", f"{version}-{secrets.token_hex(8)}")
        write_text(_toml(named), place / FACTS)
        shutil.rmtree(table.parent, ignore_errors=True)
        self._changed()
        return dataset_of(named, place, str(place))

    def versions(self, dataset: str) -> list[int]:
        """The versions that are kept."""
        found = (self.folder / dataset).glob("schema-*.toml") if _NAME.fullmatch(dataset) else ()
        return sorted(int(each.stem.rpartition("-")[2]) for each in found)

    def draft_of(self, dataset: str) -> tuple[str, str, dict[str, Any]]:
        """A draft that begins with the newest version of a data set: its name, schema and settings."""
        path = self.folder / dataset / FACTS
        if not _NAME.fullmatch(dataset) or not path.is_file():
            raise ParameterError(
                f"Data set {dataset!r} is declared in the configuration: change it there, and start again."
            )
        facts = tomllib.loads(path.read_text(encoding="utf-8"))
        table = path.parent / facts.pop("file")
        schema = (path.parent / facts.pop("schema")).read_text(encoding="utf-8")
        facts.pop("version", None)
        return self.draft(table, table.suffix), schema, facts

    def take_out(self, dataset: str) -> None:
        """No longer answer a data set; its files are kept under another name, its budget in the ledger."""
        self.draft_of(dataset)
        path = self.folder / dataset / FACTS
        os.replace(path, path.with_suffix(".out"))
        self._changed()

    def _made(self, table: Path, schema: str, facts: dict[str, Any]) -> Dataset:
        codebook = table.parent / "schema.toml"
        write_text(schema, codebook)
        made = dataset_of(facts | {"file": table.name, "schema": codebook.name}, table.parent, "The data set")
        if not _NAME.fullmatch(made.schema.id):
            raise ParameterError(
                f"'id' in the schema must be 1 to 64 letters, digits, _ and -. Got {made.schema.id[:80]!r}."
            )
        return made

    def _changed(self) -> None:
        (self.folder / "revision").write_text(secrets.token_hex(8))


def _sample(column: Any) -> Sample:
    values = column.drop_nulls().unique(maintain_order=True)
    return Sample(column.name, tuple(str(each)[:40] for each in values.head(SAMPLES)), len(values))


def _toml(facts: dict[str, Any]) -> str:
    import json

    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in facts.items() if value is not None)
