"""Households with their persons: both tables in the household's unit, bought with one charge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.dp import budget as micros
from shoal.dp.ledger.claims import Amount, Claim
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.secret import random_word
from shoal.dp.loading.sources import whole_table
from shoal.dp.meaning.relation import UNIT
from shoal.dp.unit import ENDED, AddRemoveUnit
from shoal.errors import ParameterError
from shoal.release.marginals._axes import Bins, axis, released_columns
from shoal.release.marginals._model import BoughtModel
from shoal.release.marginals._plan import MarginalPlan, make_plan
from shoal.release.marginals._release import buy, caps_of, load_rows, model_of, notes_of
from shoal.release.marginals._rules import keep_rules
from shoal.schema import Column, Schema

SIZE = "household_size"
SHARE = Fraction(1, 3)  # of the budget, for households; the rest is for persons
_ALONE = "Persons of one household are drawn independently, given its size and its own columns."


@dataclass(frozen=True)
class HouseholdRelease:
    """Private households and their persons.

    Parameters
    ----------
    frame : polars.DataFrame
        A row for each person: the number of its household, the household's columns, the person's.
    households : polars.DataFrame
        A row for each household.
    guarantee : str
        What is promised, word for word.
    epsilon : float
    delta : float or None
    remaining : float
    notes : tuple of str
    of_households, of_persons : BoughtModel
        All that was bought.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.release import release_households
    >>> from shoal.schema import Column, Schema, Unit
    >>> facts = {
    ...     "flat": Column("flat", role="household", kind="category"),
    ...     "town": Column("town", role="quasi", kind="category", levels=("a", "b")),
    ...     "age": Column("age", bounds=(0, 99), step=1),
    ... }
    >>> schema = Schema(facts, id="census", unit=Unit("flat", 4), budget=4.0)
    >>> table = pl.DataFrame({"flat": [1, 1, 2], "town": ["a", "a", "b"], "age": [40, 7, 71]})
    >>> out = release_households(table, schema, 4.0, shared=["town"], households=5)
    >>> out.households.columns, out.epsilon, out.remaining
    (['town', 'household_size'], 4.0, 0.0)
    """

    frame: pl.DataFrame
    households: pl.DataFrame
    guarantee: str
    epsilon: float
    delta: float | None
    remaining: float
    notes: tuple[str, ...]
    of_households: BoughtModel = field(repr=False)
    of_persons: BoughtModel = field(repr=False)


def release_households(
    frame: Any,
    schema: Schema | str | Path,
    epsilon: float,
    *,
    shared: Sequence[str] = (),
    delta: float | None = None,
    columns: Sequence[str] | None = None,
    bins: Mapping[str, Bins] | Bins | None = None,
    households: int | None = None,
    budget: float | None = None,
    analyst: str = "me",
    ledger: Ledger | str | Path | None = None,
    data_version: str | None = None,
) -> HouseholdRelease:
    """Release households with their persons; a whole household is hidden.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table, path or address
        A table, or where it is, as `shoal.dp.Session` takes it: a file, a folder of Parquet files, a database, a
        Spark table. A row for each person.
    schema : Schema or path
        Its unit, or its group, names the household's column and how many persons of one are counted at most.
    epsilon : float
    shared : sequence of str
        Columns that all persons of a household have in common, such as its region; they are read from the person whose
        row comes first by a public rule.
    delta : float, optional
        As in `release_marginals`.
    columns : sequence of str, optional
        Those to release; all quasi-identifying and sensitive ones if left open.
    bins : mapping or int or text, optional
    households : int, optional
        How many to draw; their noisy number if left open.
    budget, analyst, ledger, data_version
        As in `release_marginals`.

    Returns
    -------
    HouseholdRelease

    Notes
    -----
    A table of households, each one row with its size, is measured with a third of the budget; the table of persons, with
    their household's size and columns, with the rest, at most so many rows of a household. Drawn persons are put into
    drawn households in the order of size and shared columns. Proof: docs/theory/marginals.md.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.release import release_households
    >>> from shoal.schema import Column, Schema, Unit
    >>> facts = {
    ...     "flat": Column("flat", role="household", kind="category"),
    ...     "town": Column("town", role="quasi", kind="category", levels=("a", "b")),
    ...     "age": Column("age", bounds=(0, 99), step=1),
    ... }
    >>> schema = Schema(facts, id="census", unit=Unit("flat", 4), budget=4.0)
    >>> table = pl.DataFrame({"flat": [1, 1, 2], "town": ["a", "a", "b"], "age": [40, 7, 71]})
    >>> out = release_households(table, schema, 4.0, shared=["town"], households=5)
    >>> out.guarantee, out.households.height
    ('guarantee: epsilon-DP, add or remove one flat', 5)
    """
    schema = Schema.of(schema)
    frame = whole_table(frame, schema)
    persons, whole = _plans(schema, epsilon, delta, columns, bins, shared)
    if households is not None and (isinstance(households, bool) or households < 1):
        raise ParameterError(f"'households' must be an int of at least 1. Got {households!r}.")
    rows = load_rows(frame, schema, replace(persons, axes=persons.axes[:-1]), None)
    kept = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        caps, limit = kept.declare(schema.id, *caps_of(schema, persons, budget), persons.currency)
        version = data_version or schema.version or random_word()
        claim = _claim(schema, persons, shared, version, analyst, limit)
        receipt = kept.once(claim, lambda: _buy(whole, persons, rows))
    finally:
        if kept is not ledger:
            kept.close()
    first, second = json.loads(receipt.body)
    of_households, of_persons = model_of(whole, first), model_of(persons, second)
    drawn = of_households.rows(households)
    lived = _together(drawn, of_persons, str(persons.unit.column), [*shared])
    return HouseholdRelease(
        lived,
        drawn,
        persons.guarantee(caps) + (ENDED if receipt.ended else ""),
        persons.epsilon,
        persons.delta,
        micros.epsilon(receipt.remaining),
        (*notes_of(persons, of_persons, lived), _ALONE),
        of_households,
        of_persons,
    )


def _plans(
    schema: Schema,
    epsilon: float,
    delta: float | None,
    columns: Sequence[str] | None,
    bins: Mapping[str, Bins] | Bins | None,
    shared: Sequence[str],
) -> tuple[MarginalPlan, MarginalPlan]:
    """The plan of persons, their household's size last, and that of households."""
    mode = "dp" if schema.unit.column is not None else "group"
    for name in shared:
        if name not in schema.columns or schema.columns[name].effective_role in ("household", "identifier"):
            raise ParameterError(f"'shared' must name declared columns of the household. Got {name!r}.")
    names = [name for name in columns or released_columns(schema) if name != SIZE]
    plan = make_plan(schema, epsilon, delta, [*names, *shared], bins, mode, workload="tables")
    if plan.unit.kind != "column":
        raise ParameterError(
            "Households need a column: declare the schema's 'unit' as {column = \"household\", rows = ...}. "
            f"Got {str(schema.unit)!r}."
        )
    if plan.quantiles:
        raise ParameterError("Households take declared bins, not bins by rank.")
    size = axis(Column(SIZE, bounds=(1, max(2, plan.unit.rows)), step=1), grid=max(2, plan.unit.rows))
    own = tuple(each for each in plan.axes if each.name in shared)
    persons = replace(plan, axes=(*plan.axes, size))
    return persons, replace(
        plan, axes=(*own, size), unit=AddRemoveUnit(str(plan.unit.column), 1), edits=(), zeros=()
    )


def _buy(whole: MarginalPlan, persons: MarginalPlan, rows: pl.DataFrame) -> str:
    """Both tables: a household is one row of the first and at most so many of the second."""
    rows = rows.with_columns(pl.len().over(UNIT).cast(pl.Float64).alias(SIZE))
    first = rows.unique(UNIT, keep="first", maintain_order=True)
    return json.dumps([buy(whole, first, share=SHARE), buy(persons, rows, share=1 - SHARE)])


def _claim(
    schema: Schema, plan: MarginalPlan, shared: Sequence[str], version: str, analyst: str, limit: Any
) -> Claim:
    names = ",".join(each.name for each in plan.axes)
    text = f"RELEASE households shared={','.join(shared)} columns={names}"
    facts = replace(schema, budget=None, per_analyst=None).to_toml()
    state = json.dumps([[[*each.edges] for each in plan.axes], plan.unit.rows, facts, version])
    return Claim(schema.id, analyst, text, state, Amount(plan.millionths, plan.currency), plan.unit, limit)


def _together(
    households: pl.DataFrame, persons: BoughtModel, unit: str, shared: Sequence[str]
) -> pl.DataFrame:
    """Persons put into households, both in the order of size and shared columns: public numbers alone."""
    numbered = households.with_columns(pl.int_range(1, pl.len() + 1).alias(unit))
    sizes = numbered[SIZE].cast(pl.Int64).to_numpy()
    slots = numbered[np.repeat(np.arange(numbered.height), sizes)]
    drawn = persons.rows(slots.height)
    order = [SIZE, *shared]
    slots, drawn = slots.sort(order, maintain_order=True), drawn.sort(order, maintain_order=True)
    own = drawn.drop([name for name in order if name in drawn.columns])
    joined = pl.concat([slots.select(unit, *shared, SIZE), own], how="horizontal")
    joined = keep_rules(joined, persons.edits, None, own.columns)  # with the household's columns
    return joined.sort(unit, maintain_order=True)
