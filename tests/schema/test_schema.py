"""The schema: every field by rule, and a file that reads back exactly as it was written."""

from __future__ import annotations

import datetime
import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SchemaError
from shoal.schema import Cells, Column, FileFormat, Indicator, Link, Rule, Schema, Step, Unit

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = TEXTS.filter(lambda text: text.strip())
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False)
SCALARS = (
    NUMBERS
    | TEXTS
    | st.dates()
    | st.datetimes()
    | st.builds(np.float64, st.floats(-1e9, 1e9))
    | st.builds(np.float32, st.floats(0, 1, width=32))
    | st.builds(np.int16, st.integers(-99, 99))
    | st.builds(np.str_, TEXTS)
    | st.booleans().map(np.bool_)
)
PAIRS = st.tuples(st.integers(-9, 0), st.floats(1, 1e300))


def _different(values: list) -> list:
    """The values without those whose text occurs twice, so that a list of them is allowed."""
    return list({str(value): value for value in reversed(values)}.values())


@st.composite
def columns(draw, name: str) -> Column:
    kind = draw(st.sampled_from(["number", "ordered", "category", "date", "boolean"]))
    facts = {
        "role": draw(st.sampled_from([None, "identifier", "quasi", "sensitive", "stratum", "leave"])),
        "on_missing": draw(st.sampled_from(["error", "impute", "category", "drop"])),
        "importance": draw(st.floats(0, 1e300) | st.builds(np.float64, st.floats(0, 9))),
        "numeric_id": draw(st.booleans()),
        "normalize": draw(st.booleans()),
        "reason": draw(TEXTS),
    }
    values = _different(draw(st.lists(SCALARS, min_size=2, max_size=6)))
    half = len(values) // 2
    if kind == "number":
        facts |= {"bounds": draw(PAIRS | PAIRS.map(np.array)), "breaks": [1, 2.5], "top": np.float32(3)}
        facts |= {"missing_codes": values}
    elif kind == "date":
        facts |= {"bounds": [datetime.date(2000, 1, 1), "2001-01-01"], "missing_codes": values}
    elif kind in ("category", "ordered") and values[half:]:
        facts |= {"levels": values[half:], "missing_codes": values[:half], "hierarchy": [values[half:]]}
    return _allowed(name, kind, facts)


def _allowed(name: str, kind: str, facts: dict) -> Column:
    """Equal values of different types (1, 1.0) are no different levels: such draws keep their first."""
    try:
        return Column(name, kind=kind, **facts)
    except SchemaError:
        return Column(name, kind=kind)


@st.composite
def schemas(draw) -> Schema:
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    facts = {name: draw(columns(name)) for name in names}
    texts = st.lists(NAMES, min_size=1, max_size=2, unique=True)
    kind = st.sampled_from(
        ["equal", "ratio", "order", "impossible", "zero", "integer", "range", "structural_zero"]
    )
    return Schema(
        facts,
        id=draw(NAMES),
        unit=draw(st.just(Unit()) | st.builds(Unit, NAMES, st.integers(1, 99).map(np.int64))),
        budget=draw(st.none() | st.floats(1e-9, 1e9)),
        private=draw(st.booleans()),
        version=draw(st.none() | NAMES),
        group=draw(st.none() | st.integers(1, 9) | st.builds(Unit, NAMES, st.integers(1, 9))),
        cells=draw(st.builds(Cells, st.just(tuple(names)), st.integers(1, 9), st.none() | st.integers(1, 5)))
        if names
        else None,
        file=draw(st.none() | st.just(FileFormat("latin-1", "\t", ","))),
        steps=draw(
            st.lists(
                st.builds(
                    Step, st.just("mdav"), texts, k=st.none() | st.integers(2, 9), within=st.none() | texts
                )
                | st.builds(Step, st.just("round"), texts, to=st.floats(1e-9, 1e9))
                | st.just(Step("pram", "a", matrix=((0.5, 0.5), (0.25, 0.75)), invariant=True)),
                max_size=3,
            )
        ),
        rules=draw(st.lists(st.builds(lambda key, text: Rule(**{key: text}), kind, NAMES), max_size=3)),
        links=[
            Link(f"l{i}", "a", "b", each, i == 1) for i, each in enumerate(draw(st.lists(texts, max_size=2)))
        ],
        indicators=draw(
            st.lists(
                st.builds(Indicator, st.just("quantile"), NAMES, NAMES, q=st.floats(0.01, 0.99), by=texts)
                | st.builds(Indicator, st.just("share"), NAMES, NAMES, level=TEXTS | st.integers()),
                max_size=2,
            )
        ),
        currency=draw(st.sampled_from(["pure", "zcdp"])),
        delta=draw(st.none() | st.floats(1e-30, 0.5)),
    )


def test_whole_numbers_beyond_64_bits_are_read_back():
    schema = Schema({"x": Column("x", kind="number", bounds=(0, 1 << 63), breaks=(0, 1 << 70))})
    assert Schema.from_toml_text(schema.to_toml()) == schema


@settings(max_examples=60, deadline=None)
@given(schema=schemas())
def test_a_schema_reads_back_exactly_as_it_was_written(schema, tmp_path_factory):
    text = schema.to_toml()
    assert Schema.from_toml_text(text) == schema
    assert Schema.of(schema.to_dict()) == schema
    assert Schema.from_toml_text(text).to_toml() == text
    file = tmp_path_factory.getbasetemp() / "s.toml"
    file.write_bytes(text.encode())
    assert Schema.of(file) == schema


def test_odd_texts_and_numpy_scalars_survive():
    texts = ("a\rb", "a\r\nb", "\0", "\x7f\x1b", 'q"\\', "é\u2028", "\ufeff", "= [", "]", "\U0001f41f")
    column = Column(
        "c\r\0", kind="category", levels=list(texts), missing_codes=[np.int64(-9), np.float64(0.5)]
    )
    schema = Schema({"c\r\0": column}, budget=np.float32(0.5), delta=np.float64(1e-6))
    again = Schema.from_toml_text(schema.to_toml())
    assert again == schema
    assert again.columns["c\r\0"].levels == texts
    assert type(again.columns["c\r\0"].missing_codes[0]) is int
    stamps = Column("d", kind="date", bounds=(pd.Timestamp("2000-01-01"), np.datetime64("2020-01-01", "ns")))
    assert stamps.bounds == (datetime.datetime(2000, 1, 1), datetime.datetime(2020, 1, 1))


def test_short_lists_stand_on_one_line():
    schema = Schema({"a": Column("a", bounds=(0, 110), missing_codes=("-9", ""))}, rules=(Rule(zero="a"),))
    text = schema.to_toml()
    assert "bounds = [0, 110]\n" in text
    assert 'missing_codes = ["-9", ""]\n' in text
    assert "[[rules]]\n" in text
    assert tomllib.loads(text)["rules"] == [{"zero": "a"}]


COLUMN = {
    "role = 'group'": "'role' of column 'x' must be",
    "role = 3": "'role' of column 'x' must be",
    "kind = 'text'": "'kind' of column 'x' must be",
    "kind = ['number']": "'kind' of column 'x' must be",
    "policy = 'impute'": "may have role, kind",
    "missing = ['NA']": "may have role, kind",
    "weight = 2.0": "may have role, kind",
    "name = 'y'": "may have role, kind",
    "bounds = [1]": "'bounds' of column 'x' must be [low, high]",
    "bounds = [2, 1]": "'bounds' of column 'x' must be [low, high]",
    "bounds = [nan, 1]": "'bounds' of column 'x' must be [low, high]",
    "bounds = 3": "'bounds' of column 'x' must be [low, high]",
    "bounds = ['a', 'b']": "'bounds' of column 'x' must be [low, high]",
    "bounds = [2000-01-01, 2001-01-01]": "must be numbers",
    "kind = 'date'\nbounds = [1, 2]": "must be dates",
    "kind = 'category'\nbounds = [1, 2]": "needs the kind number or date",
    "levels = ['a']": "must be numbers",
    "kind = 'category'\nlevels = 'ab'": "'levels' of column 'x' must be a list of different",
    "kind = 'category'\nlevels = []": "'levels' of column 'x' must be a list of different",
    "kind = 'category'\nlevels = ['a', 'a']": "'levels' of column 'x' must be a list of different",
    "kind = 'category'\nlevels = [['a']]": "'levels' of column 'x' must be a list of different",
    "kind = 'category'\nlevels = ['a', 'NA']\nmissing_codes = ['NA']": "a level or missing",
    "kind = 'category'\nlevels = [1, 9]\nmissing_codes = ['9']": "a level or missing",
    "kind = 'category'\nhierarchy = ['a', []]": "'hierarchy' of column 'x' must be nested",
    "kind = 'category'\nhierarchy = [['a'], ['a']]": "'hierarchy' of column 'x' must be nested",
    "kind = 'category'\nlevels = ['a', 'b']\nhierarchy = [['a']]": "must hold all its levels",
    "breaks = [1, 1]": "'breaks' of column 'x' must be",
    "breaks = []": "'breaks' of column 'x' must be",
    "kind = 'category'\nbreaks = [1]": "needs the kind number or date",
    "missing_codes = 'NA'": "'missing_codes' of column 'x' must be a list",
    "missing_codes = [['NA']]": "'missing_codes' of column 'x' must be a list",
    "missing_codes = [nan]": "'missing_codes' of column 'x' must be a list",
    "on_missing = 'guess'": "'on_missing' of column 'x' must be",
    "aggregate = 'sum'": "'aggregate' of column 'x' must be",
    "kind = 'category'\naggregate = 'mean'": "must be mode or medoid",
    "kind = 'ordered'\naggregate = 'mean'": "must be mode or medoid",
    "importance = -1": "'importance' of column 'x' must be",
    "importance = true": "'importance' of column 'x' must be",
    "importance = inf": "'importance' of column 'x' must be",
    "importance = '2'": "'importance' of column 'x' must be",
    "step = 0": "'step' of column 'x' must be",
    "step = nan": "'step' of column 'x' must be",
    "kind = 'boolean'\nstep = 1": "needs the kind",
    "bottom = 'low'": "'bottom' of column 'x' must be",
    "bottom = 5\ntop = 5": "must be below 'top'",
    "kind = 'date'\ntop = 5": "must be dates",
    "kind = 'category'\ntop = 5": "needs the kind number or date",
    "recode = 1": "needs the kind category",
    "kind = 'category'\nrecode = 1": "needs a hierarchy",
    "kind = 'category'\nhierarchy = [['a']]\nrecode = 1.5": "'recode' of column 'x' must be",
    "kind = 'category'\nhierarchy = [['a']]\nrecode = -1": "'recode' of column 'x' must be",
    "numeric_id = 1": "'numeric_id' of column 'x' must be true or false",
    "normalize = 'yes'": "'normalize' of column 'x' must be true or false",
    "reason = 3": "'reason' of column 'x' must be a text",
    "role = 'weight'\nkind = 'category'": "needs the kind number",
}
WHOLE = {
    "table = 3": "[table] of the schema must be a table of facts",
    "columns = 3": "[columns] of the schema must have a table",
    "[[columns]]\nx = 1": "[columns] of the schema must have a table",
    "columns = {x = 'quasi'}": "[columns.x] of the schema must be a table of facts",
    "[tables]\nid = 'x'": "may have the parts",
    "[table]\nname = 'x'": "[table] of the schema may have",
    "[table]\nid = ''": "'id' of a table must be",
    "[table]\nid = 3": "'id' of a table must be",
    "[table]\nunit = 'person'": "'unit' must be",
    "[table]\nunit = {column = 3}": "'unit' must be",
    "[table]\nunit = {column = 'p', rows = 0}": "'rows' of a unit must be",
    "[table]\nunit = {column = 'p', rows = true}": "'rows' of a unit must be",
    "[table]\nbudget = 'two'": "'budget' of a table must be",
    "[table]\nbudget = inf": "'budget' of a table must be",
    "[table]\nbudget = true": "'budget' of a table must be",
    "[table]\nper_analyst = 0": "'per_analyst' of a table must be",
    "[table]\nprivate = 'no'": "'private' of a table must be true or false",
    "[table]\nversion = 2026": "'version' of a table must be",
    "[table]\ngroup = 'x'": "'group' must be",
    "[table]\ngroup = 0": "'group' of a table must be",
    "[table]\ncells = ['x']": "'cells' must be",
    "[table]\ncells = {columns = 'x'}": "'columns' of cells must be",
    "[table]\ncells = {columns = ['x'], bins = [1, 2]}": "'bins' of cells must be",
    "[table]\ncells = {columns = ['x'], bins = 0}": "'bins' of cells must be",
    "[table]\ncells = {columns = ['x'], tau = 0}": "'tau' of cells must be",
    "[table]\ncells = {columns = ['x']}": "'cells' of a table must name declared columns",
    "[table]\ncurrency = 'euro'": "'currency' of a table must be",
    "[table]\ndelta = 1": "'delta' of a table must be",
    "[table]\ndelta = 0": "'delta' of a table must be",
    "file = 'utf-8'": "[file] of the schema must be a table",
    "[file]\nencoding = 'latin'x'": "must be a TOML file",
    "[file]\nencoding = 'no-such'": "'encoding' of [file] must be",
    "[file]\nseparator = ',,'": "'separator' of [file] must be",
    "[file]\nseparator = 'a'": "'separator' of [file] must be",
    "[file]\ndecimal = ';'": "'decimal' of [file] must be",
    "[file]\ndecimal = ','": "must be different characters",
    "[file]\nquote = '\"'": "[file] of the schema may have",
    "rules = 'a = b'": "[[rules]] of the schema must be a list",
    "[rules]\nequal = 'a = b'": "[[rules]] of the schema must be a list",
    "[[rules]]\nsum = 'a = b'": "[[rules]] of the schema may have",
    "[[rules]]\nequal = 3": "'equal' of [[rules]] must be",
    "[[rules]]\nequal = 'a = b'\nzero = 'a'": "exactly one of",
    "rules = [{}]": "exactly one of",
    "links = 'x'": "[links] of the schema must have a table",
    "[links.a]\nfrom = 'x'\nto = 'y'": "It lacks 'key'",
    "[links.a]\nfrom = 'x'\nto = 'x'\nkey = 'k'": "must join two tables",
    "[links.a]\nfrom = 'x'\nto = 'y'\nkey = 3": "'key' of [links] must be",
    "[links.a]\nfrom = 'x'\nto = 'y'\nkey = 'k'\nopen = true": "[links.a] of the schema may have",
    "[[indicators]]\ncolumn = 'x'": "must have a kind",
    "[[indicators]]\nkind = 'sum'\ncolumn = 'x'": "'kind' of [[indicators]] must be",
    "[[indicators]]\nkind = 'quantile'\ncolumn = 'x'": "must have column and q",
    "[[indicators]]\nkind = 'total'\ncolumn = 'x'\nq = 0.5": "must have column",
    "[[indicators]]\nkind = 'quantile'\ncolumn = 'x'\nq = 1": "'q' of [[indicators]] must be",
    "columns = {a = {role = 'weight'}, b = {role = 'weight'}}": "at most one column of the role 'weight'",
    "[columns.a]\nrole = 'household'\n[columns.b]\nrole = 'household'": "at most one column of the role",
    "a = [" + "[" * 5000: "must be a TOML file",
}


@pytest.mark.parametrize("facts", COLUMN)
def test_a_wrong_column_is_one_sentence(facts):
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml_text(f"[columns.x]\n{facts}\n")
    message = str(caught.value)
    assert COLUMN[facts] in message
    assert "\n" not in message


@pytest.mark.parametrize("text", WHOLE)
def test_a_wrong_schema_is_one_sentence(text):
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml_text(text)
    message = str(caught.value)
    assert WHOLE[text] in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "make",
    [
        lambda: Schema.of(3),
        lambda: Schema.of([]),
        lambda: Schema.of("\0"),
        lambda: Schema.of({"age": {"role": "quasi"}}),
        lambda: Schema.of({"columns": {3: {}}}),
        lambda: Schema.of({"columns": {"x": Column("x")}}),
        lambda: Schema({"x": 3}),
        lambda: Schema({"x": Column("y")}),
        lambda: Schema([Column("x")]),
        lambda: Schema({}, unit="record"),
        lambda: Schema({}, file="utf-8"),
        lambda: Schema({}, rules=("a = b",)),
        lambda: Schema({}, group=Unit()),
        lambda: Schema({}, links=(Link("a", "x", "y", "k"), Link("a", "y", "z", "k"))),
        lambda: Unit(None, 3),
        lambda: Column(3),
        lambda: Column("x\ud800"),
        lambda: Column("x", missing_codes=({"a"},)),
        lambda: Column("x", kind="category", levels=(object(),)),
        lambda: Cells(()),
    ],
)
def test_wrong_python_values_are_one_sentence(make):
    with pytest.raises(SchemaError) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_file_that_is_none_is_one_sentence(tmp_path):
    for name, content, word in (
        ("none.toml", None, "No schema file"),
        ("bytes.toml", b"\xff\xfe\x00", "UTF-8"),
        ("nul.toml", b"a = \x00", "TOML"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(SchemaError, match=word):
            Schema.of(tmp_path / name)
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.of(tmp_path)
    (tmp_path / "mark.toml").write_bytes(b"\xef\xbb\xbf[table]\r\nid = 'a'\r\n")
    assert Schema.of(tmp_path / "mark.toml").id == "a"
