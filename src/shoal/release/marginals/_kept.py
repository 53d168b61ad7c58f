"""Releases found again: in a file that was saved, or in the ledger for the analysts who paid for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from shoal.dp.answering.answer import Answer
from shoal.dp.ledger.entries import ENTRIES, name_of
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.statements import PreparedStatement
from shoal.dp.sql.query import Query
from shoal.dp.unit import as_it_stands
from shoal.errors import InputError
from shoal.release.marginals._ask import CUT, ask_release, asked_of
from shoal.release.marginals._axes import axis
from shoal.release.marginals._model import BoughtModel
from shoal.release.marginals._plan import zeros_of
from shoal.release.marginals._release import RELEASE, KeptFacts, MarginalRelease, digest_of, read_model
from shoal.release.marginals._rules import edits_within
from shoal.schema import Schema
from shoal.typing import Json

try:
    import sqlalchemy as sa
except ImportError:
    from shoal.errors import MissingExtraError

    raise MissingExtraError("SQLAlchemy", "dp") from None

_BOUGHT = PreparedStatement(
    sa.select(ENTRIES.c.analyst, ENTRIES.c.key, ENTRIES.c.hash)
    .where(
        ENTRIES.c.dataset == sa.bindparam("d"),
        ENTRIES.c.seq > sa.bindparam("after"),
        ENTRIES.c.seq <= sa.bindparam("upto"),
        sa.or_(ENTRIES.c.kind == "charge", ENTRIES.c.kind == "receipt"),
        ENTRIES.c.body.like(f"{RELEASE}%"),
    )
    .order_by(ENTRIES.c.seq)
)
_SEVERAL = "several releases know this; the most exact one answers"


@dataclass(frozen=True)
class KeptRelease:
    """A release as a file or the ledger keeps it: everything but its rows, which can be drawn again.

    Parameters
    ----------
    model : BoughtModel
    schema : Schema
    facts : KeptFacts
        Columns, guarantee, currency, epsilon, delta and data version.
    entry : str, optional
        What names its charge in the ledger.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl
    >>> from shoal.release import load_release, release_marginals
    >>> from shoal.schema import Column, Schema
    >>> answers = Column("answer", role="quasi", kind="category", levels=("no", "yes"))
    >>> schema = Schema({"answer": answers}, id="poll", budget=2.0)
    >>> out = release_marginals(pl.DataFrame({"answer": ["no"] * 40 + ["yes"] * 60}), schema, 2.0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "poll.json"
    >>> out.save(path)
    >>> kept = load_release(path, schema)
    >>> kept.rows(3).shape, kept.ask("SELECT COUNT(*) FROM t").epsilon
    ((3, 1), 0.0)
    """

    model: BoughtModel
    schema: Schema
    facts: KeptFacts
    entry: str | None = None

    @property
    def measured(self) -> list[list[str]]:
        """The sets of columns that were measured together, so that questions about them have a known error."""
        keys = {each.key for each in self.model.measurements if each.key}
        return [[self.model.names[at] for at in key] for key in sorted(keys, key=lambda key: (len(key), key))]

    @property
    def together(self) -> list[list[str]]:
        """Those of them that hold more than one column."""
        return [each for each in self.measured if len(each) > 1]

    @property
    def grouped(self) -> str | None:
        """A column of few levels, for an example of a question."""
        found = [each.name for each in self.model.axes if not each.edges and each.name.isidentifier()]
        return found[0] if found else None

    def rows(self, count: int | None = None) -> pl.DataFrame:
        """Rows drawn from what was bought, the same each time; as many as were counted if left open."""
        return self.model.rows(count)

    def ask(self, query: str | Query) -> Answer:
        """Answer a query from it, for nothing."""
        found = ask_release(self.model, self.schema, query, self.facts.guarantee, self.facts.currency)
        if self.facts.cut:
            found = replace(
                found, interval=None, cut_interval=found.interval, notes=(*found.notes, CUT), cautions=(CUT,)
            )
        return replace(found, entry=self.entry)

    def free(self, query: str | Query, dataset: str, analyst: str, version: str) -> Answer | None:
        """The answer for a session of the same data set, if its error is known."""
        asked = asked_of(self.model, self.schema, query) if dataset == self.schema.id else None
        return None if asked is None else self.ask(asked)

    def to_dict(self) -> Json:
        """What it is and what it covers, as plain values."""
        facts = self.facts.to_dict()
        shown = {name: facts[name] for name in ("stamp", "epsilon", "delta", "columns", "version")}
        return {**shown, "entry": self.entry, "measured": self.measured}


class KeptReleases:
    """The releases of a data set that a ledger keeps, each for the analysts who were charged for it.

    Parameters
    ----------
    ledger : Ledger
    schema : Schema
        Releases made under other facts are not used.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp import Ledger, Session
    >>> from shoal.release import KeptReleases, release_marginals
    >>> from shoal.schema import Column, Schema
    >>> answers = Column("answer", role="quasi", kind="category", levels=("no", "yes"))
    >>> schema = Schema({"answer": answers}, id="poll", budget=3.0, version="1")
    >>> table, ledger = pl.DataFrame({"answer": ["no"] * 40 + ["yes"] * 60}), Ledger()
    >>> _ = release_marginals(table, schema, 2.0, ledger=ledger)
    >>> session = Session(table, schema, ledger=ledger, releases=[KeptReleases(ledger, schema)])
    >>> session.ask("SELECT COUNT(*) FROM poll WHERE answer = 'yes'", epsilon=0.5).epsilon
    0.0
    """

    def __init__(self, ledger: Ledger, schema: Schema) -> None:
        self.ledger, self.schema = ledger, schema
        self._digest, self._lock = digest_of(schema), threading.Lock()
        self._seen = 0
        self._bought: dict[
            str, dict[str, str]
        ] = {}  # by analyst: keys of the tables, and hashes of their charges
        self._read: dict[tuple[str, str], KeptRelease | None] = {}

    def of(self, analyst: str, version: str | None = None) -> list[KeptRelease]:
        """What an analyst holds, of one data version or of all."""
        self._look()
        bought = list(self._bought.get(analyst, {}).items())
        found = [self._kept(analyst, key, own_hash) for key, own_hash in bought]
        held = [each for each in found if each is not None and version in (None, each.facts.version)]
        return list(map(_of_ended, held)) if held and self.ledger.ended(self.schema.id) else held

    def free(self, query: str | Query, dataset: str, analyst: str, version: str) -> Answer | None:
        """The most exact answer of what the analyst holds about this data version, if its error is known."""
        if dataset != self.schema.id:
            return None
        found = [each.free(query, dataset, analyst, version) for each in self.of(analyst, version)]
        known = [each for each in found if each is not None]
        if not known:
            return None
        best = min(known, key=_width)
        return replace(best, notes=(*best.notes, _SEVERAL)) if len(known) > 1 else best

    def _look(self) -> None:
        """Note who bought what since the last look; entries are numbered without a gap as they are committed."""
        head = self.ledger.head().seq
        if head == self._seen:
            return
        with self._lock:
            if head <= self._seen:  # another question has looked in the meantime
                return
            found = self.ledger.store.found(_BOUGHT, d=self.schema.id, after=self._seen, upto=head)
            for analyst, key, own_hash in found:
                self._bought.setdefault(analyst, {}).setdefault(key, own_hash)
            self._seen = head

    def _kept(self, analyst: str, key: str, own_hash: str) -> KeptRelease | None:
        """A bought table; None while it is not stored, because it is drawn just now or was lost, or of another schema."""
        if (analyst, key) not in self._read:
            body = self.ledger.stored(self.schema.id, key)
            if body is None:
                return None
            kept = json.loads(body)
            fits = kept["facts"].get("schema") == self._digest
            self._read[analyst, key] = kept_release(kept, self.schema, name_of(own_hash)) if fits else None
        return self._read[analyst, key]


def _width(answer: Answer) -> float:
    """How wide the intervals of an answer are together."""
    interval = answer.interval if answer.cut_interval is None else answer.cut_interval
    rows = interval if isinstance(interval, list) else [interval]
    total = 0.0
    for row in rows:
        ends = row.values() if isinstance(row, Mapping) else [row]
        total += sum(each[1] - each[0] for each in ends if isinstance(each, tuple))
    return total


def kept_release(kept: Mapping[str, Any], schema: Schema, entry: str | None = None) -> KeptRelease:
    """What kept numbers stand for under their schema."""
    facts = KeptFacts.from_dict(kept["facts"])
    axes = [axis(schema.columns[name]) for name in facts.columns]
    zeros, edits = zeros_of(schema, set(facts.columns)), edits_within(schema, facts.columns)
    return KeptRelease(read_model(kept, axes, zeros, edits), schema, facts, entry)


def told_of(release: MarginalRelease) -> Json:
    """A release as a file keeps it."""
    edges = {each.name: [end.hex() for end in each.edges] for each in release.model.axes if each.edges}
    facts = KeptFacts.of(release.schema, release.plan, release.version, release.guarantee).to_dict()
    measured = [each.to_json() for each in release.model.measurements]
    return {"facts": facts, "seed": release.model.seed, "edges": edges, "measurements": measured}


def load_release(path: str | Path, schema: Schema | str | Path) -> KeptRelease:
    """Read what `MarginalRelease.save` wrote, under the schema it was made with.

    Parameters
    ----------
    path : str or Path
    schema : Schema or path

    Returns
    -------
    KeptRelease

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl
    >>> from shoal.release import load_release, release_marginals
    >>> from shoal.schema import Column, Schema
    >>> answers = Column("answer", role="quasi", kind="category", levels=("no", "yes"))
    >>> schema = Schema({"answer": answers}, id="poll", budget=2.0)
    >>> out = release_marginals(pl.DataFrame({"answer": ["no"] * 40 + ["yes"] * 60}), schema, 2.0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "poll.json"
    >>> out.save(path)
    >>> load_release(path, schema).facts.epsilon
    2.0
    """
    schema = Schema.of(schema)
    try:
        kept = json.loads(Path(path).read_text(encoding="utf-8"))
        made_with = kept["facts"]["schema"]
    except FileNotFoundError:
        raise InputError(f"No file {str(path)!r}.") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{str(path)!r} must be a release as 'shoal release --save' writes it.") from None
    if made_with != digest_of(schema):
        raise InputError(f"The release {str(path)!r} was made with another schema than the one given.")
    return kept_release(kept, schema)


def _of_ended(kept: KeptRelease) -> KeptRelease:
    """A release whose guarantee says that the ledger's total has ended."""
    guarantee = as_it_stands(kept.facts.guarantee, ended=True)
    return replace(kept, facts=replace(kept.facts, guarantee=guarantee))
