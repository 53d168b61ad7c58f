"""Figures as bars from zero with whiskers: lengths in per cent, so that no text is stretched, clipped or hidden."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup, escape

from shoal.server.shown import ShownFigure, is_number, number

MOST_BARS = 40
HEIGHT = 26


@dataclass(frozen=True)
class ChartAxis:
    """A line of numbers that holds zero; places on it are per cent of its length."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Where a number lies, within the ends."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 3)


def bars(name: str, figures: list[ShownFigure]) -> Markup:
    """Bars from zero, largest first, each with its value and whiskers at the ends of its interval.

    Nothing where a figure is no number. Of many groups the largest are drawn; the table has all.
    """
    if not figures or not all(is_number(each.value) for each in figures):
        return Markup("")
    drawn = sorted(figures, key=lambda each: -each.value)[:MOST_BARS]
    axis = axis_of(drawn)
    rows = Markup("").join(_bar(each, axis) for each in drawn)
    left_out = len(figures) - len(drawn)
    note = (
        Markup('<p class="quiet">The {} largest of {} groups; the table has all.</p>').format(
            len(drawn), len(figures)
        )
        if left_out
        else Markup("")
    )
    said = "; ".join(f"{each.label or name} {number(each.value)} ({each.within})" for each in drawn[:10])
    kind = "alone" if len(figures) == 1 else "many"
    return Markup('<div class="bars {}" role="img" aria-label="{}">{}{}</div>{}').format(
        kind, f"Bars from zero with 95 % intervals. {name}: {said}", rows, _axis(axis), note
    )


def axis_of(figures: list[ShownFigure]) -> ChartAxis:
    """An axis from zero that holds every value and every known end, with at least two ticks."""
    known = [0.0]
    for each in figures:
        known += [
            float(end) for end in (each.value, each.low, each.high) if is_number(end) and math.isfinite(end)
        ]
    low, high = min(known), max(known)
    if high - low < 1e-200:
        low, high = 0.0, 1.0
    step = step_of(high - low)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = tuple(float(f"{step * each:.12g}") for each in range(first, last + 1))
    return ChartAxis(ticks[0], ticks[-1], ticks)


def step_of(span: float) -> float:
    """A round number of which three to six make up a span."""
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)


def _bar(figure: ShownFigure, axis: ChartAxis) -> Markup:
    zero, end = axis.at(0.0), axis.at(figure.value)
    left, width = min(zero, end), abs(end - zero)
    parts = [f'<rect class="fill" x="{left}%" width="{width:.3f}%" y="5" height="{HEIGHT - 10}"/>']
    parts.append(f'<line class="zero" x1="{zero}%" x2="{zero}%" y1="0" y2="{HEIGHT}"/>')
    if figure.low is not None or figure.high is not None:
        low = axis.at(axis.low if figure.low is None else figure.low)
        high = axis.at(axis.high if figure.high is None else figure.high)
        middle = HEIGHT / 2
        parts.append(f'<line class="whisker" x1="{low}%" x2="{high}%" y1="{middle}" y2="{middle}"/>')
        parts += [
            f'<line class="whisker" x1="{place}%" x2="{place}%" y1="{middle - 5}" y2="{middle + 5}"/>'
            for place, known in ((low, figure.low), (high, figure.high))
            if known is not None
        ]
    drawing = _drawing("".join(parts), HEIGHT)
    label = Markup('<span class="bar-label">{}</span>').format(figure.label) if figure.group else Markup("")
    return Markup('<div class="bar-row">{}{}<span class="bar-value">{}</span></div>').format(
        label, drawing, number(figure.value)
    )


def _axis(axis: ChartAxis) -> Markup:
    parts = [f'<line class="axis" x1="0%" x2="100%" y1="1" y2="1"/>']  # noqa: F541 - as the lines beside it
    for place, tick in enumerate(axis.ticks):
        at = axis.at(tick)
        anchor = "start" if place == 0 else "end" if place == len(axis.ticks) - 1 else "middle"
        inner = "tick inner" if anchor == "middle" else "tick"
        parts.append(f'<line class="axis" x1="{at}%" x2="{at}%" y1="1" y2="6"/>')
        parts.append(
            f'<text class="{inner}" x="{at}%" y="20" text-anchor="{anchor}">{escape(number(tick))}</text>'
        )
    return Markup(
        '<div class="bar-row bar-axis"><span class="bar-label"></span>{}<span class="bar-value"></span></div>'
    ).format(_drawing("".join(parts), 24))


def _drawing(body: str, height: int) -> Markup:
    # Every text in the body was escaped where it was put in.
    return Markup(f'<svg class="bar-line" width="100%" height="{height}">{body}</svg>')  # noqa: S704
