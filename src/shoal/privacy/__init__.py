"""Syntactic privacy models as checks on any frame, each giving a `Verdict`."""

from __future__ import annotations

from shoal.privacy._anonymity import k_anonymity
from shoal.privacy._check import check
from shoal.privacy._closeness import spread_distance, t_closeness
from shoal.privacy._diversity import l_diversity
from shoal.privacy._presence import delta_presence
from shoal.privacy._shares import share_limits
from shoal.privacy._targets import merge_for_closeness, merge_for_diversity, reach
from shoal.privacy._verdict import Verdict, WorstClass

__all__ = [
    "Verdict",
    "WorstClass",
    "check",
    "delta_presence",
    "k_anonymity",
    "l_diversity",
    "merge_for_closeness",
    "merge_for_diversity",
    "reach",
    "share_limits",
    "spread_distance",
    "t_closeness",
]
