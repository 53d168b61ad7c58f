"""Audits of whole modes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from shoal.audit._cases import CASES, MODES, RHO, mechanism
from shoal.audit._game import ALPHA, STAGES, GameVerdict, Mechanism, play
from shoal.audit._intervals import audit_intervals
from shoal.audit._keys import key_cases
from shoal.audit._outside import OUTSIDE
from shoal.audit._stated import STATED
from shoal.audit._streams import STAGES as STREAM_STAGES
from shoal.audit._streams import STREAMS
from shoal.audit._workloads import workload_cases
from shoal.dp.mechanisms.currency import EPSILON
from shoal.errors import ParameterError
from shoal.typing import Json

EPSILONS = (0.5, 1.0)


@dataclass(frozen=True)
class Report:
    """What an audit of one mode found.

    Parameters
    ----------
    mode : str
    refuted : bool
    epsilon : float
        Claimed by the most telling case.
    epsilon_lower_bound : float
        What the true epsilon is at least there.
    witness : GameVerdict or None
        The case that refutes, None if there is none.
    verdicts : tuple of GameVerdict
        All cases.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.audit import Mechanism, audit_mechanisms
    >>> exact = Mechanism("no noise", 1.0, lambda b, n: np.full((n, 1), float(b)), ("answer",))
    >>> report = audit_mechanisms("mine", [exact])
    >>> report.mode, report.refuted, len(report.verdicts)
    ('mine', True, 1)
    """

    mode: str
    refuted: bool
    epsilon: float
    epsilon_lower_bound: float
    witness: GameVerdict | None
    verdicts: tuple[GameVerdict, ...]

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {
            "mode": self.mode,
            "epsilon": self.epsilon,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "refuted": self.refuted,
            "witness": None if self.witness is None else asdict(self.witness),
            "cases": len(self.verdicts),
        }


def audit(
    mode: str,
    epsilons: Sequence[float] = EPSILONS,
    stages: Sequence[int] = STAGES,
    alpha: float = ALPHA,
) -> Report:
    """Try to refute the claim of a mode on every case known to be dangerous.

    Parameters
    ----------
    mode : {"dp", "group", "correlated", "zcdp", "heuristic", "pufferfish", "dependent", "workload", "streams", "keys", "outside", "intervals"}
        "zcdp" claims rho in the place of epsilon; "workload" and "streams" play both currencies; "keys" claims rho but for
        events of a stated probability.
        "outside" starts from files and plays on all that is seen: answers, costs, refusals, log, times. "intervals"
        claims that an interval of 95 % misses the figure asked for in at most 5 % of answers.
        The last two claim something under a stated model, and are played under it.
    epsilons : sequence of float
    stages : sequence of int
        Runs per case; see `play`.
    alpha : float
        Chance that any true claim of the mode is refuted.

    Returns
    -------
    Report

    Examples
    --------
    >>> from shoal.audit import audit
    >>> audit("heuristic", epsilons=(1.0,)).refuted
    True
    """
    if mode in STATED:
        return audit_mechanisms(
            mode, [make(each) for each in epsilons for make in STATED[mode]], stages, alpha
        )
    if mode == "outside":
        return audit_mechanisms(
            mode, [make(each) for each in epsilons for make in OUTSIDE], (100, 400), alpha
        )
    if mode == "streams":
        return audit_mechanisms(
            mode, [make(each) for each in epsilons for make in STREAMS], STREAM_STAGES, alpha
        )
    if mode == "keys":
        return audit_mechanisms(mode, [each for rho in epsilons for each in key_cases(rho)], stages, alpha)
    if mode == "intervals":
        return _report(mode, [each for epsilon in epsilons for each in audit_intervals(epsilon)])
    if mode == "workload":
        games_of = [workload_cases(each, currency) for each in epsilons for currency in ("pure", "zcdp")]
        return audit_mechanisms(mode, list(itertools.chain(*games_of)), stages, alpha)
    if mode not in MODES:
        raise ParameterError(
            f"'mode' must be one of {', '.join((*MODES, *STATED, 'workload', 'streams', 'keys', 'outside', 'intervals'))}. "
            f"Got {mode!r}."
        )
    games = [(case, epsilon) for epsilon in epsilons for case in CASES[mode]]
    verdicts = []
    for case, epsilon in games:
        game = mechanism(case, epsilon, currency=RHO if mode == "zcdp" else EPSILON)
        verdicts.append(play(game, stages, alpha / len(games)))
        if verdicts[-1].refuted and mode == "heuristic":
            break  # one witness is enough against a mechanism that claims nothing
    return _report(mode, verdicts)


def audit_mechanisms(
    mode: str, mechanisms: Sequence[Mechanism], stages: Sequence[int] = STAGES, alpha: float = ALPHA
) -> Report:
    """Try to refute each of some mechanisms; for packages above this one with cases of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.audit import Mechanism, audit_mechanisms
    >>> exact = Mechanism("no noise", 1.0, lambda b, n: np.full((n, 1), float(b)), ("answer",))
    >>> report = audit_mechanisms("mine", [exact])
    >>> report.refuted, report.witness.name
    (True, 'no noise')
    """
    return _report(mode, [play(each, stages, alpha / len(mechanisms)) for each in mechanisms])


def _report(mode: str, verdicts: list[GameVerdict]) -> Report:
    worst = max(verdicts, key=lambda each: (each.refuted, each.epsilon_lower_bound - each.epsilon))
    refuted = any(each.refuted for each in verdicts)
    witness = worst if refuted else None
    return Report(mode, refuted, worst.epsilon, worst.epsilon_lower_bound, witness, tuple(verdicts))
