"""The schema of a data set as fields of a form: one group for each column, and where its bounds and levels come from."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoal.errors import ParameterError
from shoal.schema import KINDS, ROLES, Column, Schema, Unit

NOT_OFFERED = ""
SOURCES = {
    "codebook": "a codebook",
    "definition": "a law, a norm or the questionnaire",
    "knowledge": "general knowledge",
    "table": "this table itself",
}
_FROM = "bounds and levels from "
_WITH_BOUNDS, _WITH_LEVELS, _WITH_STEP = (
    ("number", "date"),
    ("category", "ordered"),
    ("number", "date", "ordered"),
)


@dataclass(frozen=True)
class ColumnFields:
    """What the form shows of a column: texts as they were typed, or as the schema has them."""

    name: str
    kind: str = NOT_OFFERED
    role: str = "quasi"
    low: str = ""
    high: str = ""
    levels: str = ""
    step: str = ""
    source: str = ""
    reason: str = ""


def stated_source(column: Column, source: str) -> Column:
    """The column with a word on where its bounds and levels come from."""
    return replace(column, reason=_FROM + SOURCES[source])


def fields_of(schema: Schema, names: Sequence[str]) -> list[ColumnFields]:
    """The fields of each column of a table; one that the schema does not have is not offered."""
    return [_fields(schema.columns.get(name), name) for name in names]


def typed_fields(form: Mapping[str, str], names: Sequence[str]) -> list[ColumnFields]:
    """The fields as they were typed."""
    words = ("kind", "role", "low", "high", "levels", "step", "source")
    return [
        ColumnFields(name, **{word: form.get(f"{word}-{place}", "").strip() for word in words})
        for place, name in enumerate(names)
    ]


def schema_of(form: Mapping[str, str], base: Schema, names: Sequence[str]) -> Schema:
    """The schema that the fields state; what has no field stays as it was.

    Raises
    ------
    ParameterError
        Where bounds or levels have no stated source, or those of a private table come from its rows.
    """
    private = form.get("private") == "yes"
    columns = {
        each.name: _column(each, base.columns.get(each.name), private=private)
        for each in typed_fields(form, names)
        if each.kind != NOT_OFFERED
    }
    person = form.get("unit", "").strip()
    rows = _number(form.get("rows", ""), "the rows of one person") if person else 1
    if person and (not isinstance(rows, int) or rows < 1):
        raise ParameterError(
            f"The rows of one person must be a whole number of at least 1. Got {form.get('rows', '')[:40]!r}."
        )
    unit = Unit(person, int(rows or 1)) if person else Unit()
    return replace(base, columns=columns, id=form.get("id", "").strip(), private=private, unit=unit)


def _fields(column: Column | None, name: str) -> ColumnFields:
    if column is None:
        return ColumnFields(name)
    low, high = ("", "") if column.bounds is None else (_text(each) for each in column.bounds)
    source = next((word for word, said in SOURCES.items() if column.reason == _FROM + said), "")
    return ColumnFields(
        name,
        column.kind,
        column.effective_role,
        low,
        high,
        "\n".join(_text(each) for each in column.levels or ()),
        "" if column.step is None else f"{column.step:g}",
        source,
        "" if source else column.reason,
    )


def _column(typed: ColumnFields, before: Column | None, *, private: bool) -> Column:
    if typed.kind not in KINDS or typed.role not in ROLES:
        raise ParameterError(f"Column {typed.name!r} must have a kind and a role of those offered.")
    bounds, levels = _bounds(typed), _levels(typed, before)
    if (bounds or levels) and typed.source not in SOURCES:
        raise ParameterError(f"State where the bounds or levels of {typed.name!r} come from.")
    if (bounds or levels) and typed.source == "table" and private:
        raise ParameterError(
            f"Bounds and levels of a private table must not come from its rows, as they would reveal something: take those of "
            f"{typed.name!r} from a codebook or from what is generally known."
        )
    kept = before if before is not None and before.kind == typed.kind else Column(typed.name, kind=typed.kind)
    return replace(
        kept,
        role=typed.role,
        bounds=bounds,
        levels=levels,
        step=_number(typed.step, f"the step of {typed.name!r}") if typed.kind in _WITH_STEP else None,
        reason=_FROM + SOURCES[typed.source] if bounds or levels else kept.reason.removeprefix(_FROM),
    )


def _bounds(typed: ColumnFields) -> tuple[Any, Any] | None:
    if typed.kind not in _WITH_BOUNDS or not (typed.low or typed.high):
        return None
    low, high = (_end(text, typed) for text in (typed.low, typed.high))
    return low, high


def _end(text: str, typed: ColumnFields) -> Any:
    if typed.kind == "number":
        found = _number(text, f"a bound of {typed.name!r}")
        if found is None:
            raise ParameterError(f"Column {typed.name!r} must have both bounds, or none.")
        return found
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            f"A bound of {typed.name!r} must be a day such as 2026-03-01. Got {text[:40]!r}."
        ) from None


def _levels(typed: ColumnFields, before: Column | None) -> tuple[Any, ...] | None:
    if typed.kind not in _WITH_LEVELS:
        return None
    known = {_text(each): each for each in (before.levels or () if before is not None else ())}
    lines = [line.strip() for line in typed.levels.splitlines() if line.strip()]
    return tuple(known.get(each, each) for each in dict.fromkeys(lines)) or None


def _number(text: str, what: str) -> float | int | None:
    if not text.strip():
        return None
    try:
        found = float(text)
        if abs(found) >= 1e300:
            raise ValueError
    except ValueError:
        raise ParameterError(f"{what[0].upper()}{what[1:]} must be a number. Got {text[:40]!r}.") from None
    return int(found) if found.is_integer() and abs(found) < 1e15 else found


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
