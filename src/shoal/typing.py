"""Names of types that the whole package shares."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""One object of plain values, as it is read from or written to JSON or TOML. Only for the edges: between functions a
value has a class of its own."""
