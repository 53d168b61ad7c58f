"""The pictures of the documentation, drawn by the code they show.

Each is an SVG that takes its colours from the page (`docs/_static/shoal.css`), so that one file serves light, dark
and paper. `python docs/generate.py` and every build of the documentation draw them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from drawings import architecture, attacks, figures, partitions

PICTURES: dict[str, Callable[[], str]] = {
    **{f"family-{name}": (lambda name=name: partitions.family(name)) for name in partitions.FAMILIES},
    "cover": partitions.cover,
    "forming": partitions.forming,
    "film": partitions.film,
    **{
        f"il-against-seconds-{table}": (lambda table=table: figures.loss_against_seconds(table))
        for table in ("census", "tarragona", "eia")
    },
    "seconds-over-records": figures.seconds_over_records,
    "risk-utility": figures.risk_utility,
    "correlated-noise": figures.correlated_noise,
    "architecture": architecture.architecture,
    "answering": architecture.answering,
    **{
        f"attack-{each.__name__.replace('_', '-')}": each
        for each in (
            attacks.singling_out,
            attacks.linkability,
            attacks.inference,
            attacks.record_linkage,
            attacks.membership,
        )
    },
}

# The page's colours, for pictures that stand alone (the README shows one).
ALONE = """<style>
svg { --ink: #15202b; --muted: #52606d; --rule: #dde3e9; --card: #ffffff; --before: #b4bfca; --after: #0b7a9b;
  --series-1: #0b7a9b; --series-2: #d9480f; font-family: system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --ink: #e8edf2; --muted: #a3b0bd; --rule: #2f3a45; --card: #182028;
  --before: #566472; --after: #5cc4e4; --series-1: #5cc4e4; --series-2: #f0975f; } }
</style>"""


def draw_all(folder: Path) -> None:
    """Draw every picture into `folder`, in a box that scrolls on narrow screens; an unchanged file is not written again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        path, text = folder / f"{name}.svg", f'<div class="picture {name}">{draw()}</div>\n'
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def draw_cover(path: Path) -> None:
    """Draw the picture of the README: it stands alone, so it brings its colours along."""
    text = partitions.cover()
    opening, rest = text.split(">", 1)
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    path.write_text(f"{opening}>{ALONE}{rest}\n", encoding="utf-8")
