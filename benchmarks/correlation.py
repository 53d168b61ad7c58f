"""Correlated sensitivity and mixtures by BIC on Adult (30,162 x 14).

- 100 COUNT queries: the baseline (Spearman, exact) and approach 3, beside the pairs of records one by one
- a COUNT query of approach 3 on a million rows
- a mixture chosen by BIC over 1..100, beside scikit-learn's sweep, of which a few numbers of components are
  run and the rest is interpolated

    python -m benchmarks.correlation [--full]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import spearmanr
from sklearn.mixture import GaussianMixture

from shoal.dp.correlation import GaussianMixtureModel, SelectedMixture, Spearman
from shoal.dp.heuristic import exact_and_sensitivity
from shoal.dp.sql.query import Query
from shoal.research._correlated_queries import answering, bench, random_queries
from shoal.schema import Schema


def _cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def _million(model: Any, loaded: pl.DataFrame, queries: list[Query], schema: Schema) -> dict[str, Any]:
    """Seconds a query of a model that went on to a million rows, the same table again and again."""
    times = -(-1_000_000 // loaded.height)
    _, taking = _cpu(lambda: [model.append(loaded) for _ in range(times - 1)])
    whole = pl.concat([loaded] * times)
    rows = [answering(query, whole, schema) for query in queries[:10]]
    _, seconds = _cpu(
        lambda: [
            exact_and_sensitivity(query.aggregates[0], whole, answer, model)
            for query, answer in zip(queries, rows, strict=False)
        ]
    )
    return {
        "row": f"COUNT on {whole.height:,} rows, approach 3",
        "seconds": seconds / 10,
        "appending": taking,
    }


def run(full: bool) -> list[dict[str, Any]]:
    """Rows of what was measured; CPU seconds of this process, so that a busy machine does not count."""
    table = bench("adult")
    loaded = table.loaded()
    queries = random_queries(table, loaded, 100, seed=7)
    rows = [answering(query, loaded, table.schema) for query in queries]
    same: dict[str, Any] = {"preprocessing": "z-score", "columns": table.features}
    out = []

    def ask(model: Any) -> float:
        return sum(
            exact_and_sensitivity(query.aggregates[0], loaded, answer, model)[1]
            for query, answer in zip(queries, rows, strict=True)
        )

    baseline = Spearman(**same).fit(loaded)
    _, seconds = _cpu(lambda: ask(baseline))
    X = baseline.preparation_.apply(loaded)
    pairs = np.random.default_rng(0).integers(0, len(X), (300, 2))
    _, one = _cpu(lambda: [spearmanr(X[i], X[j]) for i, j in pairs])
    by_pairs = one / len(pairs) * len(X) * (len(X) - 1) / 2
    out.append(
        {"row": "100 COUNT, baseline exact", "seconds": seconds, "target": 10.0, "reference": by_pairs}
    )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BIC falls up to the cap on coded columns
        third = SelectedMixture("income", 8, n_components=12, **same).fit(loaded)
        _, seconds = _cpu(lambda: ask(third))
        out.append({"row": "100 COUNT, approach 3", "seconds": seconds, "target": 0.5})
        out.append(_million(third, loaded, queries, table.schema))
        ours, seconds = _cpu(lambda: GaussianMixtureModel(**same).fit(loaded))
        grid = (1, 5, 20, 50, 100) if full else (2, 12)
        times, theirs = [], {}
        for count in grid:
            fit, each = _cpu(lambda count=count: GaussianMixture(count, random_state=0).fit(X))
            times.append(each)
            theirs[count] = float(fit.bic(X))
    # Seconds grow at least linearly with the number of components; beyond the grid they are taken as linear.
    counts = np.arange(1, 101)
    sweep = float(
        np.where(counts <= grid[-1], np.interp(counts, grid, times), counts / grid[-1] * times[-1]).sum()
    )
    out.append(
        {
            "row": "mixture by BIC over 1..100",
            "seconds": seconds,
            "reference": sweep,
            "ratio": sweep / seconds,
            "target ratio": 20.0,
            "bic": ours.mixture_.bic(X),
            "components": ours.mixture_.n_components,
            "scikit-learn bic": theirs,
        }
    )
    return out


if __name__ == "__main__":
    for line in run("--full" in sys.argv[1:]):
        print(line)
