"""Private answers about a table that stays in the house.

- `Session`: the only door to the table; `ask`, `cost`, `buy_tau`
- `col`, `count`, `total`, `avg`, `var`, `minimum`, `maximum`, `quantile`: queries as Python expressions
- `Answer`: value, stamp, epsilon, remaining, interval
- `Ledger`: what was charged, on SQLite or PostgreSQL
- `Pufferfish`, `DependentDP`: one answer under stated scenarios or coefficients
- `correlation`: models of which records go together
- `mechanisms`: exact discrete noise
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "Answer": "answer",
    "Cost": "session",
    "DependentDP": "pufferfish",
    "FewCellsWarning": "session",
    "Ledger": "ledger",
    "Pufferfish": "pufferfish",
    "Query": "query",
    "Session": "session",
    "avg": "query",
    "col": "query",
    "count": "query",
    "maximum": "query",
    "minimum": "query",
    "quantile": "query",
    "total": "query",
    "var": "query",
}
_ROOMS = ("correlation", "mechanisms", "pufferfish", "budget", "ledger", "query")

__all__ = [*_WHERE, "correlation", "mechanisms", "pufferfish"]  # noqa: PLE0604 - names only


def __getattr__(name: str) -> Any:
    import importlib

    if name in _WHERE:
        return getattr(importlib.import_module(f"shoal.dp.{_WHERE[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"shoal.dp.{name}")
    raise AttributeError(f"module 'shoal.dp' has no attribute {name!r}")
