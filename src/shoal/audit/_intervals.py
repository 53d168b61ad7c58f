"""Audits of intervals: whether "95 %" holds the figure asked for, on tables where it is hard.

The claim is of coverage, not of privacy: on many draws from one table the interval may miss the exact figure in at most
5 % of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from shoal.audit._game import ALPHA, GameVerdict
from shoal.dp.answering.exact import compute
from shoal.dp.answering.noise import add_noise
from shoal.dp.answering.plan import make_plan
from shoal.dp.answering.shown import Laid, figures
from shoal.dp.loading.load import load, protect_rows
from shoal.dp.meaning.reading import read_query
from shoal.dp.mechanisms.discrete_laplace import CONFIDENCE
from shoal.dp.unit import resolve
from shoal.schema import Column, Schema, Unit

RUNS = 400
_SELECT = "SELECT"
Chosen = Callable[[Laid], Any]


@dataclass(frozen=True)
class Covered:
    """A table, a question, and the exact figure.

    Parameters
    ----------
    name : str
    frame : polars.DataFrame
    schema : Schema
    sql : str
    true : float
    """

    name: str
    frame: pl.DataFrame
    schema: Schema
    sql: str
    true: float


def _cases() -> tuple[Covered, ...]:
    rng = np.random.default_rng(17)
    columns = {
        "who": Column("who", kind="category"),
        "x": Column("x", bounds=(0, 100)),
        "y": Column("y", bounds=(-30, 50), step=10),
    }
    persons = Schema(columns, id="persons", unit=Unit("who", 60))
    records = Schema(columns, id="records")
    made = []
    for name, rows, schema in (
        ("thirty persons of twenty rows", np.full(30, 20), persons),
        ("thirty persons, one of them with sixty rows", np.array([60] + [1] * 29), persons),
        ("records", np.full(30, 10), records),
    ):
        who = np.repeat(np.arange(30), rows).astype(str)
        x, y = rng.beta(2, 5, len(who)) * 100, rng.uniform(-4, 14, len(who))
        frame = pl.DataFrame({"who": who, "x": x, "y": y})
        for sql, true in (
            ("COUNT(*)", float(len(who))),
            ("SUM(x)", float(x.sum())),
            ("SUM(y)", float(y.sum())),
            ("AVG(x)", float(x.mean())),
            ("VAR_POP(x)", float(x.var())),
            ("COVAR_SAMP(x, y)", float(np.cov(x, y)[0, 1])),
            ("CORR(x, y)", float(np.corrcoef(x, y)[0, 1])),
            ("MAX(x)", float(x.max())),
        ):
            made.append(Covered(f"{sql} of {name}", frame, schema, f"{_SELECT} {sql} FROM t", true))
    return tuple(made)


INTERVALS = _cases()


def _stated(laid: Laid) -> Any:
    return laid.interval


def audit_intervals(
    epsilon: float = 1.0, runs: int = RUNS, alpha: float = ALPHA, chosen: Chosen = _stated
) -> Sequence[GameVerdict]:
    """A verdict for each case: how often its interval missed the exact figure, and what that means for 95 %.

    `chosen` takes the interval out of an answer.

    Examples
    --------
    >>> from shoal.audit import audit_intervals
    >>> any(each.refuted for each in audit_intervals(runs=100))
    False
    """
    return [_cover(case, epsilon, runs, alpha / len(INTERVALS), chosen) for case in INTERVALS]


def _cover(case: Covered, epsilon: float, runs: int, alpha: float, chosen: Chosen) -> GameVerdict:
    unit = resolve("dp", case.schema)
    plan = make_plan(read_query(case.sql, case.schema), case.schema, unit, round(epsilon * 1_000_000))
    rows = protect_rows(load(case.frame, case.schema), case.frame, case.schema, unit)
    noisy = add_noise(plan, compute(rows, plan), runs)
    missed = 0
    for draw in range(runs):
        low, high = chosen(figures(plan, tuple(each[draw : draw + 1] for each in noisy)))
        missed += (low is not None and case.true < low) or (high is not None and case.true > high)
    p_value = float(stats.binom.sf(missed - 1, runs, 1 - CONFIDENCE))
    event = "the interval misses the figure asked for"
    return GameVerdict(case.name, epsilon, p_value <= alpha, 0.0, runs, event, 0, missed, runs, p_value)
