"""One request gives one result wherever rows live: memory, parts, Spark, and what stands around them."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import io
from shoal.errors import ShoalError
from shoal.publish import protect, protect_file
from shoal.publish.executors import parts

pytestmark = pytest.mark.filterwarnings("ignore")

SCHEMA = """
[table]
id = "everything"
[columns.person]
role = "identifier"
kind = "category"
[columns.home]
role = "household"
kind = "category"
[columns.age]
role = "quasi"
bounds = [0, 110]
missing_codes = ["-9"]
on_missing = "impute"
[columns.income]
role = "quasi"
top = 30000
bottom = 1000
importance = 2.0
[columns.job]
role = "quasi"
kind = "category"
levels = ["cook", "baker", "nurse", "smith"]
hierarchy = [["cook", "baker"], ["nurse", "smith"]]
recode = 1
[columns.school]
role = "quasi"
kind = "ordered"
levels = ["none", "first", "second", "third"]
missing_codes = ["?"]
on_missing = "category"
[columns.born]
role = "quasi"
kind = "date"
[columns.member]
role = "quasi"
kind = "boolean"
[columns.region]
role = "stratum"
kind = "category"
[columns.w]
role = "weight"
[columns.disease]
role = "sensitive"
kind = "category"
missing_codes = ["NA"]
[columns.country]
role = "leave"
kind = "category"
"""


def everything(n: int = 400, seed: int = 4) -> pl.DataFrame:
    """A table with a column of every kind and role, codes for missing cells, a small stratum and households."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(n), rng.integers(1, 4, n))[:n]
    region = np.where(home < 20, "isle", np.where(home % 2 == 0, "north", "south"))
    region = np.where(home < 2, "rock", region)
    age = rng.integers(0, 95, n)
    return pl.DataFrame(
        {
            "person": [f"p{i}" for i in range(n)],
            "home": [f"h{i}" for i in home],
            "age": np.where(rng.random(n) < 0.05, -9, age),
            "income": rng.lognormal(9.6, 1, n).round(2),
            "job": rng.choice(["cook", "baker", "nurse", "smith"], n),
            "school": rng.choice(["none", "first", "second", "third", "?"], n),
            "born": [f"{2020 - int(each)}-0{1 + i % 9}-11" for i, each in enumerate(age)],
            "member": rng.random(n) < 0.4,
            "region": region,
            "w": rng.uniform(1, 9, n).round(1),
            "disease": rng.choice(["flu", "cold", "gout", "NA"], n),
            "country": ["here"] * n,
        }
    )


@pytest.fixture
def folder(tmp_path):
    frame = everything()
    frame.write_csv(tmp_path / "t.csv")
    frame.with_columns(pl.col("born").str.to_date()).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.toml").write_text(SCHEMA)
    return tmp_path


ASKED = {"k": 4, "l": 2, "t": 0.5, "method": "mdav", "accept_risk": True}


def alike(one: pl.DataFrame, other: pl.DataFrame) -> None:
    """The same columns, missing cells, recoded values and classes."""
    assert one.columns == other.columns
    for name in one.columns:
        assert one[name].null_count() == other[name].null_count(), name
        a, b = one[name], other[name]
        if a.dtype.is_float():
            np.testing.assert_allclose(a.to_numpy(), b.cast(pl.Float64).to_numpy(), rtol=1e-12, err_msg=name)
        else:
            assert a.cast(pl.String).to_list() == b.cast(pl.String).to_list(), name


FIGURES = (
    "n_records", "n_groups", "smallest_group", "largest_group", "information_loss", "at_risk", "dld", "linkage",
    "false_cells", "suppressed_cells", "suppressed_records", "unchanged", "measured_records",
)  # fmt: skip


def said_alike(one, other) -> None:
    """The same status, verdicts and figures, the risk of being found before and after included."""
    assert (one.status, one.reasons) == (other.status, other.reasons)
    assert [(v.model, v.value, v.holds) for v in one.verdicts] == [
        (v.model, v.value, v.holds) for v in other.verdicts
    ]
    for name in FIGURES:
        assert getattr(one.figures, name) == pytest.approx(getattr(other.figures, name)), name
    assert one.figures.attribute_disclosure == pytest.approx(other.figures.attribute_disclosure)
    assert one.figures.loss_per_column == pytest.approx(other.figures.loss_per_column)
    for part in ("before", "after", "per_column"):
        assert getattr(one.figures.identification, part) == pytest.approx(
            getattr(other.figures.identification, part)
        ), part
    assert one.notes == other.notes


def test_memory_and_parts_give_the_same_file(folder):
    frame = io.read_table(folder / "t.parquet")
    whole = protect(frame, schema=folder / "t.toml", **ASKED)
    done = protect_file(
        folder / "t.parquet", folder / "o.parquet", schema=folder / "t.toml", n_jobs=1, **ASKED
    )
    alike(whole.frame, pl.read_parquet(folder / "o.parquet"))
    said_alike(whole, done)
    published = whole.frame
    assert published["income"].max() <= 30_000
    assert published["income"].min() >= 1_000
    assert set(published["job"]) <= {"cook|baker", "nurse|smith"}
    assert "-9" not in set(published["age"].cast(pl.String))
    assert published["disease"].null_count() == (frame["disease"] == "NA").sum()
    assert not {"person", "home"} & set(published.columns)
    assert "rock" not in published["region"].to_list()


def test_the_command_writes_the_same_bytes_in_memory_and_in_parts(folder, monkeypatch):
    from typer.testing import CliRunner

    from shoal.cli import app

    monkeypatch.chdir(folder)
    words = [
        "protect",
        "t.csv",
        "-k",
        "4",
        "--schema",
        "t.toml",
        "--method",
        "mdav",
        "--accept-risk",
        "--json",
    ]
    facts = {}
    for name, more in (("whole", []), ("parts", ["--memory", "1GB", "--jobs", "1"])):
        done = CliRunner().invoke(app, [*words, "-o", f"{name}.csv", *more])
        assert done.exit_code == 0, done.output
        facts[name] = json.loads(done.stdout)
    assert (folder / "whole.csv").read_bytes() == (folder / "parts.csv").read_bytes()
    for key in ("status", "at_risk", "information_loss", "n_groups", "dld"):
        assert facts["whole"][key] == pytest.approx(facts["parts"][key]), key


def test_several_parts_keep_what_was_asked_for(folder, monkeypatch):
    monkeypatch.setattr(parts, "part_rows", lambda *_: 120)
    done = protect_file(
        folder / "t.parquet", folder / "o.parquet", schema=folder / "t.toml", n_jobs=1, **ASKED
    )
    assert done.parts > 1
    assert all(verdict.holds is not False for verdict in done.verdicts)
    assert {verdict.model for verdict in done.verdicts} >= {"k-anonymity", "k-anonymity of households"}
    out = pl.read_parquet(folder / "o.parquet")
    assert out["income"].max() <= 30_000
    assert set(out["job"]) <= {"cook|baker", "nurse|smith"}
    totals = [float(each["w"].sum()) for each in (everything(), out)]
    assert totals[0] == pytest.approx(totals[1])


@pytest.mark.usefixtures("spark")
def test_spark_gives_what_memory_gives(folder):
    frame = io.read_table(folder / "t.parquet")
    whole = protect(frame, schema=folder / "t.toml", **ASKED)
    done = protect_file(folder / "t.parquet", folder / "o", schema=folder / "t.toml", engine="spark", **ASKED)
    alike(whole.frame, pl.read_parquet(folder / "o" / "*.parquet"))
    said_alike(whole, done)


def test_check_and_compare_read_the_same_table(folder, monkeypatch):
    """`check` finds in the file what `protect` said of it; `compare` has its loss and prints the command for it."""
    from typer.testing import CliRunner

    from shoal.cli import app

    monkeypatch.chdir(folder)

    def run(*words: str) -> dict:
        done = CliRunner().invoke(app, [*words, "--schema", "t.toml", "--json"])
        assert done.exit_code == 0, (done.output, done.exception)
        return json.loads(done.stdout)

    facts = run("protect", "t.csv", "-k", "4", "--method", "mdav", "--accept-risk", "-o", "o.csv")
    known = "age,income,job,school,born,member,region"
    found = run("check", "o.csv", "--quasi", known, "--sensitive", "disease")
    assert found["k"] == facts["verdicts"][0]["value"]
    assert found["l_distinct"] == facts["verdicts"][1]["value"]
    assert found["missing_records"] == facts["verdicts"][0]["missing_records"]
    compared = run("compare", "t.csv", "-k", "4", "--methods", "mdav")
    row = compared["rows"][0]
    assert compared["columns"] == facts["settings"]["columns"]
    for name in ("information_loss", "dld", "il2", "n_groups", "smallest_group"):
        assert row[name] == pytest.approx(facts[name]), name
    made = (folder / "o.csv").read_bytes()
    words = shlex.split(compared["command"])[1:]
    done = CliRunner().invoke(app, [*words, "--accept-risk"])
    assert done.exit_code == 0, done.output
    assert (folder / "protected.csv").read_bytes() == made


@st.composite
def requests(draw):
    """Random requests over the table above."""
    asked = {
        "k": draw(st.integers(2, 7)),
        "method": draw(st.sampled_from(["mdav", "cbfs", "fdm", "anneal"])),
        "integers": draw(st.sampled_from(["float", "round"])),
        "accept_risk": True,
        "on_missing": draw(st.sampled_from([None, "impute", "category", "drop"])),
        "order": draw(st.sampled_from(["keep", "shuffle"])),
    }
    if asked["method"] == "anneal":
        asked["max_proposals"] = 2_000
    if draw(st.booleans()):
        asked |= {"identifiers": "hash", "key": b"k" * 32}
    asked["small_strata"] = draw(st.sampled_from(["merge", "merge", "merge", "refuse"]))
    if draw(st.booleans()):
        asked["l"] = 2
    if draw(st.booleans()):
        asked["t"] = draw(st.sampled_from([0.4, 0.7]))
    if draw(st.booleans()):
        asked["leave"] = draw(st.lists(st.sampled_from(["age", "job", "born"]), unique=True, max_size=2))
    return asked, draw(st.booleans()), draw(st.integers(0, 3))


def compare_executors(folder: Path, drawn, *places: str) -> None:
    """Send a request through several executors: the same rows and figures, or the same refusal."""
    asked, households, seed = drawn
    text = SCHEMA if households else SCHEMA.replace('role = "household"', 'role = "identifier"')
    (folder / "t.toml").write_text(text)
    everything(150, seed).with_columns(pl.col("born").str.to_date()).write_parquet(folder / "t.parquet")
    frame = io.read_table(folder / "t.parquet")
    given = {"schema": folder / "t.toml", **asked}
    results, said = [], []
    for place in places:
        try:
            if place == "memory":
                result = protect(frame, **given)
                results.append((result, result.frame))
            elif place == "parts":
                result = protect_file(folder / "t.parquet", folder / "o.parquet", n_jobs=1, **given)
                results.append((result, pl.read_parquet(folder / "o.parquet")))
            else:
                result = protect_file(folder / "t.parquet", folder / "o", engine="spark", **given)
                results.append((result, pl.read_parquet(folder / "o" / "*.parquet")))
            said.append("")
        except ShoalError as error:
            said.append(str(error))
    assert len(set(said)) == 1
    for result, table in results[1:]:
        if "spark" in places and asked["order"] == "shuffle":
            alike(results[0][1].sort(pl.all()), table.sort(pl.all()))
        else:
            alike(results[0][1], table)
        said_alike(results[0][0], result)


@settings(max_examples=12, deadline=None)
@given(requests())
def test_random_requests_give_the_same_in_memory_and_in_parts(tmp_path_factory, drawn):
    compare_executors(tmp_path_factory.mktemp("random"), drawn, "memory", "parts")


@pytest.mark.usefixtures("spark")
@settings(max_examples=3, deadline=None)
@given(requests())
def test_random_requests_give_the_same_in_memory_and_on_spark(tmp_path_factory, drawn):
    compare_executors(tmp_path_factory.mktemp("random"), drawn, "memory", "spark")


def test_the_job_of_the_publish_page_gives_what_memory_gives(folder):
    pytest.importorskip("fastapi", reason="the page needs the extra 'server'")
    from shoal.schema import Schema
    from shoal.server import worker
    from shoal.server.job_files import JobState, RunResult, WantedRun

    job = folder / "job"
    job.mkdir()
    shutil.copy(folder / "t.csv", job / "table.csv")
    shutil.copy(folder / "t.toml", job / "codebook.toml")
    JobState(ending=".csv", state="running").write(job)
    schema = Schema.from_toml(folder / "t.toml")
    columns = {name: {"role": column.role} for name, column in schema.columns.items()}
    WantedRun(columns=columns, request=ASKED).write(job)
    worker.run(job)
    whole = protect(io.read_table(folder / "t.csv"), schema=schema, **ASKED)
    alike(whole.frame, io.read_table(job / "protected.csv"))
    facts = RunResult.read(job)
    assert (facts.status, tuple(facts.reasons)) == (whole.status, whole.reasons)
    assert f"Status {whole.status}" in (job / "report.html").read_text()


def test_ask_reads_the_missing_codes_that_protect_reads(folder):
    dp = pytest.importorskip("shoal.dp", reason="answers need the extra 'dp'")
    from shoal.schema import Schema, Unit, decode_table

    schema = Schema.from_toml(folder / "t.toml")
    frame = io.read_table(folder / "t.csv")
    missing = decode_table(frame, schema)["age"].null_count()
    session = dp.Session(frame, Schema({"age": schema.columns["age"]}, id="e", unit=Unit()), budget=1e6)
    there = session.ask("SELECT COUNT(age) FROM t", epsilon=1000).value
    assert round(there) == frame.height - missing
    assert missing > 0
