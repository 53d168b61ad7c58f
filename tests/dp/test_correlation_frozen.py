"""Frozen mixtures as public maps to cells, models in sessions, and rows that come later."""

from __future__ import annotations

import json
import warnings

import numpy as np
import polars as pl
import pytest

from shoal import datasets, dp
from shoal.dp.correlation import (
    DBSCANModel,
    FrozenMixture,
    GaussianMixtureModel,
    Model,
    Pearson,
    SelectedMixture,
    Spearman,
)
from shoal.dp.heuristic import exact_and_sensitivity
from shoal.dp.loading.load import load
from shoal.dp.sql.query import Aggregate
from shoal.errors import InputError, ParameterError

QUERY = "SELECT COUNT(*) FROM t WHERE age >= 30"


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    return datasets.load_survey()


@pytest.fixture(scope="module")
def facts():
    return datasets.load_survey_schema()


@pytest.fixture(scope="module")
def frozen() -> FrozenMixture:
    return FrozenMixture.from_dict(datasets.load_survey_mixture())


def test_the_bundled_mixture_has_cells_enough_and_is_public(frozen, people, facts) -> None:
    assert frozen.n_cells >= 300
    assert frozen.origin == "public"
    assert "random_state=20240" in frozen.source
    sizes = np.bincount(frozen.cell(load(people, facts)), minlength=frozen.n_cells)
    assert sizes.sum() == people.height
    assert sizes.max() <= 0.05 * people.height


def test_a_cell_depends_on_its_row_alone(frozen, people, facts) -> None:
    loaded = load(people, facts)
    whole = frozen.cell(loaded)
    for rows in (np.arange(7), np.arange(900, 1012), np.array([500]), np.arange(people.height)[::-1]):
        assert np.array_equal(frozen.cell(loaded[rows]), whole[rows])


def test_odd_rows_have_a_cell(frozen, facts) -> None:
    odd = datasets.load_survey()[:4].with_columns(
        pl.Series("income", [1e308, -1e308, None, float("nan")]),
        pl.Series("sex", [None, "x", "male", "female"]),
    )
    cells = frozen.cell(load(odd, facts))
    assert ((cells >= 0) & (cells < frozen.n_cells)).all()


def test_saved_and_read_back_it_is_the_same_map(frozen, people, facts, tmp_path) -> None:
    path = tmp_path / "cells.json"
    frozen.save(path)
    again = FrozenMixture.load(path)
    assert again.fingerprint == frozen.fingerprint
    loaded = load(people, facts)
    assert np.array_equal(again.cell(loaded), frozen.cell(loaded))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"origin": "bought"}, "not offered"),
        ({"origin": None}, "given or public"),
        ({"source": " "}, "where it comes from"),
        ({"format": "x"}, "format"),
        ({"weights": [1.0]}, "mean and a precision"),
        ({"weights": "abc"}, "weights, means"),
        ({"means": [[1.0, "x"]]}, "weights, means"),
        ({"preparation": {}}, "prepared"),
    ],
)
def test_a_file_that_is_no_public_map_is_refused(frozen, change, message) -> None:
    with pytest.raises(ParameterError, match=message):
        FrozenMixture.from_dict(frozen.to_dict() | change)


def test_numbers_that_make_no_cell_are_refused(frozen) -> None:
    facts = json.loads(json.dumps(frozen.to_dict()))
    facts["precisions"][0][0] = -1.0
    with pytest.raises(ParameterError, match="above 0"):
        FrozenMixture.from_dict(facts)
    facts["precisions"][0][0] = float("inf")
    with pytest.raises(ParameterError, match="finite"):
        FrozenMixture.from_dict(facts)


def test_an_unreadable_file_is_one_sentence(tmp_path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for name, said in (("bad.json", "must hold JSON"), ("none.json", "cannot be read: No such file")):
        with pytest.raises(InputError, match=said):
            FrozenMixture.load(tmp_path / name)


def test_correlated_answers_with_the_frozen_mixture(frozen, people, facts) -> None:
    session = dp.Session(
        people, facts, mode="correlated", budget=100.0, per_analyst=100.0, model=frozen, tau=8
    )
    answer = session.ask(QUERY, epsilon=20.0)
    assert f"{frozen.n_cells} cells, at most 8 counted per cell" in answer.guarantee
    cells = frozen.cell(load(people.filter(pl.col("age") >= 30), facts))
    clamped = np.minimum(np.bincount(cells), 8).sum()
    assert answer.value == pytest.approx(clamped, abs=10)


PRIVATE = [
    Spearman(),
    Pearson(0.3),
    DBSCANModel(0.3),
    GaussianMixtureModel(4),
    SelectedMixture("disease", 3, n_components=4),
]


@pytest.mark.parametrize("model", PRIVATE, ids=lambda model: type(model).__name__)
def test_a_model_of_the_private_table_is_refused_by_correlated(people, facts, model) -> None:
    assert isinstance(model, Model)
    with pytest.raises(ParameterError, match="frozen model"):
        dp.Session(people, facts, mode="correlated", budget=1.0, model=model, tau=4)
    with pytest.raises(ParameterError, match="no public map"):
        model.cell(load(people, facts))


@pytest.mark.parametrize("model", [*PRIVATE, "frozen"], ids=lambda model: type(model).__name__)
def test_every_model_serves_heuristic(people, facts, frozen, model) -> None:
    session = dp.Heuristic(people, facts, frozen if model == "frozen" else model)
    answer = session.ask(QUERY, noise_parameter=1e6)
    assert answer.guarantee == "guarantee: none (research reproduction)"
    assert answer.value == pytest.approx((people["age"] >= 30).sum(), abs=2)


def test_appended_rows_are_weighed_under_the_mixture_as_it_stands(people, facts) -> None:
    first, rest = people[:700], people[700:]
    session = dp.Heuristic(first, facts, GaussianMixtureModel(4, columns=["age", "income", "rent", "taxes"]))
    mixture = session.model.mixture_
    drift = session.append(rest)
    assert session.model.mixture_ is mixture
    assert drift.rows == rest.height
    assert abs(drift.likelihood_drop) < 1.0
    loaded = load(people, facts)
    M = mixture.memberships(session.model.preparation_.apply(loaded))
    assert np.allclose(session.model.memberships_, M)
    rows = np.arange(0, people.height, 3)
    f, sensitivity = exact_and_sensitivity(Aggregate("count"), session._frame, rows, session.model)
    assert f == len(rows)
    assert 1.0 <= sensitivity <= len(rows)


def test_drift_shows_rows_of_another_kind(people, facts) -> None:
    model = GaussianMixtureModel(4, columns=["age", "income", "rent", "taxes"])
    session = dp.Heuristic(people[:500], facts, model)
    strange = people[500:].with_columns(pl.col("income") * 20, pl.col("age") + 60)
    drift = session.append(strange)
    assert drift.likelihood_drop > 10
    assert drift.far > 0.9
    assert drift.moved > 0.3


def test_a_frozen_mixture_tells_drift_from_more_of_the_same(people, facts, frozen) -> None:
    shuffled = people.sample(fraction=1.0, shuffle=True, seed=1)
    session = dp.Heuristic(shuffled[:600], facts, frozen)
    same = session.append(shuffled[600:800])
    assert abs(same.likelihood_drop) < 1.0
    assert same.far < 0.05
    strange = shuffled[800:].with_columns(pl.col("income") * 20, pl.col("age") + 60)
    drift = session.append(strange)
    assert drift.likelihood_drop > same.likelihood_drop + 3
    assert drift.far > 0.7
    assert drift.moved > same.moved + 0.3
    assert len(session.model._cells) == people.height


@pytest.mark.parametrize("mode", ["dp", "group", "correlated"])
def test_appending_is_the_same_table_and_a_new_charge(people, facts, frozen, mode) -> None:
    options = {"model": frozen, "tau": 8} if mode == "correlated" else {}
    session = dp.Session(people[:600], facts, mode=mode, budget=100.0, per_analyst=100.0, **options)
    first = session.ask(QUERY, epsilon=10.0)
    assert session.ask(QUERY, epsilon=10.0).epsilon == 0
    drift = session.append(people[600:])
    second = session.ask(QUERY, epsilon=10.0)
    assert second.epsilon == 10.0
    assert second.remaining == pytest.approx(80.0)
    whole = dp.Session(people, facts, mode=mode, budget=100.0, per_analyst=100.0, **options)
    assert session._rows.frame.equals(whole._rows.frame)
    assert second.value > first.value + 50
    assert (drift.moved is not None) == (mode == "correlated")


def test_appended_rows_of_a_named_version(people, facts) -> None:
    session = dp.Session(people[:600], facts, budget=10.0)
    session.append(people[600:700], data_version="june")
    assert session._version == "june"
    session.append(people[700:])
    assert session._version != "june"


def test_few_cells_are_warned_of(people, facts) -> None:
    few = FrozenMixture.fit_public(load(people, facts), 5, source="a public table", columns=["age", "income"])
    with pytest.warns(dp.FewCellsWarning, match="few"):
        dp.Session(people, facts, mode="correlated", budget=1.0, model=few, tau=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dp.Heuristic(people, facts, few)
