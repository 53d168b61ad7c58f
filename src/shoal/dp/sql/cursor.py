"""Tokens of a text, read from left to right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from shoal.dp.sql.tokens import Token, tokens_of
from shoal.dp.sql.words import RESERVED
from shoal.errors import QueryError

DEEPEST = 60


class Cursor:
    """Tokens read from left to right.

    Parameters
    ----------
    text : str
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.place = 0
        self.depth = 0
        self.said: list[str] = []
        self.qualified = False  # whether a column came with the name of its table

    # Tokens

    @property
    def now(self) -> Token:
        """The next token."""
        return self.tokens[self.place]

    def ahead(self, steps: int = 1) -> Token:
        """A later token."""
        return self.tokens[min(self.place + steps, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The next token, which is then behind."""
        found = self.now
        self.place += found.kind != "end"
        return found

    def at(self, *words: str) -> bool:
        """Whether these words or signs come next."""
        if self.tokens[self.place].word != words[0]:  # asked some eighty times of a short query
            return False
        return all(self.ahead(step).word == word for step, word in enumerate(words))

    def skip(self, *words: str) -> bool:
        """Pass these words if they come next."""
        if self.at(*words):
            self.place += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        """Pass these words, or refuse."""
        if not self.skip(*words):
            self.wrong(" ".join(words))

    def wrong(self, expected: str) -> NoReturn:
        """Refuse: something else was expected here."""
        found = "the end" if self.now.kind == "end" else repr(self.now.text[:40])
        raise QueryError(f"The query cannot be read as SQL: expected {expected}, got {found}.")

    def name(self, what: str = "a name") -> str:
        """A name, bare or quoted."""
        if self.now.kind == "quoted" or (self.now.kind == "word" and self.now.word not in RESERVED):
            return self.take().text
        return self.wrong(what)

    def deeper(self, read: Callable[[], Any]) -> Any:
        """Read something nested."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise QueryError(f"A query may be nested at most {DEEPEST} deep.")
        found = read()
        self.depth -= 1
        return found
