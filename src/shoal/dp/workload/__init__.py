"""Counting queries asked together and answered jointly, for one charge.

- `ask_workload`: read, choose a strategy from public facts, charge, measure, put the answers together
- `Strategy`: which sums are measured, with which share, and the variance of every query that follows
"""

from __future__ import annotations

from shoal.dp.workload._answer import JointAnswer, WorkloadAnswer, ask_workload
from shoal.dp.workload.strategy import Strategy, choose_strategy

__all__ = ["JointAnswer", "Strategy", "WorkloadAnswer", "ask_workload", "choose_strategy"]
