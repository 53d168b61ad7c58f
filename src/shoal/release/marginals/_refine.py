"""Conditions on the positions of a release: which share of each position meets them, surely or possibly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import eq, ge, gt, le, lt, ne

import numpy as np

from shoal.dp.meaning.check import has_codes, level_code, number
from shoal.dp.sql.expressions import And, Compare, In, IsNull, Not, Or, Predicate
from shoal.errors import QueryError
from shoal.release.marginals._axes import MarginalAxis

MOST_CELLS = 1 << 22
_COMPARED = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True)
class Pieces:
    """The positions of an axis cut where a condition's constants lie.

    Parameters
    ----------
    of : int array
        The position that each piece belongs to.
    value : float array
        A value of the piece; NaN where the cell is missing.
    share : float array
        Which part of its position a piece is, if values are spread evenly over the declared grid.
    """

    of: np.ndarray
    value: np.ndarray
    share: np.ndarray


@dataclass(frozen=True)
class Met:
    """How far each combination of positions meets a condition.

    Parameters
    ----------
    columns : tuple of str
    surely, possibly : bool arrays
        Whether every, and whether any, value there meets it.
    share : float array
        Which part of the values there does, if they are spread evenly.
    """

    columns: tuple[str, ...]
    surely: np.ndarray
    possibly: np.ndarray
    share: np.ndarray


def leaves(condition: Predicate | None) -> Iterator[Compare | In | IsNull]:
    """The comparisons, lists and null tests in a condition."""
    if isinstance(condition, (And, Or)):
        for part in condition.parts:
            yield from leaves(part)
    elif isinstance(condition, Not):
        yield from leaves(condition.part)
    elif isinstance(condition, (Compare, In, IsNull)):
        yield condition


def meet(condition: Predicate | None, axes: Sequence[MarginalAxis]) -> Met:
    """Evaluate a condition on all combinations of positions of the columns it names."""
    named = {leaf.column for leaf in leaves(condition)}
    used = [each for each in axes if each.name in named]
    pieces = [cut(each, _constants(condition, each)) for each in used]
    if math.prod(len(each.of) for each in pieces) > MOST_CELLS:
        raise QueryError(f"A condition on a release may touch at most {MOST_CELLS} combinations of values.")
    if condition is None:
        return Met((), np.array(True), np.array(True), np.array(1.0))
    shape = [len(each.of) for each in pieces]
    true = np.broadcast_to(_truth(condition, used, pieces)[0], shape)
    share = true.astype(np.float64)
    surely, possibly = true, true
    for axis, each in enumerate(pieces):
        starts = np.searchsorted(each.of, np.arange(each.of[-1] + 1))
        weight = each.share.reshape([-1 if at == axis else 1 for at in range(len(pieces))])
        share = np.add.reduceat(share * weight, starts, axis=axis)
        surely = np.logical_and.reduceat(surely, starts, axis=axis)
        possibly = np.logical_or.reduceat(possibly, starts, axis=axis)
    return Met(tuple(each.name for each in used), surely, possibly, share)


def cut(axis: MarginalAxis, constants: Sequence[float]) -> Pieces:
    """The positions of an axis, bins cut at some constants.

    Examples
    --------
    >>> from shoal.release.marginals._axes import axis
    >>> from shoal.release.marginals._refine import cut
    >>> from shoal.schema import Column
    >>> cut(axis(Column("age", bounds=(0, 9), step=1), bins=[5]), [3.0]).share.tolist()
    [0.6, 0.2, 0.2, 1.0]
    """
    of: list[int] = []
    value: list[float] = []
    share: list[float] = []
    low, high = axis.ends()
    for at in range(axis.known):
        for middle, part in _pieces(axis, float(low[at]), float(high[at]), constants):
            of.append(at)
            value.append(middle)
            share.append(part)
    if axis.missing:
        of, value, share = [*of, axis.known], [*value, math.nan], [*share, 1.0]
    return Pieces(np.array(of), np.array(value), np.array(share))


def _pieces(
    axis: MarginalAxis, low: float, high: float, constants: Sequence[float]
) -> list[tuple[float, float]]:
    inside = sorted({each for each in constants if low <= each <= high})
    if not axis.edges or not inside or low == high:
        return [((low + high) / 2 if axis.edges else low, 1.0)]
    step = axis.step
    ends = [low, *inside, high]
    found = []
    for a, b in pairwise(ends):
        if a > low or a in inside:
            found.append((a, 1.0 if step else 0.0))
        if step is None:
            found.append(((a + b) / 2, b - a))
        else:
            first, last = math.floor((a - low) / step + 1e-9), math.ceil((b - low) / step - 1e-9)
            count = last - first - 1 + (a == low and a not in inside) + (b == high and b not in inside)
            found.append(((a + b) / 2, float(count)))
    if high in inside:
        found.append((high, 1.0 if step else 0.0))
    whole = sum(part for _, part in found) or 1.0
    kept = [(middle, part / whole) for middle, part in found if part > 0 or step is None]
    return list(dict(sorted(kept)).items())


def _constants(condition: Predicate | None, axis: MarginalAxis) -> list[float]:
    found = []
    for leaf in leaves(condition):
        if leaf.column == axis.name and not isinstance(leaf, IsNull):
            values = leaf.values if isinstance(leaf, In) else (leaf.value,)
            found += [_constant(axis, each) for each in values]
    return found


def _constant(axis: MarginalAxis, value: object) -> float:
    if has_codes(axis.column):
        return float(level_code(axis.column, value))
    return number(axis.column, value)


def _truth(
    condition: Predicate, axes: Sequence[MarginalAxis], pieces: Sequence[Pieces]
) -> tuple[np.ndarray, np.ndarray]:
    """Where a condition is true and where it is false; neither where it is unknown."""
    if isinstance(condition, (And, Or)):
        parts = [_truth(each, axes, pieces) for each in condition.parts]
        true, false = parts[0]
        for one, other in parts[1:]:
            if isinstance(condition, And):
                true, false = true & one, false | other
            else:
                true, false = true | one, false & other
        return true, false
    if isinstance(condition, Not):
        true, false = _truth(condition.part, axes, pieces)
        return false, true
    at = next(position for position, each in enumerate(axes) if each.name == condition.column)  # type: ignore[attr-defined]
    value = pieces[at].value
    gone = np.isnan(value)
    shape = [-1 if axis == at else 1 for axis in range(len(axes))]
    if isinstance(condition, IsNull):
        return gone.reshape(shape), (~gone).reshape(shape)
    if isinstance(condition, In):
        true = np.isin(value, [_constant(axes[at], each) for each in condition.values])
    else:
        assert isinstance(condition, Compare)  # there is no other kind
        true = _COMPARED[condition.operator](value, _constant(axes[at], condition.value))
    return (true & ~gone).reshape(shape), (~true & ~gone).reshape(shape)


def impossible(codes: np.ndarray, axes: Sequence[MarginalAxis], zeros: Sequence[Predicate]) -> np.ndarray:
    """Which rows of positions surely have a combination that is declared to be impossible."""
    names = [each.name for each in axes]
    found = np.zeros(len(codes), dtype=bool)
    for each in zeros:
        met = meet(each, axes)
        found |= met.surely[tuple(codes[:, names.index(name)] for name in met.columns)]
    return found
