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


def test_closed_streams_change_nothing_but_a_table_is_not_written_to_one(tmp_path):
    """A command of a timetable may have no streams: it crashed, and by its exit code a guarantee had failed."""
    datasets.load_survey().head(60).write_csv(tmp_path / "survey.csv")
    shoal = f"{sys.executable} -m shoal"
    check = f"{shoal} check survey.csv --quasi age --k"
    protect = f"{shoal} protect survey.csv -k 3 --method mdav --on-missing impute -o"
    for command, code, said in (
        (f"{check} 1 >&- 2>&-", 0, ""),
        (f"{check} 1000 2>&-", 1, ""),
        (f"{protect} - >&-", 2, "shoal: The output '-' is the standard output, which is closed.\n"),
        (
            f"{check} 1 > /dev/full",
            2,
            "shoal: The standard output cannot be written: No space left on device.\n",
        ),
    ):
        done = subprocess.run(
            command,
            check=False,
            shell=True,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert (done.returncode, done.stderr) == (code, said), command
