"""Repair: cells of treated columns are moved, as little as it takes, until every rule holds; row by row.

What a row becomes depends on its own cells alone, so that records alike stay alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from shoal.errors import GuaranteeError
from shoal.rules._edits import Edit, Linear, linear_of, number
from shoal.typing import Json

SWEEPS = 12
# Different rows for which a programme looks for the nearest cells that keep all rules.
MOST_PROGRAMMES = 2_000
_ORDER = ("zero", "integer", "range", "ratio", "order", "equal", "impossible", "structural_zero")


@dataclass(frozen=True)
class KeptRule:
    """What became of one rule.

    Attributes
    ----------
    rule, kind : str
    broken_before : int
        Records of the table as it came that broke it.
    repaired : int
        Records that broke it after protection, or by the repair of another rule, and were repaired.
    broken_after : int
        Records that still break it: none in what is given out.
    how : {"construction", "zeros", "held", "repair"}
        Kept because means of groups keep it; because groups with a zero became zero as a whole, others with it; held
        without a repair; held by repair.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.rules import edits_of, repair
    >>> from shoal.schema import Rule
    >>> edits = edits_of([Rule(order="taxes <= income")], ["taxes", "income"])
    >>> before = pl.DataFrame({"taxes": [10.0, 5.0], "income": [20.0, 20.0]})
    >>> done = repair(before.with_columns(taxes=pl.Series([25.0, 5.0])), before, edits, ["taxes"])
    >>> rule = done.kept[0]
    >>> rule.rule, rule.repaired, rule.broken_after
    ('taxes <= income', 1, 0)
    """

    rule: str
    kind: str
    broken_before: int
    repaired: int
    broken_after: int
    how: str

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return dict(vars(self))

    @property
    def sentence(self) -> str:
        """The facts as a sentence."""
        text = str(self)
        return f"{text[0].upper()}{text[1:]}."

    def __str__(self) -> str:
        how = {
            "construction": "kept by the means of groups",
            "zeros": "kept by groups that are zero as a whole where one record is",
            "held": "kept without a repair",
            "repair": f"kept by repair of {self.repaired:,} records",
        }[self.how]
        was = f"; {self.broken_before:,} records of the input broke it" if self.broken_before else ""
        return f"rule {self.rule!r} ({self.kind.replace('_', ' ')}): {how}{was}"


@dataclass(frozen=True)
class Repaired:
    """A table whose rules hold, and what became of each of them.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.rules import edits_of, repair
    >>> from shoal.schema import Rule
    >>> edits = edits_of([Rule(order="taxes <= income")], ["taxes", "income"])
    >>> before = pl.DataFrame({"taxes": [10.0, 5.0], "income": [20.0, 20.0]})
    >>> done = repair(before.with_columns(taxes=pl.Series([25.0, 5.0])), before, edits, ["taxes"])
    >>> done.table["taxes"].to_list(), len(done.kept)
    ([20.0, 5.0], 1)
    """

    table: pl.DataFrame
    kept: tuple[KeptRule, ...]
    example: str = ""


def repair(
    after: pl.DataFrame,
    before: pl.DataFrame,
    edits: Sequence[Edit],
    treated: Collection[str],
    together: Sequence[Collection[str]] = (),
) -> Repaired:
    """Make the rules hold by moving cells of the treated columns.

    Parameters
    ----------
    after, before : polars.DataFrame
        The protected table and the one it came from, row by row.
    edits : sequence of Edit
    treated : collection of str
        The columns that may be moved: those that protection has changed.
    together : sequence of collections of str, optional
        Sets of columns that were averaged in the same groups.

    Returns
    -------
    Repaired
        Rules that could not be made to hold have `broken_after` above 0.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.rules import edits_of, repair
    >>> from shoal.schema import Rule
    >>> edits = edits_of([Rule(equal="total = a + b")], ["total", "a", "b"])
    >>> before = pl.DataFrame({"total": [3.0, 9.0], "a": [1.0, 4.0], "b": [2.0, 5.0]})
    >>> done = repair(before.with_columns(a=pl.Series([1.0, 7.0])), before, edits, ["a", "total"])
    >>> done.table["total"].to_list(), done.kept[0].repaired
    ([3.0, 12.0], 1)
    """
    was = [int(edit.broken(before, before).sum()) for edit in edits]
    first = [edit.broken(after, before) for edit in edits]
    positive = _above_zero(before) if any(edit.ratio for edit in edits) else set()
    # A rule that only the repair of another one breaks is repaired too.
    ever, table = [each.copy() for each in first], after
    if any(each.any() for each in first):
        table = _swept(after, before, edits, set(treated), ever)
        table = _programmed(table, before, edits, set(treated))
        if any(edit.exact for edit in edits):  # a programme keeps rules up to its own tolerance
            table = _swept(table, before, edits, set(treated), ever)
    moved = {name for name in after.columns if not table[name].equals(after[name])}
    last = [edit.broken(table, before) for edit in edits]
    example = next(
        (edit.shape(table[int(np.argmax(bad))]) for edit, bad in zip(edits, last, strict=True) if bad.any()),
        "",
    )
    kept = tuple(
        KeptRule(
            edit.text, edit.kind, count, int((now & ~bad).sum()), int(bad.sum()),
            "repair" if now.any()
            else "zeros" if edit.kind == "zero" and _zeroed(edit, table, before)
            else "construction"
            if not count and moved.isdisjoint(edit.columns) and any(edit.kept_by_means(each, positive) for each in together)
            else "held",
        )
        for edit, count, now, bad in zip(edits, was, ever, last, strict=True)
    )  # fmt: skip
    return Repaired(table, kept, example)


def added(parts: Iterable[Sequence[KeptRule]]) -> tuple[KeptRule, ...]:
    """What became of each rule in several parts of a table, taken together.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.rules import added, edits_of, repair
    >>> from shoal.schema import Rule
    >>> edits = edits_of([Rule(order="taxes <= income")], ["taxes", "income"])
    >>> before = pl.DataFrame({"taxes": [10.0, 5.0], "income": [20.0, 20.0]})
    >>> done = repair(before.with_columns(taxes=pl.Series([25.0, 5.0])), before, edits, ["taxes"])
    >>> added([done.kept, done.kept])[0].repaired  # the same rule in two parts of a table
    2
    """
    return tuple(_together(each) for each in zip(*parts, strict=True))


def _together(parts: Sequence[KeptRule]) -> KeptRule:
    """One rule over all parts; it was kept by construction only where it was everywhere."""
    how = {each.how for each in parts}
    return replace(
        parts[0],
        broken_before=sum(each.broken_before for each in parts),
        repaired=sum(each.repaired for each in parts),
        broken_after=sum(each.broken_after for each in parts),
        how=next((one for one in ("repair", "zeros", "held") if one in how), "construction"),
    )


def _zeroed(edit: Edit, after: pl.DataFrame, before: pl.DataFrame) -> bool:
    """Whether a cell that was not zero is zero now."""
    was, now = (table.select(number(edit.columns[0])).to_series() for table in (before, after))
    return bool(((was != 0) & (now == 0)).any())


def refuse_unkept(done: Repaired) -> None:
    """Raise `GuaranteeError` if a rule does not hold, with the kinds of cells in the first example but no value.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.rules import edits_of, refuse_unkept, repair
    >>> from shoal.schema import Rule
    >>> edits = edits_of([Rule(order="taxes <= income")], ["taxes", "income"])
    >>> before = pl.DataFrame({"taxes": [10.0, 5.0], "income": [20.0, 20.0]})
    >>> done = repair(before.with_columns(taxes=pl.Series([25.0, 5.0])), before, edits, ["taxes"])
    >>> refuse_unkept(done)  # every rule holds, so nothing is raised
    """
    for each in done.kept:
        if each.broken_after:
            raise GuaranteeError(
                f"The rule {each.rule!r} cannot be kept on {each.broken_after:,} records, so nothing is given out. "
                f"The first has {done.example}."
            )


def _swept(
    table: pl.DataFrame,
    before: pl.DataFrame,
    edits: Sequence[Edit],
    treated: set[str],
    ever: list[np.ndarray],
) -> pl.DataFrame:
    """Rule by rule, again and again until nothing moves; each time another column gives way.

    `ever` has the records in which each rule was broken, and is told of more.
    """
    whole = {edit.columns[0] for edit in edits if edit.kind == "integer"}
    zeros = _zeros(table, before, edits)
    ranked = sorted(range(len(edits)), key=lambda at: _ORDER.index(edits[at].kind))
    for sweep in range(SWEEPS):
        moved = False
        for at in ranked:
            edit, bad = edits[at], edits[at].broken(table, before)
            if bad.any():
                ever[at] |= bad
                table, moved = _mended(table, edit, bad, treated, whole, zeros, sweep), True
        if not moved:
            break
    return table


def _zeros(table: pl.DataFrame, before: pl.DataFrame, edits: Sequence[Edit]) -> dict[str, np.ndarray]:
    """The cells that must stay zero: those that were, and those of records that are published like one of them.

    Where a group became zero as a whole its members look alike, and must after a repair.
    """
    names = [edit.columns[0] for edit in edits if edit.kind == "zero"]
    return {name: (_numbers(before, name) == 0) | (_numbers(table, name) == 0) for name in names}


def _mended(
    table: pl.DataFrame, edit: Edit, bad: np.ndarray, treated: set[str], whole: set[str],
    zeros: dict[str, np.ndarray], sweep: int,
) -> pl.DataFrame:  # fmt: skip
    """One rule made to hold on the rows that break it, where a treated column allows it."""
    name = edit.columns[0]
    if edit.kind == "zero":
        return _with(table, name, np.where(bad, 0.0, _numbers(table, name))) if name in treated else table
    if edit.kind == "integer":
        if name not in treated:
            return table
        values = _numbers(table, name)
        return _with(table, name, np.where(bad, np.rint(values), values))
    if edit.conditions:
        free = [each for each in reversed(edit.columns) if each in treated]
        return table.with_columns(table[free[0]].set(pl.Series(bad), None)) if free else table
    for linear in linear_of(edit):
        table = _moved(table, linear, bad, treated, whole, zeros, sweep)
    return table


def _moved(
    table: pl.DataFrame, linear: Linear, bad: np.ndarray, treated: set[str], whole: set[str],
    zeros: dict[str, np.ndarray], sweep: int,
) -> pl.DataFrame:  # fmt: skip
    """A sum brought to its limit by one of its treated columns."""
    free = [(name, factor) for name, factor in linear.factors if name in treated and factor]
    if not free:
        return table
    name, factor = free[sweep % len(free)]
    rest = table.select(linear.value(without=name)).to_series().fill_null(np.nan).to_numpy()
    values = _numbers(table, name)
    with np.errstate(invalid="ignore"):
        limit = -rest / factor
        over = factor * values + rest
        move = bad & ~np.isnan(limit) & ~np.isnan(values) & ((over != 0) if linear.equality else (over > 0))
        if name in zeros:
            move &= ~zeros[name]
    if not linear.equality and (name in whole or linear.strict):
        step = 1.0 if name in whole else 0.0
        edge = np.floor(limit) if factor > 0 else np.ceil(limit)
        if linear.strict:
            shift = step or 1e-6 * np.maximum(np.abs(limit), 1.0)
            edge = (
                np.where(edge == limit, limit - np.sign(factor) * shift, edge)
                if step
                else limit - np.sign(factor) * shift
            )
        limit = edge
    elif not linear.equality and not linear.plain:  # within, however the sum is added up
        size = table.select(linear.size()).to_series().fill_null(np.nan).to_numpy()
        limit = limit - 4 * np.finfo(float).eps * size / factor
    return _with(table, name, np.where(move, limit, values))


def _programmed(
    table: pl.DataFrame, before: pl.DataFrame, edits: Sequence[Edit], treated: set[str]
) -> pl.DataFrame:
    """Rows whose sums, orders, ratios and ranges still do not hold: the nearest cells that keep them all."""
    numeric = [edit for edit in edits if edit.linear or edit.ratio]
    bad = np.zeros(table.height, bool)
    for edit in numeric:
        bad |= edit.broken(table, before)
    names = list(dict.fromkeys(name for edit in numeric for name in edit.columns))
    free = [name for name in names if name in treated]
    if not bad.any() or not free:
        return table
    zeros = {name: held for name, held in _zeros(table, before, edits).items() if name in free}
    whole = {edit.columns[0] for edit in edits if edit.kind == "integer"}
    rows = np.flatnonzero(bad)
    X = np.stack([_numbers(table, name)[rows] for name in names], axis=1)
    held = np.stack([np.zeros(rows.size)] + [held[rows] for held in zeros.values()], axis=1)
    unique, of_row = np.unique(np.column_stack([X, held]), axis=0, return_inverse=True)
    if unique.shape[0] > MOST_PROGRAMMES:
        return table
    linear = [each for edit in numeric for each in linear_of(edit)]
    solved = np.stack([_nearest(row, names, free, whole, list(zeros), linear) for row in unique])
    for name in free:
        values = _numbers(table, name)
        values[rows] = solved[of_row.reshape(-1), names.index(name)]
        table = _with(table, name, values)
    return table


def _nearest(
    row: np.ndarray, names: Sequence[str], free: Sequence[str], whole: set[str], zeros: Sequence[str],
    linear: Sequence[Linear],
) -> np.ndarray:  # fmt: skip
    """The least sum of relative moves of the free cells after which all sums hold; the row itself where none does."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    p = len(names)
    x, fixed = row[:p], {name for at, name in enumerate(zeros) if row[p + 1 + at]}
    scale = np.maximum(np.abs(np.nan_to_num(x)), 1.0)
    A, low, high = [], [], []
    for each in linear:
        line = np.zeros(2 * p)
        for name, factor in each.factors:
            line[names.index(name)] += factor
        if np.isnan(x[line[:p] != 0]).any():
            continue
        A.append(line)
        margin = 1e-6 if each.strict else 0.0
        low.append(-each.constant if each.equality else -np.inf)
        high.append(-each.constant - margin)
    for j in range(p):  # moves up and down are at most the slack of the cell
        for sign in (1.0, -1.0):
            line = np.zeros(2 * p)
            line[j], line[p + j] = sign, -1.0
            A.append(line)
            low.append(-np.inf)
            high.append(sign * float(np.nan_to_num(x[j])))
    stay = np.array([names[j] not in free or np.isnan(x[j]) or names[j] in fixed for j in range(p)])
    here = np.nan_to_num(x)
    bounds = Bounds(
        np.r_[np.where(stay, here, -np.inf), np.zeros(p)],
        np.r_[np.where(stay, here, np.inf), np.full(p, np.inf)],
    )
    found = milp(
        np.r_[np.zeros(p), 1.0 / scale], constraints=LinearConstraint(np.array(A), low, high), bounds=bounds,
        integrality=np.r_[[name in whole for name in names], np.zeros(p)].astype(int),
    )  # fmt: skip
    if found.x is None:
        return x
    solved = np.where(np.isnan(x), np.nan, found.x[:p])
    return np.where([name in whole for name in names], np.rint(solved), solved)


def _above_zero(table: pl.DataFrame) -> set[str]:
    """Columns of numbers that are all above 0."""
    numeric = [name for name, dtype in table.schema.items() if dtype.is_numeric()]
    return {name for name in numeric if bool((table[name].fill_null(1) > 0).all())}


def _numbers(table: pl.DataFrame, name: str) -> np.ndarray:
    return table.select(number(name)).to_series().fill_null(np.nan).to_numpy().copy()


def _with(table: pl.DataFrame, name: str, values: np.ndarray) -> pl.DataFrame:
    """A column with new numbers, in its own type where that holds them; texts stay where they are no numbers."""
    old = table[name]
    if not old.dtype.is_numeric():
        return table
    new = pl.Series(name, values).fill_nan(None)
    if old.dtype.is_integer() and bool((new.drop_nulls() == new.drop_nulls().round()).all()):
        new = new.round().cast(pl.Int64)
    return table.with_columns(new)
