"""Bundled tables are what their makers make; benchmark tables have their published shapes."""

from __future__ import annotations

import numpy as np
import pytest

from shoal import datasets
from shoal.errors import InputError, ParameterError


def test_bundled_tables_are_remade_exactly():
    assert datasets.make_survey(400, random_state=2026).equals(datasets.load_survey())
    assert datasets.make_graph(2000, 40, random_state=2026).equals(datasets.load_graph())
    messy = datasets.make_survey(400, messy=True, random_state=2026)
    assert messy.shape == datasets.load_survey(messy=True).shape


@pytest.mark.parametrize("name", list(datasets.DATASETS))
def test_shapes(name):
    if datasets.DATASETS[name].path is None:
        pytest.skip(f"the benchmark table {name!r} is not at hand (set SHOAL_DATA)")
    assert datasets.load(name).shape == datasets.DATASETS[name].shape


def test_the_schema_fits_the_survey():
    survey, schema = datasets.load_survey(), datasets.load_survey_schema()
    assert list(schema.columns) == survey.columns
    for name, column in schema.columns.items():
        if column.bounds is not None:
            assert column.bounds[0] <= survey[name].min() <= survey[name].max() <= column.bounds[1]
        if column.levels is not None:
            assert set(survey[name]) <= set(column.levels)


def test_messy_cells_are_about_three_per_cent():
    clean, messy = datasets.load_survey(), datasets.load_survey(messy=True)
    changed = [
        (clean[name].cast(str) != messy[name].fill_null("").cast(str)).mean()
        for name in ("age", "income", "rent")
    ]
    assert 0.015 < np.mean(changed) < 0.045


def test_clusters_are_around_their_centres():
    X, labels = datasets.make_clusters(300, 3, 6, spread=0.05, random_state=1)
    within = np.mean([X[labels == c].var(axis=0).sum() for c in range(6)])
    assert within < 0.05 * X.var(axis=0).sum()


def test_bad_parameters():
    with pytest.raises(ParameterError, match="'n_clusters'"):
        datasets.make_clusters(n_clusters=0)
    with pytest.raises(InputError, match="must be one of"):
        datasets.load("nothing")
