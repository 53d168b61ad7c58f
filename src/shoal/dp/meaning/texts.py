"""Functions of texts: worked out on the declared levels, before any row is seen; rows only look up the result."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import polars as pl

from shoal.dp.meaning.kinds import MOST_LEVELS, Levels, Number, Text, Truth, Typed, gcd, number, wanted
from shoal.errors import QueryError

MOST_PAIRS = 10_000
_ASCII = "text functions are worked out on declared levels: declare 'levels' of the column"


def levels_of(found: Typed, what: str) -> tuple[str, ...]:
    """The texts that an argument may be."""
    if isinstance(found.kind, Text):
        raise QueryError(f"{what} of {found.text}: {_ASCII}.")
    return tuple(wanted(found, Levels, what).texts)


def looked_up(place: pl.Expr, results: Sequence[Any], dtype: Any) -> pl.Expr:
    """What stands at each row's place; NULL stays NULL."""
    places = list(range(len(results)))
    return place.replace_strict(places, pl.Series(results, dtype=dtype), default=None, return_dtype=dtype)


def coded(place: pl.Expr, results: Sequence[str | None], text: str, ordered: bool = False) -> Typed:
    """A text made of another: its levels, and each row's place among them."""
    texts = tuple(dict.fromkeys(each for each in results if each is not None))
    codes = [None if each is None else texts.index(each) for each in results]
    return Typed(Levels(texts, ordered), looked_up(place, codes, pl.Int32), text)


def combined(arguments: list[Typed], what: str) -> tuple[pl.Expr, list[tuple[str | None, ...]], bool]:
    """One place for several texts, with what stands at each; the last level of each stands for NULL."""
    lists = [(*levels_of(each, what), None) for each in arguments]
    size = 1
    for each in lists:
        size *= len(each)
    if size > MOST_PAIRS:
        raise QueryError(f"{what} may join texts of at most {MOST_PAIRS} combinations of levels. Got {size}.")
    place = pl.lit(0, pl.Int32)
    for found, each in zip(arguments, lists, strict=True):
        place = place * len(each) + found.value.fill_null(len(each) - 1)
    return place, list(itertools.product(*lists)), True


def constant(found: Typed, what: str) -> Any:
    """The constant that an argument is."""
    if isinstance(found.kind, Levels) and len(found.kind.texts) == 1 and found.source is not None:
        return found.kind.texts[0]
    exact = found.kind.constant if isinstance(found.kind, Number) else None
    if exact is not None and exact.denominator == 1:
        return int(exact)
    raise QueryError(f"{what} needs a constant here. Got {found.text}.")


def text_function(name: str, arguments: list[Typed], text: str) -> Typed:
    """A function whose first argument is a text."""
    if name == "CONCAT":
        place, rows, _ = combined(arguments, name)
        return coded(place, ["".join(each for each in row if each is not None) for row in rows], text)
    if name == "||":
        place, rows, _ = combined(arguments, name)
        return coded(place, [None if None in row else "".join(map(str, row)) for row in rows], text)
    first, rest = arguments[0], [constant(each, name) for each in arguments[1:]]
    levels = levels_of(first, name)
    if name in ("LENGTH", "STRPOS"):
        return numbered(first.value, [_COUNTED[name](each, *rest) for each in levels], text)
    if name in ("STARTS_WITH", "ENDS_WITH"):
        test = str.startswith if name == "STARTS_WITH" else str.endswith
        return Typed(
            Truth(), looked_up(first.value, [test(each, rest[0]) for each in levels], pl.Boolean), text
        )
    try:
        made = [_CHANGED[name](each, *rest) for each in levels]
    except (TypeError, ValueError):
        raise QueryError(f"{name} cannot be worked out with these arguments: {text}.") from None
    return coded(first.value, made, text)


def numbered(place: pl.Expr, results: Sequence[Any], text: str) -> Typed:
    """A number made of a text."""
    values = tuple(sorted({Fraction(str(each)) for each in results if each is not None}))
    value = looked_up(place, [None if each is None else float(each) for each in results], pl.Float64)
    if not values:
        return Typed(number(0), value, text)
    kind = Number(
        float(values[0]), float(values[-1]), values[0], gcd(*(each - values[0] for each in values)), values
    )
    return Typed(kind, value, text)


def like(found: Typed, pattern: str, text: str, *, caseless: bool) -> Typed:
    """LIKE: % any characters, _ one; capitals differ unless ILIKE."""
    shape = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern)
    if isinstance(found.kind, Text):
        flags = "(?si)" if caseless else "(?s)"
        return Typed(Truth(), found.value.str.contains(f"{flags}^(?:{_plain(pattern)})$"), text)
    levels = levels_of(found, "LIKE")
    test = re.compile(shape, re.DOTALL | (re.IGNORECASE if caseless else 0))
    return Typed(
        Truth(),
        looked_up(found.value, [test.fullmatch(each) is not None for each in levels], pl.Boolean),
        text,
    )


def _plain(pattern: str) -> str:
    r"""A pattern for the engine's regular expressions; every sign that is not a letter or digit by its number."""
    made = []
    for each in pattern:
        if each in "%_":
            made.append(".*" if each == "%" else ".")
        else:
            made.append(each if each.isalnum() and each.isascii() else f"\\x{{{ord(each):x}}}")
    return "".join(made)


def as_text(found: Typed, text: str) -> Typed:
    """CAST AS VARCHAR of finitely many whole numbers."""
    if isinstance(found.kind, Levels):
        return Typed(found.kind, found.value, text)
    kind = wanted(found, Number, "CAST AS VARCHAR")
    values = kind.domain()
    if values is None or not kind.whole or len(values) > MOST_LEVELS:
        raise QueryError(
            f"CAST AS VARCHAR needs whole numbers of declared step and bounds. Got {found.text}."
        )
    texts = tuple(str(int(each)) for each in values)
    return Typed(Levels(texts), place_of(found.value, kind), text)


def place_of(value: pl.Expr, kind: Number) -> pl.Expr:
    """Each row's place among the values it may have; NULL for any other."""
    values = kind.domain() or ()
    if kind.values is None and kind.base is not None and kind.step:
        step, first = float(kind.step), float(values[0]) if values else 0.0
        place = (value - first) / step
        near = place.round()
        inside = ((place - near).abs() < 1e-6) & (near >= 0) & (near < len(values))
        return pl.when(inside).then(near).cast(pl.Int32, strict=False)
    numbers = pl.Series([float(each) for each in values], dtype=pl.Float64)
    return value.replace_strict(
        numbers, pl.Series(list(range(len(values))), dtype=pl.Int32), default=None, return_dtype=pl.Int32
    )


def _substr(text: str, start: int, length: int | None = None) -> str:
    if start < 1 or (length is not None and length < 0):
        raise ValueError
    return text[start - 1 :] if length is None else text[start - 1 : start - 1 + length]


def _end(text: str, size: int) -> str:
    if size < 0:
        raise ValueError
    return text[len(text) - size :] if size < len(text) else text


def _start(text: str, size: int) -> str:
    if size < 0:
        raise ValueError
    return text[:size]


def _one(letter: str, changed: str) -> str:
    """A letter in the other case where that is one letter, as databases have it: ß stays."""
    return changed if len(changed) == 1 else letter


_CHANGED: dict[str, Callable[..., str]] = {
    "UPPER": lambda text: "".join(_one(each, each.upper()) for each in text),
    "LOWER": lambda text: "".join(_one(each, each.lower()) for each in text),
    "TRIM": lambda text: text.strip(" "),
    "LTRIM": lambda text: text.lstrip(" "),
    "RTRIM": lambda text: text.rstrip(" "),
    "REVERSE": lambda text: text[::-1],
    "REPLACE": lambda text, old, new: text.replace(old, new) if old else text,
    "SUBSTR": _substr,
    "LEFT": _start,
    "RIGHT": _end,
}
_COUNTED: dict[str, Callable[..., int]] = {"LENGTH": len, "STRPOS": lambda text, part: text.find(part) + 1}
NAMES = (*_CHANGED, *_COUNTED, "CONCAT", "||", "STARTS_WITH", "ENDS_WITH")
