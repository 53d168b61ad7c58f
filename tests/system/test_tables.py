"""Real tables from the command line: labels, strata, gaps, weights, models, and what cannot be done."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import numpy as np
import polars as pl
import pytest

from shoal import io

MDAV = ["--method", "mdav"]


@pytest.fixture
def survey(tmp_path):
    """60 people; one region has two of them, one cell in twenty is missing."""
    rng = np.random.default_rng(4)
    age = [None if i % 20 == 0 else int(value) for i, value in enumerate(rng.integers(18, 90, 60))]
    pl.DataFrame(
        {
            "age": age,
            "income": rng.normal(3e4, 9e3, 60).round(2),
            "region": ["north", "south"] * 29 + ["island"] * 2,
            "disease": rng.choice(["flu", "cold", "gout"], 60),
            "w": rng.uniform(1, 50, 60).round(1),
        }
    ).write_csv(tmp_path / "s.csv")
    (tmp_path / "s.toml").write_text(
        '[columns.disease]\nrole = "sensitive"\nkind = "category"\n[columns.age]\nrole = "quasi"\non_missing = "impute"\n'
        '[columns.w]\nrole = "weight"\n'
    )
    return tmp_path


def test_an_spss_file_keeps_labels_and_its_codes_stay_codes(run, tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat", reason="SPSS files need the extra 'stat'")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 40), "sex": rng.integers(1, 3, 40)})
    pyreadstat.write_sav(
        frame,
        str(tmp_path / "in.sav"),
        column_labels={"age": "Age in years", "sex": "Sex"},
        variable_value_labels={"sex": {1: "female", 2: "male"}},
    )
    guessed = run("schema", "in.sav", cwd=tmp_path)
    assert "its values have labels" in guessed.stdout
    words = ["-k", 4, *MDAV, "--columns", "age,sex", "-o", "out.sav", "--json"]
    done = run("protect", "in.sav", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    back = io.read_source(tmp_path / "out.sav")
    assert set(back.frame["sex"]) <= {1, 2}
    assert back.labels["variable_value_labels"] == {"sex": {1: "female", 2: "male"}}
    assert back.labels["column_labels"] == {"age": "Age in years", "sex": "Sex"}
    checked = run("check", "out.sav", "--quasi", "age,sex", "--k", 4, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_strata_gaps_and_models_in_one_go_and_checked(run, survey):
    words = ["--schema", "s.toml", "--strata", "region", "--l", 2, "--t", 0.4]
    done = run("protect", "s.csv", "-k", 4, *MDAV, *words, "-o", "o.csv", cwd=survey)
    assert done.returncode == 0, done.stderr
    assert "Stratum 'island' has 2 records, fewer than k" in done.stdout
    assert pl.read_csv(survey / "o.csv")["age"].null_count() == 0
    words = ["--quasi", "age,income,region", "--sensitive", "disease", "--k", 4, "--l", 2, "--t", 0.4]
    checked = run("check", "o.csv", *words, "--json", cwd=survey)
    assert checked.returncode == 0, checked.stdout
    facts = json.loads(checked.stdout)
    assert facts["k"] >= 4
    assert facts["l_distinct"] >= 2
    assert facts["t"] <= 0.4


def test_the_bundled_survey_reaches_l_and_t_and_is_checked(run, tmp_path):
    assert run("datasets", "--copy", ".", cwd=tmp_path).returncode == 0
    words = ["--schema", "survey.toml", "--l", 2, "--t", 0.2]
    done = run("protect", "survey.csv", "-k", 5, *MDAV, *words, "-o", "o.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    checked = run("check", "o.csv", "-k", 5, *words, "--json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    facts = json.loads(checked.stdout)
    assert facts["k"] >= 5
    assert facts["l_distinct"] >= 2
    assert facts["t"] <= 0.2


def test_weighted_means_are_kept(run, survey):
    words = ["--columns", "income", "--weights", "w", "-o", "o.csv", "--accept-risk"]
    done = run("protect", "s.csv", "-k", 4, *MDAV, *words, cwd=survey)
    assert done.returncode == 0, done.stderr
    before, after = (pl.read_csv(survey / name) for name in ("s.csv", "o.csv"))
    means = [float(np.average(each["income"], weights=each["w"])) for each in (before, after)]
    assert means[0] == pytest.approx(means[1], rel=1e-9)


BAD = {
    "empty": b"",
    "only a header": b"x,y\n",
    "zero bytes": b"x\x00y\n1\n2\n",
    "rows of unequal length": b"x,y\n1,2\n3,4,5,6\n",
    "names twice": b"x,x\n1,2\n3,4\n",
}


@pytest.mark.parametrize("case", list(BAD))
@pytest.mark.parametrize("words", [["check", "bad.csv", "--quasi", "y"], ["compare", "bad.csv", "-k", "3"]])
def test_bad_files_are_one_sentence_for_check_and_compare(run, tmp_path, case, words):
    (tmp_path / "bad.csv").write_bytes(BAD[case])
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.strip().splitlines()) == 1
    assert os.listdir(tmp_path) == ["bad.csv"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x\n1\n2\n", "at least that many"),
        (b"x\n1\n2\nthree\n4\n", "must hold numbers. Got 'three'"),
        (b"x\n1\nNaN\n3\n4\n", "missing cells in 'x'"),
        (b"x\n1\ninf\n3\n4\n", "infinite cells in 'x'"),
    ],
)
def test_bad_cells_are_one_sentence_for_compare(run, tmp_path, data, message):
    (tmp_path / "bad.csv").write_bytes(data)
    done = run("compare", "bad.csv", "-k", "3", "--methods", "mdav", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "t.csv", "-k", "three"],
        ["compare", "t.csv", "-k", "3", "--methods", "magic"],
        ["compare", "t.csv", "-k", "3", "--report", "no/map.html"],
        ["compare", "t.csv", "-k", "3", "--columns", "nope"],
        ["check", "t.csv"],
        ["check", "t.csv", "--quasi", "nope"],
        ["check", "t.csv", "--quasi", "age", "--k", "many"],
        ["check", "t.csv", "--quasi", "age", "--original", "nope.csv"],
        ["schema", "t.csv", "-o", "no/s.toml"],
    ],
)
def test_bad_usage_is_one_sentence(run, table, words):
    done = run(*words, cwd=table)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["--certify"], ["--keep-best"]])
def test_what_a_table_in_parts_cannot_have_is_said(run, table, words):
    done = run("protect", "t.csv", "-k", 4, "-o", "o.csv", "--memory", "1GB", *words, cwd=table)
    assert done.returncode == 2
    assert f"({words[0]})" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (table / "o.csv").exists()


def test_a_full_disk_is_one_sentence_and_leaves_nothing(run, table, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = shutil.which("mount") and os.geteuid() == 0
    if (
        not mounted
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], check=False).returncode
    ):
        pytest.skip("a small file system can be mounted by root only")
    try:
        rows = pl.concat([pl.read_csv(table / "t.csv")] * 100)
        rows.write_csv(table / "many.csv")
        done = run("protect", "many.csv", "-k", 4, *MDAV, "-o", small / "o.csv", cwd=table)
        assert done.returncode == 2
        assert "cannot be written" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert os.listdir(small) == []
    finally:
        subprocess.run(["umount", small], check=True)
