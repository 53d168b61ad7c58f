"""Faults planted in the process of a server before it starts: `python server.py FAULT CONFIGURATION`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shoal.server.audit import FILES, PERSONS, FilePair

SLOW = 0.005  # seconds that a slow sampler takes for each different value


@dataclass(frozen=True)
class Fault:
    """What is wrong with a server on purpose, the files on which it shows, and further lines of its configuration."""

    pair: FilePair
    plant: Callable[[], None]
    settings: tuple[str, ...] = ()


def _infer() -> None:
    """Types inferred from the whole table."""
    import polars as pl

    from shoal.server import opening

    def inferred(path: Path, schema: Any, **_: Any) -> Any:
        return pl.read_csv(path, infer_schema_length=None)

    opening.read_private = inferred


def _slow() -> None:
    """Work that goes with the number of different distances, and answers that leave at once."""
    from shoal.dp.answering import noise
    from shoal.dp.mechanisms.currency import choose as sound

    def slow(currency: str, distances: np.ndarray, *words: Any) -> np.ndarray:
        time.sleep(SLOW * len(np.unique(distances)))
        return sound(currency, distances, *words)

    noise.choose = slow


def _short() -> None:
    """A tenth of the noise."""
    from shoal.dp.mechanisms import discrete_laplace as mechanisms

    sound = mechanisms.laplace
    mechanisms.laplace = lambda values, scale: sound(values, scale / 10)


def _told_total() -> None:
    """A refusal that tells how many rows there are."""
    from shoal.errors import BudgetError
    from shoal.server.service import Service

    sound = Service.ask

    def ask(self: Service, dataset: str, *words: Any) -> Any:
        try:
            return sound(self, dataset, *words)
        except BudgetError as error:
            rows = self.session(dataset)._rows.frame.height
            raise BudgetError(f"{error} ({rows} rows)") from None

    Service.ask = ask


QUICK = ("slot_seconds = 0.01",)  # where a fault shows in what is told, not in when
FAULTS: dict[str, Fault] = {
    "types-inferred": Fault(FILES[0], _infer, QUICK),
    "noise-short": Fault(FILES[1], _short),
    "refusal-counts": Fault(FILES[0], _told_total, QUICK),
    "slow-sampler": Fault(PERSONS[0], _slow, ("slot_seconds = 0",)),
}


def command(fault: str) -> tuple[str, ...]:
    """The words that start a server with a fault."""
    return (sys.executable, __file__, fault)


if __name__ == "__main__":
    from shoal.server.config import Config
    from shoal.server.run import run

    FAULTS[sys.argv[1]].plant()
    run(Path(sys.argv[2]), Config.from_toml(sys.argv[2]))
