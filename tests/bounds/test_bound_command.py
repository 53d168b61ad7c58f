"""`shoal bound` as a user runs it."""

from __future__ import annotations

import json
import sys

import numpy as np
import polars as pl
import pytest

from shoal.cli import main


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    def call(*words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["shoal", "bound", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return call


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40), "who": ["x"] * 40})
    frame.write_csv(tmp_path / "t.csv")
    pl.DataFrame({"label": np.arange(40) // 4}).write_csv(tmp_path / "l.csv")
    return frame


def test_json_has_the_facts(run, table):
    code, out, _ = run("t.csv", "-k", 3, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["proven"]
    assert facts["optimal"]
    assert 0 < facts["bound"] <= facts["information_loss"]
    assert facts["gap"] == pytest.approx(0.0, abs=1e-4)


def test_gap_is_that_of_the_labels(run, table):
    facts = json.loads(run("t.csv", "-k", 3, "--labels", "l.csv", "--json")[1])
    assert facts["information_loss"] > facts["best_known"]
    assert not facts["optimal"]
    assert facts["gap"] == pytest.approx(100 * (1 - facts["bound"] / facts["information_loss"]))


def test_words_say_what_is_proven(run, table):
    code, out, _ = run("t.csv", "-k", 3, "--columns", "a")
    assert code == 0
    assert "No partition into groups of at least 3 loses less than" in out
    assert "It is proven optimal." in out


def test_cheap_effort_tells_no_gap(run, table):
    facts = json.loads(run("t.csv", "-k", 3, "--effort", "cheap", "--json")[1])
    assert facts["gap"] is None
    assert facts["method"] == "cheap"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("t.csv", "-k", 1), "must be an int in [2, inf]"),
        (("t.csv", "-k", 50), "at least that many"),
        (("t.csv", "-k", 3, "--columns", "zip"), "No column 'zip'"),
        (("t.csv", "-k", 3, "--columns", "who"), "numeric column"),
        (("t.csv", "-k", 5, "--labels", "l.csv"), "at least k = 5"),
        (("t.csv", "-k", 3, "--labels", "t.csv"), "must have one column"),
        (("t.csv", "-k", 3, "--effort", "much"), "'effort'"),
    ],
)
def test_mistakes_are_one_sentence(run, table, words, says):
    code, out, err = run(*words)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
