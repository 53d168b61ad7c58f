"""One copy of a loaded table for several processes: the same rows, loaded once, for one user alone."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Session
from shoal.dp.loading.load import load
from shoal.dp.loading.shared import SharedTable, SharedTables
from shoal.errors import InputError
from shoal.schema import Column, Link, Schema, Unit

SCHEMA = Schema(
    {
        "age": Column("age", bounds=(0, 110)),
        "region": Column("region", kind="category", levels=("nord", "süd", "日本")),
        "day": Column("day", kind="date", bounds=("2020-01-01", "2030-01-01")),
        "word": Column("word", kind="category"),
    },
    id="people",
    unit=Unit("who", 2),
)
CELLS = st.sampled_from(["", "7", "-1", "x", "1e400", "nan", "süd", "日本", "2024-02-29", "2023-02-29", None])


def never():
    raise AssertionError("it was loaded again")


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS, CELLS), max_size=30))
def test_a_session_over_a_shared_table_holds_the_very_rows_of_one_over_the_cells(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("shared")
    names = [*SCHEMA.columns, "who"]
    cells = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    plain = Session(cells, SCHEMA, budget=1.0)
    for make in (lambda: cells, never):
        with SharedTables(folder).opening("people", "1") as kept:
            table = SharedTable(kept.frame("cells", make), kept)
            shared = Session(table, SCHEMA, budget=1.0)
        assert shared._rows.frame.equals(plain._rows.frame)
        assert shared._rows.frame.schema == plain._rows.frame.schema


def test_what_cannot_be_mapped_is_kept_by_each_process_itself(tmp_path):
    odd = pl.DataFrame({"age": pl.Series([1, 2**100], dtype=pl.Int128)})
    with SharedTables(tmp_path).opening("people", "1") as kept:
        found = kept.frame("cells", lambda: odd)
    assert found.equals(odd)
    schema = Schema({"age": Column("age", bounds=(0, 110))}, id="people")
    with SharedTables(tmp_path).opening("people", "1") as kept:
        table = SharedTable(kept.frame("cells", lambda: odd), kept)
        assert Session(table, schema, budget=1.0)._rows.frame.equals(load(odd, schema))
    assert not list(tmp_path.rglob("*.part"))


def test_a_new_state_takes_the_place_of_the_one_before_which_stays_mapped(tmp_path):
    tables = SharedTables(tmp_path)
    with tables.opening("people", "1") as kept:
        before = kept.frame("rows", lambda: pl.DataFrame({"age": np.arange(50_000)}))
        files = list(kept.folder.iterdir())
    with tables.opening("people", "2") as kept:
        after = kept.frame("rows", lambda: pl.DataFrame({"age": [1, 2]}))
    assert [file.exists() for file in files] == [False]
    assert before["age"].sum() == sum(range(50_000))
    assert after["age"].to_list() == [1, 2]
    tables.forget("people")
    assert not list(tmp_path.rglob("*.arrow"))


def test_a_state_that_cannot_be_loaded_leaves_the_one_before(tmp_path):
    tables = SharedTables(tmp_path)
    with tables.opening("people", "1") as kept:
        kept.frame("rows", lambda: pl.DataFrame({"age": [1]}))
    with pytest.raises(InputError, match="broken"), tables.opening("people", "2") as kept:
        raise InputError("broken")
    with tables.opening("people", "1") as kept:
        assert kept.frame("rows", never).height == 1


def test_files_are_for_one_user_alone(tmp_path):
    with SharedTables(tmp_path / "t").opening("../people", "1") as kept:
        kept.frame("rows", lambda: pl.DataFrame({"age": [1]}))
    found = [tmp_path / "t", *(tmp_path / "t").rglob("*")]
    assert [each.stat().st_mode & 0o077 for each in found if each.name != "lock"] == [0] * (len(found) - 1)


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_ipc", full)
    with (
        pytest.raises(InputError, match="cannot be written: no space left on device"),
        SharedTables(tmp_path).opening("people", "1") as kept,
    ):
        kept.frame("rows", lambda: pl.DataFrame({"age": [1]}))
    assert not [each for each in tmp_path.rglob("*") if each.is_file() and each.name != "lock"]


def _open(folder: Path, made, mapped) -> None:
    def make() -> pl.DataFrame:
        with made.get_lock():
            made.value += 1
        return pl.DataFrame({"age": np.arange(100_000)})

    with SharedTables(folder).opening("people", "1") as kept:
        frame = kept.frame("rows", make)
    with mapped.get_lock():
        mapped.value += int(frame["age"].sum() == sum(range(100_000)))


def test_processes_that_come_at_once_load_once(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    made, mapped = spawn.Value("i", 0), spawn.Value("i", 0)
    workers = [spawn.Process(target=_open, args=(tmp_path, made, mapped)) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert (made.value, mapped.value) == (1, 4)


def test_linked_tables_are_loaded_once_for_all(tmp_path, monkeypatch):
    people = Schema(
        {"age": Column("age", bounds=(0, 110))},
        id="people",
        unit=Unit("who", 2),
        links=(
            Link("visits", "visits", "people", ("who",)),
            Link("towns", "people", "towns", ("town",), public=True),
        ),
    )
    visits = Schema({"days": Column("days", bounds=(0, 30))}, id="visits")
    towns = Schema({"size": Column("size", bounds=(0, 9))}, id="towns")
    first = pl.DataFrame({"who": ["a", "b", "b"], "town": ["x", "y", "y"], "age": ["3", "5", "z"]})
    second = pl.DataFrame({"who": ["b", "a", "c"], "days": ["1", "2", "3"]})
    third = pl.DataFrame({"town": ["x", "y"], "size": ["1", "2"]})
    plain = Session(first, people, budget=1.0, tables={"visits": (second, visits), "towns": (third, towns)})
    for _ in range(2):
        with SharedTables(tmp_path).opening("people", "1") as kept:
            a, b, c = (
                SharedTable(kept.frame(f"cells {n}", lambda f=f: f), kept)
                for n, f in enumerate((first, second, third))
            )
            shared = Session(a, people, budget=1.0, tables={"visits": (b, visits), "towns": (c, towns)})
        assert shared.catalog == plain.catalog
        for name, frame in plain._rows.tables.whole.items():
            assert shared._rows.tables.whole[name].equals(frame)
        monkeypatch.setattr("shoal.dp.loading.linked._loaded", lambda *_: never())
