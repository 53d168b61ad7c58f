"""The owner's page about a release through marginals: what was bought, what the rows keep, what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from shoal import report
from shoal.release.marginals._utility import RiskUtility, Utility

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
    sections = [
        report.Section(
            "What the rows keep", report.table(["figure", "value"], rows), "Measured on the private table."
        ),
        *_pictures(against),
        report.Section(
            "What was measured",
            report.table(["columns", "deviation of a cell"], _bought(release)),
            "Every set of columns that noise was added to, in records.",
        ),
        report.Section("Notes", Markup("<ul>{}</ul>").format(_items(release.notes))),
    ]
    subtitle = f"{release.guarantee}; {spent}"
    return report.page("Released table", sections, mark="custodian only", subtitle=subtitle)


def _items(notes: Sequence[str]) -> Markup:
    return Markup("").join(Markup("<li>{}</li>").format(each) for each in notes)


def _bought(release: MarginalRelease) -> list[tuple[str, str]]:
    """Every set of columns that was measured, with the deviation of a cell."""
    model, found = release.model, []
    for key in sorted({each.key for each in model.measurements}, key=lambda key: (len(key), key)):
        names = ", ".join(model.names[at] for at in key) or "number of records"
        deviation = model.deviation(key)
        found.append((names, "ranges" if deviation is None else f"{deviation:.2f}"))
    return found


def _pictures(against: Sequence[RiskUtility]) -> list[report.Section]:
    """Two pictures: what is lost, and what an attacker gains, against epsilon."""
    if not against:
        return []
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
    drawn = [
        report.figure(
            lines(lost, x_label="epsilon", y_label="mean total variation", log_x=True, log_y=True),
            "What is lost.",
        )
    ]
    attacked = [each for each in against if each.attack is not None]
    if attacked:
        epsilons = [each.epsilon for each in attacked]
        found = [
            Series(
                "membership attack",
                epsilons,
                [max(0.0, each.attack.advantage) for each in attacked if each.attack],
            ),
            Series("the guarantee allows", epsilons, [each.attack.most for each in attacked if each.attack]),
        ]
        picture = lines(found, x_label="epsilon", y_label="attacker's advantage", log_x=True)
        drawn.append(report.figure(picture, "What an attacker gains."))
    lead = "Trial releases, charged to nobody and shown to the owner alone."
    return [report.Section("Against epsilon", report.side_by_side(drawn), lead)]
