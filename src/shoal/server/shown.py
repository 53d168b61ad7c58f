"""Answers ready to be shown: figures with their intervals by name, and one tidy table of them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.dp.answering.answer import Answer
from shoal.dp.heuristic import Reproduction
from shoal.dp.workload import WorkloadAnswer
from shoal.typing import Record

Given = Answer | Reproduction
# How charges begin that bought something with a page of its own, and what they are called among the answers.
ELSEWHERE = {"RELEASE marginals ": ("tables", "A private table"), "STREAM ": ("streams", "A stream")}


@dataclass(frozen=True)
class BoughtElsewhere:
    """Something among the past answers that is no answer, but has a page of its own."""

    page: str
    words: str

    @classmethod
    def of(cls, query: str, entry: str) -> BoughtElsewhere | None:
        """What a charge bought, by its text; None for an answer.

        Examples
        --------
        >>> from shoal.server.shown import BoughtElsewhere
        >>> BoughtElsewhere.of("RELEASE marginals tables add-remove columns=age,sex", "3f1a09c2")
        BoughtElsewhere(page='tables/3f1a09c2', words='A private table')
        >>> BoughtElsewhere.of("SELECT COUNT(*) FROM t", "3f1a09c2") is None
        True
        """
        for begins, (page, words) in ELSEWHERE.items():
            if query.startswith(begins):
                return cls(f"{page}/{entry}" if page == "tables" else page, words)
        return None


@dataclass(frozen=True)
class ShownFigure:
    """One number of an answer with its interval, and the group it is of."""

    group: tuple[tuple[str, Any], ...]
    value: Any
    low: Any = None
    high: Any = None
    cut: tuple[Any, Any] | None = None

    @property
    def label(self) -> str:
        """Its group for people."""
        return " \N{MIDDLE DOT} ".join("all" if each is None else str(each) for _, each in self.group)

    @property
    def within(self) -> str:
        """Its intervals in words; nothing where it has none."""
        if self.low is None and self.high is None and self.cut is None:
            return ""
        said = f"95 %: {_end(self.low)} to {_end(self.high)}"
        if self.cut is None:
            return said
        return f"{said}; of the cut figure {_end(self.cut[0])} to {_end(self.cut[1])}"


@dataclass(frozen=True)
class ShownTable:
    """Rows under headings: labels first, then each figure with its ends. `numeric` says which columns are numbers."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    labels: int

    def to_dicts(self) -> list[Record]:
        """A row as a mapping of heading to value."""
        return [dict(zip(self.headings, row, strict=True)) for row in self.rows]


def by_name(given: Given) -> list[tuple[str, list[ShownFigure]]]:
    """The figures of an answer under their names, a figure for each group."""
    named: dict[str, list[ShownFigure]] = {}
    for place, row in enumerate(_rows(given)):
        ends, cut = _row(given.interval, place), _row(getattr(given, "cut_interval", None), place)
        labels = label_names(given)
        group = tuple((name, row[name]) for name in labels)
        for name, value in row.items():
            if name not in labels:
                low, high = _pair(ends, name) or (None, None)
                named.setdefault(name, []).append(ShownFigure(group, value, low, high, _pair(cut, name)))
    return list(named.items())


def label_names(given: Given) -> list[str]:
    """The names of the columns that a figure was asked for each level of."""
    rows = given.value if isinstance(given.value, list) else []
    if not rows:
        return []
    if not given.interval:  # a reproduction has none: what is no number is a label
        return [name for name, value in rows[0].items() if not is_number(value)]
    return [name for name in rows[0] if not isinstance(given.interval[0].get(name), (list, tuple))]


def table_of(given: Given) -> ShownTable:
    """One tidy table: a row for each group, its labels, and each figure with the ends of its interval.

    Headings are told apart where a group is called like the end of a figure.

    Examples
    --------
    >>> from shoal.dp import Answer
    >>> from shoal.server.shown import table_of
    >>> rows, ends = [{"a": "x", "n": 3, "m": 1.5}], [{"a": "x", "n": (1, 5), "m": (0.5, 2.5)}]
    >>> table_of(Answer(rows, "...", 0.1, 1.9, ends)).to_dicts()
    [{'a': 'x', 'n': 3, 'n_low': 1, 'n_high': 5, 'm': 1.5, 'm_low': 0.5, 'm_high': 2.5}]
    """
    labels, figures = label_names(given), by_name(given)
    headings = list(labels)
    for name, each in figures:
        headings += [name, f"{name}_low", f"{name}_high"]
        headings += [f"{name}_cut_low", f"{name}_cut_high"] if _has_cut(each) else []
    rows = []
    for place in range(len(figures[0][1]) if figures else 0):
        row = [value for _, value in figures[0][1][place].group]
        for _, each in figures:
            figure = each[place]
            row += [figure.value, figure.low, figure.high]
            row += list(figure.cut or (None, None)) if _has_cut(each) else []
        rows.append(tuple(row))
    return ShownTable(tuple(told_apart(headings)), tuple(rows), len(labels))


def together(given: WorkloadAnswer) -> list[tuple[str, str, ShownTable]]:
    """The answers to questions asked together: each question, how exact it is, and its rows."""
    found = []
    for each in given.answers:
        answer = Answer(each.value, given.guarantee, given.epsilon, given.remaining, each.interval)
        exact = f"deviation {each.deviation:.3g}; asked one by one {each.alone:.3g}"
        found.append((each.query, exact, table_of(answer)))
    return found


def told_apart(names: list[str]) -> list[str]:
    """The names, each different from those before it."""
    found: list[str] = []
    for name in names:
        each, turn = name, 2
        while each in found:
            each, turn = f"{name}_{turn}", turn + 1
        found.append(each)
    return found


def number(value: Any) -> str:
    """A number for people."""
    if not is_number(value):
        return str(value)
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def is_number(value: Any) -> bool:
    """Whether a value is a number and not a truth."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _has_cut(figures: list[ShownFigure]) -> bool:
    return any(each.cut is not None for each in figures)


def _rows(given: Given) -> list[Record]:
    if isinstance(given.value, list):
        return given.value
    return [given.value if isinstance(given.value, Mapping) else {"answer": given.value}]  # type: ignore[list-item]


def _row(ends: Any, place: int) -> Any:
    return ends[place] if isinstance(ends, list) and ends and isinstance(ends[0], Mapping) else ends


def _pair(ends: Any, name: str) -> tuple[Any, Any] | None:
    found = ends.get(name) if isinstance(ends, Mapping) else ends
    return (found[0], found[1]) if isinstance(found, (list, tuple)) else None


def _end(value: Any) -> str:
    return "no known bound" if value is None else number(value)
