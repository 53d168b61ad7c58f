"""The papers' experiments, run again: published beside ours, with what differs said."""

from __future__ import annotations

from collections.abc import Callable

from shoal.errors import InputError, ParameterError
from shoal.reproduce._correlated import TABLES, correlated
from shoal.reproduce._correlated_rows import CorrelatedReproduction, Measured
from shoal.reproduce._microaggregation import derivative_free, split, table1, table2
from shoal.reproduce._rows import Reproduction, Row, ranks
from shoal.rooms import callable_as

__all__ = [
    "EXPERIMENTS",
    "CorrelatedReproduction",
    "Measured",
    "Reproduction",
    "Row",
    "correlated",
    "derivative_free",
    "ranks",
    "reproduce",
    "split",
    "table1",
    "table2",
]

EXPERIMENTS: dict[str, Callable[..., Reproduction]] = {
    "table1": table1,
    "table2": table2,
    "split": split,
    "derivative-free": derivative_free,
    "correlated": correlated,
}
_NEEDS = dict.fromkeys(EXPERIMENTS, ("tarragona", "census", "eia")) | {"correlated": TABLES}


def reproduce(
    name: str, *, full: bool = False, progress: Callable[[str], None] | None = None
) -> Reproduction:
    """Run one of the papers' experiments again.

    Parameters
    ----------
    name : {"table1", "table2", "split", "derivative-free", "correlated"}
    full : bool, default False
        As the paper did it: every number of groups, more seeds, larger grids, the synthetic experiment.
    progress : callable, optional

    Returns
    -------
    Reproduction
    """
    if name not in EXPERIMENTS:
        raise ParameterError(f"The experiment must be one of {', '.join(EXPERIMENTS)}. Got {name!r}.")
    from shoal import datasets

    absent = [each for each in _NEEDS[name] if datasets.DATASETS[each].path is None]
    if absent:
        raise InputError(
            f"The experiment needs the tables {', '.join(absent)}: see `shoal datasets` for where to get them."
        )
    return EXPERIMENTS[name](full=full, progress=progress)


callable_as(__name__, reproduce)
