"""Bad input through each executor: one sentence, nothing written; what cannot be honoured is refused before anything."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shoal.cli import app
from shoal.errors import InputError, ShoalError
from shoal.publish import protect, protect_file
from shoal.publish.executors.parts import Parts
from shoal.publish.executors.spark import Spark
from shoal.publish.pipeline import protect as run_request
from shoal.publish.request import ProtectionRequest
from shoal.schema import Schema

PARTS = ["--memory", "1GB", "--jobs", "1"]
GOOD = "x,y\n" + "".join(f"{i}.5,{i * i}\n" for i in range(9))

# The file's bytes, further options, and a word of the sentence; the same in memory and in parts.
FILES = {
    "empty": (b"", [], "is empty"),
    "blank": (b"\n\n  \n", [], "is empty"),
    "header alone": (b"x,y\n", [], "must have rows"),
    "one row": (b"x,y\n1.5,2\n", [], "k = 3 records"),
    "fewer than k": (b"x,y\n1.5,2\n2.5,3\n", [], "k = 3 records"),
    "ragged": (b"x,y\n1,2\n3\n", [], "must have the 2 cells of the header. Got 1 at line 3"),
    "ragged with quotes": (b'x,y\n"1",2\n3\n', [], "must have the 2 cells of the header. Got 1 at line 3"),
    "two names alike": (b"x,x\n1,2\n", [], "Column names must differ"),
    "zero bytes": (b"x,y\n1\x00,2\n", [], "It holds zero bytes"),
    "infinite": (b"x\n" + b"1.5\n" * 5 + b"inf\n", [], "must be finite"),
    "missing": (b"x,y\n" + b"1.5,2\n" * 5 + b",3\n", [], "need a policy"),
    "no such column": (GOOD.encode(), ["--leave", "z"], "No column 'z'"),
    "weights as texts": (b"x,w\n" + b"1.5,a\n" * 5, ["--weights", "w"], "must be numbers above 0"),
    "weights of zero": (b"x,w\n" + b"1.5,0\n" * 5, ["--weights", "w"], "must be above 0"),
    "a weight of zero in parts": (
        b"x,w\n1.5,0\n" + b"1.5,2\n" * 5,
        ["--weights", "w", "--memory", "1GB"],
        "must be above 0",
    ),
    "l without a sensitive column": (GOOD.encode(), ["--l", "2"], "need a sensitive column"),
    "a name over two lines": (GOOD.replace("y", '"y\nz"', 1).encode(), [], "without line ends"),
    "a name with a bell": (GOOD.replace("y", "y\x07", 1).encode(), [], r"Got 'y\x07'"),
    "compressed": (gzip.compress(GOOD.encode()), [], "is compressed (gzip). Unpack it first"),
    "keep-best without a search": (GOOD.encode(), ["--keep-best"], "--keep-best"),
    "a report that is no page": (
        GOOD.encode(),
        ["--report", "r.pdf"],
        "must end in .html or .htm. Got 'r.pdf'",
    ),
    "a public report that is no page": (
        GOOD.encode(),
        ["--public-report", "r.docx"],
        "must end in .html or .htm",
    ),
    "nothing to protect": (GOOD.encode(), ["--leave", "x,y"], "At least one column must be protected"),
    "one column twice": (GOOD.encode(), ["--leave", "x", "--sensitive", "x"], "A column has one role"),
    "nonsense k": (GOOD.encode(), ["-k", "1"], "'k' of protect"),
    "unknown method": (GOOD.encode(), ["--method", "none"], "none"),
}


def said(folder: Path, data: bytes, words: list[str]) -> str:
    """The sentence of a run that must fail and leave nothing behind."""
    (folder / "t.csv").write_bytes(data)
    before = sorted(each.name for each in folder.iterdir())
    command = ["protect", str(folder / "t.csv"), "-o", str(folder / "o.csv")]
    done = CliRunner().invoke(app, [*command, "-k", "3", "--method", "mdav", *words])
    assert isinstance(done.exception, ShoalError), (done.output, done.exception)
    assert done.exception.exit_code == 2
    assert sorted(each.name for each in folder.iterdir()) == before
    message = str(done.exception)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("case", FILES)
def test_bad_files_are_the_same_sentence_in_memory_and_in_parts(case, tmp_path):
    data, words, expected = FILES[case]
    sentences = {said(tmp_path, data, [*words, *more]) for more in ([], PARTS)}
    assert len(sentences) == 1, sentences
    assert expected in sentences.pop()


@pytest.mark.parametrize("more", [[], PARTS])
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("constant", b"x,y\n" + b"1.5,a\n" * 8),
        ("duplicates", b"x,y\n" + b"1.5,a\n2.5,b\n" * 5),
        ("huge", b"x,y\n" + b"1e308,a\n-1e308,a\n" * 5),
        ("odd encoding", b"x,y\n" + b"1.5,\xe4\n" * 8),
        ("as long as k", b"x,y\n1.5,a\n2.5,a\n3.5,a\n"),
    ],
)
def test_odd_but_good_files_come_out(name, data, more, tmp_path):
    (tmp_path / "t.csv").write_bytes(data)
    words = [
        "protect",
        str(tmp_path / "t.csv"),
        "-k",
        "3",
        "-o",
        str(tmp_path / "o.csv"),
        "--method",
        "mdav",
        *more,
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (name, done.output, done.exception)
    assert done.stdout.startswith("status green")


TABLES = {
    "no rows": (pl.DataFrame({"x": pl.Series([], dtype=pl.Float64)}), {}),
    "fewer than k": (pl.DataFrame({"x": [1.5, 2.5]}), {}),
    "infinite": (pl.DataFrame({"x": [1.5, float("inf")] * 4}), {}),
    "not a number": (pl.DataFrame({"x": [1.5, float("nan")] * 4}), {}),
    "texts for numbers": (
        pl.DataFrame({"x": ["1", "b"] * 4}), {"schema": {"columns": {"x": {"role": "quasi", "kind": "number"}}}},
    ),
    "missing column": (pl.DataFrame({"x": [1.5] * 4}), {"schema": {"columns": {"y": {"role": "quasi"}}}}),
    "weights below zero": (pl.DataFrame({"x": [1.5] * 4, "w": [-1.0] * 4}), {"weights": "w"}),
    "cells of lists": (pl.DataFrame({"x": [1.5] * 4, "l": [[1]] * 4}), {}),
}  # fmt: skip


@pytest.mark.parametrize("place", ["parts", "spark"])
@pytest.mark.filterwarnings("ignore:PySpark does not yet")
@pytest.mark.parametrize("case", TABLES)
def test_bad_tables_are_the_same_sentence_wherever_rows_live(case, place, tmp_path, request):
    frame, asked = TABLES[case]
    path = tmp_path / "t.parquet"
    frame.write_parquet(path)
    given = {"k": 3, "method": "mdav", **asked}
    if place == "spark":
        request.getfixturevalue("spark")
        given["engine"] = "spark"
    with pytest.raises(ShoalError) as whole:
        protect(frame, **{"k": 3, "method": "mdav", **asked})
    with pytest.raises(ShoalError) as other:
        protect_file(path, tmp_path / ("o.parquet" if place == "parts" else "o"), **given)
    assert "\n" not in str(other.value)
    if case != "no rows":  # there the file is named
        assert str(whole.value) == str(other.value)
    assert [each.name for each in tmp_path.iterdir()] == ["t.parquet"]


REFUSED = {
    "parts": (
        lambda folder: Parts(folder / "absent.parquet", folder / "o.parquet"),
        [{"certify": True}, {"certify": "thorough"}, {"keep_best": True}],
    ),
    "spark": (
        lambda folder: Spark(folder / "absent.parquet", folder / "o"),
        [
            {"certify": True}, {"keep_best": True}, {"resume": True}, {"labels": "g.csv"}, {"memory": "1GB"}, {"n_jobs": 2},
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "fields"), [(place, fields) for place, (_, asked) in REFUSED.items() for fields in asked]
)
def test_what_cannot_be_honoured_is_refused_before_the_file_is_looked_for(place, fields, tmp_path):
    """The file does not exist, and nobody notices: nothing was read, written or noted in a ledger."""
    noted = []
    with pytest.raises(ShoalError) as caught:
        request = ProtectionRequest(**({"method": "mdav"} | fields))
        run_request(request, REFUSED[place][0](tmp_path), before_giving=lambda: noted.append("charged"))
    name = next(iter(fields))
    message = str(caught.value)
    assert repr(name) in message or str(fields[name]) in message
    assert "No file" not in message
    assert "\n" not in message
    assert not noted
    assert list(tmp_path.iterdir()) == []


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.sampled_from(["", "x", "quasi", "number", "a\nb", "é", "1,2"])
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "role", "kind", "column", "rows"]), inner, max_size=3)
    ),
    max_leaves=4,
)
PLACES = [
    ("table",), ("file",), ("columns",), ("rules",), ("links",), ("indicators",), ("steps",), ("columns", "x"),
    *(("table", key) for key in ("id", "unit", "budget", "per_analyst", "private", "version", "group", "cells")),
    *(("file", key) for key in ("encoding", "separator", "decimal")),
    *(
        ("columns", "x", key)
        for key in (
            "role", "kind", "bounds", "levels", "missing_codes", "on_missing", "breaks", "hierarchy", "recode", "top",
            "bottom", "importance", "step", "aggregate", "unknown",
        )
    ),
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(PLACES), value=VALUES, written=st.booleans())
def test_a_schema_of_any_shape_is_read_or_is_one_sentence(place, value, written):
    """And what is read protects a table, or says in one sentence why not."""
    facts: dict = {"columns": {"x": {"role": "quasi"}}}
    inside = facts
    for key in place[:-1]:
        inside = inside.setdefault(key, {})
    inside[place[-1]] = value
    frame = pl.DataFrame({"x": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]})
    try:
        if written:
            try:
                text = tomli_w.dumps(facts)
            except (TypeError, ValueError, AttributeError):
                return  # no TOML file can say this
            schema = Schema.from_toml_text(text)
        else:
            schema = Schema.of(facts)
        protect(frame, 2, schema=schema, method="mdav", accept_risk=True)
    except ShoalError as error:
        message = str(error)
    else:
        message = "fine"
    assert message
    assert "\n" not in message


@pytest.mark.parametrize("top", [-1e152, -9.3e153, -2.3e154, -1e300])
def test_values_recoded_beyond_what_can_be_measured_are_refused(top):
    """Their squares are infinite, and so would the loss be."""
    frame = pl.DataFrame({"x": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]})
    schema = Schema.of({"columns": {"x": {"role": "quasi", "top": top}}})
    with pytest.raises(InputError, match="published values of 'x' must lie near enough"):
        protect(frame, 2, schema=schema, method="mdav", accept_risk=True)
