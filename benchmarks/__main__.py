"""Run every benchmark: small sizes by default, the large ones with BENCH=full, one by name as argument.

What is found is kept in docs/benchmarks, from which `make docs` makes a page.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import time

import benchmarks
from benchmarks._record import listening, record


def main() -> None:
    full = os.environ.get("BENCH", "") == "full"
    chosen = sys.argv[1:]
    names = [each.name for each in pkgutil.iter_modules(benchmarks.__path__) if not each.name.startswith("_")]
    for name in chosen or [each for each in names if each != "server"]:
        print(f"\n== {name}{' (full)' if full else ''}", flush=True)
        start = time.perf_counter()
        module = importlib.import_module(f"benchmarks.{name}")
        with listening() as printed:
            rows = module.run(full=full) or []
        title = (module.__doc__ or name).splitlines()[0].rstrip(".")
        path = record(name, title, full=full, rows=rows, text=printed.getvalue())
        print(f"-- {name}: {time.perf_counter() - start:.0f} s, kept in {path}", flush=True)


if __name__ == "__main__":
    main()
