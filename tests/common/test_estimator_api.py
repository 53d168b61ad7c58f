"""The estimators are at home in scikit-learn and keep the kind of table they get."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import shoal
from shoal.errors import InputError
from shoal.microaggregation import MDAV

# Checks that cannot hold for a method whose groups depend on the whole table.
NOT_APPLICABLE = {
    "check_methods_subset_invariance": "rows of another table than the fitted one go to their nearest centroid",
    "check_methods_sample_order_invariance": "rows of another table than the fitted one go to their nearest centroid",
    "check_fit2d_1sample": "one record cannot hide: a group needs k of them",
}
# Effort of the searching methods, small enough for a test.
QUICK = {"max_proposals": 2_000, "random_state": 0, "generations": 3, "population": 12, "rounds": 3}


def _checks():
    for name, method in shoal.methods().items():
        estimator = method(k=2, **{option: value for option, value in QUICK.items() if method.takes(option)})
        with warnings.catch_warnings():
            # The interface without the base class, so that the command need not import scikit-learn.
            warnings.filterwarnings("ignore", "Estimator .* does not inherit from", UserWarning)
            checks = list(
                estimator_checks_generator(estimator, expected_failed_checks=NOT_APPLICABLE, mark="skip")
            )
        for position, (each, check) in enumerate(checks):
            yield pytest.param(each, check, id=f"{name}-{position}")


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    return {
        "age": rng.integers(18, 90, 30),
        "name": [f"p{i}" for i in range(30)],
        "income": rng.normal(30_000, 9_000, 30),
        "small": rng.normal(size=30).astype(np.float32),
    }


def test_pandas_keeps_index_order_and_other_columns(table):
    frame = pd.DataFrame(table, index=[f"r{i}" for i in range(30)])
    masked = MDAV(k=3).fit_transform(frame)
    assert isinstance(masked, pd.DataFrame)
    assert list(masked.columns) == list(frame.columns)
    assert list(masked.index) == list(frame.index)
    assert list(masked["name"]) == list(frame["name"])
    assert masked["small"].dtype == np.float32
    assert masked["age"].dtype == np.float64
    assert masked[["age", "income", "small"]].value_counts().min() >= 3


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_polars_and_arrow_stay_what_they_are(make, table):
    frame = make(table)
    masked = MDAV(k=3).fit_transform(frame)
    assert type(masked) is type(frame)
    assert list(masked.schema.names if make is pa.table else masked.columns) == list(table)
    again = pl.DataFrame(masked)
    assert again["name"].to_list() == table["name"]
    assert again["small"].dtype == pl.Float32


def test_all_kinds_give_the_same_groups(table):
    numbers = {name: values for name, values in table.items() if name != "name"}
    labels = [
        MDAV(k=3).fit(kind).labels_ for kind in (pd.DataFrame(table), pl.DataFrame(table), pa.table(table))
    ]
    labels.append(MDAV(k=3).fit(np.column_stack(list(numbers.values()))).labels_)
    for each in labels[1:]:
        np.testing.assert_array_equal(each, labels[0])


def test_set_output_and_names(table):
    frame = pd.DataFrame(table).drop(columns="name")
    fitted = MDAV(k=3).set_output(transform="pandas").fit(frame)
    assert list(fitted.get_feature_names_out()) == list(frame.columns)
    assert list(fitted.transform(frame).columns) == list(frame.columns)
    assert list(MDAV(k=3).fit(frame.to_numpy()).get_feature_names_out()) == ["x0", "x1", "x2"]


def test_new_rows_go_to_the_nearest_centroid():
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    fitted = MDAV(k=2).fit(X)
    np.testing.assert_allclose(fitted.transform(np.array([[2.0], [8.0]])), [[0.5], [10.5]])


def test_fitted_methods_can_be_pickled(blobs):
    fitted = MDAV(k=3).fit(blobs)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).transform(blobs), fitted.transform(blobs)
    )


def test_frames_without_numbers_are_refused():
    with pytest.raises(InputError, match="must have a numeric column"):
        MDAV(k=2).fit(pl.DataFrame({"a": ["x", "y", "z"]}))


def test_other_columns_than_fitted_are_refused(table):
    fitted = MDAV(k=3).fit(pl.DataFrame(table))
    with pytest.raises(InputError, match="should match those"):
        fitted.transform(pl.DataFrame(table).drop("name"))
