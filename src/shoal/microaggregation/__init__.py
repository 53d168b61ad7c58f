"""Partition methods: arrays in, groups of at least k records out. One class per method, all alike."""

from __future__ import annotations

from shoal.errors import ParameterError
from shoal.microaggregation._anneal import Anneal
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._brkga import BRKGA
from shoal.microaggregation._cmeans import KC, KCKW
from shoal.microaggregation._derivative_free import DerivativeFree
from shoal.microaggregation._ga import GA
from shoal.microaggregation._given import GivenPartition
from shoal.microaggregation._gsms import GSMS, GSMST2
from shoal.microaggregation._imhm import IMHM
from shoal.microaggregation._mictsp import FDM, MicTSP
from shoal.microaggregation._path import CBFSMHM, MDAVMHM, MDMHM, NPNMHM
from shoal.microaggregation._path_exchange import PathExchange
from shoal.microaggregation._refine import refine
from shoal.microaggregation._repair import repair
from shoal.microaggregation._spanning_tree import MSTCentroid, MSTDiameter
from shoal.microaggregation._strata import join_small_strata, partition_within
from shoal.microaggregation._univariate import Univariate, UnivariateMedian
from shoal.microaggregation._ward import KWard
from shoal.microaggregation.fixed_size import CBFS, MD, MDAV, VMDAV, MDAVGeneric
from shoal.microaggregation.means import HMeans, KMeans

__all__ = [
    "BRKGA",
    "CBFS",
    "CBFSMHM",
    "FDM",
    "GA",
    "GSMS",
    "GSMST2",
    "IMHM",
    "KC",
    "KCKW",
    "MD",
    "MDAV",
    "MDAVMHM",
    "MDMHM",
    "NPNMHM",
    "VMDAV",
    "Anneal",
    "DerivativeFree",
    "GivenPartition",
    "HMeans",
    "KMeans",
    "KWard",
    "MDAVGeneric",
    "MSTCentroid",
    "MSTDiameter",
    "MicTSP",
    "Microaggregator",
    "PathExchange",
    "Univariate",
    "UnivariateMedian",
    "join_small_strata",
    "methods",
    "partition_within",
    "refine",
    "repair",
]

_REGISTERED: tuple[type[Microaggregator], ...] = (
    MDAV,
    MDAVGeneric,
    MD,
    CBFS,
    VMDAV,
    Univariate,
    UnivariateMedian,
    NPNMHM,
    MDMHM,
    MDAVMHM,
    CBFSMHM,
    MicTSP,
    FDM,
    IMHM,
    PathExchange,
    GSMS,
    GSMST2,
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
    Anneal,
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


def resolve_method(
    method: str | Microaggregator,
    k: int,
    time_limit: float | None = None,
    max_proposals: int | None = None,
    random_state: int | None = None,
) -> Microaggregator:
    """A configured method from its name, or a copy of a configured one with another `k`."""
    options = {"time_limit": time_limit, "max_proposals": max_proposals, "random_state": random_state}
    if isinstance(method, Microaggregator):
        return method.copy().set_params(k=k).check()
    known = methods()
    if not isinstance(method, str) or method not in known:
        raise ParameterError(f"'method' must be one of {', '.join(known)}. Got {method!r}.")
    chosen = known[method]
    for name in ("time_limit", "max_proposals"):
        if options[name] is not None and not chosen.takes(name):
            raise ParameterError(f"The method {method!r} takes no {name!r}: it stops by itself.")
    return chosen(
        k=k, **{name: value for name, value in options.items() if value is not None and chosen.takes(name)}
    ).check()
