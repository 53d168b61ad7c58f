"""The figures of private tables, ours and rivals', from what `python -m benchmarks private_tables` has left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

TABLES = {"adult": "Adult, 15 columns", "sdc_survey": "sdc_survey, 12 columns", "ccc": "CCC, 24 columns"}
METHODS = {
    "shoal, zCDP": "zCDP",
    "shoal, pure": "pure",
    "aim": "AIM",
    "mst": "MST",
    "privbayes": "PrivBayes",
    "resampled": "resampled",
}
Row = Mapping[str, float | str | None]


def private_tables(folder: Path) -> str:
    """Mean total variation over one, two and three columns and CPU seconds, a line for each table and epsilon."""
    path = folder / "private_tables.json"
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["records"] if path.exists() else []
    if not rows:
        return "`python -m benchmarks private_tables` prints the figures.\n"
    found = {(row["table"], row["epsilon"], row["method"]): row for row in rows}
    lines = [f"| table | epsilon | {' | '.join(METHODS.values())} |", "|---|---|" + "---|" * len(METHODS)]
    for table, name in TABLES.items():
        epsilons = sorted(
            {float(at) for where, at, how in found if where == table and at is not None and how in METHODS}
        )
        for epsilon in epsilons:
            cells = [
                _figures(found.get((table, None if how == "resampled" else epsilon, how))) for how in METHODS
            ]
            lines.append(f"| {name} | {epsilon:g} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _figures(row: Row | None) -> str:
    if row is None:
        return ""
    if row.get("capped"):
        return f"not ended in {row['capped']:,} s"
    said = " / ".join(f"{row[name]:.4f}".removeprefix("0") for name in ("one", "two", "three"))
    seconds = float(row["seconds"] or 0)
    return said if not seconds else f"{said}, {seconds:{',.0f' if seconds >= 100 else '.3g'}} s"
