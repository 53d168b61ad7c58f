"""`shoal ask`, `shoal ledger` and `shoal audit-mechanism` on the bundled survey."""

from __future__ import annotations

import json
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
import typer

import shoal
import shoal.cli._commands
from shoal.cli import ask, audit, ledger, protect, release, workload
from shoal.datasets import load_survey, load_survey_schema
from shoal.dp.correlation import FrozenMixture, GivenDegrees, Groups, save_model
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.loading.load import load
from shoal.errors import GuaranteeError
from shoal.publish import protect_file

DATA = Path(str(files("shoal.datasets"))) / "data"
COUNT = "SELECT COUNT(*) FROM t WHERE age >= 40"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """The command in this process: exit code, output and error text."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    for part in (ask, audit, ledger, protect, release, workload):
        part.register(app)
    app.registered_callback = (
        shoal.cli._commands.app.registered_callback
    )  # without it one command alone needs no name
    monkeypatch.setattr(shoal.cli._commands, "app", app)
    for name in ("survey.csv", "survey-messy.csv", "survey.toml"):
        shutil.copy(DATA / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["shoal", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            shoal.cli.main()
        said = capsys.readouterr()
        return caught.value.code, said.out, said.err

    return call


@pytest.mark.parametrize(
    ("mode", "guarantee"),
    [
        ("dp", "guarantee: epsilon-DP, add or remove one record"),
        ("group", "guarantee: epsilon-DP for the records of one group jointly"),
        (
            "correlated",
            "guarantee: epsilon-DP, add or remove all rows of one look-alike cell (grid(age, income), ",
        ),
    ],
)
def test_every_sound_mode_answers_with_its_guarantee(run, mode, guarantee):
    code, out, _ = run(
        "ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1, "--mode", mode, "--json"
    )
    facts = json.loads(out)
    assert code == 0
    assert facts["stamp"].startswith(guarantee)
    assert (facts["epsilon"], facts["remaining"]) == (0.1, 0.9)
    low, high = facts.get("cut_interval", facts["interval"])
    assert low <= facts["value"] <= high
    assert (facts["interval"][1] is None) == bool(facts.get("cautions")) == (mode == "correlated")
    assert Path("survey.ledger.db").exists()


def test_all_modes_on_one_ledger_then_the_heuristic(run):
    words = ["ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1]
    for mode, expected in (
        ("dp", 0),
        ("group", 0),
        ("correlated", 1),
        ("dp", 1),
        ("heuristic", 0),
        ("group", 0),
    ):
        code, out, err = run(*words, "--mode", mode)
        assert code == expected, err
        assert "'column:household' for life" in err or not expected
    assert "remaining 0.7" in out
    assert "earlier answers about this data set were given in a weaker unit" in out
    assert "the ledger total of this data set has ended" in out
    _, out, _ = run(*words, "--mode", "heuristic", "--json")
    facts = json.loads(out)
    assert facts["stamp"] == "guarantee: none (research reproduction)"
    assert (facts["epsilon"], facts["remaining"], facts["noise_parameter"]) == (None, None, 0.1)


def test_the_budget_ends_with_exit_code_one(run):
    words = ["ask", "survey.csv", "--schema", "survey.toml", "--epsilon", 0.6]
    assert run(*words, COUNT)[0] == 0
    code, out, err = run(*words, "SELECT SUM(income) FROM t")
    assert (code, out) == (1, "")
    assert err == "shoal: The budget of this analyst does not allow epsilon 0.6: 0.4 of 1.0 is left.\n"


@pytest.mark.parametrize(
    ("query", "epsilon"),
    [
        ("SELECT * FROM t", 0.1),
        ("DROP TABLE t", 0.1),
        (COUNT, 0),
        (COUNT, "nan"),
        (COUNT, -1),
        ("SELECT SUM(age) FROM u", 1),
    ],
)
def test_bad_questions_are_one_sentence_and_exit_code_two(run, query, epsilon):
    code, out, err = run("ask", "survey.csv", query, "--schema", "survey.toml", "--epsilon", epsilon)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_groups_several_figures_and_cost(run):
    query = "SELECT region, COUNT(*) AS n, AVG(income) FROM t GROUP BY region"
    words = [
        "ask",
        "survey-messy.csv",
        query,
        "--schema",
        "survey.toml",
        "--epsilon",
        0.3,
        "--data-version",
        "1",
    ]
    code, out, err = run(*words, "--cost")
    assert code == 0, err
    assert "n (count): epsilon 0.15, noise scale 6.66667" in out
    assert "in all epsilon 0.3, remaining 1.0" in out
    code, out, _ = run(*words)
    assert [line.split(",")[0] for line in out.splitlines()[:5]] == [
        f"region = {region}" for region in ("north", "east", "south", "west", "capital")
    ]
    _, out, _ = run(*words, "--json", "--cost")
    assert json.loads(out)["epsilon"] == 0.0


def test_the_cost_shows_the_accuracy_of_every_figure_that_public_facts_tell(run):
    query = "SELECT AVG(income) AS a, MEDIAN(income) AS m, MAX(age) AS x, STDDEV(age) AS s FROM survey"
    code, out, err = run("ask", "survey.csv", query, "--schema", "survey.toml", "--epsilon", 1, "--cost")
    assert code == 0, err
    lines = dict(line.split(" ", 1) for line in out.splitlines()[:4])
    assert re.search(r"95 % within [\d.e+]+ with 1,000 rows$", lines["a"])
    assert re.search(r"95 % within [\d,]+ ranks$", lines["m"])
    assert re.search(r"95 % with at most [\d,]+ rows above it$", lines["x"])
    assert re.search(r"its square 95 % within [\d.e+]+ with 1,000 rows$", lines["s"])


def test_options_of_the_modes(run):
    words = ["ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1]
    for place, (mode, *options) in enumerate(
        (
            ["group", "--group", 3],
            ["group", "--group", "household:4"],
            ["correlated", "--cells", "age:30,region:1,income:20", "--tau", 3],
            ["correlated", "--cells", "age:30,income:30", "--tau-epsilon", 0.2],
        )
    ):
        code, out, err = run(*words, "--mode", mode, *options, "--ledger", f"{place}.db")
        assert code == 0, err
        assert "at most 3 counted per cell" in out or place != 2
    for bad in (["--group", "many"], ["--cells", "age"], ["--mode", "magic"]):
        assert run(*words, *bad)[0] == 2


@pytest.mark.parametrize(
    ("mode", "option"),
    [
        ("dp", ["--tau", 3]),
        ("dp", ["--tau-epsilon", 0.1]),
        ("group", ["--cells", "age:3"]),
        ("dp", ["--model", "pearson"]),
        ("heuristic", ["--budget", 1]),
        ("heuristic", ["--cost"]),
    ],
)
def test_an_option_that_a_mode_would_not_heed_is_refused_before_the_charge(run, tmp_path, mode, option):
    words = ["ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1, "--mode", mode]
    code, _, err = run(*words, *option)
    assert (code, f"'{option[0]}' is for mode" in err) == (2, True)
    assert not (tmp_path / "survey.ledger.db").exists()


def test_the_cost_alone_saves_no_run(run, tmp_path):
    words = ["ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1]
    code, _, err = run(*words, "--cost", "--save-run", "run.json")
    assert (code, "leave one of them out" in err) == (2, True)
    assert not (tmp_path / "survey.ledger.db").exists()


def test_saved_models_serve_the_modes(run):
    schema = load_survey_schema()
    public = load(load_survey(), schema)
    save_model(
        FrozenMixture.fit_public(public, 20, source="a public table", columns=["age", "income"]), "m.json"
    )
    save_model(Groups(schema, "household", cells=400), "g.json")
    save_model(GivenDegrees(factor=[[0.5]] * public.height), "d.json")
    words = ["ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1]
    for file, guarantee in (
        ("m.json", "mixture(age, income), 20 cells"),
        ("g.json", "groups(household), 401 cells"),
    ):
        code, out, err = run(
            *words, "--mode", "correlated", "--model", file, "--tau", 4, "--ledger", f"{file}.db"
        )
        assert code == 0, err
        assert guarantee in out
        assert "95 %" in out
        assert "epsilon 0.1, remaining 0.9" in out
    for file in ("m.json", "g.json", "d.json"):
        code, out, err = run(*words, "--mode", "heuristic", "--model", file)
        assert code == 0, err
        assert "guarantee: none (research reproduction)" in out
    Path("bad.json").write_text('{"format": "other"}')
    Path("text.json").write_text("degrees")
    Path("words.json").write_text('{"format": "shoal-degrees-1", "matrix": [["a"]]}')
    for bad in (
        ["--mode", "correlated", "--model", "d.json"],  # no public map to cells
        ["--mode", "dp", "--model", "m.json"],
        ["--mode", "heuristic", "--model", "m.json", "--cells", "age:3"],
        *(["--mode", "heuristic", "--model", f"{each}.json"] for each in ("bad", "text", "words", "absent")),
    ):
        code, out, err = run(*words, *bad)
        assert (code, out, err.count("\n")) == (2, "", 1), bad


def test_a_protected_copy_ends_the_total_of_a_data_set_under_a_ledger(run):
    words = ["protect", "survey.csv", "-k", 5, "--columns", "age,income", "--method", "mdav"]
    words += ["--schema", "survey.toml", "-o", "out.csv"]
    accepted = [*words, "--accept-risk"]
    assert run(*accepted)[0] == 0
    assert not Path("survey.ledger.db").exists()  # no ledger, nothing to end
    question = ["ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1]
    assert "has ended" not in run(*question)[1]
    assert run(*words)[0] == 1  # refused, so nothing has left
    assert "has ended" not in run(*question)[1]
    code, _, err = run(*accepted)
    assert code == 0, err
    assert "the ledger total of this data set has ended" in run(*question)[1]
    entries = list(Ledger("survey.ledger.db").entries())
    assert [each.body for each in entries if each.kind == "end"] == ["protected copy"]


@pytest.mark.parametrize("way", ["frame", "file", "schema that was read before"])
def test_a_protected_copy_made_in_python_ends_the_total_too(run, way):
    question = ["ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1]
    assert "has ended" not in run(*question)[1]
    asked = {"k": 5, "columns": ["age", "income"], "method": "mdav", "schema": "survey.toml"}
    if way.startswith("schema"):
        asked["schema"] = shoal.Schema.from_toml("survey.toml")

    def make(**more):
        if way == "frame":
            return shoal.protect(pl.read_csv("survey.csv"), **asked, **more)
        return protect_file("survey.csv", "out.csv", **asked, **more)

    with pytest.raises(GuaranteeError):
        make()
    assert "has ended" not in run(*question)[1]  # refused, so nothing has left
    make(accept_risk=True)
    assert "the ledger total of this data set has ended" in run(*question)[1]


def test_after_a_release_answers_count_double(run):
    code, _, err = run(
        *("release", "survey.csv", "--method", "insensitive", "-k", 200, "--epsilon", 0.5),
        *("--schema", "survey.toml", "-o", "out.csv"),
    )
    assert code == 0, err
    words = ["ask", "survey.csv", COUNT, "--schema", "survey.toml", "--data-version", "1", "--epsilon"]
    code, out, err = run(*words, 0.2, "--cost")
    assert "in all epsilon 0.4, remaining 0.5" in out, err
    code, out, _ = run(*words, 0.2)
    assert "epsilon 0.4, remaining 0.1" in out
    assert "counts 2 times" in out
    code, _, err = run(*words, 0.06)
    assert code == 1
    assert "does not allow epsilon 0.12: 0.1 of 1.0 is left. In this ledger's unit" in err
    assert "epsilon 0.0, remaining 0.1" in run(*words, 0.2)[1]  # what is held stays free


@pytest.mark.parametrize("more", [(), ("--method", "insensitive", "-k", 200)])
def test_the_same_release_of_the_same_data_version_is_free(run, more):
    words = ["release", "survey.csv", *more, "--epsilon", 0.3, "--schema", "survey.toml", "--columns", "age"]

    def released(version, output):
        code, out, err = run(*words, "--data-version", version, "-o", output, "--json")
        assert code == 0, err
        facts = json.loads(out)
        return facts["epsilon"], facts["remaining"]

    assert released("spring", "one.csv") == (0.3, 0.7)
    assert released("spring", "two.csv")[1] == 0.7
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()
    assert released("autumn", "three.csv")[1] == 0.4


def test_ledger_verify_backup_restore(run):
    run("ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", 0.1)
    code, out, _ = run("ledger", "verify", "survey.ledger.db", "--json")
    assert code == 0
    assert json.loads(out)["entries"] == 4
    assert run("ledger", "backup", "survey.ledger.db", "b.jsonl")[0] == 0
    head = json.loads(out)["head"]
    for beside in ("", ".secret", "-wal", ".signing-key", ".streams"):
        code, _, err = run("ledger", "backup", "survey.ledger.db", f"survey.ledger.db{beside}")
        assert (code, "file of its own" in err) == (2, True)
    run("ledger", "sign", "survey.ledger.db", "-o", "heads.txt")
    run("ask", "survey.csv", "SELECT COUNT(*) FROM survey", "--schema", "survey.toml", "--epsilon", 0.1)
    run("ledger", "sign", "survey.ledger.db", "-o", "later.txt")
    key = ("--public-key", "survey.ledger.db.signing-key.pub")
    code, _, err = run("ledger", "restore", "new.db", "b.jsonl", "--expects", "later.txt", *key)
    assert (code, Path("new.db").exists()) == (1, False)
    assert "older than the head expected" in err
    code, _, err = run("ledger", "restore", "new.db", "b.jsonl", "--expects", "no-such-file.txt")
    assert (code, "'--expects' must be a head's hash" in err, "no-such-file.txt" in err) == (2, True, True)
    code, out, _ = run("ledger", "restore", "new.db", "b.jsonl", "--expects", "heads.txt", *key)
    assert code == 0
    assert "Charges made after this backup are not in it" in out
    assert run("ledger", "verify", "new.db", "--expects", head)[1].startswith("5 entries, the chain holds")
    code, _, err = run("ledger", "restore", "new.db", "b.jsonl")
    assert code == 1
    assert "empty ledger only" in err
    assert run("ledger", "verify", "absent.db")[0] == 2
    import sqlite3

    with sqlite3.connect("new.db") as raw:
        raw.execute("UPDATE shoal_entries SET micro = 1 WHERE seq = 1")
    code, out, _ = run("ledger", "verify", "new.db")
    assert code == 1
    assert "entry 1 was changed" in out


def test_the_auditor_reports_a_witness(run):
    code, out, _ = run("audit-mechanism", "--mode", "heuristic", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["refuted"]
    assert facts["epsilon_lower_bound"] > facts["epsilon"]
    assert "degree 0.9" in facts["witness"]["name"]
    code, out, _ = run("audit-mechanism", "--mode", "correlated", "--runs", 1000, "--json")
    assert code == 0
    assert json.loads(out)["witness"] is None
    assert run("audit-mechanism", "--mode", "magic")[0] == 2


def _counted_in_rho(folder, budget=2.0):
    """The survey's schema, counted in zCDP."""
    from dataclasses import replace

    facts = replace(load_survey_schema(), budget=budget, per_analyst=None, currency="zcdp", delta=1e-6)
    (folder / "rho.toml").write_text(facts.to_toml())
    return "rho.toml"


def test_the_command_spends_rho_of_a_data_set_counted_in_zcdp(run, tmp_path):
    words = ["ask", "survey.csv", COUNT, "--schema", _counted_in_rho(tmp_path)]
    code, out, _ = run(*words, "--rho", 0.02, "--cost")
    assert code == 0
    assert "count (count): rho 0.02, noise scale 5, 95 % within 10\n" in out
    code, out, _ = run(*words, "--rho", 0.02)
    assert code == 0
    assert "guarantee: rho-zCDP, add or remove one record; all answers" in out
    assert "rho 0.02 (" in out
    assert run(*words)[0] == 2
    assert "must be given" in run(*words)[2]
    code, _, said = run(*words, "--rho", 5)
    assert code == 1
    assert "does not allow rho 5.0" in said


def test_the_command_answers_a_workload_for_one_charge(run, tmp_path):
    older = ";\n".join(f"SELECT COUNT(*) FROM t WHERE age >= {least}" for least in range(20, 80, 3))
    (tmp_path / "q.sql").write_text(older + ";\nSELECT sex, COUNT(*) AS n FROM t GROUP BY sex;\n")
    words = ["workload", "survey.csv", "q.sql", "--schema", _counted_in_rho(tmp_path)]
    code, out, _ = run(*words, "--rho", 0.01)
    assert code == 0
    assert "rho 0.01 (alone (" in out
    assert "times smaller than one by one" in out
    found = json.loads(run(*words, "--epsilon", 0.3, "--json")[1])
    assert len(found["answers"]) == 21
    assert found["answers"][0]["deviation"] < found["answers"][0]["alone"]
    assert run(*words)[0] == 2
    assert run("workload", "survey.csv", "none.sql", "--schema", "survey.toml", "--epsilon", 1)[0] == 2
    assert run(*words, "--rho", 0.01, "--mode", "heuristic")[0] == 2


def test_the_command_spends_what_an_error_costs(run):
    words = ["ask", "survey.csv", COUNT, "--schema", "survey.toml"]
    code, out, _ = run(*words, "--error", 60, "--cost")
    assert code == 0
    assert "95 % within 60" in out
    assert "such questions" in out
    assert run(*words, "--error", 60)[0] == 0


def test_a_workload_of_two_tables_from_an_address_costs_nothing_again(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(
        """
[table]
id = "people"
unit = {column = "house", rows = 4}
budget = 9.0
[columns.region]
kind = "category"
levels = ["a;b", "c"]
[links.v]
from = "visits"
to = "people"
key = "person"
"""
    )
    (tmp_path / "visits.toml").write_text('[table]\nid = "visits"\n[columns.cost]\nbounds = [0, 9]\n')
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(tmp_path / "x.db") as con:
        con.execute(
            "CREATE TABLE people AS SELECT range AS person, range // 2 AS house, 'a;b' AS region FROM range(60)"
        )
        con.execute("CREATE TABLE visits AS SELECT range % 60 AS person, range % 10 AS cost FROM range(100)")
    joined = "FROM visits v JOIN people p ON v.person = p.person"
    (tmp_path / "q.sql").write_text(
        f"SELECT COUNT(*) {joined} WHERE p.region = 'a;b'; SELECT COUNT(*) {joined} WHERE v.cost > 4;"
    )
    words = [
        "workload",
        "duckdb:///x.db?table=people",
        "q.sql",
        "--schema",
        "people.toml",
        "--epsilon",
        2,
        "--data-version",
        "1",
    ]
    words += ["--table", "visits=duckdb:///x.db?table=visits:visits.toml"]
    code, said, _ = run(*words)
    assert code == 0
    assert "guarantee: epsilon-DP, add or remove one house" in said
    assert "epsilon 2.0, remaining 7.0" in said
    assert "epsilon 0.0, remaining 7.0" in run(*words)[1]
    code, _, wrong = run(*words[:-1], "visits")
    assert code == 2
    assert "NAME=FILE:SCHEMA" in wrong


def test_the_charge_behind_a_quoted_figure_is_shown(run):
    words = ("ask", "survey.csv", COUNT, "--schema", "survey.toml", "--epsilon", "0.5", "--budget", "2")
    code, out, err = run(*words, "--ledger", "l.db", "--json")
    assert code == 0, err
    answer = json.loads(out)
    code, out, err = run("ledger", "show", "l.db", answer["entry"], "--json")
    assert code == 0, err
    shown = json.loads(out)
    assert (shown["entry"], shown["epsilon"], shown["dataset"]) == (answer["entry"], 0.5, "survey")
    assert str(answer["value"]) in json.dumps(shown["released"])
    code, _, err = run("ledger", "show", "l.db", "0123456789abcdef")
    assert code == 2
    assert "names 0" in err
