"""All attacks on a published table, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.attacks import _inference, _linkage, _membership, _singling
from shoal.attacks._rates import Rate
from shoal.attacks._result import Attack, Attacks
from shoal.attacks._tables import Tables
from shoal.scenarios import ReleaseType

TARGETS = 2_000
CONDITIONS = 1_000
# Secrets that are tried where no column is declared sensitive.
MOST_SECRETS = 12
Tell = Callable[[str, float, float], None]


def run_attacks(
    tables: Tables,
    release_type: ReleaseType,
    *,
    split: Tables | None = None,
    targets: int = TARGETS,
    epsilon: float | None = None,
    random_state: int = 0,
    progress: Tell | None = None,
    notes: tuple[str, ...] = (),
) -> Attacks:
    """Try every attack on tables that were read together.

    Parameters
    ----------
    tables : Tables
        What is published; with a control group where one was given.
    release_type : ReleaseType
        The limits.
    split : Tables, optional
        One half of the people protected in the same way, the other half its control group.
    targets : int, default 2000
        People that the intruder looks for.
    epsilon : float, optional
        Of a release under differential privacy: what membership may reveal.
    random_state : int, default 0
    progress : callable, optional
    notes : tuple of str

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.attacks import read_tables, run_attacks
    >>> from shoal.scenarios import release_type
    >>> table = pl.DataFrame({"age": list(range(20, 60)), "town": list("ABCD") * 10})
    >>> found = run_attacks(read_tables(table, table), release_type("public"))
    >>> found.status, sorted({each.criterion for each in found.results})
    ('red', ['inference', 'linkability', 'record linkage', 'singling out'])
    """
    started = time.perf_counter()
    tell = progress or (lambda _stage, _done, _of: None)
    attempt = _Attempt(tables, split, release_type, targets, random_state)
    stages: list[tuple[str, Callable[[], list[Attack]]]] = [
        ("singling out", attempt.singling_out),
        ("linking halves", attempt.linkability),
        ("inferring", attempt.inference),
        ("linking records", attempt.linkage),
        ("guessing membership", lambda: attempt.membership(epsilon)),
    ]
    results: list[Attack] = []
    for done, (stage, call) in enumerate(stages):
        tell(f"attacking: {stage}", done, len(stages))
        results += call()
    other = tables if split is None else split
    return Attacks(
        tuple(results), release_type, tables.untouched, tables.people.shape[0], tables.n_published,
        0 if other.control is None else other.control.shape[0], (*notes, *tables.notes, *attempt.notes()),
        time.perf_counter() - started,
    )  # fmt: skip


class _Attempt:
    """The attacks on one table, and on the split that stands beside it."""

    def __init__(
        self, tables: Tables, split: Tables | None, limits: ReleaseType, targets: int, random_state: int
    ) -> None:
        self.tables, self.limits, self.seed = tables, limits, random_state
        # What is compared with the control group: the split, or the table itself.
        self.beside = split if split is not None else tables if tables.control is not None else None
        self.split = split
        most = tables.space([axis.name for axis in tables.axes]).affordable(targets)
        self.targets = self.drawn(tables.people, most)
        self.members = self.others = None
        if self.beside is not None and self.beside.control is not None:
            self.members = self.drawn(self.beside.people, most)
            self.others = self.drawn(self.beside.control, most)

    def rng(self, stage: int) -> np.random.Generator:
        """Draws of one stage, the same whatever the others draw."""
        return np.random.default_rng([self.seed, stage])

    def drawn(self, people: np.ndarray, most: int) -> np.ndarray:
        """Positions of so many people."""
        n = people.shape[0]
        return np.arange(n) if n <= most else np.sort(self.rng(0).choice(n, most, replace=False))

    def notes(self) -> tuple[str, ...]:
        """What was not tried, and why."""
        said = []
        if not self.tables.aligned and self.split is not None and self.split.aligned:
            said.append("The published rows are in another order, so record linkage was tried on the split.")
        elif not self.tables.aligned:
            said.append(
                "Record linkage was not tried: the published rows are not the original's in its order."
            )
        if self.beside is None:
            said.append(
                "There is no control group, so what is found about these people may hold for everybody. "
                "Give one (--control), or the run that made the table (--run), so that records can be held out."
            )
        if not self.tables.sensitive:
            said.append("No published column is sensitive, so each was tried in turn, by nearest rows only.")
        if self.targets.size < self.tables.people.shape[0]:
            said.append(
                f"{self.targets.size:,} people of {self.tables.people.shape[0]:,} were drawn and looked for; the intervals "
                "allow for that."
            )
        return tuple(said)

    def singling_out(self) -> list[Attack]:
        """Conditions on one column, and on several."""
        made = []
        for name, title in (
            ("singling-out-univariate", "Singling out by one column"),
            ("singling-out-multivariate", "Singling out by several columns"),
        ):
            several = name.endswith("multivariate")
            rate = self._singled(self.tables, self.tables.people, several=several)
            if rate.attempts == 0 and several:
                continue
            naive = self._naive(several=several)
            compared, control = self._world(several=several)
            made.append(
                Attack(name, title, "singling out", rate, naive, self.limits.excess, compared, control,
                       note="" if rate.attempts else "No published value stands alone, so there is nothing to try.")
            )  # fmt: skip
        return made

    def _singled(self, tables: Tables, people: np.ndarray, *, several: bool) -> Rate:
        conditions = (
            _singling.multivariate(tables, CONDITIONS, self.rng(1))
            if several
            else _singling.univariate(tables, CONDITIONS, self.rng(1))
        )
        return _singling.singled(conditions, tables, people)

    def _naive(self, *, several: bool) -> Rate:
        tables = self.tables
        conditions = (
            _singling.multivariate(tables, CONDITIONS, self.rng(2), joint=False)
            if several
            else _singling.naive_univariate(tables, CONDITIONS, self.rng(2))
        )
        return _singling.singled(conditions, tables, tables.people)

    def _world(self, *, several: bool) -> tuple[Rate | None, Rate | None]:
        """The same conditions on the people and on equally many of the control group.

        How many people meet a condition depends on how many there are, so both groups must be of one size. Where the
        control group is the smaller one, conditions are read off the rows of as many people as it has.
        """
        beside = self.beside
        if beside is None or beside.control is None:
            return None, None
        n, m = beside.people.shape[0], beside.control.shape[0]
        rng, size = self.rng(3), min(n, m)
        people, control = beside.people, beside.control[np.sort(rng.choice(m, size, replace=False))]
        conditions = (
            _singling.multivariate(beside, CONDITIONS, self.rng(1))
            if several
            else _singling.univariate(beside, 8 * CONDITIONS, self.rng(1))
        )
        if n > 1.05 * size:
            if not beside.aligned:
                return None, None
            kept = np.sort(rng.choice(n, size, replace=False))
            people, inside = people[kept], set(kept.tolist())
            conditions = (
                _singling.multivariate(beside, CONDITIONS, self.rng(1), kept)
                if several
                else [each for each in conditions if each.row < 0 or each.row in inside]
            )
        conditions = conditions[:: max(1, len(conditions) // CONDITIONS)]
        return _singling.singled(conditions, beside, people), _singling.singled(conditions, beside, control)

    def linkability(self) -> list[Attack]:
        """Two halves of the columns lead to one published row."""
        names = [axis.name for axis in self.tables.axes]
        if len(names) < 2:
            return []
        first = set(self.rng(4).permutation(names)[: len(names) // 2].tolist())
        equal, same = self._met(self.tables, self.tables.people[self.targets], first)
        space = self.tables.space(names)
        chance = float((space.counts / space.counts.sum() * (space.counts / space.counts.sum())).sum())
        compared = control = None
        if self.beside is not None and self.members is not None and self.others is not None:
            assert self.beside.control is not None
            compared = Rate.of(self._met(self.beside, self.beside.people[self.members], first)[0])
            control = Rate.of(self._met(self.beside, self.beside.control[self.others], first)[0])
        return [
            Attack(
                "linkability", "Linking two halves of the columns", "linkability", Rate.of(equal),
                Rate(chance, chance, chance, self.tables.n_published), self.limits.excess, compared, control,
                {"same row": float(same.mean())},
                f"Known to one side: {', '.join(sorted(first))}.",
            )
        ]  # fmt: skip

    def _met(self, tables: Tables, people: np.ndarray, first: set[str]) -> tuple[np.ndarray, np.ndarray]:
        space = tables.space([axis.name for axis in tables.axes])
        one = np.array([axis.name in first for axis in space.axes])
        weights = space.weights()
        return space.meetings(
            np.ascontiguousarray(people), np.where(one, weights, 0.0), np.where(one, 0.0, weights)
        )

    def inference(self) -> list[Attack]:
        """Each sensitive column from the rest."""
        tables = self.tables
        if len(tables.axes) < 2:
            return []
        secrets = tables.sensitive or tuple(axis.name for axis in tables.axes)[:MOST_SECRETS]
        made = []
        for name in secrets:
            secret = _inference.GuessedColumn.of(tables, name)
            at = int(tables.places([name])[0])
            made.append(self._inferred(f"inference-nearest:{name}", f"Inferring {name} from the nearest rows", secret,
                                       at, self._nearest))  # fmt: skip
            if tables.sensitive:
                made.append(self._inferred(f"inference-model:{name}", f"Inferring {name} by a model", secret, at,
                                           self._modelled))  # fmt: skip
        return made

    def _nearest(
        self, tables: Tables, secret: _inference.GuessedColumn, groups: list[np.ndarray]
    ) -> list[np.ndarray]:
        return [_inference.by_nearest(tables, secret, each) for each in groups]

    def _modelled(
        self, tables: Tables, secret: _inference.GuessedColumn, groups: list[np.ndarray]
    ) -> list[np.ndarray]:
        return _inference.by_model(tables, secret, groups, self.seed)

    def _inferred(
        self, name: str, title: str, secret: _inference.GuessedColumn, at: int, guess: Any
    ) -> Attack:
        people = self.tables.people[self.targets]
        groups, beside = [people], self.beside
        own = beside is self.tables
        if own and beside is not None and beside.control is not None and self.others is not None:
            groups.append(beside.control[self.others])
        found = guess(self.tables, secret, groups)
        rate = Rate.of(secret.right(found[0], people[:, at]))
        constant = np.full(people.shape[0], secret.constant())
        naive = Rate.of(secret.right(constant, people[:, at]))
        compared = control = None
        if own:
            compared, control = rate, Rate.of(secret.right(found[1], groups[1][:, at]))
        elif beside is not None and beside.control is not None and self.others is not None:
            there = _inference.GuessedColumn.of(beside, secret.axis.name)
            groups = [beside.people[self.members], beside.control[self.others]]
            found = guess(beside, there, groups)
            compared, control = (
                Rate.of(there.right(each, people[:, at])) for each, people in zip(found, groups, strict=True)
            )
        note = (
            ""
            if rate.low > naive.value
            else "A naive guess is right as often: the published rows add nothing to it."
        )
        return Attack(name, title, "inference", rate, naive, self.limits.excess, compared, control, note=note)

    def linkage(self) -> list[Attack]:
        """The own row, by nearest rows, by exact texts and nearest numbers, and by the best assignment."""
        tables, targets = self.tables, self.targets
        if not tables.aligned and self.split is not None and self.split.aligned and self.members is not None:
            tables, targets = self.split, self.members
        if not tables.aligned:
            return []
        n = tables.n_published
        chance = Rate(1 / n, 1 / n, 1 / n, n)
        title = "Finding the own row: "
        found = {
            "linkage-nearest": ("nearest in all known columns", _linkage.found_again(tables, targets, exact=False)),
            "linkage-exact": (
                "exact categories, then nearest numbers", _linkage.found_again(tables, targets, exact=True),
            ),
            "linkage-assignment": ("best assignment of all people", _linkage.assigned(tables, self.rng(6))),
        }  # fmt: skip
        return [
            Attack(name, title + words, "record linkage", Rate.of(chances), chance, self.limits.linkage)
            for name, (words, chances) in found.items()
        ]

    def membership(self, epsilon: float | None) -> list[Attack]:
        """Members told from people of the control group."""
        beside = self.beside
        if beside is None or beside.control is None or self.members is None or self.others is None:
            return []
        right = _membership.guesses(
            beside, beside.people[self.members], beside.control[self.others], self.rng(7)
        )
        if right.size == 0:
            return []
        rate, coin = Rate.of(right), Rate(0.5, 0.5, 0.5, right.size)
        most = None if epsilon is None else _membership.allowed(epsilon)
        details = {} if most is None else {"most under epsilon-DP": most}
        limit = self.limits.excess if most is None else 2 * most - 1
        return [
            Attack("membership", "Telling members from others", "membership", rate, coin, limit, rate, coin,
                   details)
        ]  # fmt: skip
