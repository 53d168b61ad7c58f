"""What recoding and suppression share as estimators: a table in, the same kind of table out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from shoal.engine.estimator import Estimator, check_fitted
from shoal.engine.frame import Frame, is_frame
from shoal.errors import InputError, ParameterError
from shoal.generalization._table import table_of
from shoal.params import Constraint, check_params


class Recoder(Estimator):
    """Common base: `fit` finds the released value of every cell, and `transform` releases the fitted table.

    Attributes
    ----------
    labels_ : array of int64, (n_records,)
        The class of each record; -1 where the record is suppressed.
    n_groups_ : int
    released_ : polars.DataFrame
        The recoded columns.
    loss_ : float
        Mean loss of a cell, from 0 to 1.
    bound_ : float or None
        No release of this kind loses less; None where it was not asked for.
    bound_seconds_ : float
        What the bound took of a processor.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.generalization import Recoder, Suppress
    >>> table = pl.DataFrame({"sex": ["f", "f", "m", "m"], "town": ["A", "A", "B", "C"]})
    >>> fitted = Suppress(k=2).fit(table)
    >>> isinstance(fitted, Recoder), fitted.n_groups_, float(fitted.loss_)
    (True, 2, 0.25)
    >>> fitted.released_["town"].to_list()
    ['A', 'A', None, None]
    """

    name: ClassVar[str]
    _rules: ClassVar[dict[str, Constraint]] = {}

    k: int
    columns: Sequence[str] | None
    apart: str | None
    labels_: np.ndarray
    n_groups_: int
    released_: pl.DataFrame
    loss_: float
    bound_: float | None
    bound_seconds_: float

    @property
    def gap_(self) -> float | None:
        """How far the loss is above the bound at most, as a share of the loss; 0 where it is proven best."""
        check_fitted(self)
        if self.bound_ is None:
            return None
        return 0.0 if self.loss_ <= 0 else max(0.0, (self.loss_ - self.bound_) / self.loss_)

    def check(self) -> Self:
        """Raise `ParameterError` for the first parameter that is not allowed."""
        params = self.get_params(deep=False)
        check_params(type(self).__name__, self._rules, {name: params[name] for name in self._rules})
        return self

    @abstractmethod
    def fit(self, X: Any, y: None = None) -> Self:
        """Find what every cell is released as."""

    def fit_transform(self, X: Any, y: None = None) -> Any:
        """Fit the table and release it."""
        return self.fit(X, y).transform(X)

    def transform(self, X: Any) -> Any:
        """Release the fitted table: the same kind, the other columns as they are.

        What is released depends on all records, so no other table can be transformed.
        """
        check_fitted(self)
        table = table_of(X, self.columns)
        if not table.equals(self._fitted, null_equal=True):
            raise InputError("What is released was found for the fitted table; fit the other table itself.")
        if is_frame(X):
            return Frame(X).replaced({name: self.released_[name] for name in self.released_.columns})
        return self.released_.to_numpy()

    def _opened(self, X: Any) -> pl.DataFrame:
        """The columns to recode, with at least k records."""
        self.check()
        table = table_of(X, self.columns)
        if table.height < self.k:
            raise InputError(
                f"A class needs k = {self.k} records, so the table must have at least that many. "
                f"Got {table.height}."
            )
        self._fitted = table
        return table

    def _apart(self, X: Any) -> np.ndarray | None:
        """Codes of what k counts instead of records, where that was asked for."""
        if self.apart is None:
            return None
        cells = table_of(X, [self.apart])[self.apart]
        if cells.null_count():
            raise InputError(
                f"Each record must have a value of {self.apart!r}, which k counts. Some have none."
            )
        codes = np.unique(cells.rank("dense").to_numpy(), return_inverse=True)[1].reshape(-1).astype(np.int64)
        if int(codes.max(initial=-1)) + 1 < self.k:
            raise InputError(
                f"A class needs k = {self.k} different values of {self.apart!r}. The table has {int(codes.max()) + 1}."
            )
        return codes


def column_weights(importance: Mapping[str, float] | None, names: Sequence[str]) -> np.ndarray:
    """The importance of each column, 1 unless given."""
    given = {} if importance is None else dict(importance)
    odd = [name for name in given if name not in names]
    if odd:
        raise ParameterError(f"'importance' must name columns of the table. Got {odd[0]!r}.")
    for name, weight in given.items():
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 < float(weight) < float("inf"):
            raise ParameterError(
                f"The importance of column {name!r} must be a number above 0. Got {weight!r}."
            )
    return np.array([float(given.get(name, 1.0)) for name in names])
