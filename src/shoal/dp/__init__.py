"""Private answers about a table that stays in the house.

- `Session`: the only way to the table; `ask`, `cost`, `buy_tau`
- `AddRemoveRecord`, `AddRemoveUnit`, `Records`, `Cells`: whom an answer protects
- `col`, `when`, `select`, `count`, `sum`, `mean`, `var`, `std`, `min`, `max`, `median`, `quantile`, `count_distinct`,
  `covar`, `corr`: queries as Python expressions
- `Answer`: value, guarantee, epsilon, remaining, interval
- `Ledger`: what was charged, on SQLite or PostgreSQL
- `Heuristic`: the dissertation's mechanism, which guarantees nothing
- `Pufferfish`, `DependentDP`: one answer under stated scenarios or coefficients; `StatedSession`: such a one about a table
- `correlation`: models of which records go together
- `mechanisms`: exact discrete noise
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "AddRemoveRecord": "unit",
    "AddRemoveUnit": "unit",
    "Answer": "answer",
    "Cells": "unit",
    "Cost": "session",
    "DependentDP": "pufferfish",
    "FewCellsWarning": "session",
    "Heuristic": "heuristic",
    "Ledger": "ledger",
    "Pufferfish": "pufferfish",
    "Query": "query",
    "Records": "unit",
    "Reproduction": "heuristic",
    "Session": "session",
    "StatedSession": "stated",
    "col": "expressions",
    "corr": "query",
    "count": "query",
    "count_distinct": "query",
    "covar": "query",
    "max": "query",
    "mean": "query",
    "median": "query",
    "min": "query",
    "quantile": "query",
    "select": "query",
    "std": "query",
    "sum": "query",
    "var": "query",
    "when": "query",
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
