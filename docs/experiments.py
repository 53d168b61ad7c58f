"""The tables of the page of experiments, from what `shoal reproduce correlated --json` has left.

`python docs/experiments.py` writes them into the page; a test fails where page and figures differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PAGE = DOCS / "theory" / "experiments.md"
FIGURES = DOCS / "benchmarks" / "reproduce-correlated.json"
APPROACHES = ("baseline", "approach 1", "approach 2", "approach 3")
METHODS = (*APPROACHES, "dp", "group", "correlated")
Rows = list[dict[str, Any]]


def blocks(facts: dict[str, Any]) -> dict[str, str]:
    """What stands between the marks of the page, by the name of the mark."""
    rows = facts["rows"]
    return {
        "tables": _tables(rows),
        "claims": _lines(
            ("claim", "data", "holds here", "found"),
            (
                (each["claim"], each["data"], "yes" if each["holds"] else "no", each["found"])
                for each in facts["claims"]
            ),
        ),
        "errors": _errors(rows),
        "seconds": _seconds(rows),
    }


def written(page: str, facts: dict[str, Any]) -> str:
    """The page with its blocks made anew."""
    for name, block in blocks(facts).items():
        begin, end = f"<!-- {name}: written by docs/experiments.py -->", f"<!-- end of {name} -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{block}\n{end}{rest.split(end)[1]}"
    return page


def _tables(rows: Rows) -> str:
    """Tables 9 to 12: what is printed, and ours by preprocessing."""
    found: dict[tuple[str, str], Rows] = {}
    for row in rows:
        if row["experiment"] == "tables":
            found.setdefault((row["data"], row["figure"]), []).append(row)
    return _lines(
        ("data", "figure", "printed", "ours"),
        (
            (data, figure, f"{each[0]['published']:,}", ", ".join(_counted(row) for row in each))
            for (data, figure), each in found.items()
        ),
    )


def _counted(row: dict[str, Any]) -> str:
    told = [
        word
        for word in (
            row["method"],
            "the most tried" if "boundary" in row else "",
            "given" if "given" in row else "",
        )
        if word
    ]
    return f"{row['ours']:,.0f}" + (f" ({', '.join(told)})" if told else "")


def _errors(rows: Rows) -> str:
    """Mean relative errors at parameter or epsilon 1."""
    at = {
        (row["data"], row["figure"], row["method"]): row["ours"]
        for row in rows
        if row["experiment"] == "error" and row["x"] == 1.0
    }
    kinds = dict.fromkeys((data, figure) for data, figure, _ in at)
    return _lines(
        ("data", "figure", *METHODS),
        (
            (
                data,
                figure,
                *(f"{at[data, figure, each]:.3g}" if (data, figure, each) in at else "-" for each in METHODS),
            )
            for data, figure in kinds
        ),
    )


def _seconds(rows: Rows) -> str:
    at: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if row["experiment"] == "build":
            name, _, pairs = row["method"].partition(" (")
            at[row["data"], "build, pair by pair (extrapolated)" if pairs else "build", name] = row["ours"]
        elif row["experiment"] == "queries" and row["figure"] == "100 COUNT":
            at[row["data"], "100 COUNT", row["method"]] = row["ours"]
    kinds = dict.fromkeys((data, what) for data, what, _ in at)
    return _lines(
        ("data", "what", *APPROACHES),
        (
            (
                data,
                what,
                *(f"{at[data, what, each]:.3g}" if (data, what, each) in at else "-" for each in APPROACHES),
            )
            for data, what in sorted(kinds)
        ),
    )


def _lines(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(
        written(PAGE.read_text(encoding="utf-8"), json.loads(FIGURES.read_text(encoding="utf-8"))),
        encoding="utf-8",
    )
