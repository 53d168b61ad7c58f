"""Units of privacy: how often an answer in one counts in another, which of two a ledger keeps, and how they are declared."""

from __future__ import annotations

import pytest

from shoal.dp import AddRemoveCell, AddRemoveRecord, AddRemoveUnit, Records
from shoal.dp.answering.plan import make_plan
from shoal.dp.correlation import Grid
from shoal.dp.sql.parse import parse
from shoal.dp.unit import REPLACED, Edges, ReplaceRecord, Stated, ids_read, read_by, resolve
from shoal.errors import ParameterError, QueryError
from shoal.schema import Column, Schema, Unit

AGES = Schema({"age": Column("age", bounds=(0, 100))}, id="t")
GRID = Grid(AGES, ("age",), 10)
CELL = f"cell:{GRID.fingerprint}"
KEPT = ("record", "records:3", "records:6", REPLACED, "column:person", CELL, "edges:2")
UNITS = {
    "record": AddRemoveRecord(),
    "three records": Records(3),
    "four records": Records(4),
    "person": AddRemoveUnit("person", 2),
    "person, once per row": AddRemoveUnit("person", 2, per_row=1),
    "cell": AddRemoveCell(GRID, 5),
    "cell, once per row": AddRemoveCell(GRID, 5, per_row=1),
    "replaced": ReplaceRecord(),
    "two edges": Edges(2),
    "one edge": Edges(1),
    "stated": Stated("pufferfish:1", "guarantee: as stated"),
}
# Rows as in UNITS, columns as in KEPT. 0: the answer promises nothing in that unit, so it is refused there.
TIMES = {
    "record": (1, 3, 6, 2, 0, 0, 0),
    "three records": (1, 1, 2, 2, 0, 0, 0),
    "four records": (1, 1, 2, 2, 0, 0, 0),
    "person": (2, 0, 0, 4, 1, 0, 0),
    "person, once per row": (1, 0, 0, 2, 1, 0, 0),
    "cell": (2, 0, 0, 4, 0, 1, 0),
    "cell, once per row": (1, 0, 0, 2, 0, 1, 0),
    "replaced": (0, 0, 0, 1, 0, 0, 0),
    "two edges": (0, 0, 0, 0, 0, 0, 1),
    "one edge": (0, 0, 0, 0, 0, 0, 0),
    "stated": (0, 0, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("name", UNITS)
def test_how_often_an_answer_counts_in_the_unit_that_is_kept(name):
    assert tuple(UNITS[name].times(kept) for kept in KEPT) == TIMES[name]


def test_a_unit_is_kept_under_its_size():
    assert [UNITS[name].key for name in ("three records", "two edges")] == ["records:3", "edges:2"]


def test_a_stated_promise_does_not_even_add_up_with_itself():
    assert UNITS["stated"].times("pufferfish:1") == 0
    assert (UNITS["stated"].guarantee, UNITS["stated"].key) == ("guarantee: as stated", "pufferfish:1")


@pytest.mark.parametrize(
    ("name", "kept", "after"),
    [
        ("record", "record", "record"),
        ("record", "records:3", "records:3"),
        ("four records", "record", "records:4"),
        ("four records", "records:3", "records:4"),
        ("four records", "records:1", "records:4"),
        ("four records", "records:6", "records:6"),
        ("four records", REPLACED, REPLACED),
        ("person", "record", "column:person"),
        ("person", "column:firm", "column:firm"),
        ("cell", "record", CELL),
        ("cell", "records:3", "records:3"),
        ("two edges", "edges:5", "edges:5"),
    ],
)
def test_the_stronger_unit_is_kept(name, kept, after):
    assert UNITS[name].keep(kept) == after


def test_each_unit_says_its_promise():
    said = {name: unit.guarantee for name, unit in UNITS.items()}
    assert said["record"] == "guarantee: epsilon-DP, add or remove one record"
    assert said["person"] == "guarantee: epsilon-DP, add or remove one person"
    assert said["three records"] == "guarantee: epsilon-DP for the records of one group jointly"
    assert AddRemoveUnit("house", 2, jointly=True).guarantee == said["three records"]
    assert said["replaced"] == "guarantee: epsilon-DP, replace one record, number of records public"
    assert said["two edges"] == "guarantee: epsilon-DP for any k edges jointly, vertices public"
    assert said["cell"].endswith(
        f"one look-alike cell (grid(age), {GRID.n_cells} cells, at most 5 counted per cell)"
    )


def test_the_factor_on_a_sensitivity():
    assert (UNITS["four records"].rows, UNITS["cell"].rows, UNITS["person"].rows) == (4, 5, 2)
    assert UNITS["cell"].n_cells == GRID.n_cells
    assert (UNITS["record"].rows, UNITS["record"].n_cells, UNITS["record"].key) == (1, 0, "record")


@pytest.mark.parametrize("rows", [0, -1, 2**30 + 1, 1.0, True, "3", None])
@pytest.mark.parametrize(
    "make", [Records, lambda n: AddRemoveUnit("person", n), lambda n: AddRemoveCell(GRID, n)]
)
def test_a_number_of_rows_is_whole_and_bounded(make, rows):
    with pytest.raises(ParameterError, match=r"must be an int in \[1, 2\^30\]"):
        make(rows)


@pytest.mark.parametrize("rows", [1, 2**30])
def test_the_ends_of_that_range_are_allowed(rows):
    assert Records(rows).rows == AddRemoveUnit("person", rows).rows == AddRemoveCell(GRID, rows).rows == rows


@pytest.mark.parametrize("column", ["", None, 3])
def test_the_column_of_a_unit_is_a_name(column):
    with pytest.raises(ParameterError, match="must be a name"):
        AddRemoveUnit(column, 2)


def test_a_map_to_cells_that_saw_the_table_is_refused():
    with pytest.raises(ParameterError, match="needs a frozen model"):
        AddRemoveCell(object(), 2)


def test_ids_that_are_read_otherwise_make_another_unit():
    """Two readings of one column put rows of different people together, so a ledger must not take one for the other."""
    readings = {
        "": Column("person"),
        "as numbers": Column("person", numeric_id=True),
        "in NFC": Column("person", normalize=True),
        "as numbers, in NFC": Column("person", numeric_id=True, normalize=True),
    }
    for said, column in readings.items():
        assert ids_read(column) == said
        unit = read_by(AddRemoveUnit("person", 2), Schema({"person": column}, id="t"))
        assert unit.key == "column:person" + (f" ({said})" if said else "")
    assert ids_read(None) == ""
    assert read_by(Records(3), AGES) == Records(3)
    assert AddRemoveUnit("person", 2).times("column:person (as numbers)") == 0


def test_the_unit_of_a_mode_follows_from_the_schema():
    plain, person = AGES, Schema(AGES.columns, id="t", unit=Unit("person", 3))
    assert resolve("dp", plain) == AddRemoveRecord()
    assert resolve("dp", person) == AddRemoveUnit("person", 3)
    assert resolve("group", person) == AddRemoveUnit("person", 3, jointly=True)
    assert resolve("group", plain, group=4) == Records(4)
    assert resolve("group", person, group=4) == Records(4)
    assert resolve("group", plain, group=Unit("firm", 9)) == AddRemoveUnit("firm", 9, jointly=True)
    declared = Schema(AGES.columns, id="t", unit=Unit("person", 3), group=Unit("firm", 9))
    assert resolve("group", declared) == AddRemoveUnit("firm", 9, jointly=True)
    assert resolve("correlated", plain, model=GRID, tau=5) == UNITS["cell"]


@pytest.mark.parametrize(
    ("mode", "given", "match"),
    [
        ("group", {}, "needs a number of records"),
        ("group", {"group": Unit()}, "needs a number of records"),
        ("correlated", {"tau": 3}, "needs a public map to cells"),
        ("correlated", {"model": GRID}, "'tau' must be an int"),
        ("none", {}, "'mode' must be one of"),
    ],
)
def test_what_must_be_declared_first(mode, given, match):
    with pytest.raises(ParameterError, match=match):
        resolve(mode, AGES, **given)


@pytest.mark.parametrize(
    ("figures", "times"),
    [
        ("COUNT(*)", 1), ("SUM(age)", 1), ("MAX(age)", 1), ("COUNT(*), MIN(age)", 1), ("AVG(age)", 2), ("VAR_POP(age)", 2),
        ("MEDIAN(age)", 2), ("COUNT(*), MEDIAN(age)", 2), ("sex, COUNT(*)", 2), ("sex, MIN(age)", 2),
    ],
)  # fmt: skip
def test_a_row_that_stays_counts_once_where_its_unit_is_one_clamped_number(figures, times):
    """Elsewhere a row more can take another's place: the unit is taken out and put back."""
    columns = {**AGES.columns, "sex": Column("sex", kind="category", levels=("f", "m"))}
    schema = Schema(columns, id="t", unit=Unit("person", 20))
    text = f"SELECT {figures} FROM t" + (" GROUP BY sex" if "sex" in figures else "")
    for mode in ("dp", "group"):
        unit = make_plan(parse(text), schema, resolve(mode, schema), 10**6).unit
        assert (unit.times("record"), unit.times("column:person")) == (times, 1)
    below = make_plan(
        parse("SELECT COUNT(*) FROM (SELECT age FROM t) q"), schema, resolve("dp", schema), 10**6
    )
    assert below.unit.times("record") == 2  # one row below may move all that its unit adds
    record = make_plan(parse(text), schema, AddRemoveRecord(), 10**6)
    assert record.unit.times("record") == record.per_row == 1


@pytest.mark.parametrize("epsilon", ["2", "0.5", "TRUE", "'1'"])
def test_a_text_that_spends_something_else_is_refused(epsilon):
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={}) COUNT(*) FROM t"
    plan = make_plan(parse(text.format(1)), AGES, AddRemoveRecord(), 10**6)
    assert plan.micro == 10**6
    with pytest.raises(QueryError, match="The text spends epsilon .* they must agree"):
        make_plan(parse(text.format(epsilon)), AGES, AddRemoveRecord(), 10**6)


def test_a_text_that_names_another_unit_is_refused():
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column={}) COUNT(*) FROM t"
    make_plan(parse(text.format("person")), AGES, AddRemoveUnit("person", 2), 10**6)
    for name, unit in (("house", AddRemoveUnit("person", 2)), ("person", AddRemoveRecord())):
        with pytest.raises(
            QueryError, match=f"The unit of this data set is .* Got privacy_unit_column = '{name}'"
        ):
            make_plan(parse(text.format(name)), AGES, unit, 10**6)


@pytest.mark.parametrize("figure", ["SUM(age)", "VAR_POP(age)", "MEDIAN(age)"])
def test_noise_beyond_64_bits_is_refused_before_it_is_charged(figure):
    schema = Schema({"age": Column("age", bounds=(0, 100), step=1)}, id="t")
    with pytest.raises(QueryError, match="leaves 64 bits: declare fewer rows, or spend more"):
        make_plan(parse(f"SELECT {figure} FROM t"), schema, AddRemoveUnit("person", 2**30), 1)
    assert make_plan(parse(f"SELECT {figure} FROM t"), schema, AddRemoveUnit("person", 2**20), 10**7)
