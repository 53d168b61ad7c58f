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

# Every method by its name, and the module and class behind it. They are loaded when first used, so a command starts fast.
_METHODS = {
    "mdav": "fixed_size.estimators.MDAV",
    "mdav-generic": "fixed_size.estimators.MDAVGeneric",
    "md": "fixed_size.estimators.MD",
    "cbfs": "fixed_size.estimators.CBFS",
    "v-mdav": "fixed_size.estimators.VMDAV",
    "univariate": "_univariate.Univariate",
    "univariate-median": "_univariate.UnivariateMedian",
    "npn-mhm": "_path.NPNMHM",
    "md-mhm": "_path.MDMHM",
    "mdav-mhm": "_path.MDAVMHM",
    "cbfs-mhm": "_path.CBFSMHM",
    "mictsp": "_mictsp.MicTSP",
    "fdm": "_mictsp.FDM",
    "imhm": "_imhm.IMHM",
    "path-exchange": "_path_exchange.PathExchange",
    "gsms": "_gsms.GSMS",
    "gsms-t2": "_gsms.GSMST2",
    "k-ward": "_ward.KWard",
    "m-d": "_spanning_tree.MSTDiameter",
    "m-c": "_spanning_tree.MSTCentroid",
    "kc": "_cmeans.KC",
    "kckw": "_cmeans.KCKW",
    "k-means": "means.KMeans",
    "h-means": "means.HMeans",
    "derivative-free": "_derivative_free.DerivativeFree",
    "brkga": "_brkga.BRKGA",
    "ga": "_ga.GA",
    "anneal": "_anneal.Anneal",
}
_OTHERS = {
    "GivenPartition": "_given",
    "refine": "_refine",
    "repair": "_repair",
    "join_small_strata": "_strata",
    "partition_within": "_strata",
    "split_strata": "_strata",
    "SearchWork": "_work",
}
_HOMES = {cls: home for home, _, cls in (each.rpartition(".") for each in _METHODS.values())} | _OTHERS


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
    return {name: _class_of(name) for name in _METHODS}


def _class_of(method: str) -> type[Microaggregator]:
    found: type[Microaggregator] = getattr(sys.modules[__name__], _METHODS[method].rpartition(".")[2])
    return found


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
    if not isinstance(method, str) or method not in _METHODS:
        raise ParameterError(f"'method' must be one of {', '.join(_METHODS)}. Got {method!r}.")
    chosen = _class_of(method)
    for name in work:
        if options[name] is not None and not chosen.takes(name):
            raise ParameterError(f"The method {method!r} takes no {name!r}: it stops by itself.")
    return chosen(
        k=k, **{name: value for name, value in options.items() if value is not None and chosen.takes(name)}
    ).check()
