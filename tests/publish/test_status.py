"""The status: its rule, and what the command does by it; runs that repeat, runs that are stopped."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.errors import GuaranteeError, InputError
from shoal.privacy import k_anonymity
from shoal.publish import ProtectionRequest, protect, protect_file
from shoal.publish.stages.check import Exposure
from shoal.publish.status import status_of
from shoal.scenarios import RED_SHARE

COLUMNS = ("age", "note")


@pytest.mark.parametrize(
    ("at_risk", "attributes", "colour", "reason"),
    [
        (0.0, {}, "green", None),
        (0.0, {"disease": 0.0}, "green", None),
        (
            0.0,
            {"disease": 0.1},
            "amber",
            "10 % of the records have the same disease as every record that looks like them",
        ),
        (0.01, {}, "amber", "1 % of the records share age, note with fewer than 4 others"),
        (RED_SHARE, {}, "amber", "5 % of the records"),
        (0.051, {}, "red", "5.1 % of the records share age, note"),
        (1.0, {"disease": 1.0}, "red", "100 % of the records share"),
    ],
)
def test_the_rule(at_risk, attributes, colour, reason):
    status = status_of([], Exposure(at_risk, COLUMNS, attributes), 5)
    assert status.colour == colour
    assert any(reason in each for each in status.reasons) if reason else status.reasons == ()
    assert str(status).startswith(f"status {colour}: ")


def test_a_broken_model_is_red():
    verdict = k_anonymity(pl.DataFrame({"age": [1, 2, 3]}), ["age"], k=2)
    status = status_of([verdict], Exposure(0.0, ("age",), {}), 2)
    assert status.colour == "red"
    assert status.reasons == ("k-anonymity does not hold on age",)


def people(n: int = 120) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "number": rng.permutation(n) + 10_000,
            "age": rng.integers(18, 90, n),
            "income": rng.lognormal(9, 1, n).round(),
            "town": rng.choice(list("abcdef"), n),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    people().write_csv(tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str):
    return CliRunner().invoke(app, [*words])


def test_linkage_by_what_is_left_is_told_and_red_is_refused():
    frame = people()
    with pytest.raises(
        GuaranteeError, match="Status red, so nothing is given out: 100 % of the records share"
    ):
        protect(frame, 5, columns=["age", "income"], method="mdav")
    taken = protect(frame, 5, columns=["age", "income"], method="mdav", accept_risk=True)
    assert taken.status == "red"
    assert taken.frame.columns == ["age", "income", "town"]  # 'number' is an identifier
    X, Y = (each.select("age", "income").to_numpy().astype(float) for each in (frame, taken.frame))
    apart = (((Y[:, None] - X[None]) / X.std(axis=0)) ** 2).sum(axis=2)
    town = frame["town"].to_numpy()
    apart[town[:, None] != town[None]] = np.inf
    own = apart.argmin(axis=1) == np.arange(frame.height)
    assert taken.figures.linkage == pytest.approx(own.mean())
    assert taken.figures.dld <= 0.2 < taken.figures.linkage
    assert "status red" in taken._repr_html_()
    left = protect(frame, 5, columns=["age", "income"], leave=["number"], method="mdav", accept_risk=True)
    assert (left.status, left.figures.linkage) == ("red", 1.0)


def test_a_red_table_is_not_written_and_ends_no_total(folder):
    from shoal.dp.ledger.ledger import Ledger

    schema = shoal.schema.Schema({"age": shoal.schema.Column("age", "quasi", bounds=(0, 110))}, id="people")
    (folder / "t.toml").write_text(schema.to_toml())
    Ledger(folder / "t.ledger.db").close()
    before = (folder / "t.ledger.db").read_bytes()
    words = [
        "protect",
        "t.csv",
        "-k",
        "5",
        "-o",
        "o.csv",
        "--columns",
        "age",
        "--method",
        "mdav",
        "--schema",
        "t.toml",
    ]
    done = run(*words)
    assert done.exception.exit_code == 1
    assert not (folder / "o.csv").exists()
    assert (folder / "t.ledger.db").read_bytes() == before
    done = run(*words, "--accept-risk", "--report", "r.html", "--public-report", "p.html", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["status"] == "red"
    assert facts["at_risk"] > 0.9
    report = (folder / "r.html").read_text()
    assert "Status red: do not publish" in report
    assert "with the columns left as they are" in report
    assert facts["linkage"] > facts["dld"]
    public = (folder / "p.html").read_text()
    assert "Status red" in public
    assert "do not publish" not in public  # advice is for the custodian
    assert (folder / "t.ledger.db").read_bytes() != before


def test_a_protected_copy_ends_the_total_however_it_is_asked_for(folder):
    from shoal.dp.ledger.ledger import Ledger

    schema = shoal.schema.Schema(
        {"age": shoal.schema.Column("age", "quasi", bounds=(0, 110))}, id="people", budget=1.0
    )
    (folder / "t.toml").write_text(schema.to_toml())
    ledger = folder / "t.ledger.db"
    table = people().select("age")

    def ended(call) -> bool:
        for each in folder.glob("t.ledger.db*"):
            each.unlink()
        with Ledger(ledger):
            pass
        call()
        with Ledger(ledger) as found:
            return found.ended("people")

    asked = ProtectionRequest(schema="t.toml", method="mdav").to_dict()
    again = ProtectionRequest.from_dict(json.loads(json.dumps(asked)))
    table.write_csv("a.csv")
    words = ("a.csv", "-k", "5", "--schema", "t.toml", "-o")
    assert ended(lambda: protect(table, schema="t.toml", method="mdav"))
    assert ended(lambda: protect(table, **again.given()))
    assert ended(lambda: shoal.compare(table, [5], schema="t.toml", methods=["mdav"]).protect(table))
    assert ended(lambda: run("protect", *words, "o.csv", "--method", "mdav"))
    assert ended(lambda: run("compare", *words, "p.csv", "--methods", "mdav"))
    assert ended(lambda: protect_file("a.csv", "q.csv", schema="t.toml", method="mdav"))
    # What only measures gives nothing out.
    given = protect(table, schema=schema, method="mdav")
    assert not ended(lambda: shoal.attack(given.frame, table, request=again, targets=20))
    assert any("its total was not ended" in note for note in given.notes)
    assert not any("its total" in note for note in protect(table, method="mdav").notes)
    # A request whose schema is a text says where its file is; one whose file is gone says that it could not look.
    text = {"schema": schema.to_toml(), "method": "mdav"}
    assert ended(
        lambda: protect(table, **ProtectionRequest.from_dict(text | {"schema_file": "t.toml"}).given())
    )
    (folder / "t.toml").rename(folder / "moved.toml")
    for asked in (text, json.loads(json.dumps(again.to_dict()))):
        notes = protect(table, **ProtectionRequest.from_dict(asked).given()).notes
        assert any("its total was not ended" in note for note in notes)


@pytest.mark.parametrize("more", [[], ["--strata", "town"], ["--order", "shuffle"], ["--memory", "1GB"]])
def test_the_printed_command_repeats_the_file(folder, more):
    (folder / "t.toml").write_text('[columns.number]\nrole = "identifier"\nkind = "category"\n')
    words = [
        "protect",
        "t.csv",
        "-k",
        "4",
        "-o",
        "o.csv",
        "--schema",
        "t.toml",
        "--max-proposals",
        "20000",
        *more,
    ]
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("status ")
    made = (folder / "o.csv").read_bytes()
    (folder / "o.csv").unlink()
    repeat = next(line for line in done.stdout.splitlines() if line.startswith("repeat: "))
    again = run(*shlex.split(repeat.removeprefix("repeat: "))[1:])
    assert again.exit_code == 0, again.output
    assert (folder / "o.csv").read_bytes() == made


def test_an_order_that_tells_nothing_of_the_input():
    frame = people().drop("number")
    mixed = [
        protect(each, 4, method="mdav", order="shuffle").frame.rows() for each in (frame, frame.reverse())
    ]
    kept = protect(frame, 4, method="mdav").frame.rows()
    assert sorted(mixed[0]) == sorted(kept)
    assert mixed[0] != kept
    assert len(mixed[1]) == len(kept)


STOPPED = """
import sys
from shoal.publish.executors import parts
from shoal.publish.executors.parts import pool
import time
parts.part_rows = lambda *_: 200
solve_part = pool.solve_part
def slowly(table, plan, **options):
    print("solving", flush=True)
    time.sleep(0.5)
    return solve_part(table, plan, **options)
pool.solve_part = slowly
sys.argv = ["shoal", "protect", "t.csv", "-k", "4", "-o", "o.csv", "--memory", "1GB", "--method", "mdav", "--jobs", "1"]
from shoal.cli import main
main()
"""


def test_a_run_in_parts_that_is_stopped_says_one_sentence(folder):
    people(3_000).drop("number").write_csv(folder / "t.csv")
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED],
        env=os.environ | {"PYTHONPATH": str(Path(shoal.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "solving"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert (
        said == "shoal: Interrupted; nothing was written; the parts already solved are kept for --resume.\n"
    )
    assert not (folder / "o.csv").exists()


def test_loss_counts_coded_ends_and_recoding():
    frame = people().drop("number")
    plain = {"columns": {name: {"role": "quasi"} for name in ("age", "income")}}
    town = {"role": "quasi", "kind": "category"}
    tree = {"hierarchy": [["a", "b", "c", "d", "e", "f"]], "recode": 1}
    coded = {"columns": {**plain["columns"], "income": {"role": "quasi", "top": 5000}, "town": town | tree}}
    free = {"columns": {**plain["columns"], "town": town}}
    before, after = (protect(frame, 3, schema=each, method="mdav").figures for each in (free, coded))
    assert after.loss_per_column["income"] > before.loss_per_column["income"] + 5
    assert after.loss_per_column["town"] == pytest.approx(100.0)  # one set of all levels tells nothing
    assert after.false_cells == 0 < before.false_cells
    assert after.unchanged == 0


FAMILIES = pl.DataFrame(
    {
        "home": [1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8],
        "age": [20, 20, 20, 60, 60, 60, 20, 60, 20, 20, 60, 60],
    }
)


def linked_by_hand(frame, k):
    """The share of rows whose home has a set of ages that fewer than k homes have."""
    sets = {home: tuple(sorted(rows["age"])) for (home,), rows in frame.group_by("home")}
    alike = [list(sets.values()).count(sets[home]) for home in frame["home"]]
    return sum(number < k for number in alike) / frame.height


@pytest.mark.parametrize("method", ["mdav", "generalize", "suppress"])
@pytest.mark.parametrize("role", ["identifier", "household"])
def test_rows_with_the_same_hash_are_taken_together(method, role):
    schema = {"columns": {"home": {"role": role}, "age": {"role": "quasi", "kind": "category"}}}
    asked = {"schema": schema, "method": method}
    assert shoal.protect(FAMILIES, 2, **asked).status != "red"  # dropped, they link nothing
    found = shoal.protect(FAMILIES, 2, **asked, identifiers="hash", accept_risk=True)
    share = linked_by_hand(pl.DataFrame(found.frame), 2)
    told = any(
        "hashed home links" in reason and f"for {100 * share:.3g} % of the records" in reason
        for reason in found.reasons
    )
    assert told == (share > 0)
    assert (found.status == "red") == (share > RED_SHARE)


def test_families_that_their_hash_gives_away_are_not_given_out():
    schema = {"columns": {"home": {"role": "identifier"}, "age": {"role": "quasi"}}}
    with pytest.raises(GuaranteeError, match="rows that the hashed home links"):
        shoal.protect(FAMILIES, 2, schema=schema, method="mdav", identifiers="hash")


def test_hashes_that_link_nothing_are_green():
    frame = FAMILIES.with_columns(home=pl.int_range(12))
    schema = {"columns": {"home": {"role": "identifier"}, "age": {"role": "quasi"}}}
    assert shoal.protect(frame, 2, schema=schema, method="mdav", identifiers="hash").status == "green"


@pytest.mark.parametrize("where", [{"memory": "50MB"}, {"n_jobs": 1}])
def test_linked_rows_are_red_in_parts_too(where, tmp_path):
    FAMILIES.write_parquet(tmp_path / "in.parquet")
    schema = {"columns": {"home": {"role": "identifier"}, "age": {"role": "quasi"}}}
    with pytest.raises(GuaranteeError, match="rows that the hashed home links"):
        protect_file(
            tmp_path / "in.parquet",
            tmp_path / "out.parquet",
            2,
            schema=schema,
            method="mdav",
            identifiers="hash",
            **where,
        )
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("method", ["mdav", "generalize", "suppress"])
@pytest.mark.parametrize("role", ["identifier", "household"])
def test_an_order_that_tells_is_said(method, role):
    schema = {"columns": {"home": {"role": role}, "age": {"role": "quasi", "kind": "category"}}}
    asked = {"schema": schema, "method": method, "k": 2}
    told = "Rows with the same 'home' are next to each other"
    assert told in " ".join(shoal.protect(FAMILIES, **asked).notes)
    assert told not in " ".join(shoal.protect(FAMILIES, **asked, order="shuffle").notes)
    mixed = FAMILIES[[0, 4, 1, 8, 2, 9, 3, 11, 5, 6, 10, 7]]
    assert told not in " ".join(shoal.protect(mixed, **asked).notes)
    numbered = FAMILIES.with_columns(home=pl.int_range(12))
    if role == "identifier":
        assert "order of the identifier 'home'" in " ".join(shoal.protect(numbered, **asked).notes)


@pytest.mark.parametrize("method", ["mdav", "suppress"])
@pytest.mark.parametrize("cells", [[[i] for i in range(6)], pl.Series([object()] * 6, dtype=pl.Object)])
def test_identifiers_that_are_no_texts_are_dropped_and_never_hashed(cells, method):
    frame = pl.DataFrame({"key": cells, "x": range(6)})
    schema = {"columns": {"key": {"role": "identifier"}, "x": {"role": "quasi"}}}
    assert shoal.protect(frame, 3, schema=schema, method=method).frame.columns == ["x"]
    with pytest.raises(InputError, match="must be a text or a number to be hashed. Column 'key'"):
        shoal.protect(frame, 3, schema=schema, method=method, identifiers="hash", accept_risk=True)


def test_a_zero_written_with_a_minus_tells_its_record_apart(tmp_path):
    rng = np.random.default_rng(0)
    zero = np.zeros(60)
    zero[3] = -0.0
    frame = pl.DataFrame({"age": rng.integers(20, 60, 60).astype(float), "debt": zero})
    result = shoal.protect(frame, 5, method="mdav", leave="debt", accept_risk=True)
    assert "-0.0" in result.frame.write_csv()
    assert result.status == "red"
    frame.write_parquet(tmp_path / "in.parquet")
    in_parts = protect_file(
        tmp_path / "in.parquet",
        tmp_path / "out.csv",
        k=5,
        method="mdav",
        leave="debt",
        accept_risk=True,
        n_jobs=1,
    )
    assert in_parts.figures.at_risk == result.figures.at_risk


@pytest.mark.parametrize(
    "asked", [{"method": "suppress"}, {"method": "generalize"}, {"method": "mdav", "strata": "debt"}], ids=str
)
def test_equal_cells_of_a_class_are_written_alike(asked, tmp_path):
    """-0.0 and 0.0 were one class of three with a green status, and as text single records."""
    frame = pl.DataFrame(
        {"few": [1, 2] * 30, "debt": [0.0, -0.0, 0.0, 0.0, 1.5] * 12, "gap": [float("nan"), None, 2.0] * 20}
    )
    frame.write_parquet(tmp_path / "in.parquet")
    asked = {"k": 3, "on_missing": "category"} | asked
    done = shoal.protect(frame, **asked)
    protect_file(tmp_path / "in.parquet", tmp_path / "out.csv", n_jobs=1, **asked)
    for text in (done.frame.write_csv(), (tmp_path / "out.csv").read_text()):
        rows = text.splitlines()[1:]
        assert min(rows.count(row) for row in rows) >= 3
    assert done.status == "green"


def test_strata_without_a_number_are_one_stratum(tmp_path):
    frame = pl.DataFrame({"age": [20.0, 21, 22, 60, 61, 62, 63], "zone": [float("nan"), None, *[1.5] * 5]})
    assert shoal.protect(frame, 2, method="mdav", strata="zone").frame["zone"].to_list() == [
        None,
        None,
        *[1.5] * 5,
    ]


@pytest.mark.parametrize("method", ["mdav", "generalize", "suppress"])
def test_json_has_the_promised_keys_for_every_treatment(folder, method):
    words = [
        "protect",
        "t.csv",
        "-k",
        "4",
        "-o",
        "o.csv",
        "--leave",
        "number",
        "--method",
        method,
        "--accept-risk",
        "--json",
    ]
    facts = json.loads(run(*words).stdout)
    promised = "method k n_records n_groups smallest_group information_loss il2 dld seconds status at_risk"
    assert set(promised.split()) <= facts.keys()
    assert (facts["dld"] is None) == (method != "mdav")
