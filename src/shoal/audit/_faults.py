"""Faults planted on purpose: an auditor that does not refute them is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from shoal.audit._cases import Case, case_named, mechanism, with_releases
from shoal.audit._game import Mechanism
from shoal.audit._stated import blind_to_three, copy_not_stated
from shoal.dp.plan import Plan

FAULTS: dict[str, Callable[[float], Mechanism]] = {}


def _fault(name: str) -> Callable[[Callable[[float], Mechanism]], Callable[[float], Mechanism]]:
    def keep(make: Callable[[float], Mechanism]) -> Callable[[float], Mechanism]:
        FAULTS[name] = make
        return make

    return keep


@_fault("scale-halved")
def _scale_halved(epsilon: float) -> Mechanism:
    def halved(plan: Plan) -> Plan:
        releases = tuple(tuple(replace(r, micro=2 * r.micro) for r in part) for part in plan.releases)
        return replace(plan, releases=releases)

    return mechanism(case_named("dp", "one row against none"), epsilon, drawn=halved)


@_fault("average-budget-not-split")
def _not_split(epsilon: float) -> Mechanism:
    case = case_named("dp", "an average of none against one")
    return mechanism(case, epsilon, drawn=lambda plan: with_releases(plan, micro=plan.micro))


@_fault("clamp-missing")
def _no_clamp(epsilon: float) -> Mechanism:
    def unclamped(plan: Plan) -> Plan:
        release = plan.flat[0]
        assert release.fixed is not None  # the case asks for a sum
        wide = replace(release.fixed, bounds=(-1e9, 1e9), least=-(2**60), most=2**60)
        return replace(plan, releases=((replace(release, fixed=wide),),))

    return mechanism(case_named("dp", "a row beyond the bounds"), epsilon, computed=unclamped)


@_fault("rows-per-person-ignored")
def _no_selection(epsilon: float) -> Mechanism:
    case = case_named("dp", "a person with more rows than count: count")
    many = Case(case.name, "dp", case.sql, case.before, case.after + case.after[-1:] * 5, case.options)
    return mechanism(many, epsilon, computed=lambda plan: with_releases(plan, limit=""))


@_fault("tau-ignored")
def _no_tau(epsilon: float) -> Mechanism:
    case = case_named("correlated", "a whole cell of tau + 5: count")
    return mechanism(case, epsilon, computed=lambda plan: with_releases(plan, limit=""))


@_fault("exact-average-denominator")
def _exact_denominator(epsilon: float) -> Mechanism:
    """A noisy sum over the exact count: the width of the noise tells how many rows there are."""
    one = [{"x": -20.0}]
    case = Case("an average over an exact count", "dp", "SELECT AVG(x) FROM t", one, one + one)
    alone = mechanism(case, 2 * epsilon)  # so that the sum alone is drawn with epsilon

    def sample(side: int, draws: int) -> np.ndarray:
        return alone.sample(side, draws)[:, :1] / (1 + side)

    return Mechanism(case.name, epsilon, sample, ("avg_x in quanta, less the centre",))


@_fault("noise-per-copy")
def _noise_per_copy(epsilon: float) -> Mechanism:
    """The same number written to several rows of a release, each with noise of its own."""
    once = mechanism(case_named("dp", "one row against none"), epsilon)

    def sample(side: int, draws: int) -> np.ndarray:
        copies = np.stack([once.sample(side, draws)[:, 0] for _ in range(5)], axis=1)
        return np.concatenate([copies, copies.sum(axis=1, keepdims=True)], axis=1)

    return Mechanism("copies of one number", epsilon, sample, (*(f"copy {i}" for i in range(5)), "their sum"))


_fault("copy-not-stated")(copy_not_stated)
_fault("pairs-blind-to-three")(blind_to_three)
