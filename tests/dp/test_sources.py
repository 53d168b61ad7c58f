"""Sources: the same exact whole numbers from a frame, Parquet files, DuckDB, PostgreSQL and Spark; and what is refused."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import Decimal
from itertools import combinations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.dp import Session
from shoal.dp.answering.rows import Held, Streamed
from shoal.dp.loading.sources import (
    _duckdb,
    _parquet,
    _postgresql,
    open_source,
    without_password,
)
from shoal.errors import InputError, SchemaError
from shoal.release import release_marginals
from shoal.release.marginals._release import load_codes
from shoal.release.marginals._residuals import count_table
from shoal.schema import Cells, Column, Schema, Unit

duckdb = pytest.importorskip("duckdb")

COLUMNS = {
    "age": Column("age", bounds=(0, 110), step=1, missing_codes=(-9,)),
    "income": Column("income", bounds=(-1000, 200_000)),
    "amount": Column("amount", bounds=(0, 50)),  # stored as text
    "price": Column("price", bounds=(-5, 5)),  # stored as a decimal
    "region": Column("region", kind="category", levels=("north", "süd", "7", "a b")),
    "school": Column("school", kind="ordered", levels=("none", "basic", "high")),
    "smoker": Column("smoker", kind="boolean"),
    "born": Column("born", kind="date", bounds=("1900-01-01", "2020-12-31")),
    "seen": Column("seen", kind="date", bounds=("1900-01-01", "2020-12-31")),  # stored with a time of day
}
RELEASED = ("age", "income", "price", "region", "smoker", "born")
STORED = {
    "age": pl.Int64,
    "income": pl.Float64,
    "amount": pl.String,
    "price": pl.Decimal(20, 4),
    "region": pl.String,
    "school": pl.String,
    "smoker": pl.Boolean,
    "born": pl.Date,
    "seen": pl.Datetime("us"),
    "who": pl.String,
}
ODD = [
    "",
    " ",
    "7",
    "7.0",
    " 7 ",
    "007",
    "1e1",
    "NaN",
    "inf",
    "-Infinity",
    "1e400",
    "-0",
    "0x7",
    "1,5",
    "é",
    "é",
    "ß",
    "SÜD",
]
FLOATS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 1e308, 0.1, 2.0**53 + 2]
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=4)
row = st.fixed_dictionaries(
    {
        "age": st.none() | st.integers(-20, 150) | st.sampled_from([-9, 2**63 - 1, -(2**63), 2**53 + 1]),
        "income": st.none() | st.sampled_from(FLOATS) | st.floats(-2000, 300_000),
        "amount": st.none() | st.sampled_from(ODD) | texts | st.floats(0, 60).map(repr),
        "price": st.none() | st.decimals(-9, 9, places=4) | st.just(Decimal("9007199254740.9931")),
        "region": st.none()
        | st.sampled_from(["north", "north ", "North", "süd", "su\u0308d", "7", "7.0", "a b"])
        | texts,
        "school": st.none() | st.sampled_from(["none", "basic", "high", "HIGH", "high\t"]),
        "smoker": st.none() | st.booleans(),
        "born": st.none() | st.dates(),
        "seen": st.none() | st.datetimes(),
        "who": st.none() | st.sampled_from([*ODD, "p", "P", "p ", "q"]),
    }
)
QUESTIONS = [
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE NOT (age > 30) OR income < 0",
    "SELECT SUM(income), SUM(age), SUM(price), AVG(amount), VAR_POP(age) FROM t WHERE born < '1990-06-01'",
    "SELECT CORR(age, income), COVAR_SAMP(amount, age) FROM t",
    "SELECT region, COUNT(*), SUM(amount), MAX(born), MEDIAN(age) FROM t GROUP BY region",
    "SELECT smoker, school, COUNT(amount), MIN(seen), COUNT(DISTINCT region) FROM t GROUP BY smoker, school",
    "SELECT SUM(CASE WHEN income / age > 2 THEN ABS(price) ELSE 1 END) AS s FROM t WHERE region LIKE 's%'",
    "SELECT EXTRACT(YEAR FROM seen) AS y, COUNT(*) FROM t GROUP BY y",
]
OF_UNITS = [
    "SELECT COUNT(DISTINCT who), COUNT(*), SUM(age), AVG(income), MEDIAN(age) FROM t",
    "SELECT region, SUM(price) FROM t GROUP BY region",
    "SELECT AVG(s) FROM (SELECT who, SUM(age) AS s FROM t GROUP BY who) AS x",
]
UNITS = {"record": (None, QUESTIONS), "person": (Unit("who", 3), [*QUESTIONS, *OF_UNITS])}


def schema_of(unit: Unit | None) -> Schema:
    return Schema(COLUMNS, id="people", **({} if unit is None else {"unit": unit}))


def table_of(rows: list[dict]) -> pl.DataFrame:
    return pl.DataFrame(
        {name: pl.Series([each[name] for each in rows], dtype=kind) for name, kind in STORED.items()}
    )


def laid_out(totals) -> list:
    """Totals without the accident of how entries and units are numbered."""
    found = []
    for each in totals:
        units: dict[int, list] = {}
        for entry in zip(
            each.unit.tolist(), each.group.tolist(), each.bin.tolist(), each.moments.tolist(), strict=True
        ):
            units.setdefault(entry[0], []).append(entry[1:])
        found.append((each.units, sorted(sorted(entries) for entries in units.values())))
    return found


def in_parquet(folder, frame: pl.DataFrame):
    for place, part in enumerate((frame[::2], frame[1::2], frame[:0])):
        part.write_parquet(folder / f"part-{place}.parquet")
    return folder


def in_duckdb(path, frame: pl.DataFrame) -> str:
    with duckdb.connect(path) as connection:
        connection.register("given", frame.to_arrow())
        connection.execute("CREATE OR REPLACE TABLE people AS SELECT * FROM given")
    return f"duckdb:///{path}"


def same_on(where, frame: pl.DataFrame, only: list[str] | None = None) -> None:
    """Every question has the same exact numbers from a source as from the frame."""
    for unit, questions in UNITS.values():
        schema = schema_of(unit)
        with Session(frame, schema, budget=1e6) as here, Session(where, schema, budget=1e6) as there:
            assert isinstance(here._rows, Held)
            assert isinstance(there._rows, Streamed)
            for sql in questions if only is None else only:
                plan = here._plan(here._question(sql), 1_000_000)
                assert laid_out(there._rows.exact(plan)) == laid_out(here._rows.exact(plan)), sql
            assert sorted(there._rows.frame.rows(), key=repr) == sorted(here._rows.frame.rows(), key=repr)


@given(rows=st.lists(row, max_size=12))
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parquet_and_duckdb_give_the_numbers_of_a_frame(tmp_path, rows):
    frame = table_of(rows)
    same_on(in_parquet(tmp_path, frame), frame)
    same_on(in_duckdb(tmp_path / "x.db", frame), frame)


PG_TYPES = {
    "age": "bigint",
    "income": "double precision",
    "amount": "text",
    "price": "numeric(20, 4)",
    "region": "text",
    "school": "varchar(20)",
    "smoker": "boolean",
    "born": "date",
    "seen": "timestamp",
    "who": "text",
}


def in_postgres(url: str, frame: pl.DataFrame) -> str:
    import psycopg

    columns = ", ".join(f"{name} {kind}" for name, kind in PG_TYPES.items())
    with psycopg.connect(url) as connection:
        connection.execute(
            f"SET lock_timeout = 5000; DROP TABLE IF EXISTS people; CREATE TABLE people ({columns})"
        )
        with connection.cursor().copy("COPY people FROM STDIN") as copy:
            for each in frame.iter_rows():
                copy.write_row(each)
    return f"{url}?table=public.people"


@given(rows=st.lists(row, max_size=12))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_postgresql_gives_the_numbers_of_a_frame(cluster, rows):
    frame = table_of(rows)
    same_on(in_postgres(cluster.url, frame), frame)


def test_postgresql_in_several_batches(cluster, monkeypatch):
    frame = people(1000)
    monkeypatch.setattr(_postgresql, "BATCH_ROWS", 90)
    same_on(in_postgres(cluster.url, frame), frame, QUESTIONS[2:5])


def released_alike(source, frame: pl.DataFrame) -> None:
    """At a huge epsilon a private table of a source tells the counts of all pairs of a frame's cells."""
    schema = Schema({name: COLUMNS[name] for name in RELEASED}, id="t", budget=1e6)
    out = release_marginals(source, schema, 1e6, columns=RELEASED, marginals=2)
    codes = load_codes(frame, schema, out.plan, None)
    for key in combinations(range(len(RELEASED)), 2):
        told = np.rint(out.model.table(key)).astype(np.int64)
        assert (told == count_table(codes, key, out.model.sizes)).all()
    assert (tuple(out.frame.columns), out.frame.height) == (RELEASED, frame.height)


def test_a_private_table_of_postgresql(cluster):
    frame = people(300)
    released_alike(in_postgres(cluster.url, frame), frame)


def test_odd_types_and_texts_of_postgresql(cluster):
    import psycopg

    with psycopg.connect(cluster.url) as connection:
        connection.execute(
            "DROP TABLE IF EXISTS odd; CREATE COLLATION IF NOT EXISTS any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        connection.execute(
            "CREATE TABLE odd (day date, at timestamptz, free numeric, fixed char(5), bytes bytea, word text COLLATE any_case, long text, short real)"
        )
        connection.execute(
            "INSERT INTO odd VALUES ('infinity', 'infinity', 'NaN', 'ab', '\\xff', 'A', repeat('x', 3000000), 0.1), "
            "('0044-03-15 BC', '2000-01-01 01:30+02', 3.50, 'cd', 'low', 'a', E'line\nend,\"quoted\"', 'inf')"
        )
    schema = Schema(
        {
            "day": Column("day", kind="date", bounds=("1900-01-01", "2020-12-31")),
            "at": Column("at", kind="date", bounds=("1900-01-01", "2020-12-31")),
            "free": Column("free", bounds=(0, 10)),
            "fixed": Column("fixed", kind="category", levels=("ab", "cd")),
            "bytes": Column("bytes", kind="category", levels=("low",)),
            "word": Column("word", kind="category", levels=("a",)),
            "long": Column("long", kind="category", levels=('line\nend,"quoted"',)),
            "short": Column("short", bounds=(0, 10)),
        },
        id="odd",
    )
    with Session(cluster.url, schema, budget=1.0) as session:
        short = float(pl.Series([0.1], dtype=pl.Float32)[0])
        assert sorted(session._rows.frame.rows(), key=str) == [
            (None, 730119.0, 3.5, 1, 0, 0, 0, 10.0),
            (None, None, None, 0, None, None, None, short),
        ]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("{}?table=nobody", "has no table 'nobody'"),
        ("{}?table=x%22; DROP TABLE people; --", "has no table"),
        ("postgresql://ann:secret@127.0.0.1:1/x?table=t", "cannot be reached: refused"),
        ("postgresql://nobody:secret@{host}/none?table=t", "cannot be reached: does not exist"),
    ],
)
def test_postgresql_that_holds_no_table(where, said, cluster):
    address = where.format(cluster.url, host=cluster.url.partition("@")[2].partition("/")[0])
    with pytest.raises(InputError) as told:
        Session(address, schema_of(None), budget=1.0)
    assert said in str(told.value)
    assert "secret" not in str(told.value)


def people(n: int = 500) -> pl.DataFrame:
    rows = [
        {
            "age": at % 97,
            "income": at * 0.37,
            "amount": f"{at % 31}.5",
            "price": Decimal(at % 7),
            "region": ["north", "süd", "?"][at % 3],
            "school": "basic",
            "smoker": at % 2 == 0,
            "born": datetime.date(1950 + at % 50, 1, 1),
            "seen": datetime.datetime(2000, 1, 1, 23, 59, 59),
            "who": f"p{at % 120}",
        }
        for at in range(n)
    ]
    return table_of(rows)


def test_batches_of_any_size_add_up(tmp_path, monkeypatch):
    frame = people(2500)
    for module in (_parquet, _duckdb):
        monkeypatch.setattr(module, "BATCH_ROWS", 700)
    same_on(in_parquet(tmp_path, frame), frame)
    same_on(in_duckdb(tmp_path / "x.db", frame), frame)


def test_only_the_columns_of_the_question_are_read(tmp_path, monkeypatch):
    where = in_parquet(tmp_path, people())
    read = []
    plain = _parquet.ParquetSource.batches
    monkeypatch.setattr(
        _parquet.ParquetSource, "batches", lambda self, names: read.append(set(names)) or plain(self, names)
    )
    with Session(where, schema_of(Unit("who", 3)), budget=9.0) as session:
        session.ask("SELECT SUM(income) FROM t WHERE age > 20 GROUP BY smoker", 1.0)
        session.ask("SELECT COUNT(*) FROM t", 1.0)
    assert read == [{"income", "age", "smoker", "who"}, {"age", "who"}]


def test_files_of_one_folder_may_store_a_column_in_different_types(tmp_path):
    schema = Schema({"age": COLUMNS["age"]}, id="people", unit=Unit("who", 3))
    whole = pl.DataFrame({"age": ["41", "7", "x", "-9"], "who": ["7", "7", "8", "007"]})
    whole[:2].cast({"age": pl.Int64, "who": pl.Int64}).write_parquet(tmp_path / "a.parquet")
    whole[2:].write_parquet(tmp_path / "b.parquet")
    with Session(tmp_path, schema, budget=9.0) as there, Session(whole, schema, budget=9.0) as here:
        plan = here._plan(here._question("SELECT COUNT(*), SUM(age) FROM t"), 1_000_000)
        assert laid_out(there._rows.exact(plan)) == laid_out(here._rows.exact(plan))


def test_folders_named_by_a_value_are_a_column(tmp_path):
    for region, ages in (("north", [1, 2]), ("s%C3%BCd", [3]), ("__HIVE_DEFAULT_PARTITION__", [4])):
        folder = tmp_path / f"region={region}"
        folder.mkdir()
        pl.DataFrame({"age": ages}).write_parquet(folder / "x.parquet")
    (tmp_path / "_log").mkdir()
    pl.DataFrame({"other": [1]}).write_parquet(tmp_path / "_log" / "y.parquet")
    schema = Schema({"age": COLUMNS["age"], "region": COLUMNS["region"]}, id="people")
    with Session(tmp_path, schema, budget=1e6) as session:
        found = session.ask("SELECT region, COUNT(*) AS n FROM t GROUP BY region", 1e5).to_frame()
    assert dict(found.select("region", "n").iter_rows()) == {"north": 2, "süd": 1, "7": 0, "a b": 0}


def test_types_of_duckdb_that_arrow_has_no_like_of(tmp_path):
    """Infinite days are no days; enumerations, intervals and bits are their texts; whole numbers of 128 bits are numbers."""
    path = tmp_path / "x.db"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('low', 'high')")
        connection.execute(
            "CREATE TABLE people AS SELECT * FROM (VALUES ('infinity'::DATE, 'high'::mood, 2::HUGEINT, INTERVAL 1 DAY, '101'::BIT, "
            "'\\xFF'::BLOB), ('2000-01-01', 'low', 9::HUGEINT, NULL, NULL, 'low'::BLOB)) AS v(day, mood, big, span, bits, bytes)"
        )
    schema = Schema(
        {
            "day": Column("day", kind="date", bounds=("1900-01-01", "2020-12-31")),
            "mood": Column("mood", kind="category", levels=("low", "high")),
            "big": Column("big", bounds=(0, 10)),
            "span": Column("span", kind="category"),
            "bits": Column("bits", kind="category", levels=("101",)),
            "bytes": Column("bytes", kind="category", levels=("low",)),
        },
        id="people",
    )
    with Session(f"duckdb:///{path}", schema, budget=1.0) as session:
        assert sorted(session._rows.frame.rows(), key=str) == [
            (730120.0, 0, 9.0, None, None, 0),
            (None, 1, 2.0, "1 day", 0, None),
        ]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("none.parquet", "No file 'none.parquet'."),
        ("duckdb:///none.db?table=t", "No file 'none.db'."),
        ("duckdb://host/x.db", "must be duckdb:///FILE?table=NAME. Got the host 'host'."),
        ("duckdb:///", "Got no file."),
        ("duckdb:///x.db?mode=rw", "Got the option 'mode'."),
        ("mysql://u:secret@h/d", "Got an address of the kind 'mysql'."),
        ("folder", "The folder 'folder' must hold files that end in .parquet."),
        ("bad.parquet", "The file 'bad.parquet' cannot be read as .parquet"),
        ("duckdb:///bad.parquet?table=t", "cannot be opened as a DuckDB database"),
        ("duckdb:///good.db?table=nobody", "has no table 'nobody'"),
        ("duckdb:///good.db?table=main.nobody'; DROP TABLE people; --", "has no table"),
        (
            "duckdb:///good.db?table=lists",
            "Column 'age' of lists of good.db must hold plain values. Got INTEGER[].",
        ),
    ],
)
def test_places_that_hold_no_table(where, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with duckdb.connect("good.db") as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS age; CREATE TABLE lists AS SELECT [1] AS age")
    with pytest.raises(InputError) as told:
        Session(where, Schema({"age": COLUMNS["age"]}, id="people"), budget=1.0).ask(
            "SELECT COUNT(*) FROM t WHERE age > 1", 0.5
        )
    assert said in str(told.value)
    assert "secret" not in str(told.value)
    with duckdb.connect("good.db") as connection:
        assert connection.execute("SELECT COUNT(*) FROM people").fetchone() == (1,)


def test_a_missing_column_is_told_before_anything_is_charged(tmp_path):
    pl.DataFrame({"age": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match="declares column 'sex'"):
        Session(tmp_path, Schema({"sex": Column("sex")}, id="p"), budget=1.0)
    with pytest.raises(SchemaError, match="unit is column 'who'"):
        Session(tmp_path, Schema({"age": COLUMNS["age"]}, id="p", unit=Unit("who", 1)), budget=1.0)
    pl.DataFrame({"other": [1]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="must have the same columns"):
        Session(tmp_path, Schema({"age": COLUMNS["age"]}, id="p"), budget=1.0)


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([5], pa.duration("s")),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([10**40], pa.decimal256(60)),
    ],
    ids=lambda each: str(each.type)[:9],
)
def test_a_type_of_no_plain_values_is_told_before_anything_is_charged(tmp_path, cells):
    """A question about it was charged and then refused."""
    pq.write_table(pa.table({"age": pa.array([3]), "c": pa.array([1])}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"age": pa.array([3]), "c": cells}), tmp_path / "b.parquet")
    Session(tmp_path, Schema({"age": COLUMNS["age"]}, id="p"), budget=1.0).close()  # the other is left out
    with pytest.raises(InputError, match="Column 'c' of .* must hold plain values"):
        Session(tmp_path, Schema({"c": Column("c")}, id="p"), budget=1.0)


@pytest.mark.parametrize("name", ["*", "^a.*$", "shoal:unit"])
def test_a_name_that_means_several_columns_is_told_before_anything_is_charged(tmp_path, name):
    frame = pl.DataFrame({name: [1], "ab": [2]})
    frame.write_parquet(tmp_path / "a.parquet")
    schema = Schema({each: Column(each, bounds=(0, 9)) for each in (name, "ab")}, id="p")
    for table in (frame, tmp_path):
        with pytest.raises(SchemaError, match="may not be called|program's own"):
            Session(table, schema, budget=1.0)


def test_a_source_that_is_gone_costs_nothing(tmp_path):
    where = in_parquet(tmp_path, people())
    with Session(where, schema_of(None), budget=1.0) as session:
        (tmp_path / "part-1.parquet").unlink()
        with pytest.raises(InputError, match="cannot be read"):
            session.ask("SELECT COUNT(*) FROM t", 0.5)
        assert session.remaining() == 1.0


def test_a_source_that_is_gone_has_no_tau_to_sell(tmp_path):
    schema = replace(schema_of(None), cells=Cells(("age",), (400,), None))
    where = in_parquet(tmp_path, people())
    with Session(where, schema, "correlated", budget=1.0) as session:
        (tmp_path / "part-1.parquet").unlink()
        with pytest.raises(InputError, match="cannot be read"):
            session.buy_tau(0.5)
        assert session.remaining() == 1.0


def test_cells_of_a_source_are_those_of_a_frame(tmp_path):
    from shoal.schema import Cells

    schema = Schema(COLUMNS, id="people", cells=Cells(("age", "income"), (22, 20), 3))
    where = in_parquet(tmp_path, people())
    with (
        Session(people(), schema, "correlated", 9.0) as here,
        Session(where, schema, "correlated", 9.0) as there,
    ):
        plan = here._plan(here._question("SELECT COUNT(*), SUM(age) FROM t"), 1_000_000)
        assert laid_out(there._rows.exact(plan)) == laid_out(here._rows.exact(plan))


def test_the_most_frequent_level_and_joins_of_sources(tmp_path):
    from shoal.dp.answering.frequent import level_counts, read_mode

    where, schema = in_parquet(tmp_path, people()), schema_of(Unit("who", 2))
    with Session(people(), schema, budget=9.0) as here, Session(where, schema, budget=9.0) as there:
        asked = read_mode("SELECT MODE(region) FROM t", here)
        counts = [level_counts(each._rows.frame, asked, schema, 2).tolist() for each in (here, there)]
        assert counts[0] == counts[1]
        assert there.ask("SELECT MODE(region) FROM t", 5.0).value in ("north", "süd", "7", "a b")


def test_addresses_are_written_down_without_their_password():
    assert (
        without_password("postgresql://a:b@c/d?table=t&password=e")
        == "postgresql://a@c/d?table=t&password=..."
    )
    assert without_password("x/y.parquet") == "x/y.parquet"
    assert open_source("x.csv", schema_of(None)) is None


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_spark_gives_the_numbers_of_a_frame(spark, tmp_path):
    frame = people(200)
    same_on(spark.read.parquet(str(in_parquet(tmp_path, frame))), frame, QUESTIONS[:5])


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_a_private_table_of_spark(spark, tmp_path):
    frame = people(300)
    released_alike(spark.read.parquet(str(in_parquet(tmp_path, frame))), frame)


def test_what_spark_cannot_read_is_one_sentence(spark):
    from pyspark.sql import functions as f

    broken = spark.range(10).select(f.raise_error(f.lit("cell 42")).cast("int").alias("age"))
    source = open_source(broken, Schema({"age": COLUMNS["age"]}))
    with pytest.raises(InputError, match="table of Spark cannot be read to its end") as told:
        list(source.batches(["age"]))
    assert "42" not in str(told.value)
