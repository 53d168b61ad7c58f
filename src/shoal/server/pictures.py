"""Small pictures as SVG: the gauge of a budget, spending over time. No style attributes."""

from __future__ import annotations

from datetime import datetime

from markupsafe import Markup, escape

from shoal.server.budgets import Budget, DatasetSpending

WIDTH = 640


def gauge(budget: Budget) -> Markup:
    """A budget as a bar: what is spent, and what is left."""
    cap, left = budget.cap.value or 1.0, budget.remaining.value
    share = max(0.0, min(1.0, left / cap))
    state = "gone" if share == 0 else "low" if share < 0.2 else "fine"
    width = WIDTH * share
    body = f'<rect class="trough" width="{WIDTH}" height="18"/>'
    if share:
        body += f'<rect class="left {state}" width="{max(width, 6):.1f}" height="18"/>'
    return _svg(18, body, budget.sentence, "gauge")


def spending(facts: DatasetSpending) -> Markup:
    """The total of a data set over time, below its cap."""
    height, top, base = 200, 18, 172
    cap, charges = facts.cap, facts.charges
    left = max(46, 14 + 9 * len(f"{cap:g}"))  # a cap of rho has many digits
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
    return _svg(height, "".join(parts), f"{facts.spent:g} of {cap:g} {facts.counted_in} spent", "spending")


def _svg(height: float, body: str, title: str, kind: str) -> Markup:
    stretch = ' preserveAspectRatio="none"' if kind == "gauge" else ""
    # Every text in the body was escaped where it was put in.
    return Markup(  # noqa: S704
        f'<svg class="{kind}"{stretch} viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">{body}</svg>'
    )
