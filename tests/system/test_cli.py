"""The command as a newcomer runs it: in an empty folder, with good and with bad files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import psutil
import pytest

from shoal import datasets
from shoal.dp import Ledger

SHOAL = [sys.executable, "-m", "shoal"]


def test_protect_writes_a_protected_file(run, table):
    done = run(
        "protect", "t.csv", "-k", 4, "--method", "mdav", "-o", "out.csv", "--labels", "groups.csv", cwd=table
    )
    assert done.returncode == 0, done.stderr
    assert "40 records in 10 groups" in done.stdout
    assert done.stdout.splitlines()[0] == "status green: all conditions met"
    out = pl.read_csv(table / "out.csv")
    assert out.group_by(out.columns).len()["len"].min() >= 4
    assert pl.read_csv(table / "groups.csv")["group"].n_unique() == 10


def test_json_has_the_keys_that_stay(run, table):
    done = run("protect", "t.csv", "-k", 4, "--method", "mdav", "-o", "out.parquet", "--json", cwd=table)
    facts = json.loads(done.stdout)
    assert {
        "method",
        "k",
        "n_records",
        "n_groups",
        "smallest_group",
        "information_loss",
        "il2",
        "dld",
        "seconds",
        "status",
        "at_risk",
    } <= set(facts)
    assert facts["smallest_group"] >= 4
    assert pl.read_parquet(table / "out.parquet").height == 40


def test_the_printed_command_repeats_the_run(run, table):
    first = json.loads(
        run("protect", "t.csv", "-k", 4, "--method", "mdav", "-o", "out.csv", "--json", cwd=table).stdout
    )
    before = (table / "out.csv").read_bytes()
    words = first["settings"]["command"].split()
    assert words[0] == "shoal"
    assert run(*words[1:], cwd=table).returncode == 0
    assert (table / "out.csv").read_bytes() == before


def test_census_by_mdav(run, tmp_path):
    path = datasets.DATASETS["census"].path
    if path is None:
        pytest.skip("the benchmark table 'census' is not at hand (set SHOAL_DATA)")
    done = run("protect", path, "-k", 3, "--method", "mdav", "-o", "out.csv", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["information_loss"] == pytest.approx(5.692, abs=0.0005)
    assert pl.read_csv(tmp_path / "out.csv").group_by(pl.all()).len()["len"].min() >= 3


def test_compare_and_check(run, table):
    done = run(
        "compare", "t.csv", "-k", "3,4", "--methods", "mdav,cbfs", "--report", "map.html", "--json", cwd=table
    )
    facts = json.loads(done.stdout)
    assert {(row["method"], row["k"]) for row in facts["rows"]} == {
        ("mdav", 3),
        ("mdav", 4),
        ("cbfs", 3),
        ("cbfs", 4),
    }
    assert (table / "map.html").exists()
    run("protect", "t.csv", "-k", 4, "--method", "mdav", "-o", "out.csv", cwd=table)
    good = run("check", "out.csv", "--quasi", "age,income", "--k", 4, "--json", cwd=table)
    assert good.returncode == 0
    assert json.loads(good.stdout)["k"] >= 4
    assert run("check", "t.csv", "--quasi", "age,income", "--k", 4, cwd=table).returncode == 1


def test_pipes(run, table):
    text = (table / "t.csv").read_text()
    done = run("protect", "-", "-k", 4, "--method", "mdav", "-o", "-", "--json", cwd=table, text=text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "age,income,town"
    assert len(done.stdout.splitlines()) == len(text.splitlines())  # the table alone
    assert json.loads(done.stderr)["k"] == 4


def test_schema_and_datasets(run, table):
    assert "[columns.age]" in run("schema", "t.csv", cwd=table).stdout
    assert run("schema", "t.csv", "-o", "t.toml", cwd=table).returncode == 0
    done = run(
        "protect", "t.csv", "-k", 4, "--method", "mdav", "--schema", "t.toml", "-o", "out.csv", cwd=table
    )
    assert done.returncode == 0, done.stderr
    assert "survey" in run("datasets", cwd=table).stdout
    assert json.loads(run("datasets", "--json", cwd=table).stdout)["datasets"][0]["name"] == "survey"


BAD = {
    "empty": (b"", "is empty"),
    "one row": (b"x,y\n1,2\n", "at least that many"),
    "fewer than k": (b"x,y\n1,2\n3,4\n5,6\n", "at least that many"),
    "text in a number column": (b"x\n1\n2\n3\nfour\n5\n6\n", "must hold numbers. Got 'four'"),
    "nan": (b"x\n1\n2\nNaN\n4\n5\n6\n", "missing cells in 'x' (1)"),
    "inf": (b"x\n1\n2\ninf\n4\n5\n6\n", "infinite cells in 'x' (1)"),
    "zero bytes": (b"x\x00y\n1\n2\n", "must be text"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_files_are_one_sentence_and_exit_code_2(run, tmp_path, case):
    data, message = BAD[case]
    (tmp_path / "bad.csv").write_bytes(data)
    done = run("protect", "bad.csv", "-k", 4, "--method", "mdav", "-o", "out.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert os.listdir(tmp_path) == ["bad.csv"]


@pytest.mark.parametrize(
    "words",
    [
        ["protect", "nope.csv", "-o", "o.csv"],
        ["protect", "t.csv", "-o", "o.docx"],
        ["protect", "t.csv", "-o", "no/o.csv"],
        ["protect", "t.csv", "-o", "o.csv", "--columns", "nope"],
        ["protect", "t.csv", "-o", "o.csv", "--method", "magic"],
        ["protect", "t.csv", "-o", "o.csv", "-k", "many"],
        ["protect", "t.csv", "-o", "o.csv", "-k", "1"],
        ["protect", "t.csv", "-o", "o.csv", "--schema", "nope.toml"],
        ["protect", "t.csv"],
        ["nonsense"],
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(run, table, words):
    done = run(*words, cwd=table)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert not (table / "o.csv").exists()


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"x,y\n" + b"1,2\n" * 9, 9),
        (b"x,y\n" + b"".join(b"%d,7\n" % i for i in range(9)), 9),
        (b"x\n" + b"".join(b"%de300\n" % (i - 4) for i in range(9)), 9),
    ],
    ids=["duplicate rows", "constant column", "huge values"],
)
def test_odd_but_good_files_work(run, tmp_path, data, rows):
    (tmp_path / "t.csv").write_bytes(data)
    done = run("protect", "t.csv", "-k", 3, "--method", "mdav", "-o", "o.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "o.csv").height == rows


def test_no_permission_to_write(run, table):
    if os.geteuid() == 0:
        # Root may write anywhere: take a folder that nobody can write to.
        done = run("protect", "t.csv", "-k", 4, "--method", "mdav", "-o", "/proc/o.csv", cwd=table)
    else:
        (table / "locked").mkdir(mode=0o500)
        done = run("protect", "t.csv", "-k", 4, "--method", "mdav", "-o", "locked/o.csv", cwd=table)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_interruption_writes_nothing(tmp_path):
    rng = np.random.default_rng(0)
    pl.DataFrame(rng.normal(size=(60_000, 12))).write_csv(tmp_path / "big.csv")
    process = subprocess.Popen(
        [*SHOAL, "protect", "big.csv", "-k", "3", "--method", "md", "-o", "o.csv"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    at_work, until = psutil.Process(process.pid), time.monotonic() + 120
    while at_work.cpu_times().user < 3 and time.monotonic() < until:  # starting takes one, the method minutes
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 130, errors
    assert errors == "shoal: Interrupted; nothing was written.\n"
    assert os.listdir(tmp_path) == ["big.csv"]


STARTING = """
import builtins, os, signal, sys
usual, where = builtins.__import__, sys.argv.pop(1)

def with_signal(name, *rest, **more):
    if name == where and sys._getframe(1).f_globals["__name__"] != "__main__":
        builtins.__import__ = usual
        exec("os.kill(os.getpid(), signal.SIGINT)")
    return usual(name, *rest, **more)

builtins.__import__ = with_signal
from shoal.cli import main
main()
"""


@pytest.mark.parametrize(
    "where", ["shoal.cli._commands", "typer", "shoal.cli._console", "shoal.publish.request"]
)
def test_interruption_while_the_command_is_loaded(tmp_path, where):
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n")
    words = ["protect", str(table), "-o", str(tmp_path / "o.csv")]
    done = subprocess.run(
        [sys.executable, "-c", STARTING, where, *words], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "shoal: Interrupted; nothing was written.\n")
    assert os.listdir(tmp_path) == ["t.csv"]


CHARGED = """
import os, signal, sys
from shoal.cli import main
from shoal.dp.answering import rows
rows.compute = rows.partial = lambda *_: os.kill(os.getpid(), signal.SIGINT)
main()
"""


def test_interruption_after_a_charge_says_that_it_stays(tmp_path):
    (tmp_path / "t.csv").write_text("age\n30\n")
    (tmp_path / "s.toml").write_text(
        '[table]\nid = "t"\nbudget = 1.0\nversion = "1"\n[columns.age]\nbounds = [0, 99]\n'
    )
    words = ["ask", "t.csv", "SELECT COUNT(*) FROM t", "--schema", "s.toml", "--epsilon", "0.5"]
    done = subprocess.run(
        [sys.executable, "-c", CHARGED, *words], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 130
    assert "What was charged stays charged" in done.stderr
    with Ledger(tmp_path / "s.ledger.db") as ledger:
        assert ledger.spent("t") == 500_000


def test_help_answers_at_once(run, tmp_path):
    run("--help", cwd=tmp_path)
    assert run("--help", cwd=tmp_path).returncode == 0
    modules = subprocess.run(
        [sys.executable, "-c", "import sys, shoal.cli; print(*[m for m in ('numba', 'polars', 'sklearn', 'scipy') if m in sys.modules])"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert modules == []


def test_version(run, tmp_path):
    assert run("--version", cwd=tmp_path).stdout.strip() == "shoal 0.1.0"
