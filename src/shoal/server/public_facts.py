"""What anybody who may ask is told of a data set: public facts, nothing of which is read from rows."""

from __future__ import annotations

from typing import Any

from shoal.dp.mechanisms.currency import Currency
from shoal.schema import Column, Schema
from shoal.server.served import LinkedTable
from shoal.server.words import name_of
from shoal.typing import Json


def column_facts(column: Column) -> Json:
    """The public facts of a column: its name, also as SQL writes it, kind, bounds, levels and step."""
    facts: Json = {"name": column.name, "sql": name_of(column.name), "kind": column.kind}
    if column.bounds is not None:
        facts["bounds"] = [_plain(each) for each in column.bounds]
    if column.levels is not None:
        facts["levels"] = [_plain(each) for each in column.levels]
    if column.step is not None:
        facts["step"] = column.step
    return facts


def table_facts(name: str, table: LinkedTable, schema: Schema) -> Json:
    """The public facts of a further table: its columns, and by which keys it is joined."""
    links = [each for each in schema.links if name in (each.from_table, each.to_table)]
    return {
        "name": name,
        "sql": name_of(name),
        "keys": sorted({key for link in links for key in link.key}),
        "public": any(link.public and link.to_table == name for link in links),
        "columns": [column_facts(each) for each in table.schema.columns.values()],
    }


def counted_in(schema: Schema) -> Json:
    """In what the answers are counted: public facts."""
    currency = Currency.of(schema)
    return {"counted_in": currency.word} | ({} if currency.pure else {"delta": currency.delta})


def unit_of(schema: Schema) -> str:
    """Whom an answer protects, in words."""
    unit = schema.unit
    return "record" if unit.column is None else f"{unit.column}, at most {unit.rows} rows each"


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
