"""The papers' experiments, run again: published beside ours, with what differs said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shoal.errors import InputError, ParameterError
from shoal.research._correlated import TABLES, correlated
from shoal.research._correlated_rows import CorrelatedReproduction, Measured
from shoal.research._medoids import brkga_parameters, table1, table2
from shoal.research._pattern import derivative_free
from shoal.research._rows import Agreement, PaperClaim, PaperRow, ReproducedTable, agreement, ranks
from shoal.research._split import split
from shoal.research._systems import systems_page

__all__ = [
    "EXPERIMENTS",
    "Agreement",
    "CorrelatedReproduction",
    "Measured",
    "PaperClaim",
    "PaperRow",
    "ReproducedTable",
    "agreement",
    "brkga_parameters",
    "correlated",
    "derivative_free",
    "ranks",
    "reproduce",
    "split",
    "systems_page",
    "table1",
    "table2",
]

EXPERIMENTS: dict[str, Callable[..., ReproducedTable]] = {
    "table1": table1,
    "table2": table2,
    "brkga-parameters": brkga_parameters,
    "split": split,
    "derivative-free": derivative_free,
    "correlated": correlated,
}
_NEEDS = dict.fromkeys(EXPERIMENTS, ("tarragona", "census", "eia")) | {"correlated": TABLES}


def reproduce(
    name: str,
    *,
    full: bool = False,
    progress: Callable[[str], None] | None = None,
    resume: Path | None = None,
) -> ReproducedTable:
    """Run one of the papers' experiments again.

    Parameters
    ----------
    name : {"table1", "table2", "brkga-parameters", "split", "derivative-free", "correlated"}
    full : bool, default False
        As the paper did it: every number of groups, more seeds, larger grids, the synthetic experiment.
    progress : callable, optional
    resume : path, optional
        A file that each measured cell is written to at once, and taken from where it is there already: a run
        that was stopped goes on.

    Returns
    -------
    ReproducedTable
    """
    if name not in EXPERIMENTS:
        raise ParameterError(f"The experiment must be one of {', '.join(EXPERIMENTS)}. Got {name!r}.")
    from shoal import datasets

    absent = [each for each in _NEEDS[name] if datasets.DATASETS[each].path is None]
    if absent:
        raise InputError(
            f"The experiment needs the tables {', '.join(absent)}: see `shoal datasets` for where to get them."
        )
    return EXPERIMENTS[name](full=full, progress=progress, resume=resume)
