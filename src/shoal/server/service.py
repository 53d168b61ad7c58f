"""The service behind the views: one session per data set and mode, all on one ledger. Views ask here and know no privacy."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from shoal.dp.answering.answer import Answer
from shoal.dp.answering.cost import Cost
from shoal.dp.budget import epsilon
from shoal.dp.continual import state_of
from shoal.dp.heuristic import Heuristic, Reproduction
from shoal.dp.ledger.claims import Caps
from shoal.dp.ledger.rights import OPEN, Rights
from shoal.dp.ledger.spending import spending
from shoal.dp.loading.quality import ColumnQuality
from shoal.dp.loading.shared import SharedTables
from shoal.dp.loading.sources import Source
from shoal.dp.mechanisms.currency import Currency, CurrencyAmount
from shoal.dp.past import Past, held, past
from shoal.dp.session import Session
from shoal.errors import BudgetError, InputError, ParameterError, QueryError
from shoal.schema import Schema
from shoal.server.accounts import FRESH_SECONDS, Account
from shoal.server.budgets import Budget, DatasetSpending, Left
from shoal.server.config import Config
from shoal.server.dataset_files import DatasetFiles
from shoal.server.folders import TABLES, PrivateFolder
from shoal.server.limits import BoundedTurns, Buckets, LargeQuestions, TooOftenError
from shoal.server.opening import (
    cells_or_source,
    declared,
    further_tables,
    kept_quality,
    narrow,
    open_sessions,
    table_of,
)
from shoal.server.public_facts import column_facts, counted_in, table_facts, unit_of
from shoal.server.refusals import TableError, UnknownError
from shoal.server.served import ServedDataset
from shoal.server.words import examples, joins
from shoal.typing import Json

log = logging.getLogger("shoal.server")
SWITCH_SECONDS = 0.0005  # for which one thread may hold up the others


class Service:
    """The data sets of a server, ready to be asked.

    Parameters
    ----------
    config : Config
    most : float, optional
        Epsilon that each account may spend on a data set, where that is less than the cap of each analyst.
    tables : Path, optional
        Private folder of the loaded tables, which all workers of a server map; one of its own, removed at the end, if
        left open.
    """

    def __init__(self, config: Config, most: float | None = None, tables: Path | None = None) -> None:
        self.config = config
        self._own_tables = None
        if tables is None:
            self._own_tables = PrivateFolder(TABLES, config.tables_folder)
            tables = self._own_tables.path
        self.tables = SharedTables(tables)
        self.large = LargeQuestions(
            config.most_figures, config.large_figures, config.large_at_once, config.large_waiting
        )
        # Both take a core for a while; who waits for another holds a thread that all requests share.
        self.together = BoundedTurns(1, config.large_waiting, "list of questions asked together")
        self.making = BoundedTurns(1, config.large_waiting, "whole table")
        self._refusals = Buckets(config.refusals_per_hour / 60, max(1, config.refusals_per_hour // 3))
        sys.setswitchinterval(SWITCH_SECONDS)
        self.ledger = config.open_ledger()
        self.ledger.ready()
        # Workers of one server share what they call the state of a table that nobody named.
        run = os.environ.get("SHOAL_RUN") or secrets.token_hex(16)
        self._rights: dict[str, tuple[float, Rights]] = {}
        self._sessions: dict[str, dict[str, Session | Heuristic]] = {}
        self._quality: dict[str, tuple[ColumnQuality, ...]] = {}
        self.streams = state_of(self.ledger, config.streams)
        self.frames: dict[
            str, pl.DataFrame | Source
        ] = {}  # cells as read or a source, for releases of whole tables
        self.datasets: dict[str, ServedDataset] = {}
        self.files, self._most, self._run = DatasetFiles(Path(config.datasets_folder)), most, run
        self._seen, self._loading, self._looked_at = -1, threading.Lock(), -math.inf
        for name, facts in config.datasets.items():
            self._open(name, facts)
        self.reload()

    def _open(self, name: str, facts: ServedDataset) -> None:
        """Load a data set, or map what another worker loaded, and open its sessions; then they replace those before."""
        state = declared(facts)
        with self.tables.opening(name, state) as kept:
            frame, further = table_of(facts, kept), further_tables(facts, kept)
            looked = kept_quality(facts, frame, further, kept)
            sessions = open_sessions(
                facts, frame, self.ledger, f"{self._run}:{name}:{state}", self.config.least_epsilon, further
            )
        for session in sessions.values():
            if isinstance(session, Session):
                session.admit = self.large.admit
        if self._most is not None:
            narrow(sessions, Currency.of(facts.schema).millionths(self._most))
        self._quality[name], self._sessions[name], self.datasets[name] = looked, sessions, facts
        self.frames[name] = cells_or_source(frame)

    def is_stale(self) -> bool:
        """Whether owners may have changed data sets; asked about once a second."""
        if time.monotonic() - self._looked_at <= FRESH_SECONDS:
            return False
        self._looked_at = time.monotonic()
        return self.files.revision() != self._seen

    def reload(self) -> None:
        """Take over the data sets that owners saved; one that cannot be read stays as it was, and that is logged."""
        with self._loading:
            seen = self.files.revision()
            if seen == self._seen:
                return
            found, broken = self.files.read()
            for name, facts in found.items():
                if name not in self.config.datasets and self.datasets.get(name) != facts:
                    try:
                        self._open(name, facts)
                    except Exception as error:  # whoever asks about another data set has no part in it
                        broken[name] = error
            for why in broken.values():
                log.error(json.dumps({"event": "data set not loaded", "error": type(why).__name__}))
            for name in set(self.datasets) - set(found) - set(broken) - set(self.config.datasets):
                for kept in (self._sessions, self.datasets, self._quality, self.frames):
                    kept.pop(name, None)
                self.tables.forget(name)
            self._seen = seen

    def check_free(self, path: Path, budget: float | None, per_analyst: float | None) -> None:
        """Raise a sentence where a schema's id is taken, or the ledger holds the data set to a smaller budget."""
        schema = Schema.from_toml(path)
        if schema.id in self.config.datasets:
            raise ParameterError(f"Data set {schema.id!r} is declared in the configuration: change it there.")
        caps, currency = self.ledger.caps(schema.id), Currency.of(schema)
        wanted = (budget or schema.budget, per_analyst or schema.per_analyst)
        for asked, held_to in zip(
            wanted, (caps.total, caps.per_analyst) if caps else (None, None), strict=True
        ):
            if held_to is not None and asked is not None and currency.millionths(asked) > held_to:
                raise ParameterError(
                    f"The ledger holds data set {schema.id!r} to {CurrencyAmount(held_to, currency).text}: raise it on its "
                    f"page of access and caps first. Got epsilon {asked:g}."
                )

    def session(self, dataset: str, mode: str | None = None) -> Session | Heuristic:
        """The session of a data set in one of its modes; its first mode if left open."""
        by_mode = self._sessions.get(dataset)
        if by_mode is None:
            raise UnknownError(f"There is no data set {dataset!r}.")
        if mode is None:
            return next(iter(by_mode.values()))
        if mode not in by_mode:
            raise QueryError(
                f"Data set {dataset!r} is answered in mode {' or '.join(by_mode)}. Got {mode!r}."
            )
        return by_mode[mode]

    def names(self, who: Account) -> list[str]:
        """The data sets that somebody may know of: all for owners and auditors, else those that may be asked."""
        return list(self.datasets) if who.role in ("owner", "auditor") else self.open_to(who.name)

    def open_to(self, analyst: str) -> list[str]:
        """The data sets that an analyst or agent may ask."""
        return [name for name in list(self.datasets) if self._rights_of(name).may_ask(analyst)]

    def require(self, dataset: str, analyst: str) -> None:
        """Raise the error of a data set that is not there for who may not ask it; it leaves at the end of a slot."""
        started = time.monotonic()
        if dataset not in self._sessions or not self._rights_of(dataset).may_ask(analyst):
            if self.config.slot_seconds:
                time.sleep(-(time.monotonic() - started) % self.config.slot_seconds)
            raise UnknownError(f"There is no data set {dataset!r}.")

    def lets_in(self, dataset: str, analyst: str) -> bool:
        """Whether `require` lets an analyst in without asking the ledger."""
        at, rights = self._rights.get(dataset, (-math.inf, OPEN))
        fresh = time.monotonic() - at <= FRESH_SECONDS
        return fresh and dataset in self._sessions and rights.may_ask(analyst)

    def _rights_of(self, dataset: str) -> Rights:
        """Who may ask, at most a second old; the ledger itself decides at each charge."""
        at, rights = self._rights.get(dataset, (-math.inf, OPEN))
        if time.monotonic() - at > FRESH_SECONDS:
            rights = self.ledger.rights(dataset)
            self._rights[dataset] = (time.monotonic(), rights)
        return rights

    def ask(
        self,
        dataset: str,
        sql: str,
        amount: float | None,
        mode: str | None,
        analyst: str,
        error: float | None = None,
        rho: float | None = None,
    ) -> Answer | Reproduction:
        """One answer, charged to the analyst: for an epsilon, a rho, or for what a wanted error takes."""
        self.require(dataset, analyst)
        session = self.session(dataset, mode)
        with self.refusing(analyst):
            if isinstance(session, Session):
                return session.ask(sql, amount, rho=rho, error=error, analyst=analyst)
            if amount is None:
                raise QueryError("Mode 'heuristic' takes a noise parameter, not an error.")
            return session.ask(sql, amount, analyst=analyst)

    @contextlib.contextmanager
    def refusing(self, analyst: str) -> Iterator[None]:
        """Count what the budget refuses to an analyst, let nobody go on without end, and say of a table that fails only that."""
        if not self._refusals.has_turn(analyst):
            raise TooOftenError("Your budget refused too many questions; wait a few minutes and try again.")
        try:
            yield
        except BudgetError:  # each is an entry of the ledger, so that nobody may add them without end
            self._refusals.take(analyst)
            raise
        except InputError as error:
            log.error(json.dumps({"event": "table not read", "error": type(error).__name__}))
            raise TableError from None

    def cost(
        self,
        dataset: str,
        sql: str,
        amount: float | None,
        mode: str | None,
        analyst: str,
        error: float | None = None,
        rho: float | None = None,
    ) -> Cost:
        """What that answer would cost."""
        self.require(dataset, analyst)
        session = self.session(dataset, mode)
        if isinstance(session, Heuristic):
            raise QueryError("Mode 'heuristic' keeps no budget, so there is no cost to show.")
        return session.cost(sql, amount, rho=rho, error=error, analyst=analyst)

    def past(
        self, dataset: str, analyst: str, last: int = 100, *, text: str = "", before: str | None = None
    ) -> list[Past]:
        """The newest answers that an analyst paid for, newest first; large ones without their numbers."""
        self.require(dataset, analyst)
        sessions, most = self._kept(dataset), self.config.large_figures
        return past(sessions, analyst, last, text=text, before=before, figures=most) if sessions else []

    def held(self, dataset: str, analyst: str, entry: str) -> Past:
        """One answer that an analyst paid for."""
        self.require(dataset, analyst)
        sessions = self._kept(dataset)
        found = held(sessions, analyst, entry) if sessions else None
        if found is None:
            raise UnknownError("There is no such answer of yours.")
        return found

    def currency(self, dataset: str) -> Currency:
        """What a data set is counted in."""
        self.session(dataset)
        return Currency.of(self.datasets[dataset].schema)

    def amount(self, dataset: str, millionths: int) -> CurrencyAmount:
        """An amount of a data set's budget, with what it is counted in."""
        return CurrencyAmount(millionths, self.currency(dataset))

    def budget(self, dataset: str, analyst: str) -> Budget:
        """What an analyst spent on a data set and can still spend.

        What others spent is not told.
        """
        self.require(dataset, analyst)
        limit = self._caps(dataset)
        caps = self.ledger.caps_of(dataset, analyst, limit) or limit
        amounts = (
            min(caps.per_analyst, caps.total),
            self.ledger.spent(dataset, analyst),
            self.ledger.remaining(dataset, analyst, limit),
        )
        return Budget(dataset, analyst, *(self.amount(dataset, each) for each in amounts))

    def budget_of(self, dataset: str, analyst: str) -> Left:
        """For the owner: what an analyst has left, and what the data set and the analyst's team have."""
        caps, team = self._caps(dataset), self.ledger.team_left(dataset, analyst)
        own = self.ledger.caps_of(dataset, analyst, caps) or Caps(caps.total, 0)
        return Left(
            cap=self.amount(dataset, min(own.per_analyst, own.total)),
            remaining=self.amount(dataset, self.ledger.remaining(dataset, analyst, caps)),
            total=self.amount(dataset, caps.total),
            total_left=self.amount(dataset, max(0, caps.total - self.ledger.spent(dataset))),
            team_left=None if team is None else self.amount(dataset, team),
        )

    def public(self, dataset: str) -> Json:
        """The public facts of a data set."""
        self.session(dataset)
        facts, schema = self.datasets[dataset], self.datasets[dataset].schema
        return {
            "id": dataset,
            "about": facts.about,
            "modes": list(self._sessions[dataset]),
            "model": facts.model if facts.model is None or ":" in facts.model else Path(facts.model).name,
            "unit": unit_of(schema),
            **counted_in(schema),
            "columns": [column_facts(each) for each in schema.columns.values()],
            "tables": [table_facts(name, each, schema) for name, each in (facts.tables or {}).items()],
            "examples": [*examples(schema), *joins(schema)],
        }

    def spending(self, dataset: str) -> DatasetSpending:
        """For the owner: caps, totals, charges over time, and when they will have used the cap up."""
        self.session(dataset)
        caps, spent = self._caps(dataset), spending(self.ledger, dataset)
        over = spent.exhausted(caps.total)
        return DatasetSpending(
            total=self.amount(dataset, caps.total),
            per_analyst=epsilon(caps.per_analyst),
            spent=epsilon(self.ledger.spent(dataset)),
            ended=self.ledger.ended(dataset),
            exhausted=None if over is None else over.date().isoformat(),
            charges=tuple((at, epsilon(total)) for at, total in spent.over_time),
            analysts={name: epsilon(total) for name, total in spent.analysts},
        )

    def quality(self, dataset: str) -> tuple[ColumnQuality, ...]:
        """For the owner: how the cells of a data set were understood when it was loaded."""
        self.session(dataset)
        return self._quality[dataset]

    def close(self) -> None:
        """Let go of the ledger, the streams and the tables."""
        self.streams.close()
        self.ledger.close()
        if self._own_tables is not None:
            self._own_tables.close()

    def _kept(self, dataset: str) -> list[Session]:
        """The sessions of a data set whose answers the ledger keeps."""
        self.session(dataset)
        return [each for each in self._sessions[dataset].values() if isinstance(each, Session)]

    def _caps(self, dataset: str) -> Caps:
        session = next((each for each in self._sessions[dataset].values() if isinstance(each, Session)), None)
        caps = self.ledger.caps(dataset) or Caps(0, 0)
        return caps if session is None else caps.within(session.limit)
