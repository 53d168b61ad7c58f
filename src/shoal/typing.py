"""Names of loose types that the whole package shares: for its edges. Between functions a value has a class of its own."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""One object of plain values, as it is read from or written to JSON or TOML."""

Record: TypeAlias = dict[str, Any]
"""One row of a table: cells by the names of their columns."""

Keywords: TypeAlias = dict[str, Any]
"""Arguments by their names, to be handed on."""
