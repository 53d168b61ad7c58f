"""Faults planted in the way from a table to an answer: an auditor that does not refute them is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.audit import Mechanism
from shoal.audit._cases import CASES, RHO, AuditCase, mechanism
from shoal.audit._declared import COPIES as COPIES_DECLARED
from shoal.audit._declared import CROWDED
from shoal.audit._keys import MOST_KEYS, OWN_KEYS, SHARED_KEYS, key_game
from shoal.audit._stated import COPIES, dependent
from shoal.audit._streams import streamed, streamed_rho
from shoal.audit._workloads import WORKLOAD_COUNTS, joined_workload, workload_game, workload_queries
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import Limit, Sums
from shoal.dp.answering.shown import Laid
from shoal.dp.pufferfish import Scenario
from shoal.dp.workload.strategy import blocks, choose_strategy

FAULTS: dict[str, Callable[[float], Mechanism]] = {}


def _fault(name: str) -> Callable[[Callable[[float], Mechanism]], Callable[[float], Mechanism]]:
    def keep(make: Callable[[float], Mechanism]) -> Callable[[float], Mechanism]:
        FAULTS[name] = make
        return make

    return keep


def case_named(mode: str, name: str) -> AuditCase:
    """The case of a mode with this name."""
    return next(case for case in CASES[mode] if case.name == name)


def with_releases(plan: Plan, **changes: Any) -> Plan:
    """A plan in which every release is changed alike."""
    return replace(plan, releases=tuple(replace(each, **changes) for each in plan.releases))


@_fault("scale-halved")
def _scale_halved(epsilon: float) -> Mechanism:
    return _short_by(2, epsilon)


@_fault("noise-short-by-a-tenth")
def _scale_short(epsilon: float) -> Mechanism:
    return _short_by(1.1, epsilon)


def _short_by(factor: float, epsilon: float) -> Mechanism:
    case = case_named("dp", "one row against none")
    return mechanism(
        case, epsilon, drawn=lambda plan: with_releases(plan, micro=round(factor * plan.releases[0].micro))
    )


@_fault("average-budget-not-split")
def _not_split(epsilon: float) -> Mechanism:
    """Noise as if a row moved only half of the two sums behind an average."""
    case = case_named("dp", "an average of none against one")
    return mechanism(
        case, epsilon, drawn=lambda plan: with_releases(plan, sensitivity=_sums(plan).sensitivity // 2)
    )


@_fault("covariance-as-if-rows-were-average")
def _products_halved(epsilon: float) -> Mechanism:
    """Noise as if a row moved the four products together by half of what it does."""
    case = case_named("dp", "a covariance of a row beyond its bounds")
    return mechanism(
        case, epsilon, drawn=lambda plan: with_releases(plan, sensitivity=_sums(plan).sensitivity // 2)
    )


@_fault("correlation-paid-for-one-variance")
def _one_variance(epsilon: float) -> Mechanism:
    """Noise of a third: the products as if each of three variances were paid for by another."""
    case = case_named("dp", "a correlation")
    return mechanism(
        case, epsilon, drawn=lambda plan: with_releases(plan, sensitivity=_sums(plan).sensitivity // 3)
    )


@_fault("second-column-not-clamped")
def _second_unclamped(epsilon: float) -> Mechanism:
    def unclamped(plan: Plan) -> Plan:
        pair = _sums(plan).pair
        assert pair is not None  # the case asks for a covariance
        wide = replace(pair.fixed, bounds=(-1e99, 1e99), least=-(2**40), most=2**40)
        return with_releases(plan, pair=replace(pair, fixed=wide))

    return mechanism(case_named("dp", "a covariance of a row beyond its bounds"), epsilon, computed=unclamped)


@_fault("clamp-missing")
def _no_clamp(epsilon: float) -> Mechanism:
    def unclamped(plan: Plan) -> Plan:
        fixed = _sums(plan).fixed
        assert fixed is not None  # the case asks for a sum
        wide = replace(fixed, bounds=(-1e9, 1e9), least=-(2**60), most=2**60)
        return with_releases(plan, fixed=wide)

    return mechanism(case_named("dp", "a row beyond the bounds"), epsilon, computed=unclamped)


def _sums(plan: Plan) -> Sums:
    release = plan.releases[0]
    assert isinstance(release, Sums)  # the case asks for a count, sum or average of rows
    return release


@_fault("rows-per-person-ignored")
def _no_selection(epsilon: float) -> Mechanism:
    case = case_named("dp", "a person with more rows than count: count")
    many = AuditCase(case.name, "dp", case.sql, case.before, case.after + case.after[-1:] * 5, case.options)
    return _uncut(many, epsilon)


@_fault("tau-ignored")
def _no_tau(epsilon: float) -> Mechanism:
    return _uncut(case_named("correlated", "a whole cell of tau + 5: count"), epsilon)


def _uncut(case: AuditCase, epsilon: float) -> Mechanism:
    """Noise for the declared rows, and nothing is cut."""

    def whole(plan: Plan) -> Plan:
        return with_releases(plan, limit=Limit(plan.releases[0].limit.rows))

    return mechanism(case, epsilon, computed=whole, drawn=whole)


@_fault("values-of-a-person-not-cut")
def _values_uncut(epsilon: float) -> Mechanism:
    return _uncut(case_named("dp", "a person of several rows: more values than count"), epsilon)


@_fault("joined-rows-not-cut")
def _joined_uncut(epsilon: float) -> Mechanism:
    return _uncut(case_named("dp", "a person of several rows: joined with itself"), epsilon)


@_fault("grouping-sets-charged-once")
def _sets_once(epsilon: float) -> Mechanism:
    """Noise as if a row were in one grouping set only."""
    case = case_named("dp", "a row in every grouping set")
    return mechanism(case, epsilon, drawn=lambda plan: with_releases(plan, micro=plan.micro))


@_fault("limit-read-from-the-table")
def _limit_read(epsilon: float) -> Mechanism:
    """Each unit counts in full, with noise for the largest there is."""
    case = case_named("dp", "a loosely declared person: count")
    largest = [max(Counter(row["unit"] for row in rows).values()) for rows in (case.before, case.after)]
    uncut = [lambda plan, rows=rows: with_releases(plan, limit=Limit(rows)) for rows in largest]
    both = [mechanism(case, epsilon, each, each) for each in uncut]
    return Mechanism(case.name, epsilon, lambda side, draws: both[side].sample(side, draws), both[0].columns)


@_fault("limit-drawn-for-too-much")
def _limit_drawn(epsilon: float) -> Mechanism:
    """The draw of a limit and the noise after it both spend all of epsilon."""
    case = case_named("dp", "a loosely declared person: sum")
    return mechanism(case, epsilon, drawn=lambda plan: with_releases(plan, micro=2 * plan.releases[0].micro))


@_fault("exact-average-denominator")
def _exact_denominator(epsilon: float) -> Mechanism:
    """A noisy sum over the exact count: the width of the noise tells how many rows there are."""
    one = [{"x": -20.0}]
    case = AuditCase("an average over an exact count", "dp", "SELECT SUM(x) FROM t", one, one + one)
    alone = mechanism(case, epsilon)

    def sample(side: int, draws: int) -> np.ndarray:
        return alone.sample(side, draws)[:, :1] / (1 + side)

    return Mechanism(case.name, epsilon, sample, ("avg_x in quanta",))


@_fault("noise-per-copy")
def _noise_per_copy(epsilon: float) -> Mechanism:
    """The same number written to several rows of a release, each with noise of its own."""
    once = mechanism(case_named("dp", "one row against none"), epsilon)

    def sample(side: int, draws: int) -> np.ndarray:
        copies = np.stack([once.sample(side, draws)[:, 0] for _ in range(5)], axis=1)
        return np.concatenate([copies, copies.sum(axis=1, keepdims=True)], axis=1)

    return Mechanism("copies of one number", epsilon, sample, (*(f"copy {i}" for i in range(5)), "their sum"))


@_fault("rho-scale-halved")
def _rho_scale(rho: float) -> Mechanism:
    """Gaussian noise of half the scale that the rho buys."""
    return _rho_short("one row against none", rho, 4)


@_fault("rho-noise-short-by-a-tenth")
def _rho_tenth(rho: float) -> Mechanism:
    """Gaussian noise that is a tenth too small."""
    return _rho_short("one row against none", rho, 1.21)


@_fault("rho-range-not-rooted")
def _rho_range(rho: float) -> Mechanism:
    """A choice whose log-ratios span a range of 8 rho in the place of its root."""
    return _rho_short("a median between two heaps", rho, 8)


def _rho_short(name: str, rho: float, factor: float) -> Mechanism:
    case = case_named("zcdp", name)

    def more(plan: Plan) -> Plan:
        return with_releases(plan, micro=round(factor * plan.releases[0].micro))

    return mechanism(case, rho, drawn=more, currency=RHO)


@_fault("rows-of-a-person-as-if-in-different-groups")
def _rooted(rho: float) -> Mechanism:
    """The root of the number of rows as the L2 length of a person's rows, which may all lie in one group."""
    case = case_named("zcdp", "a person whose rows lie in one group")
    return mechanism(case, rho, drawn=lambda plan: with_releases(plan, figure="units"), currency=RHO)


@_fault("workload-over-a-join-not-cut")
def _join_not_cut(epsilon: float) -> Mechanism:
    """All rows that a join makes of a person's count, and the noise is that of the declared ones."""
    return joined_workload(epsilon, "pure", rows=100)


@_fault("workload-not-split")
def _unsplit(epsilon: float) -> Mechanism:
    """Every block of a workload gets the whole budget."""
    sound = choose_strategy(workload_queries(), [1] * 4 + [4, 3], "pure", Fraction(str(epsilon)))
    ways = ("halves", "halves")
    shares = tuple(Fraction(1) for _ in blocks(ways, WORKLOAD_COUNTS.shape))
    strategy = replace(sound, ways=ways, shares=shares)
    return workload_game("a workload whose blocks do not share", epsilon, strategy)


@_fault("copy-not-stated")
def _copy_not_stated(epsilon: float) -> Mechanism:
    """A record has a copy, and the coefficients do not say so."""
    return dependent("a copy that is not stated", epsilon, COPIES, [[1, 0], [0, 1]])


@_fault("pairs-blind-to-three")
def _blind_to_three(epsilon: float) -> Mechanism:
    """Where pairs do not suffice: all coefficients are 0, and the loss is epsilon + ln cosh epsilon."""
    xor = Scenario(
        {(a, b, a ^ b): "1/4" for a in (0, 1) for b in (0, 1)}, "the third is the first xor the second"
    )
    return dependent("three records tied by xor", epsilon, xor, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])


@_fault("copy-not-declared")
def _couple_declared_independent(epsilon: float) -> Mechanism:
    """A row has a copy, and the declared scenario says that it has none."""
    return replace(CROWDED, name="SQL: a copy that is not declared", belief=COPIES_DECLARED).mechanism(
        epsilon
    )


@_fault("secret-decides-who-counts")
def _secret_decides_who_counts(epsilon: float) -> Mechanism:
    """Of too many rows those count whose secrets come first, so that one secret moves two of them."""

    def by_secret(rows):
        return sorted(rows, key=lambda row: str(row["ill"]), reverse=rows[0]["ill"] == "yes")[:2]

    return replace(CROWDED, name="SQL: rows chosen by their secret", first=by_secret).mechanism(epsilon)


@_fault("stream-levels-forgotten")
def _levels_forgotten(epsilon: float) -> Mechanism:
    """Noise as if a row moved one node only."""
    return streamed("noise for one level only", epsilon, 1, levels=1)


@_fault("stream-noise-drawn-again")
def _noise_drawn_again(epsilon: float) -> Mechanism:
    """A stream that forgets its noise when it is opened again."""
    return streamed("noise drawn again for each total", epsilon, 1, kept=False)


@_fault("stream-noise-short-by-a-fifth")
def _noise_short(epsilon: float) -> Mechanism:
    """Noise of a stream that is a fifth too small; smaller faults are refuted too, with more runs than a test should take."""
    return streamed("noise short by a fifth", epsilon, 1, short=1.25)


@_fault("stream-noise-short-by-a-fifth-in-rho")
def _noise_short_rho(rho: float) -> Mechanism:
    """Noise of a stream counted in rho that is a fifth too small."""
    return streamed_rho("noise short by a fifth, in rho", rho, 1, short=1.25)


@_fault("stream-weights-forgotten")
def _weights_forgotten(rho: float) -> Mechanism:
    """Noise as if a row counted in its own period only."""
    return streamed_rho("noise for one period only", rho, 1, weights=False)


@_fault("key-threshold-too-low")
def _threshold_too_low(rho: float) -> Mechanism:
    """The threshold of a delta that is far above what is claimed."""
    return key_game("a threshold that is too low", rho, OWN_KEYS[:MOST_KEYS], delta=0.9)


@_fault("keys-of-a-unit-not-bounded")
def _keys_not_bounded(rho: float) -> Mechanism:
    """A unit counts for all of its eight keys where noise is drawn for one."""
    return key_game("a unit's keys not bounded", rho, SHARED_KEYS[:8], most=8, paid_for=1)


def without_bias(laid: Laid) -> Any:
    """Of intervals: what was cut off is left out."""
    return laid.interval if laid.cut is None else laid.cut
