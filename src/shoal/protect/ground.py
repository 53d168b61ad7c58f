"""A table made ready: gaps filled, columns turned into coordinates in which distances mean likeness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import Encoder
from shoal.engine.missing import impute
from shoal.engine.roles import Prepared


@dataclass(frozen=True)
class Ground:
    """What every stage after the encoding works on.

    Attributes
    ----------
    job : Prepared
        The table with its roles settled.
    filled : list of TypedColumn
        The quasi-identifiers, missing cells imputed where that is the policy.
    encoder : Encoder
    Z : array of float64, (n_records, n_coordinates)
        The quasi-identifiers as coordinates.
    """

    job: Prepared
    filled: list[TypedColumn]
    encoder: Encoder
    Z: np.ndarray

    @classmethod
    def of(cls, job: Prepared) -> Self:
        """Fill the gaps and encode."""
        filled = impute(job.quasi)
        encoder = Encoder.fit(filled)
        return cls(job, filled, encoder, encoder.transform(filled))

    def reread(self, published: pl.DataFrame | Mapping[str, pl.Series]) -> list[TypedColumn]:
        """The quasi-identifiers as published, read as the original ones were."""
        return [
            read_column(
                published[column.name],
                replace(column.facts, missing_codes=(), on_missing="category"),
                column.levels,
            )
            for column in self.filled
        ]
