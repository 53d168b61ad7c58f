"""Probabilistic linkage: it succeeds where it should, and agrees with a plain version."""

import time

import numpy as np
import polars as pl
import pytest

from shoal.engine.encode import standardise
from shoal.errors import InputError, ParameterError
from shoal.measures._linkage import TOLERANCES, probabilistic_linkage
from shoal.microaggregation import MDAV


def data(n=300, p=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


def test_identical_tables_are_linked_and_constant_ones_not():
    X = data()
    assert probabilistic_linkage(X, X).share == 1.0
    assert probabilistic_linkage(X, np.zeros_like(X)).share <= 1 / 10
    assert float(probabilistic_linkage(X, X)) == 1.0


@pytest.mark.parametrize("k", [2, 5, 20])
def test_risk_falls_with_k(k):
    X = data(400, 3)
    masked = MDAV(k=k).fit_transform(X)
    found = probabilistic_linkage(X, masked)
    assert found.share <= 1.2 / k**0.5
    assert found.share < probabilistic_linkage(X, X + 0.02 * data(400, 3, 9)).share
    assert 0.0 <= found.expected_share <= 1.0


def test_share_equals_a_plain_count_over_all_pairs():
    """With every record a candidate, the best likelihood ratio is found by comparing everything."""
    X = data(60, 3)
    Y = X + 0.2 * data(60, 3, 1)
    found = probabilistic_linkage(X, Y, candidates=60)
    weight = np.log(found.m) - np.log(found.u)
    A = (X - X.mean(axis=0)) / X.std(axis=0)
    B = (Y - X.mean(axis=0)) / X.std(axis=0)
    share = 0.0
    for i in range(60):
        scores = []
        for j in range(60):
            grades = [sum(abs(A[j, a] - B[i, a]) > bar for bar in TOLERANCES) for a in range(3)]
            scores.append(sum(weight[a, grade] for a, grade in enumerate(grades)))
        best = [j for j in range(60) if scores[j] >= max(scores) - 1e-9]
        share += (i in best) / len(best)
    assert found.share == pytest.approx(share / 60)
    assert found.found == 1.0


def test_a_column_of_pure_noise_tells_less():
    X = data(500, 3)
    Y = X.copy()
    Y[:, 2] = data(500, 1, 5)[:, 0]
    weights = probabilistic_linkage(X, Y).weights
    assert weights[0] > weights[2] + 2


def test_blocks_keep_pairs_apart():
    X = data(200, 2)
    blocks = np.arange(200) % 2
    found = probabilistic_linkage(X, X, blocks=blocks, candidates=5)
    assert found.share == 1.0
    alone = probabilistic_linkage(X, np.zeros_like(X), blocks=np.arange(200))
    assert alone.share == 1.0


def test_repeats_and_takes_frames():
    X = data(100, 2)
    frame = pl.DataFrame(X, schema=["a", "b"])
    first = probabilistic_linkage(frame, frame)
    assert first.share == probabilistic_linkage(X, X).share
    assert (first.m == probabilistic_linkage(X, X).m).all()


def test_no_table_of_all_pairs():
    X = standardise(data(30_000, 5))
    start = time.process_time()
    found = probabilistic_linkage(X, X + 0.05 * data(30_000, 5, 3), candidates=5)
    assert found.n_candidates == 150_000
    assert time.process_time() - start < 20
    assert found.share > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": 0}, "'candidates'"),
        ({"tolerances": (0.5, 0.1)}, "'tolerances'"),
        ({"tolerances": ()}, "'tolerances'"),
        ({"blocks": [1, 2]}, "'blocks'"),
    ],
)
def test_bad_parameters_are_one_sentence(options, message):
    with pytest.raises(ParameterError, match=message):
        probabilistic_linkage(data(10), data(10), **options)
    with pytest.raises(InputError, match="same shape"):
        probabilistic_linkage(data(10), data(11))
