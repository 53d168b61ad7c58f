"""Approaches 2 and 3: memberships in a Gaussian mixture, with or without Spearman."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import polars as pl

from shoal.dp.correlation._largest import (
    MARGIN,
    TILE,
    Profiles,
    degrees,
    largest,
    similarity_bounds,
)
from shoal.dp.correlation._mixture import WIDEST, Gaussians, choose_mixture, fit_mixture
from shoal.dp.correlation._prepare import Preparation, check_missing, check_preprocessing
from shoal.errors import ParameterError
from shoal.typing import Json

COARSE = (1, 2, 4, 8, 16, 32, 64, 100)
_FAINT = 1e-7
ESTIMATORS = ("forest", "svm")


class MixtureModel:
    """What the two mixture models share: the mixture, its memberships, and rows that come later."""

    frozen = False
    n_cells = 0

    def __init__(
        self,
        n_components: int | Sequence[int] = COARSE,
        *,
        preprocessing: str = "z-score",
        columns: Sequence[str] | None = None,
        missing: str = "nearest",
        covariance: str | None = None,
        sample: int = 10_000,
        random_state: int = 0,
    ) -> None:
        check_preprocessing(preprocessing)
        check_missing(missing)
        counts = (n_components,) if isinstance(n_components, int) else tuple(n_components)
        whole = all(isinstance(each, int) and not isinstance(each, bool) and each >= 1 for each in counts)
        if not counts or not whole:
            raise ParameterError(
                f"'n_components' must be an int of at least 1, or several to choose from. Got {n_components!r}."
            )
        if covariance not in (None, "full", "diagonal"):
            raise ParameterError(f"'covariance' must be full, diagonal or None. Got {covariance!r}.")
        if isinstance(sample, bool) or not isinstance(sample, int) or sample < 2:
            raise ParameterError(f"'sample' must be an int of at least 2. Got {sample!r}.")
        self.n_components, self.preprocessing = tuple(sorted(counts)), preprocessing
        self.columns, self.missing = None if columns is None else tuple(columns), missing
        self.covariance, self.sample, self.random_state = covariance, sample, random_state
        self.memberships_: np.ndarray | None = None

    def _fit_mixture(self, X: np.ndarray) -> None:
        diagonal = X.shape[1] > WIDEST if self.covariance is None else self.covariance == "diagonal"
        if len(self.n_components) == 1:
            self.mixture_ = fit_mixture(
                X, self.n_components[0], diagonal=diagonal, random_state=self.random_state
            )
            self.bic_: dict[int, float] = {}
        else:
            self.mixture_, self.bic_ = choose_mixture(
                X, self.n_components, diagonal=diagonal, sample=self.sample, random_state=self.random_state
            )
        self.memberships_ = self.mixture_.memberships(X)
        self.log_likelihood_ = self.mixture_.log_likelihood(X) / max(1, len(X))

    def append(self, frame: pl.DataFrame) -> float:
        """Take further rows in under the mixture as it stands, without a refit.

        Returns
        -------
        float
            Drift: how far the new rows' mean log-likelihood lies below that at the fit. Private: for the
            owner only.
        """
        if self.memberships_ is None:
            raise ParameterError("The model must be fitted before rows can be appended.")
        X = self.preparation_.apply(frame)
        self.memberships_ = np.concatenate([self.memberships_, self.mixture_.memberships(X)])
        self._append(X, frame)
        return self.log_likelihood_ - self.mixture_.log_likelihood(X) / max(1, len(X))

    def log_likelihood(self, frame: pl.DataFrame) -> np.ndarray:
        """The log-likelihood of each row under the mixture. Private: for the owner only."""
        return self.mixture_.log_densities(self.preparation_.apply(frame))

    def _append(self, X: np.ndarray, frame: pl.DataFrame) -> None:
        """What a model keeps besides memberships."""

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        """There is none: bought models would need a private fit with its proof, which is not offered."""
        raise ParameterError(
            "A mixture fitted on the private table is no public map to cells: use a FrozenMixture."
        )

    def to_dict(self) -> Json:
        """The model's settings and what was chosen, as plain values."""
        facts: Json = {"model": self.name, "preprocessing": self.preprocessing}
        if self.memberships_ is not None:
            facts |= {"components": self.mixture_.n_components, "columns": list(self.preparation_.columns)}
        return facts

    name: str
    preparation_: Preparation
    mixture_: Gaussians


class GaussianMixtureModel(MixtureModel):
    """Degree of two records: probability that they share a component, times Spearman (approach 2).

    Parameters
    ----------
    n_components : int or sequence of int
        One number, or those among which BIC chooses (coarsely, on a sample, then around the best).
    preprocessing : {"raw", "min-max", "z-score"}, default "z-score"
    columns : sequence of str, optional
    missing : {"nearest", "mean", "error"}, default "nearest"
        A missing cell takes the mean of the five records nearest in the other columns, the column's mean, or
        is refused.
    covariance : {"full", "diagonal"}, optional
        Full up to 60 columns if left open.
    sample : int, default 10,000
        Records on which the number of components is chosen.
    random_state : int, default 0

    Attributes
    ----------
    mixture_ : fitted mixture
    memberships_ : float64 array (n, K)
        M; the degrees are Omega_ij |rho_ij| with Omega = M M' and 1 on the diagonal, never multiplied out.
    bic_ : dict
        Estimated BIC of each number tried.

    Notes
    -----
    For mode `heuristic` only: no guarantee.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from shoal.dp.correlation import GaussianMixtureModel
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([0.0, 50.0], 20)[:, None] + rng.normal(size=(40, 3))
    >>> model = GaussianMixtureModel(2).fit(pl.DataFrame(X, schema=["a", "b", "c"]))
    >>> bool(1 <= model.row_influence(np.ones(40), np.arange(40)) <= 20)
    True
    """

    def __init__(self, n_components: int | Sequence[int] = COARSE, **options: Any) -> None:
        super().__init__(n_components, **options)
        self.name = f"gaussian mixture times spearman ({self.preprocessing})"
        self.fingerprint = f"{self.name} of the private table"

    def fit(self, frame: pl.DataFrame) -> Self:
        """Fit the mixture and keep memberships and ranks."""
        self.preparation_ = Preparation.learn(frame, self.preprocessing, self.columns)
        X = self.preparation_.apply(frame, self.missing)
        self._fit_mixture(X)
        self._profiles = Profiles.of(X, ranks=True)
        return self

    def _append(self, X: np.ndarray, frame: pl.DataFrame) -> None:
        new, old = Profiles.of(X, ranks=True), self._profiles
        self._profiles = Profiles(
            np.concatenate([old.values, new.values]),
            np.concatenate([old.square, new.square]),
            np.concatenate([old.unit, new.unit]),
        )

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> float:
        """The largest of (|Delta| w)_i over the answering rows, exact."""
        if self.memberships_ is None:
            raise ParameterError("The model must be fitted before it can weigh rows.")
        return largest_shared_similarity(self.memberships_[answer], self._profiles.take(answer), weights)


def largest_shared_similarity(M: np.ndarray, profiles: Profiles, weights: np.ndarray) -> float:
    """max_i sum_j Omega_ij |rho_ij| w_j with ones on the diagonal; rows pruned by Omega's row sums.

    Two bounds: Omega's own row sums, and Cauchy's on the degrees. A block of rows is summed over those
    records only that share components with it; what is left out enters the bound.
    """
    unit = float(weights.max(initial=0.0))
    if unit <= 0:
        return 0.0
    weights = weights / unit  # so that single precision holds them
    weighing = np.flatnonzero(weights > 0)
    columns, w, C = profiles.take(weighing), weights[weighing], M[weighing]
    alone = (1.0 - (M**2).sum(axis=1) * (profiles.square > 0)) * weights  # puts delta_ii = 1 back
    shared = M @ (C.T @ w) + (1.0 - (M**2).sum(axis=1)) * weights
    bounds = np.minimum(shared, similarity_bounds(profiles, columns, w, weights) + alone)
    bounds *= 1 + 1e-9
    M32, C32, w32 = M.astype(np.float32), C.astype(np.float32), w.astype(np.float32)

    def above(rows: np.ndarray) -> np.ndarray:
        reach = C @ M[rows].max(axis=0)
        near = np.flatnonzero(reach > _FAINT)
        total = alone[rows] + w @ np.where(reach > _FAINT, 0.0, reach)
        for start in range(0, len(near), TILE):
            part = near[start : start + TILE]
            tile = profiles.unit[rows] @ columns.unit[part].T
            np.abs(tile, out=tile)
            tile *= M32[rows] @ C32[part].T
            total = total + tile @ w32[part]
        return total * (1 + MARGIN) + MARGIN * shared[rows]

    def exact(rows: np.ndarray) -> np.ndarray:
        return (degrees(profiles.take(rows), columns) * (M[rows] @ C.T)) @ w + alone[rows]

    return unit * largest(bounds, above, exact)


class SelectedMixture(MixtureModel):
    """Degree of two records: probability that they share a component, on selected columns (approach 3).

    Parameters
    ----------
    target : str
        The column that the estimator explains while columns are eliminated recursively; one of more than
        twenty values is cut into ten classes of equal size.
    keep : int
        How many columns stay; the dissertation keeps 8 on Adult, 10 on CCC, 60 on HAPT.
    n_components : int or sequence of int
    estimator : {"forest", "svm"}, default "forest"
        A random forest, as in the dissertation's experiments, or a linear support vector machine, which it
        names beside it.
    step : float, default 0.1
        Share of the columns eliminated at a time (not printed there), or their number from 1 on.
    preprocessing : {"raw", "min-max", "z-score"}, default "z-score"
    columns : sequence of str, optional
        Candidates; all but the target if left open.
    missing : {"nearest", "mean", "error"}, default "nearest"
        A missing cell takes the mean of the five records nearest in the other columns, the column's mean, or
        is refused.
    covariance : {"full", "diagonal"}, optional
    sample : int, default 10,000
        Records on which columns and the number of components are chosen.
    random_state : int, default 0

    Attributes
    ----------
    preparation_ : the columns kept and how they are prepared

    Notes
    -----
    For mode `heuristic` only: no guarantee. A query of m rows costs O(m K).

    References
    ----------
    .. [1] I. Guyon, J. Weston, S. Barnhill, V. Vapnik (2002). Gene selection for cancer classification using
       support vector machines. Machine Learning 46, 389-422. doi:10.1023/A:1012487302797

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from shoal.dp.correlation import SelectedMixture
    >>> rng = np.random.default_rng(0)
    >>> side = np.repeat([0.0, 9.0], 30)
    >>> frame = pl.DataFrame({"a": side + rng.normal(size=60), "b": rng.normal(size=60), "side": side})
    >>> model = SelectedMixture("side", 1, n_components=2).fit(frame)
    >>> model.preparation_.columns, round(float(model.row_influence(np.ones(60), np.arange(60)).max()), 3)
    (('a',), 30.0)
    """

    def __init__(
        self,
        target: str,
        keep: int,
        *,
        n_components: int | Sequence[int] = COARSE,
        estimator: str = "forest",
        step: float = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(n_components, **options)
        if estimator not in ESTIMATORS:
            raise ParameterError(f"'estimator' must be one of {', '.join(ESTIMATORS)}. Got {estimator!r}.")
        if isinstance(step, bool) or not isinstance(step, (int, float)) or not 0 < step < float("inf"):
            raise ParameterError(f"'step' must be a share below 1, or a number of columns. Got {step!r}.")
        self.estimator, self.step = estimator, step
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise ParameterError(f"'keep' of SelectedMixture must be an int of at least 1. Got {keep!r}.")
        self.target, self.keep = target, keep
        self.name = f"gaussian mixture on {keep} columns chosen for {target} ({self.preprocessing})"
        self.fingerprint = f"{self.name} of the private table"

    def fit(self, frame: pl.DataFrame) -> Self:
        """Choose columns, fit the mixture on them and keep memberships."""
        if self.target not in frame.columns:
            raise ParameterError(
                f"'target' of SelectedMixture must be a declared column. Got {self.target!r}."
            )
        candidates = self.columns or [
            name for name in frame.columns if name != self.target and frame[name].dtype.is_numeric()
        ]
        whole = Preparation.learn(frame, self.preprocessing, candidates)
        X = whole.apply(frame, self.missing)
        rng = np.random.default_rng(self.random_state)
        rows = np.sort(rng.permutation(len(X))[: self.sample])
        classes = _classes(frame[self.target])
        kept = eliminate(X[rows], classes[rows], self.keep, self.random_state, self.estimator, self.step)
        self.preparation_ = whole.chosen(kept.tolist())
        self._fit_mixture(np.ascontiguousarray(X[:, kept]))
        return self

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """(|Delta| w)_i for the answering rows, O(m K)."""
        if self.memberships_ is None:
            raise ParameterError("The model must be fitted before it can weigh rows.")
        M = self.memberships_[answer]
        return M @ (M.T @ weights) + (1.0 - np.einsum("ij,ij->i", M, M)) * weights


def _classes(target: pl.Series) -> np.ndarray:
    """The target's values as classes; of more than twenty, ten of equal size."""
    ranks = target.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    if len(np.unique(ranks)) <= 20:
        return ranks
    return np.searchsorted(np.quantile(ranks, np.linspace(0.1, 0.9, 9)), ranks)


def eliminate(
    X: np.ndarray,
    target: np.ndarray,
    keep: int,
    random_state: int = 0,
    estimator: str = "forest",
    step: float = 0.1,
) -> np.ndarray:
    """Positions of the columns left by recursive elimination, a share or a number of columns a step, rising."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_selection import RFE
    from sklearn.svm import LinearSVC

    if keep >= X.shape[1] or len(np.unique(target)) < 2:
        return np.arange(min(keep, X.shape[1]))
    explains: Any = RandomForestClassifier(50, min_samples_leaf=2, random_state=random_state, n_jobs=2)
    if estimator == "svm":
        explains = LinearSVC(dual=False, random_state=random_state)
    step = step if step < 1 else int(step)
    return np.flatnonzero(RFE(explains, n_features_to_select=keep, step=step).fit(X, target).support_)
