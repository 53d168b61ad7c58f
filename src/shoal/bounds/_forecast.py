"""How long a bound will take, known before it starts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral, Real

from shoal.params import AnyOf, Constraint, Interval, Options, check_params

SECONDS = {"cheap": 0.0, "default": 110.0, "optimal": 580.0}
"""Seconds of the linear programme at each effort."""

RULES: dict[str, Constraint] = {
    "k": Interval(Integral, 2),
    "effort": AnyOf((Options(tuple(SECONDS)), Interval(Real, 0))),
}

LINEAR, LINEAR_IF_ASKED = 5_000, 12_000
"""Records up to which the linear programme keeps all n^2 squared distances: 200 MB and, if asked for, 1.2 GB."""

ASCENDED = 200_000
"""Records up to which dual ascent is made without being asked for."""

LARGEST_K = 15
"""Smallest groups up to which dual ascent proves more than the cheap bound; beyond, its searches are all cut short."""

NEIGHBOURS = 8
"""Near records that dual ascent looks at, in k."""

_ASCENT, _GROWTH, _THREADED = 1.2e-4, 0.3, 0.7
"""CPU seconds of dual ascent for each of 20,000 records, in k^2; the power of n they grow by; and what is left of
them on two processors."""


@dataclass(frozen=True)
class BoundForecast:
    """How long a bound will take, known before it starts.

    Attributes
    ----------
    method : {"cheap", "ascent", "relaxation"}
        The strongest method that will be used.
    seconds : float
        About how long, with no other work on the machine; for the linear programme the limit.
    memory : int
        About how many bytes.

    Examples
    --------
    >>> from shoal.bounds import BoundForecast
    >>> print(BoundForecast("ascent", 42.0, 30_000_000))
    A bound by dual ascent takes about 42 s and 30 MB.
    """

    method: str
    seconds: float
    memory: int

    def __str__(self) -> str:
        """One sentence."""
        how = {
            "cheap": "The cheap bound",
            "ascent": "A bound by dual ascent",
            "relaxation": "A bound by a linear programme, perhaps a proof of the optimum,",
        }[self.method]
        most = "at most" if self.method == "relaxation" else "about"
        time = f"{self.seconds:.0f} s" if self.seconds < 120 else f"{self.seconds / 60:.0f} minutes"
        return f"{how} takes {most} {time} and {max(1, round(self.memory / 1e6))} MB."


def forecast(n_records: int, n_columns: int, k: int, effort: str | float = "default") -> BoundForecast:
    """Forecast how long `information_loss_bound` will take.

    Parameters
    ----------
    n_records, n_columns, k : int
    effort : as for `information_loss_bound`

    Returns
    -------
    BoundForecast
        From measured tables of ten columns; others may take twice as long, or half. Compiling on the first
        use, and a search for a partition where none is given, come on top.

    Examples
    --------
    >>> from shoal.bounds import forecast
    >>> forecast(1_000, 13, 3).method, forecast(20_000, 10, 5).method, forecast(10**6, 10, 5).method
    ('relaxation', 'ascent', 'cheap')
    """
    check_params("forecast", RULES, {"k": k, "effort": effort})
    # Near records, and a pool of up to 25 groups a record, twice while it grows.
    rows = n_records * (16 * min(n_records, NEIGHBOURS * k) + 700 * k + 1_000 + 24 * n_columns)
    cheap = BoundForecast(
        "cheap", max(1.0, 4e-6 * n_records * n_columns), 8 * n_records * (n_columns + 3 * k)
    )
    if effort in ("cheap", 0):
        return cheap
    seconds = SECONDS[effort] if isinstance(effort, str) else float(effort)
    if n_records <= most_linear(effort):
        return BoundForecast("relaxation", seconds, 12 * n_records**2 + rows)
    if k > LARGEST_K or (effort == "default" and n_records > ASCENDED):
        return cheap
    each = _ASCENT * k * k * (n_records / 20_000) ** _GROWTH
    needed = each * n_records * (1.0 if (os.cpu_count() or 1) == 1 else _THREADED)
    return BoundForecast("ascent", needed if isinstance(effort, str) else min(needed, seconds), rows)


def most_linear(effort: str | float) -> int:
    """Records up to which the linear programme is used."""
    return LINEAR if effort == "default" else LINEAR_IF_ASKED
