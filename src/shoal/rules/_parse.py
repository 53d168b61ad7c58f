"""The small language of rules: sums of columns, comparisons, conditions joined by `and`.

A name with other characters than letters, digits, dots and underscores stands in backticks, a text in quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shoal.errors import SchemaError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|`(?P<quoted>[^`]+)`|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\""
    r"|(?P<name>[^\W\d][\w.]*)|(?P<mark><=|>=|==|!=|<>|[-+*/=<>()]))"
)
COMPARISONS = ("<=", ">=", "==", "!=", "<", ">", "=", "<>")


@dataclass(frozen=True)
class RuleToken:
    """One word of a rule."""

    kind: str
    text: str


@dataclass(frozen=True)
class Terms:
    """A sum: columns with their factors, and a constant."""

    factors: tuple[tuple[str, float], ...]
    constant: float

    def minus(self, other: Terms) -> Terms:
        """The difference of two sums."""
        found = dict(self.factors)
        for name, factor in other.factors:
            found[name] = found.get(name, 0.0) - factor
        return Terms(tuple(found.items()), self.constant - other.constant)


@dataclass(frozen=True)
class Condition:
    """A comparison of a column with a value or another column; `is_missing` where its cell must be missing."""

    column: str
    mark: str
    value: Any = None
    other: str | None = None
    is_missing: bool = False


def tokens_of(text: str) -> list[RuleToken]:
    """The words of a rule."""
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SchemaError(f"A rule must be made of columns, numbers and comparisons. Got {text!r}.")
        kind = match.lastgroup or ""
        word = match.group(kind)
        kind = {"quoted": "name", "single": "text", "double": "text"}.get(kind, kind)
        found.append(RuleToken(kind, word))
        at = match.end()
    return found


def comparisons_of(text: str) -> list[tuple[Terms, str, Terms]]:
    """A chain of comparisons such as ``0 <= a + b <= 2 * c``, side by side."""
    sides: list[list[RuleToken]] = [[]]
    marks: list[str] = []
    for token in tokens_of(text):
        if token.kind == "mark" and token.text in COMPARISONS:
            marks.append({"==": "=", "<>": "!="}.get(token.text, token.text))
            sides.append([])
        else:
            sides[-1].append(token)
    if not marks:
        raise SchemaError(f"A rule must compare two sides. Got {text!r}.")
    terms = [sum_of(side, text) for side in sides]
    return [(terms[at], mark, terms[at + 1]) for at, mark in enumerate(marks)]


def ratio_of(text: str) -> tuple[float | None, str, str, float | None]:
    """Lower bound, the column above the line, the column below it, upper bound."""
    sides: list[list[RuleToken]] = [[]]
    marks: list[str] = []
    for token in tokens_of(text):
        if token.kind == "mark" and token.text in COMPARISONS:
            marks.append(token.text)
            sides.append([])
        else:
            sides[-1].append(token)
    where = [at for at, side in enumerate(sides) if any(each.text == "/" for each in side)]
    if len(where) != 1 or len(sides) not in (2, 3) or not set(marks) <= {"<=", ">="} or len(set(marks)) != 1:
        raise SchemaError(f"The rule 'ratio' must be written as in 0.5 <= rent / income <= 2. Got {text!r}.")
    words = sides[where[0]]
    if [each.kind for each in words] != ["name", "mark", "name"]:
        raise SchemaError(f"The rule 'ratio' must divide one column by another. Got {text!r}.")
    bounds = [None if at == where[0] else sum_of(side, text) for at, side in enumerate(sides)]
    if any(each is not None and each.factors for each in bounds):
        raise SchemaError(f"The bounds of the rule 'ratio' must be numbers. Got {text!r}.")
    before = bounds[0].constant if bounds[0] is not None else None
    after = bounds[-1].constant if bounds[-1] is not None else None
    low, high = (before, after) if marks[0] == "<=" else (after, before)
    return low, words[0].text, words[2].text, high


def sum_of(tokens: list[RuleToken], text: str) -> Terms:
    """A sum of columns, numbers and numbers times columns."""
    factors: dict[str, float] = {}
    constant, at, sign = 0.0, 0, 1.0
    expected = True
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "mark" and token.text in "+-":
            sign = (sign if expected else 1.0) * (-1.0 if token.text == "-" else 1.0)
            expected, at = True, at + 1
            continue
        if not expected:
            break
        if token.kind == "number":
            value = float(token.text)
            if at + 2 < len(tokens) and tokens[at + 1].text == "*" and tokens[at + 2].kind == "name":
                name = tokens[at + 2].text
                factors[name] = factors.get(name, 0.0) + sign * value
                at += 3
            else:
                constant += sign * value
                at += 1
        elif token.kind == "name":
            factors[token.text] = factors.get(token.text, 0.0) + sign
            at += 1
        else:
            break
        sign, expected = 1.0, False
    if at < len(tokens) or expected:
        raise SchemaError(f"A side of a rule must be a sum of columns and numbers. Got {text!r}.")
    return Terms(tuple(factors.items()), constant)


def conditions_of(text: str) -> list[Condition]:
    """Conditions joined by `and`: a column compared with a number, a text or another column, or `is missing`."""
    groups: list[list[RuleToken]] = [[]]
    for token in tokens_of(text):
        if token.kind == "name" and token.text.lower() == "and":
            groups.append([])
        else:
            groups[-1].append(token)
    return [_condition(group, text) for group in groups]


def _condition(words: list[RuleToken], text: str) -> Condition:
    lower = [each.text.lower() for each in words]
    if len(words) == 3 and words[0].kind == "name" and lower[1:] == ["is", "missing"]:
        return Condition(words[0].text, "=", is_missing=True)
    negative = len(words) == 4 and words[2].text == "-"
    if (
        (len(words) != 3 and not negative)
        or words[0].kind != "name"
        or words[1].text not in COMPARISONS
        or (negative and words[3].kind != "number")
    ):
        raise SchemaError(
            f"A condition must compare a column with a value, as in age < 15 and status = 'married'. Got {text!r}."
        )
    mark = {"==": "=", "<>": "!="}.get(words[1].text, words[1].text)
    last = words[-1]
    if last.kind == "number":
        return Condition(words[0].text, mark, -float(last.text) if negative else float(last.text))
    if last.kind == "text":
        return Condition(words[0].text, mark, last.text)
    if last.text.lower() in ("true", "false"):
        return Condition(words[0].text, mark, last.text.lower() == "true")
    if last.kind == "name":
        return Condition(words[0].text, mark, other=last.text)
    raise SchemaError(f"A condition must end with a value or a column. Got {text!r}.")
