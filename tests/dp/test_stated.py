"""Declared models on tables: what one group or sequence can move, held against oracles, and one answer through every way in."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shoal import Session
from shoal.cli import app
from shoal.dp import Ledger, StatedSession, col, count
from shoal.dp import sum as total
from shoal.dp.meaning.reading import read_query
from shoal.dp.pufferfish import (
    Coefficients,
    GroupScenarios,
    MarkovChain,
    Scenario,
    TimeChain,
    dependence_coefficient,
    stated_model,
    w_infinity,
)
from shoal.dp.stated import read_stated
from shoal.errors import BudgetError, ParameterError, QueryError, SchemaError
from shoal.schema import Column, Schema
from shoal.server.config import Config
from shoal.server.service import Service

SCHEMA = Schema(
    {
        "ill": Column("ill", kind="category", levels=("no", "yes")),
        "age": Column("age", bounds=(0, 110)),
        "dose": Column("dose", bounds=(0, 10)),
    },
    id="homes",
)
MANY = 200
TABLE = pl.DataFrame(
    {
        "home": [at // 2 for at in range(MANY)],
        "partner": [at ^ 1 for at in range(MANY)],
        "person": list(range(MANY)),
        "day": [at % 2 for at in range(MANY)],
        "ill": ["yes" if at % 5 == 0 else "no" for at in range(MANY)],
        "age": [20.0 + at % 60 for at in range(MANY)],
        "dose": [2.0] * MANY,
    }
)
COUPLE = Scenario({("yes", "yes"): "1/8", ("no", "no"): "5/8", ("yes", "no"): "1/8", ("no", "yes"): "1/8"})
ALL_OR_NONE = Scenario({("yes",) * 3: "1/10", ("no",) * 3: "9/10"})
ILL = "SELECT COUNT(*) FROM t WHERE ill = 'yes'"
FILE = """
[pufferfish]
group = "home"
about = "ill"
[[pufferfish.scenarios]]
name = "couples"
worlds = [
  {entries = ["yes", "yes"], probability = "1/8"},
  {entries = ["no", "no"], probability = "5/8"},
  {entries = ["yes", "no"], probability = "1/8"},
  {entries = ["no", "yes"], probability = "1/8"},
]
"""


def reach(model: GroupScenarios, text: str) -> Fraction:
    return model.reach(read_query(text, SCHEMA), SCHEMA)


def oracle(scenario: Scenario, size: int) -> Fraction:
    """W of a count over any subset of a group, from the definition."""
    worst = Fraction(0)
    for counted in itertools.product((False, True), repeat=size):
        for member in range(size):
            sides = []
            for entry in ("yes", "no"):
                found: dict[Fraction, Fraction] = {}
                whole = sum((m for w, m in scenario.worlds.items() if w[member] == entry), Fraction(0))
                for world, mass in scenario.worlds.items():
                    if world[member] == entry and mass:
                        value = Fraction(sum(c and e == "yes" for c, e in zip(counted, world, strict=True)))
                        found[value] = found.get(value, Fraction(0)) + mass / whole
                sides.append(found)
            if all(sides):
                worst = max(worst, w_infinity(*sides))
    return worst


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=8, max_size=8).filter(any))
def test_what_a_group_moves_is_that_of_its_definition(weights):
    worlds = list(itertools.product(("yes", "no"), repeat=3))
    scenario = Scenario({w: Fraction(x, sum(weights)) for w, x in zip(worlds, weights, strict=True)})
    model = GroupScenarios("home", "ill", (scenario,))
    if set(model.entries) != {"yes", "no"}:
        return
    # a condition on another column makes any subset of the members possible
    assert reach(model, ILL + " AND age > 40") == oracle(scenario, 3)


def test_all_or_none_moves_the_whole_group_and_independent_people_move_one():
    assert reach(GroupScenarios("home", "ill", (ALL_OR_NONE,)), ILL) == 3
    alone = Scenario.independent([{"yes": "1/4", "no": "3/4"}] * 3)
    assert reach(GroupScenarios("home", "ill", (alone,)), ILL) == 1


def test_between_groups_is_never_more_than_the_group_mode():
    assert 1 <= reach(GroupScenarios("home", "ill", (COUPLE,)), ILL) <= 2


def test_the_table_moves_by_no_more_than_one_group():
    """Three independent couples together: W of the whole count is W of one couple."""
    whole: dict = {(): Fraction(1)}
    for _ in range(3):
        whole = {(*w, *x): a * Fraction(b) for w, a in whole.items() for x, b in COUPLE.worlds.items()}
    everyone = Scenario(whole)
    sides = [
        everyone.given(lambda w, e=e: w[0] == e, lambda w: Fraction(sum(x == "yes" for x in w)))
        for e in ("yes", "no")
    ]
    assert w_infinity(*sides) <= reach(GroupScenarios("home", "ill", (COUPLE,)), ILL)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT COUNT(*) FROM t WHERE age > 3", "does not depend on 'ill'"),
        ("SELECT COUNT(*) FROM t", "does not depend on 'ill'"),
        ("SELECT SUM(dose) FROM t WHERE ill = 'yes'", "the SUM of 'ill'"),
        ("SELECT AVG(age) FROM t WHERE ill = 'yes'", "answers COUNT"),
        ("SELECT COUNT(*) FROM t GROUP BY ill", "without GROUP BY"),
    ],
)
def test_what_the_model_cannot_speak_of_is_refused_before_the_charge(query, said):
    session = Session(TABLE, SCHEMA, "pufferfish", 1.0, model=GroupScenarios("home", "ill", (COUPLE,)))
    with pytest.raises(QueryError, match=said):
        session.ask(query, 0.5)
    assert session.remaining() == 1.0


def test_one_answer_and_nothing_else():
    ledger = Ledger()
    model = GroupScenarios("home", "ill", (COUPLE,))
    session = Session(TABLE, SCHEMA, "pufferfish", 2.0, model=model, ledger=ledger, data_version="1")
    assert isinstance(session, StatedSession)
    first = session.ask(ILL, 1.0)
    assert "Pufferfish for the stated secrets" in first.guarantee
    assert first.interval[0] <= first.value <= first.interval[1]
    assert any("at most 2 rows that share home" in note for note in first.notes)
    assert session.ask(ILL, 1.0).value == first.value  # the stored one
    with pytest.raises(BudgetError):
        session.ask(ILL + " AND age > 40", 0.5)
    with pytest.raises(BudgetError):
        Session(TABLE, SCHEMA, budget=2.0, ledger=ledger).ask("SELECT COUNT(*) FROM t", 0.1)


def test_noise_is_that_of_the_reach():
    """Mean absolute noise of Laplace(W / epsilon); 130 draws lie within 50 % of it but for once in a million runs."""
    model, exact = GroupScenarios("home", "ill", (COUPLE,)), 40
    wide = float(reach(model, ILL)) / 0.5
    drawn = [
        abs(Session(TABLE, SCHEMA, "pufferfish", model=model).ask(ILL, 0.5).value - exact) for _ in range(130)
    ]
    assert 0.5 * wide < np.mean(drawn) < 1.5 * wide


def test_rows_beyond_the_declared_size_do_not_count():
    table = pl.DataFrame(
        {"home": [1] * 9 + [None], "ill": ["yes"] * 10, "age": [1.0] * 10, "dose": [1.0] * 10}
    )
    session = Session(table, SCHEMA, "pufferfish", model=GroupScenarios("home", "ill", (COUPLE,)))
    assert session._frame.height == 2


def test_entries_that_no_scenario_knows_do_not_count():
    table = pl.DataFrame({"home": [1, 2], "ill": ["yes", "?"], "age": [1.0] * 2, "dose": [1.0] * 2})
    assert (
        Session(table, SCHEMA, "pufferfish", model=GroupScenarios("home", "ill", (COUPLE,)))._frame.height
        == 1
    )


def test_chains_hide_a_state_behind_its_neighbours():
    slow = MarkovChain(["4/5", "1/5"], [["9/10", "1/10"], ["2/5", "3/5"]], length=40)
    model = TimeChain("person", "day", "ill", ("no", "yes"), (slow,))
    quantum, noise = model.noise(read_query(ILL, SCHEMA), SCHEMA, Fraction(1))
    assert quantum == 1
    assert 1 < noise < 40  # more than for independent rows, less than for the whole sequence
    still = TimeChain("person", "day", "ill", ("no", "yes"), (MarkovChain([1, 0], [[1, 0], [0, 1]], 5),))
    assert still.noise(read_query(ILL, SCHEMA), SCHEMA, Fraction(1))[1] >= 1
    answer = Session(TABLE, SCHEMA, "pufferfish", model=model).ask(ILL, 1.0)
    assert isinstance(answer.value, int)


def test_a_sequence_counts_its_first_rows_in_time():
    chain = MarkovChain(["1/2", "1/2"], [["1/2", "1/2"], ["1/2", "1/2"]], length=2)
    table = pl.DataFrame(
        {
            "person": [1, 1, 1],
            "day": [3, 1, 2],
            "ill": ["yes", "no", "no"],
            "age": [1.0] * 3,
            "dose": [1.0] * 3,
        }
    )
    session = Session(
        table, SCHEMA, "pufferfish", model=TimeChain("person", "day", "ill", ("no", "yes"), (chain,))
    )
    assert session._frame["ill"].to_list() == [0, 0]


def test_coefficients_by_a_column_or_a_pair_of_columns():
    query = read_query(count().where(col("ill") == "yes"), SCHEMA)
    half = Coefficients(("home",), 3, "1/2")
    assert half.noise(query, SCHEMA, Fraction(1)) == (1, 2)
    summed = half.noise(read_query(total("dose"), SCHEMA), SCHEMA, Fraction(1, 2))[1]
    assert float(summed) == pytest.approx(2 * 10 / 0.5, rel=1e-6)
    couples = Session(TABLE, SCHEMA, "dependent", model=Coefficients(("person", "partner"), 2, "1/2"))
    assert couples._frame["shoal:key"].n_unique() == MANY // 2
    answer = couples.ask("SELECT SUM(dose) FROM t", 1.0)
    assert answer.guarantee == "guarantee: for the stated coefficients, pairwise dependence only; one release"
    assert abs(answer.value - 2.0 * MANY) < 15 * 20  # beyond 20 scales once in 5e8 runs


def direct(joint: dict, epsilon: float) -> float:
    """The largest log-ratio on a fine grid of answers."""
    grid = np.linspace(-1, 2, 3001)
    places = sorted({b for _, b in joint})
    rows = []
    for a in {a for a, _ in joint}:
        whole = sum(p for (x, _), p in joint.items() if x == a)
        if whole:
            rows.append(
                sum(joint.get((a, b), 0) / whole * np.exp(-epsilon * np.abs(grid - b)) for b in places)
            )
    return max(np.abs(np.log(one / two)).max() for one, two in itertools.product(rows, repeat=2)) / epsilon


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any), st.floats(0.1, 3))
def test_the_coefficient_of_a_pair_is_that_of_its_definition(weights, epsilon):
    pairs = list(itertools.product((0, 1), repeat=2))
    joint = {pair: w / sum(weights) for pair, w in zip(pairs, weights, strict=True)}
    if len({b for (_, b), p in joint.items() if p}) < 2:
        return
    exact = {pair: Fraction(w, sum(weights)) for pair, w in zip(pairs, weights, strict=True)}
    found = dependence_coefficient(exact, epsilon)
    assert found == pytest.approx(direct(joint, epsilon), abs=1e-6)
    assert 0 <= found <= 1


def test_what_makes_no_sense_is_said():
    with pytest.raises(ParameterError, match="tuples of one length"):
        GroupScenarios("home", "ill", (COUPLE, ALL_OR_NONE))
    with pytest.raises(ParameterError, match="needs a declared model"):
        Session(TABLE, SCHEMA, "pufferfish")
    with pytest.raises(ParameterError, match="of its own kind"):
        Session(TABLE, SCHEMA, "dependent", model=GroupScenarios("home", "ill", (COUPLE,)))
    with pytest.raises(SchemaError, match="'flat'"):
        Session(TABLE, SCHEMA, "dependent", model=Coefficients(("flat",), 2, "1/2"))
    with pytest.raises(ParameterError, match="in \\[0, 1\\]"):
        Coefficients(("home",), 2, 1.5)
    with pytest.raises(ParameterError, match="one part"):
        stated_model({"pufferfish": {}, "dependent": {}})
    with pytest.raises(ParameterError, match="must say group, about, scenarios"):
        stated_model({"pufferfish": {"group": "home"}})
    with pytest.raises(ParameterError, match="does not declare"):
        odd = Scenario({("perhaps",): "1/2", ("yes",): "1/2"})
        reach(GroupScenarios("home", "ill", (odd,)), ILL)
    with pytest.raises(ParameterError, match="No model file"):
        read_stated("nowhere.toml")


@pytest.fixture
def folder(tmp_path):
    TABLE.write_csv(tmp_path / "t.csv")
    written = SCHEMA.with_columns(home={"kind": "category"})  # of a file the declared columns are read
    (tmp_path / "t.toml").write_text(written.to_toml(), encoding="utf-8")
    (tmp_path / "model.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


def test_from_the_command_line(folder):
    words = ["ask", str(folder / "t.csv"), ILL, "--schema", str(folder / "t.toml"), "--epsilon", "1"]
    words += ["--mode", "pufferfish", "--model", str(folder / "model.toml"), "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    facts = json.loads(found.stdout)
    assert "Pufferfish" in facts["stamp"]
    assert math.isfinite(facts["value"])
    again = CliRunner().invoke(app, [each.replace("'yes'", "'no'") for each in words])
    assert again.exit_code == 1  # one answer, and nothing else


def test_from_a_server(folder):
    path = folder / "shoal.toml"
    path.write_text(
        '[server]\nslot_seconds = 0\n[datasets.t]\nfile = "t.csv"\nschema = "t.toml"\nbudget = 2.0\n'
        'modes = ["pufferfish"]\nmodel = "model.toml"\n',
        encoding="utf-8",
    )
    service = Service(Config.from_toml(path))
    cost = service.cost("homes", ILL, 1.0, None, "ann")
    assert cost.parts[0]["noise_scale"] >= 1
    answer = service.ask("homes", ILL, 1.0, None, "ann")
    assert "Pufferfish" in answer.guarantee
    assert service.past("homes", "ann")[0].charged.value == 1.0
    service.close()


@pytest.mark.parametrize(
    "extra", ['modes = ["pufferfish"]', 'modes = ["dp", "pufferfish"]\nmodel = "model.toml"']
)
def test_a_server_wants_the_model_and_no_other_mode(folder, extra):
    path = folder / "shoal.toml"
    path.write_text(
        f'[datasets.t]\nfile = "t.csv"\nschema = "t.toml"\nbudget = 2.0\n{extra}\n', encoding="utf-8"
    )
    with pytest.raises(ParameterError, match="stands alone"):
        Config.from_toml(path)


def test_which_rows_of_a_crowded_home_count_does_not_depend_on_the_secret():
    """Three rows where two count: the chosen ones are the same whatever their secret cells hold, unknown ones too."""
    model, seen, chosen = GroupScenarios("home", "ill", (COUPLE,)), set(), frozenset()
    for ill in itertools.product(("yes", "no", None, "?"), repeat=3):
        table = pl.DataFrame({"home": [7] * 3, "ill": ill, "age": [30.0, 40.0, 50.0], "dose": [1.0] * 3})
        session = Session(table, SCHEMA, "pufferfish", 1.0, model=model)
        counted = dict(session._frame.select("age", "ill").iter_rows())
        known = {age for age, each in zip((30.0, 40.0, 50.0), ill, strict=True) if each in ("yes", "no")}
        assert set(counted) <= known
        if len(known) == 3:
            chosen = frozenset(counted)
            seen.add(chosen)
        else:  # nobody moves up into the place of a row whose cell is unknown
            assert set(counted) == chosen & known
    assert len(seen) == 1
    assert len(chosen) == 2


def test_time_is_ordered_as_the_schema_reads_it():
    """Days as texts of a file: 9 comes before 10, so that the first two days count."""
    chain = MarkovChain(["1/2", "1/2"], [["3/5", "2/5"], ["2/5", "3/5"]], length=2)
    model = TimeChain("person", "day", "ill", ("no", "yes"), (chain,))
    schema = Schema({**SCHEMA.columns, "day": Column("day", bounds=(0, 99))}, id="days")
    table = pl.DataFrame(
        {"person": ["a"] * 3, "day": ["10", "9", "8"], "ill": ["no"] * 3, "age": [1] * 3, "dose": [1] * 3}
    )
    session = Session(table, schema, "pufferfish", 1.0, model=model)
    assert sorted(session._frame["day"].to_list()) == [8.0, 9.0]
