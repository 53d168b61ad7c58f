"""The ledger: who was charged what, on SQLite or PostgreSQL, so that no crash and no race loses a charge.

Entries are only ever added. Each carries the running totals of its data set and analyst and the hash of the
entry before it, so that one look at the last entry decides, and `verify` can replay the whole. `once` is the only way
to spend: a charge is committed before the data is touched, and its answer is stored after. What happens in between can
lose an answer, never a charge. A ledger whose chain is broken serves nobody.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from shoal.dp.budget import epsilon
from shoal.dp.ledger.anchor import Anchor
from shoal.dp.ledger.chain import Check, Replay
from shoal.dp.ledger.claims import CURRENCIES, DELTA, NO_UNIT, Caps, Charge, Claim, Last, Receipt, left_over
from shoal.dp.ledger.database import file_of
from shoal.dp.ledger.entries import CAPS_KEY, RIGHTS_KEY, SECRET_KEY, Entry, Head
from shoal.dp.ledger.rights import OPEN, Rights
from shoal.dp.ledger.secret import Secret
from shoal.dp.ledger.statements import (
    LAST_BODY,
    LAST_OF_ANALYST,
    LAST_OF_DATASET,
    OWN,
    STORED,
    refusal_that_closed,
)
from shoal.dp.ledger.store import Store, Turns
from shoal.dp.ledger.watch import ChainWatch
from shoal.dp.ledger.writer import Writer, store_answer, take_charge
from shoal.errors import BudgetError, LedgerError, ParameterError

EARLY = 4  # answers are stored this part of a slot before they leave


class Ledger:
    """An append-only, hash-chained ledger of privacy charges.

    Parameters
    ----------
    where : str or Path, optional
        A SQLite file, or a URL such as ``postgresql://user@host/db``; None keeps it in memory.
    secret : str or Path, optional
        File of the store's key, made where there is none. Beside a SQLite file (``ledger.db.secret``) if left open; of
        a database by URL, drawn for this opening alone. It is no part of log and backups.
    expects : str, optional
        A head kept elsewhere; the ledger serves nobody unless it holds that entry.
    anchor : Anchor, optional
        Where heads are sent, and from where the last one is expected.
    slot_seconds : float, default 0
        Answers and refusals leave at whole multiples of this after they were asked for, and answers are stored a quarter
        of it before.

    Notes
    -----
    Calls from many threads are written in one transaction where they meet. A charge is on the disk when its answer is
    drawn; the answer stored after it reaches the disk with the next charge at the latest.

    Examples
    --------
    >>> from shoal.dp import AddRemoveRecord, Ledger
    >>> from shoal.dp.ledger.claims import Amount, Claim
    >>> ledger = Ledger()
    >>> _ = ledger.declare("survey", 500_000)
    >>> claim = Claim("survey", "ann", "how many?", "version 1", Amount(300_000), AddRemoveRecord())
    >>> ledger.once(claim, lambda: "12").body, ledger.once(claim, lambda: "13").body
    ('12', '12')
    >>> ledger.spent("survey", "ann"), ledger.verify().holds
    (300000, True)
    """

    def __init__(
        self,
        where: str | Path | None = None,
        *,
        secret: str | Path | None = None,
        expects: str | None = None,
        anchor: Anchor | None = None,
        slot_seconds: float = 0.0,
        _hook: Callable[[str], None] | None = None,
    ) -> None:
        self._hook = _hook or (lambda step: None)
        self._turns = Turns()
        file = file_of(where)
        path = Path(secret) if secret is not None else file and file.with_name(file.name + ".secret")
        self._secret, self._anchor, self._slot = Secret(path), anchor, float(slot_seconds)
        expected = expects or (None if anchor is None else anchor.expected())
        self._watch = ChainWatch(expected)
        self.store = Store(where, self._hook, self._slot, self._watch.see_no_less, self._committed)

    def once(self, claim: Claim, draw: Callable[[], str]) -> Receipt:
        """Charge a claim, draw its answer and store it; or hand out the answer that is stored. The only way to spend.

        The charge is committed before `draw` is called, so that a crash wastes it and never leaks. Equal claims share
        one answer: those that race wait for the first, and in other processes the answer stored first counts for all.

        Parameters
        ----------
        claim : Claim
        draw : callable
            Reads the data and draws the noise; gives what is stored and told. It must not fail because of the data.

        Returns
        -------
        Receipt

        Raises
        ------
        BudgetError
            Where caps or the kept unit do not allow it; it says nothing about other analysts.
        LedgerError
            Where the chain is broken or the database fails.
        """
        started = time.monotonic()
        try:
            self.ready()
            key = self._secret.key_of(claim.facts)
            with self._turns.of(key):
                charge = self.store.write(lambda writer: take_charge(writer, claim, key))
                self._hook("charge-committed")
                body = charge.stored
                if body is None:
                    drawn = draw()
                    self._wait(started, self._slot / EARLY)
                    body = self._store(claim, key, charge, drawn)
            return Receipt(body, charge.charged, charge.remaining, charge.ended, charge.weaker, charge.entry)
        finally:
            # Outside the turn, so that who asks what another is asking now, or has asked, waits no longer than others.
            self._wait(started)

    def declare(
        self,
        dataset: str,
        total: int | None = None,
        per_analyst: int | None = None,
        currency: str = "pure",
        by: str = "owner",
        keys: int = 0,
    ) -> tuple[Caps, Caps | None]:
        """State the caps of a data set where the ledger has none yet; else hold them against those it has.

        Parameters
        ----------
        dataset : str
        total, per_analyst : int, optional
            In millionths. None asks for nothing: what the ledger has is taken.
        currency : {"pure", "zcdp"}
        by : str
        keys : int, default 0
            The part of delta, in 1e-18, that groups which are not declared may use.

        Returns
        -------
        Caps, Caps or None
            Those in force, and tighter ones where less was asked for.
        """
        self.ready()
        caps = self.caps(dataset)
        if caps is None:
            if total is None:
                raise ParameterError("'budget' must be given, or declared in the schema: it has no default.")
            wanted = Caps(total, _at_most(per_analyst, total), currency, keys)
            caps = self.store.write(lambda writer: _first_caps(writer, dataset, wanted, by))
        word = CURRENCIES[caps.currency]
        if currency != caps.currency:
            raise BudgetError(
                f"Data set {dataset!r} is counted in {word} for life. Got the currency {currency!r}."
            )
        for what, asked, allowed in (
            ("a budget", total, caps.total),
            ("a budget per analyst", per_analyst, caps.per_analyst),
        ):
            if asked is not None and min(asked, caps.total if what != "a budget" else asked) > allowed:
                raise BudgetError(
                    f"The ledger holds data set {dataset!r} to {what} of {word} {epsilon(allowed)}, which only its owner "
                    f"raises ('shoal ledger cap'). Got {epsilon(asked)}."
                )
        if keys > caps.keys:
            raise BudgetError(
                f"The ledger holds data set {dataset!r} to a delta of {caps.keys / DELTA:g} for groups that are not declared, which "
                f"only its owner raises ('shoal ledger cap'). Got {keys / DELTA:g}."
            )
        tighter = caps.within(
            Caps(_at_most(total, caps.total), _at_most(per_analyst, caps.per_analyst), currency)
        )
        return caps, None if tighter == caps else tighter

    def set_caps(
        self,
        dataset: str,
        total: int,
        per_analyst: int | None = None,
        by: str = "owner",
        keys: int | None = None,
    ) -> Caps:
        """State other caps, as an entry of the owner's: the only way to raise them; `keys` stay if left open."""
        self.ready()

        def write(writer: Writer) -> Caps:
            before = writer.caps(dataset)
            currency = "pure" if before is None else before.currency
            reserved = keys if keys is not None else 0 if before is None else before.keys
            caps = Caps(total, _at_most(per_analyst, total), currency, reserved)
            writer.set_caps(dataset, caps, by)
            return caps

        caps: Caps = self.store.write(write)
        return caps

    def set_rights(
        self, dataset: str, change: Callable[[Rights], Rights], by: str = "owner", why: str = ""
    ) -> Rights:
        """State who may ask a data set, up to what, as an entry of the owner's.

        Parameters
        ----------
        dataset : str
        change : callable
            Given the rights in force, gives those from now on. It must not fail: others may write in the same transaction.
        by, why : str

        Returns
        -------
        Rights
        """
        self.ready()

        def write(writer: Writer) -> Rights:
            rights = change(writer.rights(dataset))
            writer.set_rights(dataset, rights, by, why)
            return rights

        rights: Rights = self.store.write(write)
        return rights

    def note(self, event: str, by: str, text: str, dataset: str = "") -> None:
        """Add an entry that spends nothing: who did what to accounts, data sets or sign-ins."""
        self.ready()
        self.store.write(lambda writer: writer.note(event, by, text, dataset))

    def rights(self, dataset: str) -> Rights:
        """Who may ask, up to what; everyone where nothing was stated."""
        row = self.store.first(LAST_BODY, d=dataset, k=RIGHTS_KEY, w="rights")
        return OPEN if row is None else Rights.from_json(row[1])

    def caps_of(self, dataset: str, analyst: str, limit: Caps | None = None) -> Caps | None:
        """The caps as they hold for one analyst alone; what a team has left is not told."""
        caps, rights = self.caps(dataset), self.rights(dataset)
        if caps is None or not rights.may_ask(analyst):
            return None
        return rights.caps_of(caps.within(limit), analyst)

    def team_left(self, dataset: str, analyst: str) -> int | None:
        """For the owner: millionths that the teams of an analyst have left, the least of them; None without a team."""
        return self.rights(dataset).team_left(analyst, lambda name: self.spent(dataset, name))

    def end_total(self, dataset: str, reason: str, analyst: str = "", unit: str = NO_UNIT) -> None:
        """Say for life that this data set's total no longer bounds what is known (heuristic answers, releases)."""
        self.ready()

        def write(writer: Writer) -> None:
            last = writer.last(dataset, analyst)
            writer.add(last, "end", analyst, "", body=reason, unit=last.unit or unit, ended=1)

        self.store.write(write)

    def rekey(self) -> None:
        """Make another secret, where the old one is lost: no charge is lost, and no stored answer is found again."""
        self._watch.require(self.store)
        self._secret.renew()
        self.store.write(self._mark)

    def caps(self, dataset: str) -> Caps | None:
        """The caps in force, if any were declared."""
        row = self.store.first(LAST_BODY, d=dataset, k=CAPS_KEY, w="caps")
        return None if row is None else Caps.from_json(row[1])

    def spent(self, dataset: str, analyst: str | None = None) -> int:
        """Millionths spent on a data set, in all or by one analyst."""
        if analyst is None:
            row = self.store.first(LAST_OF_DATASET, d=dataset)
            return 0 if row is None else int(row[1])
        row = self.store.first(LAST_OF_ANALYST, d=dataset, a=analyst)
        return 0 if row is None else int(row[3])

    def remaining(self, dataset: str, analyst: str, limit: Caps | None = None) -> int:
        """Millionths that an analyst can still spend, as far as it depends on that analyst; 0 for one who is closed."""
        caps = self.caps_of(dataset, analyst, limit)
        closed = refusal_that_closed(
            lambda statement, values: self.store.first(statement, **values), dataset, analyst
        )
        return 0 if caps is None or closed is not None else left_over(caps, self.spent(dataset, analyst))

    def unit(self, dataset: str) -> str | None:
        """The unit a data set is kept in for life, if it has one yet."""
        row = self.store.first(LAST_OF_DATASET, d=dataset)
        return None if row is None or row[0] in ("", NO_UNIT) else str(row[0])

    def ended(self, dataset: str) -> bool:
        """Whether the total of a data set has ended."""
        row = self.store.first(LAST_OF_DATASET, d=dataset)
        return row is not None and bool(row[2])

    def key_of(self, claim: Claim) -> str:
        """The key under which the answer to a claim is stored."""
        return self._secret.key_of(claim.facts)

    def has_received(self, claim: Claim) -> bool:
        """Whether the claim's analyst already holds its stored answer."""
        return self.holds(claim.dataset, claim.analyst, self.key_of(claim))

    def holds(self, dataset: str, analyst: str, key: str) -> bool:
        """Whether an analyst holds the answer stored under a key."""
        return self.store.first(OWN, d=dataset, a=analyst, k=key) is not None

    def stored(self, dataset: str, key: str) -> str | None:
        """The stored answer to a question, for the owner's own bookkeeping."""
        row = self.store.first(STORED, d=dataset, k=key)
        return None if row is None else str(row[1])

    def entries(
        self, *, dataset: str | None = None, analyst: str | None = None, last: int | None = None
    ) -> Iterator[Entry]:
        """Entries in order: all, or those of a data set or an analyst, or only the last ones."""
        whole = last is None and dataset is None and analyst is None
        return self.store.after(0) if whole else self.store.newest(dataset, analyst, last)

    def head(self) -> Head:
        """Number of entries and last hash as the ledger states them."""
        return self.store.head()

    def verify(self, expects: str | None = None) -> Check:
        """Replay the whole chain: hashes, order, totals and caps, and the head expected."""
        head = self.head()
        return Replay(expects or self._watch.expects).follow(self.store.after(0, head.seq), head)

    def ready(self) -> None:
        """Raise `LedgerError` unless the chain holds and the secret is the ledger's own.

        The whole chain is replayed when a ledger is first used and every hour, what was added since every minute.
        """
        self._watch.ready(self.store, self._check_secret)

    def close(self) -> None:
        """Let go of the file or server; the head is sent to its anchor."""
        if self._anchor is not None:
            with contextlib.suppress(LedgerError):
                self._anchor.send(self.head())
        self.store.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self, claim: Claim, key: str, charge: Charge, drawn: str) -> str:
        """Store an answer, which every other process sees when this returns.

        A power cut can still take it, until the next charge is made: then the answer is lost, as if it had never been
        stored, and the charge stands.
        """

        def write(writer: Writer) -> str:
            self._hook("settle-begun")
            kept = store_answer(writer, claim, key, charge, drawn)
            self._hook("settle-written")
            return kept

        body: str = self.store.write(write, durable=False)
        self._hook("settle-committed")
        return body

    def _wait(self, started: float, early: float = 0.0) -> None:
        """Sleep until a whole number of slots has passed, or so much before that."""
        if self._slot:
            elapsed = time.monotonic() - started + early
            time.sleep(max(1, math.ceil(elapsed / self._slot)) * self._slot - elapsed)

    def _check_secret(self) -> None:
        row = self.store.first(LAST_BODY, d="", k=SECRET_KEY, w="secret")
        if not self._secret.lasting:
            return
        if row is None:
            self._secret.make()
            self.store.write(self._mark)
        elif row[1] != self._secret.mark:
            raise LedgerError(
                f"The ledger's store was kept under another secret than {str(self._secret.path)!r}: put that one back, or "
                "make another with 'shoal ledger rekey' (no charge is lost; answers stored so far are then asked for "
                "and charged anew)."
            )

    def _mark(self, writer: Writer) -> None:
        writer.add(Last("", NO_UNIT, 0, 0, 0), "secret", "", SECRET_KEY, body=self._secret.mark)

    def _committed(self, kept: Head | None) -> None:
        if kept is not None:
            self._watch.keep(kept)
        if self._anchor is not None:
            self._anchor.soon(self.head)


def _first_caps(writer: Writer, dataset: str, wanted: Caps, by: str) -> Caps:
    found = writer.caps(dataset)  # another session may have been quicker
    if found is None:
        writer.set_caps(dataset, wanted, by)
    return found or wanted


def _at_most(asked: int | None, most: int) -> int:
    return most if asked is None else min(asked, most)
