"""The command run in this process, and a small table to run it on."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest


class Done(NamedTuple):
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch, capfdbinary):
    """Run the command in this process, as its entry point does: starting Python anew for each takes seconds."""

    def call(*words, cwd, text=""):
        from shoal.cli import main

        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["shoal", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        with pytest.raises(SystemExit) as left:
            main()
        sys.stdout.flush()
        out, err = (each.decode() for each in capfdbinary.readouterr())
        return Done(left.value.code, out, err)

    return call


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "age": rng.integers(18, 90, 40),
            "income": rng.normal(3e4, 9e3, 40).round(2),
            "town": ["A", "B"] * 20,
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    return tmp_path
