"""A workload from request to answers: read, choose, charge, measure, settle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from shoal.dp import budget
from shoal.dp.answering.answer import charged_text
from shoal.dp.answering.exact import compute
from shoal.dp.answering.noise import cut_sums
from shoal.dp.answering.releases import Sums
from shoal.dp.answering.told import told
from shoal.dp.meaning.relation import CELL, UNIT
from shoal.dp.mechanisms.discrete_gaussian import normal_quantile
from shoal.dp.mechanisms.discrete_laplace import CONFIDENCE
from shoal.dp.sql.query import Query, group_names
from shoal.dp.workload._domain import MOST_QUERIES, Counted, Domain, counted, domain_of
from shoal.dp.workload._text import worded
from shoal.dp.workload.strategy import Strategy, alone, choose_strategy
from shoal.errors import ParameterError, QueryError
from shoal.typing import Json

if TYPE_CHECKING:
    from shoal.dp.answering.answer import Answer
    from shoal.dp.ledger.claims import Claim, Receipt
    from shoal.dp.session import Session

QUANTILE = {"zcdp": normal_quantile(CONFIDENCE), "pure": 2.2}  # sums of Laplace noise stay within the second


@dataclass(frozen=True)
class JointAnswer:
    """One query of a workload.

    Parameters
    ----------
    query : str
        In canonical form.
    value : float, or list of dict
        The count, or a row for each group.
    interval : like `value`, with pairs
        Holds the exact figure with 95 %.
    deviation : float
        Standard deviation of the noise (the root of the mean variance over its groups).
    alone : float
        The same, had the queries been asked one by one for the same total.
    """

    query: str
    value: Any
    interval: Any
    deviation: float
    alone: float


@dataclass(frozen=True)
class WorkloadAnswer:
    """Counting queries answered jointly.

    Parameters
    ----------
    answers : tuple of JointAnswer
        In the order asked; sums agree with each other where one strategy answers all.
    strategy : str
        How it was measured: "one by one", or how each column was taken apart (even, halves, cells).
    guarantee : str
    epsilon, remaining : float
        As of `Answer`: one charge for all.
    notes : tuple of str
    entry : str, optional
    rho, delta : float, optional
    """

    answers: tuple[JointAnswer, ...]
    strategy: str
    guarantee: str
    epsilon: float
    remaining: float
    notes: tuple[str, ...] = ()
    entry: str | None = None
    rho: float | None = None
    delta: float | None = None

    @property
    def cost(self) -> str:
        """What was charged and what is left, in words."""
        return charged_text(self.epsilon, self.remaining, self.rho, self.delta)

    @property
    def gain(self) -> float:
        """How many times smaller the mean squared error is than one by one."""
        weights = [len(each.value) if isinstance(each.value, list) else 1 for each in self.answers]
        both = np.average(
            [[each.alone**2, each.deviation**2] for each in self.answers], axis=0, weights=weights
        )
        return float(both[0] / both[1]) if both[1] else 1.0

    def to_dict(self) -> Json:
        """The facts as plain values."""
        facts: Json = {
            "answers": [vars(each) for each in self.answers],
            "strategy": self.strategy,
            "stamp": self.guarantee,
            "epsilon": self.epsilon,
            "remaining": self.remaining,
        }
        facts |= {"notes": list(self.notes)} if self.notes else {}
        facts |= {} if self.rho is None else {"rho": self.rho, "delta": self.delta}
        return facts | ({"entry": self.entry} if self.entry else {})

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """The answer that `to_dict` wrote, as it comes from a server."""
        return cls(
            tuple(JointAnswer(**each) for each in facts["answers"]),
            facts["strategy"],
            facts["stamp"],
            facts["epsilon"],
            facts["remaining"],
            tuple(facts.get("notes", ())),
            facts.get("entry"),
            facts.get("rho"),
            facts.get("delta"),
        )

    def to_json(self) -> str:
        """The facts as JSON text."""
        return json.dumps(self.to_dict())


def ask_workload(
    session: Session, queries: Sequence[str | Query], micro: int, analyst: str
) -> WorkloadAnswer:
    """Answer counting queries jointly, for one charge.

    Parameters
    ----------
    session : Session
    queries : sequence of str or Query
        ``SELECT COUNT(*) FROM t WHERE ... GROUP BY ...`` with constants and declared levels.
    micro : int
        In millionths of the session's currency, for all of them.
    analyst : str
    """
    asked, domain, strategy = plan_workload(session, queries, micro)
    protected = session.protected
    assert protected is not None  # the queries were planned

    def draw() -> str:
        frame = counted_rows(session, asked, domain, strategy.rows)
        if strategy.ways:
            found = strategy.answers(domain.counts(frame), domain.matrix)
        else:
            found = _one_by_one(frame, asked, strategy)
        return json.dumps(found.tolist())

    claim = workload_claim(session, asked, strategy, micro, analyst)
    session._rows.ready()  # a source that cannot be reached is told before anything is charged
    with session.admit(sum(len(each.labels) for each in asked), analyst):
        receipt = session.ledger.once(claim, draw)
    return _told(session, asked, strategy, receipt, micro)


def workload_again(
    session: Session, queries: Sequence[str], micro: int, analyst: str, key: str, receipt: Receipt
) -> WorkloadAnswer | None:
    """The answers that a stored body stands for; None where its key is of another session. Nothing is drawn or charged.

    Parameters
    ----------
    session : Session
    queries : sequence of str
        As the ledger words them.
    micro : int
        What was asked to be spent.
    analyst : str
    key : str
        Of the entry.
    receipt : Receipt
    """
    asked, _, strategy = plan_workload(session, queries, micro)
    claim = workload_claim(session, asked, strategy, micro, analyst)
    return _told(session, asked, strategy, receipt, micro) if session.ledger.key_of(claim) == key else None


def _told(
    session: Session, asked: Sequence[Counted], strategy: Strategy, receipt: Receipt, micro: int
) -> WorkloadAnswer:
    protected = session.protected
    assert protected is not None  # the queries were planned
    notes = ["answered together: sums of the answers agree"] if strategy.ways else []
    if protected.kind in ("column", "cell"):
        notes.append(f"at most {strategy.rows} rows of a unit count; the intervals hold if none has more")
    charged = told(session, protected.guarantee, receipt, None, None, tuple(notes))
    return _laid_out(asked, strategy, json.loads(receipt.body), charged, micro)


def workload_claim(
    session: Session, asked: Sequence[Counted], strategy: Strategy, micro: int, analyst: str
) -> Claim:
    """What a workload asks the ledger for: one charge for all of it."""
    assert session.protected is not None  # the queries were planned
    text = worded([str(each.plan.lowered.asked.question) for each in asked], strategy.name)
    return session._claim_for(text, micro, session.protected, analyst)


def plan_workload(
    session: Session, queries: Sequence[str | Query], micro: int
) -> tuple[list[Counted], Domain, Strategy]:
    """What a workload asks and how it is measured; no data is looked at."""
    if isinstance(queries, (str, Query)) or not queries:
        raise ParameterError("A workload is a list of at least one query.")
    session._least_of(micro)
    asked = []
    for each in queries:
        plan = session._plan(session._question(each), max(micro, budget.MICRO))
        asked.append(counted(plan, str(plan.lowered.asked)))
    groups = [len(each.labels) for each in asked]
    if sum(groups) > MOST_QUERIES:
        raise QueryError(f"A workload may ask for at most {MOST_QUERIES} counts. Got {sum(groups)}.")
    sources = list(dict.fromkeys(str(each.plan.lowered.asked.source) for each in asked))
    if len(sources) > 1:
        raise QueryError(
            "The queries of a workload must all have the same FROM: ask those of another in a workload of their own."
        )
    relation = asked[0].plan.lowered.relation
    domain = domain_of(session.schema if relation is None else asked[0].plan.schema, asked)
    protected = session.protected
    assert protected is not None  # the queries were planned
    rows = protected.rows if relation is None else min(protected.rows, relation.rows)
    strategy = choose_strategy(
        domain.matrix if domain.fits and domain.axes else None,
        groups,
        session.currency.name,
        Fraction(micro, budget.MICRO),
        rows,
        [each.ordered for each in domain.axes],
    )
    return asked, domain, strategy


def counted_rows(session: Session, asked: Sequence[Counted], domain: Domain, rows: int) -> pl.DataFrame:
    """The rows that all queries count, of the one table or of the join or sub-query that they share.

    At most so many of a unit: the first ones in an order that is each row's own affair.
    """
    plan = asked[0].plan
    if plan.lowered.relation is None:
        frame = session._rows.frame
    else:
        frame = session._rows.related(plan, [each.column.name for each in domain.axes])
    for key in (UNIT, CELL):
        if key in frame.columns:
            frame = frame.filter(pl.int_range(pl.len()).over(key) < rows)
    return frame


def _one_by_one(frame: pl.DataFrame, asked: Sequence[Counted], strategy: Strategy) -> np.ndarray:
    found = []
    for at, each in enumerate(asked):
        release = each.plan.releases[0]
        assert isinstance(release, Sums)  # a count
        rows_are_there = replace(each.plan, lowered=replace(each.plan.lowered, relation=None))
        exact = cut_sums(release, compute(frame, rows_are_there)[0], None)
        found.append(strategy.noise(at).add(exact))
    return np.concatenate(found).astype(np.float64)


def _laid_out(
    asked: Sequence[Counted], strategy: Strategy, values: list[float], told: Answer, micro: int
) -> WorkloadAnswer:
    groups = [len(each.labels) for each in asked]
    by_one = alone(groups, strategy.currency, Fraction(micro, budget.MICRO), strategy.rows, alike=True)
    shown, start = [], 0
    for each, many in zip(asked, groups, strict=True):
        here = slice(start, start + many)
        start += many
        spread = np.sqrt(strategy.variances[here])
        shown.append(_shown(each, values[here], spread, QUANTILE[strategy.currency], by_one.variances[here]))
    return WorkloadAnswer(
        tuple(shown),
        strategy.name,
        told.guarantee,
        told.epsilon,
        told.remaining,
        told.notes,
        told.entry,
        told.rho,
        told.delta,
    )


def _shown(
    query: Counted, values: list[float], spread: np.ndarray, quantile: float, by_one: np.ndarray
) -> JointAnswer:
    # Discrete noise of a small scale may lie half a step beyond what its deviation says.
    ends = [
        (value - quantile * each - 0.5, value + quantile * each + 0.5)
        for value, each in zip(values, spread.tolist(), strict=True)
    ]
    names, label = group_names(query.plan.lowered.asked), query.plan.lowered.outputs[0].name
    value: Any = values[0]
    interval: Any = ends[0]
    if names:
        keys = [dict(zip(names, each, strict=True)) for each in query.labels]
        value = [{**key, label: one} for key, one in zip(keys, values, strict=True)]
        interval = [{**key, label: one} for key, one in zip(keys, ends, strict=True)]
    deviation, apart = (float(np.sqrt(np.mean(each))) for each in (spread**2, by_one))
    return JointAnswer(str(query.plan.lowered.asked), value, interval, deviation, apart)
