"""Local suppression: single cells made missing until everyone hides among k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from shoal.errors import InternalError, ParameterError
from shoal.generalization._base import Recoder, column_weights
from shoal.generalization._conditions import Conditions
from shoal.generalization._hierarchy import Hierarchy
from shoal.generalization._lattice import Lattice
from shoal.generalization._local import recode_locally
from shoal.generalization._readings import exposed, suppress_own, suppress_subsets, suppress_wildcards
from shoal.params import AnyOf, Constraint, Interval, Options, Unset

READINGS = ("strict", "own", "wildcard")


class Suppress(Recoder):
    """Make as few cells as possible missing, so that every record has the same values as at least `k` - 1 others.

    Parameters
    ----------
    k : int, default 5
    reading : {"strict", "own", "wildcard"}, default "strict"
        What a missing cell means. "strict": a value of its own, so every released combination occurs k times.
        "own": each record, without its missing cells, agrees with k - 1 other original records; whoever knows
        the persons may still find some of them. "wildcard": a missing cell agrees with everything, on both
        sides, as sdcMicro counts; for comparison only.
    importance : dict of column to float, optional
        What a cell of a column costs, 1 unless given.
    subsets : int, optional
        Under reading "own": only combinations of up to so many keys need to occur k times.
    columns : sequence of str, optional
        The keys; all columns unless given.
    apart : str, optional
        A column, households for one, of which every class must hold k different values: k counts them instead of
        records. For the reading "strict"; give `columns` as well.
    time_limit : float, optional
        Seconds for each programme; left open, work is counted instead and a run repeats.
    certify : bool or "full", default True
        Prove how many cells any release must lose; "full" with as much work as that takes, minutes perhaps.
    proposals : int, default 200
        Of the search, for each record that loses a cell.
    random_state : int, default 0

    Attributes
    ----------
    mask_ : array of bool, (n_records, n_columns)
        Which cells are made missing.
    suppressed_ : dict of column to int
        Cells lost in each column.
    cost_ : float
        Importance of the cells lost, summed.
    exposed_ : int or None
        Persons who agree with fewer than k released records; 0 under the strict reading.

    Notes
    -----
    Strict suppression is recoding with two levels, the value and nothing, and is solved by the same engine:
    a search, then a facility programme whose relaxation proves the bound. "own" is exact. Cells that came
    missing count as a value.

    References
    ----------
    .. [1] P. Samarati, L. Sweeney (1998). Protecting privacy when disclosing information. SRI-CSL-98-04.
    .. [2] M. Templ, A. Kowarik, B. Meindl (2015). Statistical disclosure control for micro-data using the R
       package sdcMicro. Journal of Statistical Software 67(4). doi:10.18637/jss.v067.i04

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.generalization import Suppress
    >>> frame = pl.DataFrame({"sex": list("mmmfff"), "job": ["a", "a", "b", "c", "c", "c"]})
    >>> done = Suppress(k=3).fit(frame)
    >>> done.suppressed_, bool(done.bound_ == done.loss_)
    ({'sex': 0, 'job': 3}, True)
    >>> done.transform(frame)["job"].to_list()
    [None, None, None, 'c', 'c', 'c']
    """

    name: ClassVar[str] = "suppress"
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "reading": Options(READINGS),
        "subsets": AnyOf((Unset(), Interval(Integral, 1))),
        "time_limit": AnyOf((Unset(), Interval(Real, 0))),
        "certify": Options((True, False, "full")),
        "proposals": Interval(Integral, 0),
        "random_state": Interval(Integral, 0),
    }

    def __init__(
        self,
        k: int = 5,
        *,
        reading: str = "strict",
        importance: Mapping[str, float] | None = None,
        subsets: int | None = None,
        columns: Sequence[str] | None = None,
        apart: str | None = None,
        time_limit: float | None = None,
        certify: bool | str = True,
        proposals: int = 200,
        random_state: int = 0,
    ) -> None:
        self.k = k
        self.reading = reading
        self.importance = importance
        self.subsets = subsets
        self.columns = columns
        self.apart = apart
        self.time_limit = time_limit
        self.certify = certify
        self.proposals = proposals
        self.random_state = random_state

    def check(self) -> Self:
        """Raise `ParameterError` for the first parameter that is not allowed, or for two that exclude each other."""
        super().check()
        if self.subsets is not None and self.reading != "own":
            raise ParameterError(
                "'subsets' of Suppress is for the reading 'own': under 'strict' whole combinations occur k times, "
                f"and so do all parts of them. Got the reading {self.reading!r}."
            )
        if self.apart is not None and self.reading != "strict":
            raise ParameterError(
                "'apart' of Suppress is for the reading 'strict': others count records. "
                f"Got the reading {self.reading!r}."
            )
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the cells to make missing.

        Parameters
        ----------
        X : pandas.DataFrame, polars.DataFrame, pyarrow.Table or array
        y : ignored
        """
        del y
        table = self._opened(X)
        conditions = Conditions(self.k, apart=self._apart(X))
        weights = column_weights(self.importance, table.columns)
        lattice = masks_of(table, weights)
        self.mask_, bound = self._chosen(lattice, weights, conditions)
        self._settle(table, lattice, weights, bound)
        return self

    def _chosen(
        self, lattice: Lattice, weights: np.ndarray, conditions: Conditions
    ) -> tuple[np.ndarray, float | None]:
        """The cells to lose, and what they cost at least in all."""
        self.bound_seconds_ = 0.0
        if self.reading == "strict":
            unit = 1.0 if bool(np.all(weights == np.rint(weights))) else 0.0
            found = recode_locally(
                lattice, conditions, proposals=self.proposals, unit=unit, certify=self.certify,
                time_limit=self.time_limit, random_state=self.random_state,
            )  # fmt: skip
            self.bound_seconds_ = found.seconds
            # A column with one value only has one level, and keeps it.
            gone = found.nodes >= np.array([len(tree.leaves) for tree in lattice.hierarchies])
            return gone[found.labels], None if found.bound is None else found.bound * lattice.n_records
        if self.reading == "wildcard":
            return suppress_wildcards(lattice.tuples[lattice.of_row], self.k, weights), None
        if self.subsets is not None:
            mask = suppress_subsets(lattice, self.k, min(self.subsets, weights.size))
        else:
            mask = suppress_own(lattice, self.k)
        return mask[lattice.of_row], float((mask * weights).sum(axis=1) @ lattice.counts)

    def _settle(
        self, table: pl.DataFrame, lattice: Lattice, weights: np.ndarray, bound: float | None
    ) -> None:
        """The figures, counted on what is released."""
        mask = self.mask_
        cells = mask.size if weights.sum() == 0 else weights.sum() * table.height
        self.cost_ = float((mask * weights).sum())
        self.loss_ = self.cost_ / cells
        self.bound_ = None if bound is None else min(self.loss_, bound / cells)
        self.suppressed_ = {name: int(mask[:, c].sum()) for c, name in enumerate(table.columns)}
        rows = np.where(mask, -1, lattice.tuples[lattice.of_row])
        released, labels, many = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        self.labels_ = labels.reshape(-1).astype(np.int64)
        self.n_groups_ = released.shape[0]
        if self.reading == "strict" and int(many.min()) < self.k:
            raise InternalError(f"A combination occurs {many.min()} times where {self.k} were promised.")
        self.exposed_ = (
            0 if self.reading == "strict" else exposed(lattice.tuples, lattice.counts, released, many, self.k)
        )
        self.released_ = table.with_columns(
            table[name].set(pl.Series(mask[:, c]), None) if mask[:, c].any() else table[name]
            for c, name in enumerate(table.columns)
        )


def masks_of(table: pl.DataFrame, weights: np.ndarray) -> Lattice:
    """The lattice of masks of a table: each column a value or nothing, a lost cell costs its importance."""
    codes, trees, costs = [], [], []
    for c, name in enumerate(table.columns):
        cells = table[name].fill_nan(None) if table[name].dtype.is_float() else table[name]
        numbers = cells.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        values, coded = np.unique(numbers, return_inverse=True)
        tree = Hierarchy.flat(name, values.tolist())
        codes.append(coded.reshape(-1))
        trees.append(tree)
        costs.append(np.where(np.arange(tree.n_nodes) >= values.size, weights[c], 0.0))
    return Lattice.of(np.stack(codes, axis=1), trees, costs)
