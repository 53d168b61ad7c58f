"""Makers of synthetic tables: a household survey, mixtures of known groups, a graph."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
import polars as pl
from sklearn.utils import check_random_state

from shoal.params import AnyOf, Constraint, Instance, Interval, Unset, check_params

REGIONS = ("north", "east", "south", "west", "capital")
DISEASES = ("none", "influenza", "hypertension", "diabetes", "asthma", "depression", "cancer")

_SEED = AnyOf((Unset(), Interval(Integral, 0), Instance((np.random.RandomState,))))


def make_survey(
    n_households: int = 400, *, messy: bool = False, random_state: int | np.random.RandomState | None = None
) -> pl.DataFrame:
    """Make a household survey: persons in households, with money, a disease and a survey weight.

    Influenza runs in households, rents are shared by their members, and taxes follow income: records are
    correlated, as in life. No person in it exists.

    Parameters
    ----------
    n_households : int, default 400
        About 2.5 persons each.
    messy : bool, default False
        Put codes for missing values (`NA`, `-9`, `refused`, an empty cell) into 3 % of the cells.
    random_state : int, RandomState or None

    Returns
    -------
    polars.DataFrame
        Columns person, household, age, sex, region, income, rent, taxes, disease, weight.

    Examples
    --------
    >>> from shoal.datasets import make_survey
    >>> make_survey(50, random_state=0).columns
    ['person', 'household', 'age', 'sex', 'region', 'income', 'rent', 'taxes', 'disease', 'weight']
    """
    rules: dict[str, Constraint] = {"n_households": Interval(Integral, 1), "random_state": _SEED}
    check_params("make_survey", rules, {"n_households": n_households, "random_state": random_state})
    rng = check_random_state(random_state)
    sizes = rng.choice(np.arange(1, 7), size=n_households, p=[0.28, 0.31, 0.17, 0.14, 0.07, 0.03])
    home = np.repeat(np.arange(n_households), sizes)
    place = np.arange(home.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    n = home.size

    head_age = np.clip(rng.gamma(9.0, 5.6, n_households), 19, 96)
    age = np.where(place == 0, head_age[home], 0.0)
    age = np.where(place == 1, np.clip(head_age[home] + rng.normal(-1, 4, n), 18, 97), age)
    child = np.clip(head_age[home] - rng.normal(30, 5, n), 0, 45)
    age = np.where(place >= 2, child, age).astype(np.int64)
    sex = np.where(rng.random_sample(n) < 0.51, "female", "male")
    region = rng.choice(len(REGIONS), size=n_households, p=[0.19, 0.22, 0.24, 0.2, 0.15])
    rich = np.array([0.0, -0.05, -0.15, 0.05, 0.3])[region]

    earning = np.clip(1.25 - ((age - 48) / 32.0) ** 2, 0.05, 1.2)
    income = np.exp(9.85 + rich[home] + 0.9 * (earning - 0.7) + rng.normal(0, 0.55, n))
    income = np.where(age < 16, 0.0, income)
    tail = rng.random_sample(n) < 0.01
    income = np.round(np.where(tail & (age >= 30), income * rng.uniform(4, 9, n), income), -1).astype(
        np.int64
    )
    together = np.bincount(home, weights=income)
    rent = np.round((260 + 0.011 * together + 70 * sizes + rng.normal(0, 60, n_households)) * (1 + rich), -1)
    rent = np.clip(rent, 150, None).astype(np.int64)
    taxable = np.clip(income - 9000, 0, None)
    taxes = np.round(
        0.14 * taxable + 0.16 * np.clip(income - 32000, 0, None) + rng.normal(0, 120, n) * (taxable > 0)
    )
    taxes = np.clip(taxes, 0, None).astype(np.int64)

    disease = _diseases(rng, age, home, n_households)
    weight = np.round(
        np.array([210.0, 180.0, 240.0, 205.0, 150.0])[region][home] * rng.uniform(0.8, 1.25, n), 2
    )
    frame = pl.DataFrame(
        {
            "person": 100_000 + rng.permutation(n),
            "household": 1 + home,
            "age": age,
            "sex": sex,
            "region": [REGIONS[each] for each in region[home]],
            "income": income,
            "rent": rent[home],
            "taxes": taxes,
            "disease": disease,
            "weight": weight,
        }
    )
    return _messed_up(frame, rng) if messy else frame


def _diseases(rng: np.random.RandomState, age: np.ndarray, home: np.ndarray, n_households: int) -> np.ndarray:
    old = np.clip((age - 35) / 60.0, 0, 1)
    chances = np.stack(
        [
            0.02 + 0 * old,
            0.02 + 0.3 * old,
            0.01 + 0.12 * old,
            0.06 - 0.02 * old,
            np.where(age > 14, 0.07, 0.01),
            0.005 + 0.06 * old,
        ],
        axis=1,
    )
    drawn = rng.random_sample(age.size)
    which = (drawn[:, None] > np.cumsum(chances, axis=1)).sum(axis=1)
    code = np.where(which < chances.shape[1], which + 1, 0)
    ill_home = rng.random_sample(n_households) < 0.06
    code = np.where(ill_home[home] & (rng.random_sample(age.size) < 0.85), 1, code)
    return np.array(DISEASES)[code]


def _messed_up(frame: pl.DataFrame, rng: np.random.RandomState) -> pl.DataFrame:
    """Codes for missing values in 3 % of the cells, as survey files have them."""
    codes = {
        "age": "-9",
        "sex": "NA",
        "region": "",
        "income": "refused",
        "rent": "NA",
        "taxes": "refused",
        "disease": "NA",
    }
    columns = []
    for name in frame.columns:
        series = frame[name]
        if name in codes:
            mask = pl.Series(rng.random_sample(frame.height) < 0.03)
            series = series.cast(pl.String).set(mask, codes[name])
        columns.append(series.alias(name))
    return pl.DataFrame(columns)


def make_clusters(
    n_records: int = 1000,
    n_columns: int = 5,
    n_clusters: int = 10,
    *,
    spread: float = 0.2,
    balance: float = 1.0,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Make a mixture of known groups, in the manner of Panagiotakis and Tziritas' synthetic sets.

    Cluster centres are uniform in the unit cube; records lie around them with a normal spread.

    Parameters
    ----------
    n_records, n_columns, n_clusters : int
    spread : float, default 0.2
        Deviation inside a cluster, in units of the mean distance of a centre to its nearest other centre.
    balance : float, default 1.0
        1 makes clusters of equal expected size; smaller values make some much larger than others.
    random_state : int, RandomState or None

    Returns
    -------
    X : array of float64, (n_records, n_columns)
    labels : array of int64, (n_records,)
        The cluster each record was drawn from.

    References
    ----------
    .. [1] C. Panagiotakis, G. Tziritas (2013). Successive group selection for microaggregation. IEEE TKDE
       25(5), 1191-1195. doi:10.1109/TKDE.2011.242

    Examples
    --------
    >>> from shoal.datasets import make_clusters
    >>> X, labels = make_clusters(60, 2, 3, random_state=0)
    >>> X.shape, len(set(labels.tolist()))
    ((60, 2), 3)
    """
    values = {
        "n_records": n_records, "n_columns": n_columns, "n_clusters": n_clusters,
        "spread": spread, "balance": balance, "random_state": random_state,
    }  # fmt: skip
    whole = Interval(Integral, 1)
    rules: dict[str, Constraint] = {
        "n_records": whole, "n_columns": whole, "n_clusters": whole,
        "spread": Interval(Real, 0), "balance": Interval(Real, 1e-3), "random_state": _SEED,
    }  # fmt: skip
    check_params("make_clusters", rules, values)
    rng = check_random_state(random_state)
    centres = rng.random_sample((n_clusters, n_columns))
    if n_clusters > 1:
        from scipy.spatial import cKDTree

        gap = cKDTree(centres).query(centres, k=2)[0][:, 1].mean()
    else:
        gap = 1.0
    share = rng.dirichlet(np.full(n_clusters, 10.0**6 if balance >= 1 else 10.0 * balance))
    labels = np.sort(rng.choice(n_clusters, size=n_records, p=share))
    labels[: min(n_clusters, n_records)] = np.arange(min(n_clusters, n_records))
    X = centres[labels] + rng.normal(0, spread * gap / np.sqrt(n_columns), (n_records, n_columns))
    order = rng.permutation(n_records)
    return np.ascontiguousarray(X[order]), labels[order].astype(np.int64)


def make_graph(
    n_vertices: int = 2000,
    n_communities: int = 40,
    *,
    random_state: int | np.random.RandomState | None = None,
) -> pl.DataFrame:
    """Make a friendship graph of dense communities with some ties between them.

    Parameters
    ----------
    n_vertices, n_communities : int
    random_state : int, RandomState or None

    Returns
    -------
    polars.DataFrame
        One undirected edge a row: source < target, each pair once.

    Examples
    --------
    >>> from shoal.datasets import make_graph
    >>> edges = make_graph(100, 5, random_state=0)
    >>> bool((edges["source"] < edges["target"]).all())
    True
    """
    values = {"n_vertices": n_vertices, "n_communities": n_communities, "random_state": random_state}
    rules: dict[str, Constraint] = {
        "n_vertices": Interval(Integral, 2),
        "n_communities": Interval(Integral, 1),
        "random_state": _SEED,
    }
    check_params("make_graph", rules, values)
    rng = check_random_state(random_state)
    community = np.sort(rng.choice(n_communities, size=n_vertices))
    inside, outside = 3 * n_vertices, n_vertices // 2
    first = rng.randint(n_vertices, size=inside)
    sizes = np.bincount(community, minlength=n_communities)
    starts = np.cumsum(sizes) - sizes
    own = community[first]
    second = starts[own] + (rng.random_sample(inside) * sizes[own]).astype(np.int64)
    pairs = np.concatenate([np.stack([first, second], axis=1), rng.randint(n_vertices, size=(outside, 2))])
    pairs = np.sort(rng.permutation(n_vertices)[pairs], axis=1)
    pairs = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    return pl.DataFrame({"source": pairs[:, 0], "target": pairs[:, 1]})
