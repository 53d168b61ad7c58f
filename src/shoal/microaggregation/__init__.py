"""Partition methods: arrays in, groups of at least k records out. One class per method, all alike."""

from __future__ import annotations

from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._brkga import BRKGA
from shoal.microaggregation._cmeans import KC, KCKW
from shoal.microaggregation._derivative_free import DerivativeFree
from shoal.microaggregation._fixed_size import CBFS, MD, MDAV, VMDAV
from shoal.microaggregation._ga import GA
from shoal.microaggregation._means import HMeans, KMeans
from shoal.microaggregation._path import Univariate
from shoal.microaggregation._spanning_tree import MSTCentroid, MSTDiameter
from shoal.microaggregation._ward import KWard

__all__ = [
    "BRKGA",
    "CBFS",
    "GA",
    "KC",
    "KCKW",
    "MD",
    "MDAV",
    "VMDAV",
    "DerivativeFree",
    "HMeans",
    "KMeans",
    "KWard",
    "MSTCentroid",
    "MSTDiameter",
    "Microaggregator",
    "Univariate",
    "methods",
]

_REGISTERED: tuple[type[Microaggregator], ...] = (
    MDAV,
    MD,
    CBFS,
    VMDAV,
    Univariate,
    KWard,
    MSTDiameter,
    MSTCentroid,
    KC,
    KCKW,
    KMeans,
    HMeans,
    DerivativeFree,
    BRKGA,
    GA,
)


def methods() -> dict[str, type[Microaggregator]]:
    """Give every registered method by its name.

    Examples
    --------
    >>> from shoal.microaggregation import methods
    >>> methods()["mdav"].__name__
    'MDAV'
    """
    return {each.name: each for each in _REGISTERED}
