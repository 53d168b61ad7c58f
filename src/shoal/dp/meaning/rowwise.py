"""What an expression means in each row: a total function of that row's cells, with publicly known bounds.

No result depends on another row, and none fails: division by 0, the root of a negative number, an overflow are NULL.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import polars as pl

from shoal.dp.meaning import days, numbers, texts
from shoal.dp.meaning.kinds import (
    Day,
    Kind,
    Levels,
    Nothing,
    Number,
    Text,
    Truth,
    Typed,
    number,
    union,
    wanted,
)
from shoal.dp.sql.expressions import (
    And,
    Call,
    Case,
    Compare,
    Expr,
    FigureOf,
    In,
    IsNull,
    LabelOf,
    Literal,
    Not,
    Or,
    Test,
    col,
    subject,
)
from shoal.errors import QueryError

_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Scope = Callable[[col], Typed]


def compiled(node: Expr, scope: Scope) -> Typed:  # noqa: PLR0911 - a return for each kind
    """An expression as the engine computes it, with what is known of its values.

    Parameters
    ----------
    node : Expr
    scope : callable
        Gives a column's cells and kind.

    Returns
    -------
    Typed
    """
    text = str(node)
    if isinstance(node, col):
        return scope(node)
    if isinstance(node, Literal):
        return _literal(node.value, text)
    if isinstance(node, Call):
        return _call(node, scope, text)
    if isinstance(node, Case):
        return _case(node, scope, text)
    if isinstance(node, (And, Or)):
        joined = operator.and_ if isinstance(node, And) else operator.or_
        parts = [condition(each, scope) for each in node.parts]
        return Typed(Truth(), balanced(joined, parts), text)
    if isinstance(node, Not):
        return Typed(Truth(), ~condition(node.part, scope), text)
    if isinstance(node, Test):
        return Typed(Truth(), condition(node.value, scope), text)
    if isinstance(node, IsNull):
        return Typed(Truth(), compiled(subject(node.column), scope).value.is_null(), text)
    if isinstance(node, In):
        found = compiled(subject(node.column), scope)
        return Typed(Truth(), _in(found, node.values), text)
    if isinstance(node, Compare):
        right = node.value if isinstance(node.value, Expr) else Literal(node.value)
        return Typed(
            Truth(), _compare(compiled(subject(node.column), scope), node.operator, right, scope), text
        )
    if isinstance(node, (FigureOf, LabelOf)):
        raise QueryError(
            f"{text} is a figure of many rows and cannot stand in a row: write a sub-query per unit."
        )
    raise QueryError(f"{text[:80]} cannot be computed in a row.")


def condition(node: Expr, scope: Scope) -> pl.Expr:
    """A condition in three-valued logic."""
    found = compiled(node, scope)
    if isinstance(found.kind, Nothing):
        return pl.lit(None, pl.Boolean)
    wanted(found, Truth, "A condition")
    return found.value


def balanced(joined: Callable[[Any, Any], Any], parts: list[pl.Expr]) -> pl.Expr:
    """Parts joined in pairs, so that a thousand of them are nested ten deep."""
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [joined(*each) if len(each) == 2 else each[0] for each in pairs]
    return parts[0]


def _literal(value: Any, text: str) -> Typed:
    if value is None:
        return Typed(Nothing(), pl.lit(None), text, Literal(None))
    if isinstance(value, bool):
        return Typed(Truth(), pl.lit(value), text, Literal(value))
    if isinstance(value, datetime.date):
        return days.literal(value)
    if isinstance(value, str):
        return Typed(Levels((value,)), pl.lit(0, pl.Int32), text, Literal(value))
    if not isinstance(value, (int, float)) and not hasattr(value, "item"):
        raise QueryError(
            f"A constant must be a number, a text, a date, TRUE or FALSE. Got {type(value).__name__}."
        )
    value = value.item() if hasattr(value, "item") else value
    if math.isnan(value) or abs(value) > 1e300:
        raise QueryError("A number in a query must be below 1e300.")
    return Typed(number(value), pl.lit(float(value)), text, Literal(value))


def _call(node: Call, scope: Scope, text: str) -> Typed:  # noqa: PLR0911 - a return for each kind
    name = node.function
    if name in ("DATE_TRUNC", "DATE_PART", "DATE_DIFF"):
        unit = node.arguments[0]
        found = [compiled(each, scope) for each in node.arguments[1:]]
        if not isinstance(unit, Literal) or unit.value not in (
            "day",
            "isoweek",
            "month",
            "quarter",
            "year",
            "dow",
            "isodow",
            "dayofweek",
            "dayofyear",
        ):
            raise QueryError(f"{name} needs a part of a date. Got {text}.")
        if name == "DATE_PART":
            return days.part(unit.value, found[0], text)
        if name == "DATE_TRUNC":
            return days.truncated(unit.value, found[0], text)
        return days.difference(unit.value, found[0], found[1], text)
    arguments = [compiled(each, scope) for each in node.arguments]
    if name in ("LIKE", "ILIKE"):
        return texts.like(
            arguments[0], str(texts.constant(arguments[1], name)), text, caseless=name == "ILIKE"
        )
    if name in ("+", "-", "*", "/", "%"):
        return reduce(lambda a, b: numbers.arithmetic(name, a, b, text), arguments)
    if name in ("COALESCE", "NULLIF"):
        return _coalesce(arguments, text) if name == "COALESCE" else _null_if(node, arguments, scope, text)
    if name.startswith("CAST:"):
        return _cast(arguments[0], name[5:], text)
    if name in texts.NAMES:
        return texts.text_function(name, arguments, text)
    if name in numbers.NAMES:
        return numbers.scalar(name, arguments, text)
    if name.startswith("DP_INTERVAL"):
        raise QueryError(f"{name} is of a figure, such as {name}(COUNT(*)). Got {text}.")
    raise QueryError(f"The function {name[:40]} is not known here.")


def _case(node: Case, scope: Scope, text: str) -> Typed:
    values = [compiled(value, scope) for _, value in node.branches]
    last = compiled(node.otherwise, scope) if node.otherwise is not None else None
    kind, made = together([*values, *([last] if last is not None else [])], text)
    chain: Any = pl
    for (test, _), value in zip(node.branches, made, strict=False):
        chain = chain.when(condition(test, scope)).then(value)
    return Typed(kind, chain.otherwise(made[-1]) if last is not None else chain.otherwise(None), text)


def _coalesce(arguments: list[Typed], text: str) -> Typed:
    kind, made = together(arguments, text)
    return Typed(kind, pl.coalesce(made), text)


def _null_if(node: Call, arguments: list[Typed], scope: Scope, text: str) -> Typed:
    same = _compare(arguments[0], "=", node.arguments[1], scope)
    return Typed(
        arguments[0].kind, pl.when(same.fill_null(False)).then(None).otherwise(arguments[0].value), text
    )


def together(found: list[Typed], text: str) -> tuple[Kind, list[pl.Expr]]:
    """One kind for several values, and each value as that kind."""
    known = [each for each in found if not isinstance(each.kind, Nothing)]
    if not known:
        return Nothing(), [each.value for each in found]
    first = known[0].kind
    if all(isinstance(each.kind, Number) for each in known):
        return union([each.kind for each in known]), [_filled(each, pl.Float64) for each in found]  # type: ignore[misc]
    if all(isinstance(each.kind, Day) for each in known):
        kinds: Any = [each.kind for each in known]
        low, high = min(each.low for each in kinds), max(each.high for each in kinds)
        return Day(low, high), [_filled(each, pl.Float64) for each in found]
    if all(isinstance(each.kind, Truth) for each in known):
        return Truth(), [_filled(each, pl.Boolean) for each in found]
    if all(isinstance(each.kind, Levels) for each in known):
        levels: Any = [each.kind for each in known]
        merged = tuple(dict.fromkeys(level for each in levels for level in each.texts))
        same = all(each.texts == merged for each in levels)
        kind = Levels(merged, same and levels[0].ordered)
        return kind, [
            pl.lit(None, pl.Int32) if isinstance(each.kind, Nothing) else _into(each, merged)
            for each in found
        ]
    other = next(each for each in known if type(each.kind) is not type(first))
    raise QueryError(f"The values of {text[:80]} must be alike. Got {first.word} and {other.kind.word}.")


def _filled(found: Typed, dtype: Any) -> pl.Expr:
    return pl.lit(None, dtype) if isinstance(found.kind, Nothing) else found.value.cast(dtype)


def _into(found: Typed, merged: tuple[str, ...]) -> pl.Expr:
    kind = found.kind
    assert isinstance(kind, Levels)  # the caller has seen to it
    if kind.texts == merged:
        return found.value
    if found.source is not None:
        return pl.lit(merged.index(kind.texts[0]), pl.Int32)
    return texts.looked_up(found.value, [merged.index(each) for each in kind.texts], pl.Int32)


def _cast(found: Typed, kind: str, text: str) -> Typed:
    if isinstance(found.kind, Nothing):
        return found
    if kind == "VARCHAR":
        return texts.as_text(found, text)
    if kind == "DATE":
        wanted(found, Day, "CAST AS DATE")
        return Typed(found.kind, found.value, text)
    if kind == "BOOLEAN":
        wanted(found, Truth, "CAST AS BOOLEAN")
        return Typed(found.kind, found.value, text)
    if isinstance(found.kind, Truth):
        return truth_number(found, text)
    if isinstance(found.kind, Levels):
        return _text_number(found, kind, text)
    x = wanted(found, Number, f"CAST AS {kind}")
    if kind == "BIGINT" and not x.whole:
        raise QueryError(
            f"{text} rounds or cuts, depending on the dialect of SQL: write ROUND, FLOOR, CEIL or TRUNC."
        )
    return Typed(x, found.value, text)


def truth_number(found: Typed, text: str) -> Typed:
    """A condition as 0 or 1."""
    return Typed(union([number(0), number(1)]), found.value.cast(pl.Float64), text)


def _text_number(found: Typed, kind: str, text: str) -> Typed:
    """A level's digits as a number; a level without digits only is NULL."""
    import re

    from shoal.dp.meaning.check import NUMBER

    levels = texts.levels_of(found, f"CAST AS {kind}")
    pattern = r"[+-]?[0-9]+" if kind == "BIGINT" else NUMBER
    odd = [each for each in levels if not re.fullmatch(pattern, each) or len(each) > 15]
    if odd:
        raise QueryError(f"{text} fails on the level {odd[0]!r}: write CASE for such levels.")
    return texts.numbered(found.value, levels, text)


# Comparisons


def _compare(left: Typed, sign: str, right: Expr, scope: Scope) -> pl.Expr:
    if sign not in _COMPARED:
        raise QueryError(f"A comparison must be one of {', '.join(_COMPARED)}. Got {sign!r}.")
    if isinstance(right, Literal):
        return _constant(left, sign, right.value)
    other = compiled(right, scope)
    if isinstance(left.kind, Number) and isinstance(other.kind, Number):
        return _COMPARED[sign](left.value, other.value)
    if isinstance(left.kind, Day) and isinstance(other.kind, Day):
        return _COMPARED[sign](left.value, other.value)
    if isinstance(left.kind, Truth) and isinstance(other.kind, Truth):
        _unordered(left, sign)
        return _COMPARED[sign](left.value, other.value)
    if isinstance(left.kind, Text) and isinstance(other.kind, Text):
        _unordered(left, sign)
        return _COMPARED[sign](left.value, other.value)
    if isinstance(left.kind, Levels) and isinstance(other.kind, Levels):
        return _levels(left, sign, other)
    raise QueryError(
        f"{left.text} is {left.kind.word} and {other.text} {other.kind.word}: they cannot be compared."
    )


def _levels(left: Typed, sign: str, right: Typed) -> pl.Expr:
    a, b = left.kind, right.kind
    assert isinstance(a, Levels)  # the caller has seen to it
    assert isinstance(b, Levels)
    if a.texts == b.texts and (a.ordered or sign in ("=", "<>")):
        return _COMPARED[sign](left.value, right.value)
    _unordered(left, sign)
    merged = tuple(dict.fromkeys((*a.texts, *b.texts)))
    return _COMPARED[sign](_into(left, merged), _into(right, merged))


def _constant(left: Typed, sign: str, value: Any) -> pl.Expr:
    """A comparison with a constant, as that kind of value is written."""
    if value is None:
        raise QueryError(f"{left.text} is compared with NULL; write IS NULL.")
    if left.source is not None and not isinstance(left.kind, Day) and isinstance(left.source, Literal):
        return _two_constants(left.source.value, sign, value)
    if isinstance(left.kind, (Text, Truth)) or (isinstance(left.kind, Levels) and not left.kind.ordered):
        _unordered(left, sign)
    return _COMPARED[sign](left.value, pl.lit(_stored(left, value), _DTYPES[type(left.kind)]))


def _two_constants(left: Any, sign: str, right: Any) -> pl.Expr:
    number_like = [isinstance(each, (int, float)) and not isinstance(each, bool) for each in (left, right)]
    if (all(number_like) or type(left) is type(right)) and (sign in ("=", "<>") or all(number_like)):
        return pl.lit(bool(_COMPARED[sign](left, right)))
    raise QueryError(f"Two constants of different kinds are compared: {left!r} and {right!r}.")


def _stored(left: Typed, value: Any) -> Any:
    """A constant as the cells it is compared with are kept."""
    kind = left.kind
    if isinstance(kind, Number):
        if isinstance(value, bool) or not (isinstance(value, (int, float)) or hasattr(value, "item")):
            raise QueryError(f"{left.text} is compared with numbers. Got {repr(value)[:60]}.")
        return float(value)
    if isinstance(kind, Day):
        day = value if isinstance(value, datetime.date) else days.read_date(str(value), left.text)
        return float(day.toordinal())
    if isinstance(kind, Truth):
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        raise QueryError(f"{left.text} is compared with TRUE or FALSE. Got {repr(value)[:60]}.")
    if isinstance(kind, Levels):
        return _place(left, value)
    from shoal.dp.meaning.check import level_text

    return level_text(value)


_DTYPES: dict[type, Any] = {
    Number: pl.Float64,
    Day: pl.Float64,
    Truth: pl.Boolean,
    Levels: pl.Int32,
    Text: pl.String,
}


def _place(left: Typed, value: Any) -> int:
    from shoal.dp.meaning.check import level_text

    assert isinstance(left.kind, Levels)  # the caller has seen to it
    shown = level_text(value)
    if shown in left.kind.texts:
        return left.kind.texts.index(shown)
    raise QueryError(
        f"{left.text} is compared with {repr(value)[:60]}, which is not one of its declared levels."
    )


def _in(left: Typed, values: tuple[Any, ...]) -> pl.Expr:
    if not values:
        raise QueryError(f"IN needs at least one value for {left.text}.")
    if isinstance(left.source, Literal) or isinstance(left.kind, Nothing) or None in values:
        return balanced(operator.or_, [_constant(left, "=", each) for each in values])
    cells = [_stored(left, each) for each in values]
    return left.value.is_in(pl.Series(cells, dtype=_DTYPES[type(left.kind)]).implode())


def _unordered(left: Typed, sign: str) -> None:
    if sign not in ("=", "<>"):
        raise QueryError(f"{left.text} has no order: compare it by =, <> or IN. Got {sign}.")
