"""Other ways to mask a table, as company and as points of reference beside microaggregation.

Recoding, top and bottom coding go before the groups are formed (steps of the schema); noise, rank swapping,
PRAM, synthetic records and local suppression are methods of their own in `shoal compare`. Only local suppression keeps k.
"""

from __future__ import annotations

from shoal.masking._perturb import MASKS, add_noise, mask, pram, rank_swap
from shoal.masking._steps import code_ends, recode
from shoal.masking._suppress import suppress
from shoal.masking._synthetic import hybrid, synthetic

__all__ = [
    "MASKS",
    "add_noise",
    "code_ends",
    "hybrid",
    "mask",
    "pram",
    "rank_swap",
    "recode",
    "suppress",
    "synthetic",
]
