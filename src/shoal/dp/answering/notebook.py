"""What a notebook shows of an answer: its figures with their intervals, the guarantee, what it cost and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from shoal.dp.answering.answer import Answer

MOST_ROWS = 50
_INTERVALS = (("interval", "95 % interval"), ("cut_interval", "95 % interval of the cut figure"))


def answer_html(answer: Answer) -> str:
    """A short piece of HTML, every text escaped.

    Examples
    --------
    >>> from shoal.dp import Answer
    >>> shown = Answer({"a<b": 12}, "guarantee: epsilon-DP, add or remove one record", 0.1, 1.9, {"a<b": (-18, 42)})._repr_html_()
    >>> "a&lt;b" in shown, "-18 to 42" in shown, "epsilon 0.1 spent, 1.9 left" in shown
    (True, True, True)
    """
    rows = answer.value if isinstance(answer.value, list) else [answer.value]
    lines = [dict(_cells(answer, place)) for place in range(min(len(rows), MOST_ROWS))]
    names = list(dict.fromkeys(name for line in lines for name in line))
    head = _joined("<th>{}</th>", names)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(_joined("<td>{}</td>", [line.get(name, "") for name in names]))
        for line in lines
    )
    said = [*answer.cautions, *answer.notes]
    if len(rows) > MOST_ROWS:
        said.insert(0, f"{len(rows) - MOST_ROWS:,} more rows: to_frame() has them all")
    return str(
        Markup(
            "<div><strong>{}</strong><table><tr>{}</tr>{}</table><div>epsilon {} spent, {} left</div>{}</div>"
        ).format(
            answer.guarantee, head, body, answer.epsilon, answer.remaining, _joined("<div>{}</div>", said)
        )
    )


def _cells(answer: Answer, place: int) -> Iterator[tuple[str, str]]:
    """The headings and texts of one row: labels, and each figure with its intervals."""
    row = _row(answer.value, place)
    one = not isinstance(row, Mapping)
    for name, figure in ({"value": row} if one else row).items():
        yield str(name), _number(figure)
        for field, heading in _INTERVALS:
            within = _row(getattr(answer, field), place)
            ends = within.get(name) if isinstance(within, Mapping) else within
            if isinstance(ends, (tuple, list)):  # a group's label has no interval
                low, high = ("no bound known" if each is None else _number(each) for each in ends)
                yield (heading if one else f"{name}, {heading}"), f"{low} to {high}"


def _row(facts: Any, place: int) -> Any:
    return facts[place] if isinstance(facts, list) else facts


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "NULL" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _joined(piece: str, texts: list[str]) -> Markup:
    return Markup("").join(Markup(piece).format(each) for each in texts)  # noqa: S704 - a piece of our own
