"""Models by name, the degrees their owner may read, and missing cells."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shoal.cli import app
from shoal.dp.correlation import (
    DBSCANModel,
    GaussianMixtureModel,
    GivenDegrees,
    Pearson,
    SelectedMixture,
    Spearman,
    correlated_sensitivity,
    degree_matrix,
    named_model,
    save_model,
    threshold_sweep,
)
from shoal.errors import ParameterError
from shoal.schema import Schema

EMPTY = Schema({})


def frame(n: int = 40, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + np.repeat([0.0, 6.0], [n // 2, n - n // 2])[:, None] * [1, -1, 0, 2]
    return pl.DataFrame(X, schema=["a", "b", "c", "d"])


def test_names_give_the_models_with_their_parameters(tmp_path):
    one = named_model("dbscan:eps=0.4,min_points=3", EMPTY)
    assert isinstance(one, DBSCANModel)
    assert (one.eps, one.min_points) == (0.4, 3)
    two = named_model("gmm:components=1-100", EMPTY)
    assert isinstance(two, GaussianMixtureModel)
    assert two.n_components == tuple(range(1, 101))
    three = named_model("rfe-gmm:target=income,keep=8,estimator=svm,components=12,seed=4,columns=a|b", EMPTY)
    assert isinstance(three, SelectedMixture)
    assert (three.target, three.keep, three.estimator, three.n_components) == ("income", 8, "svm", (12,))
    assert (three.columns, three.random_state) == (("a", "b"), 4)
    assert named_model("spearman:threshold=0.2", EMPTY).threshold == 0.2
    assert isinstance(named_model("pearson", EMPTY), Pearson)
    save_model(GivenDegrees(matrix=[[1, 0.5], [0.5, 1]]), tmp_path / "degrees.json")
    assert named_model(str(tmp_path / "degrees.json"), EMPTY).name == "given degrees"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kmeans", "A model must be dbscan, gmm, .* Got 'kmeans'"),
        ("dbscan", "needs eps="),
        ("dbscan:eps=near", "'eps' of the model dbscan must be a number. Got 'near'"),
        ("dbscan:radius=1", "takes eps=, .* Got 'radius=1'"),
        ("rfe-gmm:keep=3", "needs target="),
        ("rfe-gmm:target=a,keep=3,estimator=tree", "'estimator' must be one of forest, svm"),
        ("spearman:threshold=2", r"'threshold' must be a number in \[0, 1\]"),
        ("gmm:missing=zero", "'missing' must be one of nearest, mean, error"),
        ("", "A model must be"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(text, said):
    with pytest.raises(ParameterError, match=said):
        named_model(text, EMPTY)


@pytest.mark.parametrize(
    "text",
    [
        "dbscan:eps=0.3",
        "dbscan:eps=0.3,min_points=4",
        "gmm:components=2",
        "rfe-gmm:target=a,keep=2,components=2",
        "rfe-gmm:target=a,keep=2,components=2,estimator=svm,step=1",
        "spearman:threshold=0.3",
        "pearson",
    ],
)
def test_the_matrix_gives_the_sensitivity_of_every_model(text):
    data = frame().with_columns(a=(pl.col("a") > 3).cast(pl.Float64))
    model = named_model(text, EMPTY).fit(data)
    degrees = degree_matrix(model)
    assert (np.diag(degrees) == 1).all()
    assert np.abs(degrees).max() <= 1 + 1e-9
    weights = np.random.default_rng(1).random(len(degrees))
    rows = np.arange(len(degrees))
    expected = correlated_sensitivity(weights, degrees)[1]
    assert np.max(model.row_influence(weights, rows)) == pytest.approx(expected, rel=1e-6)


def test_degrees_of_a_large_table_are_not_built():
    with pytest.raises(ParameterError, match="at most 2000 records. Got 2001"):
        degree_matrix(Spearman().fit(frame(2001)))
    with pytest.raises(ParameterError, match="must be fitted"):
        degree_matrix(Spearman())


def test_a_higher_threshold_never_raises_the_sensitivity():
    found = threshold_sweep(Spearman, frame(), np.ones(40), (0.0, 0.3, 0.7, 1.0))
    assert list(found.values()) == sorted(found.values(), reverse=True)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 0.4))
def test_missing_cells_come_from_the_nearest(seed, share):
    rng = np.random.default_rng(seed)
    whole = frame(30, seed)
    gone = rng.random((30, 4)) < share
    holed = whole.with_columns(
        pl.Series(name, whole[name].to_numpy()).zip_with(
            pl.Series(~gone[:, j]), pl.Series([None] * 30, dtype=pl.Float64)
        )
        for j, name in enumerate(whole.columns)
    )
    model = Spearman(preprocessing="raw").fit(holed)
    X = model.preparation_.apply(holed, "nearest")
    assert np.isfinite(X).all()
    there = ~gone
    np.testing.assert_array_equal(X[there], whole.to_numpy()[there])
    for j in range(4):  # a mean of values that are there
        column = whole.to_numpy()[there[:, j], j]
        if column.size:
            assert column.min() - 1e-9 <= X[:, j].min()
            assert X[:, j].max() <= column.max() + 1e-9


def test_the_nearest_tell_more_than_the_mean():
    data = frame(60)
    holed = data.with_columns(d=pl.when(pl.int_range(60) == 0).then(None).otherwise(pl.col("d")))
    learnt = Spearman(preprocessing="raw").fit(holed).preparation_
    true = data["d"][0]
    assert abs(learnt.apply(holed, "nearest")[0, 3] - true) < abs(learnt.apply(holed, "mean")[0, 3] - true)
    with pytest.raises(ParameterError, match="takes no missing cells"):
        Spearman(missing="error").fit(holed)


def test_algorithm_one_from_the_command_line(tmp_path):
    frame().write_csv(tmp_path / "t.csv")
    columns = "".join(f'[columns.{name}]\nkind = "number"\nbounds = [-20, 20]\n' for name in "abcd")
    schema = tmp_path / "t.toml"
    schema.write_text(f'[table]\nid = "t"\nbudget = 1.0\nprivate = false\n{columns}', encoding="utf-8")
    asked = [str(tmp_path / "t.csv"), "SELECT COUNT(*) FROM t", "--schema", str(schema), "--epsilon", "1"]
    for model in ("dbscan:eps=0.4,min_points=2", "gmm:components=2", "rfe-gmm:target=a,keep=2,components=2"):
        result = CliRunner().invoke(app, ["ask", *asked, "--mode", "heuristic", "--model", model, "--json"])
        assert result.exit_code == 0, result.output
        facts = json.loads(result.stdout)
        assert facts["epsilon"] is None
        assert "guarantee: none" in facts["stamp"]
    refused = CliRunner().invoke(app, ["ask", *asked, "--model", "dbscan:eps=0.4"])
    assert refused.exit_code != 0
    schema.write_text(schema.read_text().replace("private = false", "private = true"), encoding="utf-8")
    private = CliRunner().invoke(app, ["ask", *asked, "--mode", "heuristic", "--model", "pearson"])
    assert private.exit_code != 0
