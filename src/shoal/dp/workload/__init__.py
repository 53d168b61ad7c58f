"""Counting queries asked together and answered jointly, for one charge.

- `ask_workload`: read, choose a strategy from public facts, charge, measure, put the answers together
- `workload_cost`: the same up to the charge: what it would be, and the error to expect of each query
- `workload_again`: answers that an analyst holds, made again from what the ledger stored
- `plan_workload`, `counted_rows`: the strategy, and the rows that it counts
- `Strategy`: which sums are measured, with which share, and the variance of every query that follows
"""

from __future__ import annotations

from shoal.dp.workload._answer import (
    JointAnswer,
    WorkloadAnswer,
    ask_workload,
    counted_rows,
    plan_workload,
    workload_again,
)
from shoal.dp.workload._cost import ExpectedCount, WorkloadCost, workload_cost
from shoal.dp.workload._text import asked_together, statements
from shoal.dp.workload.strategy import Strategy, choose_strategy

__all__ = [
    "ExpectedCount",
    "JointAnswer",
    "Strategy",
    "WorkloadAnswer",
    "WorkloadCost",
    "ask_workload",
    "asked_together",
    "choose_strategy",
    "counted_rows",
    "plan_workload",
    "statements",
    "workload_again",
    "workload_cost",
]
