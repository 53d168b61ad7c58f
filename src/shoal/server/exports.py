"""Answers to take along: a tidy table, JSON, Python, a notebook, and a citation that keeps its guarantee."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from shoal import __version__
from shoal.dp.past import Past
from shoal.dp.workload import WorkloadAnswer
from shoal.server.shown import by_name, number, table_of, together, told_apart
from shoal.typing import Json

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
LONG = ("entry", "at", "query", "group", "figure", "value", "low", "high", "cut_low", "cut_high")


def csv_of(past: Past) -> str:
    """One answer as a tidy table: a row for each group; what it is of stands in the last columns."""
    if past.workload is not None:
        return _joint_csv(past, past.workload)
    assert past.answer is not None  # the caller has looked
    table = table_of(past.answer)
    proof = (past.entry, past.charged.value, past.answer.guarantee, past.query)
    names = told_apart([*table.headings, "entry", past.charged.word, "guarantee", "query"])
    return _lines([tuple(names), *((*row, *proof) for row in table.rows)])


def _joint_csv(past: Past, found: WorkloadAnswer) -> str:
    """Queries answered together: a row for each group of each, the group as JSON."""
    proof = (past.entry, past.charged.value, found.guarantee)
    rows: list[tuple[Any, ...]] = [
        ("query", "group", "value", "low", "high", "entry", past.charged.word, "guarantee")
    ]
    for query, _, table in together(found):
        for row in table.rows:
            group = dict(zip(table.headings, row[: table.labels], strict=False))
            keys = json.dumps(group, ensure_ascii=False) if group else None
            rows.append((query, keys, *row[table.labels : table.labels + 3], *proof))
    return _lines(rows)


def long_csv(chosen: Iterable[Past], word: str) -> str:
    """Many answers of a data set, whatever their shape: a row for each figure, its group as JSON.

    Parameters
    ----------
    chosen : iterable of Past
    word : {"epsilon", "rho"}
        What the data set is counted in.
    """
    rows: list[tuple[Any, ...]] = [(*LONG, word, "guarantee")]
    for each in chosen:
        if each.answer is None:
            continue
        for name, figures in by_name(each.answer):
            for figure in figures:
                group = json.dumps(dict(figure.group), ensure_ascii=False) if figure.group else None
                ends = (figure.low, figure.high, *(figure.cut or (None, None)))
                about = (each.entry, each.at, each.query, group, name, figure.value)
                rows.append((*about, *ends, each.charged.value, each.answer.guarantee))
    return _lines(rows)


def facts_of(past: Past) -> Json:
    """One answer as JSON has it: as it was given, and as a tidy table."""
    found, whole = past.answer, past.answer or past.workload
    return {
        "entry": past.entry,
        "query": past.query,
        "at": past.at,
        **past.charged.to_dict(),
        "answer": None if whole is None else whole.to_dict(),
        "table": found and table_of(found).to_dicts(),
    }


def python_of(past: Past, url: str, dataset: str, mode: str | None = None) -> str:
    """The same question from Python; for who holds the answer it costs nothing."""
    spent = past.asked or past.charged
    words = f"{past.query!r}, {spent.word}={spent.value!r}" + (f", mode={mode!r}" if mode else "")
    return (
        "import os\n\nfrom shoal import Client\n\n"
        f"with Client({url!r}, os.environ['SHOAL_TOKEN'], {dataset!r}) as client:\n"
        f"    answer = client.ask({words})\n"
        "answer.to_frame()\n"
    )


def notebook_of(past: Past, url: str, dataset: str, mode: str | None = None) -> str:
    """A notebook with the citation, the question in Python, and the table as it was answered."""
    assert past.answer is not None  # the caller has looked
    rows = json.dumps(table_of(past.answer).to_dicts(), ensure_ascii=False)
    kept = f"import json\n\nimport polars as pl\n\npl.DataFrame(json.loads({rows!r}))"
    cells = [
        _cell("markdown", citation(past, dataset)),
        _cell("code", python_of(past, url, dataset, mode).rstrip()),
        _cell("markdown", "The answer as it was given:"),
        _cell("code", kept),
    ]
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps(
        {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 4}, indent=1, ensure_ascii=False
    )


def citation(past: Past, dataset: str) -> str:
    """A sentence to quote the answer by: figure, interval, guarantee, cost, and the entry that verifies it."""
    assert past.answer is not None  # the caller has looked
    named = by_name(past.answer)
    lone = named[0][1][0] if len(named) == 1 and len(named[0][1]) == 1 else None
    said = (
        f"{number(lone.value)}{f' ({lone.within})' if lone.within else ''}" if lone else "A table of figures"
    )
    return (
        f"{said}. Asked of data set '{dataset}' on {past.at[:10]} with Shoal {__version__}: {past.query}. "
        f"{past.answer.guarantee[:1].upper()}{past.answer.guarantee[1:]}; {past.charged.text}. "
        f"Ledger entry {past.entry} (shoal ledger show {past.entry})."
    )


def _cell(kind: str, text: str) -> Json:
    lines = text.splitlines(keepends=True)
    made: Json = {"cell_type": kind, "metadata": {}, "source": lines}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _lines(rows: Iterable[tuple[Any, ...]]) -> str:
    return "".join(",".join(_field(each) for each in row) + "\r\n" for row in rows)


def _field(value: Any) -> str:
    """A cell that reads back as one thing only: nothing, a number, or a text in quotes.

    A text that a spreadsheet would take for a formula, or that begins with an apostrophe, has one put before it.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value)
    text = f"'{text}" if text.startswith(_FORMULA) else text
    return '"' + text.replace('"', '""') + '"'
