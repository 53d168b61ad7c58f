"""Workloads in the distinguishing game: of one table, and of a join of which a person has more rows than count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl

from shoal.audit._game import Mechanism
from shoal.dp import Session
from shoal.dp.budget import MICRO
from shoal.dp.mechanisms.currency import PURE
from shoal.dp.workload import counted_rows, plan_workload
from shoal.dp.workload.strategy import Strategy, applied, blocks, choose_strategy
from shoal.schema import Column, Schema, Unit

WORKLOAD_COUNTS = np.array([[3, 0, 2], [0, 5, 1], [4, 0, 0], [1, 1, 0]])
_TABLES = (WORKLOAD_COUNTS, WORKLOAD_COUNTS + (np.arange(12).reshape(4, 3) == 5))  # one record more


_JOINED = "FROM t a JOIN t b ON a.unit = b.unit"
_ASKED = (
    f"SELECT a.level, COUNT(*) {_JOINED} GROUP BY a.level",
    f"SELECT COUNT(*) {_JOINED} WHERE b.level = 'y'",
)
_ROWS = 4  # of a person, after the join


def workload_queries() -> np.ndarray:
    """Ranges along the first column, and both columns' tables."""
    ranges = [np.outer(np.arange(4) >= least, np.ones(3)) for least in range(4)]
    rows = [np.outer(np.arange(4) == at, np.ones(3)) for at in range(4)]
    columns = [np.outer(np.ones(4), np.arange(3) == at) for at in range(3)]
    return np.array([*ranges, *rows, *columns])


def workload_cases(amount: float, currency: str) -> list[Mechanism]:
    """One record more under each way of taking a table apart."""
    found = []
    for ways in (("halves", "even"), ("even", "even"), ("cells", "cells"), ("halves", "halves")):
        strategy = choose_strategy(workload_queries(), [1] * 4 + [4, 3], currency, Fraction(str(amount)))
        whole = tuple(blocks(ways, WORKLOAD_COUNTS.shape))
        shares = tuple(Fraction(1, len(whole)) for _ in whole)
        found.append(
            workload_game(
                f"a workload by {', '.join(ways)}", amount, replace(strategy, ways=ways, shares=shares)
            )
        )
    return [*found, joined_workload(amount, currency)]


def joined_workload(amount: float, currency: str, rows: int = _ROWS) -> Mechanism:
    """One person more, of three rows: nine when joined with themselves, of which so many count."""
    schema = Schema(
        {
            "unit": Column("unit", kind="category"),
            "level": Column("level", kind="category", levels=("x", "y")),
        },
        unit=Unit("unit", _ROWS),
        currency=currency,
        delta=None if currency == PURE else 1e-6,
    )
    one = pl.DataFrame({"unit": ["q", "q", "r"], "level": ["x", "y", "y"]})
    more = pl.DataFrame({"unit": ["p"] * 3, "level": ["y"] * 3})
    tables = []
    for frame in (one, pl.concat([one, more])):
        with Session(frame, schema, budget=1e3) as session:
            asked, domain, strategy = plan_workload(session, _ASKED, round(amount * MICRO))
            tables.append(domain.counts(counted_rows(session, asked, domain, rows)))
    return workload_game("a workload over a join", amount, strategy, tables, domain.matrix)


def workload_game(
    name: str,
    amount: float,
    strategy: Strategy,
    tables: Sequence[np.ndarray] = _TABLES,
    queries: np.ndarray | None = None,
) -> Mechanism:
    """The answers, their sum, and the likelihood ratio of all that was measured."""
    queries = workload_queries() if queries is None else queries
    names = [f"answer {at}" for at in range(len(queries))]

    def sample(side: int, draws: int) -> np.ndarray:
        found, ratio = np.zeros((draws, len(queries))), np.zeros(draws)
        for block, noise, exact, noisy in strategy.measured(tables[side], draws):
            back = applied(queries, [each.back for each in block], 1)
            found += np.tensordot(noisy.astype(np.float64), back, axes=(range(1, 1 + exact.ndim),) * 2)
            apart = applied(tables[1] - tables[0], [each.rows for each in block])
            logs = [noise.log_density(noisy - exact + at * apart) for at in (side, side - 1)]
            ratio += (logs[1] - logs[0]).reshape(draws, -1).sum(axis=1)
        return np.concatenate([found, found.sum(axis=1)[:, None], ratio[:, None]], axis=1)

    rho = strategy.currency == "zcdp"
    return Mechanism(name, amount, sample, (*names, "the sum", "the log-likelihood ratio"), rho=rho)
