"""Noise on exact answers: what is drawn is all that leaves the table."""

from __future__ import annotations

import json

import numpy as np

from shoal.dp.mechanisms import exponential, laplace
from shoal.dp.plan import Plan, Release


def add_noise(plan: Plan, exact: tuple[np.ndarray, ...], draws: int = 1) -> tuple[np.ndarray, ...]:
    """Noisy whole numbers (candidates' positions for ranks): per release an int64 array (draws, groups)."""
    noisy = []
    for release, values in zip(plan.flat, exact, strict=True):
        if release.kind == "rank":
            columns = [exponential(distances(release, each), release.rate, draws=draws) for each in values]
            noisy.append(np.stack(columns, axis=1))
        else:
            noisy.append(laplace(np.broadcast_to(values, (draws, len(values))), release.scale))
    return tuple(noisy)


def released(noisy: tuple[np.ndarray, ...]) -> str:
    """Noisy numbers as the ledger stores them; figures are made of them anew, with the asker's labels."""
    return json.dumps([each[0].tolist() for each in noisy])


def as_released(body: str) -> tuple[np.ndarray, ...]:
    """Noisy numbers as `released` wrote them."""
    return tuple(np.array([each], dtype=np.int64) for each in json.loads(body))


def distances(release: Release, histogram: np.ndarray) -> np.ndarray:
    """How far each candidate's ranks lie from the rank aimed at, in whole numbers."""
    ordered = histogram[::-1] if release.from_above else histogram
    reached = np.cumsum(ordered)  # rows at or beyond a candidate, seen from the end that is counted
    before = reached - ordered
    if release.share is None:
        apart = np.maximum(np.maximum(before - release.aim, release.aim - reached), 0)
    else:
        scaled, target = release.share.denominator, int(reached[-1]) * release.share.numerator
        apart = np.maximum(np.maximum(before * scaled - target, target - reached * scaled), 0)
    return apart[::-1] if release.from_above else apart
