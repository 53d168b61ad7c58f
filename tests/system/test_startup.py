"""What a small run loads: packages that take long to load and are not needed for it stay out."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

HEAVY = ("pandas", "sklearn", "scipy.stats", "scipy.optimize", "matplotlib", "highspy", "sqlglot", "fastapi")


def loaded(tmp_path, code: str) -> set[str]:
    """Names of HEAVY that are loaded once some code has run in a process of its own."""
    told = f"\nimport sys\nprint('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code + told], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    return set(ran.stdout.rpartition("loaded:")[2].split())


def test_the_package_and_the_command_load_nothing_heavy(tmp_path):
    assert loaded(tmp_path, "import shoal, shoal.cli") == set()


@pytest.mark.parametrize("categories", [False, True])
def test_a_small_table_is_protected_without_what_it_does_not_need(tmp_path, categories):
    rng = np.random.default_rng(0)
    columns = {"age": rng.integers(20, 80, 60), "income": rng.normal(size=60), "rent": rng.normal(size=60)}
    if categories:
        columns["region"] = np.array(["north", "south", "east"])[rng.integers(0, 3, 60)]
    pl.DataFrame(columns).write_csv(tmp_path / "t.csv")
    command = ["protect", "t.csv", "-k", "5", "-o", "out.csv", "--max-proposals", "1000"]
    code = (
        f"import sys\nsys.argv = {['shoal', *command]!r}\nfrom shoal.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code"
    )
    assert loaded(tmp_path, code) == set()
    assert (tmp_path / "out.csv").exists()
