"""A table released through its marginals: plan, charge, measure, settle, draw rows."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.dp import budget as micros
from shoal.dp.accounting import epsilon_of_rho, rho_of_epsilon
from shoal.dp.answer import Answer
from shoal.dp.check import plain_query
from shoal.dp.claims import Amount, Caps, Claim
from shoal.dp.correlation import Grid
from shoal.dp.correlation import Model as Cells
from shoal.dp.expressions import Predicate
from shoal.dp.ledger import Ledger
from shoal.dp.load import load, protect_rows
from shoal.dp.query import Query
from shoal.dp.relation import CELL, UNIT
from shoal.dp.secret import random_word
from shoal.dp.sql import parse
from shoal.dp.unit import ENDED, Protected, ReplaceRecord, resolve
from shoal.errors import ParameterError
from shoal.release.marginals._axes import Axis, Bins, axes_of, encode
from shoal.release.marginals._haar import MOST_CELLS, MOST_COLUMNS, MOST_VALUES, fits, measure_blocks
from shoal.release.marginals._measure import measure
from shoal.release.marginals._model import Model
from shoal.release.marginals._refine import leaves
from shoal.release.marginals._spend import Measurement, Purse
from shoal.schema import Schema, Unit

NEIGHBOURS = ("add-remove", "replace")
WORKLOADS = ("auto", "tables", "ranges")
MODES = ("dp", "group", "correlated")
_MISSING = "Missing cells of columns that declare none count as the middle bin of the declared range, of levels as the first."


@dataclass(frozen=True)
class Plan:
    """What is released for whom: fixed by the schema and the request alone."""

    axes: tuple[Axis, ...]
    unit: Protected
    neighbours: str
    workload: str
    currency: str
    millionths: int
    epsilon: float
    delta: float | None
    zeros: tuple[Predicate, ...] = ()

    @property
    def purse(self) -> Purse:
        """What may be spent."""
        amount = Fraction(self.millionths, micros.MICRO)
        return Purse(self.currency, amount, self.unit.rows, isinstance(self.unit, ReplaceRecord))

    def stamp(self, caps: Caps) -> str:
        """What is promised, word for word."""
        if self.delta is None:
            return self.unit.stamp
        whole = f"({epsilon_of_rho(caps.total, self.delta):g}, {self.delta:g})-DP"
        said = self.unit.stamp.replace("epsilon-DP", f"({self.epsilon:g}, {self.delta:g})-DP", 1)
        return f"{said}; all answers about this data set together {whole}"


@dataclass(frozen=True)
class MarginalRelease:
    """A private table, and the marginals that it was drawn from.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows drawn from what was bought, tied to no record.
    stamp : str
        What is promised, word for word.
    epsilon : float
        What was charged, together with `delta`.
    delta : float or None
        None in pure differential privacy.
    remaining : float
        What this analyst can still spend: epsilon, or rho where `delta` is given.
    notes : tuple of str
    model : Model
        All that was bought.
    """

    frame: pl.DataFrame
    stamp: str
    epsilon: float
    delta: float | None
    remaining: float
    notes: tuple[str, ...]
    model: Model = field(repr=False)
    plan: Plan = field(repr=False)
    schema: Schema = field(repr=False)

    def marginal(self, *columns: str) -> pl.DataFrame:
        """The counts of some columns together: every combination of positions, its count and its deviation."""
        from shoal.release.marginals._tables import marginal_frame

        return marginal_frame(self.model, columns)

    def ask(self, query: str | Query) -> Answer:
        """Answer a query from the release: free, with an interval where its error is known exactly."""
        from shoal.release.marginals._ask import ask_release

        return ask_release(self.model, self.schema, query, self.stamp, self.plan.currency, self.remaining)


def release_marginals(
    frame: Any,
    schema: Schema | str | Path,
    epsilon: float,
    *,
    delta: float | None = None,
    columns: Sequence[str] | None = None,
    bins: Mapping[str, Bins] | int | None = None,
    rows: int | None = None,
    mode: str = "dp",
    neighbours: str = "add-remove",
    workload: str = "auto",
    group: Unit | int | None = None,
    cells: Cells | None = None,
    tau: int | None = None,
    budget: float | None = None,
    analyst: str = "me",
    ledger: Ledger | str | Path | None = None,
    data_version: str | None = None,
) -> MarginalRelease:
    """Release a whole table under differential privacy through its most telling marginals.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    schema : Schema or path
        Declares the bounds or levels of every released column.
    epsilon : float
    delta : float, optional
        Where given, noise is Gaussian and counted in zCDP, which is then the data set's currency for life; the
        schema's if its currency is "zcdp", else the release is pure.
    columns : sequence of str, optional
        Those to release; all quasi-identifying and sensitive ones if left open.
    bins : mapping of column to int or numbers, or int, optional
        Bins of numbers and dates: how many, or where they begin. The schema's breaks or grid if left open.
    rows : int, optional
        Rows to draw; the noisy number of records if left open.
    mode : {"dp", "group", "correlated"}
        Whose rows are hidden together: the schema's unit, a group's, a look-alike cell's.
    neighbours : {"add-remove", "replace"}
        With "replace" the number of records is public; for single records only.
    workload : {"auto", "tables", "ranges"}
        What shall come out best: tables of counts, or counts of ranges on up to three columns with an order. By
        default ranges where the columns allow it.
    group, cells, tau
        As in `shoal.dp.Session`: of modes "group" and "correlated".
    budget : float, optional
        Total of the data set; the schema's if left open.
    analyst : str, default "me"
        Who is charged.
    ledger : Ledger, path or database URL, optional
        In memory if left open.
    data_version : str, optional
        The owner's word for this state of the table; the schema's if left open, else drawn at random.

    Returns
    -------
    MarginalRelease

    Notes
    -----
    The total and all single columns are measured first; then a small share buys how much each pair of columns
    depends, and the rest is spent on the pairs for which what is learnt outweighs the noise. In zCDP residuals are
    measured with exact discrete Gaussian noise, in pure differential privacy marginals with discrete Laplace noise.
    Rows are drawn from a mixture of products fitted to the measurements. Bins and levels come from the schema alone.
    Proofs: docs/theory/marginals.md.

    References
    ----------
    .. [1] Y. Xiao, G. He, D. Zhang, D. Kifer, "An optimal and scalable matrix mechanism for noisy marginals under
       convex loss functions", NeurIPS 2023.
    .. [2] R. McKenna, B. Mullins, D. Sheldon, G. Miklau, "AIM: an adaptive and iterative mechanism for
       differentially private synthetic data", VLDB 2022.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.release import release_marginals
    >>> from shoal.schema import Column, Schema
    >>> answers = Column("answer", role="quasi", kind="category", levels=("no", "yes"))
    >>> schema = Schema({"answer": answers}, id="poll", budget=2.0)
    >>> out = release_marginals(pl.DataFrame({"answer": ["no"] * 40 + ["yes"] * 60}), schema, 2.0)
    >>> out.stamp, out.epsilon, set(out.frame["answer"]) <= {"no", "yes"}
    ('guarantee: epsilon-DP, add or remove one record', 2.0, True)
    """
    schema = Schema.of(schema)
    plan = make_plan(schema, epsilon, delta, columns, bins, mode, neighbours, workload, group, cells, tau)
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ParameterError(f"'rows' must be an int of at least 1. Got {rows!r}.")
    cells = cells or (Grid.of_schema(schema) if mode == "correlated" and schema.cells is not None else None)
    codes = load_codes(frame, schema, plan, cells)
    kept = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        caps, limit = kept.declare(schema.id, *_caps(schema, plan, budget), plan.currency)
        receipt = kept.once(_claim(schema, plan, data_version, analyst, limit), lambda: buy(plan, codes))
    finally:
        if kept is not ledger:
            kept.close()
    model = model_of(plan, receipt.body)
    return MarginalRelease(
        model.rows(rows),
        plan.stamp(caps) + (ENDED if receipt.ended else ""),
        plan.epsilon,
        plan.delta,
        micros.epsilon(receipt.remaining),
        _notes(plan, model),
        model,
        plan,
        schema,
    )


def make_plan(
    schema: Schema,
    epsilon: float,
    delta: float | None = None,
    columns: Sequence[str] | None = None,
    bins: Mapping[str, Bins] | int | None = None,
    mode: str = "dp",
    neighbours: str = "add-remove",
    workload: str = "auto",
    group: Unit | int | None = None,
    cells: Cells | None = None,
    tau: int | None = None,
) -> Plan:
    """Check the request against the schema; no data is looked at."""
    if mode not in MODES:
        raise ParameterError(f"'mode' must be one of {', '.join(MODES)}. Got {mode!r}.")
    if neighbours not in NEIGHBOURS:
        raise ParameterError(f"'neighbours' must be one of {', '.join(NEIGHBOURS)}. Got {neighbours!r}.")
    if workload not in WORKLOADS:
        raise ParameterError(f"'workload' must be one of {', '.join(WORKLOADS)}. Got {workload!r}.")
    if mode == "correlated" and cells is None and schema.cells is not None:
        cells, tau = Grid.of_schema(schema), schema.cells.tau if tau is None else tau
    unit = resolve(mode, schema, group, cells, tau)
    if neighbours == "replace" and unit.kind != "record":
        raise ParameterError(
            "'neighbours' may be 'replace' for single records only: a unit is added or removed."
        )
    if neighbours == "replace":
        unit = ReplaceRecord()
    delta = _delta(schema, delta)
    millionths = micros.micro(epsilon) if delta is None else rho_of_epsilon(epsilon, delta)
    spent = micros.epsilon(micros.micro(epsilon))
    axes, chosen = _axes(schema, columns, bins, workload)
    currency = "pure" if delta is None else "zcdp"
    zeros = _zeros(schema, {each.name for each in axes})
    return Plan(axes, unit, neighbours, chosen, currency, millionths, spent, delta, zeros)


def _zeros(schema: Schema, released: set[str]) -> tuple[Predicate, ...]:
    """Combinations of released columns that the schema's rules exclude."""
    found: list[Predicate] = []
    for rule in schema.rules:
        if rule.kind in ("structural_zero", "impossible"):
            text = f"SELECT COUNT(*) FROM t WHERE {rule.text}"  # noqa: S608 - parsed here, never run as SQL
            query = plain_query(parse(text, "t"), schema)
            if query.condition is not None and {each.column for each in leaves(query.condition)} <= released:
                found.append(query.condition)
    return tuple(found)


def _delta(schema: Schema, given: float | None) -> float | None:
    """The delta of a release in zCDP: the one given, else that of a schema which counts in zCDP."""
    declared = schema.delta if schema.currency == "zcdp" else None
    if schema.currency == "zcdp" and given is None and declared is None:
        raise ParameterError("'delta' must be given, or declared in the schema, to count in zCDP.")
    if None not in (given, schema.delta) and given != schema.delta:
        raise ParameterError(f"'delta' must be the schema's, {schema.delta!r}. Got {given!r}.")
    return declared if given is None else given


def _axes(
    schema: Schema, columns: Sequence[str] | None, bins: Mapping[str, Bins] | int | None, workload: str
) -> tuple[tuple[Axis, ...], str]:
    """The axes and the workload: ranges need a fine grid, and few columns with an order."""
    coarse = axes_of(schema, columns, bins)
    if workload == "tables" or len(coarse) > MOST_COLUMNS:
        fine: tuple[Axis, ...] = ()
    else:
        fine = axes_of(schema, columns, bins, MOST_VALUES)
    if fine and fits([each.size for each in fine]) and all(each.ordered for each in fine):
        return fine, "ranges"
    if workload == "ranges":
        raise ParameterError(
            f"A release of ranges takes up to {MOST_COLUMNS} columns with an order, of at most {MOST_VALUES} values "
            f"each and {MOST_CELLS} cells together. Got {', '.join(each.name for each in coarse)}."
        )
    return coarse, "tables"


def load_codes(frame: Any, schema: Schema, plan: Plan, cells: Cells | None) -> np.ndarray:
    """Positions of the rows that count, at most so many of each unit."""
    names = {each.name for each in plan.axes}
    if plan.unit.kind == "cell":
        names |= set(schema.columns)
    columns = {name: column for name, column in schema.columns.items() if name in names}
    loaded = load(frame, Schema(columns, id=schema.id))
    rows = protect_rows(loaded, frame, schema, plan.unit, cells)
    if plan.unit.kind in ("column", "cell"):
        unit = UNIT if plan.unit.kind == "column" else CELL
        rows = rows.filter(pl.int_range(pl.len()).over(unit) < plan.unit.rows)
    return encode(rows, plan.axes)


def buy(plan: Plan, codes: np.ndarray) -> str:
    """All that is drawn from the private table, as the ledger keeps it."""
    sizes = [each.size for each in plan.axes]
    seed = secrets.randbits(63)
    if plan.workload == "ranges":
        bought = measure_blocks(codes, sizes, plan.purse)
    else:
        bought = measure(codes, sizes, plan.purse, seed)
    return json.dumps({"seed": seed, "measurements": [each.to_json() for each in bought]})


def model_of(plan: Plan, body: str) -> Model:
    """What a kept body stands for."""
    kept = json.loads(body)
    bought = tuple(Measurement.from_json(each) for each in kept["measurements"])
    return Model(plan.axes, bought, kept["seed"], plan.zeros)


def _caps(schema: Schema, plan: Plan, total: float | None) -> tuple[int | None, int | None]:
    """What the data set and each analyst may spend, in millionths of the plan's currency."""
    total, own = schema.budget if total is None else total, schema.per_analyst
    return _cap(total, plan, "budget"), _cap(own, plan, "per_analyst")


def _cap(epsilon: float | None, plan: Plan, name: str) -> int | None:
    if epsilon is None:
        return None
    return micros.micro(epsilon, name) if plan.delta is None else rho_of_epsilon(epsilon, plan.delta)


def _claim(schema: Schema, plan: Plan, data: str | None, analyst: str, limit: Caps | None) -> Claim:
    names = ",".join(each.name for each in plan.axes)
    text = f"RELEASE marginals {plan.workload} {plan.neighbours} columns={names}"
    facts = replace(schema, budget=None, per_analyst=None).to_toml()
    bins = [[*each.edges] for each in plan.axes]
    state = json.dumps([bins, plan.unit.rows, facts, data or schema.version or random_word()])
    return Claim(schema.id, analyst, text, state, Amount(plan.millionths, plan.currency), plan.unit, limit)


def _notes(plan: Plan, model: Model) -> tuple[str, ...]:
    pairs = len({each.key for each in model.measurements if len(each.key) > 1})
    notes = [
        f"{len(model.axes)} columns alone and {pairs} sets of columns together were measured; the rest is a model.",
        "Rows are drawn from a model of what was bought: they are no record's.",
    ]
    if not all(each.missing for each in plan.axes):
        notes.append(_MISSING)
    if not pairs and len(model.axes) > 1:
        notes.append(
            "At this epsilon no pair of columns was worth its noise: columns are independent in the rows."
        )
    if plan.unit.kind == "column":
        notes.append(f"At most {plan.unit.rows} rows of one {plan.unit.column} are counted.")
    return tuple(notes)
