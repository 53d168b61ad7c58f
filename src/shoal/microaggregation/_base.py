"""What every microaggregation method is: a scikit-learn estimator over one partition function."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from shoal.engine.encode import Standardiser, group_means, sum_of_squares
from shoal.engine.estimator import Estimator, check_fitted
from shoal.engine.frame import Frame, is_frame
from shoal.errors import InputError, InternalError
from shoal.params import Constraint, check_params


class Microaggregator(Estimator):
    """Common base: standardise, partition, replace each record by its group's centroid.

    A method is a subclass with a `name` for the registry, `_rules` for its parameters and
    `_partition(Z)`, which gets the standardised records and returns a label for each.

    Attributes
    ----------
    labels_ : array of int64, (n_records,)
        The group of each record, from 0 to `n_groups_` - 1.
    n_groups_ : int
    centroids_ : array of float64
        One row for each group, in the units of the data.
    sse_ : float
        Sum of squared distances to the centroids, on standardised columns.
    information_loss_ : float
        100 * SSE / SST on standardised columns.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MDAV, Microaggregator
    >>> fitted = MDAV(k=3).fit(np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]]))
    >>> isinstance(fitted, Microaggregator), fitted.labels_.tolist(), fitted.n_groups_
    (True, [1, 1, 1, 0, 0, 0], 2)
    >>> fitted.centroids_.ravel().tolist(), round(fitted.information_loss_, 2)
    ([11.0, 2.0], 3.19)
    """

    name: ClassVar[str]
    deterministic: ClassVar[bool] = True
    keeps_best: ClassVar[bool] = False  # whether an interrupted `fit` ends with the best partition so far
    _rules: ClassVar[dict[str, Constraint]] = {}

    k: int
    _categories: tuple[tuple[int, int], ...] = ()
    feature_names_in_: np.ndarray
    n_features_in_: int

    if TYPE_CHECKING:

        def __init__(self, **params: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...  # the parameters of each method

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        raise InternalError(f"{type(self).__name__} does not define its partition.")

    def _centres(self, matrix: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """What stands for the records of each group, in the units of the data."""
        return group_means(matrix, labels)

    def _finish(self, Z: np.ndarray) -> None:
        """Keep further figures of the partition."""

    def _keeps_sizes(self) -> bool:
        """Whether every group has k..2k-1 records under the chosen parameters."""
        return True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Partition the records.

        Parameters
        ----------
        X : array, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            In a frame the numeric columns are used; the others are left alone.
        y : ignored
        """
        del y
        matrix = self._matrix(X, reset=True)
        self._standardiser = Standardiser.fit(matrix)
        Z = self._standardiser.transform(matrix)
        self.labels_ = self.partition(Z)
        self.n_groups_ = int(self.labels_.max()) + 1
        self.centroids_ = self._centres(matrix, self.labels_)
        self.sse_ = sum_of_squares(Z, self.labels_)
        total = float(np.einsum("ij,ij->", Z, Z))
        self.information_loss_ = 100.0 * self.sse_ / total if total > 0 else 0.0
        self._finish(Z)
        self._fingerprint = _fingerprint(matrix)
        return self

    def check(self) -> Self:
        """Raise `ParameterError` for the first parameter that is not allowed."""
        params = self.get_params(deep=False)
        rules = {name: rule for name, rule in self._rules.items() if name in params}
        check_params(type(self).__name__, rules, params)
        return self

    def partition(self, Z: np.ndarray, categories: Sequence[tuple[int, int]] = ()) -> np.ndarray:
        """Label records whose coordinates are already comparable, without standardising them.

        Parameters
        ----------
        Z : array of float64, (n_records, n_coordinates)
        categories : sequence of (int, int), default ()
            First coordinate and the one after the last of each column that is published as its mode, one
            coordinate for each level: a search then lowers what is lost by modes. Other methods form groups around
            means.

        Returns
        -------
        array of int64, (n_records,)
            Groups 0..c-1, their sizes checked.
        """
        self.check()
        self._categories = tuple(categories)
        if Z.shape[0] < self.k:
            raise InputError(
                f"A group needs k = {self.k} records, so the table must have at least that many. "
                f"Got n_samples = {Z.shape[0]}."
            )
        labels = self._partition(np.ascontiguousarray(Z, dtype=np.float64))
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int64).reshape(-1)
        sizes = np.bincount(labels)
        if labels.shape[0] != Z.shape[0]:
            raise InternalError(f"{type(self).__name__} labelled {labels.shape[0]} of {Z.shape[0]} records.")
        if self._keeps_sizes() and not (sizes.min() >= self.k and sizes.max() <= 2 * self.k - 1):
            raise InternalError(
                f"{type(self).__name__} made groups of {sizes.min()} to {sizes.max()} records "
                f"where {self.k} to {2 * self.k - 1} were promised."
            )
        return labels

    def for_part(self, n: int, of: int, p: int, categories: Sequence[tuple[int, int]] = ()) -> Self:
        """A copy for n of so many records in p coordinates: a search takes its part of the budget along."""
        del n, of, p, categories
        return self.copy()

    def partition_all(self, Z: np.ndarray, ks: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Label the records for several k, one after the other; methods that can share work do."""
        for k in ks:
            yield k, self.copy().set_params(k=k).partition(Z)

    def transform(self, X: Any) -> Any:
        """Replace records by centroids.

        The fitted table gets the centroids of its own groups. Rows of any other table get the nearest
        centroid: a convenience for new data that carries no guarantee on group sizes.

        Returns
        -------
        the same kind of table
            Integer columns become floats, since a mean seldom is an integer.
        """
        check_fitted(self)
        matrix = self._matrix(X, reset=False)
        labels = self.labels_ if _fingerprint(matrix) == self._fingerprint else self._nearest(matrix)
        masked = self.centroids_[labels]
        if not is_frame(X):
            return self._contained(X, masked)
        frame = Frame(X)
        schema = frame.narwhals.schema
        columns = {}
        for position, column in enumerate(self._columns):
            values = masked[:, position]
            columns[column] = values.astype(np.float32) if str(schema[column]) == "Float32" else values
        return self._contained(X, frame.replaced(columns))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Partition the records and replace them by centroids."""
        return self.fit(X, y).transform(X)

    def _nearest(self, matrix: np.ndarray) -> np.ndarray:
        from scipy.spatial import cKDTree

        tree = cKDTree(self._standardiser.transform(self.centroids_))
        return tree.query(self._standardiser.transform(matrix))[1]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of the output: those of the input."""
        check_fitted(self)
        if hasattr(self, "feature_names_in_"):
            names = self.feature_names_in_
            if input_features is not None and list(input_features) != list(names):
                raise InputError("input_features is not equal to feature_names_in_.")
            return np.asarray(names, dtype=object)
        if input_features is not None:
            if len(input_features) != self.n_features_in_:
                raise InputError("input_features should have length equal to number of features.")
            return np.asarray(input_features, dtype=object)
        return np.asarray([f"x{j}" for j in range(self.n_features_in_)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """The container that `transform` gives: "default", "pandas" or "polars"."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def _contained(self, X: Any, masked: Any) -> Any:
        """What `transform` gives, in the container that was asked for here or in scikit-learn's settings."""
        if not hasattr(self, "_sklearn_output_config") and "sklearn" not in sys.modules:
            return masked
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", masked, X, self)

    def _matrix(self, X: Any, *, reset: bool) -> np.ndarray:
        """The numeric columns as a finite float64 matrix."""
        if not is_frame(X):
            if reset and hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            few = 2 if reset else 1
            from sklearn.utils.validation import validate_data

            with np.errstate(invalid="ignore"):  # it adds up all cells, and huge ones overflow
                checked = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=few)
            return np.ascontiguousarray(checked)
        frame = Frame(X)
        if reset:
            if not frame.numeric_columns():
                raise InputError(f"The table must have a numeric column. It has: {', '.join(frame.columns)}.")
            self._columns = frame.numeric_columns()
            self.feature_names_in_ = np.asarray(frame.columns, dtype=object)
            self.n_features_in_ = len(frame.columns)
        elif frame.columns != list(getattr(self, "feature_names_in_", [])):
            raise InputError(
                "The feature names should match those that were passed during fit. "
                f"Got {', '.join(frame.columns)}."
            )
        return frame.matrix(self._columns)


def _fingerprint(matrix: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(matrix).view(np.uint8).data, digest_size=16).digest()
