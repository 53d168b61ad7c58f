"""Private answers about a table that is not given out.

- `Session`: the only way to the table; `ask`, `cost`, `buy_tau`
- `AddRemoveRecord`, `AddRemoveUnit`, `Records`, `AddRemoveCell`: whom an answer protects
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

from shoal.lazy import loaded_when_used

_WHERE = {
    "AddRemoveCell": "unit",
    "AddRemoveRecord": "unit",
    "AddRemoveUnit": "unit",
    "Answer": "answering.answer",
    "Cost": "answering.cost",
    "DependentDP": "pufferfish",
    "FewCellsWarning": "opening",
    "Heuristic": "heuristic",
    "Ledger": "ledger.ledger",
    "Pufferfish": "pufferfish",
    "Query": "sql.query",
    "Records": "unit",
    "Reproduction": "heuristic",
    "Session": "session",
    "StatedSession": "stated",
    "col": "sql.expressions",
    "corr": "sql.build",
    "count": "sql.build",
    "count_distinct": "sql.build",
    "covar": "sql.build",
    "max": "sql.build",
    "mean": "sql.build",
    "median": "sql.build",
    "min": "sql.build",
    "quantile": "sql.build",
    "select": "sql.query",
    "std": "sql.build",
    "sum": "sql.build",
    "var": "sql.build",
    "when": "sql.build",
}
_PACKAGES = ("correlation", "mechanisms", "pufferfish", "budget", "ledger")

__all__ = [*_WHERE, "correlation", "mechanisms", "pufferfish"]  # noqa: PLE0604 - names only


__getattr__ = loaded_when_used(
    __name__, {name: f"{__name__}.{home}" for name, home in _WHERE.items()} | dict.fromkeys(_PACKAGES, "")
)
