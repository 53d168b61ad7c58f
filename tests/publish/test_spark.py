"""Spark gives what the local engine gives, also on a cluster that loses a worker."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import privacy
from shoal.errors import InputError

if importlib.util.find_spec("pyspark") is None:
    pytest.skip("pyspark is not installed", allow_module_level=True)
if shutil.which("java") is None:
    pytest.skip("Java is absent: Spark needs Java 17", allow_module_level=True)

from shoal.publish import ProtectionRequest, protect_file
from shoal.publish.executors import parts
from shoal.publish.executors import spark as executor
from shoal.publish.executors.parts import Parts
from shoal.publish.stages.roles import settle_roles
from shoal.publish.stages.routing import merged_parts, route
from shoal.publish.stages.solve import solve_part
from shoal.publish.stages.survey import ROW
from shoal.publish.treatments.groups import plan_rows, settle_method
from surveys import schema, survey

SRC = str(Path(shoal.__file__).parents[1])
pytestmark = pytest.mark.filterwarnings("ignore")


def table(n: int = 2_400) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "person": [f"p{i}" for i in range(n)],
            "x": rng.normal(size=n),
            "y": rng.lognormal(size=n),
            "z": rng.integers(0, 50, n),
            "job": rng.choice(["cook", "nurse", "smith"], n),
            "region": rng.choice(["north", "south"], n),
        }
    )


SCHEMA = {
    "columns": {
        "job": {"role": "quasi", "kind": "category"},
        "person": {"role": "identifier", "kind": "category"},
        "region": {"role": "stratum", "kind": "category"},
    }
}


def planned(source: Path, asked: ProtectionRequest):
    with Parts(source, source.parent / "planned.parquet").open(asked, lambda *_: None) as rows:
        return plan_rows(rows, settle_roles(rows.head(), asked), asked, settle_method(asked))


def test_groups_equal_those_of_the_local_engine(spark, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    frame = table()
    frame[:1000].write_parquet(tmp_path / "in" / "a.parquet")
    frame[1000:].write_parquet(tmp_path / "in" / "b.parquet")
    monkeypatch.setattr(parts, "part_rows", lambda *_: 300)
    monkeypatch.setattr(executor, "PART_ROWS", 300)
    asked = {"k": 4, "method": "mdav", "schema": SCHEMA}
    local = protect_file(tmp_path / "in", tmp_path / "local.parquet", n_jobs=1, **asked)
    there = protect_file(tmp_path / "in", tmp_path / "spark", engine="spark", **asked)
    assert local.parts == there.parts > 4
    expected = pl.read_parquet(tmp_path / "local.parquet")
    assert pl.read_parquet(tmp_path / "spark" / "*.parquet").equals(expected)
    assert there.status == local.status
    assert there.figures.information_loss == pytest.approx(local.figures.information_loss)
    assert there.figures.false_cells == local.figures.false_cells


def test_rules_over_several_parts_hold_as_in_the_local_engine(spark, tmp_path, monkeypatch):
    frame = survey(homes=120).select("wage", "pension", "income")
    frame.write_parquet(tmp_path / "in.parquet")
    monkeypatch.setattr(parts, "part_rows", lambda *_: 60)
    monkeypatch.setattr(executor, "PART_ROWS", 60)
    rules = [{"equal": "income = wage + pension"}, {"zero": "pension"}, {"order": "wage <= 0.8 * income + 1"}]
    asked = {"k": 3, "method": "mdav", "schema": {"columns": {}, "rules": rules}}
    local = protect_file(tmp_path / "in.parquet", tmp_path / "local.parquet", n_jobs=1, **asked)
    there = protect_file(tmp_path / "in.parquet", tmp_path / "spark", engine="spark", **asked)
    out = pl.read_parquet(tmp_path / "spark" / "*.parquet")
    assert local.parts == there.parts > 2
    assert out.equals(pl.read_parquet(tmp_path / "local.parquet"))
    assert (out["income"] - out["wage"] - out["pension"]).abs().max() < 1e-6
    assert (out["pension"].filter(frame["pension"] == 0) == 0).all()
    assert (out["wage"] <= 0.8 * out["income"] + 1 + 1e-6).all()
    assert there.notes == local.notes


def test_parquet_in_parquet_out(spark, tmp_path):
    frame = table()
    frame.write_parquet(tmp_path / "in.parquet")
    (tmp_path / "s.toml").write_text(
        '[columns.person]\nkind = "category"\nrole = "identifier"\n[columns.job]\nkind = "category"\nrole = "quasi"\n'
    )
    facts = protect_file(
        tmp_path / "in.parquet", tmp_path / "out", k=3, schema=tmp_path / "s.toml", strata=["region"],
        engine="spark", method="mdav",
    )  # fmt: skip
    out = pl.read_parquet(tmp_path / "out" / "*.parquet")
    assert out.columns == ["x", "y", "z", "job", "region"]
    assert out["region"].to_list() == frame["region"].to_list()
    assert privacy.k_anonymity(out, out.columns, k=3).holds
    assert facts.figures.n_records == frame.height
    assert facts.figures.smallest_group >= 3
    assert 0 < facts.figures.information_loss < 100
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.parquet", "out", "s.toml"]


def survey_in_two_files(folder: Path) -> pl.DataFrame:
    """A survey, written to a folder as two Parquet files."""
    frame = survey(homes=90).with_columns(note=pl.col("home").cast(pl.String))
    folder.mkdir()
    frame[:100].write_parquet(folder / "a.parquet")
    frame[100:].write_parquet(folder / "b.parquet")
    return frame


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"method": "suppress", "columns": ["region", "roof", "sex", "relat"]},
        {"method": "generalize", "columns": ["region", "roof", "sex", "relat"]},
    ],
)
def test_steps_and_suppression_equal_those_of_the_local_engine(spark, tmp_path, fields):
    frame = survey_in_two_files(tmp_path / "in")
    leave = {name: {"role": "sensitive"} for name in ("wage", "pension", "income")} if fields else {}
    facts = schema(**leave) if not fields else schema(steps=[], rules=[], **leave)
    facts["columns"] |= {"note": {"role": "sensitive", "kind": "category"}}
    asked = {"k": 3, "schema": facts, "random_state": 1} | fields
    local = shoal.protect(frame, **asked)
    there = protect_file(tmp_path / "in", tmp_path / "spark", engine="spark", **asked)
    assert pl.read_parquet(tmp_path / "spark" / "*.parquet").equals(local.frame)
    assert there.status == local.status
    assert there.figures.identification == local.figures.identification
    assert there.figures.suppressed_cells == local.figures.suppressed_cells
    assert [each.value for each in there.verdicts] == [each.value for each in local.verdicts]
    mixed = protect_file(tmp_path / "in", tmp_path / "mixed", engine="spark", order="shuffle", **asked)
    out = pl.read_parquet(tmp_path / "mixed" / "*.parquet")
    assert mixed.frame is None
    assert not out.equals(local.frame)
    assert out.sort(out.columns).equals(local.frame.sort(out.columns))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in", "mixed", "spark"]


PERTURBED = [
    {"method": "swap-records", "columns": ["region"], "given": ["roof"], "k": 2, "share": 0.1},
    {"method": "suppress", "columns": ["region", "roof"], "level": "household"},
    {"method": "pram", "columns": ["sex"], "probability": 0.8},
    {"method": "pram", "columns": ["relat"], "probability": 0.7},
    {"method": "shuffle", "columns": ["wage"], "given": ["pension"]},
    {"method": "rank-swap", "columns": ["pension"], "share": 0.1},
    {"method": "code-ends", "columns": ["income"], "top": 60},
    {"method": "noise", "columns": ["income"], "scale": 0.1},
    {"method": "round", "columns": ["income"], "to": 5},
]


@pytest.mark.parametrize(
    "fields",
    [
        {"steps": PERTURBED},
        {"method": "mdav", "weights": "w", "households": "home", "leave": ["note"]},
        {"method": "generalize", "count": "household", "columns": ["region", "roof", "sex", "relat"]},
    ],
    ids=["perturbed", "weights and households", "k households"],
)
def test_memory_parts_and_spark_give_one_table(spark, tmp_path, fields):
    frame = survey_in_two_files(tmp_path / "in")
    hidden = {"wage", "pension", "income", "note"} if "columns" in fields else {"note"}
    facts = schema(steps=[], rules=[], **{name: {"role": "sensitive"} for name in hidden - {"note"}})
    facts["columns"] |= {} if "leave" in fields else {"note": {"role": "sensitive", "kind": "category"}}
    asked = {"k": 3, "schema": facts, "random_state": 1, "accept_risk": True} | fields
    here = shoal.protect(frame, **asked)
    parted = protect_file(tmp_path / "in", tmp_path / "parts.parquet", n_jobs=1, **asked)
    there = protect_file(tmp_path / "in", tmp_path / "spark", engine="spark", **asked)
    assert pl.read_parquet(tmp_path / "parts.parquet").equals(here.frame)
    assert pl.read_parquet(tmp_path / "spark" / "*.parquet").equals(here.frame)
    assert here.status == parted.status == there.status
    assert here.notes == parted.notes == there.notes
    for other in (parted.figures, there.figures):
        assert other.identification.before == pytest.approx(here.figures.identification.before)
        assert other.identification.after == pytest.approx(here.figures.identification.after)
        assert _untimed(other.steps) == _untimed(here.figures.steps)
    assert here.frame["w"].sum() == pytest.approx(frame["w"].sum())


def _untimed(steps):
    return [replace(step, seconds=0.0) for step in steps or ()]


def test_a_weight_of_zero_is_refused_on_spark(spark, tmp_path):
    pl.DataFrame({"x": [1.0, 2, 3, 4], "w": [0.0, 1, 1, 1]}).write_parquet(tmp_path / "in.parquet")
    for fields in ({"method": "mdav"}, {"method": "suppress"}):
        with pytest.raises(InputError, match="must be above 0"):
            protect_file(tmp_path / "in.parquet", tmp_path / "o", k=2, engine="spark", weights="w", **fields)
    assert [each.name for each in tmp_path.iterdir()] == ["in.parquet"]


def test_bad_tables_are_one_sentence(spark, tmp_path):
    table(50).with_columns(pl.lit(None, pl.Float64).alias("x")).write_parquet(tmp_path / "in.parquet")
    for path, match in (("in.parquet", "must hold values"), ("absent.parquet", "Spark could not finish")):
        with pytest.raises(InputError, match=match) as caught:
            protect_file(tmp_path / path, tmp_path / "out", columns=["x", "y"], engine="spark", method="mdav",
                         schema=shoal.schema.Schema({"person": shoal.schema.Column("person", "leave", "category")}))  # fmt: skip
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


CLUSTER = """
import sys, time
from pathlib import Path
import polars as pl
from shoal.microaggregation import MDAV
from shoal.publish import ProtectionRequest
from shoal.publish.executors import parts, spark
from shoal.publish.executors.parts import Parts
from shoal.publish.treatments.groups import plan_rows, settle_method
from shoal.publish.stages.roles import settle_roles
from shoal.publish.stages.survey import ROW

folder, master, source = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

class Slow(MDAV):
    def _partition(self, Z):
        (folder / "started").touch()
        time.sleep(0.7)
        return MDAV._partition(self, Z)

from pyspark.sql import SparkSession
session = (SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "512m")
    .config("spark.executor.cores", "1").config("spark.sql.shuffle.partitions", "8")
    .config("spark.sql.adaptive.enabled", "false")
    .config("spark.executorEnv.PYTHONPATH", sys.argv[4]).getOrCreate())
parts.part_rows = lambda *_: 120
asked = ProtectionRequest(k=3, method=Slow())
with Parts(Path(source), folder / "planned.parquet").open(asked, lambda *_: None) as rows:
    plan = plan_rows(rows, settle_roles(rows.head(), asked), asked, settle_method(asked))
new = spark.protect_rows(spark.read_rows(session, source), plan)
pl.from_arrow(new.toArrow()).sort(ROW).write_parquet(folder / "out.parquet")
(folder / "executors").write_text(str(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_killed_worker_changes_nothing(tmp_path, monkeypatch):
    import pyspark

    home = Path(pyspark.__file__).parent
    frame = table(900).select("x", "y")
    frame.write_parquet(tmp_path / "in.parquet")
    (tmp_path / "local").mkdir()
    env = os.environ | {
        "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": SRC,
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path / "local"), "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # of six Java machines that do not run long
    }  # fmt: skip
    port = free_port()
    master = f"spark://127.0.0.1:{port}"

    def start(*words: str) -> subprocess.Popen:
        log = (tmp_path / f"log-{time.monotonic_ns()}").open("wb")
        return subprocess.Popen(
            [home / "bin" / "spark-class", *words], env=env, stdout=log, stderr=log, cwd=tmp_path
        )

    daemons = [start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port),
                     "--webui-port", str(free_port()))]  # fmt: skip
    try:
        for number in range(2):
            daemons.append(
                start("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory",
                      "600m", "--webui-port", str(free_port()), "--work-dir", str(tmp_path / f"w{number}"), master)
            )  # fmt: skip
        with (tmp_path / "driver.log").open("wb") as log:
            driver = subprocess.Popen(
                [sys.executable, "-c", CLUSTER, tmp_path, master, tmp_path / "in.parquet", SRC],
                env=env, stdout=log, stderr=log,
            )  # fmt: skip
            daemons.append(driver)
            waited = time.monotonic()
            while not (tmp_path / "started").exists() and time.monotonic() - waited < 300:
                assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-2000:]
                time.sleep(0.1)
            assert (tmp_path / "started").exists(), (tmp_path / "driver.log").read_text()[-2000:]
            daemons[1].kill()
            assert driver.wait(300) == 0, (tmp_path / "driver.log").read_text()[-2000:]
    finally:
        for each in daemons:
            each.kill()
            each.wait()
    # The driver and one executor are left of the two that began.
    assert (tmp_path / "executors").read_text() == "2"
    monkeypatch.setattr(parts, "part_rows", lambda *_: 120)
    plan = planned(tmp_path / "in.parquet", ProtectionRequest(k=3, method="mdav"))
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert out[ROW].to_list() == list(range(900))
    sizes = np.bincount(route(frame, plan), minlength=plan.n_parts)
    numbered = frame.with_columns(pl.Series(ROW, np.arange(900)))
    into = merged_parts(sizes, plan)[route(frame, plan)]
    for part in np.unique(into):
        rows = np.flatnonzero(into == part)
        solved = solve_part(numbered[rows], plan)
        np.testing.assert_array_equal(out["x"].to_numpy()[rows], solved.values[solved.labels, 0])


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    from pyspark.sql.readwriter import DataFrameWriter

    table(300).write_parquet(tmp_path / "in.parquet")
    write, seen = DataFrameWriter.parquet, []

    def stopped(self, path, *rest, **options):
        write(self, path, *rest, **options)
        seen.append((Path(path), (tmp_path / ".out.waiting").stat().st_mode & 0o777))
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(DataFrameWriter, "parquet", stopped)
    asked = {"k": 4, "method": "mdav", "engine": "spark", "schema": SCHEMA}
    with pytest.raises(KeyboardInterrupt):
        protect_file(tmp_path / "in.parquet", tmp_path / "out", **asked)
    assert [each.name for each in tmp_path.iterdir()] == ["in.parquet"]
    assert {mode for _, mode in seen} == {0o700}
