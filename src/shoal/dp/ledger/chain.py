"""The ledger's chain: whether every entry follows from the one before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shoal.dp.ledger.claims import Caps
from shoal.dp.ledger.entries import CLOSED_KEY, START, TEAM_CLOSED_KEY, Entry, Head
from shoal.dp.ledger.rights import OPEN, Rights

NOT_MET = "the head expected is not in it, so it was rolled back or replaced"


@dataclass(frozen=True)
class Check:
    """What a replay found: whether the chain holds, its length, its last hash, and the first problem."""

    holds: bool
    entries: int
    head: str
    problem: str = ""


@dataclass
class Replay:
    """Goes through a chain entry by entry, as far as it holds, and can go on where it stopped.

    Parameters
    ----------
    expects : str, optional
        A head that somebody kept elsewhere: one entry must have this hash, else the chain was rolled back or replaced.
    """

    expects: str | None = None
    seq: int = 0
    head: str = START
    problem: str = ""
    _spent: dict[str, int] = field(default_factory=dict)
    _by_analyst: dict[tuple[str, str], int] = field(default_factory=dict)
    _caps: dict[str, Caps] = field(default_factory=dict)
    _rights: dict[str, Rights] = field(default_factory=dict)
    _delta: dict[str, int] = field(default_factory=dict)
    _closed: set[tuple[str, str, str]] = field(default_factory=set)
    _met: bool = False

    def follow(self, entries: Iterable[Entry], head: Head) -> Check:
        """Replay further entries up to the head that the ledger states."""
        for entry in entries:
            if not self.problem:
                self.problem = self._step(entry)
        if not self.problem and (self.seq, self.head) != tuple(head):
            self.problem = f"the ledger says it has {head.seq} entries, and {self.seq} are there"
        if not self.problem and not self._met and self.expects not in (None, START):
            self.problem = NOT_MET
        return Check(not self.problem, self.seq, self.head, self.problem)

    def _step(self, entry: Entry) -> str:
        number = self.seq + 1
        if entry.seq != number:
            return f"entry {number} is missing"
        if entry.previous != self.head or not entry.is_whole():
            return f"entry {number} was changed"
        problem = self._totals(entry)
        if not problem:
            self.seq, self.head = number, entry.hash
            self._met = self._met or entry.hash == self.expects
        return problem

    def _reopen(self, dataset: str, *keys: str) -> None:
        """The owner stated budgets anew."""
        self._closed = {each for each in self._closed if each[0] != dataset or each[2] not in keys}

    def _totals(self, entry: Entry) -> str:  # noqa: C901 - a case for each kind of entry
        dataset, owner = entry.dataset, (entry.dataset, entry.analyst)
        if entry.kind == "caps":
            self._caps[dataset] = Caps.from_json(entry.body)
            self._reopen(dataset, CLOSED_KEY, TEAM_CLOSED_KEY)
        if entry.kind == "rights":
            self._rights[dataset] = Rights.from_json(entry.body)
            self._reopen(dataset, TEAM_CLOSED_KEY)
        if entry.kind == "refusal" and entry.key in (CLOSED_KEY, TEAM_CLOSED_KEY):
            self._closed.add((*owner, entry.key))
        if entry.kind == "charge":
            self._spent[dataset] = self._spent.get(dataset, 0) + entry.micro
        if entry.kind in ("charge", "receipt"):
            self._by_analyst[owner] = self._by_analyst.get(owner, 0) + entry.micro
        spent, own = self._spent.get(dataset, 0), self._by_analyst.get(owner, 0)
        if (entry.dataset_total, entry.analyst_total) != (spent, own):
            return f"the totals of entry {entry.seq} do not add up"
        caps = self._caps.get(dataset)
        rights = self._rights.get(dataset, OPEN)
        if entry.kind == "charge" and not rights.may_ask(entry.analyst):
            return f"entry {entry.seq} was charged to an analyst who might not ask"
        if entry.kind == "charge" and caps is not None:
            beyond = rights.is_exceeded(
                caps, entry.analyst, lambda name: self._by_analyst.get((dataset, name))
            )
            if spent > caps.total or beyond:
                return f"entry {entry.seq} was charged beyond its cap"
        if entry.kind == "delta":
            self._delta[dataset] = self._delta.get(dataset, 0) + entry.micro
            if entry.body != str(self._delta[dataset]):
                return f"the totals of entry {entry.seq} do not add up"
            if caps is not None and self._delta[dataset] > caps.keys:
                return f"entry {entry.seq} took more delta than is reserved"
        closed = any((*owner, key) in self._closed for key in (CLOSED_KEY, TEAM_CLOSED_KEY))
        if entry.kind in ("charge", "receipt") and closed:
            return f"entry {entry.seq} was charged to an analyst for whom the data set was closed"
        return ""


def replay(entries: Iterable[Entry], head: Head, expects: str | None = None) -> Check:
    """Replay a whole chain."""
    return Replay(expects).follow(entries, head)
