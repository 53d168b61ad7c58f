"""What is told about a run: sums over parts, values before and after, and the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from shoal.measures import evaluate
from shoal.scale.plan import Plan
from shoal.scale.solving import Solved, replaced

# Rows whose values before and after are compared for the figures.
MEASURED_ROWS = 10_000


class Figures:
    """Sums over parts, and an even selection of rows before and after."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.n = self.groups = self.largest = 0
        self.smallest: int | None = None
        self.loss = self.total = self.linked = self.asked = 0.0
        self.step = max(1, round(plan.n_rows / MEASURED_ROWS))
        self.pairs: list[tuple[pl.DataFrame, pl.DataFrame]] = []

    def add(self, solved: Solved, table: pl.DataFrame) -> None:
        """Add a part and its rows."""
        sizes = np.bincount(solved.labels)
        # The selection goes on from part to part, wherever one ends.
        chosen = slice(-self.n % self.step, None, self.step)
        before, groups = table[chosen], solved.labels[chosen]
        self.pairs.append((before, replaced(before, self.plan, solved.values[groups], solved.gone[groups])))
        self.n += solved.labels.size
        self.groups += sizes.size
        self.smallest = int(min(sizes.min(), self.smallest if self.smallest is not None else sizes.min()))
        self.largest = int(max(sizes.max(), self.largest))
        self.loss += solved.loss
        self.total += solved.total
        if not np.isnan(solved.linked):
            self.linked += solved.linked * solved.labels.size
            self.asked += solved.labels.size

    def facts(self) -> dict[str, Any]:
        """What is told."""
        return {
            "n_records": self.n,
            "n_groups": self.groups,
            "smallest_group": self.smallest,
            "largest_group": self.largest,
            "information_loss": 100.0 * self.loss / self.total if self.total > 0 else 0.0,
            "dld": self.linked / max(1.0, self.asked),
        } | self._before_and_after()

    def _before_and_after(self) -> dict[str, Any]:
        """Figures of the selected rows, on the columns of numbers."""
        templates = self.plan.templates
        numbers = [j for j, each in enumerate(templates) if each.facts.kind == "number"]
        if not numbers:
            return {}
        before = self.plan.typed(pl.concat([each[0].select(self.plan.roles.needed) for each in self.pairs]))
        after = pl.concat([each[1].select(templates[j].name for j in numbers) for each in self.pairs])
        known = ~np.stack([before[j].missing for j in numbers], axis=1).any(axis=1)
        X = np.stack([before[j].values for j in numbers], axis=1)[known]
        Y = after.cast(pl.Float64).to_numpy()[known]
        if X.shape[0] < 2 or not np.isfinite(Y).all():
            return {}
        figures = evaluate(X, Y)
        figures.pop("dld")
        return figures


def facts_of(plan: Plan, figures: dict[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """What both engines tell about a run."""
    merged = [
        f"Stratum {', '.join(map(str, small))!r} has fewer than k rows: they joined the nearest stratum, "
        f"{', '.join(map(str, large))!r}, and are published with that value."
        for small, large in plan.joins.items()
    ]
    params = {name: value for name, value in plan.method.get_params(deep=False).items() if name != "k"}
    settings = {
        "method": plan.method.name,
        "k": plan.method.k,
        "parameters": params,
        "columns": [fact.name for fact in plan.roles.quasi],
        "strata": list(plan.roles.strata),
        "weights": plan.roles.weight,
        "sensitive": list(plan.roles.sensitive),
        "leave": list(plan.roles.left),
        "identifiers": list(plan.roles.identifiers),
        "parts": plan.n_parts,
    }
    return figures | {"notes": [*notes, *merged], "settings": settings}
