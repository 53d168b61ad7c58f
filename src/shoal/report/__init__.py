"""Reports: one HTML file without network or script, for the custodian or for everyone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.report.html import Section, figure, page, side_by_side, table, tiles, write_report

__all__ = ["Section", "figure", "page", "side_by_side", "table", "tiles", "write_report"]


def __getattr__(name: str) -> Any:
    # Loaded when first used: who only counts words need not wait for what draws pictures.
    if name in __all__:
        from shoal.report import html

        return getattr(html, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
