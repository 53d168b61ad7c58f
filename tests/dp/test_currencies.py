"""The two currencies: what is charged, which noise it buys, and what is said."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shoal.dp import AddRemoveUnit, Ledger, Records, Session
from shoal.dp.accounting import epsilon_of_rho, rho_of_epsilon
from shoal.dp.answering.cost import parts_of
from shoal.dp.answering.exact import compute
from shoal.dp.answering.noise import add_noise
from shoal.dp.answering.plan import make_plan
from shoal.dp.answering.releases import Limit, Sums
from shoal.dp.answering.shown import figures
from shoal.dp.budget import MICRO
from shoal.dp.ledger.claims import Caps
from shoal.dp.loading.load import load, protect_rows
from shoal.dp.mechanisms.currency import Currency, choice_range, choose, rest_of, root_below, rounded_up_text
from shoal.dp.mechanisms.discrete_gaussian import Gaussian, gaussian_radius
from shoal.dp.past import past
from shoal.dp.sql.parse import parse
from shoal.dp.unit import resolve
from shoal.errors import BudgetError, ParameterError, ShoalError
from shoal.schema import Column, Schema, Unit

SCHEMA = Schema(
    {
        "age": Column("age", bounds=(0, 110), step=1),
        "income": Column("income", bounds=(-1000, 5000)),
        "region": Column("region", kind="category", levels=("north", "south", "east")),
        "who": Column("who", kind="category"),
    },
    id="clinic",
    budget=20.0,
    currency="zcdp",
    delta=1e-6,
)
TABLE = pl.DataFrame(
    {
        "age": [float(each % 90) for each in range(600)],
        "income": [float(each * 7 % 4000) for each in range(600)],
        "region": [("north", "south", "east")[each % 3] for each in range(600)],
        "who": [str(each // 3) for each in range(600)],
    }
)
COUNT = "SELECT COUNT(*) FROM t WHERE age >= 40"


def test_an_answer_is_charged_in_rho_and_says_what_the_cap_means():
    with Session(TABLE, SCHEMA) as s:
        cap = rho_of_epsilon(20.0, 1e-6)
        assert s.caps == Caps(cap, cap, "zcdp")
        answer = s.ask(COUNT, rho=0.01)
        assert (answer.rho, answer.delta) == (0.01, 1e-6)
        assert answer.epsilon == epsilon_of_rho(10_000, 1e-6)
        assert answer.remaining == pytest.approx((cap - 10_000) / MICRO)
        assert s.ledger.spent("clinic") == 10_000
        whole = rounded_up_text(epsilon_of_rho(cap, 1e-6))
        assert answer.guarantee == (
            f"guarantee: rho-zCDP, add or remove one record; all answers about this data set together ({whole}, 1e-06)-DP"
        )
        assert type(answer).from_dict(answer.to_dict()) == answer
        again = s.ask(COUNT, rho=0.01)
        assert (again.value, again.rho, again.epsilon) == (answer.value, 0.0, 0.0)


def test_epsilon_buys_the_rho_that_implies_it():
    with Session(TABLE, SCHEMA) as s:
        answer = s.ask(COUNT, 0.5)
        assert answer.rho == rho_of_epsilon(0.5, 1e-6) / MICRO
        assert 0.4999 < answer.epsilon <= 0.5
        cost = s.cost(COUNT, 0.4)
        assert (cost.rho, cost.affordable) == (rho_of_epsilon(0.4, 1e-6) / MICRO, True)
        assert cost.parts[0]["rho"] == cost.rho
        assert s.cost(COUNT, rho=40.0).affordable is False


def test_the_cap_holds_in_rho():
    with Session(TABLE, replace(SCHEMA, budget=0.5)) as s:
        cap = s.caps.total
        s.ask(COUNT, rho=(cap - 5) / MICRO)
        with pytest.raises(
            BudgetError, match=r"does not allow rho 0.00001: 0\.000005 of|does not allow rho 1e-05"
        ):
            s.ask("SELECT COUNT(*) FROM t", rho=0.00001)
        s.ask("SELECT COUNT(*) FROM t", rho=0.000005)
        assert s.remaining() == 0
        assert s.ledger.verify().holds


def test_the_currency_is_for_life(tmp_path):
    with Session(TABLE, SCHEMA, ledger=tmp_path / "l.db") as s:
        s.ask(COUNT, rho=0.01)
    plain = replace(SCHEMA, currency="pure", delta=None)
    with pytest.raises(BudgetError, match="counted in rho for life"):
        Session(TABLE, plain, ledger=tmp_path / "l.db")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({}, "must be given"),
        ({"epsilon": 1.0, "rho": 0.1}, "not both"),
        ({"rho": 0.0}, "'rho' must be a number"),
        ({"rho": "x"}, "'rho' must be a number"),
        ({"rho": math.nan}, "'rho' must be a number"),
        ({"epsilon": -1}, "'epsilon' must be a number"),
        ({"epsilon": 1e-6}, "must be larger for delta"),
    ],
)
def test_bad_amounts_are_one_sentence_and_cost_nothing(words, sentence):
    with Session(TABLE, SCHEMA) as s:
        with pytest.raises(ParameterError, match=sentence):
            s.ask(COUNT, **words)
        assert s.ledger.spent("clinic") == 0


def test_rho_is_refused_where_epsilon_is_counted():
    s = Session(TABLE, replace(SCHEMA, currency="pure", delta=None))
    with pytest.raises(ParameterError, match="counted in epsilon: 'epsilon' says what to spend"):
        s.ask(COUNT, rho=0.1)
    with pytest.raises(ParameterError, match="'delta' must be declared"):
        Session(TABLE, replace(SCHEMA, delta=None))
    with pytest.raises(ParameterError, match="Mode 'pufferfish' is counted in epsilon"):
        from shoal.dp.pufferfish import GroupScenarios, Scenario

        model = GroupScenarios("who", "region", (Scenario({("north",): "1"}),))
        Session(TABLE, SCHEMA, "pufferfish", model=model)


def test_each_figure_costs_at_least_a_millionth_of_rho():
    with Session(TABLE, SCHEMA) as s:
        s.ask(COUNT, rho=0.000001)
        with pytest.raises(ParameterError, match="for each figure"):
            s.ask("SELECT COUNT(*), SUM(age) FROM t", rho=0.000001)
    s = Session(TABLE, SCHEMA, minimum=0.01)
    with pytest.raises(ParameterError, match="'rho' must be at least 5e-05"):
        s.ask(COUNT, rho=0.00004)


def drawn(
    sql: str,
    rho: float,
    schema: Schema = SCHEMA,
    mode: str = "dp",
    draws: int = 4000,
    table: pl.DataFrame = TABLE,
) -> tuple:
    unit = resolve(mode, schema)
    plan = make_plan(parse(sql), schema, unit, round(rho * MICRO), None, Currency.of(schema))
    exact = compute(protect_rows(load(table, schema), table, schema, unit, None), plan)
    return plan, exact, add_noise(plan, exact, draws)


@pytest.mark.parametrize(
    ("sql", "unit", "length"),
    [
        ("SELECT COUNT(*) FROM t", Unit(), 1),
        ("SELECT COUNT(*) FROM t", Unit("who", 3), 3),
        ("SELECT region, COUNT(*) FROM t GROUP BY region", Unit(), 1),
        ("SELECT region, COUNT(*) FROM t GROUP BY region", Unit("who", 3), 3),
        ("SELECT region, COUNT(DISTINCT who) FROM t GROUP BY region", Unit("who", 3), math.sqrt(3)),
        ("SELECT SUM(income) FROM t", Unit(), 5000 / 2**-17),
        ("SELECT AVG(age) FROM t", Unit(), 2**30),
        ("SELECT VAR_POP(age) FROM t", Unit(), 3 * 12288**2),
    ],
)
def test_the_noise_is_gaussian_with_the_length_that_a_unit_moves(sql, unit, length):
    plan, _, noisy = drawn(sql, 0.02, replace(SCHEMA, unit=unit))
    noise = noisy[0] - np.median(noisy[0], axis=0)
    scale = length / math.sqrt(2 * 0.02)
    assert float(plan.releases[0].scale()) == pytest.approx(scale, rel=1e-6)
    found = stats.kstest((noise[:, 0] / scale)[:2000], stats.norm.cdf)
    assert found.pvalue > 1e-6 or scale < 20  # whole numbers of a small scale are no normal numbers
    assert noise[:, 0].std() == pytest.approx(scale, rel=0.08)


def test_records_jointly_move_a_sum_together():
    plan = make_plan(parse("SELECT COUNT(*) FROM t"), SCHEMA, Records(4), 20_000, None, Currency.of(SCHEMA))
    assert float(plan.releases[0].scale()) == pytest.approx(4 / math.sqrt(0.04), rel=1e-9)


@given(st.integers(1, 10**9), st.integers(1, 50), st.integers(1, 2**30))
def test_the_noise_never_costs_more_than_its_rho(micro, rows, size):
    release = Sums("count", micro, None, None, ((1, 0, 0),), size, Limit(rows), False, 1, "zcdp")
    spent = Fraction((rows * size) ** 2) / (2 * Fraction(release.noise().scale) ** 2)
    assert spent <= Fraction(micro, MICRO)
    assert spent * (1 + Fraction(1, 10**12)) >= Fraction(micro, MICRO)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**12))
def test_the_range_of_a_choice_never_costs_more_than_its_rho(amount):
    span = choice_range("zcdp", amount)
    assert span**2 / 8 <= amount
    assert span**2 / 8 * (1 + Fraction(1, 10**12)) >= amount
    assert root_below(amount) ** 2 <= amount


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.7, 63.9, 64.0, 1000.0])
def test_the_radius_holds_ninety_five_percent(scale):
    r = gaussian_radius(scale)
    reach = np.arange(math.ceil(40 * scale) + 2)
    weights = np.exp(-(reach**2) / (2 * scale**2)) * np.where(reach, 2.0, 1.0)
    inside = np.cumsum(weights) / weights.sum()
    assert inside[r] >= 0.95
    assert r == 0 or inside[max(0, r - 2)] < 0.95


def test_discrete_noise_lies_within_one_of_normal_noise():
    """What the interval of an average relies on: both quantile functions differ by at most 1."""
    for scale in (0.4, 1.0, 3.3, 20.0):
        reach = np.arange(-math.ceil(12 * scale) - 2, math.ceil(12 * scale) + 3)
        weights = np.exp(-(reach**2) / (2 * scale**2))
        above = np.cumsum((weights / weights.sum())[::-1])[::-1]  # P(Z >= m)
        assert (above <= stats.norm.sf((reach - 1) / scale) + 1e-12).all()
        assert (above >= stats.norm.sf(reach / scale) - 1e-12)[reach > 0].all()


@pytest.mark.parametrize(
    ("sql", "truth"),
    [
        ("SELECT COUNT(*) FROM t", 600),
        ("SELECT SUM(age) FROM t", float(TABLE["age"].sum())),
        ("SELECT AVG(age) FROM t", float(TABLE["age"].mean())),
        ("SELECT VAR_POP(age) FROM t", float(TABLE["age"].var(ddof=0))),
    ],
)
def test_intervals_hold_what_they_say(sql, truth):
    plan, _, noisy = drawn(sql, 0.005, draws=400)
    ends = [figures(plan, tuple(each[at : at + 1] for each in noisy)).interval for at in range(400)]
    inside = np.mean([low <= truth <= high for low, high in ends])
    assert inside > 0.91


def test_ranks_are_chosen_by_the_range_of_their_log_ratios():
    plan = drawn("SELECT MEDIAN(age) FROM t", 0.02)[0]
    release = plan.releases[0]
    assert float(release.rate()) == pytest.approx(math.sqrt(8 * 0.02) / 2)
    with Session(TABLE, SCHEMA) as s:
        assert abs(s.ask("SELECT MEDIAN(age) FROM t", rho=0.5).value - 44) < 8
        assert s.ask("SELECT MAX(age) FROM t", rho=0.5).value > 70
        assert s.ask("SELECT MODE(region) FROM t", rho=0.01).rho == 0.01


def test_loosely_declared_units_choose_their_limit_in_rho():
    schema = replace(SCHEMA, unit=Unit("who", 60))
    with Session(TABLE, schema) as s:
        answer = s.ask("SELECT COUNT(*) FROM t", rho=1.0)
        ends = answer.cut_interval or answer.interval  # now and then the limit drawn is all that is declared
        assert ends[0] <= answer.value <= ends[1]
        assert s.ask("SELECT AVG(age) FROM t", rho=0.2).rho == 0.2
    release = drawn("SELECT COUNT(*) FROM t", 1.0, schema)[0].releases[0]
    assert (release.score_rate * 1024) ** 2 / 8 + Fraction(release.steps.limits[-1] ** 2) / (
        2 * release.scale(release.steps.limits[-1]) ** 2
    ) <= 1


def test_a_record_counts_the_square_in_a_ledger_of_several_records():
    ledger = Ledger()
    with Session(TABLE, SCHEMA, unit=Records(3), ledger=ledger) as s:
        s.ask(COUNT, rho=0.01)
    with Session(TABLE, SCHEMA, ledger=ledger) as s:
        assert s.cost("SELECT COUNT(*) FROM t", rho=0.01).rho == 0.09
        answer = s.ask("SELECT COUNT(*) FROM t", rho=0.01)
        assert (answer.rho, answer.notes[-1]) == (0.09, "counts 9 times in the unit that the ledger keeps")
        assert past([s], "me")[0].answer.rho == 0.09


def test_tau_is_bought_in_rho(survey, schema):
    facts = replace(schema, currency="zcdp", delta=1e-6, budget=5.0)
    s = Session(survey, replace(facts, cells=replace(facts.cells, tau=None)), "correlated")
    assert s.buy_tau(1.0) >= 1
    assert s.ledger.spent("survey") == rho_of_epsilon(1.0, 1e-6)


def test_the_unit_of_a_person_is_said_in_rho():
    with Session(TABLE, replace(SCHEMA, unit=Unit("who", 3))) as s:
        assert s.ask(COUNT, rho=0.01).guarantee.startswith(
            "guarantee: rho-zCDP, add or remove one who; all answers"
        )
    with Session(TABLE, SCHEMA, unit=AddRemoveUnit("who", 3, jointly=True)) as s:
        assert "rho-zCDP for the records of one group jointly" in s.ask(COUNT, rho=0.01).guarantee


def test_gaussian_noise_is_a_value():
    assert Gaussian(5.0).add(np.array([10**6])).shape == (1,)


PURE = replace(SCHEMA, currency="pure", delta=None)


@pytest.mark.parametrize("schema", [PURE, SCHEMA])
def test_an_error_costs_what_it_takes_and_no_more(schema):
    sql = "SELECT region, COUNT(*), SUM(age) FROM t GROUP BY region"
    with Session(TABLE, schema) as s:
        for query, error in ((COUNT, 30), ("SELECT SUM(age) FROM t", 4000.0), (sql, 9000)):
            cost = s.cost(query, error=error)
            assert all(part["error"] <= error for part in cost.parts)
            word = s.currency.word
            less = {word: round(cost.parts[0][word] * len(cost.parts) * MICRO - len(cost.parts)) / MICRO}
            assert max(part["error"] for part in s.cost(query, **less).parts) > error
        answer = s.ask(COUNT, error=30)
        assert answer.interval[1] - answer.value <= 30
        assert answer.remaining == pytest.approx(
            s.caps.total / MICRO - s.cost("SELECT COUNT(*) FROM t", error=30).spent
        )


@pytest.mark.parametrize("schema", [PURE, SCHEMA], ids=["pure", "zcdp"])
@pytest.mark.parametrize("value", [0, 55, 110], ids=["low", "middle", "high"])
def test_the_error_to_expect_of_an_average_is_that_of_its_rows(schema, value):
    """Of 1,000 rows: at the ends of the range, where noise weighs most, 95 % of the answers lie within it."""
    schema = replace(schema, columns={"age": Column("age", bounds=(0, 110))})
    table = pl.DataFrame({"age": [str(value)] * 1000})
    plan, _, noisy = drawn("SELECT AVG(age) FROM t", 0.05, schema, table=table)
    (part,) = parts_of(plan)
    assert "error" not in part
    above, below = np.maximum(np.array(noisy[0], dtype=float)[:, :2].T, 0.0)
    away = np.abs(110 * above / (above + below) - value)
    told = part["error_of_1000_rows"]
    assert np.mean(away <= told) >= 0.94
    assert np.quantile(away, 0.97) >= told / 2  # and not far beyond what is needed


def test_a_cost_says_how_many_such_questions_are_left():
    with Session(TABLE, PURE) as s:
        cost = s.cost(COUNT, 0.25)
        assert (cost.questions_left, cost.parts[0]["error"]) == (80, 12.0)
        s.ask(COUNT, 0.25)
        assert s.cost(COUNT, 0.25).questions_left is None  # held already
        assert s.cost("SELECT COUNT(*) FROM t", 0.25).questions_left == 79


@pytest.mark.parametrize(
    ("sql", "error", "sentence"),
    [
        ("SELECT AVG(age) FROM t", 3, "'error' is for COUNT and SUM"),
        ("SELECT COUNT(*) * 2 AS twice FROM t", 3, "'twice' is made of such figures"),
        ("SELECT MODE(region) FROM t", 3, "'error' is for COUNT and SUM"),
        (COUNT, 0, "'error' must be a number above 0"),
        (COUNT, -1.0, "'error' must be a number above 0"),
        (COUNT, math.inf, "'error' must be a number above 0"),
        (COUNT, True, "'error' must be a number above 0"),
        ("SELECT SUM(income) FROM t", 1e-9, "no budget buys it"),
    ],
)
def test_errors_that_no_amount_buys_are_refused_by_name(sql, error, sentence):
    for schema in (PURE, SCHEMA):
        with Session(TABLE, schema) as s:
            with pytest.raises(ShoalError, match=sentence):
                s.ask(sql, error=error)
            assert s.ledger.spent("clinic") == 0


def test_of_units_with_a_drawn_limit_the_largest_one_counts():
    with Session(TABLE, replace(SCHEMA, unit=Unit("who", 60))) as s:
        cost = s.cost("SELECT COUNT(*) FROM t", error=200)
        low, high = s.ask("SELECT COUNT(*) FROM t", rho=cost.rho).cut_interval or (0, 0)
        assert high - low <= 400


@pytest.mark.parametrize(
    ("delta", "reserved"), [(1e-6, 2e-7), (1e-6, 1e-6 - 1e-21), (0.1, 0.3 - 0.2), (1e-9, 1e-15)]
)
def test_a_reserve_and_the_rest_are_no_more_than_delta(delta, reserved):
    assert rest_of(delta, 0.0) == delta
    if reserved < delta:
        assert 0 < Fraction(rest_of(delta, reserved)) <= Fraction(delta) - Fraction(reserved)
    for more in (delta, delta * 2):
        with pytest.raises(ParameterError, match="must be above what is reserved"):
            rest_of(delta, more)


@pytest.mark.parametrize(("currency", "worse"), [("zcdp", 1 / (1 + math.e)), ("pure", 1 / (2 * math.e))])
def test_a_choice_in_zcdp_has_the_bounded_range_that_its_rho_pays_for(currency, worse):
    """Permute-and-flip, which the pure currency uses, has no such range."""
    drawn = choose(currency, np.array([0, 1]), Fraction(1), 20_000)
    assert np.mean(drawn) == pytest.approx(worse, abs=0.02)
