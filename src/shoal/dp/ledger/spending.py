"""What was spent on a data set: by whom and when, from sums over the whole ledger."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from shoal.dp.ledger.entries import ENTRIES
from shoal.dp.ledger.ledger import Ledger
from shoal.errors import MissingExtraError

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "dp") from None

PACE_DAYS = 7
"""Days whose pace a forecast goes by."""

_MINUTE, _HOUR, _DAY = len("2026-01-01T00:00"), len("2026-01-01T00"), len("2026-01-01")


@dataclass(frozen=True)
class Spending:
    """What was spent on a data set, in millionths.

    Parameters
    ----------
    analysts : tuple of (str, int)
        Everybody who was ever charged, those who spent most first.
    over_time : tuple of (str, int)
        Times and the total after the charges up to them: by the minute where the charges lie within two days, by
        the hour within sixty, else by the day.
    """

    analysts: tuple[tuple[str, int], ...]
    over_time: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """All of it."""
        return self.over_time[-1][1] if self.over_time else 0

    def exhausted(self, cap: int, now: datetime.datetime | None = None) -> datetime.datetime | None:
        """When the cap is reached at the pace of the last week; None where nothing was spent in it.

        Parameters
        ----------
        cap : int
            Millionths.
        now : datetime, optional
            With a time zone; the clock's if left open.
        """
        now = now or datetime.datetime.now(datetime.UTC)
        times = [(datetime.datetime.fromisoformat(at), total) for at, total in self.over_time]
        since = now - datetime.timedelta(days=PACE_DAYS)
        before = max((total for at, total in times if at < since), default=0)
        spent = self.total - before
        if spent <= 0:
            return None
        begun = max(since, min(at for at, _ in times))
        days = max((now - begun) / datetime.timedelta(days=1), 1.0)
        left = max(0, cap - self.total) / spent * days
        return now + datetime.timedelta(days=left) if left < 36_500 else None


def spending(ledger: Ledger, dataset: str) -> Spending:
    """Add up what the ledger holds about a data set.

    Examples
    --------
    >>> from shoal.dp import Ledger
    >>> from shoal.dp.ledger.spending import spending
    >>> with Ledger() as ledger:
    ...     spending(ledger, "survey").total
    0
    """
    charged = sa.and_(ENTRIES.c.dataset == dataset, ENTRIES.c.kind == "charge")
    people = (
        sa.select(ENTRIES.c.analyst, sa.func.max(ENTRIES.c.analyst_total))
        .where(charged)
        .group_by(ENTRIES.c.analyst)
    )
    ends = sa.select(sa.func.min(ENTRIES.c.at), sa.func.max(ENTRIES.c.at)).where(charged)
    found = sorted(((str(name), int(total)) for name, total in ledger.store.all(people)), key=_most_first)
    (first, last), *_ = ledger.store.all(ends)
    if first is None:
        return Spending((), ())
    step = sa.func.substr(ENTRIES.c.at, 1, _resolution(first, last))
    steps = (
        sa.select(sa.func.max(ENTRIES.c.at), sa.func.max(ENTRIES.c.dataset_total))
        .where(charged)
        .group_by(step)
        .order_by(step)
    )
    times = tuple((str(at), int(total)) for at, total in ledger.store.all(steps))
    return Spending(tuple(found), times)


def _most_first(each: tuple[str, int]) -> tuple[int, str]:
    return -each[1], each[0]


def _resolution(first: str, last: str) -> int:
    days = (datetime.datetime.fromisoformat(last) - datetime.datetime.fromisoformat(first)).days
    return _MINUTE if days < 2 else _HOUR if days < 60 else _DAY
