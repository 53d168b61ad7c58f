"""Models declared about a table and asked by SQL, played under the belief that they state.

The coin picks an entry of one row, the rows that belong to it are drawn given that entry, and the table goes the
session's own way: loading, the choice of rows that count, the exact figure, the declared noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from shoal.audit._game import Mechanism
from shoal.dp import budget
from shoal.dp.mechanisms.discrete_laplace import laplace
from shoal.dp.pufferfish import (
    Coefficients,
    GroupScenarios,
    MarkovChain,
    Scenario,
    StatedModel,
    TimeChain,
    holds,
)
from shoal.dp.stated import StatedSession, exact_steps
from shoal.schema import Column, Schema
from shoal.typing import Record

Sides = list[dict[Any, Fraction]]
Row = Record
_SCHEMA = Schema(
    {
        "ill": Column("ill", kind="category", levels=("no", "yes")),
        "dose": Column("dose", bounds=(0, 5)),
        "day": Column("day", bounds=(0, 99), step=1),
    },
    id="declared",
)
_HALVES = {"yes": "1/2", "no": "1/2"}
COPIES = Scenario({("yes", "yes"): "1/2", ("no", "no"): "1/2"}, "a row and its copy")
_COUPLE = Scenario(
    {("yes", "yes"): "1/8", ("no", "no"): "5/8", ("yes", "no"): "1/8", ("no", "yes"): "1/8"}, "a couple"
)
_ALONE = Scenario.independent([_HALVES] * 2)
_THREE_ALONE = Scenario.independent([_HALVES] * 3)
_DOSES = Scenario({(0, 0): "1/2", (5, 5): "1/4", (5, 0): "1/4"}, "doses")
_CHAIN = MarkovChain(["1/2", "1/2"], [["9/10", "1/10"], ["1/10", "9/10"]], length=5)
_ILL, _DOSE = "SELECT COUNT(*) FROM t WHERE ill = 'yes'", "SELECT SUM(dose) FROM t"


def played(
    name: str, epsilon: float, sides: Sides, base: Fraction, quantum: Fraction, noise: Fraction
) -> Mechanism:
    """The game in which an answer of each side is drawn from its distribution and given noise."""
    rng = np.random.default_rng()  # of the world, not of the mechanism
    answers = [np.array([round((each - base) / quantum) for each in side], dtype=np.int64) for side in sides]
    odds = [np.array([float(each) for each in side.values()]) for side in sides]

    def sample(side: int, draws: int) -> np.ndarray:
        exact = rng.choice(answers[side], size=draws, p=odds[side] / odds[side].sum())
        return laplace(exact, noise / quantum)[:, None].astype(np.float64)

    return Mechanism(name, epsilon, sample, ("answer in quanta",))


@dataclass(frozen=True)
class Declared:
    """A declared model, the question, and the belief under which its claim is played.

    Parameters
    ----------
    name : str
    model : StatedModel
    sql : str
    belief : Scenario
        Of the rows of one home; the coin picks the first one's entry.
    about : str
        The column that the belief is about.
    first : callable, optional
        Which of a home's rows are handed in, in place of all.
    """

    name: str
    model: StatedModel
    sql: str
    belief: Scenario
    about: str = "ill"
    first: Callable[[list[Row]], list[Row]] | None = None

    def table(self, world: tuple[Any, ...]) -> pl.DataFrame:
        """Another home, and the home that the world is about."""
        homes = [("q", ("yes", "no") if self.about == "ill" else (5, 0)), ("p", world)]
        rows: list[Row] = []
        for home, entries in homes:
            own = [
                {"home": home, "person": f"{home}{at % 2}", "partner": f"{home}{1 - at % 2}", "day": at}
                | {"ill": "no", "dose": 0, self.about: entry}
                for at, entry in enumerate(entries)
            ]
            rows += self.first(own) if self.first else own
        return pl.DataFrame(rows)

    def mechanism(self, epsilon: float) -> Mechanism:
        """The real path from the table of each world to its noisy answer."""
        asked: Any = None
        quantum = noise = Fraction(1)

        def steps(world: tuple[Any, ...]) -> Fraction:
            nonlocal asked, quantum, noise
            session = StatedSession(self.table(world), _SCHEMA, self.model.mode, 99.0, model=self.model)
            asked, micro = session._read(self.sql, budget.micro(epsilon))
            quantum, noise = self.model.noise(asked, _SCHEMA, Fraction(micro, budget.MICRO))
            return Fraction(exact_steps(asked, session._frame, _SCHEMA, self.model, quantum))

        entries = sorted({world[0] for world in self.belief.support()}, key=repr)
        sides = [self.belief.given(holds(0, entry), steps) for entry in (entries[0], entries[-1])]
        return played(self.name, epsilon, sides, Fraction(0), Fraction(1), noise / quantum)


def _states(chain: MarkovChain) -> Scenario:
    worlds = chain.scenario().worlds.items()
    return Scenario({tuple(("no", "yes")[each] for each in world): mass for world, mass in worlds}, "chain")


CROWDED = Declared(
    "SQL: a home with more rows than count", GroupScenarios("home", "ill", (_ALONE,)), _ILL, _THREE_ALONE
)
_BY_TIME = TimeChain("home", "day", "ill", ("no", "yes"), (_CHAIN,))
_CASES: dict[str, tuple[Declared, ...]] = {
    "pufferfish": (
        Declared("SQL: a couple", GroupScenarios("home", "ill", (_COUPLE,)), _ILL, _COUPLE),
        Declared("SQL: a row and its copy", GroupScenarios("home", "ill", (COPIES,)), _ILL, COPIES),
        Declared("SQL: doses of two", GroupScenarios("home", "dose", (_DOSES,)), _DOSE, _DOSES, "dose"),
        CROWDED,
        Declared("SQL: a chain by its days", _BY_TIME, _ILL, _states(_CHAIN)),
    ),
    "dependent": (
        Declared("SQL: partners", Coefficients(("person", "partner"), 2, 1), _ILL, COPIES),
        Declared("SQL: doses in a home", Coefficients(("home",), 2, 1), _DOSE, _DOSES, "dose"),
    ),
}
DECLARED: dict[str, tuple[Callable[[float], Mechanism], ...]] = {
    mode: tuple(each.mechanism for each in cases) for mode, cases in _CASES.items()
}
