"""One table of the correlated experiments: every model built, every query asked, every second counted."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from shoal.dp import Session
from shoal.dp.answering.exact import compute
from shoal.dp.answering.noise import add_noise
from shoal.dp.answering.shown import figures
from shoal.dp.correlation import (
    BoundaryWarning,
    DBSCANModel,
    FrozenMixture,
    GaussianMixtureModel,
    Model,
    SelectedMixture,
    Spearman,
)
from shoal.dp.heuristic import exact_and_sensitivity
from shoal.dp.sql.query import Query
from shoal.dp.unit import resolve
from shoal.errors import ShoalError
from shoal.research._correlated_queries import Bench, answering, random_queries, with_figures
from shoal.research._correlated_rows import Measured
from shoal.research._published import DISSERTATION
from shoal.typing import Json, Keywords

Progress = Callable[[str], None]
EPSILONS = (0.1, 0.5, 1.0)
BASELINE, FIRST, SECOND, THIRD = "baseline", "approach 1", "approach 2", "approach 3"
CELLS = {"adult": 1000, "ccc": 1000, "hapt": 300}
DRAWS = 20
PREPROCESSINGS = {"": "min-max", " (z)": "z-score", " (raw)": "raw"}
# The preprocessings run besides min-max without `full`.
BESIDES = {"adult": (" (z)",), "ccc": (" (z)",), "hapt": (" (raw)",)}


@dataclass
class TableExperiments:
    """The experiments on one table."""

    table: Bench
    loaded: pl.DataFrame
    full: bool
    say: Progress

    def measure(self, how_many: int) -> None:
        """All rows of this table."""
        self.rows: list[Measured] = []
        self.answers: dict[str, tuple[list[float], list[float]]] = {}
        counts = random_queries(self.table, self.loaded, how_many, seed=7)
        extra = with_figures(counts if self.full else counts[: max(1, how_many // 5)], self.table.summed)
        self.figures = {"COUNT": counts, "SUM": extra["sum"], "AVG": extra["avg"]}
        self.epsilons = (0.05, *EPSILONS, 2.0) if self.full else EPSILONS
        self.ratios: dict[str, np.ndarray] = {}
        self.kept: tuple[str, ...] | None = None  # columns left by elimination, once chosen
        self._sizes()
        for suffix in PREPROCESSINGS if self.full else ("", *BESIDES[self.table.name]):
            self._measure_with(suffix)
        self._guaranteed()
        self._pair_by_pair()

    def _measure_with(self, suffix: str) -> None:
        """Build the four models over one preprocessing and measure their errors."""
        kept, models = self.figures, self._build(suffix)
        if suffix:
            self.figures = {"COUNT": kept["COUNT"][: None if self.full else 30]}
        for method, model in models.items():
            self._errors(method + suffix, model)
        self.figures = kept
        if PREPROCESSINGS[suffix] == self.table.natural:
            self._sweep(models)

    def _sizes(self) -> None:
        """Table 9: records and attributes of the tables."""
        attributes = len(self.table.features) + (1 if self.table.name == "ccc" else 0)
        self._table("records", float(self.loaded.height))
        note = {"counted": "with the target"} if self.table.name == "ccc" else {}
        self._table("attributes", float(attributes), extra=note)

    def _table(self, figure: str, ours: float, reading: str = "", extra: Json | None = None) -> None:
        """A figure of tables 9 to 12 beside the printed one."""
        published = DISSERTATION.get(self.table.name, {}).get(figure)
        self._add("tables", reading, figure, None, ours, extra=extra, published=published)

    def error(self, method: str, figure: str = "COUNT", x: float = 1.0, suffix: str = "") -> float:
        """A measured mean relative error."""
        return next(
            row.ours
            for row in self.rows
            if (row.experiment, row.method, row.figure, row.x) == ("error", method + suffix, figure, x)
        )

    def _models(self, preprocessing: str) -> dict[str, Model]:
        t = self.table
        same: Keywords = {"preprocessing": preprocessing, "columns": t.features}
        chosen = same | {"columns": self.kept or t.features}
        mixture: Keywords = {}
        numbers: tuple[tuple[int, ...], tuple[int, ...]] = (t.components, t.components_selected)
        if self.full:  # as the dissertation did it: every number, on all records
            mixture = {"sample": max(2, self.loaded.height)}
            numbers = (tuple(range(1, 101)),) * 2
        return {
            BASELINE: Spearman(**same),
            FIRST: DBSCANModel(t.eps, **same),
            SECOND: GaussianMixtureModel(numbers[0], **same, **mixture),
            THIRD: SelectedMixture(t.target, t.keep, n_components=numbers[1], **chosen, **mixture),
        }

    def _build(self, suffix: str) -> dict[str, Model]:
        preprocessing = PREPROCESSINGS[suffix]
        models = self._models(preprocessing)
        for method, model in models.items():
            self.say(f"{self.table.name}: building {method}{suffix}")
            start = time.perf_counter()
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", BoundaryWarning)
                model.fit(self.loaded)
            seconds = time.perf_counter() - start
            facts = _facts(model)
            if any(issubclass(each.category, BoundaryWarning) for each in told):
                facts["boundary"] = "the most tried: BIC falls on, so that this is no choice"
            self._add("build", method + suffix, "seconds", None, seconds, extra=facts)
            if method in (SECOND, THIRD):
                of = {name: facts[name] for name in ("boundary",) if name in facts}
                self._table(f"components, {method}", float(facts["components"]), preprocessing, of)
        if self.kept is None:
            third = models[THIRD]
            assert isinstance(third, SelectedMixture)
            self.kept = third.preparation_.columns
            kept = len(self.kept)
            self._table("columns kept", float(kept), extra={"given": "yes", "columns": ", ".join(self.kept)})
            removed = len(self.table.features) + (1 if self.table.name == "ccc" else 0) - kept
            self._table("columns removed", float(removed), extra={"given": "yes"})
        return models

    def _errors(self, method: str, model: Any) -> None:
        """Expected mean relative error of the dissertation's mechanism, and seconds of its queries."""
        for figure, queries in self.figures.items():
            self.say(f"{self.table.name}: {figure} with {method}")
            start = time.perf_counter()
            found = [self._sensitivity(query, model) for query in queries]
            seconds = time.perf_counter() - start
            true, sensitivity = (np.array(each) for each in zip(*found, strict=True))
            kept = true != 0
            ratio = sensitivity[kept] / np.abs(true[kept])
            for epsilon in self.epsilons:
                self._add("error", method, figure, epsilon, float(ratio.mean()) / epsilon)
            self._add("queries", method, f"{len(queries)} {figure}", None, seconds)
            if figure == "COUNT" and not method.endswith(")"):
                self.ratios[method] = ratio
                noise = np.random.default_rng(1).laplace(0.0, 1.0, len(true)) * sensitivity
                self.answers[method] = (true.tolist(), (true + noise).tolist())

    def _sensitivity(self, query: Query, model: Any) -> tuple[float, float]:
        answer = answering(query, self.loaded, self.table.schema)
        f, sensitivity = exact_and_sensitivity(query.aggregates[0], self.loaded, answer, model)
        return float(f or 0.0), sensitivity

    def _sweep(self, models: dict[str, Model]) -> None:
        """Mean relative error against DBSCAN's eps at parameter 1, beside the baseline's."""
        grid = self.table.eps_grid if self.full else self.table.eps_grid[::2]
        some = self.figures["COUNT"][: None if self.full else 30]
        self.say(f"{self.table.name}: baseline beside DBSCAN's eps")
        level = self._mean_error(some, models[BASELINE])
        for eps in grid:
            self.say(f"{self.table.name}: DBSCAN with eps {eps:g}")
            model = models[FIRST]
            if eps != self.table.eps:
                natural = self.table.natural
                model = DBSCANModel(eps, preprocessing=natural, columns=self.table.features).fit(self.loaded)
            error = self._mean_error(some, model)
            self._add("dbscan eps", FIRST, "COUNT", eps, error, extra=_facts(model))
            self._add("dbscan eps", BASELINE, "COUNT", eps, level)

    def _mean_error(self, queries: list[Query], model: Any) -> float:
        found = [self._sensitivity(query, model) for query in queries]
        return float(np.mean([sensitivity / f for f, sensitivity in found]))

    def _guaranteed(self) -> None:
        """The modes with a guarantee, on a session's own path."""
        t = self.table
        half = np.arange(t.frame.height) % 2 == 0
        private = t.frame.filter(pl.Series(~half))
        self.say(f"{t.name}: fitting {CELLS[t.name]} public cells")
        columns = t.features if len(t.features) <= 60 else t.features[:60]
        start = time.perf_counter()
        cells = FrozenMixture.fit_public(
            self.loaded.filter(pl.Series(half)),
            CELLS[t.name],
            source=f"every other row of {t.name}",
            columns=list(columns),
        )
        seconds = time.perf_counter() - start
        self._add("build", "correlated", "seconds", None, seconds, "public model", {"cells": cells.n_cells})
        big = 1_000_000.0
        for method, data, options in (
            ("dp", t.frame, {"mode": "dp"}),
            ("group", t.frame, {"unit": resolve("group", t.schema, t.group)}),
            ("correlated", private, {"mode": "correlated", "model": cells}),
        ):
            self.say(f"{t.name}: asking in mode {method}")
            session = Session(data, t.schema, budget=big, **options)
            facts: Json = {"group": str(t.group)} if method == "group" else {}
            if method == "correlated":
                facts = {"tau": session.buy_tau(0.25, 20), "cells": cells.n_cells}
            truth = self.loaded if method != "correlated" else self.loaded.filter(pl.Series(~half))
            self._drawn(method, session, truth, facts)

    def _drawn(self, method: str, session: Session, loaded: pl.DataFrame, facts: Json) -> None:
        assert session.protected is not None  # tau is declared or bought
        for figure, queries in self.figures.items():
            true = [_exact(query, loaded, self.table) for query in queries]
            for epsilon in self.epsilons:
                start = time.perf_counter()
                try:
                    given = [float(session.ask(query, epsilon).value) for query in queries]
                except ShoalError as error:
                    self.say(f"{self.table.name}: {method} refuses {figure}: {error}")
                    break
                seconds = time.perf_counter() - start
                errors = [
                    float(np.mean(np.abs(_many(session, query, epsilon) - f))) / abs(f)
                    for query, f in zip(queries, true, strict=True)
                    if f
                ]
                extra = facts | {"median": float(np.median(errors))}
                guarantee = session.protected.guarantee.removeprefix("guarantee: ")
                self._add("error", method, figure, epsilon, float(np.mean(errors)), guarantee, extra)
                if figure == "COUNT" and epsilon == 1.0:
                    self.answers[method] = (true, given)
            else:
                self._add("queries", method, f"{len(queries)} {figure}", None, seconds, guarantee)

    def _pair_by_pair(self) -> None:
        """Seconds of the n x n matrices as the dissertation builds them, multiplied up from a sample of pairs."""
        from scipy.stats import spearmanr

        X = Spearman(preprocessing="min-max", columns=self.table.features).fit(self.loaded)
        values = X.preparation_.apply(self.loaded)
        rng = np.random.default_rng(0)
        pairs = rng.integers(0, len(values), (300, 2))
        each = _seconds(lambda i, j: spearmanr(values[i], values[j]), pairs)
        M = rng.random((len(values), 60))
        omega = _seconds(lambda i, j: float(M[i] @ M[j]), pairs)
        n = len(values)
        number = n * (n - 1) / 2
        build = {row.method: row for row in self.rows if row.experiment == "build"}
        theirs = {
            BASELINE: each * number,
            FIRST: each * build[FIRST].extra["pairs"] + build[FIRST].ours,
            SECOND: (each + omega) * number + build[SECOND].ours,
            THIRD: omega * number + build[THIRD].ours,
        }
        for method, seconds in theirs.items():
            self._add("build", f"{method} (pair by pair)", "seconds, extrapolated", None, seconds)

    def _add(
        self,
        experiment: str,
        method: str,
        figure: str,
        x: float | None,
        ours: float,
        guarantee: str = "none",
        extra: Json | None = None,
        published: float | None = None,
    ) -> None:
        row = Measured(
            experiment, self.table.name, method, figure, x, ours, guarantee, extra or {}, published
        )
        self.rows.append(row)


def _many(session: Session, query: Query, epsilon: float) -> np.ndarray:
    """Draws of one figure on the session's own path from table to answer. Unpaid: for experiments on public tables."""
    plan = session._plan(query, session.currency.millionths(epsilon))
    noisy = add_noise(plan, compute(session._rows.frame, plan), DRAWS)
    each = ([column[draw : draw + 1] for column in noisy] for draw in range(DRAWS))
    return np.array([float(figures(plan, tuple(drawn)).value) for drawn in each])


def _facts(model: Any) -> Json:
    if isinstance(model, DBSCANModel):
        sizes = np.bincount(model.labels_[model.labels_ >= 0])
        return {
            "clusters": len(sizes),
            "outliers": int((model.labels_ < 0).sum()),
            "pairs": int((sizes.astype(np.int64) * (sizes - 1) // 2).sum()),
        }
    if isinstance(model, (GaussianMixtureModel, SelectedMixture)):
        return {"components": model.mixture_.n_components, "columns": len(model.preparation_.columns)}
    return {}


def _exact(query: Query, loaded: pl.DataFrame, table: Bench) -> float:
    rows = answering(query, loaded, table.schema)
    aggregate = query.aggregates[0]
    if aggregate.column is None:
        return float(len(rows))
    x = loaded[aggregate.column].gather(rows).to_numpy()
    return float(x.sum() if aggregate.kind == "sum" else x.mean()) if len(x) else 0.0


def _seconds(work: Callable[[int, int], Any], pairs: np.ndarray) -> float:
    """CPU seconds of a pair, the first left out."""
    work(*map(int, pairs[0]))
    start = time.process_time()
    for i, j in pairs:
        work(int(i), int(j))
    return (time.process_time() - start) / len(pairs)
