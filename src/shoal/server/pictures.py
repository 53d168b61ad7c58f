"""Small pictures as SVG: intervals, the gauge of a budget, spending over time. No style attributes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup, escape

from shoal.dp.answer import Answer
from shoal.dp.heuristic import Reproduction

WIDTH = 640
RIGHT = 36  # room for half of the last number on an axis


@dataclass(frozen=True)
class Figure:
    """One number of an answer with its interval, and what it is called."""

    label: str
    value: Any
    low: Any = None
    high: Any = None
    cut: tuple[Any, Any] | None = None

    @property
    def within(self) -> str:
        """Its intervals in words; nothing where it has none."""
        if self.low is None and self.high is None and self.cut is None:
            return ""
        said = f"95 %: {_end(self.low)} to {_end(self.high)}"
        return (
            said
            if self.cut is None
            else f"{said}; of the cut figure {_end(self.cut[0])} to {_end(self.cut[1])}"
        )


@dataclass(frozen=True)
class Shown:
    """An answer ready for a page: figures by name, each with a picture."""

    parts: tuple[tuple[str, tuple[Figure, ...], Markup], ...]


def flat(answer: Answer | Reproduction) -> list[Figure]:
    """All figures of an answer in order."""
    return [figure for _, figures in _by_name(answer) for figure in figures]


def answer(given: Answer | Reproduction) -> Shown:
    """An answer with its pictures."""
    return Shown(tuple((name, tuple(each), intervals(each)) for name, each in _by_name(given)))


def _end(value: Any) -> str:
    return "no known bound" if value is None else number(value)


def number(value: Any) -> str:
    """A number for people."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def intervals(figures: list[Figure] | tuple[Figure, ...]) -> Markup:
    """Points with their 95 % intervals on one axis; nothing where a figure is no number."""
    numeric = [each for each in figures if all(_is_number(v) for v in (each.value, each.low, each.high))]
    if not numeric or len(numeric) < len(figures) or len(figures) > 60:
        return Markup("")
    low, high = min(each.low for each in numeric), max(each.high for each in numeric)
    low = min(low, 0.0) if -0.3 * abs(high) < low < 0.3 * high else low
    span = (high - low) or 1.0
    low, high = low - 0.04 * span, high + 0.04 * span
    left = RIGHT if len(figures) == 1 else 150
    row, top = 34, 16
    height = top + row * len(figures) + 30

    def x(value: float) -> float:
        return left + (WIDTH - left - RIGHT) * (value - low) / (high - low)

    parts = []
    for place, each in enumerate(figures):
        y = top + row * place + row / 2 - 4
        if len(figures) > 1:
            parts.append(
                f'<text class="label" x="{left - 12}" y="{y + 5}" text-anchor="end">{escape(_short(each.label))}</text>'
            )
        parts.append(
            f'<rect class="band" x="{x(each.low):.1f}" y="{y - 7}" width="{max(1.0, x(each.high) - x(each.low)):.1f}" height="14" rx="7"/>'
        )
        parts.append(f'<circle class="dot" cx="{x(each.value):.1f}" cy="{y}" r="7"/>')
    base = height - 26
    parts.append(f'<line class="axis" x1="{left}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>')
    for tick in _ticks(low, high):
        parts.append(
            f'<line class="axis" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{base}" y2="{base + 5}"/>'
        )
        parts.append(
            f'<text class="tick" x="{x(tick):.1f}" y="{base + 22}" text-anchor="middle">{escape(number(tick))}</text>'
        )
    said = "; ".join(
        f"{each.label} {number(each.value)}, from {number(each.low)} to {number(each.high)}"
        for each in figures
    )
    return _svg(height, "".join(parts), f"95 % intervals: {said}", "intervals")


def gauge(budget: dict[str, Any]) -> Markup:
    """A budget as a bar: what is spent, and what is left."""
    cap, left = budget["cap"] or 1.0, budget["remaining"]
    share = max(0.0, min(1.0, left / cap))
    state = "gone" if share == 0 else "low" if share < 0.2 else "fine"
    width = WIDTH * share
    body = f'<rect class="trough" width="{WIDTH}" height="18"/>'
    if share:
        body += f'<rect class="left {state}" width="{max(width, 6):.1f}" height="18"/>'
    return _svg(18, body, f"{left:g} of {cap:g} {_word(budget)} left", "gauge")


def spending(facts: dict[str, Any]) -> Markup:
    """The total of a data set over time, below its cap."""
    height, left, top, base = 200, 46, 18, 172
    cap, charges = facts["cap"], facts["charges"]
    times = [datetime.fromisoformat(at).timestamp() for at, _ in charges]
    first, last = (min(times), max(times)) if times else (0.0, 1.0)
    last += 0.05 * (last - first)  # so that the last step is seen

    def x(at: float) -> float:
        return left + (WIDTH - left - 12) * ((at - first) / (last - first) if last > first else 0.5)

    def y(value: float) -> float:
        return base - (base - top) * value / cap

    parts = [
        f'<line class="cap" x1="{left}" x2="{WIDTH - 12}" y1="{top}" y2="{top}"/>',
        f'<text class="tick" x="{left - 8}" y="{top + 4}" text-anchor="end">{cap:g}</text>',
        f'<text class="tick" x="{left - 8}" y="{base + 4}" text-anchor="end">0</text>',
        f'<line class="axis" x1="{left}" x2="{WIDTH - 12}" y1="{base}" y2="{base}"/>',
    ]
    if charges:
        path, before = [f"M{left} {base}"], 0.0
        for at, (_, total) in zip(times, charges, strict=True):
            path += [f"L{x(at):.1f} {y(before):.1f}", f"L{x(at):.1f} {y(total):.1f}"]
            before = total
        path.append(f"L{WIDTH - 12} {y(before):.1f}")
        line = " ".join(path)
        parts.append(f'<path class="area" d="{line} L{WIDTH - 12} {base} Z"/><path class="line" d="{line}"/>')
        parts.append(
            f'<text class="tick" x="{left}" y="{base + 22}">{charges[0][0][:16].replace("T", " ")}</text>'
        )
        parts.append(
            f'<text class="tick" x="{WIDTH - 12}" y="{base + 22}" text-anchor="end">{charges[-1][0][:16].replace("T", " ")}</text>'
        )
    else:
        parts.append(
            f'<text class="label" x="{WIDTH / 2}" y="{(top + base) / 2}" text-anchor="middle">Nothing was asked yet.</text>'
        )
    return _svg(height, "".join(parts), f"{facts['spent']:g} of {cap:g} {_word(facts)} spent", "spending")


def _by_name(given: Answer | Reproduction) -> list[tuple[str, list[Figure]]]:
    value, interval, cut = given.value, given.interval, getattr(given, "cut_interval", None)
    if isinstance(value, list):
        first = interval[0] if interval else {}
        labels = [name for name in value[0] if interval and not isinstance(first.get(name), (list, tuple))]
        named: dict[str, list[Figure]] = {}
        for place, row in enumerate(value):
            label = ", ".join(str(row[name]) for name in labels)
            for name in row:
                if name not in labels:
                    ends = interval[place][name] if interval else None
                    narrow = cut[place].get(name) if cut else None
                    named.setdefault(name, []).append(_named(label, row[name], ends, narrow))
        return list(named.items())
    if isinstance(value, dict):
        return [
            (name, [_named(name, each, (interval or {}).get(name), (cut or {}).get(name))])
            for name, each in value.items()
        ]
    return [("answer", [_named("answer", value, interval, cut)])]


def _named(label: str, value: Any, interval: Any, cut: Any) -> Figure:
    low, high = (None, None) if interval is None else interval
    return Figure(label, value, low, high, cut)


def _ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5
    size = 10.0 ** len(str(int(rough))) / 10 if rough >= 1 else 10.0 ** -(len(f"{1 / rough:.0f}") - 1)
    step = next((size * each for each in (1, 2, 5, 10, 20, 50) if size * each >= rough), size)
    start = int(low // step) + 1
    found = [round(step * each, 12) for each in range(start, start + 12) if step * each <= high]
    return [int(each) if float(each).is_integer() else each for each in found]


def _svg(height: float, body: str, title: str, kind: str) -> Markup:
    stretch = ' preserveAspectRatio="none"' if kind == "gauge" else ""
    # Every text in the body was escaped where it was put in.
    return Markup(  # noqa: S704
        f'<svg class="{kind}"{stretch} viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">{body}</svg>'
    )


def _short(text: str) -> str:
    return text if len(text) <= 18 else text[:17] + "\N{HORIZONTAL ELLIPSIS}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _word(facts: dict[str, Any]) -> str:
    """What a data set is counted in."""
    return "rho" if facts.get("currency") == "zcdp" else "epsilon"
