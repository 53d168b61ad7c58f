"""The spine of answering: parse, plan, charge, compute, noise, settle.

A session is the only door to a private table. Whether a query is refused depends on its text, the schema
and the ledger; after the charge nothing is refused.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.dp import budget
from shoal.dp.answer import Answer
from shoal.dp.check import check
from shoal.dp.correlation import Grid, Model
from shoal.dp.entries import Claim
from shoal.dp.exact import compute
from shoal.dp.figures import figures, notes
from shoal.dp.ledger import Ledger
from shoal.dp.load import load, protect_rows, version
from shoal.dp.noise import add_noise, as_released, released
from shoal.dp.plan import CELL, Plan, make_plan
from shoal.dp.query import Query
from shoal.dp.sql import parse
from shoal.dp.unit import ENDED, MODES, Protected, resolve
from shoal.errors import ParameterError, QueryError
from shoal.schema import Schema, Unit

if TYPE_CHECKING:
    from shoal.dp.stream import Drift


COUNTED_TWICE = "counts double: the ledger keeps this data set for replaced records, as its release needs"


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
    schema : Schema
    mode : {"dp", "group", "correlated", "heuristic"}
    budget : float, optional
        Total epsilon of the data set; the schema's if left open. One of them must say.
    per_analyst : float, optional
        Epsilon of each analyst; the schema's if left open, else the whole budget.
    analyst : str, default "me"
    ledger : Ledger, path or database URL, optional
        In memory if left open: then the budget lasts as long as the session.
    group : int or Unit, optional
        In mode `group`: any so many records, or a column and how many of its rows count.
    model : Model, optional
        In modes `correlated` (frozen) and `heuristic`; `correlated` takes the schema's cells if left open.
    tau : int, optional
        In mode `correlated`: how many rows of a cell count; else the schema's, or `buy_tau`.
    data_version : str, optional
        Names this state of the table in the ledger's store; a hash of the loaded rows if left open.

    Notes
    -----
    The guarantee of each answer is its stamp. Modes and proofs: docs/theory.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import dp
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> s = dp.Session(pl.DataFrame({"age": [31, 45, 62]}), schema, mode="dp", budget=2.0)
    >>> answer = s.ask("SELECT COUNT(*) FROM t WHERE age >= 40", epsilon=0.5)
    >>> answer.epsilon, answer.remaining, answer.stamp
    (0.5, 1.5, 'guarantee: epsilon-DP, add or remove one record')
    """

    def __init__(
        self,
        frame: Any,
        schema: Schema | str | Path,
        mode: str = "dp",
        budget: float | None = None,
        *,
        per_analyst: float | None = None,
        analyst: str = "me",
        ledger: Ledger | str | Path | None = None,
        group: Unit | int | None = None,
        model: Model | None = None,
        tau: int | None = None,
        data_version: str | None = None,
        _hook: Callable[[str], None] | None = None,
    ) -> None:
        if mode not in MODES:
            raise ParameterError(f"'mode' must be one of {', '.join(MODES)}. Got {mode!r}.")
        schema = Schema.of(schema)
        self.schema, self.mode, self.analyst = schema, mode, _named(analyst)
        self._caps = _caps(schema, budget, per_analyst, mode)
        self._hook = _hook or (lambda step: None)
        if model is None and mode == "correlated" and schema.cells is not None:
            model = Grid.of_schema(schema)
        self.model = model
        tau = tau if tau is not None or schema.cells is None else schema.cells.tau
        unbought = mode == "correlated" and tau is None
        self.protected: Protected | None = None
        if mode != "heuristic":
            self.protected = resolve(mode, schema, group, model, 1 if unbought else tau)
        loaded = load(frame, schema)
        self._frame = (
            loaded if self.protected is None else protect_rows(loaded, frame, schema, self.protected, model)
        )
        if unbought:
            self.protected = None
        self._key = [
            mode,
            _digest(replace(schema, budget=None, per_analyst=None).to_toml()),
            data_version or version(loaded),
        ]
        if mode == "heuristic":
            from shoal.dp.heuristic import fitted

            self.model = fitted(model, loaded)
        if mode == "correlated" and model is not None and model.n_cells < 300:
            warnings.warn(
                f"{model.n_cells} cells are few: expect large errors below 300.", FewCellsWarning, 2
            )
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger, _hook=_hook)

    def ask(self, query: str | Query, epsilon: float, *, analyst: str | None = None) -> Answer:
        """Answer a query privately.

        Parameters
        ----------
        query : str or Query
            SQL, or a Python expression.
        epsilon : float
            What to spend; in mode `heuristic` the noise parameter, which buys no guarantee.
        analyst : str, optional
            Who asks; the session's analyst if left open.

        Returns
        -------
        Answer
        """
        who, asked = self._who(analyst), self._parse(query)
        if self.mode == "heuristic":
            return self._reproduce(asked, epsilon, who)
        plan = self._plan(asked, epsilon)
        charge = self.ledger.charge(self._claim(plan, who))
        if charge.stored is None:
            exact = compute(self._frame, plan)
            self._hook("computed")
            noisy = add_noise(plan, exact)
            self._hook("noised")
            self.ledger.settle(charge, released(noisy))
        else:
            noisy = as_released(charge.stored)
        value, interval = figures(plan, noisy)
        stamp = plan.protected.stamp + (ENDED if charge.ended else "")
        spent, left = budget.epsilon(charge.charged), budget.epsilon(charge.remaining)
        told = notes(plan) + ((COUNTED_TWICE,) if charge.charged > plan.micro else ())
        return Answer(value, stamp, spent, left, interval, notes=told)

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
        who, micro = self._who(analyst), budget.micro(1 if epsilon is None else epsilon)
        total, parts, held, kept = 0, [], set(), self.ledger.unit(self.schema.id)
        for each in [query] if isinstance(query, (str, Query)) else query:
            plan = self._plan(self._parse(each), budget.epsilon(micro))
            claim = self._claim(plan, who)
            if claim.key not in held and not self.ledger.has_received(claim.dataset, who, claim.key):
                total += plan.micro * (1 if kept is None else max(1, plan.protected.times(kept)))
            held.add(claim.key)
            parts += _parts(plan)
        return Cost(budget.epsilon(total), self.remaining(who), tuple(parts))

    def remaining(self, analyst: str | None = None) -> float:
        """Epsilon that an analyst can still spend on this data set."""
        who, (cap, own) = self._who(analyst), self._caps
        left = min(cap - self.ledger.spent(self.schema.id), own - self.ledger.spent(self.schema.id, who))
        return budget.epsilon(max(0, left))

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
        micro, who = budget.micro(epsilon), self._who(analyst)
        if isinstance(r, bool) or not isinstance(r, int) or r < 0:
            raise ParameterError(f"'r' must be an int of at least 0. Got {r!r}.")
        unit = resolve("correlated", self.schema, None, self.model, 1)
        charge = self.ledger.charge(self._claim_for(f"TAU r={r}", micro, unit, who))
        if charge.stored is None:
            sizes = np.bincount(self._frame[CELL].to_numpy(), minlength=self.model.n_cells)
            body = json.dumps(choose_tau(sizes, r, micro))
            self.ledger.settle(charge, body)
        tau = int(json.loads(charge.stored or body))
        self.protected = resolve("correlated", self.schema, None, self.model, tau)
        return tau

    def _who(self, analyst: str | None) -> str:
        return self.analyst if analyst is None else _named(analyst)

    def append(self, rows: Any, *, data_version: str | None = None) -> Drift:
        """Take further rows in: memberships and cells under the model as it stands, no refit.

        The data version changes, so stored answers are of the past and each new answer is charged: nothing
        about continual release is free. A person, group or cell keeps its unit across appends, and the same
        budget covers all versions.

        Parameters
        ----------
        rows : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        data_version : str, optional
            Names the new state; made from the old version and the rows if left open.

        Returns
        -------
        Drift
            For the owner only: it is read from the private rows.
        """
        from shoal.dp.stream import append

        return append(self, rows, data_version)

    def _parse(self, query: str | Query) -> Query:
        parsed = parse(query, self.schema.id) if isinstance(query, str) else query
        if not isinstance(parsed, Query):
            raise QueryError(f"A query must be SQL text or a Query. Got {type(query).__name__}.")
        check(parsed, self.schema)
        return parsed

    def _plan(self, query: Query, epsilon: float) -> Plan:
        if self.mode == "heuristic":
            raise ParameterError("Mode 'heuristic' keeps no budget, so there is no cost to show.")
        if self.protected is None:
            raise ParameterError(
                "'tau' must be declared, or bought with buy_tau(epsilon), before anything is asked."
            )
        return make_plan(query, self.schema, self.protected, budget.micro(epsilon))

    def _claim(self, plan: Plan, analyst: str) -> Claim:
        return self._claim_for(str(plan.query), plan.micro, plan.protected, analyst)

    def _claim_for(self, text: str, micro: int, unit: Protected, analyst: str) -> Claim:
        cap, own = self._caps
        key = _digest(json.dumps([text, micro, unit.key, unit.rows, *self._key]))
        kept = unit.to_keep(self.schema)
        return Claim(self.schema.id, analyst, key, micro, cap, own, kept, unit.times, text)

    def _reproduce(self, query: Query, parameter: float, analyst: str) -> Answer:
        from shoal.dp.heuristic import check_heuristic, reproduce

        check_heuristic(query)
        budget.micro(parameter, "epsilon")
        self.ledger.end_total(self.schema.id, "heuristic", analyst)
        return reproduce(self._frame, query, self.schema, self.model, float(parameter))


def _caps(schema: Schema, total: float | None, per_analyst: float | None, mode: str) -> tuple[int, int]:
    total = schema.budget if total is None else total
    per_analyst = schema.per_analyst if per_analyst is None else per_analyst
    if total is None:
        if mode != "heuristic":
            raise ParameterError("'budget' must be given, or declared in the schema: it has no default.")
        total = 1
    cap = budget.micro(total, "budget")
    return cap, cap if per_analyst is None else min(cap, budget.micro(per_analyst, "per_analyst"))


def _parts(plan: Plan) -> list[dict[str, Any]]:
    shown = []
    for aggregate, releases in zip(plan.query.aggregates, plan.releases, strict=True):
        for release in releases:
            part = {
                "query": str(plan.query),
                "figure": aggregate.name,
                "release": release.kind,
                "epsilon": budget.epsilon(release.micro),
                "share": release.micro / plan.micro,
            }
            if release.kind != "rank":
                quantum = 1.0 if release.fixed is None else float(release.fixed.quantum)
                part["noise_scale"] = float(release.scale) * quantum
            shown.append(part)
    return shown


def _named(analyst: str) -> str:
    if not isinstance(analyst, str) or not analyst.strip() or len(analyst) > 200:
        raise ParameterError(f"'analyst' must be a non-empty text. Got {analyst!r}.")
    return analyst


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
