"""The second job: answer a query. `Session.ask` has a line for each stage: parse, plan, charge, compute, noise, settle.

A session is the only way to a private table. Whether a query is refused depends only on its text, the schema and the
ledger. After the charge nothing is refused.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from shoal.dp import budget as millionths
from shoal.dp.answering.answer import Answer
from shoal.dp.answering.cost import Cost
from shoal.dp.answering.free import Bought
from shoal.dp.answering.frequent import ask_mode, asks_for_mode
from shoal.dp.answering.keyed import ask_keyed
from shoal.dp.answering.noise import add_noise, released
from shoal.dp.answering.plan import Plan, make_plan
from shoal.dp.answering.rows import asked_rows
from shoal.dp.answering.told import answer_of
from shoal.dp.correlation import Model
from shoal.dp.ledger.claims import Amount, Claim, delta_parts
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.secret import random_word
from shoal.dp.meaning.check import Keys
from shoal.dp.meaning.columns import UndeclaredGroupError
from shoal.dp.meaning.reading import read_query
from shoal.dp.mechanisms.currency import Currency
from shoal.dp.opening import LEAST, Admit, FewCellsWarning, at_once, caps_of, digest, named, unit_of
from shoal.dp.pricing import Offer, amount_of, bought_before, cost_of, keyed_plan
from shoal.dp.sql.query import Query
from shoal.dp.unit import MODES, STATED, AddRemoveCell, Protected
from shoal.errors import ParameterError
from shoal.schema import Schema

if TYPE_CHECKING:
    from shoal.dp.continual import State, Stream
    from shoal.dp.stream import Drift
    from shoal.dp.workload import WorkloadAnswer, WorkloadCost

LAID_OUT = 3  # version of what a plan draws: stored answers of another version are not used


class Session:
    """Private answers about one table.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table, path, address, Source or pyspark.sql.DataFrame
        The table, or where it is: a file, a folder of Parquet files, ``duckdb:///FILE?table=NAME``,
        ``postgresql://USER@HOST/DATABASE?table=NAME`` (docs/howto/sources.md). Parquet, databases and Spark are read in
        batches for each question, so the table may be larger than memory.
    schema : Schema or path
    mode : {"dp", "group", "correlated", "pufferfish", "dependent"}
        The unit of privacy comes from the schema. In the last two modes it comes from `model`, and there is one answer
        (`StatedSession`).
    budget : float, optional
        Total epsilon of the data set (in zCDP: with the schema's delta); the schema's if left open. The ledger keeps the
        first budget that is declared. A larger one is refused; a smaller one holds for this session.
    unit : AddRemoveRecord, AddRemoveUnit, Records or Cells, optional
        The unit of privacy, if it should not come from the schema.
    per_analyst : float, optional
        Epsilon of each analyst; the schema's if left open, else the whole budget.
    analyst : str, default "me"
    ledger : Ledger, path or database URL, optional
        In memory if left open; the budget then lasts as long as the session.
    model : Model, optional
        In mode `correlated`: a frozen map from rows to cells; the schema's cells if left open. In modes `pufferfish` and
        `dependent`: the declared model, or its file.
    tau : int, optional
        In mode `correlated`: how many rows of a cell count; else the schema's, or `buy_tau`.
    data_version : str, optional
        The owner's name for this state of the table; the schema's if left open, else a random one. A stored answer is
        found again only under the same name.
    minimum : float, default 0.001
        Least epsilon of a figure.
    tables : mapping of str to (frame, schema), optional
        Further tables, given like `frame`, by the names in the schema's links (docs/howto/tables.md).
    releases : sequence, default ()
        Releases of this table, from `shoal.release.release_marginals` or from a ledger (`shoal.release.KeptReleases`). A
        question that they answer at least as exactly costs nothing.

    Notes
    -----
    Each answer states its guarantee. Modes and proofs: docs/theory.

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

    _streams: State | None = None

    def __new__(cls, frame: Any = None, schema: Any = None, mode: str = "dp", *_: Any, **__: Any) -> Self:
        """Make a `StatedSession`, which uses a declared model, in modes `pufferfish` and `dependent`."""
        if cls is Session and mode in STATED:
            from shoal.dp.stated import StatedSession

            return super().__new__(StatedSession)  # type: ignore[return-value]
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
        self.currency, self.releases = Currency.of(schema), tuple(releases)
        self._least = self.currency.least(minimum)
        self.model, self.protected = unit_of(self.mode, schema, unit, model, tau)
        asked = caps_of(schema, self.currency, budget, per_analyst)
        self._own = not isinstance(ledger, Ledger)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger, _hook=_hook)
        self.catalog, self._rows = asked_rows(
            frame, schema, tables, self.protected or AddRemoveCell(self.model, 1), self.model
        )
        self._version = data_version or schema.version or random_word()
        others = [
            f"{name}\n{Schema.of(each).to_toml()}" for name, (_, each) in sorted((tables or {}).items())
        ]
        self._facts = digest("\n".join([replace(schema, budget=None, per_analyst=None).to_toml(), *others]))
        if self.mode == "correlated" and self.model is not None and self.model.n_cells < 300:
            warnings.warn(
                f"{self.model.n_cells} cells are few: expect large errors below 300.", FewCellsWarning, 2
            )
        reserved = delta_parts(self.currency.reserved)
        self.caps, self.limit = self.ledger.declare(schema.id, *asked, keys=reserved)
        self.admit: Admit = at_once

    def ask(
        self,
        query: str | Query,
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        error: float | None = None,
        analyst: str | None = None,
    ) -> Answer:
        """Answer a query privately.

        Parameters
        ----------
        query : str or Query
            SQL, or a Python expression.
        epsilon : float, optional
            What to spend. If the data set is counted in zCDP, the rho that implies it with the declared delta is spent.
        rho : float, optional
            What to spend instead of epsilon, if the data set is counted in zCDP.
        error : float, optional
            Instead of an amount: spend what is needed so that each figure of each group is within this error of the exact
            one, with 95 % probability. For COUNT and SUM.
        analyst : str, optional
            Who asks; the session's analyst if left open.

        Returns
        -------
        Answer
        """
        if asks_for_mode(query):
            return ask_mode(self, str(query), self._amount(epsilon, rho, error), self._who(analyst))
        who = self._who(analyst)
        try:
            asked = self._question(query)
        except UndeclaredGroupError as found:
            return ask_keyed(self, keyed_plan(self, query, found, Offer(epsilon, rho, error)), who)
        plan = self._plan(asked, self._amount(epsilon, rho, error, asked))
        free = bought_before(self, query, plan, who)
        if free is not None:
            return free
        self._rows.ready()
        with self.admit(plan.size, who):
            receipt = self.ledger.once(self._claim(plan, who), lambda: self._draw(plan))
            return answer_of(self, plan, receipt)

    def cost(
        self,
        query: str | Query | Sequence[str | Query],
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        error: float | None = None,
        analyst: str | None = None,
    ) -> Cost:
        """The cost of a query, or of several at `epsilon` each, how it is split, and the expected error. This is free.

        Without `epsilon`, `rho` or `error`, the split is shown for an epsilon of 1 each.
        """
        offer = Offer(1 if epsilon is rho is error is None else epsilon, rho, error)
        queries = [query] if isinstance(query, (str, Query)) else query
        return cost_of(self, queries, offer, self._who(analyst))

    def workload(
        self,
        queries: Sequence[str | Query],
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        analyst: str | None = None,
    ) -> WorkloadAnswer:
        """Answer counting queries together, for one charge. If they overlap, there is less noise than one by one.

        Parameters
        ----------
        queries : sequence of str or Query
            Each is one ``COUNT(*)`` with conditions on constants and GROUP BY declared levels: marginals, histograms,
            ranges. All have the same FROM: one table, or one join or sub-query.
        epsilon, rho : float, optional
            What to spend on all of them together; see `ask`.
        analyst : str, optional

        Returns
        -------
        WorkloadAnswer
            With the deviation of each answer, and what it would have been one by one.

        Notes
        -----
        The strategy depends only on the queries, the schema and the amount: docs/theory/workloads.md.

        Examples
        --------
        >>> import polars as pl
        >>> from shoal import Session
        >>> from shoal.schema import Column, Schema
        >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey", currency="zcdp", delta=1e-6)
        >>> ages = pl.DataFrame({"age": list(range(100))})
        >>> older = [f"SELECT COUNT(*) FROM t WHERE age >= {least}" for least in range(0, 100, 2)]
        >>> with Session(ages, schema, budget=1.0) as s:
        ...     found = s.workload(older, rho=0.02)
        >>> found.strategy, len(found.answers), found.gain > 5
        ('halves', 50, True)
        """
        from shoal.dp.workload import ask_workload

        return ask_workload(self, queries, self._amount(epsilon, rho), self._who(analyst))

    def workload_cost(
        self,
        queries: Sequence[str | Query],
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        analyst: str | None = None,
    ) -> WorkloadCost:
        """What `workload` would charge for these queries together, and the expected error of each. This is free."""
        from shoal.dp.workload import workload_cost

        return workload_cost(self, queries, self._amount(epsilon, rho), self._who(analyst))

    @property
    def version(self) -> str:
        """The name of the state of the table that answers are about."""
        return self._version

    def remaining(self, analyst: str | None = None) -> float:
        """What an analyst can still spend on this data set, in epsilon or rho. It does not show what others have spent."""
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
            A power of two. It is the same for everyone who buys it again.
        """
        from shoal.dp.answering.tau import buy_tau

        return buy_tau(self, epsilon, r, self._who(analyst))

    def close(self) -> None:
        """Close the ledger, if this session opened it."""
        if self._own:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _who(self, analyst: str | None) -> str:
        return self.analyst if analyst is None else named(analyst)

    def append(self, rows: Any, *, data_version: str | None = None) -> Drift:
        """Add rows. Their memberships and cells come from the present model, which is not fitted again.

        The data version changes, so stored answers are not used any more, and each new answer is charged. A person, group
        or cell keeps its unit over all versions, and one budget covers all of them.

        Parameters
        ----------
        rows : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        data_version : str, optional
            The name of the new state; a random one if left open.

        Returns
        -------
        Drift
            For the owner only, because it is computed from the private rows.
        """
        from shoal.dp.stream import append

        return append(self, rows, data_version)

    def stream(
        self,
        name: str,
        query: str | Query,
        epsilon: float | None = None,
        periods: int = 1,
        *,
        rho: float | None = None,
        state: str | Path | State | None = None,
        analyst: str | None = None,
    ) -> Stream:
        """Open a stream: running totals of a COUNT or SUM after each period, for one charge now.

        Give the rows of each period to `Stream.add`; the table of this session is not read. If the same stream was opened
        before, it continues where it stopped, and costs nothing.

        Parameters
        ----------
        name : str
            Distinguishes it from other streams with the same question.
        query : str or Query
            One COUNT or SUM, which may have WHERE and GROUP BY.
        epsilon : float
            For the whole stream.
        periods : int, default 1
            How many there may be.
        rho : float, optional
            Instead of epsilon, if the data set is counted in zCDP.
        state : str, Path or State, optional
            File of exact figures and noise, for the owner only; beside the ledger's file if left open.
        analyst : str, optional

        Returns
        -------
        Stream

        Examples
        --------
        >>> import polars as pl
        >>> from shoal import Session
        >>> from shoal.schema import Column, Schema
        >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="visits")
        >>> with Session(pl.DataFrame({"age": []}), schema, budget=2.0) as s:
        ...     visits = s.stream("weekly", "SELECT COUNT(*) FROM t WHERE age >= 40", epsilon=1.0, periods=52)
        ...     step = visits.add(pl.DataFrame({"age": [31, 45, 62]}))
        ...     step.period, len(visits.to_frame()), s.remaining()
        (1, 1, 1.0)
        """
        from shoal.dp.continual import open_stream, state_of

        if self._streams is None or state is not None:
            self._streams = state_of(self.ledger, state)
        spent = self._amount(epsilon, rho, None)
        return open_stream(self, name, query, spent, periods, self._streams, self._who(analyst))

    def _question(self, query: str | Query, keys: Keys | None = None) -> Query:
        unit = None if self.protected is None else self.protected.column or ""
        rows = None if self.protected is None else self.protected.rows
        return read_query(query, self.schema, unit, rows, self.catalog, keys)

    def _amount(
        self,
        epsilon: float | None,
        rho: float | None = None,
        error: float | None = None,
        query: Query | None = None,
    ) -> int:
        return amount_of(self, Offer(epsilon, rho, error), query)

    def _plan(self, query: Query, micro: int, keys: Keys | None = None) -> Plan:
        if self.protected is None:
            raise ParameterError(
                "'tau' must be declared, or bought with buy_tau(epsilon), before anything is asked."
            )
        micro = self._least_of(micro, len(query.aggregates))
        plan = make_plan(query, self.schema, self.protected, micro, self.catalog, self.currency, keys)
        self._least_of(micro, len(plan.releases))
        return plan

    def _least_of(self, micro: int, figures_asked: int = 1) -> int:
        if micro < self._least * figures_asked:
            raise ParameterError(
                f"'{self.currency.word}' must be at least {millionths.epsilon(self._least)} for each figure. "
                f"Got {millionths.epsilon(micro)} for {figures_asked}."
            )
        return micro

    def _draw(self, plan: Plan) -> str:
        exact = self._rows.exact(plan)
        self._hook("computed")
        noisy = add_noise(plan, exact)
        self._hook("noised")
        return released(noisy)

    def _claim(self, plan: Plan, analyst: str) -> Claim:
        return self._claim_for(str(plan.lowered.asked.question), plan.micro, plan.unit, analyst)

    def _claim_for(self, text: str, micro: int, unit: Protected, analyst: str) -> Claim:
        state = json.dumps([LAID_OUT, self.mode, unit.rows, self._facts, self._version])
        cost = Amount(micro, self.currency.name)
        return Claim(self.schema.id, analyst, text, state, cost, unit, self.limit)
