"""Encoding, separator, decimal mark and leading zeros: read by one rule wherever rows live, and written back as they came."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shoal import io
from shoal.cli import app
from shoal.cli.protect import in_memory
from shoal.errors import InputError
from shoal.publish import ProtectionRequest
from shoal.publish.executors.parts.source import open_source
from shoal.schema import FileFormat

ROLES = """
[columns.postcode]
role = "quasi"
kind = "category"
[columns.income]
role = "quasi"
bounds = [0, 10]
[columns.town]
role = "quasi"
kind = "category"
[columns.member]
role = "quasi"
kind = "boolean"
"""
FILE = """
[file]
encoding = "latin-1"
separator = "|"
decimal = ","
"""


def lines(n: int = 60, mark: str = "|") -> str:
    rng = np.random.default_rng(0)
    rows = [mark.join(["postcode", "income", "town", "member"])]
    for i in range(n):
        income = f"{rng.uniform(1, 9):.2f}".replace(".", ",")
        rows.append(
            mark.join([f"0{i % 4}067", income, ["Köln", "Zürich"][i % 2], ["true", "False"][i % 3 == 0]])
        )
    return "\n".join(rows) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_bytes(lines().encode("latin-1"))
    (tmp_path / "t.toml").write_text('[table]\nid = "t"\nunit = "record"\nbudget = 5000\n' + FILE + ROLES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str):
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def test_a_declared_file_is_read_and_written_alike_in_memory_and_in_parts(folder):
    asked = ["protect", "t.csv", "-k", "3", "--schema", "t.toml", "--method", "mdav", "--json"]
    facts = []
    for name, more in (("memory", []), ("parts", ["--memory", "1GB", "--jobs", "1"])):
        facts.append(json.loads(run(*asked, "-o", f"{name}.csv", *more).stdout))
    made = (folder / "memory.csv").read_bytes()
    assert made == (folder / "parts.csv").read_bytes()
    text = made.decode("latin-1")
    assert text.startswith("postcode|income|town|member\n")
    assert "Köln" in text
    assert "00067|" in text
    assert "," in text
    assert "." not in text
    for key in ("status", "at_risk", "information_loss", "dld", "n_groups"):
        assert facts[0][key] == facts[1][key], key


def test_check_compare_and_ask_read_what_protect_wrote(folder):
    run("protect", "t.csv", "-k", "3", "--schema", "t.toml", "--method", "mdav", "-o", "o.csv")
    checked = json.loads(run("check", "o.csv", "--schema", "t.toml", "--original", "t.csv", "--json").stdout)
    assert checked["k"] >= 3
    assert checked["n_records"] == 60
    compared = json.loads(
        run("compare", "t.csv", "-k", "3", "--methods", "mdav", "--schema", "t.toml", "--json").stdout
    )
    assert "--schema t.toml" in compared["command"]
    words = compared["command"].split()
    run(*words[1:])
    assert (folder / "protected.csv").read_bytes() == (folder / "o.csv").read_bytes()
    pytest.importorskip("opendp", reason="answers need the extra 'dp'")
    question = "SELECT AVG(income) FROM t"
    answer = json.loads(
        run("ask", "t.csv", question, "--schema", "t.toml", "--epsilon", "1000", "--json").stdout
    )
    truth = io.read_table("t.csv", FileFormat("latin-1", "|", ","))["income"].mean()
    assert answer["value"] == pytest.approx(truth, abs=0.2)


def test_the_page_reads_by_the_schema_that_came_with_the_table(folder):
    pytest.importorskip("fastapi", reason="the page needs the extra 'server'")
    from shoal.server import worker
    from shoal.server.job_files import JobState, TableLook

    (folder / "table.csv").write_bytes((folder / "t.csv").read_bytes())
    (folder / "codebook.toml").write_bytes((folder / "t.toml").read_bytes())
    JobState(ending=".csv", state="running").write(folder)
    worker.look(folder)
    assert [each.name for each in TableLook.read(folder).columns] == [
        "postcode", "income", "town", "member",
    ]  # fmt: skip


@pytest.mark.parametrize("where", ["memory", "parts"])
def test_text_in_another_encoding_than_declared_is_one_sentence(folder, where):
    file = FileFormat("utf-8", "|", ",")
    with pytest.raises(InputError, match="must be text in utf-8, as the schema declares. It is not.$"):
        io.read_table("t.csv", file) if where == "memory" else open_source("t.csv", folder, file)


CELLS = st.sampled_from(
    ["", "1", "-7", "+3", "007", "1.5", "1,5", ".5", "1e3", "inf", "NaN", "true", "FALSE", "a b", "é",
     "99999999999999999999", "1,007", '"x,;y"', '""', "2020-01-02"]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=30),
    mark=st.sampled_from([",", ";", "\t", "|"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    ends=st.sampled_from(["\n", "\r\n"]),
    declared=st.booleans(),
    decimal=st.sampled_from([".", ","]),
    blank=st.integers(0, 2),
    exact=st.sampled_from([(), ("b",)]),
)
def test_both_readers_read_any_text_alike(
    tmp_path_factory, rows, mark, encoding, ends, declared, decimal, blank, exact
):
    folder = tmp_path_factory.mktemp("cells")
    kept = [cell for row in rows for cell in row]
    if any(mark in cell and '"' not in cell for cell in kept):
        return
    text = ends.join(mark.join(row) for row in [("a", "b"), *rows]) + ends * (1 + blank)
    (folder / "t.csv").write_bytes(text.encode(encoding))
    file = None
    if declared and mark != decimal:
        file = FileFormat("utf-8" if encoding == "utf-8-sig" else encoding, mark, decimal)
    found = []
    for where in ("memory", "parts"):
        try:
            if where == "memory":
                source = io.read_source(folder / "t.csv", file, exact=exact)
                found.append((source.frame, source.file, source.notes))
            else:
                source = open_source(folder / "t.csv", folder, file, exact)
                found.append((pl.concat(source.batches()), source.file, source.notes))
        except InputError as error:
            found.append(str(error))
    if isinstance(found[0], str):
        assert found[0] == found[1]
        return
    assert found[0][0].equals(found[1][0])
    assert found[0][0].schema == found[1][0].schema
    assert found[0][1:] == found[1][1:]
    assert found[0][0].height == len([row for row in rows if any(row)])


@pytest.mark.parametrize("where", ["memory", "parts"])
def test_blank_lines_are_no_records(tmp_path, where):
    """They would count as people, so that a class of five looked like one of seven."""
    text = 'age,city\r\n20,"A\n\nB"\r\n\r\n21,B\r\n22,C\r\n\r\n\r\n'
    (tmp_path / "t.csv").write_text(text, newline="")
    table = (
        io.read_table(tmp_path / "t.csv")
        if where == "memory"
        else pl.concat(open_source(tmp_path / "t.csv", tmp_path).batches())
    )
    assert table.rows() == [(20, "A\n\nB"), (21, "B"), (22, "C")]


def read(path, where: str, **options):
    """A table and the notes on it."""
    if where == "memory":
        found = io.read_source(path, **options)
        return found.frame, found.notes
    source = open_source(path, path.parent, **options)
    return pl.concat(source.batches()), source.notes


@pytest.mark.parametrize("where", ["memory", "parts"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_rows_that_a_spreadsheet_left_empty_are_no_records(tmp_path, where, ends):
    """Each of them would be a person, and hide another one."""
    rows = ["age,city", "20,A", ",,,", '21,"B', ",", 'C"', ",D", ",", '"",""', ",", ","]
    path = tmp_path / "t.csv"
    path.write_text(ends.join(rows), newline="")
    table, notes = read(path, where)
    assert table.rows()[:1] == [(20, "A")]
    assert table["city"][1].split() == ["B", ",", "C"]
    assert table.rows()[2:] == [(None, "D"), (None, "")]
    assert notes == ("4 rows hold nothing in any cell and are left out: they are no records.",)


@pytest.mark.parametrize("where", ["memory", "parts"])
def test_a_record_without_any_value_is_written_so_that_it_is_read_back(tmp_path, where):
    """A record of which all is suppressed is one: else the copy had fewer records than its report says."""
    table = pl.DataFrame({"city": ["A\n,", None, None], "age": [20, None, 7]})
    path = tmp_path / "t.csv"
    io.write_table(table, path)
    assert path.read_text() == 'city,age\n"A\n,",20\n"",\n,7\n'
    found, notes = read(path, where)
    assert found.rows() == table.rows()
    assert not notes
    # Other programs write it as a row that a spreadsheet left over: of a published table it is a record all the same.
    table.write_csv(path)
    found, _ = read(path, where, published=True)
    assert found.rows() == table.rows()


def test_a_mark_is_named_above_one_column_too(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("sep=;\na\n1\n\n3\n")
    for where in ("memory", "parts"):
        assert read(path, where)[0].rows() == [(1,), (None,), (3,)]


@pytest.mark.parametrize("where", ["memory", "parts"])
@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "\ufeffSEP=;"])
def test_a_first_line_that_names_the_mark_between_cells_is_no_header(tmp_path, where, first):
    path = tmp_path / "t.csv"
    path.write_text(f"{first}\r\nage;city, town\r\n20;A,B\r\n30;C,D\r\n", newline="", encoding="utf-8")
    table, _ = read(path, where)
    assert table.rows(named=True) == [{"age": 20, "city, town": "A,B"}, {"age": 30, "city, town": "C,D"}]


def repeated_in_python(source: str, output: str, **asked):
    """What the Python says gives that repeats a run of the command."""
    request = ProtectionRequest(k=3, method="mdav", **asked)
    space: dict = {}
    exec(in_memory(source, output, request, lambda *_: None).python(), space)
    return space["protection"].frame


EXACT = """
[columns.icd]
kind = "category"
[columns.age]
[columns.phone]
role = "leave"
"""


def test_codes_and_columns_left_as_they_are_keep_their_texts(tmp_path, monkeypatch):
    """250.10 and 250.1 are two diagnoses, and a column that is left as it is loses no sign and no zero."""
    monkeypatch.chdir(tmp_path)
    codes, phones = ("250.10", "250.1", "12"), ("+4917", "4917")
    rows = [f"{codes[i % 3]},{20 + i},{phones[i % 2]},{i % 3}.10" for i in range(18)]
    (tmp_path / "t.csv").write_text("\n".join(["icd,age,phone,version", *rows]) + "\n")
    (tmp_path / "s.toml").write_text(EXACT)
    asked = ["protect", "t.csv", "-k", "3", "--schema", "s.toml", "--method", "mdav", "--leave", "version"]
    run(*asked, "--accept-risk", "-o", "memory.csv")
    run(*asked, "--accept-risk", "-o", "parts.csv", "--jobs", "1")
    assert (tmp_path / "memory.csv").read_bytes() == (tmp_path / "parts.csv").read_bytes()
    made = pl.read_csv("memory.csv", infer_schema=False)
    came = pl.read_csv("t.csv", infer_schema=False)
    assert set(made["icd"]) == set(codes)
    assert made.select("phone", "version").equals(came.select("phone", "version"))
    repeated = repeated_in_python("t.csv", "again.csv", schema="s.toml", leave="version", accept_risk=True)
    assert repeated.select(pl.all().cast(pl.String)).equals(made)
    # Who reads the file sees three codes, not two numbers.
    (tmp_path / "o.csv").write_text("icd\n" + "250.10\n" * 2 + "250.1\n" * 3)
    assert json.loads(run("check", "o.csv", "--quasi", "icd", "--json").stdout)["k"] == 2


def test_python_that_repeats_a_run_on_an_spss_file_takes_its_codes_as_the_command_does(tmp_path, monkeypatch):
    pytest.importorskip("pyreadstat", reason="SPSS files need the extra 'stat'")
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame({"job": [1.0 + i % 9 for i in range(18)], "age": [20.0 + i for i in range(18)]})
    labels = {"variable_value_labels": {"job": {1.0 + i: f"job {i}" for i in range(9)}}}
    io.write_table(frame, "t.sav", io.ReadTable(frame, ".sav", labels=labels))
    repeated = repeated_in_python("t.sav", "o.sav")
    assert repeated.equals(io.read_table("o.sav"))
    assert repeated["job"].dtype == pl.Int64  # codes, not means of codes


def test_a_column_has_one_type_over_all_files_of_a_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("zip,x\n1067,1\n")
    (tmp_path / "in" / "2.csv").write_text("zip,x\n01067,2.5\n")
    (tmp_path / "in" / "3.csv").write_text("zip,x\n")
    table = pl.concat(open_source(tmp_path / "in", tmp_path).batches())
    assert table.rows() == [("1067", 1.0), ("01067", 2.5)]


MOMENTS = pl.Series(["2020-01-01T10:00:00", None]).str.to_datetime()
FILES = {
    "fractions": ([1, 2], [2.5, None], [1.0, 2.0, 2.5, None]),
    "widths": (pl.Series([1, 2], dtype=pl.Int8), [300, None], [1, 2, 300, None]),
    "empty": (pl.Series([None, None]), [1, 2], [None, None, 1, 2]),
    "categories": (pl.Series(["a", "b"], dtype=pl.Categorical), ["c", None], ["a", "b", "c", None]),
    "moments": (MOMENTS, MOMENTS.dt.cast_time_unit("ns"), [*MOMENTS, *MOMENTS]),
    "texts": ([1, 2], ["250.10", "x"], "has cells of type string in column 'a' where int64 was expected"),
    "exact": (
        [2**60 + 1, 2],
        [0.5, 1.0],
        "has whole numbers beyond 2.53 in one file and fractions in another",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_folder_of_files_is_one_table_for_every_command(tmp_path, case):
    """A year with a missing number, which pandas stores as fractions, was a table for `compare` and none for `protect`."""
    one, other, expected = FILES[case]
    (tmp_path / "t").mkdir()
    for number, cells in enumerate((one, other)):
        pl.DataFrame({"a": cells, "b": [1, 2]}).write_parquet(tmp_path / "t" / f"{number}.parquet")
    pl.DataFrame({"a": ["no row"]}).clear().write_parquet(tmp_path / "t" / "2.parquet")
    for where in ("memory", "parts"):
        if isinstance(expected, str):
            with pytest.raises(InputError, match=expected):
                read(tmp_path / "t", where)
            continue
        table = read(tmp_path / "t", where)[0]
        assert table["a"].to_list() == expected
        assert table["b"].to_list() == [1, 2, 1, 2]


def test_a_character_that_the_encoding_lacks_is_one_sentence(tmp_path):
    source = io.ReadTable(pl.DataFrame(), ".csv", file=FileFormat("latin-1"))
    with pytest.raises(InputError, match="written in latin-1, as the input is"):
        io.write_table(pl.DataFrame({"a": ["≥ 65"]}), tmp_path / "o.csv", source)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("mark", "cells", "read"),
    [
        (";", ["1,5", "2,25"], [1.5, 2.25]),
        ("\t", ["1,5", "2,125"], [1.5, 2.125]),
        ("|", ["0,1", "0,2"], [0.1, 0.2]),
        ("\t", ["1,007", "2,125"], ["1,007", "2,125"]),  # thousands, perhaps
        ("\t", ["1.5", "2.25"], [1.5, 2.25]),
    ],
)
def test_what_was_written_with_a_comma_is_read_back(mark, cells, read, tmp_path):
    ending = ".tsv" if mark == "\t" else ".csv"
    path = tmp_path / f"t{ending}"
    path.write_text("x" + mark + "y\n" + "".join(f"{cell}{mark}a\n" for cell in cells))
    assert io.read_table(path)["x"].to_list() == read
