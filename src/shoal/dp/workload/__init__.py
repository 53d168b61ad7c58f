"""Counting queries asked together and answered jointly, for one charge.

- `ask_workload`: read, choose a strategy from public facts, charge, measure, put the answers together
- `workload_cost`: the same up to the charge: what it would be, and the error to expect of each query
- `Strategy`: which sums are measured, with which share, and the variance of every query that follows
"""

from __future__ import annotations

from shoal.dp.workload._answer import JointAnswer, WorkloadAnswer, ask_workload
from shoal.dp.workload._cost import ExpectedCount, WorkloadCost, workload_cost
from shoal.dp.workload.strategy import Strategy, choose_strategy

__all__ = [
    "ExpectedCount",
    "JointAnswer",
    "Strategy",
    "WorkloadAnswer",
    "WorkloadCost",
    "ask_workload",
    "choose_strategy",
    "workload_cost",
]
