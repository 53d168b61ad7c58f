"""Reports: one HTML file without network or script, for the custodian or for everyone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import loaded_when_used

if TYPE_CHECKING:
    from shoal.report.html import Section, figure, page, side_by_side, table, tiles, write_report

__all__ = ["Section", "figure", "page", "side_by_side", "table", "tiles", "write_report"]

# Who only counts words need not wait for what draws pictures.
__getattr__ = loaded_when_used(__name__, dict.fromkeys(__all__, "shoal.report.html"))
