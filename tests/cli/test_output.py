"""Who reads only the first lines of a command's output changes neither its work nor its exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shoal import datasets


@pytest.mark.parametrize(("demanded", "code"), [("1", 0), ("1000", 1)])
def test_a_reader_who_leaves_does_not_change_the_exit_code(tmp_path, demanded, code):
    datasets.load_survey().write_csv(tmp_path / "survey.csv")
    reading, writing = os.pipe()
    os.close(reading)  # gone before the first line
    command = [sys.executable, "-m", "shoal", "check", "survey.csv", "--quasi", "age", "--k", demanded]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (code, "")
