"""What two releases about the same people tell together: the classes of one cut by the classes of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from shoal.errors import InputError
from shoal.privacy.cells import cells_of, names_of, opened
from shoal.privacy.classes import classes_of
from shoal.typing import Json


@dataclass(frozen=True)
class Intersection:
    """Two releases compared row by row.

    Attributes
    ----------
    n_records : int
    k : int
        Smallest class of what both releases say together.
    below : int
        Records in classes of fewer than the k asked for, of both together.
    coarser : bool
        Whether one release adds nothing to the other: every class of the finer lies in one class of the coarser.
    nested : {"new in earlier", "earlier in new", "equal", "neither"}
        Which one is the finer.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> fine = pl.DataFrame({"age": ["20-29", "20-29", "30-39", "30-39"]})
    >>> coarse = pl.DataFrame({"age": ["20-39"] * 4})
    >>> found = risk.intersection(fine, coarse, 2, columns="age", earlier_columns="age")
    >>> found.k, found.below, found.coarser, found.nested
    (2, 0, True, 'earlier in new')
    """

    n_records: int
    k: int
    below: int
    coarser: bool
    nested: str

    def to_dict(self) -> Json:
        """The figures as plain values."""
        return dict(vars(self))

    def __str__(self) -> str:
        if self.nested in ("equal", "earlier in new"):
            return "the earlier release is as fine or finer, so that this one adds nothing to it"
        if self.nested == "new in earlier":
            return "this release is finer than the earlier one, which adds nothing to it"
        return (
            f"with the earlier release {self.below:,} of {self.n_records:,} records share all that both say with fewer "
            f"than asked for; the smallest class of both together has {self.k:,}"
        )


def intersection(
    earlier: Any, new: Any, k: int, *, columns: Sequence[str] | str, earlier_columns: Sequence[str] | str
) -> Intersection:
    """Count the classes that two releases of the same rows, in the same order, make together.

    Parameters
    ----------
    earlier, new : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        Row i of both is about the same person: the custodian has both in the order of the original.
    k : int
        Smallest class wanted.
    columns, earlier_columns : str or sequence of str
        The quasi-identifiers published in each.

    Notes
    -----
    Whoever holds the originals of a person finds a class in each release, and the person is in both. Two independent
    k-anonymous versions of one table are not k-anonymous together; a version coarsened from the other is.

    References
    ----------
    .. [1] S. R. Ganta, S. P. Kasiviswanathan, A. Smith (2008). Composition attacks and auxiliary information in data
       privacy. KDD 2008, 265-273. doi:10.1145/1401890.1401926

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> old = pl.DataFrame({"age": ["a", "a", "b", "b"]})
    >>> new = pl.DataFrame({"age": ["x", "y", "x", "y"]})
    >>> found = risk.intersection(old, new, 2, columns="age", earlier_columns="age")
    >>> found.k, found.below, found.nested
    (1, 4, 'neither')
    """
    names, before = names_of(columns, "columns"), names_of(earlier_columns, "earlier_columns")
    ours, theirs = opened(new, names), opened(earlier, before)
    a = classes_of(cells_of(ours, names)).labels
    b = classes_of(cells_of(theirs, before)).labels
    return joint_classes(pl.Series("earlier", b), pl.Series("new", a), k)


def joint_classes(earlier: pl.Series, new: pl.Series, k: int) -> Intersection:
    """Count the classes that two releases make together, from the class of each row in either.

    Parameters
    ----------
    earlier, new : polars.Series
        A number for the class of each row; row i of both is about the same person.
    k : int
        Smallest class wanted.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> risk.joint_classes(pl.Series([0, 0, 1, 1]), pl.Series([5, 5, 5, 5]), 2).nested
    'earlier in new'
    """
    if earlier.len() != new.len():
        raise InputError(
            f"The earlier release must have the rows of this table, in its order. Got {earlier.len():,} rows for "
            f"{new.len():,}."
        )
    both = pl.DataFrame([earlier.alias("earlier"), new.alias("new")])
    sizes = both.group_by("earlier", "new").len()["len"]
    finer_new, finer_old = sizes.len() == new.n_unique(), sizes.len() == earlier.n_unique()
    nested = (
        "equal" if finer_new and finer_old
        else "new in earlier" if finer_new
        else "earlier in new" if finer_old
        else "neither"
    )  # fmt: skip
    below = int(sizes.filter(sizes < k).sum())
    return Intersection(both.height, int(sizes.to_numpy().min()), below, finer_new or finer_old, nested)
