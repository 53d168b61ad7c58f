"""Answering: parse, plan, charge, compute, noise, settle.

A session is the only way to a private table. Whether a query is refused depends on its text, the schema
and the ledger; after the charge nothing is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from shoal.dp import budget as millionths
from shoal.dp.answer import Answer
from shoal.dp.claims import Amount, Claim, Receipt
from shoal.dp.correlation import Grid, Model
from shoal.dp.exact import compute
from shoal.dp.figures import cautions
from shoal.dp.free import Bought, free_answer
from shoal.dp.frequent import ask_mode, asks_for_mode, mode_cost
from shoal.dp.ledger import Ledger
from shoal.dp.linked import Given, load_linked
from shoal.dp.load import load, protect_rows
from shoal.dp.noise import add_noise, as_released, released
from shoal.dp.plan import Plan, make_plan
from shoal.dp.query import Query
from shoal.dp.reading import read_query
from shoal.dp.relation import CELL, Catalog
from shoal.dp.releases import Sums
from shoal.dp.secret import random_word
from shoal.dp.shown import figures, notes
from shoal.dp.unit import ENDED, MODES, STATED, Cells, Protected, read_by, resolve
from shoal.errors import ParameterError
from shoal.schema import Schema

if TYPE_CHECKING:
    from shoal.dp.stream import Drift

LAID_OUT = 2  # of the numbers that a stored answer is made of: raised with any change of what a plan draws
LEAST = 0.001  # of epsilon per figure, so that repeats are not free
WEAKER = (
    "earlier answers about this data set were given in a weaker unit; the ledger's total holds in that one"
)


Admit = Callable[[int, str], contextlib.AbstractContextManager[None]]
"""Lets a question of so many numbers by an analyst in, makes it wait, or raises; it knows nothing about the data."""


class FewCellsWarning(UserWarning):
    """A map to so few cells that answers in mode `correlated` will be poor."""


@dataclass(frozen=True)
class Cost:
    """What queries would cost, before anything is charged.

    Parameters
    ----------
    epsilon : float
        In all; answers this analyst already holds cost nothing.
    remaining : float
        What this analyst can still spend.
    parts : tuple of dict
        Per release its query, figure, kind, epsilon, share of the query, and noise scale where it has one.
    """

    epsilon: float
    remaining: float
    parts: tuple[dict[str, Any], ...]

    @property
    def affordable(self) -> bool:
        """Whether the budget allows it."""
        return self.epsilon <= self.remaining


class Session:
    """Private answers about one table.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    schema : Schema or path
    mode : {"dp", "group", "correlated", "pufferfish", "dependent"}
        Takes the unit from the schema; the last two take it from `model` and give one answer (`StatedSession`).
    budget : float, optional
        Total epsilon of the data set; the schema's if left open. The ledger keeps the first one that is declared: a
        larger one is refused, a smaller one holds for this session.
    unit : AddRemoveRecord, AddRemoveUnit, Records or Cells, optional
        Whom to protect, in place of what the mode takes from the schema.
    per_analyst : float, optional
        Epsilon of each analyst; the schema's if left open, else the whole budget.
    analyst : str, default "me"
    ledger : Ledger, path or database URL, optional
        In memory if left open: then the budget lasts as long as the session.
    model : Model, optional
        In mode `correlated`: a frozen map to cells; the schema's cells if left open. In modes `pufferfish` and
        `dependent`: what is declared, or its file.
    tau : int, optional
        In mode `correlated`: how many rows of a cell count; else the schema's, or `buy_tau`.
    data_version : str, optional
        The owner's word for this state of the table; the schema's if left open, else drawn at random. Answers are
        found again under the same word only.
    minimum : float, default 0.001
        Least epsilon of a figure.
    tables : mapping of str to (frame, schema), optional
        Further tables, by the names that the schema's links use (docs/howto/tables.md).
    releases : sequence, default ()
        Releases of this table, as `shoal.release.release_marginals` gives them, or those that a ledger keeps
        (`shoal.release.KeptReleases`): what they answer at least as exactly costs nothing.

    Notes
    -----
    The guarantee of each answer stands on it. Modes and proofs: docs/theory.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Session
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> with Session(pl.DataFrame({"age": [31, 45, 62]}), schema, budget=2.0) as s:
    ...     answer = s.ask("SELECT COUNT(*) FROM t WHERE age >= 40", epsilon=0.5)
    >>> answer.epsilon, answer.remaining, answer.guarantee
    (0.5, 1.5, 'guarantee: epsilon-DP, add or remove one record')
    """

    def __new__(cls, frame: Any = None, schema: Any = None, mode: str = "dp", *_: Any, **__: Any) -> Self:
        """In modes `pufferfish` and `dependent` a `StatedSession`, which goes by a declared model."""
        if cls is Session and mode in STATED:
            from shoal.dp.stated import StatedSession

            return super().__new__(StatedSession)  # type: ignore[return-value,arg-type]
        return super().__new__(cls)

    def __init__(
        self,
        frame: Any,
        schema: Schema | str | Path,
        mode: str = "dp",
        budget: float | None = None,
        *,
        unit: Protected | None = None,
        per_analyst: float | None = None,
        analyst: str = "me",
        ledger: Ledger | str | Path | None = None,
        model: Model | Any = None,
        tau: int | None = None,
        data_version: str | None = None,
        minimum: float = LEAST,
        tables: Mapping[str, tuple[Any, Schema | str | Path]] | None = None,
        releases: Sequence[Bought] = (),
        _hook: Callable[[str], None] | None = None,
    ) -> None:
        if mode not in MODES:
            more = " Mode 'heuristic' is dp.Heuristic." if mode == "heuristic" else ""
            raise ParameterError(f"'mode' must be one of {', '.join((*MODES, *STATED))}. Got {mode!r}.{more}")
        self.schema = schema = Schema.of(schema)
        self.mode = (
            {"column": mode, "cell": "correlated", "records": "group"}.get(unit.kind, "dp") if unit else mode
        )
        self.analyst, self._hook = named(analyst), _hook or (lambda step: None)
        self._least, self.releases = millionths.micro(minimum, "minimum"), tuple(releases)
        self.model, self.protected = _unit_of(self.mode, schema, unit, model, tau)
        asked = _caps(schema, budget, per_analyst)
        self._own = not isinstance(ledger, Ledger)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger, _hook=_hook)
        loaded = load(frame, schema)
        rows_of = self.protected or Cells(self.model, 1)
        self.catalog, self._frames = _linked(frame, schema, tables, rows_of)
        self._frame = protect_rows(loaded, frame, schema, rows_of, self.model)
        self._version = data_version or schema.version or random_word()
        others = [
            f"{name}\n{Schema.of(each).to_toml()}" for name, (_, each) in sorted((tables or {}).items())
        ]
        self._facts = _digest("\n".join([replace(schema, budget=None, per_analyst=None).to_toml(), *others]))
        if self.mode == "correlated" and self.model is not None and self.model.n_cells < 300:
            warnings.warn(
                f"{self.model.n_cells} cells are few: expect large errors below 300.", FewCellsWarning, 2
            )
        self.caps, self.limit = self.ledger.declare(schema.id, *asked)
        self.admit: Admit = _at_once

    def ask(self, query: str | Query, epsilon: float, *, analyst: str | None = None) -> Answer:
        """Answer a query privately.

        Parameters
        ----------
        query : str or Query
            SQL, or a Python expression.
        epsilon : float
            What to spend.
        analyst : str, optional
            Who asks; the session's analyst if left open.

        Returns
        -------
        Answer
        """
        if asks_for_mode(query):
            return ask_mode(self, str(query), epsilon, self._who(analyst))
        plan, who = self._plan(self._question(query), epsilon), self._who(analyst)
        free = self._free(query, plan, who)
        if free is not None:
            return free
        with self.admit(plan.size, who):
            receipt = self.ledger.once(self._claim(plan, who), lambda: self._draw(plan))
            return answer_of(plan, receipt)

    def free(self, query: str | Query, epsilon: float, *, analyst: str | None = None) -> Answer | None:
        """The answer that releases give for nothing, if it is at least as exact as one for this epsilon; else None."""
        if not self.releases or asks_for_mode(query):
            return None
        return self._free(query, self._plan(self._question(query), epsilon), self._who(analyst))

    def _free(self, query: str | Query, plan: Plan, who: str) -> Answer | None:
        if not self.releases:
            return None
        parts = _parts(plan)
        scales = {each["figure"]: each["noise_scale"] for each in parts if "noise_scale" in each}
        return free_answer(
            self.releases, query, self.schema.id, who, self._version, scales, self.remaining(who)
        )

    def cost(
        self,
        query: str | Query | Sequence[str | Query],
        epsilon: float | None = None,
        *,
        analyst: str | None = None,
    ) -> Cost:
        """What a query, or a list of queries at `epsilon` each, would cost, and how it is split. Free.

        Without `epsilon` the split is shown for an epsilon of 1 each.
        """
        who, micro = self._who(analyst), millionths.micro(1 if epsilon is None else epsilon)
        total, parts, held, kept = 0, [], set(), self.ledger.unit(self.schema.id)
        for each in [query] if isinstance(query, (str, Query)) else query:
            if asks_for_mode(each):
                whole, shown, part = mode_cost(self, str(each), micro, who)
                total += whole * (1 if kept is None else max(1, part))
                parts.append(shown)
                continue
            plan = self._plan(self._question(each), millionths.epsilon(micro))
            if self._free(each, plan, who) is not None:
                parts += [{**part, "epsilon": 0.0, "share": 0.0} for part in _parts(plan)]
                continue
            claim = self._claim(plan, who)
            if claim.facts not in held and not self.ledger.has_received(claim):
                total += plan.micro * (1 if kept is None else max(1, plan.unit.times(kept)))
            held.add(claim.facts)
            parts += _parts(plan)
        return Cost(millionths.epsilon(total), self.remaining(who), tuple(parts))

    @property
    def version(self) -> str:
        """The word for the state of the table that answers are about."""
        return self._version

    def remaining(self, analyst: str | None = None) -> float:
        """Epsilon that an analyst can still spend on this data set; what others have spent is not told."""
        left = self.ledger.remaining(self.schema.id, self._who(analyst), self.limit)
        return millionths.epsilon(left)

    def buy_tau(self, epsilon: float, r: int = 20, *, analyst: str | None = None) -> int:
        """Choose privately, once per data set and model, how many rows of a cell count (mode `correlated`).

        Parameters
        ----------
        epsilon : float
            In the cell unit, on top of the queries.
        r : int, default 20
            About how many cells may be cut.

        Returns
        -------
        int
            A power of two; the same for whoever buys it again.
        """
        from shoal.dp.tau import choose_tau

        if self.mode != "correlated" or self.model is None:
            raise ParameterError(f"Only mode 'correlated' has a tau to buy. Got {self.mode!r}.")
        micro, who = self._least_of(millionths.micro(epsilon)), self._who(analyst)
        if isinstance(r, bool) or not isinstance(r, int) or r < 0:
            raise ParameterError(f"'r' must be an int of at least 0. Got {r!r}.")

        def draw() -> str:
            sizes = np.bincount(self._frame[CELL].to_numpy(), minlength=n_cells)
            return json.dumps(choose_tau(sizes, r, micro))

        n_cells = self.model.n_cells
        claim = self._claim_for(f"TAU r={r}", micro, Cells(self.model, 1), who)
        tau = int(json.loads(self.ledger.once(claim, draw).body))
        self.protected = Cells(self.model, tau)
        return tau

    def close(self) -> None:
        """Let go of the ledger, where it is this session's own."""
        if self._own:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _who(self, analyst: str | None) -> str:
        return self.analyst if analyst is None else named(analyst)

    def append(self, rows: Any, *, data_version: str | None = None) -> Drift:
        """Take further rows in: memberships and cells under the model as it stands, no refit.

        The data version changes, so stored answers are of the past and each new answer is charged: nothing
        about continual release is free. A person, group or cell keeps its unit across appends, and the same
        budget covers all versions.

        Parameters
        ----------
        rows : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        data_version : str, optional
            Names the new state; drawn at random if left open.

        Returns
        -------
        Drift
            For the owner only: it is read from the private rows.
        """
        from shoal.dp.stream import append

        return append(self, rows, data_version)

    def _question(self, query: str | Query) -> Query:
        unit = None if self.protected is None else self.protected.column or ""
        rows = None if self.protected is None else self.protected.rows
        return read_query(query, self.schema, unit, rows, self.catalog)

    def _plan(self, query: Query, epsilon: float) -> Plan:
        if self.protected is None:
            raise ParameterError(
                "'tau' must be declared, or bought with buy_tau(epsilon), before anything is asked."
            )
        micro = self._least_of(millionths.micro(epsilon), len(query.aggregates))
        plan = make_plan(query, self.schema, self.protected, micro, self.catalog)
        self._least_of(micro, len(plan.releases))
        return plan

    def _least_of(self, micro: int, figures_asked: int = 1) -> int:
        if micro < self._least * figures_asked:
            raise ParameterError(
                f"'epsilon' must be at least {millionths.epsilon(self._least)} for each figure. "
                f"Got {millionths.epsilon(micro)} for {figures_asked}."
            )
        return micro

    def _draw(self, plan: Plan) -> str:
        exact = compute(self._frame if self._frames is None else self._frames, plan)
        self._hook("computed")
        noisy = add_noise(plan, exact)
        self._hook("noised")
        return released(noisy)

    def _claim(self, plan: Plan, analyst: str) -> Claim:
        return self._claim_for(str(plan.lowered.asked.question), plan.micro, plan.unit, analyst)

    def _claim_for(self, text: str, micro: int, unit: Protected, analyst: str) -> Claim:
        state = json.dumps([LAID_OUT, self.mode, unit.rows, self._facts, self._version])
        return Claim(self.schema.id, analyst, text, state, Amount(micro), unit, self.limit)


def answer_of(plan: Plan, receipt: Receipt) -> Answer:
    """The answer that a receipt stands for."""
    noisy = as_released(receipt.body)
    laid = figures(plan, noisy)
    guarantee = plan.protected.stamp + (ENDED if receipt.ended else "")
    said = list(notes(plan, noisy))
    if receipt.charged > plan.micro:
        said.append(f"counts {receipt.charged // plan.micro} times in the unit that the ledger keeps")
    if receipt.weaker:
        said.append(WEAKER)
    spent, left = millionths.epsilon(receipt.charged), millionths.epsilon(receipt.remaining)
    told, entry = cautions(plan, noisy), receipt.entry or None
    return Answer(laid.value, guarantee, spent, left, laid.interval, tuple(said), laid.cut, told, entry)


def _linked(
    frame: Any,
    schema: Schema,
    tables: Mapping[str, tuple[Any, Schema | str | Path]] | None,
    protected: Protected,
) -> tuple[Catalog | None, dict[str, pl.DataFrame] | None]:
    """The catalog and frames of a session with several tables."""
    if not tables:
        return None, None
    if protected.kind == "cell":
        raise ParameterError("Several tables are asked in modes 'dp' and 'group'. Got mode 'correlated'.")
    given = {name: Given(data, Schema.of(each)) for name, (data, each) in tables.items()}
    return load_linked(frame, schema, given, protected)


def _unit_of(
    mode: str, schema: Schema, unit: Protected | None, model: Model | None, tau: int | None
) -> tuple[Model | None, Protected | None]:
    """The model and unit of a session; no unit where tau has to be bought first."""
    if unit is not None:
        return (unit.model if isinstance(unit, Cells) else model), read_by(unit, schema)
    if mode != "correlated":
        return model, resolve(mode, schema)
    if model is None and schema.cells is not None:
        model = Grid.of_schema(schema)
    tau = tau if tau is not None or schema.cells is None else schema.cells.tau
    bought = resolve(mode, schema, None, model, 1 if tau is None else tau)
    return model, None if tau is None else bought


def _caps(
    schema: Schema, total: float | None, per_analyst: float | None
) -> tuple[int | None, int | None, str]:
    total = schema.budget if total is None else total
    per_analyst = schema.per_analyst if per_analyst is None else per_analyst
    cap = None if total is None else millionths.micro(total, "budget")
    own = None if per_analyst is None else millionths.micro(per_analyst, "per_analyst")
    return cap, own, schema.currency


def _parts(plan: Plan) -> list[dict[str, Any]]:
    shown = []
    for aggregate, release in zip(plan.query.aggregates, plan.releases, strict=True):
        part = {
            "query": str(plan.lowered.asked),
            "figure": aggregate.name,
            "release": release.figure,
            "epsilon": millionths.epsilon(release.micro),
            "share": release.micro / plan.micro,
        }
        if isinstance(release, Sums) and release.steps is None and release.figure in ("count", "sum"):
            quantum = 1.0 if release.fixed is None else float(release.fixed.quantum)
            part["noise_scale"] = float(release.scale()) * quantum
        shown.append(part)
    return shown


def named(analyst: str) -> str:
    """The name of an analyst, checked."""
    if not isinstance(analyst, str) or not analyst.strip() or len(analyst) > 200:
        raise ParameterError(f"'analyst' must be a non-empty text. Got {analyst!r}.")
    return analyst


def _at_once(_size: int, _who: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
