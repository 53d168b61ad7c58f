"""Reports: one HTML file without network or script, for the custodian or for everyone."""

from __future__ import annotations

from shoal.report.html import Section, figure, page, side_by_side, table, tiles, write_report

__all__ = ["Section", "figure", "page", "side_by_side", "table", "tiles", "write_report"]
