"""The choice by BIC beside scikit-learn's, and the memory that each model needs on Adult."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.mixture import GaussianMixture

from shoal import datasets
from shoal.dp.correlation import BoundaryWarning, GaussianMixtureModel
from shoal.dp.loading.load import load
from shoal.schema import Column, Schema


def test_the_mixture_chosen_is_as_good_as_that_of_a_whole_sweep():
    rng = np.random.default_rng(3)
    middles = rng.normal(0, 6, (5, 3))
    X = np.concatenate([rng.normal(each, 1.0, (400, 3)) for each in middles])
    schema = Schema({name: Column(name, bounds=(-100, 100)) for name in "abc"})
    frame = load(pl.DataFrame(X, schema=list("abc"), orient="row"), schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        model = GaussianMixtureModel(tuple(range(1, 11))).fit(frame)
    Z = model.preparation_.apply(frame)
    sweep = [GaussianMixture(count, n_init=2, random_state=0).fit(Z).bic(Z) for count in range(1, 11)]
    assert model.mixture_.n_components == 5 == int(np.argmin(sweep)) + 1
    assert model.mixture_.bic(Z) <= min(sweep) + 1e-3 * abs(min(sweep))


MEASURE = """
import warnings
warnings.simplefilter("ignore")
from shoal.dp.correlation import DBSCANModel, GaussianMixtureModel, Pearson, SelectedMixture, Spearman
from shoal.dp.heuristic import exact_and_sensitivity
from shoal.research._correlated_queries import answering, bench, random_queries
table = bench("adult")
loaded = table.loaded()
same = {"columns": table.features}
for model in (
    Pearson(**same),
    Spearman(**same),
    GaussianMixtureModel(2, **same),
    SelectedMixture(table.target, table.keep, n_components=2, **same),
    DBSCANModel(table.eps, **same),
):
    model.fit(loaded)
    for query in random_queries(table, loaded, 3, seed=7):
        exact_and_sensitivity(query.aggregates[0], loaded, answering(query, loaded, table.schema), model)
    # Not ru_maxrss, which a process inherits from the one that started it.
    lines = open("/proc/self/status").readlines()
    peak = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
    print(type(model).__name__, peak)
"""


@pytest.mark.skipif(datasets.DATASETS["adult"].path is None, reason="the table adult is not here")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
def test_no_model_needs_a_gigabyte_on_adult():
    """One process fits them all: its peak after each is that of the largest so far."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    peaks = [line.split() for line in done.stdout.splitlines()]
    assert len(peaks) == 5
    assert all(int(peak) < 1000 for _, peak in peaks), f"MB after each: {peaks}"
