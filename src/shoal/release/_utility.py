"""What a release loses, for the owner: figures and a picture beside plain noise on every record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.dp import budget
from shoal.dp.mechanisms.discrete_laplace import laplace
from shoal.dp.mechanisms.selection import exponential
from shoal.errors import ParameterError
from shoal.measures import dld, il1
from shoal.release._columns import coded_table
from shoal.release._groups import total_order
from shoal.report.standalone import standalone
from shoal.schema import Schema

if TYPE_CHECKING:
    from shoal.release._table import TablePlan, TableRelease

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPEATS = 5  # runs whose losses are averaged


def owner_figures(plan: TablePlan, table: np.ndarray, numbers: np.ndarray) -> dict[str, float | None]:
    """Information loss in per cent and the share of records linked back, over columns that are no mere names.

    Groups of whole records are compared record by record. Columns released by themselves are compared as sorted
    lists, since their rows are no record's; there a link is right by chance alone.
    """
    kept = [position for position, each in enumerate(plan.codes) if not each.nominal]
    if not kept:
        return {"information_loss": None, "dld": None}
    original = np.column_stack([plan.codes[at].decode(table[:, at].astype(np.float64)) for at in kept])
    out = numbers[:, kept]
    if plan.association == "as-printed":
        return {"information_loss": il1(original, out), "dld": dld(original, out)}
    if plan.ranked:
        loss = il1(np.sort(original, axis=0), np.sort(out, axis=0))
        return {"information_loss": loss, "dld": 1 / plan.n}
    ordered = original[total_order(table, list(plan.codes), plan.order)]
    return {"information_loss": il1(ordered, out), "dld": dld(ordered, out)}


def record_level(plan: TablePlan, table: np.ndarray) -> np.ndarray:
    """The same table with noise on every record's own cells, at the same epsilon: what a release must beat."""
    columns = []
    for values, each, micro in zip(table.T, plan.codes, plan.micros, strict=True):
        if each.nominal:
            rate = Fraction(micro, 2 * budget.MICRO)
            drawn = exponential(np.array([0, 1]), rate, np.array([1, each.top]), len(values))
            other = exponential(np.zeros(each.top, dtype=np.int64), rate, draws=len(values))
            noisy = np.where(drawn == 0, values, (values + 1 + other) % (each.top + 1))
        else:
            noisy = laplace(values, Fraction(each.top * budget.MICRO, micro))
        columns.append(each.decode(noisy.astype(np.float64)))
    return np.column_stack(columns)


def utility_picture(
    frame: Any, schema: Schema, release: TableRelease, epsilons: Sequence[float] = EPSILONS
) -> str:
    """Information loss against epsilon as SVG, for the owner: this release, and noise on every record.

    Parameters
    ----------
    frame, schema
        As released.
    release : TableRelease
        What `release_table` gave.
    epsilons : sequence of float
    """
    from shoal.release._table import draw, numbers_of
    from shoal.report.figures import Series, lines

    plan = release.plan
    if all(each.nominal for each in plan.codes):
        raise ParameterError("A picture of the loss needs a released column that is not a mere category.")
    table = coded_table(frame, schema, [each.name for each in plan.codes])[1]
    ours, plain = [], []
    total = plan.micro
    for epsilon in epsilons:
        at = replace(
            plan,
            micros=tuple(max(1, int(each * budget.micro(epsilon) / total)) for each in plan.micros),
            pair_micros=tuple(max(1, int(each * budget.micro(epsilon) / total)) for each in plan.pair_micros),
        )
        whole = replace(at, micros=budget.split(at.micro, at.micros))  # plain noise buys no association
        losses = []
        for _ in range(REPEATS):
            noisy = record_level(whole, table)
            noisy = noisy if plan.ranked else noisy[total_order(table, list(plan.codes), plan.order)]
            pair = (numbers_of(at, draw(at, table), table), noisy)
            losses.append([owner_figures(at, table, each)["information_loss"] for each in pair])
        mean = np.array(losses, dtype=np.float64).mean(axis=0)
        ours.append(float(mean[0]))
        plain.append(float(mean[1]))
    series = [
        Series(f"{plan.method}, k = {plan.k}", list(epsilons), ours),
        Series("noise on every record", list(epsilons), plain),
    ]
    picture = lines(series, x_label="epsilon", y_label="information loss, per cent", log_x=True, log_y=True)
    return standalone(picture)
