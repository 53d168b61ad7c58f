"""Who may ask a data set, up to what: rights that the ledger keeps beside the caps, changed only by entries of the owner."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from shoal.dp.ledger.claims import Caps
from shoal.errors import ParameterError


@dataclass(frozen=True)
class Team:
    """People who share a budget: what its members spend is added up, whenever they spent it.

    A member is told her own spending only: the others' is held against her questions, and not shown.
    """

    cap: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class Rights:
    """Who may ask a data set.

    Parameters
    ----------
    everyone : bool, default True
        Whether every analyst may ask; else only the people and teams named here.
    people : dict of str to int or None
        Analysts with a cap of their own in millionths, or with that of each analyst (None).
    teams : dict of str to Team

    Examples
    --------
    >>> from shoal.dp.ledger.claims import Caps
    >>> from shoal.dp.ledger.rights import Rights, Team
    >>> rights = Rights(False, {"ann": 3_000_000}, {"health": Team(1_000_000, ("ben", "cai"))})
    >>> rights.may_ask("ann"), rights.may_ask("dora")
    (True, False)
    >>> rights.caps_of(Caps(9_000_000, 2_000_000), "ben").per_analyst
    1000000
    >>> rights.team_left("ben", {"ben": 100_000, "cai": 700_000}.get)
    200000
    """

    everyone: bool = True
    people: dict[str, int | None] = field(default_factory=dict)
    teams: dict[str, Team] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for cap in (*self.people.values(), *(each.cap for each in self.teams.values())):
            if cap is not None and cap < 0:
                raise ParameterError(
                    f"A cap must be a whole number of millionths of at least 0. Got {cap!r}."
                )

    def may_ask(self, analyst: str) -> bool:
        """Whether an analyst may ask at all."""
        named = analyst in self.people or any(analyst in each.members for each in self.teams.values())
        return self.everyone or named

    def caps_of(self, caps: Caps, analyst: str) -> Caps:
        """The caps as they hold for one analyst alone, whatever others spent.

        Parameters
        ----------
        caps : Caps
            Of the data set and of each analyst.
        analyst : str
        """
        own = self.people.get(analyst)
        most = caps.per_analyst if own is None else own
        return replace(caps, per_analyst=min([most, *(each.cap for each in self._teams_of(analyst))]))

    def team_left(self, analyst: str, spent: Callable[[str], int | None]) -> int | None:
        """What the teams of an analyst have left, the least of them; None for one without a team.

        Parameters
        ----------
        analyst : str
        spent : callable
            What an analyst has spent so far, in millionths.
        """
        left = [each.cap - sum(spent(name) or 0 for name in each.members) for each in self._teams_of(analyst)]
        return max(0, min(left)) if left else None

    def _teams_of(self, analyst: str) -> list[Team]:
        return [each for each in self.teams.values() if analyst in each.members]

    def is_exceeded(self, caps: Caps, analyst: str, spent: Callable[[str], int | None]) -> bool:
        """Whether what was spent is more than these rights allow."""
        own = self.people.get(analyst)
        most = caps.per_analyst if own is None else own
        return (spent(analyst) or 0) > most or any(
            sum(spent(each) or 0 for each in team.members) > team.cap
            for team in self.teams.values()
            if analyst in team.members
        )

    def to_json(self, why: str = "") -> str:
        """As an entry keeps it, with the reason."""
        teams = {name: [each.cap, list(each.members)] for name, each in sorted(self.teams.items())}
        facts = {"everyone": self.everyone, "people": dict(sorted(self.people.items())), "teams": teams}
        return json.dumps(facts | ({"why": why} if why else {}))

    @classmethod
    def from_json(cls, body: str) -> Self:
        """As an entry kept it."""
        facts = json.loads(body)
        teams = {name: Team(int(cap), tuple(members)) for name, (cap, members) in facts["teams"].items()}
        return cls(bool(facts["everyone"]), dict(facts["people"]), teams)


OPEN = Rights()
