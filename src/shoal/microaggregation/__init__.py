"""Partition methods: arrays in, groups of at least k records out. One class per method, all alike."""

from __future__ import annotations

from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._fixed_size import CBFS, MD, MDAV, VMDAV
from shoal.microaggregation._mend import mend
from shoal.microaggregation._path import Univariate
from shoal.microaggregation._strata import join_small_strata, partition_within

__all__ = [
    "CBFS",
    "MD",
    "MDAV",
    "VMDAV",
    "Microaggregator",
    "Univariate",
    "join_small_strata",
    "mend",
    "methods",
    "partition_within",
]

_REGISTERED: tuple[type[Microaggregator], ...] = (MDAV, MD, CBFS, VMDAV, Univariate)


def methods() -> dict[str, type[Microaggregator]]:
    """Give every registered method by its name.

    Examples
    --------
    >>> from shoal.microaggregation import methods
    >>> methods()["mdav"].__name__
    'MDAV'
    """
    return {each.name: each for each in _REGISTERED}
