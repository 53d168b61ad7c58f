"""A stream of figures: opened for one charge, then told period by period."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.dp.answering.figures import labels_of
from shoal.dp.answering.plan import Plan, make_plan
from shoal.dp.answering.releases import Sums
from shoal.dp.answering.rows import Held, asked_rows
from shoal.dp.answering.told import guarantee_of
from shoal.dp.continual._design import Design
from shoal.dp.continual._state import OpenedStream, Period, State
from shoal.dp.continual._toeplitz import Toeplitz
from shoal.dp.continual._tree import Node
from shoal.dp.ledger.periods import NotedPeriod, last_period, note_period
from shoal.dp.ledger.secret import random_word
from shoal.dp.meaning.relation import UNIT
from shoal.dp.unit import AddRemoveRecord, AddRemoveUnit, as_it_stands
from shoal.errors import BudgetError, LedgerError, ParameterError, QueryError
from shoal.typing import Json, Record

if TYPE_CHECKING:
    from shoal.dp.ledger.claims import Claim
    from shoal.dp.ledger.ledger import Ledger
    from shoal.dp.session import Session

MOST_PERIODS = 10_000
NUMBERS = ("total", "low", "high", "change")
"""What each row of a period holds besides the labels of its group."""


@dataclass(frozen=True)
class PeriodTotal:
    """The running total after a period.

    Parameters
    ----------
    period : int
        From 1.
    rows : tuple of dict
        Per group its labels, ``total``, ``low``, ``high`` (95 %), and ``change``: the total less that of the period before.
    """

    period: int
    rows: tuple[Record, ...]

    @property
    def value(self) -> Any:
        """The total, or the rows where there are groups."""
        return self.rows[0]["total"] if set(self.rows[0]) == set(NUMBERS) else list(self.rows)


class Stream:
    """Running totals of a COUNT or SUM over a declared number of periods, for one charge.

    `Session.stream` makes them; nobody else does.

    Attributes
    ----------
    name : str
    question : str
    periods : int
        How many there may be.
    epsilon : float
        Charged for the whole stream when it was opened (rho where the data set is counted in it).
    id : str
    """

    def __init__(
        self,
        stream: str,
        opened: OpenedStream,
        state: State,
        session: Session,
        plan: Plan,
        by: str,
    ) -> None:
        protected = session.protected
        assert protected is not None  # it was checked when the stream was opened
        self.name, self.question, self.periods = opened.name, opened.question, opened.periods
        self.epsilon = opened.spent
        self._promise = opened.guarantee
        self.id, self._state, self._schema, self._unit, self._plan = (
            stream,
            state,
            session.schema,
            protected,
            plan,
        )
        self._ledger, self._key, self._by = session.ledger, opened.key, by
        self._design = Design(plan, self.periods, opened.millionths, opened.currency, protected.rows)

    @property
    def guarantee(self) -> str:
        """What is promised of all periods together."""
        return as_it_stands(self._promise, ended=self._ledger.ended(self._schema.id))

    def __len__(self) -> int:
        """Periods so far."""
        return len(self._state.periods(self.id))

    def add(self, rows: Any, period: int | None = None) -> PeriodTotal:
        """Take the rows of the next period in and tell the running total.

        Parameters
        ----------
        rows : pandas.DataFrame, polars.DataFrame, pyarrow.Table, path, address or Source
            The rows of this period alone.
        period : int, optional
            Which one it is meant to be; another than the next is refused.

        Returns
        -------
        PeriodTotal
        """
        self._ledger.ready()
        with self._state.change():
            before = self._state.periods(self.id)
            self._require_newest(before)
            now = len(before) + 1
            if period is not None and period != now:
                raise ParameterError(f"The next period of stream {self.name!r} is {now}. Got {period!r}.")
            if now > self.periods:
                raise BudgetError(
                    f"Stream {self.name!r} was opened for {self.periods} periods, which are over."
                )
            exact = self._counted(rows)
            so_far = [each.exact for each in before] + [exact]
            released, totals = self._noisy(now, so_far, [each.released for each in before])
            told = self._rows(now, totals, before[-1].totals if before else [0] * len(totals))
            made = Period(exact, released, totals, told, random_word())
            self._state.add_period(self.id, now, made)
        with contextlib.suppress(LedgerError):  # the next period waits until the ledger has this one
            self._make_known(now, made)
        return PeriodTotal(now, tuple(told))

    def steps(self) -> list[PeriodTotal]:
        """All running totals told so far."""
        return [PeriodTotal(at, tuple(each.told)) for at, each in enumerate(self._state.periods(self.id), 1)]

    def to_frame(self) -> pl.DataFrame:
        """The running totals as a table, a row per period and group."""
        return pl.DataFrame([{"period": step.period, **row} for step in self.steps() for row in step.rows])

    def _require_newest(self, periods: Sequence[Period]) -> None:
        """Raise unless these periods are those that the ledger knows: noise must not be drawn twice for one period.

        A period that was kept and not made known, because the process died in between, is made known now.
        """
        known = last_period(self._ledger, self._schema.id, self._key)
        if known.number > len(periods) or (known.number and periods[known.number - 1].word != known.word):
            raise BudgetError(self._other_copy())
        if known.number < len(periods):
            self._make_known(len(periods), periods[-1])

    def _make_known(self, number: int, period: Period) -> None:
        """Add this copy's period to the ledger; raises `BudgetError` where that has another one."""
        noted, what = NotedPeriod(number, period.word), f"stream {self.name!r}"
        if not note_period(self._ledger, self._schema.id, self._key, noted, by=self._by, what=what):
            raise BudgetError(self._other_copy())

    def _other_copy(self) -> str:
        return (
            f"The ledger knows periods of stream {self.name!r} that its state does not hold: the file of streams is an older "
            "or another copy. Put the newest one back, or open a stream of another name, which is charged anew."
        )

    def _counted(self, rows: Any) -> list[int]:
        """Exact whole numbers of one period, a number per group; of a unit at most so many rows in all periods together."""
        _, held = asked_rows(rows, self._schema, None, self._unit)
        if self._unit.kind == "column":
            held = Held(self._first_rows(held.frame))
        (totals,) = held.exact(self._plan)
        release = self._plan.releases[0]
        assert isinstance(release, Sums)  # it was checked when the stream was opened
        found = np.zeros(release.groups, dtype=np.int64)
        np.add.at(found, totals.group, (totals.moments @ np.array(release.terms, dtype=np.int64).T)[:, 0])
        return [int(each) for each in found]

    def _first_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of each unit that still count, in an order that is each row's own affair."""
        lowered = self._plan.lowered
        rows = frame.with_columns(each.alias(name) for name, each in lowered.computed)
        rows = rows if lowered.test is None else rows.filter(lowered.test)
        units = rows[UNIT].unique().sort()
        left = pl.DataFrame(
            {
                UNIT: units,
                "shoal:left": [self._unit.rows - n for n in self._state.used(self.id, units.to_list())],
            },
            schema={UNIT: pl.String, "shoal:left": pl.Int64},
        )
        kept = rows.join(left, on=UNIT, how="left", maintain_order="left").filter(
            pl.int_range(pl.len()).over(UNIT) < pl.col("shoal:left")
        )
        self._state.keep_used(self.id, dict(kept[UNIT].value_counts().iter_rows()))
        return kept

    def _noisy(
        self, now: int, exact: list[list[int]], released: list[list[int]]
    ) -> tuple[list[int], list[int]]:
        """What is released in this period, and the running total made of all releases."""
        shape, width = self._design.shape, len(exact[-1])
        if isinstance(shape, Toeplitz):
            noise = self._design.draw(width)
            new = [shape.weighted([each[at] for each in exact]) + noise[at] for at in range(width)]
            return new, [shape.total([each[at] for each in (*released, new)]) for at in range(width)]
        exact_totals = np.array(exact, dtype=np.int64).sum(axis=0)
        found = shape.total(now, exact_totals, lambda node: np.array(self._kept_noise(node, width)))
        totals = [int(each) for each in found]
        return totals, totals

    def _rows(self, now: int, totals: list[int], before: list[int]) -> list[Record]:
        """The totals as they are told, with their labels and intervals."""
        release, radius = self._plan.releases[0], self._design.radius(now)
        quantum = release.fixed.quantum if isinstance(release, Sums) and release.fixed is not None else None
        rows = []
        for labels, total, earlier in zip(_labels(self._plan), totals, before, strict=True):
            numbers = {
                "total": total,
                "low": total - radius,
                "high": total + radius,
                "change": total - earlier,
            }
            shown = {
                name: each if quantum is None else float(each * quantum) for name, each in numbers.items()
            }
            rows.append({**labels, **shown})
        return rows

    def _kept_noise(self, node: Node, width: int) -> list[int]:
        """The noise of a node: drawn when it is first needed, and never again."""
        name = f"{node[0]}.{node[1]}"
        drawn = self._state.noise(self.id, name)
        if drawn is None:
            drawn = self._design.draw(width)
            self._state.keep_noise(self.id, name, drawn)
        return drawn


def open_stream(
    session: Session, name: str, query: Any, spent: int, periods: int, state: State, analyst: str
) -> Stream:
    """Open a stream, or one that was opened before with the same words; see `Session.stream`."""
    protected, schema = session.protected, session.schema
    if protected is None or protected.kind == "cell":
        raise ParameterError("Streams are for modes 'dp' and 'group'. Got mode 'correlated'.")
    if isinstance(periods, bool) or not isinstance(periods, int) or not 1 <= periods <= MOST_PERIODS:
        raise ParameterError(f"'periods' must be a whole number from 1 to {MOST_PERIODS}. Got {periods!r}.")
    if not isinstance(name, str) or not name.strip() or len(name) > 100:
        raise ParameterError(f"The name of a stream must be a text of at most 100 characters. Got {name!r}.")
    spent = session._least_of(spent)
    plan = stream_plan(session._question(query), session, spent)
    unit = replace(protected, per_row=2) if isinstance(protected, AddRemoveUnit) else protected
    claim = session._claim_for(
        f"STREAM {json.dumps(name)} OF {periods} PERIODS: {plan.lowered.asked.question}", spent, unit, analyst
    )
    claim = replace(claim, state=json.dumps(["stream", session.mode, unit.rows, session._facts]))
    opened = OpenedStream(
        name=name,
        dataset=schema.id,
        question=str(plan.lowered.asked.question),
        periods=periods,
        millionths=spent,
        currency=claim.cost.currency,
        guarantee=guarantee_of(session, protected.guarantee, ended=False),
        mode=session.mode,
        schema=session._facts,
        key=session.ledger.key_of(claim),
    )
    design = Design(plan, periods, spent, claim.cost.currency, protected.rows)
    if not design.fits:
        raise QueryError(
            "The noise of this stream leaves 64 bits: declare fewer rows of a unit, or spend more."
        )
    body = _charged(session.ledger, claim, state, opened)
    if state.opened(body) is None:  # lost: its noise is never drawn a second time
        raise BudgetError(
            f"Stream {name!r} was opened before, and its state is not here: put the file of streams back, or open one "
            "of another name, which is charged anew."
        )
    return Stream(body, opened, state, session, plan, analyst)


def _charged(ledger: Ledger, claim: Claim, state: State, opened: OpenedStream) -> str:
    """Charge a stream and give its id.

    It is made known before the charge, under an id that only the charge makes valid: a crash in between loses no
    stream that was paid for, and one that was not paid for has no entry that names it.
    """
    drawn = random_word()
    with state.change():
        state.begin(drawn, opened)
    body = ""
    try:
        body = ledger.once(claim, lambda: drawn).body
    finally:
        if body != drawn:
            with state.change():
                state.forget(drawn)
    return body


def is_paid(ledger: Ledger, stream: str, opened: OpenedStream) -> bool:
    """Whether the ledger holds the charge of a stream."""
    return ledger.stored(opened.dataset, opened.key) == stream


def reopen(session: Session, state: State, stream: str, by: str = "owner") -> Stream:
    """A stream that was paid for, for the owner who adds its periods; nothing is charged.

    Parameters
    ----------
    session : Session
        Of its data set and mode.
    state : State
    stream : str
        Its id.
    by : str
        Who adds periods, for the record.
    """
    opened = state.opened(stream)
    if opened is None or session.protected is None or not is_paid(session.ledger, stream, opened):
        raise ParameterError("There is no such stream.")
    if opened.schema != session._facts:
        raise ParameterError(
            f"Stream {opened.name!r} was opened under another schema: its periods can only be read by that one."
        )
    plan = stream_plan(session._question(opened.question), session, opened.millionths)
    return Stream(stream, opened, state, session, plan, by)


def stream_plan(question: Any, session: Session, spent: int) -> Plan:
    """How the rows of one period become whole numbers."""
    if (
        not question.plain
        or len(question.aggregates) != 1
        or question.aggregates[0].kind not in ("count", "sum")
    ):
        raise QueryError(
            "A stream is of one COUNT or SUM, of one table, with WHERE and GROUP BY where wanted."
        )
    plan = make_plan(question, session.schema, AddRemoveRecord(), spent)
    if plan.lowered.relation is not None or len(plan.releases) != 1:
        raise QueryError(
            "A stream is of one COUNT or SUM, of one table, with WHERE and GROUP BY where wanted."
        )
    taken = [str(name) for name in plan.query.groups if str(name) in ("period", *NUMBERS)]
    if taken:
        raise QueryError(
            f"A stream may not be grouped by a column named {taken[0]!r}, as its rows have a number of that name. "
            "Rename the column."
        )
    return plan


def _labels(plan: Plan) -> list[Record]:
    found: list[Record] = [{}]
    for name in plan.query.groups:
        levels = labels_of(plan.schema.columns[str(name)])
        found = [{**each, str(name): level} for each in found for level in levels]
    return found


def told(state: State, dataset: str, *, ended: bool = False) -> list[Json]:
    """The streams of a data set and what was told of them, for whoever may see answers; `ended` is of the ledger's total."""
    return [
        {
            **{name: getattr(opened, name) for name in ("name", "question", "periods")},
            "guarantee": as_it_stands(opened.guarantee, ended=ended),
            **{name: getattr(opened, name) for name in ("currency", "spent")},
            "steps": [
                {"period": at, **row} for at, each in enumerate(state.periods(stream), 1) for row in each.told
            ],
        }
        for stream, opened in state.all_opened().items()
        if opened.dataset == dataset
    ]
