"""Groups that nobody declared, in the distinguishing game: a unit more, whose keys are its own or shared."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl

from shoal.audit._game import Mechanism
from shoal.dp.answering.exact import finish_keys
from shoal.dp.mechanisms.keys import KeyChoice

DELTA = 0.02  # large, so that runs can tell how often a rare key is shown
_MOST = 8  # keys of a unit that count


def _pairs(rows: list[tuple[str, str]]) -> pl.DataFrame:
    keys, units = zip(*rows, strict=True)
    return pl.DataFrame({"key": keys, "unit": units, "n": [1] * len(rows)})


def _common(choice: KeyChoice, keys: int) -> list[tuple[str, str]]:
    """Keys whose numbers of units lie just below the threshold, where one unit more tells most."""
    near = max(1, choice.threshold - 1)
    return [(f"common {key}", f"{key}.{unit}") for key in range(keys) for unit in range(near)]


def _game(name: str, rho: float, own: list[str], delta: float = DELTA, most: int = _MOST) -> Mechanism:
    """A unit more that has these keys; `delta` and `most` are as is claimed, but for planted faults."""
    choice, drawn = (KeyChoice(Fraction(rho), Fraction(each), _MOST) for each in (DELTA, delta))
    rows = _common(choice, len([key for key in own if key in _SHARED]) or 1)
    tables = [finish_keys(_pairs(each), most) for each in (rows, rows + [(key, "new") for key in own])]
    common = {key for key, _ in rows}

    def sample(side: int, draws: int) -> np.ndarray:
        keys, counts = tables[side]
        noisy = drawn.noise.add(np.broadcast_to(counts, (draws, len(counts))))
        shown = noisy >= drawn.threshold
        rare = np.array([key not in common for key in keys])
        return np.stack([shown.sum(axis=1), shown[:, rare].sum(axis=1)], axis=1).astype(np.float64)

    columns = ("number of keys shown", "number of rare keys shown")
    return Mechanism(name, rho, sample, columns, rho=True, delta=DELTA)


_SHARED = [f"common {at}" for at in range(30)]
_OWN = [f"own {at}" for at in range(30)]


def key_cases(rho: float) -> list[Mechanism]:
    """A unit with keys of its own, with common keys, and with more keys than count."""
    return [
        _game("a unit with keys of its own", rho, _OWN[:_MOST]),
        _game("a unit with common keys", rho, _SHARED[:_MOST]),
        _game("a unit with more keys than count", rho, _SHARED),
        _game("a unit with more keys of its own than count", rho, _OWN),
    ]


def threshold_too_low(rho: float) -> Mechanism:
    """A planted fault: the threshold of a delta that is far above what is claimed."""
    return _game("a threshold that is too low", rho, _OWN[:_MOST], delta=0.9)


def keys_not_bounded(rho: float) -> Mechanism:
    """A planted fault: a unit counts for all of its keys."""
    return _game("a unit's keys not bounded", rho, _SHARED, most=len(_SHARED))
