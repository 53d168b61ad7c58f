"""From a file's bytes to the loaded rows: one row more, less or changed is one row of what is loaded, and no more."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shoal.cli import app
from shoal.dp import AddRemoveUnit, Session
from shoal.dp.answering.rows import Streamed
from shoal.dp.loading.cells import cells_of
from shoal.dp.loading.load import ids_of, load, protect_rows
from shoal.dp.loading.sources import read_private
from shoal.dp.loading.sources._parquet import ParquetSource
from shoal.errors import InputError, SchemaError
from shoal.schema import Column, FileFormat, Schema, Unit

SCHEMA = Schema(
    {
        "dx": Column("dx", kind="category"),
        "age": Column("age", bounds=(0, 110), missing_codes=("-9",)),
        "day": Column("day", kind="date", bounds=("2000-01-01", "2030-12-31")),
        "sex": Column("sex", kind="category", levels=("f", "m", "1")),
        "ok": Column("ok", kind="boolean"),
    },
    id="clinic",
    unit=Unit("who", 2),
)
NAMES = ("who", *SCHEMA.columns)
SURE = 1000.0


def rows_of(path, schema=SCHEMA):
    """The rows that answer, whatever their order, with the unit of each."""
    data = read_private(path, schema)
    loaded = load(data, schema)
    unit = AddRemoveUnit(schema.unit.column, schema.unit.rows)
    return Counter(loaded.rows()), Counter(protect_rows(loaded, data, schema, unit).rows())


def apart(one, two):
    """How many rows must be taken from and put to one table to have the other."""
    return (one - two).total(), (two - one).total()


cell = st.one_of(
    st.sampled_from(
        [
            b"",
            b"250.10",
            b"V45.01",
            b"12E1",
            b"120",
            b"007",
            b"7",
            b"nan",
            b"1e400",
            b"-9",
            b"3,5",
            b"2001-02-03",
            b"f",
            b"true",
            b"\xe9",
            b"\xff\xfe",
            b"\xc3\xa9",
            b'"a,b"',
            b'5" pipe',
            b'"',
            b'""',
            b"a\rb",
            b"\x00",
            b" 7 ",
        ]
    ),
    st.binary(max_size=6).map(lambda each: each.replace(b"\n", b"")),
    st.integers(-10, 400).map(lambda each: str(each).encode()),
)
line = st.lists(cell, min_size=1, max_size=8).map(b",".join)
good_line = st.lists(cell, min_size=len(NAMES), max_size=len(NAMES)).map(b",".join)
lines = st.lists(st.one_of(good_line, line), max_size=6)


@given(
    lines, st.one_of(good_line, line), st.data(), st.sampled_from(["utf-8", "cp1252", "latin-1", "gb18030"])
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_line_of_a_text_file_is_one_row(tmp_path, before, more, data, encoding):
    schema = replace(SCHEMA, file=FileFormat(encoding=encoding))
    header = ",".join(NAMES).encode()
    at = data.draw(st.integers(0, len(before)))
    added = [*before[:at], more, *before[at:]]
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_bytes(b"\n".join([header, *before]) + b"\n")
    two.write_bytes(b"\r\n".join([header, *added]))  # the ends of lines are no row's affair
    for mine, theirs in zip(rows_of(one, schema), rows_of(two, schema), strict=True):
        gone, new = apart(mine, theirs)
        assert (gone, new <= 1) == (0, True)
    if before:
        changed = [*before]
        changed[data.draw(st.integers(0, len(before) - 1))] = more
        two.write_bytes(b"\n".join([header, *changed]))
        for mine, theirs in zip(rows_of(one, schema), rows_of(two, schema), strict=True):
            assert max(apart(mine, theirs)) <= 1


STORED = {
    "who": st.one_of(st.none(), st.sampled_from(["7", "007", "12E1", "", "x"])),
    "dx": st.one_of(st.none(), st.sampled_from(["250.10", "V45.01", "250"])),
    "age": st.one_of(st.none(), st.integers(0, 5).map(float), st.sampled_from([0.5, 1e10, -9.0])),
    "day": st.one_of(st.none(), st.sampled_from(["2001-02-03", "2001-13-03"])),
    "sex": st.sampled_from(["f", "m", "q"]),
    "ok": st.sampled_from(["true", "0", ""]),
}


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".xlsx", ".sav", ".dta"])
def test_one_stored_row_is_one_row(tmp_path, ending):
    """A whole number among fractions, a text among numbers, a first missing cell: what stored cells become stays."""
    base = {"who": "7", "dx": "250.10", "age": 40.0, "day": "2001-02-03", "sex": "f", "ok": "true"}
    odd = [
        {"who": "12E1"}, {"dx": "V45.01"}, {"age": 0.5}, {"age": None}, {"who": None}, {"day": "x"}, {"sex": "1"},
        {"ok": ""}, {"age": 1e10},
    ]  # fmt: skip
    types = {name: pl.Float64 if name == "age" else pl.String for name in base}
    before = [base, {**base, "who": "8", "age": 41.0}]
    one = write(tmp_path / f"one{ending}", before, types)
    for each in odd:
        two = write(tmp_path / f"two{ending}", [*before, {**base, **each}], types)
        for mine, theirs in zip(rows_of(one), rows_of(two), strict=True):
            gone, new = apart(mine, theirs)
            assert (gone, new <= 1) == (0, True), each


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_rows_that_hold_nothing_are_no_rows_wherever_they_stand(tmp_path, ending):
    """A workbook is cut after its last row with a value: one more record below would bring all empty rows before it back."""
    path = tmp_path / f"t{ending}"
    rows = [["a", "b"], ["1", "x"], *[[None, None]] * 5, ["2", None], *[[None, None]] * 3]
    if ending == ".csv":
        text = "\n".join(",".join(each or "" for each in row) for row in rows)
        path.write_text(f"sep=,\n{text}\n")
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for place, row in enumerate(rows, 1):
            for column, cell in enumerate(row, 1):
                book.active.cell(place, column, cell).number_format = "0.00"
        book.save(path)
    schema = Schema({"a": Column("a", bounds=(0, 9)), "b": Column("b", kind="category")}, id="t")
    assert read_private(path, schema).rows() == [("1", "x"), ("2", None)]


def write(path, rows, types):
    from shoal.io import write_table

    write_table(pl.DataFrame(rows, schema=types), path)
    return path


def counted(path, schema, sql):
    with Session(read_private(path, schema), schema, budget=1e5) as session:
        return session.ask(sql, SURE).value


@pytest.mark.parametrize(
    "odd", [b"V45.01", b"\xe9", b"3,5", b'"3,5"', b'5" pipe', b'"', b"1;2", b"\x00", b"x" * 200_000]
)
def test_one_odd_record_moves_a_count_by_one(tmp_path, odd):
    # Types, encoding, separator and decimal mark were once inferred from the table, and this moved a count by 1,000.
    schema = Schema({"dx": Column("dx", kind="category"), "x": Column("x", bounds=(0, 500))}, id="codes")
    rows = [b"250.10,250.5"] * 1000
    for name, data in (("a", rows), ("b", [*rows, odd + b",1"]), ("c", [odd + b"," + odd, *rows])):
        path = tmp_path / f"{name}.csv"
        path.write_bytes(b"dx,x\n" + b"\n".join(data))
        assert counted(path, schema, "SELECT COUNT(*) FROM t WHERE dx = '250.10'") == 1000
        assert counted(path, schema, "SELECT COUNT(*) FROM t WHERE x >= 250") == 1000


def test_a_cell_that_cannot_be_decoded_is_null(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'dx,age\ncaf\xe9,9\n"caf\xe9",8\nplain,7\n')
    schema = Schema({"dx": Column("dx", kind="category"), "age": Column("age")})
    assert read_private(tmp_path / "t.csv", schema).rows() == [(None, "9"), (None, "8"), ("plain", "7")]


def test_the_mark_of_a_byte_order_is_part_of_a_cell_wherever_it_stands(tmp_path):
    """The first row lost it and others did not, so that another row before it changed what it held."""
    marked = "\ufeffx,7,,,,"
    found = []
    for rows in ([marked], ["a,1,,,,", marked]):
        (tmp_path / "t.csv").write_text("\n".join([",".join(NAMES), *rows]) + "\n", encoding="utf-8")
        found.append(read_private(tmp_path / "t.csv", SCHEMA).rows()[-1])
    assert found[0] == found[1]
    assert found[0][0] == "\ufeffx"


def test_decimal_commas_are_declared(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;d\n3,5;a\n3.5;b\n7;c\n1.234,5;d\n", encoding="utf-16")
    schema = Schema(
        {"x": Column("x"), "d": Column("d", kind="category")}, file=FileFormat("utf-16", ";", ",")
    )
    assert load(read_private(path, schema), schema)["x"].to_list() == [3.5, None, 7.0, None]
    with pytest.raises(InputError, match="must begin with a line|cannot be decoded"):
        read_private(path, replace(schema, file=None))
    path.write_text("x;d\n3,5;a\n")
    with pytest.raises(SchemaError, match=r"which the table does not have. \(Of a text file, \[file\]"):
        load(read_private(path, replace(schema, file=None)), schema)


def test_line_ends_inside_quotes_are_told_to_the_owner_and_to_nobody_else(tmp_path):
    """A session reads lines and may not refuse by them; the owner's `shoal schema` says how many records are broken up."""
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"two\nlines"\n2,"a ""quote"""\n3,"three\n\nlines"\n')
    told = CliRunner().invoke(app, ["schema", str(path)])
    assert told.exit_code == 0
    assert "note: 2 records have ends of lines inside quotes. Private answers read each line as a row" in (
        told.stderr
    )
    schema = Schema({"a": Column("a", bounds=(0, 9)), "b": Column("b", kind="category")}, id="lines")
    assert read_private(path, schema)["a"].to_list().count("2") == 1
    path.write_text("a,b\n1,x\n")
    assert "ends of lines" not in CliRunner().invoke(app, ["schema", str(path)]).stderr


ODD_TEXTS = [
    "f",
    " f",
    "m",
    "1",
    "1.0",
    "01",
    "1e0",
    "",
    " ",
    "NA",
    "-9",
    "true",
    "FALSE",
    "0",
    "nan",
    "2020-02-30",
    "2020-02-29",
    "ß",
    "-0.0",
]


@settings(max_examples=60, deadline=None)
@given(cells=st.lists(st.none() | st.sampled_from(ODD_TEXTS) | st.text(max_size=4), max_size=10))
def test_a_text_means_the_same_however_often_it_stands_there(cells):
    """Repeated texts are read once, coded ones too: what a cell becomes is what it becomes alone."""
    schema = replace(
        SCHEMA,
        columns={name: replace(each, missing_codes=("NA", -9)) for name, each in SCHEMA.columns.items()},
    )
    cells = [None if each is None else each.encode(errors="ignore").decode() for each in cells]
    texts = pl.DataFrame({name: pl.Series(cells, dtype=pl.String) for name in schema.columns})
    alone = [load(texts[at : at + 1], schema).row(0) for at in range(len(cells))]
    assert load(texts, schema).rows() == alone
    arrow = texts.to_arrow()
    coded = pa.table({name: arrow[name].dictionary_encode() for name in arrow.column_names})
    both = pa.concat_tables([coded[: len(cells) // 2], coded[len(cells) // 2 :]])
    assert load(both, schema).equals(load(texts, schema))
    assert ids_of(cells_of(both, ["dx"])["dx"], schema.columns["dx"]).equals(
        ids_of(texts["dx"], schema.columns["dx"])
    )


def test_parquet_hands_repeated_texts_on_as_codes(tmp_path):
    texts = pl.DataFrame({"sex": ["f", "m", None, "1.0", "x"] * 500, "dx": [str(at) for at in range(2500)]})
    texts.write_parquet(tmp_path / "x.parquet")
    source = ParquetSource(tmp_path / "x.parquet")
    kinds = [
        pa.types.is_dictionary(each.type) for batch in source.batches(["sex", "dx"]) for each in batch.schema
    ]
    assert kinds == [True, False]
    assert source.frame().equals(texts)


def test_ids_are_opaque_unless_declared():
    who = Column("who", kind="category")
    texts = pl.Series("who", ["007", "7", "7.0", "12E1", "120", "", "  ", None, "e\u0301", "\u00e9"])
    assert ids_of(texts, who).to_list() == [
        "007",
        "7",
        "7.0",
        "12E1",
        "120",
        None,
        None,
        None,
        "e\u0301",
        "\u00e9",
    ]
    assert ids_of(texts, replace(who, normalize=True)).to_list()[-2:] == ["\u00e9", "\u00e9"]
    numbers = ids_of(texts, replace(who, numeric_id=True)).to_list()
    assert numbers == ["7", "7", "7", "120", "120", None, None, None, None, None]
    long = pl.Series("who", ["9007199254740993", "9007199254740992", "1e9999", "-0", "0", "9" * 500])
    assert ids_of(long, replace(who, numeric_id=True)).to_list() == [
        "9007199254740993", "9007199254740992", None, "0", "0", None,
    ]  # fmt: skip
    floats = ids_of(pl.Series("who", [math.nan, 7.0, 7.5, None]), who)
    assert floats.to_list() == [None, "7", "7.5", None]  # NaN is nobody
    assert ids_of(pl.Series("who", [2**53 + 1, 2**53]), who).to_list() == [str(2**53 + 1), str(2**53)]


def test_rows_without_an_id_are_nobodys(tmp_path):
    frame = pl.DataFrame({"who": [math.nan] * 50 + [1.0, 2.0], "x": [1.0] * 52})
    schema = Schema({"x": Column("x", bounds=(0, 9))}, unit=Unit("who", 50), id="ids")
    assert Session(frame, schema, budget=1e6).ask("SELECT COUNT(*) FROM t", SURE * 50).value == 2


def test_a_mixed_column_is_read_cell_by_cell_and_no_error_quotes_one():
    pd = pytest.importorskip("pandas")
    cells = [
        "250.10",
        250.1,
        7,
        7.0,
        None,
        math.nan,
        True,
        datetime.date(2001, 2, 3),
        ["SECRET"],
        b"SECRET",
        "\ud800",
    ]
    frame = pd.DataFrame({"dx": pd.Series(cells, dtype=object), "who": pd.Series(cells, dtype=object)})
    schema = Schema({"dx": Column("dx", kind="category")}, unit=Unit("who", 2))
    assert load(frame, schema)["dx"].to_list() == [
        "250.10", "250.1", "7", "7", None, None, "true", "2001-02-03", None, None, None,
    ]  # fmt: skip
    with Session(frame, schema, budget=1e6) as session:
        assert session.ask("SELECT COUNT(*) FROM t", 2 * SURE).value == 6
    nested = pl.DataFrame({"who": [["SECRET"]], "dx": [["SECRET"]]})
    for bad in (frame[["dx"]], nested):
        with pytest.raises(SchemaError) as caught:
            Session(bad, schema, budget=1.0)
        assert "SECRET" not in str(caught.value)


def test_odd_files_are_one_sentence(tmp_path):
    schema = Schema({"a": Column("a")})
    for data, words in (
        (b"", "must begin with a line"),
        (b"\n\n", "must begin with a line"),
        (b"a,a\n1,2", "Column names must differ"),
        (b"\xff\xfea\n1", "cannot be decoded"),
    ):
        (tmp_path / "t.csv").write_bytes(data)
        with pytest.raises(InputError, match=words):
            read_private(tmp_path / "t.csv", schema)
    for ending in (".parquet", ".xlsx", ".sav"):
        (tmp_path / f"t{ending}").write_bytes(b"no such format")
        with pytest.raises(InputError, match="cannot be read as"):
            read_private(tmp_path / f"t{ending}", schema)
    for path in (tmp_path, tmp_path / "none.csv", tmp_path / "t.doc"):
        with pytest.raises(InputError):
            read_private(path, schema)
    (tmp_path / "t.csv").write_bytes(b"a\n")  # a table without rows is a table
    assert load(read_private(tmp_path / "t.csv", schema), schema).height == 0


def test_the_rows_of_a_file_come_in_an_order_that_is_their_own_affair(tmp_path, survey, schema):
    """Else others decided, by where their rows stand, which rows of a crowded unit count."""
    paths = [tmp_path / "one.parquet", tmp_path / "other.parquet"]
    for path, rows in zip(paths, (survey, survey.sample(fraction=1, shuffle=True, seed=3)), strict=True):
        rows.write_parquet(path)
    one, other = (Streamed(ParquetSource(path), schema, AddRemoveUnit("house", 4)).frame for path in paths)
    assert one.equals(other)
    assert one.equals(protect_rows(load(survey, schema), survey, schema, AddRemoveUnit("house", 4)))


def test_infinite_cells_stay_on_their_side():
    """Of a column without bounds too: a condition holds for them as it would for any number so large."""
    schema = Schema({"x": Column("x"), "y": Column("y", bounds=(-3, 5))})
    cells = [math.inf, -math.inf, math.nan, 1.0]
    table = load(pl.DataFrame({"x": cells, "y": cells}), schema)
    assert [None if x is None else math.copysign(1, x) for x in table["x"]] == [1, -1, None, 1]
    assert table["x"].is_finite().sum() == 3
    assert table["y"].to_list() == [5, -3, None, 1]


def test_moments_are_days_and_answers_of_yes_and_no_may_be_written_in_any_way():
    schema = Schema({"day": Column("day", kind="date"), "yes": Column("yes", kind="boolean")})
    moment = datetime.datetime(2024, 2, 29, 23, 59)
    days = [moment, moment.replace(hour=0), None, moment - datetime.timedelta(1), moment]
    table = load(pl.DataFrame({"day": days, "yes": ["TRUE", "false", "1", "0", "perhaps"]}), schema)
    first = table["day"][0]
    assert first == datetime.date(2024, 2, 29).toordinal()
    assert table["day"].to_list() == [first, first, None, first - 1, first]
    assert table["yes"].to_list() == [1, 0, 1, 0, None]


def test_numbers_that_are_ids_keep_their_fractions_and_their_length():
    column = Column("who", kind="category", numeric_id=True)
    cells = ["1.50", "1.5", "1.4", "2", "-0", "0.0", "9" * 30, "9" * 29 + "8", "1e401", "x"]
    ids = ["1.5", "1.5", "1.4", "2", "0", "0", "9" * 30, "9" * 29 + "8", None, None]
    long = ["0." + "1" * 40 + end for end in ("1", "2")]  # beyond the digits that decimals are rounded to
    cells, ids = [*cells, *long, long[0] + "00"], [*ids, *long, long[0]]
    assert ids_of(pl.Series("who", cells), column).to_list() == ids


def test_cells_of_mixed_kinds_are_the_texts_that_people_would_type():
    """However a program stored them: two spellings of one id would be two people."""
    moment = datetime.datetime(2024, 2, 29, 13, 5)
    pandas = pytest.importorskip("pandas")
    cells = [
        (7, "7"), (7.0, "7"), (np.int64(8), "8"), (2.5, "2.5"), (True, "true"), (moment, "2024-02-29"),
        (moment.date(), "2024-02-29"), ("a\tb", "a\tb"), ("\ud800", None), (math.nan, None), (1e300, "1e+300"),
    ]  # fmt: skip
    stored, texts = (list(each) for each in zip(*cells, strict=True))
    for frame in (
        pl.DataFrame({"x": pl.Series(stored, dtype=pl.Object), "y": [1] * len(stored)}),
        pandas.DataFrame({"x": pandas.Series(stored, dtype=object), "y": 1}),
    ):
        assert cells_of(frame, ["x"]).to_dict(as_series=False) == {"x": texts}


def test_bytes_and_cells_of_any_kind_mean_the_texts_they_stand_for():
    schema = Schema({"a": Column("a", kind="category", levels=("x", "y")), "n": Column("n", bounds=(0, 9))})
    plain = pl.DataFrame({"a": ["x", "y", None, None], "n": ["3", "4", "5", None]})
    odd = pl.DataFrame(
        {
            "a": pl.Series([b"x", b"y", None, b"\xff"]),
            "n": pl.Series([np.int64(3), "4", np.float64(5.0), None], dtype=pl.Object),
        }
    )
    assert load(odd, schema).equals(load(plain, schema))
    assert load(plain, schema)["n"].to_list()[:3] == [3.0, 4.0, 5.0]


def far_times():
    """Columns of two times, the second of which no calendar has."""
    for unit, far in (("ms", 2**62), ("us", -(2**62)), ("us", 2**63 - 1)):
        times = pl.Series("t", [0, far]).cast(pl.Datetime(unit))
        yield pl.DataFrame([times])
        yield pl.DataFrame([times.dt.replace_time_zone("UTC")])
    for far in (2**31 - 1, -(2**31), 2_932_897, -719_163):
        yield pl.DataFrame([pl.Series("t", [0, far], dtype=pl.Int32).cast(pl.Date)])
    for far in (2**62 // 86_400_000 * 86_400_000, -719_163 * 86_400_000):
        yield pa.table({"t": pa.array([0, far], pa.int64()).view(pa.date64())})
    yield pa.table({"t": pa.array([0, 10**18], pa.timestamp("s"))})


@pytest.mark.parametrize("table", list(far_times()), ids=lambda each: str(each.schema)[:40])
@pytest.mark.parametrize("kind", ["number", "category", "date", "boolean"])
@pytest.mark.parametrize("codes", [(), ("-9",)])
def test_a_time_that_no_calendar_has_is_null(table, kind, codes):
    """Polars breaks off at the text of such a cell: one row ended every answer, after its charge."""
    bounds = {"date": ("1900-01-01", "2020-12-31"), "number": (0, 9)}.get(kind)
    schema = Schema({"t": Column("t", kind=kind, bounds=bounds, missing_codes=codes)}, id="t")
    loaded = load(table, schema)["t"].to_list()
    assert loaded[1] is None
    assert (loaded[0] is not None) == (kind in ("date", "category"))
    held = ids_of(cells_of(table, ["t"])["t"], Column("t", kind="category")).to_list()
    assert held[0].startswith("1970-01-01")
    assert held[1] is None
