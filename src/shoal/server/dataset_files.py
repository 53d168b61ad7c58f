"""Data sets that owners add and change while the server runs: their files, their versions, and how workers notice."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import time
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shoal.dp.ledger.ledger import Ledger
from shoal.dp.loading.quality import ColumnQuality, quality
from shoal.dp.loading.sources import read_private
from shoal.engine.guess import guess_schema
from shoal.errors import InputError, ParameterError, ShoalError
from shoal.io import FORMATS, read_source, write_text
from shoal.schema import Schema, read_codebook
from shoal.server.opening import open_sessions
from shoal.server.schema_form import stated_source
from shoal.server.served import ServedDataset, dataset_of
from shoal.typing import Json

FACTS, SCHEMA, DRAFT = "dataset.toml", "schema.toml", "draft.json"
DRAFT_SECONDS = 6 * 3600.0
CODEBOOKS = (".toml", ".xml")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DRAFT = re.compile("[0-9a-f]{24}")
SAMPLES = 5


@dataclass(frozen=True)
class Sample:
    """For the owner: some values of a column."""

    name: str
    values: tuple[str, ...]
    different: int


@dataclass(frozen=True)
class Version:
    """A version of a data set that is kept, and when it was saved."""

    number: int
    at: float


@dataclass(frozen=True)
class DraftFacts:
    """Of which data set a draft is the next version, if of any, and its settings."""

    dataset: str = ""
    settings: Json = field(default_factory=dict)


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

    def read(self) -> tuple[dict[str, ServedDataset], dict[str, Exception]]:
        """All data sets of the folder by their ids; of those that cannot be read, why."""
        found: dict[str, ServedDataset] = {}
        broken: dict[str, Exception] = {}
        for path in sorted(self.folder.glob(f"*/{FACTS}")):
            try:
                facts = tomllib.loads(path.read_text(encoding="utf-8"))
                made = dataset_of(facts, path.parent, str(path))
                found[made.schema.id] = made
            except (ShoalError, OSError, ValueError) as error:
                broken[path.parent.name] = error
        return found, broken

    def draft(self, source: Path | Any, ending: str, codebook: tuple[str, bytes] | None = None) -> str:
        """Take a table in, a path or a file that is open, and give the name of the draft.

        A codebook comes by its ending and its bytes.
        """
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
        if codebook is not None:
            (place / f"codebook{codebook[0]}").write_bytes(codebook[1])
        return name

    def table(self, draft: str) -> Path:
        """The table of a draft."""
        if _DRAFT.fullmatch(draft):
            with contextlib.suppress(OSError):
                os.utime(self.folder / "drafts" / draft)  # somebody is at it
            for path in (self.folder / "drafts" / draft).glob("table.*"):
                return path
        raise InputError("There is no such draft: it was saved or thrown away.")

    def schema(self, draft: str) -> Schema:
        """The schema of a draft as it stands: what was typed last, its codebook's, or a first guess.

        A guess has no bounds and no levels: those would tell about the rows.
        """
        table = self.table(draft)
        if (table.parent / SCHEMA).is_file():
            return Schema.from_toml(table.parent / SCHEMA)
        codebook = _codebook(table.parent)
        source = read_source(table, None if codebook is None else codebook.file)
        guessed = guess_schema(source.frame, source.labelled()).columns
        if codebook is None:
            return Schema(guessed, id="table", file=source.file)
        known = {name: each for name, each in codebook.columns.items() if name in source.frame.columns}
        stated = {
            name: stated_source(each, "codebook") if each.bounds or each.levels else each
            for name, each in known.items()
        }
        columns = {name: stated.get(name, guessed[name]) for name in source.frame.columns if name in guessed}
        return replace(codebook, columns=columns, file=codebook.file or source.file)

    def facts(self, draft: str) -> DraftFacts:
        """Of which data set a draft is the next version, and its settings."""
        path = self.table(draft).parent / DRAFT
        return DraftFacts(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else DraftFacts()

    def sweep(self) -> None:
        """Remove drafts that nobody has touched for hours: each holds a copy of a table."""
        for folder in (self.folder / "drafts").glob("*"):
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > DRAFT_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)

    def samples(self, draft: str) -> tuple[Sample, ...]:
        """For the owner: some values of each column."""
        frame = read_source(self.table(draft)).frame
        return tuple(_sample(frame[name]) for name in frame.columns)

    def look(self, draft: str, schema: str, facts: Json, minimum: float) -> tuple[ColumnQuality, ...]:
        """Read the table as it would be asked; raises a sentence about what is wrong, and changes nothing."""
        table = self.table(draft)
        made = self._made(table, schema, facts)
        frame = read_private(made.file, made.schema)
        with Ledger() as ledger:
            open_sessions(made, frame, ledger, "look", minimum)
        return quality(frame, made.schema)

    def save(self, draft: str, schema: str, facts: Json) -> ServedDataset:
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

    def versions(self, dataset: str) -> list[Version]:
        """The versions that are kept, the newest first."""
        found = (self.folder / dataset).glob("schema-*.toml") if _NAME.fullmatch(dataset) else ()
        made = [Version(int(each.stem.rpartition("-")[2]), each.stat().st_mtime) for each in found]
        return sorted(made, key=lambda each: -each.number)

    def draft_of(self, dataset: str) -> str:
        """A draft that begins with the newest version of a data set."""
        path = self._facts_of(dataset)
        facts = tomllib.loads(path.read_text(encoding="utf-8"))
        table = path.parent / facts.pop("file")
        schema = (path.parent / facts.pop("schema")).read_text(encoding="utf-8")
        facts.pop("version", None)
        draft = self.draft(table, table.suffix)
        place = self.folder / "drafts" / draft
        write_text(schema, place / SCHEMA)
        write_text(json.dumps({"dataset": dataset, "settings": facts}), place / DRAFT)
        return draft

    def take_out(self, dataset: str) -> None:
        """No longer answer a data set; its files are kept under another name, its budget in the ledger."""
        path = self._facts_of(dataset)
        os.replace(path, path.with_suffix(".out"))
        self._changed()

    def _facts_of(self, dataset: str) -> Path:
        path = self.folder / dataset / FACTS
        if not _NAME.fullmatch(dataset) or not path.is_file():
            raise ParameterError(
                f"Data set {dataset!r} is declared in the configuration: change it there, and start again."
            )
        return path

    def _made(self, table: Path, schema: str, facts: Json) -> ServedDataset:
        codebook = table.parent / SCHEMA
        write_text(schema, codebook)
        made = dataset_of(facts | {"file": table.name, "schema": codebook.name}, table.parent, "The data set")
        if not _NAME.fullmatch(made.schema.id) or made.schema.id in ("drafts", "revision"):
            raise ParameterError(
                "'id' in the schema must be 1 to 64 letters, digits, _ and -, and not 'drafts' or 'revision'. "
                f"Got {made.schema.id[:80]!r}."
            )
        return made

    def _changed(self) -> None:
        (self.folder / "revision").write_text(secrets.token_hex(8))


def _sample(column: Any) -> Sample:
    values = column.drop_nulls().unique(maintain_order=True)
    return Sample(column.name, tuple(str(each)[:40] for each in values.head(SAMPLES)), len(values))


def _codebook(place: Path) -> Schema | None:
    if (place / "codebook.xml").is_file():
        return read_codebook(place / "codebook.xml")
    return Schema.from_toml(place / "codebook.toml") if (place / "codebook.toml").is_file() else None


def _toml(facts: Json) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in facts.items() if value is not None)
