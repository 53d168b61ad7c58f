"""`shoal check` as it is run: figures, sentences, exit codes."""

import json
import sys

import polars as pl
import pytest

ROWS = {
    "age": [30, 30, 30, 40, 40, 40],
    "zip": ["a", "a", "a", "b", "b", "b"],
    "disease": ["flu", "cold", "flu", "flu", "flu", "flu"],
}


@pytest.fixture
def check(monkeypatch, capsys, tmp_path):
    pl.DataFrame(ROWS).write_csv(tmp_path / "t.csv")

    def call(*words):
        from shoal.cli import main

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["shoal", "check", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        out = capsys.readouterr()
        return left.value.code, out.out, out.err

    return call


def test_json_gives_the_promised_keys(check):
    code, out, _ = check("t.csv", "--quasi", "age,zip", "--sensitive", "disease", "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["k"], facts["l_distinct"], facts["l_entropy"]) == (3, 1, 1.0)
    assert facts["t"] == pytest.approx(1 / 6)
    assert facts["records_at_risk"] == 0
    assert facts["holds"] is None
    assert facts["verdicts"][0]["model"] == "k-anonymity"


@pytest.mark.parametrize(
    ("limits", "code", "at_risk"),
    [
        (["--k", 3], 0, 0),
        (["-k", 4], 1, 6),
        (["--l", 2], 1, 3),
        (["--k", 3, "--l", 1, "--t", 0.2], 0, 0),
        (["--t", 0.1], 1, 6),
    ],
)
def test_exit_1_where_a_limit_does_not_hold(check, limits, code, at_risk):
    found, out, _ = check("t.csv", "--quasi", "age,zip", "--sensitive", "disease", "--json", *limits)
    facts = json.loads(out)
    assert found == code
    assert facts["holds"] is (code == 0)
    assert facts["records_at_risk"] == at_risk


def test_sentences_name_the_worst_class(check):
    code, out, _ = check("t.csv", "--quasi", "zip", "--sensitive", "disease", "--l", 2)
    assert code == 1
    assert "FAILS  distinct l-diversity of disease on zip: 1 in 2 classes where 2 was demanded" in out
    assert "worst: zip = b: 3 records, 1" in out


def test_original_and_population_are_compared(check, tmp_path):
    pl.DataFrame({**ROWS, "age": [29, 30, 31, 39, 40, 41]}).write_csv(tmp_path / "before.csv")
    pl.concat([pl.DataFrame(ROWS)] * 2).write_csv(tmp_path / "all.csv")
    words = ["t.csv", "--quasi", "age,zip", "--original", "before.csv", "--population", "all.csv"]
    code, out, _ = check(*words, "--delta", "0.1,0.6", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["original"]["k"] == 1
    assert facts["original"]["records_at_risk"] == 6
    assert facts["delta"] == [0.5, 0.5]
    assert facts["population"]["k_map"] == 6
    assert facts["dld"] <= 1 / 2
    code, out, _ = check(*words)
    assert "Before protection: k 1, 6 records at risk." in out
    assert "for the custodian only" in out


def test_linkage_counts_categories_as_protect_does(check, tmp_path):
    from shoal import datasets, protect

    datasets.copy_bundled(tmp_path)
    done = protect(
        pl.read_csv(tmp_path / "survey.csv"),
        5,
        method="mdav",
        schema=tmp_path / "survey.toml",
        accept_risk=True,
    )
    done.frame.write_csv(tmp_path / "out.csv")
    code, out, _ = check("out.csv", "--schema", "survey.toml", "--original", "survey.csv", "--json")
    assert code == 0
    assert done.figures.dld > 0.15  # on the numbers alone it would be 0.05
    assert json.loads(out)["dld"] == pytest.approx(done.figures.dld)


def test_linkage_by_categories_alone(check, tmp_path):
    pl.DataFrame({**ROWS, "zip": ["*", "a", "a", "b", "b", "b"]}).write_csv(tmp_path / "out.csv")
    code, out, _ = check("out.csv", "--quasi", "zip", "--original", "t.csv", "--json")
    assert code == 0
    # Two of three in a and three of three in b count a third each; the suppressed cell is as near to all six.
    assert json.loads(out)["dld"] == pytest.approx((2 / 3 + 1 + 1 / 6) / 6)


def test_a_schema_gives_roles_levels_and_missing_codes(check, tmp_path):
    (tmp_path / "s.toml").write_text(
        '[columns.age]\nrole = "quasi"\nmissing_codes = [40]\n'
        '[columns.disease]\nrole = "sensitive"\nkind = "category"\nhierarchy = [["flu"], ["cold"]]\n'
    )
    code, out, _ = check("t.csv", "--schema", "s.toml", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["missing_records"] == 3
    assert facts["verdicts"][-1]["model"] == "t-closeness (hierarchical distance)"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["t.csv"], "needs quasi-identifiers"),
        (["t.csv", "--quasi", "nope"], "No column 'nope'"),
        (["gone.csv", "--quasi", "age"], "gone.csv"),
        (["t.csv", "--quasi", "age", "--sensitive", "age"], "as both"),
        (
            ["t.csv", "--quasi", "age", "--population", "t.csv", "--delta", "x"],
            "'--delta' must be two numbers",
        ),
        (["t.csv", "--quasi", "age", "--k", "0"], "'k' of check"),
        (["t.csv", "--quasi", "age", "--sensitive", "disease", "--distance", "odd"], "'distance' of check"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(check, words, message):
    code, _, err = check(*words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
