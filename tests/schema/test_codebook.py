"""DDI codebooks in and out."""

import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
        "variable_value_labels": {"sex": {1: "male", 2: "female"}},
    }
    frame = pl.DataFrame({"sex": [1, 2, 1], "age": [20, 30, 40]})
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
