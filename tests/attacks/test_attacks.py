"""The attacks against plain versions on small tables, what they must find, and what they must refuse."""

from __future__ import annotations

import datetime
import itertools
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

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
from shoal.engine.labels import limits
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


@pytest.mark.parametrize(
    ("label", "date", "expected"),
    [
        ("35-64", False, (35, 64)), ("35–64", False, (35, 64)), ("35−64", False, (35, 64)), ("[35,64)", False, (35, 64)),
        ("-5 to -1", False, (-5, -1)), ("1.5 to <2", False, (1.5, 2)), ("below 18", False, (-np.inf, 18)),
        ("65+", False, (65, np.inf)), ("18 or less", False, (-np.inf, 18)), ("more than 65", False, (65, np.inf)),
        ("*", False, (-np.inf, np.inf)), ("35,64", False, None), ("64-35", False, None), ("young", False, None),
        ("1970-02", True, (31, 58)), ("1970", True, (0, 364)), ("1970-1979", True, (0, 3651)),
        ("1970s", True, (0, 3651)), ("1970-13", True, None), ("35-64", True, None),
    ],
)  # fmt: skip
def test_labels_say_which_numbers_and_dates_they_stand_for(label, date, expected):
    assert limits(label, date=date) == expected


@pytest.mark.parametrize(
    "coarse",
    [
        pl.col("born").dt.strftime("%Y-%m"),
        pl.col("born").dt.year().cast(pl.String),
        pl.col("born").dt.year(),
        pl.format("{}-{}", pl.col("born").dt.year() // 10 * 10, pl.col("born").dt.year() // 10 * 10 + 9),
    ],
)
@pytest.mark.parametrize("rows", ["same", "unrelated"])
def test_a_coarsened_date_is_at_no_distance_from_the_day(coarse, rows):
    """Months, years and decades, as recoding names them."""
    days = [datetime.date(1975, 1, 1) + datetime.timedelta(days=97 * at) for at in range(90)]
    before = pl.DataFrame({"born": days, "x": range(90)})
    tables = read_tables(before.with_columns(coarse.alias("born")), before, rows=rows)
    born, own = tables.axes[0], tables.people[:, 0]
    assert born.numeric
    assert np.all((born.low <= own + 1e-9) & (own <= born.high + 1e-9))
    assert np.all(born.high - born.low < 3700 / born.scale)


def test_even_a_small_control_group_may_not_overlap():
    frame = table(1, 60)
    with pytest.raises(InputError, match="Got 3 of 3 rows"):
        shoal.attack(frame, frame, control=frame.head(3))


def test_a_sensitive_column_that_is_not_published_is_named():
    frame = table(1, 60)
    found = shoal.attack(frame.drop("d"), frame, sensitive="d", targets=10)
    assert any("nothing of it to infer: d" in note for note in found.notes)
    assert any("10 people of 60 were drawn" in note for note in found.notes)


def test_a_shuffled_run_is_attacked_as_it_is():
    from shoal.publish import ProtectionRequest

    frame = survey(200, 3)
    request = ProtectionRequest(k=4, method="mdav", sensitive="disease", order="shuffle")
    safe = shoal.protect(frame, k=4, method="mdav", sensitive="disease", order="shuffle").frame
    found = shoal.attack(safe, frame, request=request)
    assert any("in another order" in note for note in found.notes)
    assert found["linkage-nearest"].rate.value <= 1 / 4 + 1e-9


def test_an_inference_no_better_than_a_naive_guess_says_so():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=400), "d": np.where(rng.random(400) < 0.8, "a", "b")})
    safe = frame.with_columns(pl.col("x").mean())
    found = shoal.attack(safe, frame, sensitive="d")
    assert "naive guess is right as often" in found["inference-nearest:d"].note


def test_values_that_stand_alone_are_drawn_without_a_list_of_all():
    """Conditions are made for those drawn only: of ten million lone cells a thousand."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({name: rng.normal(size=20_000) for name in "abcde"})
    tables = read_tables(frame, frame)
    tracemalloc.start()
    found = _singling.univariate(tables, 1_000, rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 1_000
    assert peak < 8e6
    few = _singling.univariate(read_tables(frame[:5], frame[:5]), 1_000, rng)
    assert len(few) == 5 * 5 + 2 * 5


def plain_cell(cell, levels):
    """A published or original cell as a number that a tree can cut at: an interval by its middle."""
    if cell is None or cell == "*":
        return -1e6
    if levels is not None:
        return float(levels.index(cell))
    if isinstance(cell, str) and "-" in cell:
        low, high = cell.split("-")
        return (float(low) + float(high)) / 2
    return float(cell)


def plain_model(before, after, secret, asked):
    """Rows as lists, numbers as they stand: train on what is published, guess about each person."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    rest = [name for name in before.columns if name != secret]
    levels = {
        name: sorted(before[name].drop_nulls().unique()) if before[name].dtype == pl.String else None
        for name in before.columns
    }

    def rows(frame):
        return [[plain_cell(row[name], levels[name]) for name in rest] for row in frame.to_dicts()]

    known = [at for at, cell in enumerate(after[secret]) if cell is not None]
    features = [rows(after)[at] for at in known]
    target = [plain_cell(after[secret][at], levels[secret]) for at in known]
    kind = {"max_iter": 60, "random_state": 0, "early_stopping": False}
    model = (
        HistGradientBoostingRegressor(loss="absolute_error", **kind)
        if levels[secret] is None
        else HistGradientBoostingClassifier(**kind)
    )
    with threadpool_limits(1):
        guesses = model.fit(np.array(features), np.array(target)).predict(np.array(rows(asked)))
    right = []
    for guess, true in zip(guesses, asked[secret], strict=True):
        if true is not None:
            close = levels[secret] is None and abs(guess - true) <= 0.05 * abs(true)
            right.append(float(close or (levels[secret] is not None and levels[secret][int(guess)] == true)))
    return float(np.mean(right))


@pytest.mark.parametrize("secret", ["d", "y"])
@pytest.mark.parametrize("seed", range(3))
def test_inferring_by_a_model_agrees_with_a_plain_version(seed, secret):
    """Recoded, suppressed and missing cells among the features, a missing secret among the published ones."""
    rng = np.random.default_rng(seed)

    def people(n):
        x = rng.integers(20, 80, n)
        return pl.DataFrame(
            {
                "x": x,
                "y": 1.0 + x + rng.normal(size=n),
                "c": rng.choice(list("abc"), n),
                "d": np.where(x + rng.normal(scale=12, size=n) > 50, "p", "q"),
            }
        ).with_columns(pl.when(pl.int_range(n) % 17 == 0).then(None).otherwise(pl.col("c")).alias("c"))

    before, others = people(150), people(90)
    low = pl.col("x") // 5 * 5
    after = before.with_columns(
        pl.when(pl.int_range(150) % 11 == 0)
        .then(pl.lit("*"))
        .otherwise(pl.format("{}-{}", low, low + 4))
        .alias("x"),
        pl.when(pl.int_range(150) % 13 == 0).then(None).otherwise(pl.col(secret)).alias(secret),
    )
    found = run_attacks(
        read_tables(after, before, others, schema=SCHEMA, sensitive=[secret]), release_type(None)
    )[f"inference-model:{secret}"]
    assert found.control is not None
    assert found.rate.value == pytest.approx(plain_model(before, after, secret, before), abs=1.01 / 150)
    assert found.control.value == pytest.approx(plain_model(before, after, secret, others), abs=1.01 / 90)
    assert found.rate.value > found.baseline.value + 0.05
