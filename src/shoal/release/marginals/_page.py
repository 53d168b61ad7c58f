"""The owner's page about a release through marginals: what was bought, what the rows keep, what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import escape

from shoal.release.marginals._utility import RiskUtility, Utility
from shoal.report.standalone import colours

if TYPE_CHECKING:
    from shoal.release.marginals._release import MarginalRelease


def utility_page(release: MarginalRelease, kept: Utility, against: Sequence[RiskUtility] = ()) -> str:
    """One HTML file for the owner.

    Parameters
    ----------
    release : MarginalRelease
    kept : Utility
        What `utility` measured.
    against : sequence of RiskUtility, optional
        What `risk_utility` measured, drawn as pictures.
    """
    rows = [
        (f"mean total variation of tables of {way} column{'s' * (way > 1)}", f"{value:.4f}")
        for way, value in enumerate(kept.total_variation, start=1)
    ]
    rows.append((f"furthest off: {', '.join(kept.worst_pair)}", f"{kept.worst:.4f}"))
    if kept.ranges is not None:
        rows.append(("median relative error of ranges", f"{kept.ranges:.4f}"))
    if kept.accuracy is not None:
        told = ("trained on the released rows", "trained on the table", "always the most frequent")
        rows += [
            (f"accuracy, {name}", f"{value:.3f}") for name, value in zip(told, kept.accuracy, strict=True)
        ]
    rows += [(f"within {name}: single columns", f"{value:.4f}") for name, value in kept.subgroups]
    spent = f"epsilon {release.epsilon:g}" + ("" if release.delta is None else f", delta {release.delta:g}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Released table</title>'
        f"<style>:root{{{colours()}}}body{{font:16px system-ui;margin:2rem auto;max-width:50rem}}svg{{width:100%}}"
        "td,th{padding:.2rem .8rem;text-align:left}td+td{text-align:right}</style>"
        f"<h1>Released table</h1><p>{escape(release.guarantee)}; {spent}.</p>"
        "<p>For the owner only: these figures are computed from the private table.</p>"
        f"<h2>What the rows keep</h2>{_table(rows)}{_picture(against)}"
        f"<h2>What was measured</h2>{_table(_bought(release))}"
        f"<h2>Notes</h2><ul>{''.join(f'<li>{escape(each)}</li>' for each in release.notes)}</ul></html>"
    )


def _table(rows: Sequence[tuple[str, str]]) -> str:
    return (
        "<table>"
        + "".join(f"<tr><td>{escape(a)}</td><td>{escape(b)}</td></tr>" for a, b in rows)
        + "</table>"
    )


def _bought(release: MarginalRelease) -> list[tuple[str, str]]:
    """Every set of columns that was measured, with the deviation of a cell."""
    model, found = release.model, []
    for key in sorted({each.key for each in model.measurements}, key=lambda key: (len(key), key)):
        names = ", ".join(model.names[at] for at in key) or "number of records"
        deviation = model.deviation(key)
        found.append((names, "ranges" if deviation is None else f"deviation {deviation:.2f}"))
    return found


def _picture(against: Sequence[RiskUtility]) -> str:
    """Two pictures: what is lost, and what an attacker gains, against epsilon."""
    if not against:
        return ""
    from shoal.report.figures import Series, lines

    epsilons = [each.epsilon for each in against]
    ways = min(len(each.utility.total_variation) for each in against)
    lost = [
        Series(
            f"{way + 1} column{'s' * (way > 0)}",
            epsilons,
            [each.utility.total_variation[way] for each in against],
        )
        for way in range(ways)
    ]
    made = "<h2>Against epsilon</h2><p>Trial releases, charged to nobody and shown to the owner alone.</p>"
    made += str(lines(lost, x_label="epsilon", y_label="mean total variation", log_x=True, log_y=True))
    attacked = [each for each in against if each.attack is not None]
    if attacked:
        epsilons = [each.epsilon for each in attacked]
        gained = [max(0.0, each.attack.advantage) for each in attacked if each.attack]
        allowed = [each.attack.most for each in attacked if each.attack]
        found = [
            Series("membership attack", epsilons, gained),
            Series("the guarantee allows", epsilons, allowed),
        ]
        made += str(lines(found, x_label="epsilon", y_label="attacker's advantage", log_x=True))
    return made
