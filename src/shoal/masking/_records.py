"""Targeted record swapping: units that stand out where they live change places with units like them elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.frame import Frame
from shoal.errors import InputError, ParameterError
from shoal.params import Interval, check_params

_UNIT, _KEY = "__unit__", "__key__"


@dataclass(frozen=True)
class Swapped:
    """A table whose units have changed places.

    Attributes
    ----------
    frame : the same kind as came in
    n_units, n_swapped : int
        Households (or records), and those that live elsewhere now.
    n_risky : int
        Units that stood out at some level.
    n_left : int
        Those of them for which nobody like them lived elsewhere: they stayed.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.masking import swap_records
    >>> table = pl.DataFrame({"town": ["a"] * 4 + ["b"] * 4, "age": [1, 1, 1, 9, 1, 1, 1, 1]})
    >>> done = swap_records(table, ["town"], ["age"], k=2)
    >>> done.n_units, done.n_risky, done.n_swapped, done.n_left
    (8, 1, 2, 0)
    """

    frame: Any
    n_units: int
    n_swapped: int
    n_risky: int
    n_left: int


def swap_records(
    frame: Any,
    areas: Sequence[str],
    risky_by: Sequence[str],
    *,
    similar: Sequence[str] = (),
    households: str | None = None,
    k: int = 3,
    share: float = 0.0,
    random_state: int | np.random.Generator = 0,
) -> Swapped:
    """Swap the places of households that stand out in their area, then of others up to a share.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    areas : sequence of str
        The geography from the largest area to the smallest; what is swapped.
    risky_by : sequence of str
        The columns by which somebody stands out: a household is at risk in an area where fewer than `k` households
        have a member like one of its own.
    similar : sequence of str, default ()
        Columns in which swapped households agree, besides their size.
    households : str, optional
        Which records are one household; each record is its own without it.
    k : int, default 3
    share : float, default 0
        At least this share of the households is swapped at the smallest area.
    random_state : int or numpy.random.Generator, default 0

    Returns
    -------
    Swapped

    Notes
    -----
    From the largest area to the smallest: a household at risk in its area changes places with one that lives in
    another area of this level inside the same larger one, was not swapped yet, is of equal size and agrees in
    `similar`. All areas below that level move along, everything else stays, so that counts by area of all that is
    in `similar` hold exactly. A perturbation without a guarantee of its own.

    References
    ----------
    .. [1] F. de Vries, J. Gussenbauer and others (2019). Recommendations for the protection of hypercubes, centre of
       excellence on statistical disclosure control, for the census of 2021 (targeted record swapping).

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.masking import swap_records
    >>> table = pl.DataFrame({"town": ["a"] * 4 + ["b"] * 4, "age": [1, 1, 1, 9, 1, 1, 1, 1]})
    >>> done = swap_records(table, ["town"], ["age"], k=2)
    >>> done.n_swapped, done.frame["town"].to_list()[3], sorted(done.frame["town"]) == sorted(table["town"])
    (2, 'b', True)
    """
    check_params(
        "swap_records", {"k": Interval(Integral, 2), "share": Interval(Real, 0, 1)}, {"k": k, "share": share}
    )
    if not areas or not risky_by:
        raise ParameterError("'swap_records' needs areas and columns by which somebody stands out. Got none.")
    given = Frame(frame)
    named = [*areas, *risky_by, *similar, *([households] if households else [])]
    given.require(named)
    table = given.to_polars()
    units = table[households] if households else pl.Series(np.arange(table.height))
    of_row = units.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    _, first, unit, sizes = np.unique(of_row, return_index=True, return_inverse=True, return_counts=True)
    unit = unit.reshape(-1)
    geography = np.stack([_codes(table, [name])[first] for name in areas], axis=1)
    for at, name in enumerate(areas):
        if not np.array_equal(_codes(table, [name]), geography[unit, at]):
            raise InputError(f"A household must lie in one area. One has records in two of {name!r}.")
    profile = _numbered(np.column_stack([_codes(table, [name])[first] for name in similar] + [sizes]))
    rng = np.random.default_rng(random_state)
    place, risky, left = _places(geography, _codes(table, list(risky_by)), unit, profile, k, share, rng)
    origin = first[place][unit]
    moved = {name: table[name].gather(origin) for name in areas}
    changed = int((geography[place] != geography).any(axis=1).sum())
    return Swapped(given.replaced(moved), int(first.size), changed, risky, left)


def _places(
    geography: np.ndarray, keys: np.ndarray, unit: np.ndarray, profile: np.ndarray, k: int, share: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, int, int]:  # fmt: skip
    """For each unit the unit whose place it takes; how many stood out, and how many of those stayed."""
    n = geography.shape[0]
    place = np.arange(n)
    done = np.zeros(n, bool)
    ever = np.zeros(n, bool)
    for level in range(geography.shape[1]):
        area = _numbered(geography[:, : level + 1])
        outer = _numbered(geography[:, :level]) if level else np.zeros(n, np.int64)
        risky = _standing_out(area[unit], keys, unit, k)
        ever[risky] = True
        _exchange(risky[~done[risky]], area, outer, profile, place, done, rng)
    area = _numbered(geography)
    outer = _numbered(geography[:, :-1]) if geography.shape[1] > 1 else np.zeros(n, np.int64)
    wanted = int(np.ceil(share * n)) - int(done.sum())
    if wanted > 0:
        open_units = rng.permutation(np.flatnonzero(~done))
        _exchange(open_units, area, outer, profile, place, done, rng, at_most=wanted)
    return place, int(ever.sum()), int((ever & ~done).sum())


def _standing_out(area: np.ndarray, keys: np.ndarray, unit: np.ndarray, k: int) -> np.ndarray:
    """Units with a member whose combination fewer than k units of the area have."""
    cell = _numbered(np.column_stack([area, keys]))
    pairs = np.unique(np.stack([cell, unit]), axis=1)
    homes = np.bincount(pairs[0], minlength=int(cell.max()) + 1)
    return np.unique(unit[homes[cell] < k])


def _exchange(
    who: np.ndarray, area: np.ndarray, outer: np.ndarray, profile: np.ndarray, place: np.ndarray, done: np.ndarray,
    rng: np.random.Generator, at_most: int | None = None,
) -> None:  # fmt: skip
    """Give each of some units a partner of its profile in another area of the same larger one."""
    pools: dict[tuple[int, int], list[int]] = {}
    for each in rng.permutation(np.flatnonzero(~done)).tolist():
        pools.setdefault((int(outer[each]), int(profile[each])), []).append(each)
    swapped = 0
    for each in who.tolist():
        if at_most is not None and swapped >= at_most:
            return
        if done[each]:
            continue
        pool = pools.get((int(outer[each]), int(profile[each])), [])
        at = next(
            (at for at, other in enumerate(pool) if not done[other] and area[other] != area[each]), None
        )
        if at is None:
            continue
        other = pool.pop(at)
        place[each], place[other] = other, each
        done[each] = done[other] = True
        swapped += 2


def _codes(table: pl.DataFrame, names: list[str]) -> np.ndarray:
    return table.select(pl.struct(names).rank("dense").fill_null(0).cast(pl.Int64)).to_series().to_numpy()


def _numbered(columns: np.ndarray) -> np.ndarray:
    return np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
