"""Rules of a schema as edits: what is checked on a table, and by which columns it could be kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from shoal.errors import SchemaError
from shoal.rules._parse import Condition, comparisons_of, conditions_of, ratio_of, tokens_of
from shoal.schema import Rule

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Linear:
    """A sum of columns that is 0, or at most 0 (below 0 if it is strict).

    Examples
    --------
    >>> from shoal.rules import edits_of
    >>> from shoal.schema import Rule
    >>> edits_of([Rule(equal="total = a + b")], ["total", "a", "b"])[0].linear[0]
    Linear(factors=(('total', 1.0), ('a', -1.0), ('b', -1.0)), constant=0.0, equality=True, strict=False)
    """

    factors: tuple[tuple[str, float], ...]
    constant: float
    equality: bool = False
    strict: bool = False

    @property
    def plain(self) -> bool:
        """Whether it compares two cells, or a cell with a constant: then no rounding enters."""
        return len(self.factors) + (self.constant != 0) <= 2 and all(
            abs(each) == 1 for _, each in self.factors
        )

    def value(self, without: str | None = None) -> pl.Expr:
        """The sum, without one of its columns where that is named; NULL where a cell is missing or no number."""
        total = pl.lit(self.constant)
        for name, factor in self.factors:
            if name != without:
                total = total + factor * number(name)
        return total

    def size(self) -> pl.Expr:
        """The sizes of what is added up."""
        size = pl.lit(abs(self.constant))
        for name, factor in self.factors:
            size = size + abs(factor) * number(name).abs()
        return size

    def broken(self, exact: bool = False) -> pl.Expr:
        """Where it does not hold, beyond rounding; where `exact`, an order or a range by any amount."""
        slack = TOLERANCE * pl.max_horizontal(self.size(), pl.lit(1.0))
        if self.equality:
            return self.value().abs() > slack
        if self.strict:
            return self.value() >= 0
        return self.value() > (0.0 if exact else slack)


@dataclass(frozen=True)
class Edit:
    """A rule, ready to be checked.

    Attributes
    ----------
    rule : Rule
    columns : tuple of str
        All columns it names.
    linear : tuple of Linear
        Of sums, orders and ranges.
    ratio : tuple or None
        Lower bound, column above the line, column below it, upper bound.
    conditions : tuple of Condition
        Of an impossible combination.
    exact : bool
        Whether orders and ranges must hold to the last digit, as for rows that are made up. Means of groups may be off
        by their rounding.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.rules import edits_of
    >>> from shoal.schema import Rule
    >>> edit = edits_of([Rule(order="taxes <= income")], ["taxes", "income"])[0]
    >>> edit.columns, edit.broken(pl.DataFrame({"taxes": [10, 30], "income": [20, 20]})).tolist()
    (('taxes', 'income'), [False, True])
    """

    rule: Rule
    columns: tuple[str, ...]
    linear: tuple[Linear, ...] = ()
    ratio: tuple[float | None, str, str, float | None] | None = None
    conditions: tuple[Condition, ...] = ()
    exact: bool = False

    @property
    def kind(self) -> str:
        """Sum, ratio, order, ..."""
        return self.rule.kind

    @property
    def text(self) -> str:
        """What the rule says."""
        return self.rule.text

    @property
    def compared_as_numbers(self) -> tuple[str, ...]:
        """The columns whose cells must be numbers for the rule to say anything."""
        if not self.conditions:
            return self.columns
        pairs = [each for each in self.conditions if not each.is_missing and not isinstance(each.value, str)]
        named = [name for each in pairs for name in (each.column, each.other) if name is not None]
        return tuple(dict.fromkeys(named))

    def broken(self, after: pl.DataFrame, before: pl.DataFrame | None = None) -> np.ndarray:
        """Which records break it; a missing cell breaks nothing. Zeros are compared with the table before."""
        if self.kind == "zero":
            if before is None:
                return np.zeros(after.height, bool)
            was = before.select(number(self.columns[0])).to_series()
            now = after.select(number(self.columns[0])).to_series()
            return ((was == 0) & (now != 0)).fill_null(False).to_numpy()
        return after.select(self._expression().fill_null(False)).to_series().to_numpy()

    def _expression(self) -> pl.Expr:
        if self.kind == "integer":
            cell = number(self.columns[0])
            return (cell - cell.round()).abs() > TOLERANCE * pl.max_horizontal(cell.abs(), pl.lit(1.0))
        if self.ratio is not None:
            low, above, below, high = self.ratio
            quotient = pl.when(number(below) != 0).then(number(above) / number(below))
            size = TOLERANCE * pl.max_horizontal(quotient.abs(), pl.lit(1.0))
            bounds = [quotient < low - size] if low is not None else []
            bounds += [quotient > high + size] if high is not None else []
            return pl.any_horizontal(*bounds)
        if self.conditions:
            return pl.all_horizontal(*(met(each).fill_null(False) for each in self.conditions))
        return pl.any_horizontal(*(each.broken(self.exact).fill_null(False) for each in self.linear))

    def kept_by_means(self, together: Collection[str], positive: Collection[str] = ()) -> bool:
        """Whether means of groups keep it, all its columns being averaged in the same groups.

        A sum or an order is linear, so it holds of a mean where it holds of every member; a ratio too, where the
        column below the line is above 0 throughout.
        """
        if not set(self.columns) <= set(together):
            return False
        if self.ratio is not None:
            return self.ratio[2] in positive
        return bool(self.linear)

    def shape(self, row: pl.DataFrame) -> str:
        """The kinds of the cells of one record, without their values."""
        words = []
        for name in self.columns:
            cell = row[name][0]
            kind = "missing" if cell is None else "text" if isinstance(cell, str) else "number"
            words.append(f"{name} ({kind})")
        return ", ".join(words)


def number(name: str) -> pl.Expr:
    """A column as numbers; NULL where a cell is none, as a coarsened one."""
    return pl.col(name).cast(pl.Float64, strict=False)


def met(condition: Condition) -> pl.Expr:
    """Where a condition holds."""
    cell = pl.col(condition.column)
    if condition.is_missing:
        return cell.is_null()
    if isinstance(condition.value, str):
        left, right = cell.cast(pl.String), pl.lit(condition.value)
    elif condition.other is not None:
        left, right = number(condition.column), number(condition.other)
    else:
        left, right = number(condition.column), pl.lit(float(condition.value))
    return {
        "=": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right,
        ">=": left >= right,
    }[condition.mark]  # fmt: skip


def edits_of(rules: Iterable[Rule], names: Collection[str]) -> tuple[Edit, ...]:
    """The rules of a schema; raises a sentence if one cannot be read or names a column that does not exist.

    Examples
    --------
    >>> from shoal.rules import edits_of
    >>> from shoal.schema import Rule
    >>> edit = edits_of([Rule(order="net <= gross")], ["net", "gross"])[0]
    >>> import polars as pl
    >>> edit.broken(pl.DataFrame({"net": [1, 5, None], "gross": [2, 4, 4]})).tolist()
    [False, True, False]
    """
    found = tuple(_edit(rule) for rule in rules)
    for edit in found:
        odd = [name for name in edit.columns if name not in names]
        if odd:
            raise SchemaError(f"The rule {edit.text!r} names the column {odd[0]!r}, which the table lacks.")
    return found


def within_bounds(name: str, low: float, high: float) -> Edit:
    """The range that a column declares, as a rule beside others.

    Examples
    --------
    >>> from shoal.rules import within_bounds
    >>> import polars as pl
    >>> within_bounds("age", 0, 99).broken(pl.DataFrame({"age": [5, 100]})).tolist()
    [False, True]
    """
    ends = (Linear(((name, -1.0),), float(low)), Linear(((name, 1.0),), -float(high)))
    return Edit(Rule(range=f"{low:g} <= {name} <= {high:g}"), (name,), linear=ends)


def refuse_texts(edits: Iterable[Edit], rows: pl.DataFrame) -> None:
    """Raise a sentence if a rule compares numbers but a column has none, because it would hold for any table.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.rules import edits_of, refuse_texts
    >>> from shoal.schema import Rule
    >>> refuse_texts(edits_of([Rule(range="pay >= 0")], ["pay"]), pl.DataFrame({"pay": ["low", "high"]}))
    Traceback (most recent call last):
        ...
    shoal.errors.SchemaError: The rule 'pay >= 0' compares numbers. The column 'pay' holds none.
    """
    for edit in edits:
        for name in edit.compared_as_numbers:
            if name not in rows.columns or rows.schema[name] not in (pl.String, pl.Categorical, pl.Enum):
                continue
            cells = rows[name].drop_nulls().cast(pl.String)
            if cells.len() and not cells.cast(pl.Float64, strict=False).is_not_null().any():
                raise SchemaError(f"The rule {edit.text!r} compares numbers. The column {name!r} holds none.")


def _edit(rule: Rule) -> Edit:
    text = rule.text
    if rule.kind in ("zero", "integer"):
        words = tokens_of(text)
        if len(words) != 1 or words[0].kind != "name":
            return Edit(rule, (text,))
        return Edit(rule, (words[0].text,))
    if rule.kind == "ratio":
        ratio = ratio_of(text)
        if None not in (ratio[0], ratio[3]) and ratio[0] > ratio[3]:  # type: ignore[operator]
            raise SchemaError(f"The lower bound of the rule {text!r} must not exceed the upper one.")
        return Edit(rule, tuple(dict.fromkeys((ratio[1], ratio[2]))), ratio=ratio)
    if rule.kind in ("impossible", "structural_zero"):
        conditions = tuple(conditions_of(text))
        named = [name for each in conditions for name in (each.column, each.other) if name is not None]
        return Edit(rule, tuple(dict.fromkeys(named)), conditions=conditions)
    linear = []
    for left, mark, right in comparisons_of(text):
        if (mark == "=") != (rule.kind == "equal") or mark == "!=":
            wanted = "=" if rule.kind == "equal" else "<=, <, >= or >"
            raise SchemaError(f"The rule {rule.kind!r} must be written with {wanted}. Got {text!r}.")
        terms = left.minus(right) if mark in ("=", "<=", "<") else right.minus(left)
        if not terms.factors:
            raise SchemaError(f"A rule must name a column. Got {text!r}.")
        linear.append(Linear(terms.factors, terms.constant, mark == "=", mark in ("<", ">")))
    names = tuple(dict.fromkeys(name for each in linear for name, _ in each.factors))
    return Edit(rule, names, linear=tuple(linear))


def linear_of(edit: Edit) -> tuple[Linear, ...]:
    """An edit as sums of columns; of a ratio those that hold where the column below the line is not negative."""
    if edit.ratio is None:
        return edit.linear
    low, above, below, high = edit.ratio
    found = []
    if low is not None:
        found.append(Linear(_merged((below, low), (above, -1.0)), 0.0))
    if high is not None:
        found.append(Linear(_merged((above, 1.0), (below, -high)), 0.0))
    return tuple(found)


def _merged(*terms: tuple[str, float]) -> tuple[tuple[str, float], ...]:
    found: dict[str, float] = {}
    for name, factor in terms:
        found[name] = found.get(name, 0.0) + factor
    return tuple(found.items())
