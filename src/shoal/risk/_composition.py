"""The risk that a household is found by its size and by what all its members are like together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.engine.frame import Frame
from shoal.errors import InputError
from shoal.privacy.cells import cells_of, names_of, opened
from shoal.privacy.classes import classes_of
from shoal.risk._measure import SIZES
from shoal.typing import Json


@dataclass(frozen=True)
class Composition:
    """How many households share their composition.

    Attributes
    ----------
    households : int
    compositions : int
        Different ones: the size, and the members' quasi-identifiers in any order.
    below : mapping of int to int
        Households whose composition fewer than 2, 3 and 5 households share.
    by_size : mapping of int to int
        The same by the size alone.
    largest : int
        Members of the largest household.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"home": [1, 1, 2, 2, 3], "sex": list("mffmm")})
    >>> found = risk.composition(table, "sex", "home")
    >>> found.households, found.compositions, found.largest, dict(found.below)
    (3, 2, 2, {2: 1, 3: 3, 5: 3})
    """

    households: int
    compositions: int
    below: Mapping[int, int]
    by_size: Mapping[int, int]
    largest: int

    def to_dict(self) -> Json:
        """The figures as plain values."""
        return {
            "households": self.households,
            "compositions": self.compositions,
            **{f"below_{size}": count for size, count in self.below.items()},
            **{f"by_size_below_{size}": count for size, count in self.by_size.items()},
            "largest": self.largest,
        }


def composition(frame: Any, quasi: Sequence[str] | str, households: str) -> Composition:
    """Count the households that share their size and their members' quasi-identifiers.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
        What an intruder knows of each member.
    households : str
        Which rows are one household.

    Notes
    -----
    An intruder needs to see which rows are one household: by a published number, or by rows that stand side by side.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"home": [1, 1, 2, 2, 3], "sex": list("mffmm")})
    >>> risk.composition(table, "sex", "home").below[2]
    1
    """
    names = names_of(quasi, "quasi")
    table: Frame = opened(frame, [*names, households])
    members = classes_of(cells_of(table, names)).labels
    cells = cells_of(table, [households])
    if cells[0].missing is not None and cells[0].missing.any():
        raise InputError(f"Each row must have a household. Cells of {households!r} are missing.")
    homes = classes_of(cells).labels
    sizes = np.bincount(homes)
    order = np.lexsort((members, homes))
    # Members in order, one column for each place: equal rows are equal compositions.
    place = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    key = np.zeros(sizes.size, np.int64)
    for at in range(int(sizes.max())):
        here = order[place == at]
        column = np.zeros(sizes.size, np.int64)
        column[homes[here]] = members[here] + 1
        key = np.unique(np.stack([key, column]), axis=1, return_inverse=True)[1].reshape(-1)
    shared, alike = np.bincount(key)[key], np.bincount(sizes)[sizes]
    return Composition(
        int(sizes.size), int(key.max()) + 1, {size: int((shared < size).sum()) for size in SIZES},
        {size: int((alike < size).sum()) for size in SIZES}, int(sizes.max()),
    )  # fmt: skip
