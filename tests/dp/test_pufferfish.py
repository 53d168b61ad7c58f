"""Pufferfish and dependent privacy: the worked family, published figures, and what pairs cannot see."""

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from shoal import dp
from shoal.dp import Ledger
from shoal.dp.pufferfish import (
    DEPENDENT_GUARANTEE,
    PUFFERFISH_GUARANTEE,
    MarkovChain,
    PairwiseOnlyWarning,
    Scenario,
    dependence,
    over_ledger,
    w_infinity,
)
from shoal.dp.pufferfish._chain import chain_quilts
from shoal.dp.pufferfish._quilt import log_above, network_quilts, noise_per_lipschitz
from shoal.errors import BudgetError, GuaranteeError, ParameterError

ILL, WELL = (lambda world: world[0] == 1), (lambda world: world[0] == 0)
SECRETS = {"ill": ILL, "well": WELL}
FAMILY = Scenario({(0,) * 10: "9/10", (1,) * 10: "1/10"}, "all or none")


def log_odds(mine, theirs, scale, points):
    """Largest log-ratio of two mixtures of discrete Laplace noise over some outputs."""
    weigh = [
        np.log(sum(float(mass) * np.exp(-np.abs(points - float(at)) / scale) for at, mass in each.items()))
        for each in (mine, theirs)
    ]
    return float(np.abs(weigh[0] - weigh[1]).max())


def test_the_family_with_a_contagious_disease():
    # The numbers of docs/theory/pufferfish.md.
    epsilon, points = 0.5, np.arange(-100, 120)
    ill, well = FAMILY.given(ILL, sum), FAMILY.given(WELL, sum)
    assert (ill, well) == ({10: 1}, {0: 1})
    plain = log_odds(ill, well, 1 / epsilon, points)
    assert plain == pytest.approx(10 * epsilon)
    assert math.exp(plain) == pytest.approx(148.413, abs=1e-3)
    p = dp.Pufferfish(SECRETS, [("ill", "well")], [FAMILY])
    assert p.wasserstein(sum) == 10
    hidden = log_odds(ill, well, 10 / epsilon, points)
    assert hidden == pytest.approx(epsilon)
    assert math.exp(hidden) == pytest.approx(1.649, abs=1e-3)
    # What an observer believes who held 1 in 10 before.
    believed = [odds / 9 / (1 + odds / 9) for odds in (math.exp(plain), math.exp(hidden))]
    assert believed == pytest.approx([0.9428, 0.1548], abs=1e-4)
    assert dependence(FAMILY, 0) == math.inf


def test_group_mode_hides_the_family_as_well():
    import polars as pl

    from shoal.schema import Column, Schema

    schema = Schema({"ill": Column("ill", bounds=(0, 1), step=1)}, id="family", budget=1.0)
    session = dp.Session(pl.DataFrame({"ill": [1] * 10}), schema, unit=dp.Records(10))
    (part,) = session.cost("SELECT SUM(ill) FROM family", 0.5).parts
    assert part["noise_scale"] == 20  # as the Wasserstein mechanism: 10 / 0.5


def test_the_flu_figure_of_the_paper():
    # Four people; the number of ill is 0..4 with these odds, whoever they are: W = 2 (Song et al., section 3).
    of_count = [F(1, 10), F(3, 20), F(1, 2), F(3, 20), F(1, 10)]
    worlds = {w: of_count[sum(w)] / math.comb(4, sum(w)) for w in product((0, 1), repeat=4)}
    flu = Scenario(worlds, "flu")
    assert flu.given(WELL, sum) == {0: F(1, 5), 1: F(9, 40), 2: F(1, 2), 3: F(3, 40)}
    assert dp.Pufferfish(SECRETS, [("ill", "well")], [flu]).wasserstein(sum) == 2


def test_independent_people_need_plain_noise():
    scenario = Scenario.independent([{0: "3/4", 1: "1/4"}] * 4)
    assert dp.Pufferfish(SECRETS, [("ill", "well")], [scenario]).wasserstein(sum) == 1
    assert dependence(scenario, 2) == 1


def test_the_distance_is_that_of_the_best_transport():
    from scipy.optimize import linprog

    rng = np.random.default_rng(5)
    for _ in range(12):
        sides = []
        for _ in range(2):
            mass = rng.integers(1, 6, size=4)
            at = rng.choice(20, size=4, replace=False)
            sides.append({F(int(x)): F(int(m), int(mass.sum())) for x, m in zip(at, mass, strict=True)})
        least = w_infinity(*sides)
        gaps = sorted({abs(a - b) for a in sides[0] for b in sides[1]})
        feasible = [reach for reach in gaps if _can_move(sides, reach, linprog)]
        assert least == feasible[0]


def _can_move(sides, reach, linprog):
    ways = [(i, j) for i, a in enumerate(sides[0]) for j, b in enumerate(sides[1]) if abs(a - b) <= reach]
    if not ways:
        return False
    rows = np.zeros((8, len(ways)))
    for at, (i, j) in enumerate(ways):
        rows[i, at] = rows[4 + j, at] = 1
    want = [float(each) for side in sides for each in side.values()]
    return linprog(np.zeros(len(ways)), A_eq=rows, b_eq=want).status == 0


def test_one_answer_and_no_other():
    ledger = Ledger()
    p = dp.Pufferfish(SECRETS, [("ill", "well")], [FAMILY], dataset="family", ledger=ledger)
    first = p.ask(sum, 0.5, (1,) * 10, text="ill")
    assert first.guarantee == PUFFERFISH_GUARANTEE
    assert first.guarantee == (
        "guarantee: epsilon-Pufferfish for the stated secrets and scenarios; "
        "this one release, nothing else from this data set"
    )
    assert first.value % 10 == 0  # the noise lies on the lattice of possible answers
    again = p.ask(sum, 0.5, (1,) * 10, text="ill")
    assert (again.value, again.epsilon) == (first.value, 0.0)
    with pytest.raises(BudgetError, match="for life"):
        p.ask(max, 0.5, (1,) * 10, text="any")
    assert ledger.spent("family") == 500_000


def test_noise_of_an_answer_has_the_scale_of_the_theorem():
    drawn = [
        dp.Pufferfish(SECRETS, [("ill", "well")], [FAMILY]).ask(sum, 1, (0,) * 10).value for _ in range(120)
    ]
    # Lattice of step 10 and scale 10: P(zero) = tanh(1/2), mean size 10 / sinh(1).
    assert abs(np.mean(np.array(drawn) == 0) - math.tanh(0.5)) < 0.25
    assert abs(np.abs(drawn).mean() - 10 / math.sinh(1)) < 6


CHAIN = MarkovChain(["1/2", "1/2"], [["7/10", "3/10"], ["3/10", "7/10"]], length=8)


def test_chain_quilts_agree_with_the_search_over_the_whole_network():
    chain = MarkovChain(["1/2", "1/2"], [["7/10", "3/10"], ["3/10", "7/10"]], length=5)
    edges = [(i, i + 1) for i in range(4)]
    everything = network_quilts([chain.scenario()], edges, 5)
    for epsilon in (F(1, 2), F(2), F(5)):
        ours = noise_per_lipschitz(chain_quilts([chain]), epsilon)[0]
        best = noise_per_lipschitz(everything, epsilon)[0]
        assert float(ours) == pytest.approx(float(best))


def test_quilts_bound_the_odds_exactly():
    # Brute force over a whole chain: the odds about any entry move by no more than e^epsilon.
    epsilon = 2.0
    p = dp.Pufferfish({}, [], [CHAIN])
    noise, quilts = p.quilts(epsilon)
    assert noise < F(8) / F(2)  # better than hiding everyone
    assert any(each.quilt for each in quilts)
    scenario, points = CHAIN.scenario(), np.arange(-60, 70)
    for at in range(8):
        sides = [scenario.given(lambda w, s=s, at=at: w[at] == s, sum) for s in (0, 1)]
        assert log_odds(*sides, float(noise), points) <= epsilon + 1e-9


def test_a_long_chain_is_hidden_behind_near_quilts():
    chain = MarkovChain(["1/2", "1/2"], [["3/5", "2/5"], ["2/5", "3/5"]], length=100)
    noise, _ = dp.Pufferfish({}, [], [chain]).quilts(2.0, width=5)
    assert noise < 6  # everyone at once: 50
    answer = dp.Pufferfish({}, [], [chain]).ask(
        sum, 2.0, (0, 1) * 50, mechanism="quilt", lipschitz=1, width=5
    )
    assert answer.interval[0] < answer.value < answer.interval[1]


def test_a_quilt_that_does_not_separate_is_not_used():
    # The ties say that 1 lies between 0 and 2; the scenario says otherwise, so only the trivial quilt is left.
    linked = Scenario({(0, 0, 0): "1/4", (0, 1, 0): "1/4", (1, 0, 1): "1/4", (1, 1, 1): "1/4"})
    quilts = network_quilts([linked], [(0, 1), (1, 2)], 3)
    assert all(each.quilt != (1,) for each in quilts[0])
    assert noise_per_lipschitz(quilts, F(1))[0] == 3


def test_logarithms_are_never_below():
    for ratio in (F(1), F(3, 2), F(10**40, 3), F(10**17 + 1, 10**17)):
        assert float(log_above(ratio)) >= math.log(ratio.numerator) - math.log(ratio.denominator) - 1e-300
    assert log_above(F(1)) == 0


def test_pairs_of_records_do_not_see_an_exclusive_or():
    with pytest.warns(PairwiseOnlyWarning, match="xor"):
        d = dp.DependentDP(np.eye(3).tolist(), (0, 1))
    epsilon = 1.0
    assert d.scale(epsilon) == 1
    bits = Scenario({(a, b, a ^ b): "1/4" for a in (0, 1) for b in (0, 1)})
    sides = [bits.given(lambda world, bit=bit: world[0] == bit, sum) for bit in (0, 1)]
    assert sides == [{0: F(1, 2), 2: F(1, 2)}, {2: F(1)}]
    loss = log_odds(*sides, 1 / epsilon, np.arange(-30, 30))
    assert loss == pytest.approx(epsilon + math.log(math.cosh(epsilon)))
    assert loss > 1.43 * epsilon


def test_a_ledger_speaks_about_dependent_people_where_iota_is_finite():
    couple = Scenario({(0, 0): "3/8", (1, 1): "3/8", (0, 1): "1/8", (1, 0): "1/8"})
    moved, guarantee = over_ledger(0.5, [couple, Scenario.independent([{0: 1}, {0: "1/2", 1: "1/2"}])], 0)
    assert moved == pytest.approx(1 + math.log(3))
    assert guarantee == "guarantee: (epsilon + iota)-Pufferfish for the stated secrets and scenarios"
    with pytest.raises(GuaranteeError, match="use mode 'group'"):
        over_ledger(0.5, [FAMILY], 0)


def test_dependent_noise_is_the_largest_row():
    d = dp.DependentDP([[1, "1/4"], [1, 1]], (-2, 2), dataset="d", ledger=(ledger := Ledger()))
    assert d.scale(0.5) == 16
    answer = d.ask([1.5, 99], 0.5)
    assert answer.guarantee == DEPENDENT_GUARANTEE
    assert answer.guarantee == "guarantee: for the stated coefficients, pairwise dependence only; one release"
    assert ledger.spent("d") == 500_000
    with pytest.raises(BudgetError, match="for life"):
        d.ask([1.5, 99], 0.25)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Scenario({(0,): 0.5, (1,): 0.4}), "must add up to 1. Got 9/10"),
        (lambda: Scenario({(0,): -1, (1,): 2}), "must be at least 0"),
        (lambda: Scenario({(0,): "x"}), "must be a number"),
        (lambda: dp.Pufferfish(SECRETS, [("ill", "dead")], [FAMILY]), "must name two of the secrets"),
        (lambda: dp.Pufferfish(SECRETS, [("ill", "ill")], [FAMILY]), "must exclude each other"),
        (
            lambda: dp.Pufferfish(SECRETS, [("ill", "well")], [Scenario({(0,): 1})]),
            "is impossible: under no scenario",
        ),
        (lambda: dp.Pufferfish(SECRETS, [("ill", "well")], []), "at least one scenario"),
        (lambda: dp.Pufferfish(SECRETS, [], [FAMILY]).wasserstein(sum), "needs discriminative pairs"),
        (lambda: dp.Pufferfish(SECRETS, [], [FAMILY]).quilts(1.0), "needs 'edges'"),
        (
            lambda: dp.Pufferfish(SECRETS, [("ill", "well")], [FAMILY]).ask(sum, 1, (0, 1)),
            "a world that some scenario allows",
        ),
        (
            lambda: dp.Pufferfish({}, [], [CHAIN]).ask(sum, 1, (0,) * 8, mechanism="quilt"),
            "needs 'lipschitz'",
        ),
        (
            lambda: dp.Pufferfish({}, [], [FAMILY], edges=[]).ask(
                sum, 1, (0,) * 10, mechanism="quilt", lipschitz="1/2"
            ),
            "must be at least 1 for this query",
        ),
        (lambda: MarkovChain([1], [[0.5]], 3), "add up to 1"),
        (lambda: MarkovChain([1], [[1, 0]], 3), "must be 1 x 1"),
        (lambda: dp.DependentDP([[1, 2], [0, 1]], (0, 1)), "must lie in"),
        (lambda: dp.DependentDP([[1]], (1, 1)), "low < high"),
        (lambda: dp.DependentDP([[1]], (0, 1)).ask([1, 2], 1), "one per record"),
    ],
)
def test_bad_statements_are_one_sentence(make, words):
    with pytest.raises(ParameterError, match=words):
        make()
