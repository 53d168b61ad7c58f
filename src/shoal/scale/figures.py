"""What is told about a run: sums over parts, values before and after, and the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from shoal.measures import evaluate
from shoal.scale.plan import Plan
from shoal.scale.solving import Solved

# Rows whose values before and after are compared for the figures.
MEASURED_ROWS = 10_000


class Figures:
    """Sums over parts."""

    def __init__(self) -> None:
        self.n = self.groups = self.largest = 0
        self.smallest: int | None = None
        self.loss = self.total = self.linked = self.asked = 0.0

    def add(self, solved: Solved) -> None:
        """Add a part."""
        sizes = np.bincount(solved.labels)
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
        }


def sampled(batch: pl.DataFrame, published: pl.DataFrame, share: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """An even selection of rows, before and after."""
    step = max(1, round(1 / share))
    return batch[::step], published[::step]


def before_and_after(plan: Plan, pairs: list[tuple[pl.DataFrame, pl.DataFrame]]) -> dict[str, Any]:
    """Figures of an even selection of rows, on the columns of numbers."""
    numbers = [j for j, each in enumerate(plan.templates) if each.facts.kind == "number"]
    if not numbers:
        return {}
    before = plan.typed(pl.concat([each[0].select(plan.roles.needed) for each in pairs]))
    after = pl.concat([each[1] for each in pairs])
    known = ~np.stack([before[j].missing for j in numbers], axis=1).any(axis=1)
    X = np.stack([before[j].values for j in numbers], axis=1)[known]
    Y = np.stack([after[plan.templates[j].name].cast(pl.Float64).to_numpy() for j in numbers], axis=1)[known]
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
        "untouched": list(plan.roles.untouched),
        "identifiers": list(plan.roles.identifiers),
        "parts": plan.n_parts,
    }
    return figures | {"notes": [*notes, *merged], "settings": settings}
