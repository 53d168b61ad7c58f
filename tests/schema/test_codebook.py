"""DDI codebooks in and out."""

import datetime
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import protect
from shoal.errors import SchemaError
from shoal.io import ReadTable, write_table
from shoal.schema import Column, Schema, read_codebook, write_codebook

WORDS = st.text("abcdefgh <>&'\"é1", min_size=1, max_size=8).map(str.strip).filter(bool)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=4, unique=True)),
        max_size=4,
        unique_by=lambda x: x[0],
    ),
    WORDS,
)
def test_what_is_written_reads_back(variables, title):
    import tempfile
    from pathlib import Path

    columns = {name: Column(name, kind="category", levels=tuple(levels)) for name, levels in variables}
    columns["#age"] = Column("#age", bounds=(0.0, 110.0), missing_codes=("-9",))
    schema = Schema(columns, id=title)
    with tempfile.TemporaryDirectory() as folder:
        write_codebook(schema, Path(folder) / "c.xml", {"column_labels": {"#age": "years & more"}})
        assert read_codebook(Path(folder) / "c.xml") == schema


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be XML"),
        ("<codeBook/>", "describes none"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><codeBook>&b;</codeBook>", "without a document type"),
        ("<codeBook><dataDscr><var name='a'/><var name='a'/></dataDscr></codeBook>", "different names"),
        ("<codeBook><dataDscr><var/></dataDscr></codeBook>", "different names"),
    ],
)
def test_bad_codebooks_are_one_sentence(tmp_path, text, words):
    (tmp_path / "c.xml").write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match=words) as caught:
        read_codebook(tmp_path / "c.xml")
    assert "\n" not in str(caught.value)
    (tmp_path / "c.xml").write_bytes(
        "<?xml version='1.0' encoding='utf-16'?><!DOCTYPE a><codeBook/>".encode("utf-16")
    )
    with pytest.raises(SchemaError, match="without a document type"):
        read_codebook(tmp_path / "c.xml")
    with pytest.raises(SchemaError, match="cannot be read"):
        read_codebook(tmp_path / "none.xml")


def test_the_command_reads_and_writes_them(tmp_path):
    labels = {
        "column_labels": {"sex": "Sex of the person"},
        "variable_value_labels": {
            "sex": {1: "male", 2: "female"},
            "edu": {1: "low", 2: "high", -9: "refused"},
        },
        "missing_ranges": {"edu": [{"lo": -9, "hi": -8}, {"lo": 98, "hi": 98}]},
        "measures": {"edu": "ordinal"},
    }
    born = [datetime.date(2000, 1, day) for day in (1, 2, 3)]
    frame = pl.DataFrame({"sex": [1, 2, 1], "edu": [1, 2, 1], "born": born, "age": [20, 30, 40]})
    write_table(frame, tmp_path / "s.sav", ReadTable(frame, ".sav", (), labels))

    def shoal(*words):
        ran = subprocess.run(
            [sys.executable, "-m", "shoal", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    shoal("schema", "s.sav", "-o", "s.toml", "--codebook", "s.xml")
    assert "Sex of the person" in (tmp_path / "s.xml").read_text(encoding="utf-8")
    assert "[columns.sex]" in shoal("schema", "s.xml")
    text = (tmp_path / "s.xml").read_text(encoding="utf-8")
    assert all(f"<labl>{word}</labl>" in text for word in ("male", "female", "low", "high", "refused"))
    found = read_codebook(tmp_path / "s.xml").columns
    assert (found["sex"].kind, found["sex"].levels) == ("category", ("1", "2"))
    assert (found["edu"].kind, found["edu"].levels) == ("ordered", ("1", "2"))
    assert set(found["edu"].missing_codes) == {"-9", "-8", "98"}
    assert found["born"].kind == "date"
    assert found["age"].bounds is None

    # What it documents fits the file: the same run by the codebook's schema.
    columns = {
        name: {"kind": column.kind, "levels": column.levels, "missing_codes": column.missing_codes}
        for name, column in found.items()
    }
    done = protect(frame, k=3, method="mdav", schema={"columns": columns})
    assert done.figures.n_records == 3


def test_codes_that_others_declare_as_missing(tmp_path):
    (tmp_path / "c.xml").write_text(
        "<codeBook><dataDscr><var name='age'><valrng><range min='0' max='99'/></valrng><invalrng>"
        "<item VALUE='-1'/><range min='997' max='999'/></invalrng></var></dataDscr></codeBook>",
        encoding="utf-8",
    )
    found = read_codebook(tmp_path / "c.xml").columns["age"]
    assert (found.kind, found.bounds) == ("number", (0.0, 99.0))
    assert found.missing_codes == ("-1", "997", "998", "999")
