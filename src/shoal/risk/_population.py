"""How many records of a sample are unique in the population: three models of class sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from shoal.params import Interval, check_params
from shoal.privacy.cells import cells_of, names_of, opened
from shoal.privacy.classes import classes_of
from shoal.typing import Json

# The decision rule of Dankar and others: up to this sampling fraction Pitman's model is taken.
SMALL_SAMPLE = 0.1


@dataclass(frozen=True)
class PopulationUniqueness:
    """Estimates of the number of people who are unique in the population by the quasi-identifiers.

    Attributes
    ----------
    n_records, sample_uniques : int
    population_size : float
    pitman, zayatz, snb : float or None
        Unique people in the population by each model; None where its equations have no solution here.
    model : str
        The one that the decision rule of Dankar and others takes.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"age": [20, 20, 20, 21, 21, 30, 31, 40, 40, 41]})
    >>> found = risk.population_uniqueness(table, "age", sampling_fraction=0.5)
    >>> found.n_records, found.sample_uniques, found.population_size, found.model
    (10, 3, 20.0, 'zayatz')
    """

    n_records: int
    sample_uniques: int
    population_size: float
    pitman: float | None
    zayatz: float | None
    snb: float | None
    model: str

    @property
    def uniques(self) -> float | None:
        """Unique people by the model taken."""
        return {"pitman": self.pitman, "zayatz": self.zayatz, "snb": self.snb, "none": None}[self.model]

    @property
    def share(self) -> float | None:
        """The same as a share of the population."""
        return None if self.uniques is None else self.uniques / self.population_size

    def to_dict(self) -> Json:
        """The figures; a model without a solution is null."""
        return {
            "pitman": self.pitman,
            "zayatz": self.zayatz,
            "snb": self.snb,
            "model": self.model,
            "population_uniques": self.uniques,
            "share_of_population": self.share,
        }


def population_uniqueness(
    frame: Any, quasi: Sequence[str] | str, *, sampling_fraction: float
) -> PopulationUniqueness:
    """Estimate how many people are unique in the population from the class sizes of a sample.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
    sampling_fraction : float
        Records in the table per person in the population, above 0 and at most 1.

    Returns
    -------
    PopulationUniqueness

    Notes
    -----
    `pitman` fits Pitman's sampling formula by maximum likelihood and takes its expected uniques at the size of
    the population [1]_. `zayatz` takes the sample's class sizes for the population's and asks how often a unique of a
    sample is one of the population [2]_. `snb` is the slide negative binomial model: class sizes one more than
    negative binomial, fitted to the numbers of classes and uniques and the size of the population [3]_. ARX offers
    the same three and the decision rule [4]_: Pitman up to a tenth of the population sampled, beyond it the smaller
    of the other two. All assume simple random sampling.

    References
    ----------
    .. [1] N. Hoshino (2001). Applying Pitman's sampling formula to microdata disclosure risk assessment. Journal of
       Official Statistics 17(4), 499-520.
    .. [2] L. Zayatz (1991). Estimation of the percent of unique population elements on a microdata file using the
       sample. U.S. Bureau of the Census.
    .. [3] G. Chen, S. Keller-McNulty (1998). Estimation of identification disclosure risk in microdata. Journal of
       Official Statistics 14(1), 79-95.
    .. [4] F. K. Dankar, K. El Emam, A. Neisa, T. Roffey (2012). Estimating the re-identification risk of clinical
       data sets. BMC Medical Informatics and Decision Making 12, 66. doi:10.1186/1472-6947-12-66

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"age": [20, 20, 20, 21, 21, 30, 31, 40, 40, 41]})
    >>> found = risk.population_uniqueness(table, "age", sampling_fraction=1.0)
    >>> found.sample_uniques, round(found.zayatz)
    (3, 3)
    """
    check_params(
        "population_uniqueness",
        {"sampling_fraction": Interval(Real, np.nextafter(0, 1), 1)},
        {"sampling_fraction": sampling_fraction},
    )
    names = names_of(quasi, "quasi")
    sizes = classes_of(cells_of(opened(frame, names), names)).sizes
    people = float(sizes.sum()) / sampling_fraction
    found = {
        "pitman": _pitman(sizes, people),
        "zayatz": _zayatz(sizes, sampling_fraction, people),
        "snb": _snb(sizes, sampling_fraction, people),
    }
    return PopulationUniqueness(
        n_records=int(sizes.sum()),
        sample_uniques=int((sizes == 1).sum()),
        population_size=people,
        model=_chosen(found, sampling_fraction),
        **found,
    )


def _chosen(found: dict[str, float | None], fraction: float) -> str:
    wanted = ["pitman"] if fraction <= SMALL_SAMPLE else []
    others = {name: found[name] for name in ("zayatz", "snb") if found[name] is not None}
    ranked = sorted(others, key=lambda name: others[name] or 0.0)
    for name in [*wanted, *ranked, "pitman"]:
        if found[name] is not None:
            return name
    return "none"


def _pitman(sizes: np.ndarray, people: float) -> float | None:
    """Expected uniques Gamma(theta + 1) / Gamma(theta + alpha) N^alpha at the likeliest theta and alpha."""
    from scipy.optimize import minimize
    from scipy.special import gammaln

    n, u = int(sizes.sum()), sizes.size
    if u in (1, n):  # one class, or nothing but uniques: the likelihood has no maximum inside
        return None
    values, counts = np.unique(sizes, return_counts=True)

    def against(at: np.ndarray) -> float:
        alpha, theta = 1.0 / (1.0 + np.exp(-at[0])), np.exp(at[1])
        if not 1e-12 < alpha < 1.0 - 1e-12:
            return np.inf
        fitted = (u - 1) * np.log(alpha) + gammaln(theta / alpha + u) - gammaln(theta / alpha + 1.0)
        fitted -= gammaln(theta + n) - gammaln(theta + 1.0)
        return -(fitted + float(counts @ (gammaln(values - alpha) - gammaln(1.0 - alpha))))

    starts = [(a, t) for a in (-3.0, 0.0, 2.0) for t in (0.0, np.log(u))]
    options = {"xatol": 1e-9, "fatol": 1e-9, "maxiter": 4000}
    best = min(
        (minimize(against, start, method="Nelder-Mead", options=options) for start in starts),
        key=lambda each: each.fun,
    )
    if not np.isfinite(best.fun):
        return None
    alpha, theta = 1.0 / (1.0 + np.exp(-best.x[0])), np.exp(best.x[1])
    log_uniques = gammaln(theta + 1.0) - gammaln(theta + alpha) + alpha * np.log(people)
    return float(min(np.exp(log_uniques), people))


def _zayatz(sizes: np.ndarray, fraction: float, people: float) -> float | None:
    """Sample uniques times the share of them that are unique in the population, blown up to it."""
    from scipy.stats import hypergeom

    alone = int((sizes == 1).sum())
    if alone == 0:
        return 0.0
    values, counts = np.unique(sizes, return_counts=True)
    one_drawn = hypergeom.pmf(1, round(people), values, int(sizes.sum()))
    weighted = counts * one_drawn
    return float(weighted[0] / weighted.sum() * alone / fraction) if weighted.sum() > 0 else None


def _snb(sizes: np.ndarray, fraction: float, people: float) -> float | None:
    """K beta^alpha where the expected classes and uniques of the sample are those found."""
    from scipy.optimize import least_squares

    u, alone, kept = sizes.size, int((sizes == 1).sum()), 1.0 - fraction
    if alone == 0:
        return 0.0
    if fraction == 1.0:
        return float(alone)

    def shapes(at: np.ndarray) -> tuple[float, float, float]:
        alpha, beta = np.exp(at[0]), 1.0 / (1.0 + np.exp(-at[1]))
        return alpha, beta, people / (1.0 + alpha * (1.0 - beta) / beta)

    def missed(at: np.ndarray) -> list[float]:
        alpha, beta, classes = shapes(at)
        rest = 1.0 - (1.0 - beta) * kept
        none = np.exp(alpha * np.log(beta / rest))
        seen = 1.0 - kept * none
        one = fraction * none * (1.0 + kept * alpha * (1.0 - beta) / rest)
        return [np.log(classes * seen / u), np.log(max(classes * one, 1e-300) / alone)]

    tries = [
        least_squares(missed, (a, b), bounds=([-25, -25], [25, 25]))
        for a in (-4.0, -1.0, 1.0)
        for b in (-6.0, -2.0, 2.0)
    ]
    best = min(tries, key=lambda each: each.cost)
    if best.cost > 1e-8:
        return None
    alpha, beta, classes = shapes(best.x)
    return float(classes * np.exp(alpha * np.log(beta)))
