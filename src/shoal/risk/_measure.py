"""Re-identification risk by quasi-identifiers: in the sample, and in the population behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.frame import Frame
from shoal.errors import InputError, ParameterError
from shoal.params import Interval, Options, check_params
from shoal.privacy.cells import CodedCells, cells_of, names_of, opened
from shoal.privacy.classes import classes_of, counted_together
from shoal.risk._posterior import FORMULAS, posterior_risk
from shoal.typing import Json

# The smallest classes that offices ask for.
SIZES = (2, 3, 5)


@dataclass(frozen=True)
class Risk:
    """How well records can be re-identified by what an intruder knows.

    Attributes
    ----------
    n_records, n_classes : int
    unique : int
        Records alone in their class.
    below : dict of int to int
        Records whose class is smaller than 2, 3 and 5: the table every office asks for.
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
    light_weights : int
        Records with a weight below 1, as calibration leaves them. A class whose weights sum to less than its
        records is taken as complete.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> found = risk.measure(pl.DataFrame({"zip": ["a", "a", "a", "b"]}), "zip")
    >>> found.unique, found.prosecutor, found.prosecutor_mean, dict(found.below)
    (1, 1.0, 0.5, {2: 1, 3: 1, 5: 4})
    >>> found.individual.round(2).tolist()
    [0.33, 0.33, 0.33, 1.0]
    """

    n_records: int
    n_classes: int
    unique: int
    below: Mapping[int, int]
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
    light_weights: int = 0

    @property
    def expected_reidentifications(self) -> float:
        """Records expected to be re-identified rightly: the sum of the individual risks."""
        return float(self.individual.sum())

    @property
    def expected_with_households(self) -> float | None:
        """Records expected to be found where one member found reveals the household; None without households."""
        return None if self.household is None else float(self.household.sum())

    def __str__(self) -> str:
        home = self.expected_with_households
        return (
            f"{self.expected_reidentifications:.4g} of {self.n_records:,} records expected to be re-identified"
            f"{'' if home is None else f', {home:.4g} with their households'} (by {self.source}); "
            f"{self.unique:,} are unique; risk of the weakest record {self.prosecutor:.3g} if known to be in the "
            f"table, {self.journalist:.3g} if not; {self.above_threshold:,} records above {self.threshold:g}."
        )

    def to_dict(self) -> Json:
        """The figures without the records, every one of them finite."""
        figures: Json = {
            "expected_reidentifications": self.expected_reidentifications,
            "unique": self.unique,
            **{f"below_{size}": count for size, count in self.below.items()},
            "prosecutor": self.prosecutor,
            "journalist": self.journalist,
            "marketer": self.marketer,
            "k_map": self.k_map,
            "individual_mean": float(self.individual.mean()),
            "individual_largest": float(self.individual.max()),
            "above_threshold": self.above_threshold,
            "threshold": self.threshold,
            "source": self.source,
        }
        if self.household is not None:
            figures |= {
                "expected_with_households": self.expected_with_households,
                "household_mean": float(self.household.mean()),
                "household_largest": float(self.household.max()),
            }
        return figures


def measure(
    frame: Any,
    quasi: Sequence[str] | str,
    *,
    weights: str | None = None,
    population: Any = None,
    households: str | None = None,
    threshold: float = 0.2,
    formula: str = "exact",
) -> Risk:
    """Measure the risk that records are re-identified by their quasi-identifiers.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
        The columns an intruder is taken to know.
    weights : str, optional
        Column of survey weights, above 0: a record stands for that many people.
    population : frame, optional
        The population itself, where it is at hand; its columns coded as in `frame`.
    households : str, optional
        Column that tells which records belong together; a record without one is alone.
    threshold : float, default 0.2
        Records with a higher risk are counted.
    formula : {"exact", "sdcmicro"}, default "exact"
        See `posterior_risk`: sdcMicro approximates classes of three records and more.

    Returns
    -------
    Risk

    Notes
    -----
    With weights, a class gets the expectation of 1 / (its size in the population), see `posterior_risk`. It is
    an estimate, good on average and not for the single record. A missing key is a value of its own; sdcMicro
    lets it match any other. O(n) time and memory.

    References
    ----------
    .. [1] K. El Emam, F. K. Dankar (2008). Protecting privacy using k-anonymity. JAMIA 15(5), 627-637.
       doi:10.1197/jamia.M2716

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"zip": ["a", "a", "b"], "w": [10.0, 10.0, 4.0]})
    >>> found = risk.measure(table, "zip", weights="w")
    >>> found.unique, found.prosecutor, found.k_map, round(found.journalist, 3)
    (1, 1.0, 4.0, 0.25)
    >>> found.individual.round(3).tolist(), round(found.expected_reidentifications, 3)
    ([0.083, 0.083, 0.462], 0.627)
    """
    check_params(
        "measure",
        {"threshold": Interval(Real, 0, 1), "formula": Options(FORMULAS)},
        {"threshold": threshold, "formula": formula},
    )
    if weights is not None and population is not None:
        raise ParameterError("'weights' and 'population' of measure exclude each other. Got both.")
    names = names_of(quasi, "quasi")
    table = opened(frame, [*names, *(each for each in (weights, households) if each is not None)])
    light = 0
    if population is not None:
        labels, sizes, around = _in_population(table, opened(population, names, "population"), names)
        per_class, source = 1.0 / around, "population"
    else:
        classes = classes_of(cells_of(table, names))
        labels, sizes, around = classes.labels, classes.sizes, classes.sizes.astype(np.float64)
        per_class, source = 1.0 / around, "sample"
        if weights is not None:
            each = survey_weights(table, weights)
            light = int((each < 1.0).sum())
            around = np.maximum(np.bincount(labels, weights=each, minlength=sizes.size), sizes)
            per_class, source = posterior_risk(sizes, around, formula), "weights"
    individual = per_class[labels]
    return Risk(
        n_records=labels.size,
        n_classes=sizes.size,
        unique=int((sizes == 1).sum()),
        below={size: int(sizes[sizes < size].sum()) for size in SIZES},
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
        light_weights=light,
    )


def survey_weights(table: Frame, name: str) -> np.ndarray:
    """A column of weights, each of them above 0.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.engine.frame import Frame
    >>> from shoal.risk import survey_weights
    >>> survey_weights(Frame(pl.DataFrame({"w": [1.5, 20.0]})), "w").tolist()
    [1.5, 20.0]
    """
    table.require([name])
    return weights_in(table.narwhals.select(name).to_polars()[name])


def weights_in(series: pl.Series) -> np.ndarray:
    """The weights of a column; raises a sentence if a cell is missing, not a number, or not above 0.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.risk import weights_in
    >>> weights_in(pl.Series("weight", [10.0, 4.5])).tolist()
    [10.0, 4.5]
    """
    word = f"The weights {series.name!r} must be"
    numbers = series.cast(pl.Float64, strict=False) if series.dtype != pl.Boolean else None
    if numbers is None or numbers.null_count() > series.null_count():
        raise InputError(f"{word} numbers above 0. The column holds something else ({series.dtype}).")
    weights = numbers.fill_null(np.nan).to_numpy().copy()
    odd = int((~np.isfinite(weights)).sum())
    if odd:
        raise InputError(
            f"{word} finite numbers above 0, none missing. Got {odd} missing or infinite of {weights.size}."
        )
    if weights.max(initial=1.0) > 1e300 / max(1, weights.size):
        raise InputError(f"{word} numbers whose sum can be told. Got {weights.max():g} as the largest.")
    if weights.min(initial=1.0) <= 0.0:
        raise InputError(
            f"{word} above 0, since a record stands for itself at least: leave records of weight "
            f"0 out, or give them a small weight. Got {weights.min():g} as the least."
        )
    return weights


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
    cells = cells_of(table, [name])
    members = classes_of(cells)
    with np.errstate(divide="ignore"):
        safe = np.maximum(np.log1p(-individual), -745.0)
    nobody = np.exp(np.bincount(members.labels, weights=safe, minlength=members.n_classes))
    certain = np.bincount(members.labels, weights=individual >= 1.0, minlength=members.n_classes) > 0
    together = np.where(certain, 1.0, 1.0 - nobody)[members.labels]
    # Nobody knows with whom a record without a household lives: it stands alone.
    return together if cells[0].missing is None else np.where(cells[0].missing, individual, together)


def column_risks(frame: Any, quasi: Sequence[str] | str, *, weights: str | None = None) -> dict[str, float]:
    """How much each quasi-identifier adds to the mean re-identification risk.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
    weights : str, optional
        Column of survey weights, as in `measure`.

    Returns
    -------
    dict of column name to float, largest first
        Mean risk with all columns less mean risk without this one. With weights the risk is that of `measure`,
        without them 1 / class size.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"sex": ["m", "f", "m", "f"], "age": [1, 2, 3, 4], "w": [9.0, 9.0, 9.0, 9.0]})
    >>> risk.column_risks(table, ["sex", "age"])
    {'age': 0.5, 'sex': 0.0}
    >>> round(risk.column_risks(table, ["sex", "age"], weights="w")["age"], 3)
    0.184
    """
    names = names_of(quasi, "quasi")
    table = opened(frame, [*names, *(each for each in (weights,) if each is not None)])
    columns = cells_of(table, names)
    stand = None if weights is None else survey_weights(table, weights)
    whole = _mean_risk(columns, len(table), stand)
    gains = {}
    for at, name in enumerate(names):
        gains[name] = whole - _mean_risk(columns[:at] + columns[at + 1 :], len(table), stand)
    return dict(sorted(gains.items(), key=lambda pair: -pair[1]))


def _mean_risk(columns: list[CodedCells], n: int, weights: np.ndarray | None) -> float:
    """The mean of the records' risks; all of them look alike without columns."""
    labels = classes_of(columns).labels if columns else np.zeros(n, np.int64)
    sizes = np.bincount(labels)
    if weights is None:
        return sizes.size / n
    around = np.maximum(np.bincount(labels, weights=weights, minlength=sizes.size), sizes)
    return float((posterior_risk(sizes, around) * sizes).sum() / n)
