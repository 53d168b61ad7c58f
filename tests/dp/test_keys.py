"""Groups that nobody declared: chosen by a threshold, paid for in rho and delta."""

import datetime
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from shoal.dp import Ledger, Session
from shoal.dp.answering.exact import finish_keys
from shoal.dp.answering.keyed import PARTS, amount_with_keys
from shoal.dp.budget import split
from shoal.dp.ledger.claims import DELTA, Caps
from shoal.dp.mechanisms.discrete_gaussian import gaussian_radius
from shoal.dp.mechanisms.keys import KeyChoice
from shoal.dp.past import past
from shoal.dp.pricing import Offer, keyed_plan
from shoal.dp.unit import Records
from shoal.errors import BudgetError, ParameterError, QueryError, SchemaError
from shoal.schema import Column, Keys, Schema, Unit

COMMON = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"


def schema(**more):
    columns = {
        "city": Column("city", kind="category"),
        "code": Column("code", kind="number"),
        "age": Column("age", bounds=(0, 100)),
        "sex": Column("sex", kind="category", levels=("f", "m")),
    }
    facts = {"id": "trips", "currency": "zcdp", "delta": 1e-6, "keys": Keys(2e-7, 4), "budget": 50.0}
    return Schema(columns, **(facts | more))


def table(common=400, rare=3):
    cities = ["Oslo"] * common + ["Rome"] * (2 * common) + [f"village {each}" for each in range(rare)]
    n = len(cities)
    return pl.DataFrame(
        {
            "city": cities,
            "code": [7.0 if each == "Rome" else 8.5 for each in cities],
            "age": [each % 100 for each in range(n)],
            "sex": ["f" if each % 2 else "m" for each in range(n)],
            "person": [str(each // 2) for each in range(n)],
        }
    )


def test_common_values_are_shown_and_rare_ones_are_not():
    with Session(table(), schema()) as s:
        answer = s.ask(COMMON + " ORDER BY city", rho=0.5)
        assert [each["city"] for each in answer.value] == ["Oslo", "Rome"]
        assert abs(answer.value[0]["n"] - 400) < 20
        assert "5e-08-approximate rho-zCDP" in answer.guarantee
        assert "2e-07 of delta for groups that are not declared" in answer.guarantee
        again = s.ask(COMMON + " ORDER BY city", rho=0.5)
        assert again.value == answer.value
        assert again.rho == 0
        kinds = [each.kind for each in s.ledger.entries(dataset="trips")]
        assert kinds.count("delta") == 1
        assert s.ledger.verify().holds


def test_figures_conditions_and_declared_groups_beside_it():
    with Session(table(), schema()) as s:
        text = "SELECT city, sex, AVG(age) AS years FROM t WHERE age < 50 GROUP BY city, sex HAVING years > 0 ORDER BY city, sex"
        answer = s.ask(text, rho=1)
        assert [(each["city"], each["sex"]) for each in answer.value] == [
            ("Oslo", "f"), ("Oslo", "m"), ("Rome", "f"), ("Rome", "m"),
        ]  # fmt: skip
        numbers = s.ask("SELECT code, COUNT(*) AS n FROM t GROUP BY code", rho=1)
        assert [each["code"] for each in numbers.value] == [7, 8.5]


def test_the_reserve_is_spent_in_equal_parts_and_ends():
    with Session(table(), schema()) as s:
        for age in range(4):
            s.ask(f"SELECT city, COUNT(*) FROM t WHERE age > {age} GROUP BY city", rho=0.1)
        with pytest.raises(BudgetError, match="reserved for groups"):
            s.ask("SELECT city, COUNT(*) FROM t WHERE age > 9 GROUP BY city", rho=0.1)
        used = [int(each.body) for each in s.ledger.entries(dataset="trips") if each.kind == "delta"]
        assert used[-1] <= s.ledger.caps("trips").keys <= 2e-7 * DELTA
        assert s.ask("SELECT COUNT(*) FROM t", rho=0.1).rho == 0.1  # the rest goes on
        s.ledger.set_caps("trips", s.caps.total, keys=int(1e-6 * DELTA) // 2)
        assert s.ask("SELECT city, COUNT(*) FROM t WHERE age > 9 GROUP BY city", rho=0.1).rho == 0.1
        assert s.ledger.verify().holds


def test_the_total_stays_true_with_a_reserve():
    free = replace(schema(), keys=None)
    with Session(table(), schema()) as s, Session(table(), free) as other:
        assert s.caps.total < other.caps.total  # rho has the rest of delta only
        guarantee = s.ask("SELECT COUNT(*) FROM t", rho=0.1).guarantee
        assert "(50, 1e-06)-DP (2e-07 of delta" in guarantee


def test_a_ledger_without_reserve_is_not_given_one_by_a_session(tmp_path):
    where = tmp_path / "ledger.db"
    with Session(table(), replace(schema(), keys=None), ledger=where):
        pass
    with pytest.raises(BudgetError, match="only its owner raises"):
        Session(table(), schema(), ledger=where)


@pytest.mark.parametrize("facts", [{"keys": None}, {"currency": "pure", "keys": None}])
def test_a_refusal_names_what_to_write(facts):
    with Session(table(), schema(**facts)) as s:
        with pytest.raises(QueryError, match="declare its 'levels'.*keys = {delta"):
            s.ask(COMMON, epsilon=1)
        assert not [each for each in s.ledger.entries() if each.kind in ("charge", "refusal")]


def test_two_such_columns_are_refused_and_so_is_a_reserve_without_delta():
    with Session(table(), schema()) as s, pytest.raises(QueryError, match="Got city and code"):
        s.ask("SELECT city, code, COUNT(*) FROM t GROUP BY city, code", rho=1)
    for facts in ({"currency": "pure", "delta": None}, {"delta": 1e-7}):
        with pytest.raises(SchemaError, match="'keys' of a table"):
            schema(**facts)


def test_each_question_has_a_part_of_delta():
    with pytest.raises(SchemaError, match="at least 1e-15"):
        Keys(1e-12, 10_000)


def test_any_records_move_as_much_as_they_are():
    choice = KeyChoice(Fraction(1, 2), Fraction(1, 10**6), 3, 3)
    assert choice.noise.scale == 3


def test_the_schema_reads_back():
    assert Schema.from_toml_text(schema().to_toml()) == schema()


def test_a_unit_counts_for_so_many_keys():
    pairs = pl.DataFrame({"key": ["a", "b", "c", "a"], "unit": ["1", "1", "1", "2"], "n": [1, 5, 1, 0]})
    keys, counts = finish_keys(pairs, 2)
    assert len(keys) == 2
    assert counts.tolist() == [1, 1]
    same = finish_keys(pl.concat([pairs, pl.DataFrame({"key": ["z"], "unit": ["3"], "n": [9]})]), 2)
    assert set(keys) < set(same[0])  # what one unit keeps is its own affair


def test_persons_are_counted_and_their_rows_are_not():
    rows = pl.DataFrame(
        {"city": ["Bonn"] * 900 + ["Oslo"] * 300, "person": ["one"] * 900 + [str(i) for i in range(300)]}
    )
    facts = Schema(
        {"city": Column("city", kind="category")}, id="trips", unit=Unit("person", 2), currency="zcdp", delta=1e-6,
        keys=Keys(2e-7, 4), budget=50.0,
    )  # fmt: skip
    with Session(rows, facts) as s:
        assert [each["city"] for each in s.ask(COMMON, rho=1).value] == ["Oslo"]


@pytest.mark.parametrize(
    ("facts", "mode", "moved"),
    [({}, {}, 1), ({"unit": Unit("person", 2)}, {}, 2), ({}, {"unit": Records(3)}, 9)],
)
def test_the_noise_on_keys_is_that_of_the_unit_that_is_protected(facts, mode, moved):
    """A person has two keys, once each; three records may have one key together. A third of rho goes to the keys."""
    with Session(table(), schema(**facts), **mode) as s:
        part = s.cost(COMMON, rho=0.3).parts[0]
        keys, move = (2, 1) if facts else (3, 3) if mode else (1, 1)
    assert part["noise_scale"] ** 2 == pytest.approx(moved / (2 * 0.1), rel=1e-3)
    assert part["threshold"] == KeyChoice(Fraction(1, 10), Fraction(2e-7) / 4, keys, move).threshold


def test_keys_are_those_of_the_rows_asked_about():
    with Session(table(), schema()) as s:
        answer = s.ask("SELECT city, COUNT(*) AS n FROM t WHERE code = 7 GROUP BY city", rho=1)
        assert [each["city"] for each in answer.value] == ["Rome"]


def test_zeros_of_both_signs_are_one_key():
    signs = pl.DataFrame({"code": [0.0, -0.0] * 200, "person": [str(each // 2) for each in range(400)]})
    columns = {"code": Column("code", kind="number")}
    with Session(signs, replace(schema(unit=Unit("person", 2)), columns=columns)) as s:
        answer = s.ask("SELECT code, COUNT(*) AS n FROM t GROUP BY code", rho=1)
        assert [each["code"] for each in answer.value] == [0]
        assert abs(answer.value[0]["n"] - 400) < 40


def test_dates_that_nobody_declared_are_groups():
    days = [datetime.date(2024, 2, 29)] * 300 + [datetime.date(1999, 12, 31)] * 500
    facts = replace(schema(), columns={"day": Column("day", kind="date")})
    with Session(pl.DataFrame({"day": days}), facts) as s:
        answer = s.ask("SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY day", rho=1)
    assert [each["day"] for each in answer.value] == ["1999-12-31", "2024-02-29"]
    assert abs(answer.value[1]["n"] - 300) < 20


def test_keys_are_a_figure_more_where_the_least_is_held_against_a_query():
    with Session(table(), schema(), minimum=0.1) as s:
        with pytest.raises(ParameterError, match=r"at least 0.005 for each figure. Got 0.009 for 2"):
            s.ask(COMMON, rho=0.009)
        assert s.ask(COMMON, rho=0.015).rho == 0.015


@pytest.mark.parametrize("needed", [1, 2, 1000, 333_333])
def test_what_is_asked_for_by_error_leaves_the_figures_their_part(needed):
    amount = amount_with_keys(needed)
    assert needed <= split(amount, PARTS)[1] <= needed + 2


def test_no_key_at_all_is_an_empty_answer():
    with Session(table(common=0), schema()) as s:
        answer = s.ask(COMMON, rho=0.5)
        assert answer.value == []
        assert answer.rho == 0.5


@pytest.mark.parametrize(("keys", "move", "rho"), [(1, 1, 0.02), (7, 1, 0.5), (3, 3, 0.1), (1, 1, 40.0)])
def test_a_threshold_keeps_to_its_delta(keys, move, rho):
    """Against the exact tail of discrete Gaussian noise."""
    choice = KeyChoice(Fraction(rho), Fraction(1, 10**6), keys, move)
    scale = choice.noise.scale
    far = math.ceil(40 * scale) + 2
    weights = np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * scale * scale))
    tail = weights[far + choice.threshold - move :].sum() / weights.sum()
    assert keys * tail <= 1e-6
    nearer = weights[far + max(0, choice.threshold - move - 3) :].sum() / weights.sum()
    assert keys * nearer > 1e-7 or scale < 1  # and is not far above what is needed
    assert gaussian_radius(scale) < choice.threshold


def test_odd_cells_do_no_harm_after_the_charge():
    odd = ["a\x1c", "a", "\u00a0", "1", "1.0", "x" * 100_000, "NaN", "💡"]
    rows = pl.DataFrame({"city": odd * 300})
    facts = Schema({"city": Column("city", kind="category")}, id="odd", currency="zcdp", delta=1e-6,
                   keys=Keys(1e-7, 1), budget=50.0)  # fmt: skip
    with Session(rows, facts) as s:
        found = s.ask(COMMON, rho=2)
        assert {"a", "1"} <= {str(each["city"]).strip("\x1c") for each in found.value}


def test_the_same_keys_from_a_file(tmp_path):
    path = tmp_path / "trips.parquet"
    table().write_parquet(path)
    held, read = Session(table(), schema()), Session(path, schema())
    plan = keyed_plan(held, COMMON, _undeclared(held), Offer(rho=0.5))
    one, two = (each._rows.keys(plan.plan, "city", 1) for each in (held, read))
    assert one[0] == two[0]
    assert one[1].tolist() == two[1].tolist()


def _undeclared(session):
    with pytest.raises(QueryError) as found:
        session._question(COMMON)
    return found.value


def test_cost_error_and_past():
    with Session(table(), schema()) as s:
        cost = s.cost(COMMON, rho=0.3)
        assert cost.rho == pytest.approx(0.3)
        assert [each["release"] for each in cost.parts] == [
            "keys",
            "count",
        ]
        assert sum(each["share"] for each in cost.parts) == pytest.approx(1)
        answer = s.ask(COMMON, error=10)
        low, high = answer.interval[0]["n"]
        assert high - low <= 20
        kept = past([s], "me")
        assert kept[0].answer is not None
        assert [each["count"] for each in kept[0].answer.value] == [each["n"] for each in answer.value]
        assert s.cost(COMMON, rho=answer.rho).rho == 0


def test_caps_read_back():
    caps = Caps(5, 4, "zcdp", 7)
    assert Caps.from_json(caps.to_json()) == caps
    assert Caps.from_json(json.dumps(["pure", 3, 2])) == Caps(3, 2)


def test_another_unit_is_refused():
    with Ledger() as ledger:
        rows = table()
        facts = schema(unit=Unit("person", 2))
        with Session(rows, replace(facts, unit=Unit()), ledger=ledger) as first:
            first.ask("SELECT COUNT(*) FROM t", rho=0.1)
        with (
            Session(rows, facts, ledger=ledger) as s,
            pytest.raises(BudgetError, match="this is another one"),
        ):
            s.ask(COMMON, rho=0.1)


@pytest.mark.parametrize(("keys", "move", "scale"), [(1, 1, 5.0), (4, 1, 10.0), (4, 2, 10.0), (4, 3, 15.0)])
def test_noise_on_keys_goes_by_what_a_unit_moves(keys, move, scale):
    """Ones on so many keys, or all on one: in L2 the root of the keys, or the move, whichever is more."""
    assert KeyChoice(Fraction(1, 50), Fraction(1, 10**8), keys, move).noise.scale == pytest.approx(scale)


@pytest.mark.parametrize(("keys", "move", "delta"), [(1, 1, 1e-8), (3, 1, 1e-6), (3, 5, 1e-12), (1, 1, 0.4)])
def test_a_threshold_is_the_least_that_keeps_to_its_delta(keys, move, delta):
    choice = KeyChoice(Fraction(1, 50), Fraction(delta), keys, move)

    def tail(r):  # of a normal, from above
        x = r / choice.noise.scale
        return math.exp(-(x**2) / 2) / (x * math.sqrt(2 * math.pi))

    r = choice.threshold - move - 1
    assert tail(r) <= delta / keys < tail(r - 1) * (1 + 1e-6) if r > 1 else tail(1) <= delta / keys


def test_the_largest_keys_come_first():
    choice = KeyChoice(Fraction(10**6), Fraction(1, 10**8), 1)
    assert choice.choose(np.array([500, 2000, 1, 900])).tolist() == [1, 3, 0]


@pytest.mark.parametrize(("there", "drawn"), [(1, 1024), (1024, 1024), (1025, 2048), (5000, 8192)])
def test_how_many_numbers_are_drawn_tells_little_of_how_many_keys_there_are(there, drawn):
    asked = []

    class Counted:
        scale = 5.0

        def add(self, values):
            asked.append(len(values))
            return values

    choice = KeyChoice(Fraction(1, 50), Fraction(1, 10**8), 1)
    assert choice.move == 1
    vars(choice)["noise"] = Counted()
    choice.choose(np.full(there, 1))
    assert asked == [drawn]
    least = choice.threshold  # what reaches it is shown
    assert choice.choose(np.array([least - 1, least])).tolist() == [1]
