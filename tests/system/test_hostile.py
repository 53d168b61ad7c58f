"""What a careless or hostile user types: one sentence and exit code 2, nothing half-written, nothing overwritten."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from shoal import io
from shoal.errors import InputError

PROTECT = ("protect", "t.csv", "-k", 4, "--method", "mdav", "-o")
SCHEMA = """
[table]
id = "t"
budget = 1.0
[columns.age]
role = "quasi"
kind = "number"
bounds = [0, 110]
"""


@pytest.fixture
def house(table):
    """A table, its schema, and what else a command may read."""
    (table / "t.toml").write_text(SCHEMA)
    pl.DataFrame({"a": range(30), "b": [(7 * i + 1) % 30 for i in range(30)]}).write_csv(table / "edges.csv")
    return table


def refused(done, *said):
    assert done.returncode == 2, done
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for each in said:
        assert each in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*PROTECT, "t.csv"), "'--output'"),
        ((*PROTECT, "./../{here}/t.csv"), "'--output'"),
        ((*PROTECT, "t.csv", "--memory", "2GB"), "'--output'"),
        ((*PROTECT, "out.csv", "--labels", "out.csv"), "which is '--output'"),
        ((*PROTECT, "out.csv", "--report", "t.csv"), "a file that is read"),
        ((*PROTECT, "out.csv", "--schema", "t.toml", "--report", "t.toml"), "a file that is read"),
        ((*PROTECT, "out.csv", "--report", "r.html", "--public-report", "r.html"), "'--report'"),
        (("compare", "t.csv", "-k", 4, "--methods", "mdav", "--report", "t.csv"), "'--report'"),
        (("schema", "t.csv", "-o", "t.csv"), "'--output'"),
        (("release", "t.csv", "--epsilon", 1, "--schema", "t.toml", "-o", "t.csv"), "'--output'"),
        (("release-graph", "edges.csv", "--epsilon", 1, "-k", 2, "-o", "edges.csv"), "'--output'"),
        (("ledger", "backup", "t.ledger.db", "t.ledger.db"), "'the backup'"),
        (("reproduce", "split", "--markdown", "a.html", "--report", "a.html"), "'--report'"),
    ],
)
def test_what_is_read_is_never_written_over(run, house, words, said):
    (house / "t.ledger.db").write_bytes(b"kept")
    before = {path: path.read_bytes() for path in house.iterdir()}
    refused(run(*(str(word).format(here=house.name) for word in words), cwd=house), said)
    assert {path: path.read_bytes() for path in house.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*PROTECT, "out.csv", "--columns", ",,"), "Names separated by commas"),
        (
            (*PROTECT, "out.csv", "--columns", "age", "--strata", "age"),
            "'age' was asked for as quasi and as stratum",
        ),
        ((*PROTECT, "out.csv", "--columns", "age", "--weights", "age"), "one role"),
        ((*PROTECT, "out.csv", "--labels", "groups.xyz"), "must end in one of"),
        (("check", "t.csv", "--quasi", "age", "--l", 2), "demand 'l' of check is on sensitive columns"),
        (("check", "t.csv", "--quasi", "age", "--t", 0.2), "demand 't'"),
        (("check", "t.csv", "--quasi", "age", "--delta", "0.1,0.9"), "--population"),
    ],
)
def test_a_demand_is_met_or_refused_never_passed_over(run, house, words, said):
    before = set(house.iterdir())
    refused(run(*words, cwd=house), said)
    assert set(house.iterdir()) == before


@pytest.mark.parametrize("ending", [".sav", ".dta", ".xpt", ".por"])
def test_what_a_format_cannot_hold_leaves_nothing_behind(run, tmp_path, ending):
    pytest.importorskip("pyreadstat", reason="statistical formats need the extra 'stat'")
    pl.DataFrame({"the age": np.arange(20) + 0.5, "收入": np.arange(20) + 0.5}).write_csv(tmp_path / "t.csv")
    done = run(*PROTECT, f"out{ending}", "--labels", "groups.csv", "--report", "r.html", cwd=tmp_path)
    refused(done, f"cannot be written to 'out{ending}'")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_files_written_together_appear_together(tmp_path):
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("old")
    with pytest.raises(InputError, match="folder"), io.together():
        io.write_text("new", first)
        assert first.read_text() == "old"
        io.write_text("new", tmp_path / "nowhere" / "second.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["first.txt"]
    assert first.read_text() == "old"
    with io.together():
        io.write_text("newer", first)
        io.write_text("new", first)
        io.write_text("new", second)
    assert first.read_text() == second.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.txt", "second.txt"]


def test_two_hundred_columns(run, tmp_path):
    cells = np.random.default_rng(0).normal(size=(30, 200))
    pl.DataFrame(cells, schema=[f"c{j}" for j in range(200)]).write_csv(tmp_path / "t.csv")
    done = run(*PROTECT, "out.csv", "--report", "r.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "c11 and 188 more: 4 in 7 classes" in done.stdout
    assert len(pl.read_csv(tmp_path / "out.csv").columns) == 200


@pytest.mark.parametrize("value", [1e308, 1e-310, 9_223_372_036_854_775_000, 10**30])
def test_extreme_numbers_are_published_as_numbers(run, tmp_path, value):
    pl.DataFrame({"x": [str(value * (1 if i % 2 else -1)) for i in range(40)]}).write_csv(tmp_path / "t.csv")
    done = run(*PROTECT, "out.csv", "--integers", "round", "--report", "r.html", cwd=tmp_path)
    if value == 10**30 and done.returncode == 2:  # an older polars reads no integers beyond 64 bits
        assert "could not parse" in done.stderr
        assert not (tmp_path / "out.csv").exists()
        return
    assert (done.returncode, done.stderr) == (0, "")
    out = pl.read_csv(tmp_path / "out.csv")["x"].cast(pl.Float64).to_numpy()
    assert np.isfinite(out).all()
    np.testing.assert_allclose(np.abs(out), float(value), rtol=1e-9)


def test_a_pipe_gets_the_table_alone(run, table):
    done = run(*PROTECT, "-", cwd=table)
    assert done.stdout.splitlines()[0] == "age,income,town"
    assert len(done.stdout.splitlines()) == 41
    assert "40 records in 10 groups of 4 " in done.stderr


def test_a_column_of_missing_cells_alone_does_not_stand_in_the_way(run, tmp_path):
    pl.DataFrame({"age": np.arange(20) + 0.5, "empty": [None] * 20}).write_parquet(tmp_path / "t.parquet")
    done = run("protect", "t.parquet", "-k", 4, "--method", "mdav", "-o", "out.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(tmp_path / "out.parquet")["empty"].null_count() == 20


def test_a_disk_that_fails_is_one_sentence(run, table, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device", "t.csv")

    monkeypatch.setattr(io, "read_source", fail)
    refused(run(*PROTECT, "out.csv", cwd=table), "'t.csv': No space left on device.")


def test_json_is_one_object_on_the_output(run, table):
    done = run(*PROTECT, "out.csv", "--json", cwd=table)
    assert json.loads(done.stdout)["smallest_group"] >= 4
    assert done.stderr == ""


def test_a_ledger_is_not_made_by_looking_for_one(run, house):
    (house / "empty.db").write_bytes(b"")
    done = run("ledger", "verify", "empty.db", cwd=house)
    assert (done.returncode, (house / "empty.db").stat().st_size) == (1, 0)
    assert run("ledger", "verify", "nosuch.db", cwd=house).returncode == 2
    assert run("ledger", "restore", "new.db", "t.csv", cwd=house).returncode == 1
    assert not (house / "new.db").exists()


def test_bundled_files_are_copied_together_or_not_at_all(run, tmp_path, monkeypatch):
    import shutil

    copied = []

    def fail_at_the_third(source, target):
        copied.append(target)
        if len(copied) == 3:
            raise OSError(28, "No space left on device")
        return target.write_bytes(source.read_bytes())

    monkeypatch.setattr(shutil, "copyfile", fail_at_the_third)
    refused(run("datasets", "--copy", "new", cwd=tmp_path), "No space left on device")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_demo_folder_keeps_what_was_changed_in_it(tmp_path):
    from shoal.cli.serve import _make_demo

    _make_demo(tmp_path)
    (tmp_path / "survey.toml").write_text("mine")
    _make_demo(tmp_path)
    assert (tmp_path / "survey.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,a\n1,2\n", "'a' more than once"),
        ("a,b\n1,2\n3\n", "Got 1 at line 3"),
        ("a,b\n1,2\n3,4,5\n", "Got 3 at line 3"),
    ],
)
def test_a_header_and_rows_of_a_table_in_parts_that_do_not_fit(run, tmp_path, text, said):
    (tmp_path / "t.csv").write_bytes(text.encode())
    refused(run("protect", "t.csv", "-k", 2, "-o", "out.csv", "--memory", "1GB", cwd=tmp_path), said)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_old_line_ends_are_read_alike_in_memory_and_in_parts(run, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\r1,2\r3,4\r5,6\r7,8\r")
    for name, more in (("m.csv", ()), ("p.csv", ("--memory", "1GB"))):
        assert run("protect", "t.csv", "-k", 2, "-o", name, *more, cwd=tmp_path).returncode == 0
    assert (tmp_path / "m.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
    assert pl.read_csv(tmp_path / "m.csv").shape == (4, 2)


def test_a_column_without_a_name_of_a_table_in_parts(run, tmp_path):
    rows = "\n".join(f"{i + 0.5},{i * i},x" for i in range(20))
    (tmp_path / "t.csv").write_text(f"age,,town\n{rows}\n")
    done = run(*PROTECT, "out.csv", "--memory", "1GB", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "out.csv").columns == ["age", "column_2", "town"]


def test_spark_says_that_it_reads_parquet(run, table):
    done = run("protect", "t.csv", "-k", 4, "-o", "out", "--engine", "spark", cwd=table)
    refused(done, "Spark reads Parquet, a file or a folder of files. Got 't.csv'.")


def test_one_name_does_for_a_list_in_parts(table):
    from shoal.publish import protect_file

    done = protect_file(
        table / "t.csv", table / "out.csv", k=4, columns="age", strata="town", accept_risk=True
    )
    assert done.settings()["strata"] == ["town"]
