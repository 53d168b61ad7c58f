"""Partitions brought to l-diversity and t-closeness, verified by the checks."""

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from shoal import privacy
from shoal.engine.encode import standardise, sum_of_squares
from shoal.errors import InputError, ParameterError
from shoal.microaggregation import MDAV


def made(seed, n=120, p=3, k=3, values=5, skew=0.5):
    rng = np.random.default_rng(seed)
    X = standardise(rng.normal(size=(n, p)))
    weights = skew ** np.arange(values)
    # Sensitive values that follow the first column: the hard case.
    s = np.minimum((np.argsort(np.argsort(X[:, 0])) / n * values).astype(int), values - 1)
    s = np.where(rng.random(n) < 0.3, rng.choice(values, n, p=weights / weights.sum()), s)
    return X, s, MDAV(k=k).fit(X).labels_


def check(labels, s, **demands):
    frame = pl.DataFrame({"group": labels, "s": s})
    return privacy.check(frame, "group", "s", **demands)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("l", [2, 3, 5])
def test_diversity_is_reached_and_k_kept(seed, l):
    X, s, labels = made(seed)
    new = privacy.merge_for_diversity(labels, X, s, l)
    k_verdict, l_verdict, *_ = check(new, s, k=3, l=l)
    assert k_verdict.holds
    assert l_verdict.holds


@pytest.mark.parametrize("distance", ["equal", "ordered"])
@pytest.mark.parametrize("t", [0.3, 0.15, 0.05])
def test_closeness_is_reached_and_k_kept(distance, t):
    X, s, labels = made(7)
    new = privacy.merge_for_closeness(labels, X, s, t, distance=distance)
    verdicts = check(new, s, k=3, t=t, distance=distance)
    assert verdicts[0].holds
    assert verdicts[-1].holds


@given(seed=st.integers(0, 10**6), l=st.integers(1, 4), t=st.floats(0, 0.6), n=st.integers(8, 40))
@settings(max_examples=25, deadline=None)
def test_both_demands_and_two_columns_together(seed, l, t, n):
    X, s, labels = made(seed, n=n, k=2, values=4)
    other = np.random.default_rng(seed).choice(["x", "y", "z", "w"], n)
    other[:4] = ["x", "y", "z", "w"]
    s[:4] = range(4)
    sensitive = pl.DataFrame({"a": s, "b": other})
    new = privacy.reach(labels, X, sensitive, l=l, t=t)
    frame = sensitive.with_columns(group=pl.Series(new))
    for verdict in privacy.check(frame, "group", ["a", "b"], k=2, l=l, t=t):
        assert verdict.holds is not False, str(verdict)


def test_swapping_costs_less_than_merging_alone():
    gains = []
    for seed in range(5):
        X, s, labels = made(seed, n=300, k=4)
        merged = privacy.merge_for_diversity(labels, X, s, 3, swap=False)
        swapped = privacy.merge_for_diversity(labels, X, s, 3)
        assert sum_of_squares(X, swapped) <= sum_of_squares(X, merged) + 1e-9
        gains.append(sum_of_squares(X, swapped) / sum_of_squares(X, merged))
    assert np.mean(gains) < 0.98


def test_starting_from_closeness_costs_less_where_neighbours_are_alike():
    """Sensitive values that go with the records: swaps with neighbours and merges alone lose half or more."""
    X, s, labels = made(11, n=600, values=6)
    merged = privacy.merge_for_closeness(labels, X, s, 0.15, swap=False)
    best = privacy.merge_for_closeness(labels, X, s, 0.15)
    assert check(best, s, k=3, t=0.15, distance="equal")[-1].holds
    assert sum_of_squares(X, best) < 0.8 * sum_of_squares(X, merged)


def test_groups_that_meet_the_demand_are_left_alone():
    X, _, labels = made(1)
    s = np.arange(labels.size)
    assert (privacy.merge_for_diversity(labels, X, s, 3) == first_seen(labels)).all()


def first_seen(labels):
    order = {}
    return np.array([order.setdefault(label, len(order)) for label in labels.tolist()])


def test_merging_alone_only_joins_groups():
    X, s, labels = made(2)
    new = privacy.merge_for_closeness(labels, X, s, 0.1, swap=False)
    for group in np.unique(labels):
        assert np.unique(new[labels == group]).size == 1


def test_strata_are_not_crossed():
    X, s, _ = made(3, n=200)
    strata = (X[:, 1] > 0).astype(int)
    labels = np.empty(200, int)
    for part in (0, 1):
        labels[strata == part] = MDAV(k=3).fit(X[strata == part]).labels_ + 1000 * part
    new = privacy.merge_for_diversity(labels, X, s, 3, strata=strata)
    assert check(new, s, l=3)[1].holds
    assert privacy.k_anonymity(pl.DataFrame({"g": new, "p": strata}), ["g", "p"]).n_classes == new.max() + 1


def test_hierarchical_closeness_is_reached_too():
    X, s, labels = made(4, values=4)
    names = np.array(["flu", "cold", "ulcer", "gout"])[s]
    tree = {"d": [["flu", "cold"], ["ulcer", "gout"]]}
    sensitive = pl.DataFrame({"d": names})
    new = privacy.reach(labels, X, sensitive, t=0.1, distance="hierarchical", levels=tree)
    frame = sensitive.with_columns(g=pl.Series(new))
    assert privacy.t_closeness(frame, "g", "d", t=0.1, distance="hierarchical", levels=tree["d"]).holds


def test_zero_closeness_takes_a_single_group():
    X, _, labels = made(5, n=30)
    assert privacy.merge_for_closeness(labels, X, np.arange(30), 0.0, distance="ordered").max() == 0


def test_impossible_demands_are_one_sentence():
    X, s, labels = made(6, values=3)
    with pytest.raises(
        InputError, match="at least l = 4 different values, but the sensitive column has only 3"
    ):
        privacy.merge_for_diversity(labels, X, s, 4)
    strata = s // 2
    with pytest.raises(InputError, match="a stratum of the sensitive column has only 1"):
        privacy.merge_for_diversity(strata, X, s, 2, strata=strata)
    with pytest.raises(InputError, match="cannot be reached within the strata"):
        privacy.merge_for_closeness(strata, X, s, 0.1, strata=strata)
    with pytest.raises(ParameterError, match="as many records as labels"):
        privacy.merge_for_diversity(labels[:5], X, s, 2)


def test_repeats_and_does_not_depend_on_the_numbering_of_groups():
    X, s, labels = made(8)
    first = privacy.merge_for_closeness(labels, X, s, 0.1)
    again = privacy.merge_for_closeness(labels * 3 + 5, X, s, 0.1)
    assert (first == again).all()
