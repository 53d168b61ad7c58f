"""Releases of tables: what one replaced record can move, noise once per centroid, and what may not be joined."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shoal.cli import app
from shoal.datasets import load_survey, load_survey_schema
from shoal.dp import Ledger
from shoal.dp.unit import ENDED
from shoal.errors import BudgetError, ParameterError, SchemaError
from shoal.release import SmallGroupsWarning, release_table
from shoal.release._columns import code
from shoal.release._copula import concordance, copula_ranks
from shoal.release._groups import (
    best_size,
    group_starts,
    hilbert_places,
    noise_scale,
    noisy_groups,
    printed,
    total_order,
)
from shoal.release._table import ORDERS, TABLE_GUARANTEE, draw, make_plan
from shoal.schema import Column, Schema, Unit

TOP = 12
CODES = [
    code(Column("a", bounds=(0, TOP), step=1)),
    code(Column("b", bounds=(-3, TOP - 3), step=1)),
    code(Column("c", kind="category", levels=("x", "y", "z"))),
]
RECORD = st.tuples(st.integers(0, TOP), st.integers(0, TOP), st.integers(0, 2))


def groups_of(table, k, order):
    """The groups of the total order, each as the list of its records."""
    ordered = table[total_order(table, CODES, order)]
    return [list(map(tuple, part)) for part in np.split(ordered, group_starts(len(table), k)[1:])]


def replaced(records, data):
    """A table and the same with one record replaced, both shuffled."""
    other = list(records)
    other[data.draw(st.integers(0, len(records) - 1))] = data.draw(RECORD)
    return np.array(records), np.array(data.draw(st.permutations(other)))


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORD, min_size=4, max_size=40), st.integers(2, 4), st.sampled_from(ORDERS), st.data())
def test_one_replaced_record_changes_each_group_by_at_most_one_record(records, k, order, data):
    before, after = replaced(records, data)
    for mine, theirs in zip(groups_of(before, k, order), groups_of(after, k, order), strict=True):
        assert sum(max(0, theirs.count(each) - mine.count(each)) for each in set(theirs)) <= 1


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORD, min_size=4, max_size=40), st.integers(2, 4), st.sampled_from(ORDERS), st.data())
def test_sums_move_by_no_more_than_the_noise_is_made_for(records, k, order, data):
    before, after = replaced(records, data)
    n, starts = len(before), group_starts(len(before), k)
    for at, each in enumerate(CODES[:2]):
        for ranked in (False, True):
            sides = []
            for table in (before, after):
                column = np.sort(table[:, at]) if ranked else table[total_order(table, CODES, order), at]
                sides.append(np.add.reduceat(column, starts))
            moved = int(np.abs(sides[0] - sides[1]).sum())
            assert moved <= noise_scale(each, n, k, 1_000_000, ranked)


def test_the_bound_of_the_total_order_is_attained():
    # Records lie at rising distances, with column a zero in every other group and at its top in the rest.
    # The first record goes and a last one comes: each group hands its first record on, and gains the opposite.
    codes = [code(Column(name, bounds=(0, 100), step=1)) for name in "abc"]
    k, n = 2, 8
    places = [(100 * (p // k % 2), 100 * (p // k % 2 == 0), 10 * p) for p in range(n + 1)]
    sides = [np.array(places[:n]), np.array(places[1:])]
    sums = [
        np.add.reduceat(each[total_order(each, codes, "corner"), 0], group_starts(n, k)) for each in sides
    ]
    assert np.abs(sums[0] - sums[1]).sum() == noise_scale(codes[0], n, k, 1_000_000, False) == n // k * 100


def test_the_bound_of_a_sorted_column_is_attained():
    each = CODES[0]
    sides = [np.add.reduceat(np.sort(column), [0, 2]) for column in ([0, 0, 0, 0], [0, 0, 0, TOP])]
    assert np.abs(sides[0] - sides[1]).sum() == noise_scale(each, 4, 2, 1_000_000, True) == TOP


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=6, max_size=40), st.integers(2, 3), st.data())
def test_a_replaced_name_touches_few_rank_groups(values, k, data):
    other = list(values)
    other[data.draw(st.integers(0, len(values) - 1))] = data.draw(st.integers(0, 2))
    parts = [np.split(np.sort(each), group_starts(len(values), k)[1:]) for each in (values, other)]
    changed = sum(not np.array_equal(mine, theirs) for mine, theirs in zip(*parts, strict=True))
    assert changed <= CODES[2].top
    assert all(
        np.abs(np.bincount(mine, minlength=3) - np.bincount(theirs, minlength=3)).sum() <= 2
        for mine, theirs in zip(*parts, strict=True)
    )


def test_every_copy_of_a_centroid_is_the_same_number():
    frame = pl.DataFrame({"a": np.arange(40) % (TOP + 1)})
    schema = Schema({"a": Column("a", bounds=(0, TOP))}, budget=9.0)
    out = release_table(frame, schema, 20, 9.0)
    assert out.frame["a"].n_unique() <= 2
    assert out.frame.height == 40
    assert out.guarantee == TABLE_GUARANTEE


def test_noise_has_the_scale_of_the_theorem():
    each, k, n = CODES[0], 10, 100
    values = np.full(n, 6)
    scale = float(noise_scale(each, n, k, 1_000_000, False))
    assert scale == 10 * TOP
    drawn = np.concatenate([noisy_groups(values, each, k, 1_000_000, ranked=False) - 60 for _ in range(200)])
    assert abs(np.abs(drawn).mean() / scale - 1) < 0.12  # 2,000 draws: five deviations


def test_joined_rank_groups_have_no_finite_epsilon():
    # Four rows, k = 2. In the first table both columns put rows 0 and 1 together. One row replaced, the
    # second column puts 0 and 2 together: what the joined file shows is then impossible before.
    schema = Schema({name: Column(name, bounds=(0, 1000), step=1) for name in "ab"}, budget=9.0)
    before = pl.DataFrame({"a": [100, 200, 800, 900], "b": [100, 200, 800, 900]})
    after = pl.DataFrame({"a": [100, 200, 800, 900], "b": [100, 1000, 800, 900]})
    seen = []
    for frame in (before, after):
        patterns = set()
        for _ in range(30):
            out = release_table(
                frame, schema, 2, 8.0, method="individual-ranking", association="as-printed"
            ).frame
            if out["b"].n_unique() == 2 and out["a"].n_unique() == 2:
                patterns.add(tuple(out["b"] == out["b"][0]))
        seen.append(patterns)
    assert seen[0] == {(True, True, False, False)}
    assert seen[1] == {(True, False, True, False)}


def test_as_printed_promises_nothing_and_ends_the_total():
    ledger = Ledger()
    schema = Schema({"a": Column("a", bounds=(0, TOP))}, id="t", budget=1.0)
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    out = release_table(
        frame, schema, 2, 1.0, method="individual-ranking", association="as-printed", ledger=ledger
    )
    assert out.guarantee == "guarantee: none (research reproduction)" + ENDED
    assert out.epsilon is None
    assert ledger.ended("t")
    later = release_table(frame, schema, 4, 0.5, ledger=ledger)
    assert later.guarantee.endswith(ENDED)


def test_the_charge_is_taken_once_and_the_same_release_is_handed_out_again():
    ledger = Ledger()
    schema = Schema({"a": Column("a", bounds=(0, TOP))}, id="t", budget=1.0)
    frame = pl.DataFrame({"a": list(range(10))})
    first = release_table(frame, schema, 10, 0.6, ledger=ledger, data_version="1")
    again = release_table(frame, schema, 10, 0.6, ledger=ledger, data_version="1")
    assert first.frame.equals(again.frame)
    assert (first.epsilon, again.epsilon, ledger.spent("t")) == (0.6, 0.0, 600_000)
    with pytest.raises(BudgetError, match=r"does not allow epsilon 0\.5"):
        release_table(frame, schema, 10, 0.5, ledger=ledger)
    assert ledger.verify().holds


def test_a_ledger_that_adds_and_removes_records_refuses_a_release():
    from shoal.dp import Session

    ledger = Ledger()
    schema = Schema({"a": Column("a", bounds=(0, TOP))}, id="t", budget=1.0)
    frame = pl.DataFrame({"a": list(range(10))})
    Session(frame, schema, ledger=ledger).ask("SELECT COUNT(*) FROM t", 0.1)
    with pytest.raises(BudgetError, match="in the unit 'record' for life"):
        release_table(frame, schema, 10, 0.5, ledger=ledger)


def test_columns_keep_their_kinds():
    schema = Schema(
        {
            "d": Column("d", role="quasi", kind="date", bounds=("2020-01-01", "2021-01-01")),
            "o": Column("o", role="quasi", kind="ordered", levels=("low", "mid", "high")),
            "y": Column("y", role="quasi", kind="boolean"),
            "c": Column("c", role="sensitive", kind="category", levels=("p", "q")),
            "id": Column("id", role="identifier", kind="category"),
        },
        budget=99.0,
    )
    frame = pl.DataFrame(
        {
            "d": ["2020-03-01", "2020-03-02", "bad", "2020-11-01"],
            "o": ["low", "low", "high", "high"],
            "y": [True, True, False, None],
            "c": ["p", "p", "q", "q"],
            "id": ["1", "2", "3", "4"],
        }
    )
    for method in ("insensitive", "individual-ranking"):
        out = release_table(frame, schema, 4, 90.0, method=method).frame
        assert out.columns == ["d", "o", "y", "c"]
        assert out.schema["d"] == pl.Date
        assert out["d"].dt.year().is_between(2020, 2021).all()
        assert set(out["o"]) <= {"low", "mid", "high"}
        assert out.schema["y"] == pl.Boolean
        assert set(out["c"]) <= {"p", "q"}


def test_a_copula_brings_the_association_back():
    rng = np.random.default_rng(3)
    x = rng.normal(size=4000)
    y = 0.9 * x + 0.3 * rng.normal(size=4000)
    frame = pl.DataFrame({"x": x, "y": y})
    schema = Schema({name: Column(name, bounds=(-4, 4)) for name in "xy"}, budget=99.0)
    shown = {}
    for association in ("none", "copula"):
        out = release_table(
            frame, schema, 40, 4.0, method="individual-ranking", association=association
        ).frame
        shown[association] = np.corrcoef(out["x"], out["y"])[0, 1]
    assert abs(shown["none"]) < 0.1
    assert shown["copula"] > 0.85


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12), st.data())
def test_concordance_is_the_plain_count_and_moves_little(rows, data):
    table = np.array(rows)
    n = len(table)

    def plain(each):
        return sum(
            int(np.sign(each[i, 0] - each[j, 0]) * np.sign(each[i, 1] - each[j, 1]))
            for i in range(n)
            for j in range(i)
        )

    assert concordance(table[:, 0], table[:, 1]) == plain(table)
    other = table.copy()
    other[data.draw(st.integers(0, n - 1))] = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    assert abs(plain(table) - plain(other)) <= 2 * (n - 1)


def test_copula_ranks_are_permutations():
    ranks = copula_ranks(np.array([100, -50, 3]), 30, 3, 7)
    assert all(sorted(column) == list(range(30)) for column in ranks.T)


def test_small_groups_are_warned_of_and_large_ones_not():
    codes = CODES[:1]
    with pytest.warns(SmallGroupsWarning, match="not well above the square root"):
        make_plan(codes, 1000, 30, 1.0, "insensitive")
    make_plan(codes, 1000, 100, 1.0, "insensitive")  # warnings are errors here


@pytest.mark.parametrize(("columns", "bits"), [(1, 5), (2, 4), (3, 3), (5, 2), (6, 1)])
def test_the_curve_visits_every_place_by_single_steps(columns, bits):
    grid = np.array(np.meshgrid(*[np.arange(1 << bits)] * columns)).reshape(columns, -1)
    places = hilbert_places(grid, bits)
    assert sorted(places) == list(range(grid.shape[1]))
    assert (np.abs(np.diff(grid[:, np.argsort(places)], axis=1)).sum(axis=0) == 1).all()


@pytest.mark.parametrize("columns", [70, 200])
def test_more_columns_than_the_curve_has_room_for(columns):
    rng = np.random.default_rng(0)
    codes = [code(Column(f"c{at}", bounds=(0, 5), step=1)) for at in range(columns)]
    table = rng.integers(0, 6, (50, columns))
    assert sorted(total_order(table, codes)) == list(range(50))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("ranked", [False, True])
def test_the_chosen_k_is_about_the_best(epsilon, ranked):
    """On even columns, by brute force over k, without ever looking at another table."""
    rng = np.random.default_rng(0)
    n, columns = 4_000, 2
    table = rng.integers(0, 1001, (n, columns))
    codes = [code(Column(name, bounds=(0, 1000), step=1)) for name in "ab"]
    order = total_order(table, codes)
    chosen = best_size(n, columns, epsilon, ranked=ranked)

    def error(k):
        found = []
        for _ in range(12):
            for at, each in enumerate(codes):
                values = np.sort(table[:, at]) if ranked else table[order, at]
                noisy = noisy_groups(values, each, k, round(epsilon * 1e6), ranked=ranked)
                found.append(np.mean((printed(noisy, each, n, k, ranked=ranked) - values) ** 2))
        return np.mean(found)

    others = [k for k in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048) if k >= chosen / 16]
    assert error(chosen) <= 1.6 * min(error(k) for k in others)


def test_k_left_open_is_a_public_choice():
    frame, schema = (
        pl.DataFrame({"a": [0, 3, 5, 9] * 25}),
        Schema({"a": Column("a", bounds=(0, 9))}, budget=9.0),
    )
    out = release_table(frame, schema, None, 1.0)
    other = release_table(frame.with_columns(pl.lit(0).alias("a")), schema, None, 1.0)
    assert out.plan.k == other.plan.k == best_size(100, 1, 1.0, ranked=False)


def test_shares_split_the_budget():
    plan = make_plan(CODES, 100, 50, 1.0, "insensitive", shares={"a": 3})
    assert plan.micros == (600_000, 200_000, 200_000)
    copula = make_plan(CODES, 100, 50, 1.0, "individual-ranking", "copula")
    assert (sum(copula.micros), sum(copula.pair_micros), copula.micro) == (500_000, 500_000, 1_000_000)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"k": 1}, ParameterError, "'k' of release must be"),
        ({"order": "z"}, ParameterError, "'order' of release must be one of 'curve'"),
        ({"k": 500}, ParameterError, "at most the number of records, 4"),
        ({"method": "mdav"}, ParameterError, "must be one of 'insensitive'"),
        ({"association": "copula"}, ParameterError, "Only method 'individual-ranking'"),
        ({"epsilon": 0.0}, ParameterError, "'epsilon' must be a number"),
        ({"columns": ["b"]}, SchemaError, "must declare its bounds"),
        ({"columns": ["zz"]}, SchemaError, "must be declared in the schema"),
        ({"columns": ["id"]}, SchemaError, "is not released"),
        ({"shares": {"q": 2}}, ParameterError, "whole weights"),
    ],
)
def test_bad_input_is_one_sentence(change, error, words):
    frame = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "id": list("wxyz")})
    schema = Schema(
        {
            "a": Column("a", bounds=(0, TOP)),
            "b": Column("b"),
            "id": Column("id", role="identifier", kind="category"),
        },
        budget=2.0,
    )
    options = {"k": 4, "epsilon": 1.0, "columns": ["a"]} | change
    with pytest.raises(error, match=words):
        release_table(frame, schema, options.pop("k"), options.pop("epsilon"), **options)


def test_a_person_unit_is_refused():
    schema = Schema({"a": Column("a", bounds=(0, 1))}, unit=Unit("p", 3), budget=1.0)
    with pytest.raises(SchemaError, match="protects one record"):
        release_table(pl.DataFrame({"a": [0, 1]}), schema, 2, 1.0)


@pytest.mark.parametrize("method", ["insensitive", "individual-ranking"])
def test_the_command_writes_a_table_a_picture_and_a_ledger(tmp_path, method):
    load_survey().write_csv(tmp_path / "survey.csv")
    (tmp_path / "survey.toml").write_text(load_survey_schema().to_toml())
    answer = CliRunner().invoke(
        app,
        [
            "release",
            str(tmp_path / "survey.csv"),
            "-k",
            "200",
            "--epsilon",
            "1",
            "--method",
            method,
            "--schema",
            str(tmp_path / "survey.toml"),
            "-o",
            str(tmp_path / "out.csv"),
            "--picture",
            str(tmp_path / "p.svg"),
            "--columns",
            "age,income",
            "--json",
        ],
    )
    assert answer.exit_code == 0, answer.output
    facts = json.loads(answer.stdout)
    assert facts["stamp"] == TABLE_GUARANTEE
    assert facts["epsilon"] == 1.0
    assert facts["information_loss"] > 0
    assert pl.read_csv(tmp_path / "out.csv").shape == (1012, 2)
    assert (tmp_path / "p.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert Ledger(tmp_path / "survey.ledger.db").spent("survey") == 1_000_000


def test_large_groups_beat_noise_on_every_record():
    from shoal.measures import il1
    from shoal.release._columns import coded_table
    from shoal.release._table import numbers_of
    from shoal.release._utility import owner_figures, record_level

    schema = load_survey_schema()
    codes, table, _ = coded_table(load_survey(), schema, ["age", "rent"])
    plan = make_plan(codes, len(table), 200, 1.0, "insensitive")
    ours = np.mean(
        [
            owner_figures(plan, table, numbers_of(plan, draw(plan, table), table))["information_loss"]
            for _ in range(8)
        ]
    )
    original = np.column_stack([each.decode(table[:, i].astype(float)) for i, each in enumerate(codes)])
    plain = np.mean([il1(original, record_level(plan, table)) for _ in range(8)])
    assert ours < plain / 2
