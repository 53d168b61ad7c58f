"""Groups that nobody declared, in the distinguishing game: a unit more, whose keys are its own or shared."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl

from shoal.audit._game import Mechanism
from shoal.dp.answering.exact import finish_keys
from shoal.dp.mechanisms.keys import KeyChoice

DELTA = 0.02  # large, so that runs can tell how often a rare key is shown
MOST_KEYS = 8  # keys of a unit that count


def _pairs(rows: list[tuple[str, str]]) -> pl.DataFrame:
    keys, units = zip(*rows, strict=True)
    return pl.DataFrame({"key": keys, "unit": units, "n": [1] * len(rows)})


def _common(choice: KeyChoice, keys: int) -> list[tuple[str, str]]:
    """Keys whose numbers of units lie just below the threshold, where one unit more tells most."""
    near = max(1, choice.threshold - 1)
    return [(f"common {key}", f"{key}.{unit}") for key in range(keys) for unit in range(near)]


def key_game(
    name: str,
    rho: float,
    own: list[str],
    delta: float = DELTA,
    most: int = MOST_KEYS,
    paid_for: int = MOST_KEYS,
) -> Mechanism:
    """A unit more that has these keys, of which `most` count; noise and threshold are those of `delta` and `paid_for` keys."""
    choice, drawn = (KeyChoice(Fraction(rho), Fraction(each), paid_for) for each in (DELTA, delta))
    rows = _common(choice, len([key for key in own if key in SHARED_KEYS]) or 1)
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


SHARED_KEYS = [f"common {at}" for at in range(30)]
OWN_KEYS = [f"own {at}" for at in range(30)]


def key_cases(rho: float) -> list[Mechanism]:
    """A unit with keys of its own, with common keys, and with more keys than count."""
    return [
        key_game("a unit with keys of its own", rho, OWN_KEYS[:MOST_KEYS]),
        key_game("a unit with common keys", rho, SHARED_KEYS[:MOST_KEYS]),
        key_game("a unit with more keys than count", rho, SHARED_KEYS),
        key_game("a unit with more keys of its own than count", rho, OWN_KEYS),
    ]
