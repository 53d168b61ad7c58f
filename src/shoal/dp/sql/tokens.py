"""SQL text to tokens: names, numbers, texts and signs, one pass, in time that grows with the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from shoal.errors import QueryError

LONGEST = 20_000
LONGEST_TEXT = 1_000
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<sign><>|!=|<=|>=|\|\||::|=>|[-+*/%=<>(),.;\[\]])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A piece of the text.

    Parameters
    ----------
    kind : {"number", "text", "quoted", "word", "sign", "end"}
    text : str
        As written; a quoted name or text without its quotes.
    word : str
        In capitals, of a word; the sign itself; else empty.
    """

    kind: str
    text: str
    word: str = ""


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text, an end behind them.

    Examples
    --------
    >>> from shoal.dp.sql.tokens import tokens_of
    >>> [each.text for each in tokens_of("SELECT COUNT(*) -- all")]
    ['SELECT', 'COUNT', '(', '*', ')', '']
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        raise QueryError(f"A query must be a text of at most {LONGEST} characters.")
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise QueryError(f"The query cannot be read as SQL at {text[place : place + 30]!r}.")
        kind, inner = match.lastgroup or "", match.group()
        place = match.end()
        if kind == "space":
            continue
        if kind == "word" and found and found[-1].kind == "number" and text[match.start() - 1].isalnum():
            _joined(found[-1].text + inner)
        found.append(_token(kind, inner))
    found.append(Token("end", ""))
    return found


def _joined(inner: str) -> None:
    raise QueryError(f"The query cannot be read as SQL at {inner[:30]!r}.")


def _token(kind: str, inner: str) -> Token:
    if kind == "text":
        if len(inner) > LONGEST_TEXT + 2:
            raise QueryError(f"A text in a query must have at most {LONGEST_TEXT} characters.")
        return Token("text", inner[1:-1].replace("''", "'"))
    if kind == "quoted":
        return Token("quoted", inner[1:-1].replace('""', '"') if inner[0] == '"' else inner[1:-1])
    if kind == "word":
        return Token("word", inner, inner.upper())
    return Token(kind, inner, inner if kind == "sign" else "")
