"""What a bought release knows: its axes, its residuals, and the mixture that its rows are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from shoal.dp.sql.expressions import Predicate
from shoal.errors import ParameterError
from shoal.release.marginals._axes import MarginalAxis
from shoal.release.marginals._choice import total_of
from shoal.release.marginals._haar import Joint, draw_joint, fit_joint, linear, total_of_blocks
from shoal.release.marginals._match import match
from shoal.release.marginals._mixture import Mixture, draw, fit, simplex
from shoal.release.marginals._refine import impossible
from shoal.release.marginals._residuals import (
    Key,
    Residual,
    cell_variance,
    covers,
    reconstruct,
    variance_of,
)
from shoal.release.marginals._rules import keep_rules
from shoal.release.marginals._spend import Measurement, residuals_of
from shoal.rules import Edit

_AGAIN = 50  # times that rows with a declared zero are drawn anew


@dataclass(frozen=True)
class BoughtModel:
    """All that was bought, and what follows from it without a further look at the data.

    Parameters
    ----------
    axes : tuple of MarginalAxis
    measurements : tuple of Measurement
        The released whole numbers.
    seed : int
        Of the fit and the draws; public.
    zeros : tuple of Predicate
        Combinations that no record can have, as the schema declares them: rows that surely have one are drawn anew.
    edits : tuple of Edit
        Rules that drawn rows keep.
    """

    axes: tuple[MarginalAxis, ...]
    measurements: tuple[Measurement, ...]
    seed: int
    zeros: tuple[Predicate, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Positions of each column."""
        return tuple(each.size for each in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.name for each in self.axes)

    @cached_property
    def residuals(self) -> dict[Key, Residual]:
        """What was measured, pooled."""
        return residuals_of(self.measurements)

    @property
    def ranges(self) -> bool:
        """Whether ranges were measured, by blocks of differences, rather than marginals."""
        return any(each.kind.endswith("block") for each in self.measurements)

    @cached_property
    def total(self) -> float:
        """The number of records as measured, at least 1."""
        return total_of_blocks(self.measurements) if self.ranges else total_of(self.residuals)

    @cached_property
    def mixture(self) -> Mixture:
        """The distribution that rows are drawn from."""
        return fit(self.total, self.residuals, self.sizes, self.seed)

    @cached_property
    def joint(self) -> Joint:
        """The same, of a release of ranges."""
        return fit_joint(self.measurements, self.sizes)

    def key(self, names: Sequence[str]) -> Key:
        """Positions of some columns, rising."""
        for name in names:
            if name not in self.names:
                raise ParameterError(
                    f"A column of the release must be one of {', '.join(self.names)}. Got {name!r}."
                )
        return tuple(sorted({self.names.index(name) for name in names}))

    def measured(self, key: Key) -> bool:
        """Whether the marginal of some columns was measured in full, so that its error is known exactly."""
        return len(key) <= 1 if self.ranges else covers(key, self.residuals, self.sizes)

    def modelled(self, key: Key) -> np.ndarray:
        """The counts of some columns as the fitted model has them."""
        if self.ranges:
            others = tuple(at for at in range(len(self.axes)) if at not in key)
            return self.joint.counts.sum(axis=others)
        return self.total * self.mixture.marginal(key)

    def table(self, key: Key) -> np.ndarray:
        """The counts of some columns: as measured where they were, else as the model says."""
        if self.measured(key) and not self.ranges:
            return reconstruct(key, self.residuals, self.sizes)
        return self.modelled(key)

    def deviation(self, key: Key) -> float | None:
        """The exact standard deviation of a cell of a measured marginal; None of any other."""
        if self.ranges or not self.measured(key):
            return None
        return cell_variance(key, self.residuals, self.sizes) ** 0.5

    def linear(self, key: Key, weights: np.ndarray) -> tuple[float, float | None]:
        """The weighted count of the cells of some columns, and its exact variance where it was measured."""
        if not self.measured(key):
            return float((weights * self.modelled(key)).sum()), None
        weights = np.broadcast_to(weights, [self.sizes[at] for at in key])
        if self.ranges:
            return linear(self.measurements, key, dict(zip(key, [weights], strict=False)), self.sizes)
        value = float((weights * reconstruct(key, self.residuals, self.sizes)).sum())
        return value, variance_of(weights, key, self.residuals, self.sizes)

    def _single(self) -> np.ndarray:
        """Single columns as measured, made distributions, side by side."""
        tables = [reconstruct((at,), self.residuals, self.sizes) for at in range(len(self.axes))]
        return np.concatenate([simplex(each / self.total) for each in tables])

    def _draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return draw_joint(self.joint, count, rng) if self.ranges else draw(self.mixture, count, rng)

    def rows(self, count: int | None = None) -> pl.DataFrame:
        """Rows drawn from the model, in the columns' own units and levels."""
        rng = np.random.default_rng([self.seed, 1])
        wanted = round(self.total) if count is None else count
        codes = self._draw(wanted, rng)
        if not self.ranges:
            codes = match(codes, self.mixture, rng, self._single())
        for _ in range(_AGAIN if self.zeros else 0):
            odd = np.flatnonzero(impossible(codes, self.axes, self.zeros))
            if not len(odd):
                break
            codes[odd] = self._draw(wanted, rng)[rng.permutation(wanted)[: len(odd)]]
        rows = pl.DataFrame([each.decode(codes[:, at], rng) for at, each in enumerate(self.axes)])
        return keep_rules(rows, self.edits, rng)
