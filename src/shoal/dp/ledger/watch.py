"""The watch over a ledger's chain: whether it still holds is looked at again and again while the ledger is in use."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from shoal.dp.ledger.chain import Replay
from shoal.dp.ledger.entries import NOWHERE, Head
from shoal.dp.ledger.store import Store
from shoal.errors import LedgerError

CHECK_SECONDS = 60.0  # new entries are replayed so often
REPLAY_SECONDS = 3600.0  # and the whole chain so often, beside the answers


class ChainWatch:
    """How far the chain of a store was replayed, and what is wrong with it.

    Parameters
    ----------
    expects : str, optional
        A head kept elsewhere; a chain without that entry does not hold.
    """

    def __init__(self, expects: str | None) -> None:
        self.expects = expects
        self._replay, self._checking = Replay(expects), threading.RLock()
        self._checked_at, self._replayed_at = -math.inf, -math.inf
        self._kept = NOWHERE

    def ready(self, store: Store, first_time: Callable[[], None]) -> None:
        """Raise `LedgerError` unless the chain holds; the first time call `first_time`, which may raise as well."""
        if self._just_checked():
            return
        with self._checking:
            if self._just_checked():
                return
            first = self._checked_at == -math.inf
            self.require(store)
            if first:
                first_time()
            self._checked_at = time.monotonic()
            if self._checked_at - self._replayed_at > REPLAY_SECONDS:
                self._replayed_at = self._checked_at
                if not first:
                    threading.Thread(target=self._replay_all, args=(store,), daemon=True).start()

    def require(self, store: Store) -> None:
        """Replay what was added since the last look, and see that the entry looked at last still stands."""
        head, replay = store.head(), self._replay
        if not replay.problem:
            since = store.after(max(0, replay.seq - 1), head.seq)
            last = next(since, None) if replay.seq else None
            if replay.seq and (last is None or last.hash != replay.head):
                replay.problem = f"entry {replay.seq} was changed or is gone"
            replay.follow(since, head)
        if replay.problem:
            raise LedgerError(
                f"The ledger's chain is broken, so nothing is answered: {replay.problem}. Its owner looks into it with "
                "'shoal ledger verify'."
            )

    def keep(self, head: Head) -> None:
        """Remember a head that is on the disk for certain."""
        self._kept = head

    def see_no_less(self, head: Head, hash_of: Callable[[int], str | None]) -> None:
        """Raise where entries that were checked, or were on the disk, are gone: it was rolled back under our hands."""
        kept, problem = self._kept, ""
        if head.seq < self._replay.seq:
            problem = f"it had {self._replay.seq} entries and has {head.seq}"
        elif kept.seq > 0 and head != kept and hash_of(kept.seq) != kept.hash:
            problem = f"entry {kept.seq} was changed or is gone"
        if problem:
            self._replay.problem = problem
            raise LedgerError(f"The ledger's chain is broken, so nothing is answered: {problem}.")

    def _just_checked(self) -> bool:
        return time.monotonic() - self._checked_at < CHECK_SECONDS and not self._replay.problem

    def _replay_all(self, store: Store) -> None:
        try:
            head = store.head()
            check = Replay(self.expects).follow(store.after(0, head.seq), head)
        except LedgerError:  # the database fails: who asks is told
            return
        self._replay.problem = self._replay.problem or check.problem
