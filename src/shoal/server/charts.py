"""Figures as bars from zero with whiskers, methods as points of a map: places in per cent, so that no text is stretched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from shoal.server.models import ComparedMethod
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
    return axis_over(known)


def axis_over(values: Sequence[float]) -> ChartAxis:
    """An axis with round ticks that holds every value."""
    low, high = min(values), max(values)
    if high - low < 1e-200:
        low, high = 0.0, 1.0
    step = step_of(high - low)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = tuple(float(f"{step * each:.12g}") for each in range(first, last + 1))
    return ChartAxis(ticks[0], ticks[-1], ticks)


def risk_map(job: str, points: Sequence[ComparedMethod]) -> Markup:
    """The map of a comparison, loss across and linkage up: each point leads to the form with its method and k."""
    if not points:
        return Markup("")
    across = axis_over([0.0, *(each.information_loss for each in points)])
    up = axis_over([0.0, *(100 * each.dld for each in points)])
    parts = [
        Markup(
            '<line class="axis" x1="8%" x2="98%" y1="240" y2="240"/><line class="axis" x1="8%" x2="8%" y1="14" y2="240"/>'
        )
    ]
    x_tick = Markup('<text class="tick" x="{:.2f}%" y="258" text-anchor="middle">{}</text>')
    y_tick = Markup('<text class="tick" x="7.4%" y="{:.1f}" text-anchor="end">{}</text>')
    parts += [x_tick.format(8 + 0.9 * across.at(each), number(each)) for each in across.ticks]
    parts += [y_tick.format(244 - 2.26 * up.at(each), number(each)) for each in up.ticks]
    for each in points:
        said = (
            f"{each.method}, k = {each.k}: loses {each.information_loss:.1f} %, {100 * each.dld:.1f} % linked"
        )
        place = (8 + 0.9 * across.at(each.information_loss), 240 - 2.26 * up.at(100 * each.dld))
        parts.append(
            Markup(
                '<a href="/publish/{}?take={}:{}#columns" aria-label="Take {}"><title>{}</title>'
                '<circle class="point{}" cx="{:.2f}%" cy="{:.1f}" r="7"/></a>'
            ).format(job, each.method, each.k, said, said, " front" if each.on_front else "", *place)
        )
    return Markup(
        '<svg class="risk-map" width="100%" height="268" role="group" aria-label="Loss against linkage">{}</svg>'
    ).format(Markup("").join(parts))


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
