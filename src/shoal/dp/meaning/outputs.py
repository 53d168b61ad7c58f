"""What is made of noisy figures: arithmetic, choices and order, after the noise.

This is post-processing: it sees noisy figures, their intervals and public labels only, and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.dp.meaning.kinds import INF, Number, interval
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
    subject,
)
from shoal.dp.sql.query import Order
from shoal.dp.sql.tree import walk
from shoal.errors import QueryError

Ends = tuple[float, float] | None
MADE = (
    "made of noisy figures: {} is computed after the noise, and its interval holds with {} % probability if no figure in it "
    "was cut or clamped"
)
CHOSEN = (
    "groups were chosen or ordered by noisy figures; an interval is of a figure as drawn, before the choice"
)


@dataclass(frozen=True)
class Shown:
    """A value and the ends of its interval; None where there is none."""

    value: Any
    ends: Ends = None


@dataclass(frozen=True)
class Row:
    """One group: its figures by their text, and its labels."""

    figures: dict[str, Shown]
    labels: tuple[Any, ...]
    grouped: tuple[int, ...]


def figures_in(node: Expr) -> list[str]:
    """The figures that an expression is made of."""
    return list(dict.fromkeys(str(each) for each in walk(node) if isinstance(each, FigureOf)))


def check_output(node: Expr) -> None:
    """Raise `QueryError` unless an expression of figures can be computed; its shape alone decides."""
    for each in walk(node):
        if isinstance(each, Call) and each.function not in _KNOWN and not each.function.startswith("CAST:"):
            raise QueryError(f"{each.function} of figures is not answered. Known are {', '.join(_KNOWN)}.")
        if (
            isinstance(each, Call)
            and each.function.startswith("CAST:")
            and each.function[5:] not in ("BIGINT", "DOUBLE")
        ):
            raise QueryError(f"Figures are cast to BIGINT or DOUBLE. Got {each}.")
        if isinstance(each, Call) and each.function.startswith("DP_INTERVAL") and not figures_in(each):
            raise QueryError(
                f"{each.function} is of a figure, such as {each.function}(COUNT(*)). Got {each}."
            )
        if (
            isinstance(each, Call)
            and each.function == "GROUPING"
            and not isinstance(each.arguments[0], LabelOf)
        ):
            raise QueryError(f"GROUPING is of a column in GROUP BY. Got {each}.")
        if isinstance(each, Literal) and not isinstance(each.value, (bool, int, float, str, type(None))):
            raise QueryError(f"Figures are computed with numbers and texts. Got {each}.")


def evaluate(node: Expr, row: Row) -> Shown:
    """An expression of figures in one group."""
    if isinstance(node, FigureOf):
        return row.figures[str(node)]
    if isinstance(node, LabelOf):
        return Shown(row.labels[node.place])
    if isinstance(node, Literal):
        exact = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        return Shown(node.value, (node.value, node.value) if exact else None)
    if isinstance(node, Call):
        return _call(node, row)
    if isinstance(node, Case):
        return _case(node, row)
    return Shown(_truth(node, row))


def _call(node: Call, row: Row) -> Shown:
    name = node.function
    if name == "GROUPING":
        place = node.arguments[0].place  # type: ignore[attr-defined]
        return Shown(int(place not in row.grouped))
    found = [evaluate(each, row) for each in node.arguments]
    if name in ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH"):
        ends = found[0].ends
        return Shown(None if ends is None else _plain(ends[name.endswith("HIGH")]))
    if name == "COALESCE":
        value = next((each.value for each in found if each.value is not None), None)
        return Shown(value, _hull([each.ends for each in found]))
    if name == "NULLIF":
        return Shown(None if found[0].value == found[1].value else found[0].value, found[0].ends)
    if name in ("CONCAT", "||", "UPPER", "LOWER"):
        return Shown(_text(name, [each.value for each in found]))
    if any(each.value is None or isinstance(each.value, (str, bool)) for each in found):
        return Shown(None)
    return _numeric(name, found)


def _numeric(name: str, found: list[Shown]) -> Shown:
    value = _safely(lambda: _VALUES[name](*(each.value for each in found)))
    ends: Ends = None
    if all(each.ends is not None for each in found):
        if name in "+-*/" and len(name) == 1:
            low, high = found[0].ends or (0.0, 0.0)
            for each in found[1:]:
                low, high = interval(name, Number(low, high), Number(*(each.ends or (0.0, 0.0))))
            ends = (low, high)
        elif name in _RISING:
            lows, highs = ([(each.ends or (0.0, 0.0))[at] for each in found] for at in (0, 1))
            ends = (
                _end(_safely(lambda: _VALUES[name](*lows)), 0),
                _end(_safely(lambda: _VALUES[name](*highs)), 1),
            )
        elif name == "ABS":
            low, high = found[0].ends or (0.0, 0.0)
            ends = (0.0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))
    return Shown(value, ends)


def _end(found: Any, at: int) -> float:
    return (INF if at else -INF) if found is None else float(found)


def _safely(made: Callable[[], Any]) -> Any:
    """A number, or None where there is none."""
    try:
        found = made()
    except (ArithmeticError, ValueError, OverflowError):
        return None
    return found if not isinstance(found, float) or math.isfinite(found) else None


def _case(node: Case, row: Row) -> Shown:
    values = [evaluate(value, row) for _, value in node.branches]
    last = Shown(None) if node.otherwise is None else evaluate(node.otherwise, row)
    chosen = next(
        (value for (test, _), value in zip(node.branches, values, strict=True) if _truth(test, row)), last
    )
    return Shown(
        chosen.value,
        _hull([each.ends for each in (*values, *([last] if node.otherwise is not None else []))]),
    )


def _hull(ends: Sequence[Ends]) -> Ends:
    known = [each for each in ends if each is not None]
    return (
        (min(each[0] for each in known), max(each[1] for each in known))
        if len(known) == len(ends) and known
        else None
    )


def _truth(node: Expr, row: Row) -> bool | None:
    """A condition on noisy figures, in three-valued logic."""
    if isinstance(node, (And, Or)):
        parts = [_truth(each, row) for each in node.parts]
        wins = isinstance(node, Or)
        return wins if wins in parts else (None if None in parts else not wins)
    if isinstance(node, Not):
        inner = _truth(node.part, row)
        return None if inner is None else not inner
    if isinstance(node, Test):
        found = evaluate(node.value, row).value
        return None if found is None else bool(found)
    left = (
        evaluate(subject(node.column), row).value
        if isinstance(node, (Compare, In, IsNull))
        else evaluate(node, row).value
    )
    if isinstance(node, IsNull):
        return left is None
    if left is None:
        return None
    if isinstance(node, In):
        return any(_same(left, each) for each in node.values)
    if isinstance(node, Compare):
        right = evaluate(node.value, row).value if isinstance(node.value, Expr) else node.value
        return None if right is None else _compared(left, node.operator, right)
    return bool(left)


def _same(left: Any, right: Any) -> bool:
    return str(left) == str(right) if isinstance(left, str) or isinstance(right, str) else left == right


def _compared(left: Any, sign: str, right: Any) -> bool:
    if sign in ("=", "<>"):
        return _same(left, right) == (sign == "=")
    if isinstance(left, str) != isinstance(right, str):
        left, right = str(left), str(right)
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign])


def keep(node: Expr | None, rows: list[Row]) -> list[int]:
    """Places of the rows for which HAVING is true."""
    return [place for place, row in enumerate(rows) if node is None or _truth(node, row)]


def arrange(places: list[int], orders: Sequence[Order], rows: list[Row]) -> list[int]:
    """Places in the order asked for; NULL last unless said otherwise."""
    for order in reversed(orders):
        values = {place: evaluate(order.value, rows[place]).value for place in places}
        known = [place for place in places if values[place] is not None]
        missing = [place for place in places if values[place] is None]
        texts = any(isinstance(values[place], str) for place in known)
        known.sort(key=lambda place: str(values[place]) if texts else values[place], reverse=order.descending)
        places = missing + known if order.nulls_first else known + missing
    return places


def _plain(end: Any) -> Any:
    return None if isinstance(end, float) and not math.isfinite(end) else end


def pair(ends: Ends) -> Any:
    """The ends of an interval as an answer shows them; an open end is None."""
    return None if ends is None else (_plain(ends[0]), _plain(ends[1]))


def _text(name: str, values: list[Any]) -> Any:
    if name == "CONCAT":
        return "".join(str(each) for each in values if each is not None)
    if any(each is None for each in values):
        return None
    joined = "".join(str(each) for each in values)
    return {"||": joined, "UPPER": joined.upper(), "LOWER": joined.lower()}[name]


def _rounded(value: float, digits: float = 0) -> float:
    size = 10 ** int(digits)
    made = math.copysign(math.floor(abs(value) * size + 0.5), value) / size
    return int(made) if digits <= 0 and made == int(made) else made


def _remainder(a: float, b: float) -> float:
    return a - b * math.trunc(a / b)


_VALUES: dict[str, Callable[..., Any]] = {
    "+": lambda *each: sum(each),
    "-": lambda a, b: a - b,
    "*": lambda *each: math.prod(each),
    "/": lambda a, b: a / b,
    "%": _remainder,
    "ABS": abs,
    "SIGN": lambda a: (a > 0) - (a < 0),
    "FLOOR": math.floor,
    "CEIL": math.ceil,
    "TRUNC": math.trunc,
    "ROUND": _rounded,
    "SQRT": math.sqrt,
    "LN": math.log,
    "LOG10": math.log10,
    "LOG2": math.log2,
    "EXP": math.exp,
    "POWER": lambda a, b: float(a) ** b if not (a < 0 and b != int(b)) else math.nan,
    "GREATEST": lambda *each: max(each),
    "LEAST": lambda *each: min(each),
    "CLAMP": lambda a, low, high: min(max(a, low), high),
    "CAST:BIGINT": round,
    "CAST:DOUBLE": float,
    "DIV": lambda a, b: math.trunc(a / b),
}
_RISING = (
    "FLOOR",
    "CEIL",
    "TRUNC",
    "ROUND",
    "SQRT",
    "LN",
    "LOG10",
    "LOG2",
    "EXP",
    "GREATEST",
    "LEAST",
    "CLAMP",
    "CAST:DOUBLE",
    "CAST:BIGINT",
    "SIGN",
)
_KNOWN = (
    *(each for each in _VALUES if not each.startswith("CAST")),
    "COALESCE",
    "NULLIF",
    "CONCAT",
    "||",
    "UPPER",
    "LOWER",
    "DP_INTERVAL_LOW",
    "DP_INTERVAL_HIGH",
    "GROUPING",
)
