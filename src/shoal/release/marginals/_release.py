"""A table released through its marginals: plan, charge, measure, settle, draw rows."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from shoal.dp import budget as micros
from shoal.dp.accounting import rho_of_epsilon
from shoal.dp.answering.answer import Answer
from shoal.dp.correlation import Grid
from shoal.dp.correlation import Model as Cells
from shoal.dp.ledger.claims import Amount, Caps, Claim
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.secret import random_word
from shoal.dp.loading.load import load, protect_rows
from shoal.dp.loading.sources import whole_table
from shoal.dp.meaning.relation import CELL, UNIT
from shoal.dp.sql.expressions import Predicate
from shoal.dp.sql.query import Query
from shoal.dp.unit import ENDED
from shoal.errors import ParameterError
from shoal.release.marginals._axes import Bins, MarginalAxis, encode
from shoal.release.marginals._haar import measure_blocks
from shoal.release.marginals._measure import measure, measure_asked
from shoal.release.marginals._model import BoughtModel
from shoal.release.marginals._plan import CHOSEN, MarginalPlan, Marginals, check_worth, make_plan
from shoal.release.marginals._quantiles import SHARE, quantile_axes
from shoal.release.marginals._rules import broken_rows
from shoal.release.marginals._spend import Measurement, Purse
from shoal.rules import Edit
from shoal.schema import Schema, Unit
from shoal.typing import Json

RELEASE = "RELEASE marginals"  # how the ledger's entries of releases begin
MEASURING = "measuring, after the charge"  # what progress is told just before the charge
_MISSING = "If a column declares no missing values, a missing cell counts as the middle bin of its range, or as its first level."


@dataclass(frozen=True)
class MarginalRelease:
    """A private table, and the marginals that it was drawn from.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows drawn from what was bought, tied to no record.
    guarantee : str
        What is promised, word for word.
    epsilon : float
        What was charged, together with `delta`.
    delta : float or None
        None in pure differential privacy.
    remaining : float
        What this analyst can still spend: epsilon, or rho where `delta` is given.
    notes : tuple of str
    model : BoughtModel
        All that was bought.
    plan : MarginalPlan
    schema : Schema
    version : str
        The state of the table that it is about.
    entry : str, optional
        What names its charge in the ledger.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.release import release_marginals
    >>> from shoal.schema import Column, Schema
    >>> answers = Column("answer", role="quasi", kind="category", levels=("no", "yes"))
    >>> schema = Schema({"answer": answers}, id="poll", budget=2.0)
    >>> out = release_marginals(pl.DataFrame({"answer": ["no"] * 40 + ["yes"] * 60}), schema, 2.0)
    >>> out.marginal("answer").columns, out.remaining
    (['answer', 'count', 'deviation'], 0.0)
    >>> out.ask("SELECT COUNT(*) FROM t WHERE answer = 'yes'").epsilon  # already paid for
    0.0
    """

    frame: pl.DataFrame
    guarantee: str
    epsilon: float
    delta: float | None
    remaining: float
    notes: tuple[str, ...]
    model: BoughtModel = field(repr=False)
    plan: MarginalPlan = field(repr=False)
    schema: Schema = field(repr=False)
    version: str = field(default="", repr=False)
    entry: str | None = None

    def marginal(self, *columns: str) -> pl.DataFrame:
        """The counts of some columns together: every combination of positions, its count and its deviation."""
        from shoal.release.marginals._tables import marginal_frame

        return marginal_frame(self.model, columns)

    def ask(self, query: str | Query) -> Answer:
        """Answer a query from the release: free, with an interval where its error is known exactly."""
        from shoal.release.marginals._ask import ask_release

        found = ask_release(
            self.model, self.schema, query, self.guarantee, self.plan.currency, self.remaining, self.plan.unit
        )
        return replace(found, entry=self.entry)

    def free(self, query: str | Query, dataset: str, analyst: str, version: str) -> Answer | None:
        """The answer for a session of the same data set, if its error is known (see `shoal.dp.Session`)."""
        from shoal.release.marginals._ask import asked_of

        asked = asked_of(self.model, self.schema, query) if dataset == self.schema.id else None
        return None if asked is None else self.ask(asked)

    def save(self, path: str | Path) -> None:
        """Write all that was bought as JSON: public, like the rows; `load_release` reads it back."""
        from shoal.io import write_text
        from shoal.release.marginals._kept import told_of

        write_text(json.dumps(told_of(self)), path)


def release_marginals(
    frame: Any,
    schema: Schema | str | Path,
    epsilon: float,
    *,
    delta: float | None = None,
    columns: Sequence[str] | None = None,
    bins: Mapping[str, Bins] | Bins | None = None,
    marginals: Marginals = CHOSEN,
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
    progress: Callable[[str], None] | None = None,
    _limit: Caps | None = None,
) -> MarginalRelease:
    """Release a whole table under differential privacy, by its most informative marginals.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table, path or address
        A table, or where it is, as `shoal.dp.Session` takes it: a file, a folder of Parquet files, a database, a
        Spark table.
    schema : Schema or path
        Declares the bounds or levels of every released column.
    epsilon : float
    delta : float, optional
        Where given, noise is Gaussian and counted in zCDP, which is then the data set's currency for life; the
        schema's if its currency is "zcdp", else the release is pure.
    columns : sequence of str, optional
        Those to release; all quasi-identifying and sensitive ones if left open.
    bins : mapping of column to int, text or numbers, or int or text, optional
        Bins of numbers and dates: how many, or where they begin. The schema's breaks or grid if left open. With
        "quantiles" or "quantiles:16" a sixteenth of the budget buys bins that hold about as many records each.
    marginals : {"chosen"}, int or lists of columns, default "chosen"
        Which sets of columns are measured together: those that tell most, chosen privately; all of so many columns
        (up to 3); or those named, each of 2 or 3 columns.
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
    progress : callable, optional
        Called with each stage as it begins: measuring, then drawing rows. An error that it raises at the first ends
        all before the charge.

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
    >>> out.guarantee, out.epsilon, set(out.frame["answer"]) <= {"no", "yes"}
    ('guarantee: epsilon-DP, add or remove one record', 2.0, True)
    """
    schema = Schema.of(schema)
    plan = make_plan(
        schema, epsilon, delta, columns, bins, mode, neighbours, workload, group, cells, tau, marginals
    )
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ParameterError(f"'rows' must be an int of at least 1. Got {rows!r}.")
    cells = cells or (Grid.of_schema(schema) if mode == "correlated" and schema.cells is not None else None)
    held = load_rows(whole_table(frame, schema), schema, plan, cells)
    if plan.purse.replaced:  # the number of records is public
        check_worth(plan, held.height)
    kept = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        caps, limit = kept.declare(schema.id, *caps_of(schema, plan, budget), plan.currency)
        limit = caps.within(limit).within(_limit) if _limit is not None else limit
        version = data_version or schema.version or random_word()
        claim = _claim(schema, plan, version, analyst, limit)
        say = progress or (lambda _: None)
        say(MEASURING)
        receipt = kept.once(
            claim, lambda: buy(plan, held, KeptFacts.of(schema, plan, version, plan.guarantee(caps)))
        )
    finally:
        if kept is not ledger:
            kept.close()
    model = model_of(plan, receipt.body)
    say("drawing rows")
    drawn = model.rows(rows)
    return MarginalRelease(
        drawn,
        plan.guarantee(caps) + (ENDED if receipt.ended else ""),
        plan.epsilon,
        plan.delta,
        micros.epsilon(receipt.remaining),
        notes_of(plan, model, drawn),
        model,
        plan,
        schema,
        version,
        receipt.entry or None,
    )


def load_rows(frame: Any, schema: Schema, plan: MarginalPlan, cells: Cells | None) -> pl.DataFrame:
    """The rows that count, at most so many of each unit."""
    names = {each.name for each in plan.axes}
    if plan.unit.kind == "cell":
        names |= set(schema.columns)
    columns = {name: column for name, column in schema.columns.items() if name in names}
    loaded = load(frame, Schema(columns, id=schema.id))
    rows = protect_rows(loaded, frame, schema, plan.unit, cells)
    if plan.unit.kind in ("column", "cell"):
        unit = UNIT if plan.unit.kind == "column" else CELL
        rows = rows.filter(pl.int_range(pl.len()).over(unit) < plan.unit.rows)
    return rows


def load_codes(frame: Any, schema: Schema, plan: MarginalPlan, cells: Cells | None) -> np.ndarray:
    """Positions of the rows that count, on axes that are all known."""
    return encode(load_rows(frame, schema, plan, cells), plan.axes)


@dataclass(frozen=True)
class KeptFacts:
    """What a kept release says about itself, so that it can be asked again. All of it is public.

    Parameters
    ----------
    columns : tuple of str
    schema : str
        Digest of the schema it was made with.
    version : str
        The state of the table that it is about.
    guarantee : str
        `stamp` in JSON.
    currency : str
    epsilon : float
    delta : float or None
    cut : bool
        Whether only some rows of each unit were counted.
    """

    columns: tuple[str, ...]
    schema: str
    version: str
    guarantee: str
    currency: str
    epsilon: float
    delta: float | None
    cut: bool

    @classmethod
    def of(cls, schema: Schema, plan: MarginalPlan, version: str, guarantee: str) -> Self:
        """The facts of a release that follows this plan."""
        return cls(
            columns=tuple(each.name for each in plan.axes),
            schema=digest_of(schema),
            version=version,
            guarantee=guarantee,
            currency=plan.currency,
            epsilon=plan.epsilon,
            delta=plan.delta,
            cut=plan.unit.kind in ("column", "cell"),
        )

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {{"guarantee": "stamp"}.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, facts: Json) -> Self:
        """The facts that `to_dict` wrote."""
        own = {name: value for name, value in facts.items() if name not in ("columns", "stamp")}
        return cls(columns=tuple(facts["columns"]), guarantee=facts["stamp"], **own)


def digest_of(schema: Schema) -> str:
    """A schema's facts in short; caps are not among them."""
    facts = replace(schema, budget=None, per_analyst=None).to_toml()
    return hashlib.sha256(facts.encode()).hexdigest()


def buy(
    plan: MarginalPlan,
    rows: pl.DataFrame,
    facts: KeptFacts | None = None,
    share: Fraction = Fraction(1),
) -> str:
    """All that is drawn from the private table with a share of what is charged, as the ledger keeps it."""
    seed, purse, axes = secrets.randbits(63), plan.purse.part(share), plan.axes
    if plan.quantiles:
        wanted = {name for name, _ in plan.quantiles}
        cells = {name: rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in wanted}
        axes = quantile_axes(axes, plan.quantiles, cells, purse.part(SHARE))
        purse = purse.part(1 - SHARE)
    codes, sizes = encode(rows, axes), [each.size for each in axes]
    bought = _measured(plan, codes, sizes, purse, seed)
    edges = {each.name: [end.hex() for end in each.edges] for each in axes if each.edges}
    measured = [each.to_json() for each in bought]
    told = {} if facts is None else facts.to_dict()
    return json.dumps({"facts": told, "seed": seed, "edges": edges, "measurements": measured})


def _measured(
    plan: MarginalPlan, codes: np.ndarray, sizes: Sequence[int], purse: Purse, seed: int
) -> list[Measurement]:
    if plan.workload == "ranges":
        return measure_blocks(codes, sizes, purse)
    if plan.sets is not None:
        return measure_asked(codes, plan.sets, sizes, purse)
    return measure(codes, sizes, purse, seed)


def model_of(plan: MarginalPlan, body: str) -> BoughtModel:
    """What a kept body stands for."""
    return read_model(json.loads(body), plan.axes, plan.zeros, plan.edits)


def read_model(
    kept: Mapping[str, Any],
    axes: Sequence[MarginalAxis],
    zeros: tuple[Predicate, ...],
    edits: tuple[Edit, ...] = (),
) -> BoughtModel:
    """What kept numbers stand for on the axes of their schema."""
    bought = tuple(Measurement.from_json(each) for each in kept["measurements"])
    edges = {name: tuple(map(float.fromhex, each)) for name, each in kept["edges"].items()}
    axes = [replace(each, edges=edges[each.name], values=()) if each.name in edges else each for each in axes]
    return BoughtModel(tuple(axes), bought, kept["seed"], zeros, edits)


def caps_of(schema: Schema, plan: MarginalPlan, total: float | None) -> tuple[int | None, int | None]:
    """What the data set and each analyst may spend, in millionths of the plan's currency."""
    total, own = schema.budget if total is None else total, schema.per_analyst
    return _cap(total, plan, "budget"), _cap(own, plan, "per_analyst")


def _cap(epsilon: float | None, plan: MarginalPlan, name: str) -> int | None:
    if epsilon is None:
        return None
    return micros.micro(epsilon, name) if plan.delta is None else rho_of_epsilon(epsilon, plan.delta)


def _claim(schema: Schema, plan: MarginalPlan, version: str, analyst: str, limit: Caps | None) -> Claim:
    names = ",".join(each.name for each in plan.axes)
    text = f"{RELEASE} {plan.workload} {plan.neighbours} columns={names}"
    facts = replace(schema, budget=None, per_analyst=None).to_toml()
    bins = [[*each.edges] for each in plan.axes]
    asked = [bins, plan.quantiles, plan.sets]
    state = json.dumps([asked, plan.unit.rows, facts, version])
    return Claim(schema.id, analyst, text, state, Amount(plan.millionths, plan.currency), plan.unit, limit)


def notes_of(plan: MarginalPlan, model: BoughtModel, rows: pl.DataFrame) -> tuple[str, ...]:
    """What is said beside a release."""
    pairs = len({each.key for each in model.measurements if len(each.key) > 1})
    notes = [
        f"{len(model.axes)} single columns and {pairs} sets of columns were measured; everything else comes from a model.",
        "Rows are drawn from a model of these counts, so no row belongs to a record.",
    ]
    if not all(each.missing for each in plan.axes):
        notes.append(_MISSING)
    if not pairs and len(model.axes) > 1:
        notes.append(
            "At this epsilon no pair of columns was worth its noise: columns are independent in the rows."
        )
    if not model.ranges and model.total < 3 * math.sqrt(model.residuals[()].variance):
        notes.append("At this epsilon the number of records itself is lost in noise: the rows tell nothing.")
    if plan.edits:
        odd = int(broken_rows(rows, plan.edits).sum())
        kept = (
            f"Rows keep {len(plan.edits)} of the schema's rules"
            if not odd
            else f"{odd} rows break one of the schema's rules"
        )
        notes.append(f"{kept}: {'; '.join(each.text for each in plan.edits)}.")
    if plan.unit.kind == "column":
        notes.append(f"At most {plan.unit.rows} rows of one {plan.unit.column} are counted.")
    return tuple(notes)
