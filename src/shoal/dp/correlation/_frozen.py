"""A mixture fitted once on public data, frozen: a public row-wise map to cells."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from shoal.dp.correlation._grid import shared_weight
from shoal.dp.correlation._mixture import Gaussians, fit_mixture
from shoal.dp.correlation._prepare import Preparation
from shoal.errors import InputError, ParameterError
from shoal.io import write_text
from shoal.typing import Json

_DIGITS = 6
FORMAT = "shoal-frozen-mixture-1"
ORIGINS = ("given", "public")


class FrozenMixture:
    """Rows are alike if the same component of a fixed, public mixture is the most likely one.

    Made by `FrozenMixture.fit_public` from a public table, or read from a file.

    Parameters
    ----------
    mixture : fitted mixture with diagonal covariances
    preparation : Preparation
    origin : {"given", "public"}
        Who vouches that nothing of it was read from the private table: the owner wrote it down, or it was
        fitted on public data.
    source : str
        Where it comes from, in words.

    Notes
    -----
    A row's cell is computed from that row and this file alone, in an order that does not depend on the other
    rows. A mixture bought from the private table would need a private fit with its proof; none is offered, so
    such a file is refused. Look-alikes are not dependants: relatives in different cells are covered once per
    cell.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp.correlation import FrozenMixture
    >>> public = pl.DataFrame({"age": [20.0, 21.0, 22.0, 70.0, 71.0, 72.0]})
    >>> model = FrozenMixture.fit_public(public, 2, source="made up")
    >>> cells = model.cell(pl.DataFrame({"age": [25.0, 68.0, 19.0]}))
    >>> bool(cells[0] == cells[2] != cells[1])
    True
    """

    frozen = True

    def __init__(self, mixture: Gaussians, preparation: Preparation, *, origin: str, source: str) -> None:
        if origin not in ORIGINS:
            raise ParameterError(
                f"'origin' of a frozen mixture must be given or public: a model bought from the private table "
                f"needs a private fit with its proof, which is not offered. Got {origin!r}."
            )
        if not isinstance(source, str) or not source.strip():
            raise ParameterError(
                f"'source' of a frozen mixture must say where it comes from. Got {source!r}."
            )
        sizes = (mixture.n_components, len(preparation.columns))
        if mixture.precisions.shape != sizes or mixture.means.shape != sizes:
            raise ParameterError("A frozen mixture needs a mean and a precision for each cell and column.")
        numbers = (mixture.weights, mixture.means, mixture.precisions)
        if (
            not all(np.isfinite(each).all() for each in numbers)
            or min(mixture.weights.min(), mixture.precisions.min()) <= 0
        ):
            raise ParameterError("A frozen mixture needs finite means, and weights and precisions above 0.")
        self.mixture, self.preparation = mixture, preparation
        self.origin, self.source = origin, source
        self.n_cells = mixture.n_components
        columns = preparation.columns
        few = len(columns) <= 6  # a guarantee is one line
        self.name = f"mixture({', '.join(columns)})" if few else f"mixture on {len(columns)} columns"
        facts = json.dumps([preparation.to_dict(), *(each.tolist() for each in numbers)])
        self.fingerprint = "mixture-" + hashlib.sha256(facts.encode()).hexdigest()[:24]
        self._cells: np.ndarray | None = None
        self._fits: np.ndarray = np.empty(0)

    @classmethod
    def fit_public(
        cls,
        frame: pl.DataFrame,
        n_cells: int,
        *,
        source: str,
        preprocessing: str = "z-score",
        columns: list[str] | tuple[str, ...] | None = None,
        even: bool = True,
        random_state: int = 0,
    ) -> Self:
        """Fit on a *public* table, loaded as the private one will be (see `shoal.dp.loading.load.load`).

        Parameters
        ----------
        frame : polars.DataFrame
            Public: the caller vouches for it, and nothing is charged.
        n_cells : int
            More cells hide fewer rows together and cost less noise; expect large errors below 300.
        source : str
            Where the table comes from; kept in the file.
        even : bool, default True
            Components of equal weight and spread, so that a row's cell is that of the nearest mean: cells of
            evener sizes, which cost less noise. Else each has its own.
        preprocessing, columns, random_state
            As in the other models.
        """
        if isinstance(n_cells, bool) or not isinstance(n_cells, int) or not 1 <= n_cells <= frame.height:
            raise ParameterError(
                f"'n_cells' must be an int of at least 1 and at most the public rows. Got {n_cells!r}."
            )
        preparation = Preparation.learn(frame, preprocessing, columns)
        X = preparation.apply(frame)
        fitted = fit_mixture(X, n_cells, diagonal=True, rounds=0 if even else 30, random_state=random_state)
        if even:
            spread, weights = np.ones_like(fitted.means), np.full(fitted.n_components, 1.0)
        else:  # point-like components would own nothing else
            spread, weights = np.maximum(1.0 / fitted.precisions, 1e-4), fitted.weights
        rounded = Gaussians(
            *(_rounded(each) for each in (weights, fitted.means, 1.0 / spread))  # as the file keeps it
        )
        return cls(rounded, preparation, origin="public", source=source)

    def fit(self, frame: pl.DataFrame) -> Self:
        """Remember each row's cell and log-likelihood; the mixture stays as it is."""
        self._cells, self._fits = self._placed(frame)
        return self

    def append(self, frame: pl.DataFrame) -> float:
        """Take further rows in under the mixture as it stands.

        Returns
        -------
        float
            Drift: how far the new rows' mean log-likelihood lies below that of the rows before. Private: for the
            owner only.
        """
        if self._cells is None:
            raise ParameterError("The model must be fitted before rows can be appended.")
        cells, fits = self._placed(frame)
        drop = float(self._fits.mean() - fits.mean()) if len(fits) and len(self._fits) else 0.0
        self._cells = np.concatenate([self._cells, cells])
        self._fits = np.concatenate([self._fits, fits])
        return drop

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """Sum of the weights in each answering row's cell."""
        return shared_weight(self._cells, weights, answer)

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        """The cell of each row: its most likely component, the first of equals."""
        return self._placed(frame)[0]

    def log_likelihood(self, frame: pl.DataFrame) -> np.ndarray:
        """The log-likelihood of each row under the mixture, up to a constant. Private: for the owner only."""
        return self._placed(frame)[1]

    def _placed(self, frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Cell and log-likelihood of each row."""
        from scipy.special import logsumexp  # takes a while

        X = self.preparation.apply(frame)
        means, precisions = self.mixture.means, self.mixture.precisions
        constant = np.log(self.mixture.weights) + 0.5 * np.log(precisions).sum(axis=1)
        cells, fits = np.empty(len(X), dtype=np.int64), np.empty(len(X))
        for start in range(0, len(X), 2048):
            part = X[start : start + 2048]
            score = np.broadcast_to(constant, (len(part), self.n_cells)).copy()
            # column by column rather than as a matrix product, whose rounding may depend on the other rows
            for j in range(X.shape[1]):
                score -= 0.5 * precisions[:, j] * (part[:, j, None] - means[:, j]) ** 2
            cells[start : start + 2048] = score.argmax(axis=1)
            fits[start : start + 2048] = logsumexp(score, axis=1)
        return cells, fits

    def to_dict(self) -> Json:
        """The model as plain values."""
        return {
            "format": FORMAT,
            "origin": self.origin,
            "source": self.source,
            "preparation": self.preparation.to_dict(),
            "weights": self.mixture.weights.tolist(),
            "means": self.mixture.means.tolist(),
            "precisions": self.mixture.precisions.tolist(),
        }

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file."""
        write_text(json.dumps(self.to_dict(), separators=(",", ":")) + "\n", path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model from a JSON file; one that was bought from a private table is refused."""
        return cls.from_dict(read_facts(path))

    @classmethod
    def from_dict(cls, facts: Any) -> Self:
        """Read a model from plain values."""
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ParameterError(f"A frozen mixture must have the format {FORMAT!r}.")
        try:
            numbers = [
                np.asarray(facts[name], dtype=np.float64) for name in ("weights", "means", "precisions")
            ]
        except (KeyError, TypeError, ValueError):
            raise ParameterError("A frozen mixture needs weights, means and precisions.") from None
        if numbers[0].ndim != 1 or not len(numbers[0]) or numbers[1].ndim != 2 or numbers[2].ndim != 2:
            raise ParameterError("A frozen mixture needs weights, means and precisions.")
        preparation = Preparation.from_dict(facts.get("preparation", {}))
        return cls(
            Gaussians(*numbers), preparation, origin=facts.get("origin", ""), source=facts.get("source", "")
        )


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.array([float(f"{v:.{_DIGITS}g}") for v in values.ravel()]).reshape(values.shape)


def read_facts(path: str | Path) -> Any:
    """What a model file holds."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The model file {str(path)!r} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise InputError(f"The model file {str(path)!r} must hold JSON, as `save_model` writes it.") from None
