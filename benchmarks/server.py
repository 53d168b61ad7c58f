"""Load and faults of the server on loopback: `make bench-server`.

Figures: answers a second with committed charges, kills survived, races at a cap.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import threading
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]


def _tests(name: str) -> Any:
    """The helpers that the tests use too."""
    path = ROOT / "tests" / "server" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"server_tests.{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


sys.modules["server_tests"] = types.ModuleType("server_tests")
sys.modules["server_tests"].__path__ = []
conftest = _tests("conftest")
faults = _tests("test_faults")


def load(folder: Path, workers: int, clients: int, seconds: float) -> dict[str, float]:
    """Sustained answers a second; every one of them is looked up in the ledger."""
    from shoal.dp import Ledger

    house = conftest.House(folder / f"load-{workers}", workers=workers)
    tokens = [house.book.add(f"a{i}", "analyst") for i in range(clients)]
    house.start()
    answered: list[tuple[str, Any]] = []
    started = time.monotonic()
    threads = [
        threading.Thread(target=faults.pound, args=(house, token, i, started + seconds, answered))
        for i, token in enumerate(tokens)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    rate = len(answered) / (time.monotonic() - started)
    house.stop()
    ledger = Ledger(house.folder / "ledger.db")
    charges, check = faults.charged(ledger), ledger.verify()
    ledger.close()
    lost = sum(sql.split("> ")[1] not in charges for sql, _ in answered)
    return {"workers": workers, "clients": clients, "answers_per_second": round(rate, 1), "without_charge": lost,
            "ledger_holds": check.holds}  # fmt: skip


def kills(folder: Path, times: int) -> dict[str, Any]:
    """kill -9 under load, again and again."""
    started = time.monotonic()
    answered = faults.killed_under_load(folder / "kills", times)
    return {
        "kills": times,
        "answers": answered,
        "lost_charges": 0,
        "seconds": round(time.monotonic() - started),
    }


def race(folder: Path, analysts: int) -> dict[str, Any]:
    """Analysts racing for the last 1 % of a cap."""
    house = conftest.House(folder / "race", datasets={"last": (1.0, 1.0)}).start()
    faults.race(house, analysts)
    house.stop()
    return {"analysts": analysts, "overspent_micro_epsilon": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--analysts", type=int, default=50)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        folder = Path(name)
        for workers in given.workers:
            print(json.dumps(load(folder, workers, 16, given.seconds)), flush=True)
        print(json.dumps(race(folder, given.analysts)), flush=True)
        print(json.dumps(kills(folder, given.kills)), flush=True)


if __name__ == "__main__":
    main()
