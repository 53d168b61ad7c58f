"""Run every benchmark: small sizes by default, the large ones with BENCH=full, one by name as argument."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import time

import benchmarks


def main() -> None:
    full = os.environ.get("BENCH", "") == "full"
    chosen = sys.argv[1:]
    names = [each.name for each in pkgutil.iter_modules(benchmarks.__path__) if not each.name.startswith("_")]
    for name in chosen or [each for each in names if each != "server"]:
        print(f"\n== {name}{' (full)' if full else ''}", flush=True)
        start = time.perf_counter()
        importlib.import_module(f"benchmarks.{name}").run(full=full)
        print(f"-- {name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
