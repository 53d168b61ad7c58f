"""Bring a partition to l-diversity and t-closeness by swapping records and merging groups at least cost.

Merging never hurts: a union has at least as many different values as its parts, and its spread is a mean of
theirs, so its earth mover's distance is at most the larger one. One single group meets every demand that can
be met at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.encode import group_means, sum_of_squares
from shoal.engine.frame import Frame
from shoal.errors import InputError, ParameterError
from shoal.params import AnyOf, Interval, Options, Unset, check_params
from shoal.privacy._closeness import T_RULE, ValueDistance, distance_for, distance_of, prefixes, tree_mass
from shoal.privacy._moves import (
    DISTINCT,
    EQUAL,
    ORDERED,
    TREE,
    Demands,
    all_excess,
    excess_of,
    one_round,
)
from shoal.privacy._spread import spread_groups

_L_RULE = AnyOf((Unset(), Interval(Integral, 1)))
_MODEL = {"equal": EQUAL, "ordered": ORDERED, "hierarchical": TREE}
_NEIGHBOURS = 12
# Groups that have grown beyond this (or 2k) are only merged: trying swaps would take too long. It takes much
# less time where counts of values decide alone.
_LARGEST_SWAPPED = {False: 32, True: 256}
# Sizes of the groups drawn from slices, over the least one: the least needs repair, larger ones lose more.
_ROOM = (1.0, 1.3, 1.7)


def merge_for_diversity(
    labels: Any, X: Any, sensitive: Any, l: int, *, swap: bool = True, strata: Any = None
) -> np.ndarray:
    """Bring a partition to distinct l-diversity.

    Parameters
    ----------
    labels : array of int, (n_records,)
        Any partition; its smallest group never gets smaller.
    X : array of float, (n_records, n_columns)
        Standardised records: the cost of a move is what it adds to the sum of squares.
    sensitive : array, (n_records,)
        Codes of the sensitive values.
    l : int
        The number of different values each group is to hold.
    swap : bool, default True
        Whether two groups may exchange a record each; otherwise groups are only merged.
    strata : array of int, (n_records,), optional
        Groups of different strata have nothing to do with each other.

    Returns
    -------
    array of int64, (n_records,)
        Labels 0..c-1. Groups may exceed 2k-1.

    Notes
    -----
    In each round every group that misses the demand makes the moves with the least cost per unit of
    what it lacks, among its 12 nearest groups; the result is compared with merging alone, and the one of
    lower sum of squares is given. About O(n log n) for groups of k.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.privacy import merge_for_diversity
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1], [9.0], [9.1]])
    >>> merge_for_diversity([0, 0, 1, 1, 2, 2], X, [7, 7, 8, 8, 7, 8], l=2).tolist()
    [0, 1, 0, 1, 2, 2]
    """
    return _reach_arrays(
        labels, X, [(np.asarray(sensitive), ValueDistance.flat("equal"))], l, None, swap, strata
    )


def merge_for_closeness(
    labels: Any,
    X: Any,
    sensitive: Any,
    t: float,
    *,
    distance: str = "equal",
    swap: bool = True,
    strata: Any = None,
) -> np.ndarray:
    """Bring a partition to t-closeness.

    Parameters
    ----------
    labels, X, swap, strata
        As for `merge_for_diversity`.
    sensitive : array, (n_records,)
        Numbers, or codes of the sensitive values.
    t : float
        The largest earth mover's distance between a group and the table. 0 leaves groups only if each has
        the spread of the table; in general it takes a single one.
    distance : {"equal", "ordered"}, default "equal"
        The distance between two values; see `t_closeness`.

    Returns
    -------
    array of int64, (n_records,)
        Labels 0..c-1. Groups may exceed 2k-1.

    Notes
    -----
    As for `merge_for_diversity`; where swaps are allowed, partitions that start from closeness are tried as
    well, in the manner of the third algorithm of [1]: each group takes one record from each slice of the
    sensitive values. The one of lowest sum of squares is given. That start takes O(n^2 / group size), and is
    left out where it would be more than 2e9 distances.

    References
    ----------
    .. [1] J. Soria-Comas, J. Domingo-Ferrer, D. Sanchez, S. Martinez (2015). t-closeness through
       microaggregation: strict privacy with enhanced utility preservation. IEEE TKDE 27(11), 3098-3110.
       doi:10.1109/TKDE.2015.2435777

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.privacy import merge_for_closeness
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> merge_for_closeness([0, 0, 1, 1], X, [1, 1, 2, 2], t=0.1).tolist()
    [0, 1, 0, 1]
    """
    check_params("merge_for_closeness", {"distance": Options(("equal", "ordered"))}, {"distance": distance})
    return _reach_arrays(
        labels, X, [(np.asarray(sensitive), ValueDistance.flat(distance))], None, t, swap, strata
    )


def reach(
    labels: Any,
    X: Any,
    sensitive: Any,
    *,
    l: int | None = None,
    t: float | None = None,
    distance: str | Mapping[str, str] = "auto",
    levels: Mapping[str, Sequence[Any]] | None = None,
    swap: bool = True,
    strata: Any = None,
    population: Mapping[str, pl.DataFrame] | None = None,
) -> np.ndarray:
    """Bring a partition to l-diversity and t-closeness of all sensitive columns together.

    Parameters
    ----------
    labels, X, swap, strata
        As for `merge_for_diversity`.
    sensitive : pandas.DataFrame, polars.DataFrame, pyarrow.Table
        The sensitive columns of the records, as they will be published.
    l : int, optional
        Different values of each column that a group is to hold.
    t : float, optional
        Largest earth mover's distance between a group and the table, for each column.
    distance, levels
        As for `check`, which verifies what is reached here.
    population : mapping of column name to polars.DataFrame, optional
        Where the records are a part of a table: the different values of each column in the whole table (first column)
        and their rows (second). Closeness is then reached to the whole table.

    Returns
    -------
    array of int64, (n_records,)
        Labels 0..c-1. Groups may exceed 2k-1; the smallest one is never smaller than before.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from shoal.privacy import reach
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> reach([0, 0, 1, 1], X, pl.DataFrame({"disease": ["flu", "flu", "cold", "cold"]}), l=2).tolist()
    [0, 1, 0, 1]
    """
    frame = Frame(sensitive)
    columns, totals = [], []
    for name in frame.columns:
        codes, scale, whole = _coded(
            frame, name, distance_for(distance, name), (levels or {}).get(name), (population or {}).get(name)
        )
        columns.append((codes, scale))
        totals.append(whole)
    return _reach_arrays(labels, X, columns, l, t, swap, strata, totals)


def _coded(
    frame: Frame, name: str, distance: str, levels: Sequence[Any] | None, whole: pl.DataFrame | None
) -> tuple[np.ndarray, ValueDistance, np.ndarray | None]:
    """Codes of a sensitive column, the distance between them, and the rows of each in the whole table if given."""
    if whole is None:
        cells, scale = distance_of(frame, name, distance, levels)
        return cells.codes.astype(np.int64) - cells.base, scale, None
    # The values of the whole table stand below those of the part, so that both get the same codes.
    own = frame.to_polars().select(name)
    both = pl.concat([own, whole.select(pl.nth(0).alias(name).cast(own.schema[name]))])
    cells, scale = distance_of(Frame(both), name, distance, levels)
    codes = cells.codes.astype(np.int64) - cells.base
    n_values = int((scale.height == 0).sum()) if scale.name == "hierarchical" else int(codes.max()) + 1
    totals = np.bincount(codes[own.height :], whole[:, 1].to_numpy(), n_values).astype(np.int64)
    return codes[: own.height], scale, totals


def _reach_arrays(
    labels: Any,
    X: Any,
    columns: list[tuple[np.ndarray, ValueDistance]],
    l: int | None,
    t: float | None,
    swap: bool,
    strata: Any,
    totals: Sequence[np.ndarray | None] = (),
) -> np.ndarray:
    check_params("reach", {"l": _L_RULE, "t": T_RULE}, {"l": l, "t": t})
    X = np.ascontiguousarray(X, dtype=np.float64)
    labels = np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64).reshape(-1)
    parts = np.zeros(labels.size, np.int64) if strata is None else np.asarray(strata)
    parts = np.unique(parts, return_inverse=True)[1].astype(np.int64).reshape(-1)
    for what, length in (
        ("records", X.shape[0]),
        ("strata", parts.size),
        *(("values", c.size) for c, _ in columns),
    ):
        if length != labels.size:
            raise ParameterError(f"There must be as many {what} as labels, {labels.size}. Got {length}.")
    demands = _demands(columns, l, t, totals or [None] * len(columns))
    _refuse_impossible(demands, parts, l)
    counted = bool((demands.model <= EQUAL).all())
    limit = max(_LARGEST_SWAPPED[counted], 2 * int(np.bincount(labels).min()))
    found = [_rounds(X, labels, parts, demands, largest) for largest in ((0, limit) if swap else (0,))]
    if swap and t is not None and found[0].max() < labels.max():
        for room in _ROOM:
            found.append(_rounds(X, _spread(X, labels, parts, demands, room), parts, demands, limit))
    best = min(found, key=lambda each: sum_of_squares(X, each))
    _, first, back = np.unique(best, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[back.reshape(-1)].astype(np.int64)


def _spread(
    X: np.ndarray, labels: np.ndarray, parts: np.ndarray, demands: Demands, room: float
) -> np.ndarray:
    """Another start: groups drawn from slices of the sensitive values, in each stratum where that can be done."""
    k, column = int(np.bincount(labels).min()), int(demands.column[-1])
    out = labels.copy()
    for part in range(int(parts.max()) + 1):
        rows = np.flatnonzero(parts == part)
        found = spread_groups(X, rows, demands, column, k, room)
        if found is not None:
            out[rows] = labels.size * (part + 1) + found
    return np.unique(out, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _demands(
    columns: list[tuple[np.ndarray, ValueDistance]],
    l: int | None,
    t: float | None,
    whole: Sequence[np.ndarray | None],
) -> Demands:
    codes, rows = [], []
    for (values, distance), given in zip(columns, whole, strict=True):
        plain = distance.name == "hierarchical" or given is not None
        dense = values if plain else np.unique(values, return_inverse=True)[1]
        codes.append(dense.astype(np.int64).reshape(-1))
        totals = np.bincount(codes[-1]) if given is None else given
        if distance.name == "hierarchical":
            if given is None:
                totals = np.bincount(codes[-1], minlength=int((distance.height == 0).sum()))
            mass = tree_mass(totals, distance)
        else:
            mass = np.zeros(0, np.int64)
        rows.append((totals, *prefixes(totals), mass, distance.parent, distance.height))
    padded = [_padded([row[at] for row in rows]) for at in range(6)]
    asked = [(DISTINCT, at, float(l)) for at in range(len(columns)) if l is not None]
    asked += [(_MODEL[g.name], at, float(t)) for at, (_, g) in enumerate(columns) if t is not None]
    return Demands(
        codes=np.stack(codes),
        model=np.array([each[0] for each in asked], np.int64),
        column=np.array([each[1] for each in asked], np.int64),
        limit=np.array([each[2] for each in asked], np.float64),
        totals=padded[0].astype(np.int64),
        cumulative=padded[1].astype(np.int64),
        above=padded[2],
        n_values=np.array([row[0].size for row in rows], np.int64),
        mass=padded[3].astype(np.int64),
        parent=padded[4].astype(np.int64),
        height=padded[5].astype(np.int64),
        n_nodes=np.array([row[3].size for row in rows], np.int64),
        population=int(rows[0][0].sum()),
    )


def _padded(rows: list[np.ndarray]) -> np.ndarray:
    out = np.zeros((len(rows), max(row.size for row in rows)))
    for at, row in enumerate(rows):
        out[at, : row.size] = row
    return out


def _refuse_impossible(demands: Demands, parts: np.ndarray, l: int | None) -> None:
    """Raise where not even one group per stratum meets the demands."""
    if l is not None:
        for codes in demands.codes:
            distinct = np.unique(np.stack([parts, codes]), axis=1)[0]
            fewest = int(np.bincount(distinct).min())
            if fewest < l:
                where = "the sensitive column" if parts.max() == 0 else "a stratum of the sensitive column"
                raise InputError(
                    f"l-diversity needs at least l = {l} different values, but {where} has only {fewest}."
                )
    if parts.max() > 0 or demands.population > parts.size:
        scratch = np.zeros(max(demands.mass.shape[1], 1), np.int64)
        for part in range(int(parts.max()) + 1):
            excess = excess_of(demands, np.flatnonzero(parts == part), scratch)
            if excess > 0:
                where = "strata: one stratum" if parts.max() > 0 else "parts of a large table: one part"
                raise InputError(
                    f"t-closeness cannot be reached within the {where} as a whole is farther from the table than "
                    f"t = {demands.limit.max():g}."
                )


def _rounds(
    X: np.ndarray, labels: np.ndarray, parts: np.ndarray, demands: Demands, largest: int
) -> np.ndarray:
    """Rounds over the groups that miss a demand, until there are none; larger groups do not swap."""
    labels = labels.copy()
    while True:
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        excess = all_excess(demands, order, starts)
        short = np.flatnonzero(excess > 0)
        if short.size == 0:
            return labels
        # The smallest first, so that groups grow evenly.
        short = short[np.lexsort((short, sizes[short]))]
        centres = group_means(X, labels)
        nearest = _nearest(centres, parts[order[starts[:-1]]], short)
        labels = one_round(X, labels, order, starts, excess, short, nearest, demands, largest)
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _nearest(centres: np.ndarray, parts: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The nearest groups of each group asked for, itself excluded, within its stratum; -1 where none is."""
    nearest = np.full((asked.size, _NEIGHBOURS), -1, np.int64)
    for part in np.unique(parts[asked]):
        inside = np.flatnonzero(parts == part)
        rows = np.flatnonzero(parts[asked] == part)
        count = min(_NEIGHBOURS + 1, inside.size)
        from scipy.spatial import cKDTree  # takes a while

        found = cKDTree(centres[inside]).query(centres[asked[rows]], k=np.arange(1, count + 1))[1]
        found = inside[found]
        own_last = np.argsort(found == asked[rows][:, None], axis=1, kind="stable")
        nearest[rows, : count - 1] = np.take_along_axis(found, own_last, axis=1)[:, : count - 1]
    return nearest
