"""Local suppression beside plain enumeration, and beside what sdcMicro does on its survey."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InputError, ParameterError
from shoal.generalization import Conditions, Suppress
from shoal.generalization._anneal import improve, mean_cost
from shoal.generalization._closing import close_classes
from shoal.generalization._facility import list_facilities
from shoal.generalization._relaxed import relax
from shoal.generalization._suppress import masks_of

from .oracles import best_partition, fewest_own_cells

KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def smallest_class(frame):
    return int(frame.group_by(frame.columns).len()["len"].min())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)), min_size=4, max_size=8))
def test_strict_is_the_best_partition_of_all(rows):
    frame = pl.DataFrame(rows, schema=["a", "b", "c"], orient="row")
    done = Suppress(k=2).fit(frame)
    lattice = masks_of(frame, np.ones(3))
    best = best_partition(
        lattice.tuples[lattice.of_row], lattice.hierarchies, [lattice.cost[c] for c in range(3)], 2
    )
    assert done.cost_ / len(rows) == pytest.approx(best)
    assert done.bound_ == pytest.approx(done.loss_)
    assert smallest_class(done.transform(frame)) >= 2


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=5, max_size=9),
    st.integers(2, 3),
)
def test_no_recoding_undercuts_the_relaxation_cut_by_packings(rows, k):
    frame = pl.DataFrame(rows, schema=["a", "b", "c", "d"], orient="row")
    lattice = masks_of(frame, np.ones(4))
    costs = [lattice.cost[c] for c in range(4)]
    best = best_partition(lattice.tuples[lattice.of_row], lattice.hierarchies, costs, k) * len(rows)
    facilities = list_facilities(lattice, k)
    found = relax(facilities, lattice.counts.astype(float), k, 1.0, None)
    assert found.bound <= best + 1e-6
    done = Suppress(k=k).fit(frame)
    assert done.cost_ == pytest.approx(best)
    assert done.bound_ == pytest.approx(done.loss_)


def test_packings_close_a_gap_of_the_relaxation():
    """Five records, any two of which differ in one key: two classes of two have room, not five halves."""
    rows = np.zeros((5, 5), int)
    np.fill_diagonal(rows, 1)
    lattice = masks_of(pl.DataFrame(rows), np.ones(5))
    facilities = list_facilities(lattice, 2)
    assert facilities is not None
    found = relax(facilities, lattice.counts.astype(float), 2, 1.0, None)
    assert found is not None
    assert found.packings.most.size > 0
    best = best_partition(
        lattice.tuples[lattice.of_row], lattice.hierarchies, [lattice.cost[c] for c in range(5)], 2
    )
    assert found.bound == pytest.approx(5 * best)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 1)), min_size=3, max_size=9))
def test_own_is_the_fewest_cells_of_each_record(rows):
    frame = pl.DataFrame(rows, schema=["a", "b", "c"], orient="row")
    done = Suppress(k=3, reading="own").fit(frame)
    assert done.cost_ == fewest_own_cells(np.array(rows), 3)
    whole = Suppress(k=3, reading="own", subsets=3).fit(frame)
    assert whole.cost_ == done.cost_
    assert Suppress(k=3, reading="own", subsets=1).fit(frame).cost_ <= done.cost_


def test_wildcards_agree_with_k_and_leave_persons_exposed():
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(rng.integers(0, 4, (60, 4)), schema=["a", "b", "c", "d"])
    done = Suppress(k=3, reading="wildcard").fit(frame)
    released = np.where(done.mask_, -1, frame.to_numpy())
    for row in released:
        assert ((released == row) | (released < 0) | (row < 0)).all(axis=1).sum() >= 3
    own = frame.to_numpy()
    persons = sum(int(((released == row) | (released < 0)).all(axis=1).sum() < 3) for row in own)
    assert done.exposed_ == persons > 0
    assert Suppress(k=3).fit(frame).exposed_ == 0


def test_importance_moves_what_is_lost():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(rng.integers(0, 3, (40, 3)), schema=["a", "b", "c"])
    dear = Suppress(k=3, importance={"a": 10}).fit(frame).suppressed_
    cheap = Suppress(k=3, importance={"b": 10, "c": 10}).fit(frame).suppressed_
    assert dear["a"] < cheap["a"]


def test_kinds_of_tables_and_missing_cells():
    frame = pd.DataFrame({"a": ["x", "x", None, None], "b": [1, 1, 2, 2]}, index=[5, 6, 7, 8])
    out = Suppress(k=2).fit_transform(frame)
    assert list(out.index) == [5, 6, 7, 8]
    assert Suppress(k=2).fit(frame).cost_ == 0  # a missing cell is a value
    array = np.array([[1.0, 2.0], [1.0, 3.0]])
    assert np.isnan(Suppress(k=2).fit_transform(array)[:, 1].astype(float)).all()
    with pytest.raises(InputError, match="at least that many"):
        Suppress(k=3).fit(array)
    with pytest.raises(ParameterError, match="reading"):
        Suppress(k=2, reading="loose").fit(array)
    with pytest.raises(ParameterError, match="subsets"):
        Suppress(k=2, subsets=1).fit(array)
    with pytest.raises(ParameterError, match="importance"):
        Suppress(k=2, importance={"x0": 0}).fit(array)
    with pytest.raises(InputError, match="fitted table"):
        Suppress(k=2).fit(array).transform(array + 1)


def _survey():
    for folder in (os.environ.get("SHOAL_DATA"), Path(__file__).parents[3] / "shared" / "data"):
        if folder and (Path(folder) / "sdc_survey.csv").exists():
            table = pl.read_csv(Path(folder) / "sdc_survey.csv", infer_schema_length=None)
            edges = [9, 19, 29, 39, 49, 59, 69]
            return table.with_columns(age=pl.Series(np.digitize(table["age"].to_numpy(), edges, right=True)))
    pytest.skip("the benchmark table sdc_survey.csv is not here")


def test_the_survey_of_sdcmicro():
    """sdcMicro blanks 293 and 707 cells, a blank agreeing with everything."""
    table = _survey()
    own = Suppress(k=3, reading="own").fit(table.select(KEYS))
    assert (own.cost_, own.exposed_) == (283, 130)
    more = Suppress(k=3, reading="own").fit(table.select([*KEYS, "age"]))
    assert (more.cost_, more.exposed_) == (719, 295)
    for keys, cells, exposed in ((KEYS, 186, 177), ([*KEYS, "age"], 527, 450)):
        wild = Suppress(k=3, reading="wildcard").fit(table.select(keys))
        assert (wild.cost_, wild.exposed_) == (cells, exposed)
    strict = Suppress(k=3).fit(table.select(KEYS))
    assert strict.cost_ == 357
    assert strict.gap_ == pytest.approx(0.0, abs=1e-12)
    assert smallest_class(strict.transform(table.select(KEYS))) >= 3


def test_the_search_gives_borrowed_records_back():
    """Records of classes that could stay are lent to others: if they could not go home, nothing would improve."""
    table = _survey().select([*KEYS, "age"])
    lattice = masks_of(table, np.ones(8))
    conditions = Conditions(3)
    first = close_classes(lattice, conditions, lattice.nodes_by(lattice.level_costs(), 20_000)[0])
    found = improve(lattice, conditions, first, 200)
    assert mean_cost(lattice, found) < 0.975 * mean_cost(lattice, first)
    assert np.bincount(found).min() >= 3
