"""The attacks against plain versions on small tables, what they must find, and what they must refuse."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

import shoal
from shoal.attacks import (
    Attack,
    Rate,
    _inference,
    _linkage,
    _membership,
    _singling,
    allowed,
    read_tables,
    run_attacks,
)
from shoal.errors import InputError, ParameterError
from shoal.scenarios import RELEASE_TYPES, release_type
from shoal.schema import Column, Schema

SCHEMA = Schema(
    {
        "x": Column("x", kind="number"),
        "y": Column("y", kind="number"),
        "c": Column("c", kind="category"),
        "d": Column("d", kind="category"),
    }
)


def table(seed: int, n: int = 14) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "x": rng.integers(0, 6, n).astype(float),
            "y": rng.normal(size=n),
            "c": rng.choice(list("abc"), n),
            "d": rng.choice(list("pq"), n),
        }
    )


def masked(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Cells of numbers averaged in threes, some categories changed: what a mask may do."""
    rng = np.random.default_rng(seed + 1000)
    group = np.arange(frame.height) // 3
    means = [frame["x"].filter(pl.Series(group == each)).mean() for each in group]
    changed = [
        "a" if drawn < 0.3 else level
        for drawn, level in zip(rng.random(frame.height), frame["c"], strict=True)
    ]
    return frame.with_columns(pl.Series("x", means), pl.Series("c", changed))


def plain_distance(person: dict, row: dict, frame: pl.DataFrame, names: list[str], first: set[str]) -> float:
    total = 0.0
    for name in names:
        if frame[name].dtype == pl.String:
            shares = [count / frame.height for count in frame[name].value_counts()["count"]]
            variance = 1 - sum(share**2 for share in shares)
            part = 0.0 if person[name] == row[name] or variance == 0 else 2 / variance
        else:
            part = ((person[name] - row[name]) / (frame[name].std(ddof=0) or 1.0)) ** 2
        total += part * (1e4 if name in first else 1.0)
    return total


def plain_nearest(person, rows, frame, names, first=frozenset()):
    distances = [plain_distance(person, row, frame, names, first) for row in rows]
    least = min(distances)
    return [at for at, each in enumerate(distances) if each <= least * (1 + 1e-9)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("exact", [False, True])
def test_finding_the_own_row_agrees_with_a_plain_version(seed, exact):
    before = table(seed)
    after = masked(before, seed)
    tables = read_tables(after, before, schema=SCHEMA)
    names, rows = before.columns, after.to_dicts()
    first = {name for name in names if before[name].equals(after[name])}
    first |= {"c", "d"} if exact else set()
    expected = []
    for at, person in enumerate(before.to_dicts()):
        near = plain_nearest(person, rows, before, names, first)
        expected.append(1 / len(near) if at in near else 0.0)
    found = _linkage.found_again(tables, np.arange(before.height), exact=exact)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
def test_linking_halves_agrees_with_a_plain_version(seed):
    before = table(seed)
    after = masked(before, seed)
    tables = read_tables(after, before, schema=SCHEMA)
    space = tables.space(before.columns)
    one = np.array([axis.name in ("x", "d") for axis in space.axes])
    weights = space.weights()
    equal, same = space.meetings(tables.people, np.where(one, weights, 0.0), np.where(one, 0.0, weights))
    rows = after.to_dicts()
    for at, person in enumerate(before.to_dicts()):
        left = plain_nearest(person, rows, before, ["x", "d"])
        right = plain_nearest(person, rows, before, ["y", "c"])
        pairs = list(itertools.product(left, right))
        assert same[at] == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
        assert equal[at] == pytest.approx(sum(rows[a] == rows[b] for a, b in pairs) / len(pairs))


@pytest.mark.parametrize("seed", range(4))
def test_inferring_from_nearest_rows_agrees_with_a_plain_version(seed):
    before = table(seed)
    after = masked(before, seed)
    tables = read_tables(after, before, schema=SCHEMA, sensitive=["d"])
    secret = _inference.GuessedColumn.of(tables, "d")
    found = _inference.by_nearest(tables, secret, tables.people)
    rows, levels = after.to_dicts(), sorted(before["d"].unique())
    first = {name for name in ("x", "y", "c") if before[name].equals(after[name])}
    for at, person in enumerate(before.to_dicts()):
        near = plain_nearest(person, rows, before, ["x", "y", "c"], first)
        votes = [sum(rows[each]["d"] == level for each in near) for level in levels]
        assert levels[int(found[at])] == levels[votes.index(max(votes))]


@pytest.mark.parametrize("seed", range(4))
def test_conditions_are_counted_as_a_filter_counts_them(seed):
    before = table(seed, 40)
    after = masked(before, seed)
    tables = read_tables(after, before, schema=SCHEMA)
    rng = np.random.default_rng(seed)
    conditions = _singling.multivariate(tables, 40, rng) + _singling.univariate(tables, 60, rng)
    for condition in conditions:
        kept = before
        for column, low, high in zip(condition.columns, condition.low, condition.high, strict=True):
            axis = tables.axes[column]
            if axis.numeric:
                ends = [end * axis.scale + axis.centre for end in (low, high)]
                kept = kept.filter(pl.col(axis.name).is_between(ends[0] - 1e-9, ends[1] + 1e-9))
            else:
                label = after[axis.name].unique().sort()[int(low)]
                kept = kept.filter(pl.col(axis.name) == label)
        assert _singling.matches(condition, tables.axes, tables.people) == kept.height


def test_the_best_assignment_is_the_cheapest_of_all_orders():
    before = table(3, 7)
    after = before.with_columns(pl.col("y") + pl.Series([0.3, -0.2, 0.5, 0.1, -0.4, 0.2, 0.0]))
    tables = read_tables(after, before, schema=SCHEMA)
    rows = after.to_dicts()
    first = {name for name in before.columns if before[name].equals(after[name])}
    cost = [[plain_distance(p, r, before, before.columns, first) for r in rows] for p in before.to_dicts()]
    best = min(
        itertools.permutations(range(7)), key=lambda order: sum(cost[i][j] for i, j in enumerate(order))
    )
    found = _linkage.assigned(tables, np.random.default_rng(0))
    assert found.mean() == pytest.approx(np.mean([at == row for at, row in enumerate(best)]))


def test_blocks_of_an_assignment_hold_everyone_once():
    rng = np.random.default_rng(5)
    before = pl.DataFrame({"x": rng.normal(size=3000), "y": rng.normal(size=3000)})
    after = before.with_columns(pl.col("x") + 0.01, pl.col("y") + 0.01)
    tables = read_tables(after, before)
    space = tables.space(["x", "y"])
    blocks = _linkage._blocks(tables.people, _linkage._middles(space), space)
    members, rows = (np.sort(np.concatenate([each[side] for each in blocks])) for side in (0, 1))
    assert np.array_equal(members, np.arange(3000))
    assert np.array_equal(rows, np.arange(3000))
    assert max(each[0].size for each in blocks) <= _linkage.BLOCK


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_the_interval_is_that_of_wilson(successes):
    rate = Rate.of(np.array(successes, float))
    known = binomtest(sum(successes), len(successes)).proportion_ci(method="wilson")
    assert (rate.low, rate.high) == pytest.approx((known.low, known.high), abs=1e-12)


@given(st.floats(0, 1), st.floats(0, 0.99))
def test_what_is_left_after_a_control_lies_in_its_interval(value, other):
    left = Rate(value, max(0, value - 0.1), min(1, value + 0.1), 50).over(Rate(other, other, other, 50))
    assert left.low <= left.value <= left.high
    assert left.value == pytest.approx((value - other) / (1 - other))


def test_the_mark_of_membership_is_the_best_of_all_marks():
    rng = np.random.default_rng(2)
    for _ in range(40):
        score, member = rng.integers(0, 6, 20).astype(float), rng.random(20) < 0.5
        mark = _membership._mark(score, member)
        best = max(((score >= each) == member).mean() for each in [*score, np.inf])
        assert ((score >= mark) == member).mean() == best


def test_members_of_an_unmasked_table_are_found_and_strangers_to_a_table_are_not():
    rng = np.random.default_rng(1)
    members, others, strangers = (
        pl.DataFrame({"x": rng.normal(size=800), "y": rng.normal(size=800)}) for _ in range(3)
    )
    found = run_attacks(read_tables(members, members, others), release_type(None))["membership"]
    assert found.rate.value == 1.0
    fair = run_attacks(read_tables(strangers, members, others, rows="unrelated"), release_type(None))[
        "membership"
    ]
    assert fair.rate.low < 0.5 < fair.rate.high


def test_under_epsilon_membership_is_red_only_beyond_what_epsilon_allows():
    def judged(value, epsilon):
        rate = Rate(value, value - 0.02, value + 0.02, 2000)
        details = {} if epsilon is None else {"most under epsilon-DP": allowed(epsilon)}
        limit = 0.1 if epsilon is None else 2 * allowed(epsilon) - 1
        coin = Rate(0.5, 0.5, 0.5, 2000)
        return Attack("membership", "m", "membership", rate, coin, limit, rate, coin, details).colour

    assert (judged(0.99, None), judged(0.6, 1.0), judged(0.8, 1.0)) == ("amber", "green", "red")


def survey(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": np.round(rng.lognormal(7, 0.6, n), 2),
            "rent": np.round(rng.lognormal(6, 0.5, n), 2),
            "region": rng.choice(["north", "south", "east", "west"], n),
            "disease": rng.choice(["none", "flu", "asthma"], n, p=[0.7, 0.2, 0.1]),
        }
    )


def test_a_key_left_untouched_is_found_and_turns_the_status_red():
    """The planted case: all columns in groups of five but one, which is published as it was."""
    frame = survey()
    safe = shoal.protect(frame, k=5, method="mdav", sensitive="disease").frame
    good = shoal.attack(safe, frame, sensitive="disease")
    assert all(each.colour != "red" for each in good.results)
    planted = shoal.protect(
        frame, k=5, method="mdav", sensitive="disease", leave="rent", accept_risk=True
    ).frame
    bad = shoal.attack(planted, frame, sensitive="disease")
    assert bad.status == "red"
    assert bad.untouched == ("rent",)
    assert bad["linkage-exact"].rate.value > 0.95
    assert bad["linkage-assignment"].rate.value > 0.95
    assert any("rent" in reason for reason in bad.reasons)


def test_groups_of_k_keep_linkage_below_one_in_k():
    frame = survey(300, 4)
    for k in (3, 10):
        safe = shoal.protect(frame, k=k, method="mdav").frame
        found = shoal.attack(safe, frame)
        for name in ("linkage-nearest", "linkage-exact", "linkage-assignment"):
            assert found[name].rate.value <= 1 / k + 1e-9


def test_a_control_group_is_held_out_where_the_request_is_known():
    from shoal.publish import ProtectionRequest

    frame = survey(240, 6)
    request = ProtectionRequest(k=4, method="mdav", sensitive="disease")
    safe = shoal.protect(frame, k=4, method="mdav", sensitive="disease").frame
    found = shoal.attack(safe, frame, request=request)
    assert found.n_control == 120
    assert all(each.control is not None for each in found.results if each.criterion == "inference")
    assert {each.criterion for each in found.results} == {
        "singling out", "linkability", "inference", "record linkage", "membership",
    }  # fmt: skip


def test_recoded_and_suppressed_cells_stand_for_what_they_may_be():
    before = pl.DataFrame({"age": [20, 25, 40, 60], "town": ["a", "b", "c", "d"]})
    after = pl.DataFrame({"age": ["18-34", "18-34", "35+", "*"], "town": ["ab", "ab", None, "d"]})
    schema = Schema({"age": Column("age"), "town": Column("town", kind="category")})
    tables = read_tables(after, before, schema=schema)
    age, town = tables.axes
    limits = np.stack([age.low, age.high]) * age.scale + age.centre
    assert limits.T.tolist() == [[18, 34], [18, 34], [35, np.inf], [-np.inf, np.inf]]
    fits = [town.fits[int(code), :4].tolist() for code in town.low]
    assert fits == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]
    assert _linkage.found_again(tables, np.arange(4), exact=False).tolist() == [0.5, 0.5, 1.0, 0.5]


def test_generalised_and_suppressed_tables_can_be_attacked():
    frame = survey(150, 9).select("age", "region", "disease")
    for method in ("generalize", "suppress"):
        done = shoal.protect(frame, k=3, method=method, sensitive="disease", accept_risk=True)
        found = shoal.attack(done.frame, frame, sensitive="disease")
        assert found["linkage-nearest"].rate.value <= 1 / 3 + 1e-9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.head(10), "a row for each row of the original. Got 10 rows for 60"),
        (lambda f: f.sample(fraction=1, shuffle=True, seed=3), "in the order of the original"),
        (lambda f: f.rename({"x": "z"}), "Got 'z', which the original lacks"),
        (lambda f: f.head(0), "must have rows and columns"),
    ],
)
def test_tables_that_do_not_belong_together_are_refused_in_one_sentence(change, words):
    frame = table(1, 60)
    with pytest.raises(InputError, match=words):
        shoal.attack(change(frame), frame)


def test_a_control_group_that_overlaps_is_refused():
    frame = table(1, 60)
    with pytest.raises(InputError, match="people who are not in the original. Got 20 of 40 rows"):
        shoal.attack(frame, frame, control=pl.concat([frame.head(20), table(2, 20)]))
    with pytest.raises(InputError, match="It lacks 'x'"):
        shoal.attack(frame, frame, control=table(2, 20).drop("x"))


def test_people_who_look_alike_are_no_overlap():
    rng = np.random.default_rng(0)
    before, others = (
        pl.DataFrame({"a": rng.choice(list("xyz"), 500), "b": rng.choice(list("pq"), 500)}) for _ in range(2)
    )
    assert shoal.attack(before, before, control=others).n_control == 500


def test_odd_parameters_are_refused():
    frame = table(1, 60)
    with pytest.raises(ParameterError, match="'rows' of attack"):
        shoal.attack(frame, frame, rows="some")
    with pytest.raises(ParameterError, match="'release' of attack"):
        shoal.attack(frame, frame, release="secret")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40))
def test_any_small_table_can_be_attacked(seed, n):
    frame = table(seed, n)
    holes = np.random.default_rng(seed).random((n, 2)) < 0.2
    frame = frame.with_columns(
        pl.when(pl.Series(holes[:, 0])).then(None).otherwise(pl.col("x")).alias("x"),
        pl.when(pl.Series(holes[:, 1])).then(None).otherwise(pl.col("c")).alias("c"),
    )
    found = shoal.attack(frame, frame, schema=SCHEMA, targets=10)
    for each in found.results:
        assert 0 <= each.rate.low <= each.rate.value <= each.rate.high <= 1


def test_stricter_types_allow_less():
    types = [RELEASE_TYPES[name] for name in ("public", "scientific", "enclave")]
    for strict, loose in itertools.pairwise(types):
        assert strict.k > loose.k
        assert strict.linkage < loose.linkage
        assert strict.excess < loose.excess
        assert strict.red_share < loose.red_share
