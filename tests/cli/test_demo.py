"""The first thing a newcomer types, and the command that it prints last."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from shoal.cli import app
from shoal.errors import InputError
from shoal.microaggregation._work import Shape


@pytest.fixture(autouse=True)
def _short(monkeypatch, tmp_path):
    monkeypatch.setattr(Shape, "seconds", lambda _: 0.05)  # the same search, cut short
    monkeypatch.chdir(tmp_path)


def test_the_printed_command_repeats_the_demo_byte_for_byte(tmp_path):
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stdout.startswith("status ")
    assert done.output == done.stdout  # nothing on the error stream
    folder = tmp_path / "demo-output"
    made = {each.name: each.read_bytes() for each in folder.iterdir() if each.suffix == ".csv"}
    assert set(made) == {"survey.csv", "protected.csv", "groups.csv"}
    for name in ("protected.csv", "groups.csv", "report.html", "public-report.html"):
        (folder / name).unlink()
    repeat = next(line for line in done.stdout.splitlines() if line.startswith("repeat: "))
    again = CliRunner().invoke(app, shlex.split(repeat.removeprefix("repeat: "))[1:])
    assert again.exit_code == 0, (again.output, again.exception)
    assert {each.name: each.read_bytes() for each in folder.iterdir() if each.suffix == ".csv"} == made
    assert (folder / "report.html").exists()


def test_a_survey_of_ones_own_is_not_overwritten(tmp_path):
    (tmp_path / "survey.csv").write_text("a\n1\n")
    done = CliRunner().invoke(app, ["demo", "-o", "."])
    assert isinstance(done.exception, InputError)
    assert "holds another 'survey.csv'" in str(done.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["survey.csv"]
    assert (tmp_path / "survey.csv").read_text() == "a\n1\n"
