"""Tables protected part by part: what comes out, what is refused, what an interruption leaves."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import shoal
from shoal import privacy
from shoal.engine.encode import sum_of_squares
from shoal.errors import GuaranteeError, InputError, ParameterError
from shoal.microaggregation import MDAV, refine
from shoal.microaggregation._refine import _smallest
from shoal.publish import ProtectionRequest, protect_file
from shoal.publish.executors import parts
from shoal.publish.executors.parts import Parts, resuming, writing
from shoal.publish.executors.parts.source import in_threads
from shoal.publish.stages.check import added, class_rows, exposure_of, verdicts_of_classes
from shoal.publish.stages.roles import settle_roles
from shoal.publish.stages.routing import Router, merged_parts, route
from shoal.publish.treatments.groups import plan_rows, settle_method


def numbers(n: int, p: int = 3, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {f"x{j}": rng.normal(size=n) for j in range(p)} | {"note": [f"n{i % 7}" for i in range(n)]}
    )


def mixed(n: int = 3_000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    region = rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2]).astype(object)
    region[:3] = "tiny"
    return pl.DataFrame(
        {
            "id": np.arange(n),
            "age": rng.integers(18, 90, n),
            "income": np.where(rng.random(n) < 0.03, np.nan, rng.lognormal(10, 1, n)),
            "job": rng.choice(["cook", "nurse", "smith"], n),
            "region": region.tolist(),
            "weight": rng.uniform(0.5, 2, n),
            "disease": rng.choice(["flu", "none"], n),
        }
    ).with_columns(pl.col("income").fill_nan(None))


SCHEMA = """
[columns.id]
kind = "category"
role = "identifier"
[columns.age]
role = "quasi"
[columns.income]
role = "quasi"
on_missing = "impute"
[columns.job]
role = "quasi"
kind = "category"
[columns.region]
role = "stratum"
kind = "category"
[columns.weight]
role = "weight"
[columns.disease]
role = "sensitive"
kind = "category"
"""


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of about 500 rows, so that small tables have several."""
    monkeypatch.setattr(parts, "part_rows", lambda *_: 500)


def test_one_part_in_memory_and_in_the_file_are_the_same(tmp_path):
    frame = numbers(900)
    frame.write_parquet(tmp_path / "in.parquet")
    facts = protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", method="mdav", k=4, n_jobs=1)
    whole = shoal.protect(frame, k=4, method="mdav")
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert out.columns == frame.columns
    for name in ("x0", "x1", "x2"):
        np.testing.assert_allclose(out[name], whole.frame[name], atol=1e-12)
    assert facts.figures.information_loss == pytest.approx(whole.figures.information_loss)
    assert facts.figures.n_groups == whole.figures.n_groups


@pytest.mark.parametrize("make", [numbers, mixed])
@pytest.mark.parametrize("method", ["mdav", "cbfs"])
def test_in_parts_too_the_default_is_not_behind_methods_with_exchanges(make, method, small_parts, tmp_path):
    frame = make(2_000)
    frame.write_parquet(tmp_path / "in.parquet")
    (tmp_path / "s.toml").write_text(SCHEMA)
    given = {"k": 5, "n_jobs": 1, "accept_risk": True}
    if make is mixed:
        given["schema"] = tmp_path / "s.toml"
    lost = [
        protect_file(tmp_path / "in.parquet", tmp_path / f"{at}.parquet", **given, **how).figures
        for at, how in enumerate(({"method": method}, {"max_proposals": 400 * 2_000, "random_state": 0}))
    ]
    assert lost[1].information_loss < lost[0].information_loss


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".arrow"])
@pytest.mark.parametrize("order", ["keep", "shuffle"])
def test_rows_keep_their_order_and_other_columns(ending, order, small_parts, tmp_path):
    frame = numbers(2_500).with_columns(pl.Series("at", [f"r{i}" for i in range(2_500)]).cast(pl.Categorical))
    frame = frame.with_columns(pl.col("at").cast(pl.String))
    path, output = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    shoal.io.write_table(frame, path)
    facts = protect_file(
        path, output, k=3, method="mdav", columns=["x0", "x1", "x2"], n_jobs=1, order=order, accept_risk=True,
        schema=shoal.schema.Schema({"at": shoal.schema.Column("at", "leave", "category")}),
    )  # fmt: skip
    out = shoal.io.read_table(output)
    assert facts.parts == 8
    if order == "shuffle":
        assert out["at"].to_list() != frame["at"].to_list()
        out = frame.select("at").join(out, on="at", how="left", maintain_order="left")
    assert out["at"].to_list() == frame["at"].to_list()
    assert out["note"].to_list() == frame["note"].to_list()
    assert privacy.k_anonymity(out, ["x0", "x1", "x2"], k=3).holds
    np.testing.assert_allclose(out["x0"].mean(), frame["x0"].mean(), atol=1e-9)
    assert not list(tmp_path.glob(".*"))


def test_mixed_columns_strata_and_weights(small_parts, tmp_path):
    frame = mixed()
    frame.write_parquet(tmp_path / "in.parquet")
    (tmp_path / "s.toml").write_text(SCHEMA)
    facts = protect_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", method="mdav", k=5, schema=tmp_path / "s.toml", n_jobs=2,
        identifiers="hash", integers="round",
    )  # fmt: skip
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert privacy.k_anonymity(out, ["age", "income", "job", "region"], k=5).holds
    assert "tiny" not in out["region"].to_list()
    assert any("'tiny'" in note for note in facts.notes)
    assert out["income"].null_count() == 0
    assert out["age"].dtype == pl.Int64
    assert out["disease"].to_list() == frame["disease"].to_list()
    assert out["id"].n_unique() == frame.height
    assert facts.figures.at_risk == 0
    assert set(out["id"]) & set(map(str, range(100))) == set()
    kept = pl.Series(frame["region"] != "tiny")
    assert out["region"].filter(kept).to_list() == frame["region"].filter(kept).to_list()
    weighted = [(each["income"] * each["weight"]).sum() for each in (frame, out)]
    assert weighted[1] == pytest.approx(weighted[0], rel=0.05)
    assert facts.verdicts[0].holds


def test_dropped_rows_are_said(small_parts, tmp_path):
    frame = mixed().select("age", "income")
    frame.write_parquet(tmp_path / "in.parquet")
    facts = protect_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", method="mdav", on_missing="drop", n_jobs=1
    )
    assert pl.read_parquet(tmp_path / "out.parquet").height == 3_000 - frame["income"].null_count()
    assert any("were dropped" in note for note in facts.notes)


def test_a_column_missing_throughout_a_part_takes_the_middle_of_the_table(small_parts, tmp_path):
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "region": ["a"] * 600 + ["b"] * 700,
            "age": rng.normal(40, 9, 1_300),
            "pay": rng.normal(900, 1, 1_300),
        }
    ).with_columns(pl.when(pl.col("region") == "b").then("pay").alias("pay"))
    frame.write_parquet(tmp_path / "in.parquet")
    protect_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", method="mdav", columns=["age", "pay"], strata=["region"],
        on_missing="impute", n_jobs=1,
    )  # fmt: skip
    filled = pl.read_parquet(tmp_path / "out.parquet").filter(pl.col("region") == "a")["pay"]
    np.testing.assert_allclose(filled, frame["pay"].mean())


def test_blocks_cost_at_most_three_per_cent(tmp_path, monkeypatch):
    frame = numbers(6_000, p=5).drop("note")
    frame.write_parquet(tmp_path / "in.parquet")
    monkeypatch.setattr(parts, "part_rows", lambda *_: 3_000)
    facts = protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", method="mdav", k=5, n_jobs=1)
    whole = MDAV(k=5).fit(frame).information_loss_
    assert facts.parts == 2
    assert facts.figures.information_loss <= 1.03 * whole


def test_mending_keeps_sizes_and_never_loses(blobs):
    labels = np.arange(60) % 12
    refined = refine(blobs, labels)
    assert sorted(np.bincount(refined)) == sorted(np.bincount(labels))
    assert sum_of_squares(blobs, refined) < sum_of_squares(blobs, labels)
    np.testing.assert_array_equal(refine(blobs, refined, 50), refine(blobs, refine(blobs, refined, 50), 50))


@settings(deadline=None)
@given(
    arrays(np.float32, st.integers(1, 90), elements=st.integers(0, 12).map(float) | st.just(np.inf)),
    st.integers(1, 6),
)
def test_the_smallest_distances_are_found(values, reach):
    ds = np.full(-(-values.size // 4) * 4, np.inf, np.float32)
    ds[: values.size] = values
    near, near_d = np.empty(reach, np.int64), np.empty(reach, np.float32)
    filled = _smallest(ds, np.empty(ds.size // 4, np.float32), near, near_d)
    expected = np.sort(values[np.isfinite(values)])[:reach]
    assert filled == expected.size
    assert np.array_equal(near_d[:filled], expected)
    assert np.array_equal(ds[near[:filled]], expected)
    assert np.unique(near[:filled]).size == filled


def test_leaves_below_k_are_merged():
    rng = np.random.default_rng(0)
    router = Router.fit(rng.normal(size=(200, 2)), 3)
    asked = ProtectionRequest(k=5)
    plan = type(
        "P", (), {"method": MDAV(k=5), "routers": {(): (2, router)}, "households": None, "request": asked}
    )
    sizes = np.array([9, 9, 3, 1, 7, 0, 2, 9, 8, 1])
    into = merged_parts(sizes, plan)
    joined = np.bincount(into, weights=sizes)
    assert (joined[np.unique(into)] >= 5).all()
    assert into[:2].tolist() == [0, 1]


def test_equal_records_all_go_one_way(small_parts, tmp_path):
    pl.DataFrame({"x": [1.0] * 2_000 + [2.0] * 3}).write_parquet(tmp_path / "in.parquet")
    facts = protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", method="mdav", k=5, n_jobs=1)
    assert facts.figures.smallest_group >= 5
    assert facts.figures.n_records == 2_003


def test_a_folder_is_one_table(small_parts, tmp_path):
    frame = numbers(1_500)
    (tmp_path / "in").mkdir()
    for number in range(3):
        frame[number * 500 : (number + 1) * 500].write_parquet(tmp_path / "in" / f"{number}.parquet")
    protect_file(tmp_path / "in", tmp_path / "out.parquet", method="mdav", n_jobs=1)
    frame.write_parquet(tmp_path / "whole.parquet")
    protect_file(tmp_path / "whole.parquet", tmp_path / "again.parquet", method="mdav", n_jobs=1)
    assert pl.read_parquet(tmp_path / "out.parquet").equals(pl.read_parquet(tmp_path / "again.parquet"))


def test_number_of_workers_does_not_matter(small_parts, tmp_path):
    numbers(1_500).write_parquet(tmp_path / "in.parquet")
    for workers in (1, 2):
        protect_file(tmp_path / "in.parquet", tmp_path / f"{workers}.parquet", method="mdav", n_jobs=workers)
    assert pl.read_parquet(tmp_path / "1.parquet").equals(pl.read_parquet(tmp_path / "2.parquet"))


def refused(tmp_path, match, error=InputError, source="in.parquet", **options):
    before = {each: each.stat().st_size for each in tmp_path.rglob("*") if each.is_file()}
    with pytest.raises(error, match=match) as caught:
        protect_file(tmp_path / source, tmp_path / "out.parquet", method="mdav", n_jobs=1, **options)
    assert "\n" not in str(caught.value)
    assert {each: each.stat().st_size for each in tmp_path.rglob("*") if each.is_file()} == before


def test_unreadable_batches(tmp_path):
    numbers(30_000).write_parquet(tmp_path / "in.parquet")
    data = bytearray((tmp_path / "in.parquet").read_bytes())
    with pq.ParquetFile(tmp_path / "in.parquet") as parquet:
        page = parquet.metadata.row_group(0).column(1).data_page_offset
    data[page : page + 40] = b"\xff" * 40
    (tmp_path / "in.parquet").write_bytes(data)
    refused(tmp_path, "cannot be read")
    (tmp_path / "short.parquet").write_bytes(data[:1_000])
    refused(tmp_path, "cannot be read", source="short.parquet")


def test_columns_that_change_between_files(tmp_path):
    (tmp_path / "in").mkdir()
    numbers(50).write_parquet(tmp_path / "in" / "a.parquet")
    numbers(50).with_columns(pl.col("x1").cast(pl.String)).write_parquet(tmp_path / "in" / "b.parquet")
    refused(tmp_path, "'b.parquet' has .* in column 'x1'", source="in")
    numbers(50).drop("x2").write_parquet(tmp_path / "in" / "b.parquet")
    refused(tmp_path, "lacks the column 'x2'", source="in")


def test_columns_of_nulls_and_missing_cells(tmp_path):
    frame = numbers(50).with_columns(pl.lit(None, pl.Float64).alias("x1"))
    frame.write_parquet(tmp_path / "in.parquet")
    refused(tmp_path, "Column 'x1' must hold values")
    numbers(50).with_columns(pl.when(pl.col("x0") > 0).then("x0").alias("x0")).write_parquet(
        tmp_path / "in.parquet"
    )
    refused(tmp_path, r"Missing cells need a policy .* 'x0'")


def test_bad_settings(tmp_path):
    numbers(50).write_parquet(tmp_path / "in.parquet")
    refused(tmp_path, "'k' of protect", ParameterError, k=1)
    refused(tmp_path, "k = 60 records", k=60)
    refused(tmp_path, "'memory' must be", ParameterError, memory="lots")
    with pytest.raises(ParameterError, match="'method' must be"):
        protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", method="none", n_jobs=1)
    refused(tmp_path, "takes no 'time_limit'", ParameterError, time_limit=3.0)
    refused(tmp_path, "No file", source="absent.parquet")
    with pytest.raises(InputError, match="written as"):
        protect_file(tmp_path / "in.parquet", tmp_path / "out.sav", method="mdav", n_jobs=1)


def test_a_broken_promise_is_not_written(tmp_path, monkeypatch):
    numbers(50).write_parquet(tmp_path / "in.parquet")
    honest = writing.read_result

    def broken(task):
        solved = honest(task)
        solved.values[0, 0] = 7.0
        solved.labels[solved.labels == 0] = 1
        solved.labels[0] = 0
        return solved

    monkeypatch.setattr(writing, "read_result", broken)
    refused(tmp_path, "does not keep its promise", GuaranteeError)


def test_classes_are_counted_over_batches():
    frame = pl.DataFrame({"a": [1, 1, 2, 2, 2, 1, 3], "s": list("xyxxxxz")})
    roles = settle_roles(frame, ProtectionRequest(columns="a", sensitive="s"))
    plan = type("P", (), {"roles": roles, "request": ProtectionRequest(k=3)})
    classes = added(class_rows(frame[at : at + 3], plan) for at in (0, 3, 6))
    verdict = verdicts_of_classes(classes, plan)[0]
    assert (verdict.value, verdict.holds, verdict.n_classes, verdict.records_at_risk) == (1, False, 3, 1)
    found = exposure_of(classes, plan)
    assert (found.at_risk, found.attributes["s"]) == (1 / 7, 4 / 7)


def test_groups_are_the_same_in_memory_and_in_files(small_parts, tmp_path, monkeypatch):
    table = mixed().with_columns(pl.when(pl.col("age") > 30).then(pl.col("income")).alias("income"))
    table.write_parquet(tmp_path / "in.parquet")
    (tmp_path / "schema.toml").write_text(SCHEMA.replace('on_missing = "impute"', 'on_missing = "category"'))
    asked = {"k": 3, "schema": tmp_path / "schema.toml", "n_jobs": 1}
    protect_file(tmp_path / "in.parquet", tmp_path / "held.parquet", method="mdav", **asked)
    honest = writing.write
    monkeypatch.setattr(writing, "write", lambda *a, **given: honest(*a, **given | {"memory": 0}))
    protect_file(tmp_path / "in.parquet", tmp_path / "mapped.parquet", method="mdav", **asked)
    held, mapped = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("held", "mapped"))
    assert held.equals(mapped)
    assert held["income"].null_count() > 0
    assert held.columns == [name for name in table.columns if name != "id"]


def test_threads_keep_the_order_and_pass_errors_on():
    assert list(in_threads(lambda i: i * i, range(50))) == [i * i for i in range(50)]
    taken = in_threads(lambda i: 1 // (3 - i), range(50))
    assert [next(taken) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(taken)


def test_disk_full_while_spilling(tmp_path):
    numbers(60_000).write_parquet(tmp_path / "in.parquet")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        refused(tmp_path, "cannot be written: .*File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


RUN = """
import sys, time
from shoal.publish import protect_file
from shoal.publish.executors import parts
from shoal.publish.executors.parts import pool
parts.part_rows = lambda *_: 500
solve_part = pool.solve_part
def slowly(table, plan, **options):
    time.sleep(0.4)
    return solve_part(table, plan, **options)
pool.solve_part = slowly
protect_file(sys.argv[1], sys.argv[2], method="mdav", n_jobs=1)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_runs_go_on(how, small_parts, tmp_path, monkeypatch):
    numbers(3_000).write_parquet(tmp_path / "in.parquet")
    output = tmp_path / "out.parquet"
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path / "in.parquet"), str(output)],
        env=os.environ | {"PYTHONPATH": str(Path(shoal.__file__).parents[1])},
        stderr=subprocess.DEVNULL,
    )
    work = tmp_path / ".out.parquet.parts"
    waited = time.monotonic()
    while len(list(work.glob("solved-*.pickle"))) < 2 and time.monotonic() - waited < 120:
        time.sleep(0.05)
    run.send_signal(how)
    run.wait()
    assert not output.exists()
    done = {each.name: each.stat().st_mtime_ns for each in work.glob("solved-*.pickle")}
    assert len(done) >= 2
    seen = []
    removed = resuming.shutil.rmtree

    def look_first(folder, **options):
        seen.append({each.name: each.stat().st_mtime_ns for each in Path(folder).glob("solved-*")})
        removed(folder, **options)

    monkeypatch.setattr(resuming.shutil, "rmtree", look_first)
    protect_file(tmp_path / "in.parquet", output, method="mdav", n_jobs=1, resume=True)
    assert {name: seen[-1][name] for name in done} == done
    protect_file(tmp_path / "in.parquet", tmp_path / "fresh.parquet", method="mdav", n_jobs=1)
    assert pl.read_parquet(output).equals(pl.read_parquet(tmp_path / "fresh.parquet"))
    assert not work.exists()


def test_a_work_folder_that_others_can_write_to_is_not_read(tmp_path):
    numbers(100).write_parquet(tmp_path / "in.parquet")
    planted = tmp_path / ".out.parquet.parts"
    planted.mkdir()
    planted.chmod(0o777)
    (planted / "plan.pickle").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")  # runs a command where it is read
    with pytest.raises(InputError, match="nobody else can write to"):
        protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", method="mdav", n_jobs=1, resume=True)
    assert not (tmp_path / "out.parquet").exists()


WAITING = """
import multiprocessing, os, pathlib, time
from shoal.publish.executors.parts import pool

class Slow:
    result = pathlib.Path("absent")
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        pathlib.Path(f"worker-{os.getpid()}").touch()
        time.sleep(600)

if __name__ == "__main__":
    pool.solve([Slow(), Slow()], None, 2, lambda *_: None)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_main_process(tmp_path, how):
    """Workers of a run that was ended from outside waited for the next part for ever, and held what they had read."""
    (tmp_path / "run.py").write_text(WAITING)
    source = {"PYTHONPATH": str(Path(shoal.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "run.py"], cwd=tmp_path, stderr=subprocess.DEVNULL, env=os.environ | source
    )
    until = time.monotonic() + 60
    while len(found := list(tmp_path.glob("worker-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(how)
    process.wait(60)
    workers = [Path(f"/proc/{each.name.removeprefix('worker-')}/stat") for each in found]
    assert len(workers) == 2
    until = time.monotonic() + 60
    while any(_lives(each) for each in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(_lives(each) for each in workers)


def _lives(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_resuming_with_other_settings_starts_anew(small_parts, tmp_path):
    numbers(1_000).write_parquet(tmp_path / "in.parquet")
    with pytest.raises(KeyboardInterrupt):
        protect_file(
            tmp_path / "in.parquet",
            tmp_path / "out.parquet",
            method="mdav",
            k=3,
            n_jobs=1,
            progress=_stop_at_writing,
        )
    assert (tmp_path / ".out.parquet.parts" / "plan.pickle").exists()
    facts = protect_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", method="mdav", k=7, n_jobs=1, resume=True
    )
    assert facts.figures.smallest_group >= 7


def test_resuming_in_another_order_starts_anew_where_identifiers_are_hashed(small_parts, tmp_path):
    frame = numbers(1_000).with_columns(pl.Series("id", [f"p{i}" for i in range(1_000)]))
    frame.write_parquet(tmp_path / "in.parquet")
    options = {
        "n_jobs": 1,
        "identifiers": "hash",
        "schema": shoal.schema.Schema({"id": shoal.schema.Column("id", "identifier", "category")}),
    }
    with pytest.raises(KeyboardInterrupt):
        protect_file(
            tmp_path / "in.parquet",
            tmp_path / "out.parquet",
            method="mdav",
            progress=_stop_at_writing,
            **options,
        )
    # Only the columns that decide about groups were spilled: part after part needs all of them.
    protect_file(
        tmp_path / "in.parquet",
        tmp_path / "out.parquet",
        method="mdav",
        order="shuffle",
        resume=True,
        **options,
    )
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert sorted(out.columns) == sorted(frame.columns)
    assert out.height == frame.height


def _stop_at_writing(stage, _done, _of):
    if stage.startswith("writing"):
        raise KeyboardInterrupt


def test_text_in_other_encodings(tmp_path):
    rows = ["größe;höhe"] + [f"{i},5;{i * 2},25" for i in range(40)]
    (tmp_path / "in.csv").write_bytes("\n".join(rows).encode("cp1252"))
    facts = protect_file(tmp_path / "in.csv", tmp_path / "out.csv", method="mdav", n_jobs=1)
    assert shoal.io.read_table(tmp_path / "out.csv").columns == ["größe", "höhe"]
    assert any("cp1252" in note for note in facts.notes)


def test_routes_depend_on_the_row_alone(tmp_path, monkeypatch):
    frame = numbers(2_000)
    frame.write_parquet(tmp_path / "in.parquet")
    monkeypatch.setattr(parts, "part_rows", lambda *_: 300)
    asked = ProtectionRequest(method="mdav", columns=["x0", "x1", "x2"])
    with Parts(tmp_path / "in.parquet", tmp_path / "out.parquet").open(asked, lambda *_: None) as rows:
        plan = plan_rows(rows, settle_roles(rows.head(), asked), asked, settle_method(asked))
    whole = route(frame, plan)
    order = np.random.default_rng(0).permutation(2_000)
    np.testing.assert_array_equal(route(frame[order], plan), whole[order])
    assert np.bincount(whole, minlength=plan.n_parts).min() > 150
