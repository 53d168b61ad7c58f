"""The role of every column, decided from the first rows before anything else."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import polars as pl

from shoal.engine.roles import settled_schema
from shoal.errors import InputError
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.decode import RAW, Decoder, decoded_facts, raw_facts
from shoal.publish.stages.order import order_notes
from shoal.rules import Edit, edits_of, refuse_contradiction, refuse_texts
from shoal.schema import Column, Schema
from shoal.schema.steps import CONDITIONS

# Between two underscores on both sides these begin the names of columns that the stages add to a table.
RESERVED = (
    "at", "column", "file", "gap", "home", "index", "key", "known", "left", "link", "minus", "new", "open", "order", "part",
    "raw", "row", "rows", "stratum", "sums", "unit", "value",
)  # fmt: skip
# Rows from which roles are guessed where no schema gives them.
GUESSED_ROWS = 50_000


@dataclass(frozen=True)
class Roles:
    """The role of every column, and the facts about it.

    Attributes
    ----------
    schema : Schema
        All facts that the run uses, including guessed ones. They can be saved and given again.
    decoder : Decoder
    quasi : tuple of Column
        The columns that are aggregated, their facts after decoding.
    raw : tuple of Column
        The cells kept beside those of them whose ends were coded or levels recoded.
    names : tuple of str
        All columns of the table, in order.
    strata, identifiers, sensitive, left : tuple of str
    weight, household : str or None
    modelled : tuple of str
        The sensitive columns if l-diversity or t-closeness was asked for, else none.
    notes : tuple of str
        What was guessed or recoded.
    """

    schema: Schema
    decoder: Decoder
    quasi: tuple[Column, ...]
    raw: tuple[Column, ...]
    names: tuple[str, ...]
    strata: tuple[str, ...]
    weight: str | None
    household: str | None
    identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    left: tuple[str, ...]
    modelled: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def zeros(self) -> frozenset[str]:
        """Columns whose zeros stay zeros."""
        edits = edits_of(self.schema.rules, self.names)
        return frozenset(edit.columns[0] for edit in edits if edit.kind == "zero")

    @property
    def quasi_names(self) -> list[str]:
        """The names of the columns that are aggregated."""
        return [fact.name for fact in self.quasi]

    @property
    def known(self) -> list[str]:
        """The columns in which a group has one value; privacy models are checked on them."""
        return [*self.quasi_names, *self.strata]

    @property
    def open(self) -> list[str]:
        """All published columns that are not sensitive: what the status is about."""
        weight = [self.weight] if self.weight else []
        return [*self.known, *weight, *self.left]

    @property
    def needed(self) -> list[str]:
        """Columns of the file that are needed to form groups and to compute their values."""
        single = [name for name in (self.weight, self.household) if name]
        return list(dict.fromkeys([*self.known, *single, *self.modelled]))

    @property
    def ruled(self) -> list[str]:
        """Columns that an edit rule names."""
        named = [edit.columns for edit in edits_of(self.schema.rules, self.names)]
        return list(dict.fromkeys(name for names in named for name in names))

    @property
    def changed(self) -> dict[str, Column]:
        """Aggregated columns whose ends were coded or levels recoded, and the facts of their cells before."""
        return {fact.name.removeprefix(RAW): fact for fact in self.raw}


class DecidedRoles(Protocol):
    """What the checks use: the request and the roles."""

    @property
    def request(self) -> ProtectionRequest:
        """What was asked for."""

    @property
    def roles(self) -> Roles:
        """What every column is."""


def settle_rules(roles: Roles, head: pl.DataFrame) -> tuple[Edit, ...]:
    """The schema's rules; raises a sentence if no record can keep one, or if one does not apply to these cells."""
    edits = edits_of(roles.schema.rules, roles.names)
    refuse_contradiction(edits)
    read = [name for name, fact in roles.schema.columns.items() if fact.kind in ("number", "date")]
    refuse_texts(edits, head.drop(read, strict=False))
    return edits


def settle_roles(head: pl.DataFrame, request: ProtectionRequest, labelled: Collection[str] = ()) -> Roles:
    """The role of every column: from the schema, from the request, or guessed from the first rows, with a note."""
    refuse_reserved(head.columns)
    decoder = Decoder.of(request.schema, head.columns)
    table = decoder(head).select(head.columns)
    settled, notes = settled_schema(table, request.schema, request.asked_roles(), labelled)
    names = settled.names("quasi")
    if not names:
        taken = ", ".join(f"{name!r} as {fact.role}" for name, fact in list(settled.columns.items())[:8])
        raise InputError(
            "At least one column must be protected: name it in 'columns', or give it the role 'quasi' in a schema. "
            f"None has it; taken were {taken}."
        )
    facts = [
        replace(settled.columns[name], on_missing=request.on_missing or settled.columns[name].on_missing)
        for name in names
    ]
    sensitive = tuple(settled.names("sensitive"))
    asked = [name for name in CONDITIONS if getattr(request, name) is not None]
    if asked and not sensitive:
        raise InputError(
            "l-diversity, t-closeness and other conditions on values need a sensitive column: name it, or give it the role "
            f"'sensitive' in a schema. None has it, and {asked[0]!r} was asked for."
        )
    if settled.indicators:
        from shoal.utility import check_formula, check_indicators

        gone = {*settled.names("identifier"), *settled.names("household")}
        check_indicators(
            settled.indicators, head.columns, [name for name in head.columns if name not in gone]
        )
        for each in settled.indicators:
            if each.formula is not None:
                check_formula(each, table)
    hidden = [*settled.names("identifier"), *settled.names("household")]
    order = order_notes(table, hidden, names) if request.order == "keep" else ()
    return Roles(
        schema=settled,
        decoder=replace(decoder, alike=(*names, *settled.names("stratum"))),
        quasi=tuple(decoded_facts(fact) for fact in facts),
        raw=tuple(raw_facts(fact) for fact in facts if fact.name in decoder.changed),
        names=tuple(head.columns),
        strata=tuple(settled.names("stratum")),
        weight=next(iter(settled.names("weight")), None),
        household=next(iter(settled.names("household")), None),
        identifiers=tuple(settled.names("identifier")),
        sensitive=sensitive,
        left=tuple(settled.names("leave")),
        modelled=sensitive if asked else (),
        notes=(*decoder.notes(), *notes, *order, *_unused_steps(request)),
    )


def refuse_reserved(names: Iterable[str]) -> None:
    """Raise a sentence if a column has no name, or one that the stages give to columns of their own."""
    for place, name in enumerate(names, 1):
        if not name:
            raise InputError(f"Every column must have a name. Column {place} has none.")
        if name.startswith(tuple(f"__{word}__" for word in RESERVED)):
            raise InputError(
                f"Column names that begin like {name[:80]!r} are the program's own. Rename the column."
            )


def _unused_steps(request: ProtectionRequest) -> tuple[str, ...]:
    """A note if a method was named although the schema declares steps."""
    if request.method_name == "steps" or request.schema is None or not request.schema.steps:
        return ()
    return (
        f"The schema's {len(request.schema.steps)} steps were not run, because the method {request.method_name!r} was named; "
        "name no method to run them.",
    )
