"""Re-identification risk by quasi-identifiers: in the sample, and in the population behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from shoal.engine.frame import Frame
from shoal.errors import InputError, ParameterError
from shoal.params import Interval, check_params
from shoal.privacy._classes import classes_of
from shoal.privacy._columns import cells_of, names_of, opened
from shoal.privacy._presence import counted_together


@dataclass(frozen=True)
class Risk:
    """How well records can be re-identified by what an intruder knows.

    Attributes
    ----------
    n_records, n_classes : int
    unique : int
        Records alone in their class.
    prosecutor : float
        Largest risk where the intruder knows that the person is in the table: 1 / smallest class.
    prosecutor_mean : float
        The same, averaged over the records: classes / records.
    journalist : float
        Largest risk where he does not know it: 1 / smallest class of the population among those in the
        table. Equal to the prosecutor's where nothing is known about the population.
    marketer : float
        Expected share of records matched rightly when all are matched with the population.
    k_map : float
        Smallest class of the population among those in the table; estimated where weights stand for it.
    individual : array of float64, (n_records,)
        The risk of each record: one over its class in the population, its expectation where weights are given.
    above_threshold : int
        Records whose individual risk exceeds the threshold.
    threshold : float
    household : array of float64 or None
        Risk that anyone of the record's household is found: 1 - product of (1 - individual).
    source : {"sample", "weights", "population"}
        What the population's classes were taken from.
    """

    n_records: int
    n_classes: int
    unique: int
    prosecutor: float
    prosecutor_mean: float
    journalist: float
    marketer: float
    k_map: float
    individual: np.ndarray
    above_threshold: int
    threshold: float
    household: np.ndarray | None
    source: str

    @property
    def expected_matches(self) -> float:
        """Records expected to be re-identified rightly."""
        return float(self.individual.sum())

    def __str__(self) -> str:
        return (
            f"{self.unique:,} of {self.n_records:,} records are unique; risk of the weakest record "
            f"{self.prosecutor:.3g} if known to be in the table, {self.journalist:.3g} if not (by {self.source}); "
            f"{self.expected_matches:.4g} matches expected; {self.above_threshold:,} records above "
            f"{self.threshold:g}."
        )


def risk(
    frame: Any,
    quasi: Sequence[str] | str,
    *,
    weights: str | None = None,
    population: Any = None,
    households: str | None = None,
    threshold: float = 0.2,
) -> Risk:
    """Measure the risk that records are re-identified by their quasi-identifiers.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
        The columns an intruder is taken to know.
    weights : str, optional
        Column of survey weights: a record stands for that many people.
    population : frame, optional
        The population itself, where it is at hand; its columns coded as in `frame`.
    households : str, optional
        Column that tells which records belong together.
    threshold : float, default 0.2
        Records with a higher risk are counted.

    Returns
    -------
    Risk

    Notes
    -----
    With weights, a class of f records and weights summing to F gets the expectation of 1 / (its size in the
    population) under the negative binomial posterior of [1], p = f / F:
    (p / f) 2F1(1, 1; f + 1; 1 - p), which is p log(1/p) / (1 - p) for f = 1. It is an estimate, good on
    average and not for the single record. O(n) time and memory.

    References
    ----------
    .. [1] R. Benedetti, L. Franconi (1998). Statistical and technological solutions for controlled data
       dissemination. Pre-proceedings of New Techniques and Technologies for Statistics 1, 225-232.
    .. [2] K. El Emam, F. K. Dankar (2008). Protecting privacy using k-anonymity. JAMIA 15(5), 627-637.
       doi:10.1197/jamia.M2716

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"zip": ["a", "a", "b"], "w": [10.0, 10.0, 4.0]})
    >>> found = privacy.risk(table, "zip", weights="w")
    >>> found.unique, found.prosecutor, found.k_map, round(found.journalist, 3)
    (1, 1.0, 4.0, 0.25)
    >>> found.individual.round(3).tolist()
    [0.083, 0.083, 0.462]
    """
    check_params("risk", {"threshold": Interval(Real, 0, 1)}, {"threshold": threshold})
    if weights is not None and population is not None:
        raise ParameterError("'weights' and 'population' of risk exclude each other. Got both.")
    names = names_of(quasi, "quasi")
    table = opened(frame, [*names, *(each for each in (weights, households) if each is not None)])
    if population is not None:
        labels, sizes, around = _in_population(table, opened(population, names, "population"), names)
        per_class, source = 1.0 / around, "population"
    else:
        classes = classes_of(cells_of(table, names))
        labels, sizes, around = classes.labels, classes.sizes, classes.sizes.astype(np.float64)
        per_class, source = 1.0 / around, "sample"
        if weights is not None:
            around = np.bincount(labels, weights=_weights(table, weights), minlength=sizes.size)
            per_class, source = posterior_risk(sizes, around), "weights"
    individual = per_class[labels]
    return Risk(
        n_records=labels.size,
        n_classes=sizes.size,
        unique=int((sizes == 1).sum()),
        prosecutor=1.0 / int(sizes.min()),
        prosecutor_mean=sizes.size / labels.size,
        journalist=float((1.0 / around).max()),
        marketer=float((sizes / around).sum() / labels.size),
        k_map=float(around.min()),
        individual=individual,
        above_threshold=int((individual > threshold).sum()),
        threshold=float(threshold),
        household=None if households is None else _household_risk(table, households, individual),
        source=source,
    )


def posterior_risk(sizes: np.ndarray, around: np.ndarray) -> np.ndarray:
    """Expectation of 1 / (class size in the population) for classes of f records with weights summing to F."""
    from scipy.special import hyp2f1

    p = np.minimum(sizes / around, 1.0)
    return p / sizes * hyp2f1(1.0, 1.0, sizes + 1.0, 1.0 - p)


def _weights(table: Frame, name: str) -> np.ndarray:
    values = table.matrix([name])[:, 0]
    if values.min() < 1.0:
        raise InputError(
            f"Weights must be at least 1, since a record stands for itself. Got {values.min():g} in {name!r}."
        )
    return values


def _in_population(
    table: Frame, everyone: Frame, names: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class of each record, classes' sizes in the table and in the population; only classes of the table."""
    classes, inside, around = counted_together(table, everyone, names)
    unknown = int(inside[around == 0].sum())
    if unknown:
        raise InputError(
            f"The population must hold everyone in the table. Got {unknown} records whose class it lacks."
        )
    used = np.flatnonzero(inside)
    number = np.full(classes.n_classes, -1, np.int64)
    number[used] = np.arange(used.size)
    return number[classes.labels[: len(table)]], inside[used], around[used].astype(np.float64)


def _household_risk(table: Frame, name: str, individual: np.ndarray) -> np.ndarray:
    members = classes_of(cells_of(table, [name]))
    with np.errstate(divide="ignore"):
        safe = np.log1p(-individual)
    nobody = np.exp(
        np.bincount(members.labels, weights=np.maximum(safe, -745.0), minlength=members.n_classes)
    )
    certain = np.bincount(members.labels, weights=individual >= 1.0, minlength=members.n_classes) > 0
    return np.where(certain, 1.0, 1.0 - nobody)[members.labels]


def column_risks(frame: Any, quasi: Sequence[str] | str) -> dict[str, float]:
    """How much of the mean re-identification risk each quasi-identifier brings.

    Returns
    -------
    dict of column name to float, largest first
        Mean risk with all columns less mean risk without this one; risk being 1 / class size.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"sex": ["m", "f", "m", "f"], "age": [1, 2, 3, 4]})
    >>> privacy.column_risks(table, ["sex", "age"])
    {'age': 0.5, 'sex': 0.0}
    """
    names = names_of(quasi, "quasi")
    table = opened(frame, names)
    columns = cells_of(table, names)
    whole = classes_of(columns).n_classes / len(table)
    gains = {}
    for at, name in enumerate(names):
        rest = columns[:at] + columns[at + 1 :]
        gains[name] = whole - (classes_of(rest).n_classes if rest else 1) / len(table)
    return dict(sorted(gains.items(), key=lambda pair: -pair[1]))
