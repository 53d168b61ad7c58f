"""Files in and out: formats, guesses that are said, refusals in one sentence, nothing half-written."""

from __future__ import annotations

import gzip
import os
import resource
from datetime import UTC, date, datetime
from io import BytesIO, TextIOWrapper

import numpy as np
import polars as pl
import pytest

from shoal import io
from shoal.errors import InputError
from shoal.schema import FileFormat

FRAME = pl.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 2.5], "c": ["x", "y", "ä"]})


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".arrow", ".feather", ".xlsx"])
def test_round_trip(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    io.write_table(FRAME, path)
    assert io.read_table(path).equals(FRAME)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta"])
def test_statistical_formats_keep_labels(tmp_path, ending):
    labels = {
        "column_labels": {"a": "Answer", "b": "Income"},
        "variable_value_labels": {"a": {1: "yes", 2: "no"}},
    }
    path, again = tmp_path / f"t{ending}", tmp_path / f"u{ending}"
    io.write_table(FRAME, path, io.ReadTable(FRAME, ending, (), labels))
    source = io.read_source(path)
    assert source.frame["a"].to_list() == [1, 2, 3]
    io.write_table(source.frame, again, source)
    back = io.read_source(again)
    assert back.labels["column_labels"]["a"] == "Answer"
    assert {int(code): text for code, text in back.labels["variable_value_labels"]["a"].items()} == {
        1: "yes",
        2: "no",
    }
    assert back.frame["b"].to_list() == [0.5, None, 2.5]
    assert back.frame["c"].to_list() == ["x", "y", "ä"]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_delimiters_are_found(tmp_path, mark):
    path = tmp_path / "t.csv"
    path.write_text(mark.join("abc") + "\n" + "\n".join(mark.join(["1", "2.5", "x"]) for _ in range(5)))
    assert io.read_table(path).columns == ["a", "b", "c"]


def test_decimal_commas_and_other_encodings_are_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe;wert\n1;2,5\n2;3,5\n".encode("cp1252"))
    source = io.read_source(path)
    assert source.frame.columns == ["größe", "wert"]
    assert source.frame["wert"].to_list() == [2.5, 3.5]
    assert any("cp1252" in note for note in source.notes)
    assert any("comma" in note for note in source.notes)


def test_utf_16_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\n1,ü\n".encode("utf-16"))
    assert io.read_table(path)["b"].to_list() == ["ü"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("empty.csv", b"", "is empty"),
        ("blank.csv", b" \n\n", "is empty"),
        ("header.csv", b"a,b\n", "must have rows"),
        ("binary.csv", bytes(range(256)), "must be text"),
        ("broken.parquet", b"PAR1nothing", "cannot be read as .parquet"),
        ("broken.xlsx", b"PK\x03\x04", "cannot be read as .xlsx"),
        ("broken.sav", b"$FL2 nothing", "cannot be read as .sav"),
        ("ragged.csv", b"a,b\n1,2\n3,4,5\n", "Got 3 at line 3"),
        ("table.docx", b"x", "must end in one of"),
    ],
)
def test_unreadable_files_are_one_sentence(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        io.read_table(path)
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match="No file"):
        io.read_table(tmp_path / "nope.csv")
    with pytest.raises(InputError, match="Got the folder"):
        io.read_table(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        io.write_table(FRAME, tmp_path / "no" / "t.csv")
    with pytest.raises(InputError, match="must end in"):
        io.write_table(FRAME, tmp_path / "t.sas7bdat")


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.csv"
    io.write_table(FRAME, path)
    before = path.read_bytes()
    big = pl.DataFrame({"x": np.random.default_rng(0).normal(size=20_000)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(InputError, match="cannot be written"):
            io.write_table(big, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["t.csv"]


def test_interruption_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.csv"
    io.write_table(FRAME, path)
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), io.atomic(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,a\n1,2,3\n", "'a' more than once"),
        ("a,b\n1,2\n3\n", "2 cells of the header. Got 1 at line 3"),
        ("a,b\n1,2\n3,4,5\n", "Got 3 at line 3"),
        ('a,b\n"1,5",2\n3\n', "Got 1 at line 3"),
    ],
)
def test_a_header_and_rows_that_do_not_fit_are_one_sentence(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        io.read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('"","age"\n"1",30\n"2",40\n', ["column_1", "age"]),
        ("a,b\r1,2\r3,4\r", ["a", "b"]),
        ('"a,b","c""d"\n1,2\n3,4\n', ["a,b", 'c"d']),
        ('a,b\n"x,y",2\n"z\nw",4\n', ["a", "b"]),
        ("a,b\n1,2\n\n3,4\n", ["a", "b"]),
        ("\n\na,b\n1,2\n3,4", ["a", "b"]),
    ],
)
def test_odd_headers_and_lines_are_read(tmp_path, text, columns):
    (tmp_path / "t.csv").write_bytes(text.encode())
    table = io.read_table(tmp_path / "t.csv")
    assert table.columns == columns
    assert table.drop_nulls().height == 2


@pytest.mark.parametrize(
    ("cells", "kind", "read"),
    [
        (["01067", "04109"], pl.String, ["01067", "04109"]),
        (["01", "12"], pl.String, ["01", "12"]),
        (["0", "12"], pl.Int64, [0, 12]),
        (["-07", "1.5"], pl.String, ["-07", "1.5"]),
        (["0.5", "", "1e3"], pl.Float64, [0.5, None, 1000.0]),
        (["True", "false"], pl.Boolean, [True, False]),
        (["12345678901234567890", "1"], pl.String, ["12345678901234567890", "1"]),
        (['"1,007"', "12"], pl.String, ["1,007", "12"]),
        (["2020-01-31T10:00:00", "2020-02-01"], pl.String, ["2020-01-31T10:00:00", "2020-02-01"]),
        (["1", "x"], pl.String, ["1", "x"]),
        (["NaN", "2"], pl.Float64, None),
    ],
)
def test_cells_keep_their_kind(tmp_path, cells, kind, read):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{cell},1\n" for cell in cells))
    found = io.read_table(path)["x"]
    assert found.dtype == kind
    assert read is None or found.to_list() == read


@pytest.mark.parametrize(("mark", "decimal"), [(",", "."), (";", "."), (";", ","), ("|", "."), ("\t", ".")])
def test_the_output_has_the_marks_of_the_input(tmp_path, mark, decimal):
    path, again = tmp_path / "t.csv", tmp_path / "u.csv"
    rows = [["a", "b", "c"], *([str(i), f"{i}{decimal}5", "x"] for i in range(9))]
    path.write_text("".join(mark.join(row) + "\n" for row in rows))
    source = io.read_source(path)
    assert source.frame["b"].to_list() == [i + 0.5 for i in range(9)]
    io.write_table(source.frame, again, source)
    assert again.read_text() == path.read_text()
    io.write_table(source.frame, tmp_path / "u.tsv", source)
    assert (tmp_path / "u.tsv").read_text().startswith("a\tb\tc\n")


def test_a_tab_separated_file_becomes_commas_in_a_csv(tmp_path):
    (tmp_path / "t.tsv").write_text("a\tb\n1\t2\n")
    source = io.read_source(tmp_path / "t.tsv")
    io.write_table(source.frame, tmp_path / "u.csv", source)
    assert (tmp_path / "u.csv").read_text() == "a,b\n1,2\n"


def test_a_declared_file_is_read_as_declared(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("ä|x\n1,5|a,b\n2|c\n".encode("latin-1"))
    marks = FileFormat("latin-1", "|", ",")
    source = io.read_source(path, marks)
    assert source.frame.to_dict(as_series=False) == {"ä": [1.5, 2.0], "x": ["a,b", "c"]}
    assert source.notes == ()
    assert source.file == marks
    with pytest.raises(InputError, match="must be text in utf-8, as the schema declares"):
        io.read_source(path, FileFormat())
    path.write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert io.read_table(path, FileFormat()).columns == ["a", "b"]


def test_spss_holds_labels_of_texts_and_codes_that_are_missing(tmp_path):
    """Codes that became texts keep their labels; codes declared as missing stay in columns that keep them."""
    frame = pl.DataFrame({"region": [1, 2, 3, 1], "why": [1.0, 8.0, 9.0, 2.0]})
    known = {
        "variable_value_labels": {"region": {1: "North", 2: "South", 3: "East"}, "why": {8: "refused"}},
        "missing_ranges": {"why": [{"lo": 8.0, "hi": 9.0}]},
    }
    io.write_table(frame, tmp_path / "in.sav", io.ReadTable(frame, ".sav", (), known))
    plain = io.read_source(tmp_path / "in.sav")
    assert plain.frame["why"].to_list() == [1, None, None, 2]
    coded = io.read_source(tmp_path / "in.sav", coded=["why"])
    assert coded.frame["why"].to_list() == [1, 8, 9, 2]
    assert not coded.notes
    coarse = coded.frame.with_columns(region=pl.Series(["1", "*", "*", "2"]))
    assert not any("labels" in each for each in io.lost_in_writing(coarse, tmp_path / "out.sav", coded))
    assert any("labels" in each for each in io.lost_in_writing(coarse, tmp_path / "out.dta", coded))
    io.write_table(coarse, tmp_path / "out.sav", coded)
    again = io.read_source(tmp_path / "out.sav", coded=["why"])
    assert again.labels["variable_value_labels"]["region"] == {"1": "North", "2": "South"}
    assert again.frame["why"].to_list() == [1, 8, 9, 2]


def test_a_text_that_looks_like_a_formula_stays_a_text(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    texts = ["=1+1", '=HYPERLINK("x")', "+1", "@a", "-"]
    io.write_table(pl.DataFrame({"=name": texts}), tmp_path / "t.xlsx")
    cells = [row[0] for row in openpyxl.load_workbook(tmp_path / "t.xlsx").active.rows]
    assert {cell.data_type for cell in cells} == {"s"}
    assert io.read_table(tmp_path / "t.xlsx")["=name"].to_list() == texts


def test_a_link_leads_to_the_file_that_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "t.csv").symlink_to(tmp_path / "there" / "real.csv")
    for value in (1, 2):  # absent at first, then replaced
        io.write_table(pl.DataFrame({"a": [value]}), tmp_path / "t.csv")
        assert (tmp_path / "t.csv").is_symlink()
        assert (tmp_path / "there" / "real.csv").read_text() == f"a\n{value}\n"


@pytest.mark.parametrize("ending", [".xlsx", ".sav", ".dta", ".xpt"])
def test_what_a_format_cannot_hold_is_said_and_the_rest_stays(tmp_path, ending):
    """Early dates were a day off in a workbook, moments moved to UTC without a word, large numbers became infinite."""
    pytest.importorskip("openpyxl" if ending == ".xlsx" else "pyreadstat")
    moments = [datetime(2020, 1, 1, 12, minute, tzinfo=UTC) for minute in range(3)]
    frame = pl.DataFrame(
        {
            "old": [date(1750, 3, 4), date(1899, 12, 31), date(1900, 2, 28)],
            "new": [date(1900, 3, 1), date(1999, 1, 2), None],
            "moment": pl.Series(moments).dt.convert_time_zone("Europe/Berlin"),
            "large": [2**60 + 1, 2, 3],
        }
    )
    path = tmp_path / f"t{ending}"
    io.write_table(frame, path)
    back = io.read_table(path)
    said = " ".join(io.lost_in_writing(frame, path, io.ReadTable(frame, ".parquet")))
    assert back["old"].cast(pl.String).to_list() == frame["old"].cast(pl.String).to_list()
    assert back["new"].cast(pl.Date).to_list() == frame["new"].to_list()
    assert back["moment"].dt.replace_time_zone(None).to_list() == [
        each.replace(tzinfo=None) for each in moments
    ]
    assert "no time zones: 'moment' is written in UTC" in said
    assert f"'large' is written to {'15 digits' if ending == '.xlsx' else 'the precision'}" in said
    assert ("no dates before 1900: 'old' is written as texts" in said) == (ending == ".xlsx")
    if ending == ".xpt":
        with pytest.raises(InputError, match="holds numbers up to"):
            io.write_table(pl.DataFrame({"x": [1e80, 1.0]}), path)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.CSV.GZ", "t.zip"])
def test_a_compressed_file_is_named_as_such(name, tmp_path):
    (tmp_path / name).write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(InputError, match=f"{name}' is compressed. Unpack it first"):
        io.read_table(tmp_path / name)


def test_a_compressed_pipe_is_named_as_such(monkeypatch):
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(gzip.compress(b"a,b\n1,2\n"))))
    with pytest.raises(InputError, match=r"on the standard input is compressed \(gzip\)"):
        io.read_table("-")


def test_a_workbook_says_which_rows_and_digits_it_does_not_keep(tmp_path):
    """Two persons whose numbers differ in the sixteenth digit may be one when the file is read."""
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    for row in (["id", "n"], [12345678901234567, 999_999_999_999_999], [None, None], [12345678901234571, 7]):
        book.active.append(row)
    book.save(path)
    source = io.read_source(path)
    assert source.frame["n"].to_list() == [999_999_999_999_999, 7]
    empty, digits = source.notes
    assert empty == "1 row holds nothing in any cell and is left out: it is no record."
    assert digits.startswith("Column 'id' has whole numbers of more than 15 digits")
    assert io.lost_in_writing(source.frame, path, source) == (
        "Column 'id' is written to 15 digits, which is what Excel keeps.",
    )
