"""Entries of the ledger: their table, and how one is chained to the next."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from shoal.errors import MissingExtraError

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "dp") from None

START = "0" * 64
_BODY = 12  # place of the body among the fields
METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "shoal_entries",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # see `Entry`
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("analyst", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("micro", sa.BigInteger, nullable=False),
    sa.Column("dataset_total", sa.BigInteger, nullable=False),
    sa.Column("analyst_total", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.Integer, nullable=False),
    sa.Column("refers", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("nonce", sa.Text, nullable=False, server_default=""),
    sa.Column("seal", sa.Text, nullable=False, server_default=""),
    sa.Index("shoal_by_analyst", "dataset", "analyst", "seq"),
    sa.Index("shoal_by_dataset", "dataset", "seq"),
    sa.Index("shoal_by_key", "dataset", "key", "kind", "seq"),
)
HEAD = sa.Table(
    "shoal_head",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
CAPS_KEY, SECRET_KEY, CLOSED_KEY = "caps", "secret", "closed"  # keys of entries that are no answers
TEAM_CLOSED_KEY = "closed by a team's total"
RIGHTS_KEY, EVENT_KEY, DELTA_KEY = "rights", "event", "delta"
SIGN_IN = f"{EVENT_KEY}:sign-in"


class Head(NamedTuple):
    """Number of the last entry, and its hash."""

    seq: int
    hash: str


NOWHERE = Head(-1, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger.

    Attributes
    ----------
    seq : int
    at : str
        When its question was asked, in whole slots; a stored answer has the time of its charge.
    kind : {"charge", "settle", "receipt", "refusal", "end", "caps", "secret", "rights", "event", "delta"}
    dataset, unit, analyst : str
    key : str
        A keyed hash; tells nothing to who has not the ledger's secret.
    micro : int
    dataset_total, analyst_total : int
        After this entry.
    ended : int
    refers : int
        The charge that an answer or receipt belongs to.
    body : str
        Question, answer or reason; of a delta, what all of them come to.
    previous, hash : str
        The chain. The hash covers the seal, so that it can be checked by who may not see bodies.
    nonce : str
        Drawn for each stored answer.
    seal : str
        Hash of nonce and body.
    """

    seq: int
    at: str
    kind: str
    dataset: str
    unit: str
    analyst: str
    key: str
    micro: int
    dataset_total: int
    analyst_total: int
    ended: int
    refers: int
    body: str
    previous: str
    hash: str = ""
    nonce: str = ""
    seal: str = ""

    def chained(self) -> Entry:
        """With its seal and hash."""
        seal = seal_of(self.nonce, self.body)
        *plain, _hash, nonce, _seal = values_of(self)
        facts = (*plain, _chained_hash(plain, seal), nonce, seal)
        return Entry(*facts)

    def own_hash(self) -> str:
        """The hash that chains an entry to the one before it; entries of the first layout had no seal."""
        *plain, _hash, _nonce, seal = values_of(self)
        return _chained_hash(plain, seal)

    def is_whole(self) -> bool:
        """Whether hash and seal are those of its facts; where the body was taken away, the hash alone decides."""
        return self.hash == self.own_hash() and (
            not self.seal or self.hidden or self.seal == seal_of(self.nonce, self.body)
        )

    @property
    def name(self) -> str:
        """What an entry is called outside: unlike its number it does not tell what others did before it."""
        return name_of(self.hash)

    @property
    def hidden(self) -> bool:
        """Whether the body of a stored answer was taken away."""
        return self.kind == "settle" and not self.nonce and not self.body

    def shown(self) -> Entry:
        """As an auditor sees it: the chain can be checked, a stored answer cannot be guessed."""
        return replace(self, body="", nonce="") if self.kind == "settle" else self


FIELDS = tuple(each.name for each in fields(Entry))
values_of: Callable[[Entry], tuple[Any, ...]] = operator.attrgetter(*FIELDS)  # astuple would copy each deeply


def name_of(own_hash: str) -> str:
    """The first digits of an entry's hash."""
    return own_hash[:16]


def _chained_hash(plain: list[Any], seal: str) -> str:
    facts = [*plain[:_BODY], seal, *plain[_BODY + 1 :], "sealed"] if seal else plain
    return hashlib.sha256(json.dumps(facts, ensure_ascii=True).encode()).hexdigest()


def seal_of(nonce: str, body: str) -> str:
    """What stands for a body in the chain."""
    return hashlib.sha256(f"{nonce}:{body}".encode()).hexdigest()
