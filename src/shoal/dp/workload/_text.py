"""A workload as a text: its statements, and how the ledger words it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PIECES = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|;|[^'\";]+|.", re.DOTALL)
_TOLD = re.compile(r"WORKLOAD (.*) BY [a-z ,x]+", re.DOTALL)


def statements(text: str) -> list[str]:
    """The statements of a text, parted by semicolons outside quotes.

    Examples
    --------
    >>> from shoal.dp.workload import statements
    >>> statements("SELECT COUNT(*) FROM t WHERE a = 'x;y'; SELECT COUNT(*) FROM t;")
    ["SELECT COUNT(*) FROM t WHERE a = 'x;y'", 'SELECT COUNT(*) FROM t']
    """
    found = [""]
    for piece in _PIECES.findall(text):
        if piece == ";":
            found.append("")
        else:
            found[-1] += piece
    return [each.strip() for each in found if each.strip()]


def worded(queries: Sequence[str], strategy: str) -> str:
    """A workload as the ledger words it."""
    return f"WORKLOAD {'; '.join(queries)} BY {strategy}"


def asked_together(text: str) -> list[str] | None:
    """The queries of a workload as the ledger words it; None for any other question."""
    told = _TOLD.fullmatch(text)
    return None if told is None else statements(told[1])
