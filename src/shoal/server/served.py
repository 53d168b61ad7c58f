"""The data sets of `shoal.toml`: the tables that may be asked, what is allowed on them, and what makes no sense."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from shoal.dp.loading.sources import located_table
from shoal.dp.unit import MODES as SOUND
from shoal.dp.unit import STATED
from shoal.errors import MissingExtraError, ParameterError
from shoal.schema import Schema
from shoal.server.settings import RULES, Count, Number, Text, made, require_table
from shoal.typing import Json

try:
    from pydantic import Field, InstanceOf
    from pydantic.dataclasses import dataclass
except ImportError:
    raise MissingExtraError("pydantic", "server") from None

MODES = (*SOUND, *STATED, "heuristic")


@dataclass(frozen=True, config=RULES)
class LinkedTable:
    """A further table of a data set, under the name that `[links]` of its schema and queries use."""

    file: InstanceOf[Path] | Text = Field(description="the table, as `file` of the data set")
    schema: InstanceOf[Schema] = Field(description="path of its own schema")


@dataclass(frozen=True, config=RULES)
class ServedDataset:
    """One table that may be asked: where it lies, its public facts, and what is allowed on it."""

    file: InstanceOf[Path] | Text = Field(
        description="the table: a file, a folder of Parquet files, `duckdb:///FILE?table=NAME` or `postgresql://...?table=NAME`"
    )
    schema: InstanceOf[Schema] = Field(description="path of its schema")
    modes: tuple[Text, ...] = Field(default=("dp",), description="modes in which it is answered")
    budget: Number | None = Field(
        default=None,
        description="epsilon of the data set, against everyone together; of one counted in zCDP, with its delta",
    )
    per_analyst: Number | None = Field(default=None, description="epsilon of each analyst")
    tau: Count | None = Field(default=None, description="rows of a cell that count, in mode `correlated`")
    model: Text | None = Field(
        default=None,
        description="model of mode `heuristic` (`dbscan:eps=0.4`), or the file of a declared model",
    )
    version: Text | None = Field(default=None, description="the owner's word for this state of the table")
    about: Text = Field(default="", description="a sentence for analysts")
    tables: dict[str, InstanceOf[LinkedTable]] | None = Field(
        default=None,
        description="further tables, each `[datasets.NAME.tables.TABLE]` with `file` and `schema`, that the schema's `[links]` name",
    )


def datasets_of(found: Any, path: Path) -> dict[str, ServedDataset]:
    """The data sets of a configuration by their ids; at least one."""
    if not isinstance(found, dict) or not found:
        raise ParameterError(
            f"{str(path)!r} must have at least one [datasets.NAME] with 'file' and 'schema'."
        )
    datasets: dict[str, ServedDataset] = {}
    for name, facts in found.items():
        where = f"[datasets.{name}] of {path}"
        require_table(facts, where)
        made_one = dataset_of(facts, path.parent, where)
        if made_one.schema.id in datasets:
            raise ParameterError(f"{where}: another data set has the id {made_one.schema.id!r} already.")
        datasets[made_one.schema.id] = made_one
    return datasets


def dataset_of(facts: Json, folder: Path, where: str) -> ServedDataset:
    """A data set from its settings: its files are there, and its modes make sense."""
    for needed in ("file", "schema"):
        if not isinstance(facts.get(needed), str):
            given = f" as a text. Got {facts[needed]!r}" if needed in facts else ""
            raise ParameterError(f"{where} must say {needed!r}{given}.")
    file, schema = located_table(facts["file"], folder), Schema.from_toml(folder / facts["schema"])
    if isinstance(file, Path) and not file.exists():
        raise ParameterError(f"{where}: no file {str(file)!r}.")
    tables = _tables(facts.get("tables"), folder, where)
    found = made(ServedDataset, {**facts, "file": file, "schema": schema, "tables": tables}, where)
    modes = _modes(found, where)
    model = None if found.model is None else _model(found, folder, where)
    if schema.budget is None and found.budget is None and modes != ("heuristic",):
        raise ParameterError(f"{where} must say 'budget', here or in the schema: it has no default.")
    return dataclasses.replace(found, modes=modes, model=model)


def _tables(found: Any, folder: Path, where: str) -> dict[str, LinkedTable] | None:
    """The further tables of a data set, whose files are there."""
    if found is None:
        return None
    require_table(found, f"'tables' in {where}")
    tables = {}
    for name, facts in found.items():
        place = f"table {name!r} of {where}"
        require_table(facts, place)
        for needed in ("file", "schema"):
            if not isinstance(facts.get(needed), str):
                raise ParameterError(f"{place} must say {needed!r} as a text.")
        file = located_table(facts["file"], folder)
        if isinstance(file, Path) and not file.exists():
            raise ParameterError(f"{place}: no file {str(file)!r}.")
        schema = Schema.from_toml(folder / facts["schema"])
        tables[name] = made(LinkedTable, {**facts, "file": file, "schema": schema}, place)
    return tables or None


def _model(found: ServedDataset, folder: Path, where: str) -> str:
    """The model as it will be read: its name and parameters, or its file's path; refused here if it makes no sense."""
    from shoal.dp.correlation import named_model

    text, stated = found.model or "", [mode for mode in found.modes if mode in STATED]
    if "heuristic" not in found.modes and not stated:
        raise ParameterError(
            f"{where}: 'model' is for modes 'heuristic', 'pufferfish' and 'dependent', none of which is among its modes."
        )
    located = str(folder / text) if (folder / text).is_file() else text
    if stated:
        from shoal.dp.stated import read_stated

        model = read_stated(located)
        if model.mode != stated[0]:
            raise ParameterError(f"{where}: 'model' is one of mode {model.mode!r}, not {stated[0]!r}.")
    else:
        named_model(located, found.schema)
    return located


def _modes(found: ServedDataset, where: str) -> tuple[str, ...]:
    modes, schema = found.modes, found.schema
    for mode in modes:
        if mode not in MODES:
            raise ParameterError(f"{where}: 'modes' may hold {', '.join(MODES)}. Got {mode!r}.")
    if not modes:
        raise ParameterError(f"{where}: 'modes' must name at least one mode.")
    if found.tables and any(mode not in ("dp", "group") for mode in modes):
        raise ParameterError(f"{where}: several tables are asked in modes 'dp' and 'group'. Got {modes!r}.")
    if "heuristic" in modes and schema.private:
        raise ParameterError(
            f"{where}: mode 'heuristic' guarantees nothing, so it is refused on a data set marked private."
        )
    stated = [mode for mode in modes if mode in STATED]
    if stated and (len(modes) > 1 or found.model is None):
        raise ParameterError(
            f"{where}: mode {stated[0]!r} gives one answer under a declared 'model', and stands alone among the modes."
        )
    if "correlated" in modes and (schema.cells is None or (schema.cells.tau or found.tau) is None):
        raise ParameterError(
            f"{where}: mode 'correlated' needs cells in the schema, and a tau here or there."
        )
    if "group" in modes and schema.group is None:
        raise ParameterError(f"{where}: mode 'group' needs a group in the schema.")
    return tuple(dict.fromkeys(modes))
