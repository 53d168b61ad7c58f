"""The schema's file: TOML in, checked part by part, and out again as it was."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import SchemaError
from shoal.schema.checks import check_keys, is_text, plain, shown
from shoal.schema.column import Column
from shoal.schema.parts import FileFormat, Indicator, Link, Rule
from shoal.schema.steps import Step, Steps
from shoal.schema.trees import parents_of
from shoal.schema.unit import Cells, Keys, Unit
from shoal.typing import Json

if TYPE_CHECKING:
    from shoal.schema.model import Schema

PARTS = ("table", "file", "columns", "steps", "rules", "links", "indicators")
_TABLE = (
    "id", "unit", "budget", "per_analyst", "private", "version", "group", "cells", "currency", "delta",
    "keys",
)  # fmt: skip
_LINK = {"from": "from_table", "to": "to_table", "key": "key", "public": "public"}
LINE = 110
_UNIT = '"record" or {column = "...", rows = ...}'


def read_text(path: str | Path) -> str:
    """The text of a schema file."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SchemaError(f"No schema file {str(path)!r}.") from None
    except OSError as error:
        raise SchemaError(f"The schema file {str(path)!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SchemaError(f"The schema file {str(path)!r} must be UTF-8 text.") from None
    except ValueError:  # a NUL in the path
        raise SchemaError(f"No schema file {str(path)!r}.") from None


def loads(text: str, source: str) -> Json:
    """TOML text as a dict."""
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{source} must be a TOML file: {error}.") from None
    parts: list[Any] = [found]
    while parts:
        each = parts.pop()
        if isinstance(each, int) and abs(each) > sys.float_info.max:
            raise SchemaError(f"{source} must have numbers of at most 308 digits. Got {str(each)[:20]}...")
        parts += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return found


def from_dict(data: Mapping[str, Any], source: str) -> Json:
    """The fields of a schema from the parts of its file, each checked."""
    if not isinstance(data, Mapping) or not set(data) <= set(PARTS):
        odd = sorted(map(str, set(data) - set(PARTS)))[0] if isinstance(data, Mapping) else shown(data)
        raise SchemaError(
            f"{source} may have the parts [table], [file], [columns.*], [[steps]], [[rules]], [links.*] and "
            f"[[indicators]]. Got [{odd}]."
        )
    given = data.get("table", {})
    check_keys(f"[table] of {source}", given, _TABLE)
    found: Json = dict(given)
    makers = {"unit": _unit, "group": _group, "cells": _cells, "keys": _keys}
    found |= {name: make(found[name]) for name, make in makers.items() if name in found}
    found["columns"] = _columns(data.get("columns", {}), source)
    if "file" in data:
        found["file"] = FileFormat(**_facts(data["file"], FileFormat, f"[file] of {source}"))
    for name, kind in (("rules", Rule), ("indicators", Indicator)):
        items = plain(data.get(name, ()))
        if not isinstance(items, tuple):
            raise SchemaError(f"[[{name}]] of {source} must be a list of tables. Got {shown(items)}.")
        found[name] = tuple(kind(**_facts(each, kind, f"[[{name}]] of {source}")) for each in items)
    steps = data.get("steps", ())
    if not isinstance(steps, list | tuple):
        raise SchemaError(f"[[steps]] of {source} must be a list of tables. Got {shown(steps)}.")
    found["steps"] = Steps(Step.from_dict(each, f"[[steps]] of {source}") for each in steps)
    found["links"] = _links(data.get("links", {}), source)
    return found


def to_dict(schema: Schema) -> Json:
    """The parts of the schema's file."""
    table: Json = {"id": schema.id, "unit": _unit_facts(schema.unit)}
    for name in ("budget", "per_analyst", "private", "version"):
        table[name] = getattr(schema, name)
    table["group"] = _unit_facts(schema.group) if isinstance(schema.group, Unit) else schema.group
    table["cells"] = None if schema.cells is None else _given(schema.cells, ("bins",))
    table["currency"] = schema.currency if schema.currency != "pure" else None
    table["delta"] = schema.delta
    table["keys"] = None if schema.keys is None else _given(schema.keys)
    parts: Json = {"table": {name: fact for name, fact in table.items() if fact is not None}}
    if schema.file is not None:
        parts["file"] = {each.name: getattr(schema.file, each.name) for each in fields(FileFormat)}
    parts["columns"] = {name: _given(column, ("kind",)) for name, column in schema.columns.items()}
    parts["steps"] = [step.to_dict() for step in schema.steps]
    parts["rules"] = [{rule.kind: rule.text} for rule in schema.rules]
    parts["links"] = {
        link.name: {key: _lists(getattr(link, name)) for key, name in _LINK.items()} for link in schema.links
    }
    parts["indicators"] = [_given(each) for each in schema.indicators]
    return {name: part for name, part in parts.items() if part or name in ("table", "columns")}


def dumps(schema: Schema) -> str:
    """The schema as TOML text, its parts in the order of a codebook."""
    import tomli_w

    parts = to_dict(schema)
    blocks = []
    for name, part in parts.items():
        if isinstance(part, list):
            blocks += [f"[[{name}]]\n{tomli_w.dumps(each)}" for each in part]
        else:
            blocks.append(tomli_w.dumps({name: part}))
    return "\n".join(_on_one_line(block) for block in blocks if block)


def _on_one_line(text: str) -> str:
    """Short lists on one line. Each element stands on a line of its own: texts are written without line ends."""
    lines: list[str] = []
    start = -1
    for line in text.split("\n"):
        lines.append(line)
        if line.endswith(" = ["):
            start = len(lines) - 1
        elif line == "]" and start >= 0:
            joined = " ".join(each.strip() for each in lines[start:])
            joined = joined.replace("= [ ", "= [", 1).removesuffix(", ]") + "]"
            if len(joined) <= LINE:
                lines[start:] = [joined]
            start = -1
    return "\n".join(lines)


def _columns(given: Any, source: str) -> dict[str, Column]:
    check_parts(f"[columns] of {source}", given)
    return {
        plain(name): Column(plain(name), **_facts(facts, Column, f"[columns.{name}] of {source}", ("name",)))
        for name, facts in given.items()
    }


def _links(given: Any, source: str) -> tuple[Link, ...]:
    check_parts(f"[links] of {source}", given)
    found = []
    for name, facts in given.items():
        where = f"[links.{name}] of {source}"
        check_keys(where, facts, tuple(_LINK))
        lacking = [key for key in ("from", "to", "key") if key not in facts]
        if lacking:
            raise SchemaError(f"{where} must have from, to and key. It lacks {lacking[0]!r}.")
        found.append(Link(name, **{_LINK[key]: fact for key, fact in facts.items()}))
    return tuple(found)


def check_parts(where: str, given: Any) -> None:
    """Raise `SchemaError` unless something maps names to tables of facts."""
    if not isinstance(given, Mapping):
        raise SchemaError(f"{where} must have a table of facts for each name. Got {shown(given)}.")
    odd = [name for name in given if not is_text(name)]
    if odd:
        raise SchemaError(f"The names in {where} must be texts. Got {odd[0]!r}.")


def _facts(given: Any, kind: type, where: str, apart: tuple[str, ...] = ()) -> Json:
    """The facts of one part, after its keys were checked."""
    names = tuple(each.name for each in fields(kind) if each.name not in apart)
    check_keys(where, given, names)
    if kind is Indicator and "kind" not in given:
        raise SchemaError(f"Each of {where} must have a kind. Got {shown(dict(given))}.")
    return dict(given)


def _given(value: Any, always: tuple[str, ...] = ()) -> Json:
    """The fields of a value that differ from their defaults, as lists and plain values."""
    facts = {each.name: (getattr(value, each.name), each.default) for each in fields(value)}
    return {
        name: _lists(fact)
        for name, (fact, default) in facts.items()
        if fact is not None
        and not (name == "name" and isinstance(value, Column))
        and (name in always or fact != default)
    }


def _lists(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    named = parents_of(value) if value else None
    return named or [_lists(each) for each in value]


def _unit_facts(unit: Unit) -> str | Json:
    return "record" if unit.column is None else {"column": unit.column, "rows": unit.rows}


def _unit(value: Any) -> Unit:
    if isinstance(value, Unit):
        return value
    if value == "record":
        return Unit()
    if (
        isinstance(value, Mapping)
        and set(value) <= {"column", "rows"}
        and isinstance(value.get("column"), str)
    ):
        return Unit(**value)
    raise SchemaError(f"'unit' must be {_UNIT}. Got {shown(value)}.")


def _group(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _unit(value)
    if isinstance(value, Unit) or (isinstance(plain(value), int) and not isinstance(value, bool)):
        return value
    raise SchemaError(
        f"'group' must be a number of records, or {{column = \"...\", rows = ...}}. Got {shown(value)}."
    )


def _keys(value: Any) -> Keys:
    if isinstance(value, Keys):
        return value
    if not isinstance(value, Mapping) or set(value) != {"delta", "questions"}:
        raise SchemaError(f"'keys' must be {{delta = ..., questions = ...}}. Got {shown(value)}.")
    return Keys(**value)


def _cells(value: Any) -> Cells:
    if isinstance(value, Cells):
        return value
    if not isinstance(value, Mapping) or not {"columns"} <= set(value) <= {"columns", "bins", "tau"}:
        raise SchemaError(f"'cells' must be {{columns = [...], bins = ..., tau = ...}}. Got {shown(value)}.")
    return Cells(**value)
