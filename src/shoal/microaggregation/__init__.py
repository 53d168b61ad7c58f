"""Partition methods: arrays in, groups of at least k records out. One class per method, all alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shoal.errors import ParameterError
from shoal.lazy import loaded_when_used
from shoal.microaggregation._base import Microaggregator

if TYPE_CHECKING:
    from shoal.microaggregation._anneal import Anneal
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
    from shoal.microaggregation._strata import join_small_strata, partition_within, split_strata
    from shoal.microaggregation._univariate import Univariate, UnivariateMedian
    from shoal.microaggregation._ward import KWard
    from shoal.microaggregation._work import SearchWork
    from shoal.microaggregation.fixed_size.estimators import CBFS, MD, MDAV, VMDAV, MDAVGeneric
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
    "SearchWork",
    "Univariate",
    "UnivariateMedian",
    "join_small_strata",
    "methods",
    "partition_within",
    "refine",
    "repair",
    "split_strata",
]

# Where each name is defined: loaded when first used, so that a command starts fast.
_HOMES = {
    "Anneal": "_anneal",
    "BRKGA": "_brkga",
    "KC": "_cmeans",
    "KCKW": "_cmeans",
    "DerivativeFree": "_derivative_free",
    "GA": "_ga",
    "GivenPartition": "_given",
    "GSMS": "_gsms",
    "GSMST2": "_gsms",
    "IMHM": "_imhm",
    "FDM": "_mictsp",
    "MicTSP": "_mictsp",
    "CBFSMHM": "_path",
    "MDAVMHM": "_path",
    "MDMHM": "_path",
    "NPNMHM": "_path",
    "PathExchange": "_path_exchange",
    "refine": "_refine",
    "repair": "_repair",
    "MSTCentroid": "_spanning_tree",
    "MSTDiameter": "_spanning_tree",
    "join_small_strata": "_strata",
    "partition_within": "_strata",
    "split_strata": "_strata",
    "Univariate": "_univariate",
    "UnivariateMedian": "_univariate",
    "KWard": "_ward",
    "SearchWork": "_work",
    "CBFS": "fixed_size.estimators",
    "MD": "fixed_size.estimators",
    "MDAV": "fixed_size.estimators",
    "VMDAV": "fixed_size.estimators",
    "MDAVGeneric": "fixed_size.estimators",
    "HMeans": "means",
    "KMeans": "means",
}
_REGISTERED = {
    "mdav": "MDAV",
    "mdav-generic": "MDAVGeneric",
    "md": "MD",
    "cbfs": "CBFS",
    "v-mdav": "VMDAV",
    "univariate": "Univariate",
    "univariate-median": "UnivariateMedian",
    "npn-mhm": "NPNMHM",
    "md-mhm": "MDMHM",
    "mdav-mhm": "MDAVMHM",
    "cbfs-mhm": "CBFSMHM",
    "mictsp": "MicTSP",
    "fdm": "FDM",
    "imhm": "IMHM",
    "path-exchange": "PathExchange",
    "gsms": "GSMS",
    "gsms-t2": "GSMST2",
    "k-ward": "KWard",
    "m-d": "MSTDiameter",
    "m-c": "MSTCentroid",
    "kc": "KC",
    "kckw": "KCKW",
    "k-means": "KMeans",
    "h-means": "HMeans",
    "derivative-free": "DerivativeFree",
    "brkga": "BRKGA",
    "ga": "GA",
    "anneal": "Anneal",
}


__getattr__ = loaded_when_used(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})


def __dir__() -> list[str]:
    return sorted(__all__)


def methods() -> dict[str, type[Microaggregator]]:
    """Give every registered method by its name.

    Examples
    --------
    >>> from shoal.microaggregation import methods
    >>> methods()["mdav"].__name__
    'MDAV'
    """
    return {name: getattr(sys.modules[__name__], each) for name, each in _REGISTERED.items()}


def resolve_method(
    method: str | Microaggregator,
    k: int,
    random_state: int | None = None,
    **work: float | None,
) -> Microaggregator:
    """A configured method from its name, or a copy of a configured one with another `k`.

    Of the work `time_limit`, `max_proposals`, `search_plan` and `effort` may be given, to methods that search.
    """
    options = {**work, "random_state": random_state}
    if isinstance(method, Microaggregator):
        return method.copy().set_params(k=k).check()
    if not isinstance(method, str) or method not in _REGISTERED:
        raise ParameterError(f"'method' must be one of {', '.join(_REGISTERED)}. Got {method!r}.")
    chosen: type[Microaggregator] = getattr(sys.modules[__name__], _REGISTERED[method])
    for name in work:
        if options[name] is not None and not chosen.takes(name):
            raise ParameterError(f"The method {method!r} takes no {name!r}: it stops by itself.")
    return chosen(
        k=k, **{name: value for name, value in options.items() if value is not None and chosen.takes(name)}
    ).check()
