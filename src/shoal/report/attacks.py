"""The page of attacks: rates with their intervals beside the naive guess and the control group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup
from matplotlib.ticker import FuncFormatter

from shoal.io import check_page, write_text
from shoal.report.canvas import AFTER, BEFORE, INK, MUTED, canvas, clean, drawing, to_svg
from shoal.report.html import Section, figure, page, table, tiles

if TYPE_CHECKING:
    from shoal.attacks import Attack, Attacks

MARK = "Custodian only"
CRITERIA = {
    "singling out": "Can a condition be read off the table that exactly one person meets?",
    "linkability": "Do two sets of facts about one person lead to the same published row?",
    "inference": "Can a sensitive value be found out from the other columns?",
    "record linkage": "Can a person's own row be found by someone who knows all columns that are not sensitive?",
    "membership": "Can an intruder find out whether someone is in the table?",
}


def rates_picture(results: Sequence[Attack]) -> Markup:
    """Each attack's rate with its interval, the naive guess as a bar beside it, the control group as a ring.

    Where records were held out for the comparison, a diamond is the rate of the others, which the ring stands beside.

    Examples
    --------
    >>> from shoal.attacks import Attack, Rate
    >>> from shoal.report.attacks import rates_picture
    >>> some = Attack("a", "Finding rows", "record linkage", Rate(0.2, 0.1, 0.3, 50), Rate(0.0, 0.0, 0.0, 50), 0.2)
    >>> rates_picture([some])[:4]
    Markup('<svg')
    """
    names = [clean(each.title.replace("Finding the own row", "Own row"), 52) for each in results]
    with drawing():
        axes = canvas(720, 60 + 24 * len(results), left=310, bottom=38, top=26, right=20)
        for row, each in enumerate(results):
            rate = each.rate
            axes.plot([100 * each.baseline.value], [row], "|", color=MUTED, markersize=13, markeredgewidth=2)
            if each.control is not None:
                axes.plot([100 * each.control.value], [row], "o", markersize=9, markerfacecolor="none",
                          markeredgecolor=INK, markeredgewidth=1.3)  # fmt: skip
            axes.plot(
                [100 * rate.low, 100 * rate.high], [row, row], color=AFTER, linewidth=3, solid_capstyle="butt"
            )
            axes.plot([100 * rate.value], [row], "o", color=AFTER, markersize=6)
            if each.compared is not None and each.compared.value != rate.value:
                axes.plot([100 * each.compared.value], [row], "D", markersize=5, markerfacecolor="none",
                          markeredgecolor=AFTER, markeredgewidth=1.3)  # fmt: skip
        axes.set_yticks(range(len(results)), names)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.invert_yaxis()
        axes.set_xlim(-2, 102)
        axes.grid(visible=True, axis="x", color=BEFORE, linewidth=0.5)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
        axes.set_xlabel("success rate")
        axes.plot([], [], "o-", color=AFTER, label="rate, 95 %", linewidth=3, markersize=6)
        axes.plot([], [], "|", color=MUTED, markersize=12, markeredgewidth=2, label="naive guess")
        axes.plot(
            [], [], "o", markerfacecolor="none", markeredgecolor=INK, markersize=9, label="control group"
        )
        if any(each.compared is not None and each.compared.value != each.rate.value for each in results):
            axes.plot(
                [],
                [],
                "D",
                markerfacecolor="none",
                markeredgecolor=AFTER,
                markersize=5,
                label="people of the split",
            )
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, labelcolor=INK)
        spoken = "; ".join(
            f"{name} {100 * each.rate.value:.3g} %" for name, each in zip(names, results, strict=True)
        )
        return to_svg(axes, f"Success rates of the attacks: {spoken}.")


def attack_sections(found: Attacks) -> list[Section]:
    """The sections of a page about attacks."""
    counts = tiles(
        [
            ("status", found.status),
            ("attacks", f"{len(found.results)}"),
            ("published rows", f"{found.n_published:,}"),
            ("control group", f"{found.n_control:,}"),
        ]
    )
    why = table(["reason"], [[reason] for reason in found.reasons]) if found.reasons else Markup("")
    picture = figure(
        rates_picture(found.results),
        "A rate well above the ring is about people in the table; a rate at the ring is what holds for everybody. Where "
        "records were held out, the diamond is what the ring is compared with.",
        wide=True,
    )
    parts = [
        Section("Status", counts + why, found.release_type.rule),
        Section(
            "Rates",
            picture,
            "An attack can only show that a table fails; that none succeeded proves nothing.",
        ),
    ]
    for criterion, question in CRITERIA.items():
        rows = [each for each in found.results if each.criterion == criterion]
        if rows:
            parts.append(Section(criterion.capitalize(), attack_table(rows), question))
    if found.notes:
        notes = Markup("<ul class='notes'>{}</ul>").format(
            Markup("").join(Markup("<li>{}</li>").format(note) for note in found.notes)
        )
        parts.append(Section("Notes", notes))
    return parts


def attack_table(results: Sequence[Attack]) -> Markup:
    """The figures of some attacks; columns that none of them has are left out."""
    columns: dict[str, list[str | Markup]] = {
        "attack": [_titled(each) for each in results],
        "rate (95\u00a0%)": [_with_interval(each) for each in results],
        "naive guess": [_share(each.baseline.value) for each in results],
        "people in it": [_share(None if each.compared is None else each.compared.value) for each in results],
        "control group": [_share(None if each.control is None else each.control.value) for each in results],
        "beyond control": [_share(None if each.excess is None else each.excess.value) for each in results],
        "allowed": [_share(each.limit) for each in results],
        "status": [_pill(each.colour) for each in results],
    }
    filled = {name: cells for name, cells in columns.items() if any(cells)}
    return table(list(filled), zip(*filled.values(), strict=True))


def _titled(attack: Attack) -> Markup:
    words = Markup('<br><span class="quiet">{}</span>').format(attack.note) if attack.note else ""
    return Markup("{}{}").format(attack.title, words)


def _with_interval(attack: Attack) -> Markup:
    """A rate over its interval, which is not broken."""
    rate = attack.rate
    return Markup('{}<br><span class="quiet role">{:.1f} to {:.1f}</span>').format(
        _share(rate.value), 100 * rate.low, 100 * rate.high
    )


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _pill(colour: str) -> Markup:
    words = {"green": "holds", "amber": "open", "red": "fails"}[colour]
    return Markup('<span class="state {}">{}</span>').format(words, colour)


def write_attacks(found: Attacks, path: str | Path) -> None:
    """Write the page of attacks."""
    check_page(path)
    write_text(page("Attacks on the published table", attack_sections(found), mark=MARK), path)
