"""Other ways to mask a table, as company and as points of reference beside microaggregation.

Recoding, top and bottom coding go before the groups are formed; noise, rank swapping, PRAM and synthetic records are
points of reference in `shoal compare`, and with shuffling, rounding and record swapping steps of a run. None keeps k.
"""

from __future__ import annotations

from shoal.masking._perturb import MASKS, add_noise, invariant_matrix, mask, pram, rank_swap
from shoal.masking._records import Swapped, swap_records
from shoal.masking._shuffle import shuffle
from shoal.masking._steps import code_ends, recode, round_to
from shoal.masking._synthetic import hybrid, synthetic

__all__ = [
    "MASKS",
    "Swapped",
    "add_noise",
    "code_ends",
    "hybrid",
    "invariant_matrix",
    "mask",
    "pram",
    "rank_swap",
    "recode",
    "round_to",
    "shuffle",
    "swap_records",
    "synthetic",
]
