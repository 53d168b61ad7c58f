"""A partition that somebody else made, so that what a search chose can be published like any other."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from shoal.errors import InputError
from shoal.microaggregation._base import Microaggregator
from shoal.params import Constraint, Interval


class GivenPartition(Microaggregator):
    """Given groups. Their sizes are checked, and nothing else is changed.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    labels : array of int, (n_records,)
        The group of each record, in the order of the table. Groups may be larger than 2k-1.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import GivenPartition
    >>> X = np.array([[1.0], [2.0], [10.0], [12.0]])
    >>> GivenPartition(k=2, labels=[0, 0, 1, 1]).fit_transform(X).ravel()
    array([ 1.5,  1.5, 11. , 11. ])
    """

    name: ClassVar = "given"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5, labels: Any = ()) -> None:
        self.k = k
        self.labels = labels

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        labels = np.asarray(self.labels)
        if labels.shape != (Z.shape[0],) or not np.issubdtype(labels.dtype, np.integer):
            raise InputError(
                f"'labels' of GivenPartition must be {Z.shape[0]} whole numbers, one for each record. "
                f"Got {labels.size} of {labels.dtype}."
            )
        smallest = int(np.unique(labels, return_counts=True)[1].min())
        if smallest < self.k:
            raise InputError(f"Every given group must have k = {self.k} records. Got one of {smallest}.")
        return labels.astype(np.int64)

    def _keeps_sizes(self) -> bool:
        return False
