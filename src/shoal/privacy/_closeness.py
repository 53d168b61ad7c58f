"""t-closeness: the sensitive values of every class are spread as in the whole table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.compile import kernel
from shoal.engine.frame import Frame
from shoal.errors import ParameterError
from shoal.params import AnyOf, Interval, Options, Unset, check_params
from shoal.privacy._diversity import missing_note
from shoal.privacy._profile import Profile, profile_of
from shoal.privacy._verdict import Verdict
from shoal.privacy.cells import CodedCells, cells_of, is_ordered
from shoal.privacy.classes import Classes, prepared

DISTANCES = ("auto", "equal", "ordered", "hierarchical")
T_RULE = AnyOf((Unset(), Interval(Real, 0, 1)))
_SLACK = 1e-12


def t_closeness(
    frame: Any,
    quasi: Sequence[str] | str,
    sensitive: str,
    *,
    t: float | None = None,
    distance: str = "auto",
    levels: Sequence[Any] | None = None,
) -> Verdict:
    """Check t-closeness of one sensitive column by the earth mover's distance.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
        The columns an intruder is taken to know.
    sensitive : str
        The column whose spread in a class is compared with its spread in the table.
    t : float, optional
        The demand: the largest distance allowed.
    distance : {"auto", "equal", "ordered", "hierarchical"}, default "auto"
        The distance between two values. equal: 1; ordered: the difference of their ranks among the values
        that occur, over the largest one; hierarchical: the height of their lowest common ancestor in
        `levels`, over the height of the tree. auto: ordered for numbers, dates and ordered categories,
        equal for everything else.
    levels : sequence, optional
        For "ordered", the values in order, where the column has no order of its own. For "hierarchical",
        nested lists: ``[["flu", "cold"], ["ulcer", "gastritis"]]``.

    Returns
    -------
    Verdict
        `value` is the achieved t: the distance of the farthest class.

    Notes
    -----
    Sparse in the values of a class: O(n log m) for m different values, whatever the number of classes.
    A missing sensitive cell is a value of its own; in an order it stands last, in a tree it is a branch of
    its own under the root.

    References
    ----------
    .. [1] N. Li, T. Li, S. Venkatasubramanian (2007). t-closeness: privacy beyond k-anonymity and
       l-diversity. ICDE, 106-115. doi:10.1109/ICDE.2007.367856

    Examples
    --------
    The salaries of the example in [1]: the first class has 3k, 4k, 5k of 3k..11k.

    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"zip": ["4767*"] * 3 + ["4790*"] * 3 + ["4760*"] * 3,
    ...                       "salary": [3, 4, 5, 6, 11, 8, 7, 9, 10]})
    >>> verdict = privacy.t_closeness(table, "zip", "salary")
    >>> round(verdict.value, 3), verdict.worst[0].values
    (0.375, {'zip': '4767*'})
    """
    check_params("t_closeness", {"t": T_RULE, "distance": Options(DISTANCES)}, {"t": t, "distance": distance})
    table, classes, coded = prepared(frame, quasi, sensitive)
    cells, scale = distance_of(table, sensitive, distance, levels, coded)
    return closeness_verdict(classes, profile_of(classes, cells), scale, t)


@dataclass(frozen=True)
class ValueDistance:
    """A distance between sensitive codes: equal, by rank, or by a tree."""

    name: str
    parent: np.ndarray
    height: np.ndarray

    @classmethod
    def flat(cls, name: str) -> ValueDistance:
        """A distance that needs no tree."""
        return cls(name, np.zeros(0, np.int64), np.zeros(0, np.int64))


def distance_of(
    frame: Frame,
    name: str,
    distance: str = "auto",
    levels: Sequence[Any] | None = None,
    coded: CodedCells | None = None,
) -> tuple[CodedCells, ValueDistance]:
    """The sensitive column with codes that suit a distance, and that distance."""
    cells = (
        coded if coded is not None and coded.values is not None else cells_of(frame, [name], dense=True)[0]
    )
    if distance == "auto":
        distance = "ordered" if levels is not None or is_ordered(frame, name) else "equal"
    if distance == "equal":
        return cells, ValueDistance.flat("equal")
    if distance == "ordered":
        renumbered = _ranks(frame, cells, levels)
        scale = ValueDistance.flat("ordered")
    else:
        if levels is None:
            raise ParameterError(
                "'levels' of t_closeness must be nested lists for the hierarchical distance. Got None."
            )
        renumbered, parent, height = _tree(cells, levels)
        scale = ValueDistance("hierarchical", parent, height)
    codes = renumbered[cells.codes.astype(np.int64)]
    span = cells.span if distance == "ordered" else int((scale.height == 0).sum())
    return CodedCells(name, codes, 0, span, cells.missing, cells.source), scale


def distance_for(distance: str | Mapping[str, str], name: str) -> str:
    """The distance that was asked for one column."""
    chosen = distance if isinstance(distance, str) else distance.get(name, "auto")
    check_params("check", {"distance": Options(DISTANCES)}, {"distance": chosen})
    return chosen


def closeness_verdict(
    classes: Classes, profile: Profile, distance: ValueDistance, t: float | None
) -> Verdict:
    """The verdict on classes already found."""
    figures = closeness_figures(profile.codes, profile.starts, profile.totals, distance)
    value = float(figures.max())
    above = figures > (2.0 if t is None else t + _SLACK)
    missing = classes.missing()
    if profile.cells.n_missing:
        missing[profile.cells.name] = profile.cells.n_missing
    return Verdict(
        model=f"t-closeness ({distance.name} distance)",
        quasi=classes.names,
        sensitive=profile.cells.name,
        value=value,
        limit=t,
        holds=None if t is None else not bool(above.any()),
        n_records=classes.n_records,
        n_classes=classes.n_classes,
        worst=classes.worst(figures, lowest=False),
        records_at_risk=None if t is None else int(classes.sizes[above].sum()),
        missing=missing,
        missing_records=classes.missing_records(),
        labels=classes.labels,
        classes_at_risk=None if t is None else above,
        notes=missing_note(profile),
    )


def closeness_figures(
    codes: np.ndarray, starts: np.ndarray, totals: np.ndarray, distance: ValueDistance
) -> np.ndarray:
    """The distance of each class to the whole table."""
    if distance.name == "equal":
        return _equal(codes, starts, totals)
    if distance.name == "ordered":
        cumulative, above = prefixes(totals)
        return _ordered(codes, starts, cumulative, above)
    mass = tree_mass(totals, distance)
    return _hierarchical(codes, starts, mass, distance.parent, distance.height)


def spread_distance(
    values: pl.Series,
    totals: np.ndarray,
    counts: np.ndarray,
    distance: str = "auto",
    levels: Sequence[Any] | None = None,
) -> float:
    """Earth mover's distance between two distributions over the same values: of a table, and of a part of it.

    Parameters
    ----------
    values : polars.Series
        Different values.
    totals, counts : arrays of int
        Rows of each value in the table and in the part.
    distance, levels
        As for `t_closeness`.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.privacy import spread_distance
    >>> spread_distance(pl.Series(["flu", "cold"]), [5, 5], [1, 3])
    0.25
    """
    frame = Frame(values.alias("value").to_frame())
    cells, scale = distance_of(frame, "value", distance, levels)
    codes = cells.codes.astype(np.int64) - cells.base
    n_values = int((scale.height == 0).sum()) if scale.name == "hierarchical" else int(codes.max()) + 1
    whole = np.bincount(codes, np.asarray(totals, float), n_values).astype(np.int64)
    part = np.sort(np.repeat(codes, np.asarray(counts, np.int64)))
    return float(closeness_figures(part, np.array([0, part.size]), whole, scale)[0])


def prefixes(totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cumulative counts over the values in order, and their own cumulative sums from zero."""
    cumulative = np.cumsum(totals)
    return cumulative, np.concatenate([[0.0], np.cumsum(cumulative.astype(np.float64))])


def tree_mass(totals: np.ndarray, distance: ValueDistance) -> np.ndarray:
    """Records of the whole table below each node."""
    mass = np.zeros(distance.parent.shape[0], np.int64)
    mass[: totals.shape[0]] = totals
    for node in range(mass.shape[0] - 1):  # children have smaller numbers than parents
        mass[distance.parent[node]] += mass[node]
    return mass


def _ranks(frame: Frame, cells: CodedCells, levels: Sequence[Any] | None) -> np.ndarray:
    """The rank of each code among the values that occur; missing cells last."""
    rank = np.empty(cells.span, np.int64)
    if levels is not None:
        position = {level: at for at, level in enumerate(levels)}
        values = _values(cells, position)
        order = sorted(range(cells.span), key=lambda code: position.get(values[code], len(position)))
        rank[order] = np.arange(cells.span)
        return rank
    if not is_ordered(frame, cells.name):
        raise ParameterError(
            f"Column {cells.name!r} has no order of its own, so 'levels' must list its values in order. Got None."
        )
    if isinstance(cells.values, list):  # levels of an ordered category come in their order
        return np.arange(cells.span)
    import pyarrow.compute as pc  # slow to load, and needed for ordered columns alone

    order = pc.array_sort_indices(cells.values, null_placement="at_end")
    rank[order.to_numpy(zero_copy_only=False)] = np.arange(cells.span)
    return rank


def _values(cells: CodedCells, known: Any) -> list[Any]:
    """The value of each code, None for the missing one; refuses values that are not known."""
    values = cells.values if isinstance(cells.values, list) else cells.values.to_pylist()
    for value in values:
        if value is not None and value not in known:
            raise ParameterError(
                f"'levels' must list every value of column {cells.name!r}. It lacks {value!r}."
            )
    return list(values)


def _tree(cells: CodedCells, levels: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leaf of each code; parent and height of each node, leaves first and the root last."""
    leaves: dict[Any, int] = {}
    inner: list[tuple[list[tuple[bool, int]], int]] = []

    def walk(node: Any) -> tuple[bool, int, int]:
        if not isinstance(node, (list, tuple)):
            if node in leaves:
                raise ParameterError(f"'levels' must list every value once. Got {node!r} again.")
            leaves[node] = len(leaves)
            return True, leaves[node], 0
        if not node:
            raise ParameterError("'levels' may not hold an empty list. Got one.")
        children = [walk(child) for child in node]
        inner.append(([child[:2] for child in children], 1 + max(child[2] for child in children)))
        return False, len(inner) - 1, inner[-1][1]

    walk(list(levels))
    values = _values(cells, leaves)
    n_leaves = len(leaves) + (None in values)
    parent = np.full(n_leaves + len(inner), -1, np.int64)
    height = np.zeros(parent.shape[0], np.int64)
    parent[n_leaves - 1] = parent.shape[0] - 1  # the missing leaf, if there is one
    for at, (children, tall) in enumerate(inner):
        height[n_leaves + at] = tall
        for is_leaf, child in children:
            parent[child if is_leaf else n_leaves + child] = n_leaves + at
    leaf = np.array([n_leaves - 1 if value is None else leaves[value] for value in values], np.int64)
    return leaf, parent, height


# Kernels: sorted codes per class in, one distance per class out. Only the values of a class are visited.


@kernel()
def _equal(codes, starts, totals):
    out = np.zeros(starts.shape[0] - 1)
    n = totals.sum()
    for g in range(out.shape[0]):
        out[g] = equal_distance(codes, starts[g], starts[g + 1], totals, n)
    return out


@kernel()
def _ordered(codes, starts, cumulative, above):
    out = np.zeros(starts.shape[0] - 1)
    for g in range(out.shape[0]):
        out[g] = ordered_distance(codes, starts[g], starts[g + 1], cumulative, above)
    return out


@kernel()
def _hierarchical(codes, starts, mass, parent, height):
    out = np.zeros(starts.shape[0] - 1)
    inside = np.zeros(mass.shape[0], np.int64)
    for g in range(out.shape[0]):
        out[g] = tree_distance(codes, starts[g], starts[g + 1], mass, parent, height, inside)
    return out


@kernel()
def equal_distance(codes, low, high, totals, n):
    """Total variation: the share that the class has above the table, summed over its values."""
    size = high - low
    distance = 0.0
    run = 1
    for i in range(low + 1, high + 1):
        if i < high and codes[i] == codes[i - 1]:
            run += 1
        else:
            surplus = run / size - totals[codes[i - 1]] / n
            if surplus > 0.0:
                distance += surplus
            run = 1
    return distance


@kernel()
def ordered_distance(codes, low, high, cumulative, above):
    """Sum of |cumulative difference| over ranks, over m - 1.

    Between two neighbouring values of the class its own cumulative share is constant, and the table's
    rises: the sign changes once, at a place found by bisection.
    """
    m = cumulative.shape[0]
    if m < 2:
        return 0.0
    n = cumulative[m - 1]
    size = high - low
    distance = above[codes[low]] / n  # before its first value the class has nothing
    for i in range(low, high):
        if i + 1 < high and codes[i + 1] == codes[i]:
            continue
        share = (i + 1 - low) / size
        begin = codes[i]
        end = codes[i + 1] if i + 1 < high else m
        left, right = begin, end
        while left < right:
            middle = (left + right) // 2
            if cumulative[middle] / n <= share:
                left = middle + 1
            else:
                right = middle
        distance += (left - begin) * share - (above[left] - above[begin]) / n
        distance += (above[end] - above[left]) / n - (end - left) * share
    return max(distance, 0.0) / (m - 1)


@kernel()
def tree_distance(codes, low, high, mass, parent, height, inside):
    """Sum over nodes of height/H times the smaller of what its children have too much and too little.

    The smaller one is the children's surplus less the node's own, so the sum is that of every node's surplus
    times the step in height to its parent; nodes without records of the class have none. `inside` is
    scratch, zero on entry and on return.
    """
    root = mass.shape[0] - 1
    n = mass[root]
    size = high - low
    for i in range(low, high):
        node = codes[i]
        while node >= 0:
            inside[node] += 1
            node = parent[node]
    distance = 0.0
    for i in range(low, high):
        node = codes[i]
        while node != root and inside[node] > 0:
            above = parent[node]
            surplus = inside[node] / size - mass[node] / n
            if surplus > 0.0:
                distance += surplus * (height[above] - height[node]) / height[root]
            inside[node] = 0
            node = above
    inside[root] = 0
    return distance
