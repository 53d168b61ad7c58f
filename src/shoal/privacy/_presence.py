"""delta-presence: being in the table is neither certain nor excluded for anyone in the population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.errors import InputError, ParameterError
from shoal.privacy._verdict import Verdict
from shoal.privacy.cells import names_of, opened
from shoal.privacy.classes import Classes, counted_together

_SLACK = 1e-12


def delta_presence(
    frame: Any,
    population: Any,
    quasi: Sequence[str] | str,
    *,
    limits: tuple[float, float] | None = None,
) -> Verdict:
    """Check delta-presence: the probability with which an intruder can say that a person is in the table.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
        The table to publish, its quasi-identifiers as they would be published.
    population : the same
        The public table that holds everyone, among them all people of `frame`, its quasi-identifiers
        generalised in the same way.
    quasi : str or sequence of str
    limits : (smallest, largest), optional
        The demand: bounds for the probability of being in the table, for everyone in the population.

    Returns
    -------
    Verdict
        `value` is (delta_min, delta_max), the smallest and the largest share of a class of the population
        that is in the table; a class of which nobody is gives 0. Classes, records and records at risk are
        those of the population.

    Notes
    -----
    O(n) time and memory in the records of both tables.

    References
    ----------
    .. [1] M. E. Nergiz, M. Atzori, C. Clifton (2007). Hiding the presence of individuals from shared
       databases. SIGMOD, 665-676. doi:10.1145/1247480.1247554

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> everyone = pl.DataFrame({"zip": ["a", "a", "a", "a", "b", "b"]})
    >>> table = pl.DataFrame({"zip": ["a", "b"]})
    >>> privacy.delta_presence(table, everyone, "zip").value
    (0.25, 0.5)
    """
    if limits is not None:
        limits = _checked(limits)
    names = names_of(quasi, "quasi")
    inner, outer = opened(frame, names), opened(population, names, "population")
    classes, inside, around = counted_together(inner, outer, names)
    beyond = int((inside > around).sum())
    if beyond:
        raise InputError(
            "The population must hold everyone in the table, its columns generalised in the same way. "
            f"Got {beyond} classes with more records in the table than in the population."
        )
    shares = inside / around
    low, high = (0.0, 1.0) if limits is None else limits
    outside = (shares < low - _SLACK) | (shares > high + _SLACK) if limits is not None else shares == 1.0
    # The worst class is the one nearest to certainty, of presence or of absence.
    middle = 0.5 if limits is None else (low + high) / 2
    order = np.lexsort((np.arange(shares.size), -np.abs(shares - middle)))[:5]
    population_classes = Classes(classes.names, classes.labels, around, classes.first, classes.columns)
    n_outer = len(outer)
    return Verdict(
        model="delta-presence",
        quasi=classes.names,
        sensitive=None,
        value=(float(shares.min()), float(shares.max())),
        limit=limits,
        holds=None if limits is None else not bool(outside.any()),
        n_records=n_outer,
        n_classes=classes.n_classes,
        worst=tuple(population_classes.shown(int(at), float(shares[at])) for at in order),
        records_at_risk=int(around[outside].sum()),
        missing=classes.missing(),
        missing_records=classes.missing_records(),
        labels=classes.labels[len(inner) :],
        classes_at_risk=outside,
        notes=("Missing cells are counted over both tables.",) if classes.missing() else (),
    )


def _checked(limits: Any) -> tuple[float, float]:
    try:
        low, high = (float(each) for each in limits)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not 0.0 <= low <= high <= 1.0:
        raise ParameterError(
            "'limits' of delta_presence must be two numbers with 0 <= smallest <= largest <= 1. "
            f"Got {limits!r}."
        )
    return low, high
