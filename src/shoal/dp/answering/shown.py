"""What an answer shows: noisy figures, figures computed from them, and the groups in their order.

Everything here is post-processing: it uses only noisy numbers and public facts.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from shoal.dp.answering.figures import Figure, figures_of, labels_of, notes_of
from shoal.dp.answering.noise import Drawn
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import BETA, Sums
from shoal.dp.meaning.outputs import CHOSEN, MADE, Row, Shown, arrange, evaluate, figures_in, keep, pair
from shoal.dp.sql.expressions import FigureOf
from shoal.dp.sql.query import group_names
from shoal.typing import Record


@dataclass(frozen=True)
class Laid:
    """Figures in the form of an answer: one figure, figures by name, or a row for each group.

    Parameters
    ----------
    value, interval : as of `Answer`
    cut : like `interval`, optional
        None if nothing was cut.
    """

    value: Any
    interval: Any
    cut: Any = None


def figures(plan: Plan, noisy: Drawn) -> Laid:
    """Values and intervals of an answer, from one draw of `add_noise`."""
    asked, outputs = plan.lowered.asked, plan.lowered.outputs
    shares = [max(1, len(figures_in(each.value))) for each in outputs]
    # The intervals of k figures hold together with 95 % if each misses with 5 % / k.
    drawn = {share: _drawn(plan, noisy, float(BETA) / share) for share in {1, *shares}}
    rows = {share: [_row(each, wide=True) for each in found] for share, found in drawn.items()}
    narrow = {share: [_row(each, wide=False) for each in found] for share, found in drawn.items()}
    places = arrange(keep(plan.lowered.kept, rows[1]), plan.lowered.ordered, rows[1])
    last = None if asked.most is None else asked.skipped + asked.most
    values, intervals, cuts = [], [], []
    for place in places[asked.skipped : last]:
        label = dict(zip(group_names(asked), rows[1][place].labels, strict=True))
        shown = {
            each.name: evaluate(each.value, rows[share][place])
            for each, share in zip(outputs, shares, strict=True)
        }
        values.append({**label, **{name: each.value for name, each in shown.items()}})
        intervals.append(
            {
                **label,
                **{
                    name: each.value if each.ends is None else pair(each.ends) for name, each in shown.items()
                },
            }
        )
        held = {
            each.name: pair(evaluate(each.value, narrow[share][place]).ends)
            for each, share in zip(outputs, shares, strict=True)
            if any(drawn[1][place].figures[part].cut is not None for part in figures_in(each.value))
        }
        cuts.append({**label, **held} if held else {})
    cut = _laid_out(plan, cuts) if any(cuts) else None
    return Laid(_laid_out(plan, values), _laid_out(plan, intervals), cut)


def _laid_out(plan: Plan, rows: list[Record]) -> Any:
    if plan.lowered.asked.groups or not rows:
        return rows
    names = [each.name for each in plan.lowered.outputs]
    return rows[0].get(names[0]) if len(names) == 1 else rows[0]


@dataclass(frozen=True)
class _Group:
    """One group as drawn."""

    figures: dict[str, Figure]
    labels: tuple[Any, ...]
    grouped: tuple[int, ...]


def _drawn(plan: Plan, noisy: Drawn, beta: float) -> list[_Group]:
    """Every group of every grouping set: its labels, and its figures with intervals that miss with probability beta."""
    found, rows = plan.lowered, []
    size = len(found.core.aggregates)
    names = [str(each) for each in found.core.aggregates]
    levels_of = [labels_of(plan.schema.columns[str(name)]) for name in found.core.groups]
    for start in range(0, len(plan.releases), size):
        chosen = plan.sets[start]
        columns = [
            figures_of(plan, release, drawn[0].tolist(), plan.schema.columns.get(release.column or ""), beta)
            for release, drawn in zip(
                plan.releases[start : start + size], noisy[start : start + size], strict=True
            )
        ]
        combinations = itertools.product(*(levels_of[at] for at in chosen))
        for labels, each in zip(combinations, zip(*columns, strict=True), strict=True):
            known = dict(zip(chosen, labels, strict=True))
            rows.append(
                _Group(
                    dict(zip(names, each, strict=True)),
                    tuple(known.get(at) for at in range(len(levels_of))),
                    chosen,
                )
            )
    return rows


def _row(group: _Group, *, wide: bool) -> Row:
    figures = {}
    for name, each in group.figures.items():
        low, high = each.interval if wide or each.cut is None else each.cut
        figures[name] = Shown(
            each.value, (-math.inf if low is None else low, math.inf if high is None else high)
        )
    return Row(figures, group.labels, group.grouped)


def notes(plan: Plan, noisy: Drawn) -> tuple[str, ...]:
    """Notes, all public: what each interval covers, which ranks were aimed at, what was computed from noisy figures."""
    said: list[str] = []
    for aggregate, release, drawn in zip(plan.query.aggregates, plan.releases, noisy, strict=True):
        said += [f"{aggregate.name}: {each}" for each in notes_of(plan, release, int(drawn[0, 0]))]
    if plan.protected.kind == "cell" and plan.protected.n_cells < 300:
        said.append(f"only {plan.protected.n_cells} cells: expect large errors below 300")
    return tuple(dict.fromkeys([*said, *_about_made(plan), *plan.lowered.said]))


def _about_made(plan: Plan) -> list[str]:
    found, said = plan.lowered, []
    fixed = {
        str(one)
        for one, release in zip(plan.query.aggregates, plan.releases, strict=True)
        if not isinstance(release, Sums)
    }
    for each in found.outputs:
        parts = figures_in(each.value)
        if not isinstance(each.value, FigureOf) and parts:
            missed = sum(0.05 if part in fixed else 0.05 / len(parts) for part in parts)
            said.append(MADE.format(each.name, max(0, round(100 * (1 - missed)))))
    if found.kept is not None or found.asked.most is not None:
        said.append(CHOSEN)
    if found.asked.groups:
        names = ", ".join(group_names(found.asked))
        said.append(
            f"rows without a declared level of {names} are in no group; SQL would show one more, of NULL"
        )
    return said
