"""Several tables: whatever FROM gives, a unit's rows depend on that unit's rows alone."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.dp import Session
from shoal.dp.answering.exact import rows_of
from shoal.dp.answering.plan import make_plan
from shoal.dp.loading import parts
from shoal.dp.meaning import tables as joining
from shoal.dp.meaning.relation import UNIT
from shoal.dp.sql.parse import parse
from shoal.dp.workload._answer import counted_rows, plan_workload
from shoal.errors import InputError, QueryError, SchemaError
from shoal.schema import Column, Link, Schema, Unit

PEOPLE = Schema(
    {"age": Column("age", bounds=(0, 9), step=1)},
    id="people",
    unit=Unit("house", 3),
    links=(
        Link("visits", "visits", "people", ("person",)),
        Link("kinds", "visits", "kinds", ("kind",), public=True),
    ),
)
VISITS = Schema(
    {
        "cost": Column("cost", bounds=(0, 9), step=1),
        "kind": Column("kind", kind="category", levels=("a", "b")),
    },
    id="visits",
)
KINDS = Schema(
    {"kind": Column("kind", kind="category", levels=("a", "b")), "dear": Column("dear", kind="boolean")},
    id="kinds",
)
PUBLIC = pl.DataFrame({"kind": ["a", "b"], "dear": [True, False]})
SOURCES = [
    "visits",
    "visits v JOIN people p ON v.person = p.person",
    "people p LEFT JOIN visits v ON p.person = v.person",
    "people p FULL JOIN visits v ON p.person = v.person",
    "visits v JOIN people p ON v.person = p.person AND v.cost > p.age",
    "visits a JOIN visits b ON a.person = b.person",
    "visits v JOIN kinds k ON v.kind = k.kind",
    "(SELECT house, SUM(age) AS s FROM people GROUP BY house) q",
    "(SELECT person, COUNT(*) AS n FROM visits GROUP BY person HAVING COUNT(*) > 1) q",
    "(SELECT DISTINCT person, kind FROM visits) q",
    "(SELECT * FROM people WHERE person IN (SELECT person FROM visits WHERE cost > 4)) q",
    "(SELECT p.house, MAX(v.cost) - MIN(v.cost) AS w FROM visits v JOIN people p USING (person) GROUP BY p.house) q",
]
ids = st.none() | st.integers(0, 4)
people_rows = st.lists(st.tuples(ids, ids, st.integers(0, 9)), max_size=8)
visit_rows = st.lists(st.tuples(ids, st.none() | st.integers(0, 9), st.sampled_from("ab")), max_size=8)


def session_of(people, visits, schema=PEOPLE):
    persons = pl.DataFrame(
        people, schema={"person": pl.Int64, "house": pl.Int64, "age": pl.Int64}, orient="row"
    )
    went = pl.DataFrame(
        visits, schema={"person": pl.Int64, "cost": pl.Int64, "kind": pl.String}, orient="row"
    )
    return Session(
        persons,
        schema,
        budget=schema.budget or 100.0,
        tables={"visits": (went, VISITS), "kinds": (PUBLIC, KINDS)},
    )


def rows_by_unit(session, source):
    plan = make_plan(
        parse(f"SELECT COUNT(*) FROM {source}"), session.schema, session.protected, 10**6, session.catalog
    )
    found = rows_of(session._rows.tables.whole, plan).collect()
    found = found.select(sorted(found.columns))
    units = {unit: sorted(map(str, part.rows())) for (unit,), part in found.group_by(UNIT)}
    assert None not in units
    return units


@given(people_rows, visit_rows, st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_without_a_unit_the_others_rows_are_the_same(people, visits, gone):
    """Its people go, and the visits of people who are nobody else's."""
    left = [row for row in people if row[1] != gone]
    owned = {row[0] for row in people if row[1] == gone} - {row[0] for row in left if row[1] is not None}
    full = session_of(people, visits)
    without = session_of(left, [row for row in visits if row[0] not in owned])
    for source in SOURCES:
        before, after = rows_by_unit(full, source), rows_by_unit(without, source)
        assert after == {unit: rows for unit, rows in before.items() if unit != str(gone)}, source


JOINED_AGAIN = [
    "visits a JOIN visits b ON a.person = b.person JOIN people p ON p.person = a.person",
    "visits v JOIN kinds k ON v.kind = k.kind JOIN people p ON p.person = v.person",
    "(SELECT person, cost, COUNT(*) AS n FROM visits GROUP BY person, cost) q JOIN people p ON q.person = p.person",
    "(SELECT * FROM visits WHERE person IN (SELECT person FROM people WHERE age > 2)) q JOIN people p ON q.person = p.person",
]


@pytest.mark.parametrize("source", JOINED_AGAIN)
def test_which_rows_of_a_crowded_unit_enter_is_its_own_affair(source, monkeypatch):
    """Joins and groups give rows in an order that others have a part in; what is cut off must not follow it."""
    monkeypatch.setattr(joining, "LEAST_KEPT", 1)
    rng = np.random.default_rng(3)
    people = [(at, at // 4, int(rng.integers(0, 10))) for at in range(4000)]
    visits = [(int(rng.integers(0, 4000)), int(rng.integers(0, 10)), "ab"[at % 2]) for at in range(20_000)]
    before = rows_by_unit(session_of(people, visits), source)
    left = [row for row in people if row[1] != 7]
    after = rows_by_unit(session_of(left, [row for row in visits if not 28 <= row[0] < 32]), source)
    assert after == {unit: rows for unit, rows in before.items() if unit != "7"}


def test_which_rows_of_a_crowded_unit_a_workload_counts_is_its_own_affair():
    rng = np.random.default_rng(3)
    people = [(at, at // 4, int(rng.integers(0, 10))) for at in range(1200)]
    visits = [(int(rng.integers(0, 1200)), int(rng.integers(0, 10)), "ab"[at % 2]) for at in range(6000)]

    def counted(people, visits):
        session = session_of(people, visits)
        joined = (
            "SELECT COUNT(*) FROM visits v JOIN people p ON v.person = p.person WHERE p.age > 4 AND v.cost"
        )
        asked, domain, _ = plan_workload(session, [f"{joined} > 4", f"{joined} > 7"], 10_000)
        rows = counted_rows(session, asked, domain, 3)
        return {unit: sorted(map(str, part.rows())) for (unit,), part in rows.group_by(UNIT)}

    before = counted(people, visits)
    assert {len(rows) for rows in before.values()} == {3}
    left = [row for row in people if row[1] != 7]
    after = counted(left, [row for row in visits[::-1] if not 28 <= row[0] < 32])
    assert after == {unit: rows for unit, rows in before.items() if unit != "7"}


REFUSED = {
    "visits a JOIN visits b ON a.kind = b.kind": "joined by the unit",
    "visits a JOIN people p ON a.cost = p.age": "joined by the unit",
    "kinds k LEFT JOIN visits v ON k.kind = v.kind": "belong to nobody",
    "visits v FULL JOIN kinds k ON k.kind = v.kind": "belong to nobody",
    "visits JOIN people ON person = person": "may be",
    "visits v JOIN people v ON v.person = v.person": "called 'v'",
    "(SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind) q": "would mix people",
    "(SELECT person FROM visits LIMIT 3) q": "no ORDER BY, LIMIT",
    "kinds": "public",
    "nowhere": "must be one of",
    "people p JOIN visits v ON p.person < v.person": "needs an equality",
}


@pytest.mark.parametrize("source", REFUSED)
def test_rows_that_would_belong_to_two_units_are_refused(source):
    session = session_of([(1, 1, 3)], [(1, 2, "a")])
    with pytest.raises(QueryError, match=REFUSED[source]):
        session.ask(f"SELECT COUNT(*) FROM {source}", 1.0)
    assert session.remaining() == 100.0


def test_links_in_a_circle_and_loose_tables_are_refused():
    frame = pl.DataFrame({"person": [1], "house": [1], "age": [1]})
    other = pl.DataFrame({"a": [1], "b": [2]})
    facts = Schema({}, id="x")
    circle = (Link("1", "x", "y", ("a",)), Link("2", "y", "x", ("b",)))
    for links, tables in (
        (circle, {"x": (other, facts), "y": (other, facts)}),
        ((), {"x": (other, facts)}),
        ((Link("1", "x", "people", ("a",)),), {"x": (other, facts)}),
    ):
        schema = Schema(PEOPLE.columns, id="people", unit=Unit("house", 3), links=links)
        with pytest.raises(SchemaError):
            Session(frame, schema, budget=1.0, tables=tables)


def test_a_shared_key_must_be_read_alike_in_all_tables():
    """Else one person would be two units: `007` here, `7` there."""
    people = pl.DataFrame({"person": ["007"], "age": [1]})
    visits = pl.DataFrame({"person": ["7"], "cost": [1]})
    reads = Column("person", kind="category", numeric_id=True)
    links = (Link("visits", "visits", "people", ("person",)),)
    schema = Schema({**PEOPLE.columns, "person": reads}, id="people", unit=Unit("person", 3), links=links)
    plain = Schema({"cost": VISITS.columns["cost"]}, id="visits")
    with pytest.raises(SchemaError, match="'person' must be read alike in all tables"):
        Session(people, schema, budget=1.0, tables={"visits": (visits, plain)})
    same = Schema({**plain.columns, "person": reads}, id="visits")
    session = Session(people, schema, budget=1.0, tables={"visits": (visits, same)})
    frames = session._rows.tables.whole
    assert frames["visits"][UNIT].to_list() == frames["people"][UNIT].to_list() == ["7"]


def test_one_row_per_household_has_the_noise_of_one():
    session = session_of([(1, 1, 3)], [(1, 2, "a")])
    text = "SELECT COUNT(*) FROM (SELECT house, SUM(age) AS s FROM people GROUP BY house) q"
    assert session.cost(text, 1.0).parts[0]["noise_scale"] == 1.0
    assert session.cost("SELECT COUNT(*) FROM people", 1.0).parts[0]["noise_scale"] == 3.0


def contributions_of(session, source):
    """What each unit adds, whatever numbers the units have."""
    asked = f"SELECT COUNT(*), COUNT(DISTINCT house) FROM {source}" if "house" in source else ""
    plan = session._plan(session._question(asked or f"SELECT COUNT(*) FROM {source}"), 10**6)
    found = []
    for totals in session._rows.exact(plan):
        units: dict[int, list[tuple[int, ...]]] = {}
        for at, unit in enumerate(totals.unit.tolist()):
            row = (int(totals.group[at]), int(totals.bin[at]), *totals.moments[at].tolist())
            units.setdefault(unit, []).append(row)
        found.append((totals.units, sorted(sorted(each) for each in units.values())))
    return found


@pytest.mark.parametrize("source", [*SOURCES, *JOINED_AGAIN])
@given(people=people_rows, visits=visit_rows)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tables_too_large_for_memory_give_the_same_numbers(source, people, visits, monkeypatch):
    """In parts on disk, units apart, as in memory: bit for bit."""
    monkeypatch.setattr(parts, "PARTS", 3)
    monkeypatch.setattr(parts, "MOST_HELD", 1 << 22)
    expected = contributions_of(session_of(people, visits), source)
    monkeypatch.setattr(parts, "MOST_HELD", -1)
    session = session_of(people, visits)
    assert session._rows.tables.spilled
    assert contributions_of(session, source) == expected


PER_UNIT = "(SELECT house, SUM(age) AS s, COUNT(*) AS n FROM t GROUP BY house) q"


def test_one_table_too_large_for_memory_gives_the_same_numbers(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    people = pl.DataFrame({"house": rng.integers(0, 300, 2000), "age": rng.integers(0, 10, 2000)})
    people.write_parquet(tmp_path / "people.parquet")
    alone = replace(PEOPLE, links=())
    held = contributions_of(Session(people, alone, budget=9.0), PER_UNIT)
    assert contributions_of(Session(tmp_path / "people.parquet", alone, budget=9.0), PER_UNIT) == held
    monkeypatch.setattr(parts, "MOST_HELD", 100)
    assert contributions_of(Session(tmp_path / "people.parquet", alone, budget=9.0), PER_UNIT) == held
    assert held[0][0] == people["house"].n_unique()


def test_rows_in_files_are_nameless_and_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "MOST_HELD", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    session = session_of([(1, 1, 3), (2, 1, 4)], [(1, 2, "a")] * 5)
    assert session._rows.tables.spilled
    assert not list(tmp_path.iterdir())
    assert session._rows.frame.height == 2

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parts.pa.ipc, "new_stream", full)
    with pytest.raises(InputError, match="no room"):
        session_of([(1, 1, 3)], [(1, 2, "a")])


ONE_FROM = [
    (
        "visits v JOIN people p ON v.person = p.person",
        ["v.kind = 'a'", "v.cost > 4", "p.age >= 3 AND v.cost > 2"],
    ),
    ("visits", ["kind = 'a'", "cost > 4", "cost IS NULL"]),
    ("people", ["age >= 3", "age < 7"]),
    ("(SELECT house, COUNT(*) AS n FROM people GROUP BY house) q", ["n >= 2", "n >= 3"]),
    (
        "visits v JOIN kinds k ON v.kind = k.kind JOIN people p ON p.person = v.person",
        ["k.dear", "v.kind IN ('a')"],
    ),
]


@pytest.mark.parametrize(("source", "conditions"), ONE_FROM)
@pytest.mark.parametrize("held", [1 << 22, 0])
def test_a_workload_over_joins_and_sub_queries_counts_what_its_queries_count(
    source, conditions, held, monkeypatch
):
    monkeypatch.setattr(parts, "MOST_HELD", held)
    monkeypatch.setattr(parts, "PARTS", 3)
    rng = np.random.default_rng(9)
    people = [(at, at // 4, int(rng.integers(0, 10))) for at in range(80)]
    visits = [(int(rng.integers(0, 85)), int(rng.integers(0, 10)), "ab"[at % 2]) for at in range(100)]
    schema = replace(PEOPLE, unit=Unit("house", 40), budget=1e6, per_analyst=1e6)
    session = session_of(people, visits, schema)
    asked = [f"SELECT COUNT(*) FROM {source} WHERE {each}" for each in conditions] + [
        f"SELECT COUNT(*) FROM {source}"
    ]
    asked = [each for each in asked if "k.dear" not in each]
    found = session.workload(asked, 5000.0)
    assert [round(each.value) for each in found.answers] == [
        session.ask(each, 5000.0).value for each in asked
    ]
    assert "one house" in found.guarantee
    one_by_one = session.workload(asked[-1:], 5000.0)
    assert round(one_by_one.answers[0].value) == round(found.answers[-1].value)


def test_rows_of_a_workload_are_cut_within_each_unit(monkeypatch):
    monkeypatch.setattr(joining, "LEAST_KEPT", 1)
    rng = np.random.default_rng(3)
    people = [(at, at // 4, int(rng.integers(0, 10))) for at in range(2000)]
    visits = [(int(rng.integers(0, 2000)), int(rng.integers(0, 10)), "ab"[at % 2]) for at in range(9000)]

    def kept(persons, went):
        session = session_of(persons, went)
        asked = [f"SELECT COUNT(*) FROM {JOINED_AGAIN[0]} WHERE a.cost > 4 AND p.age > 2"]
        counted, domain, strategy = plan_workload(session, asked, 10**6)
        rows = counted_rows(session, counted, domain, strategy.rows)
        return {unit: sorted(map(str, part.rows())) for (unit,), part in rows.group_by(UNIT)}

    before = kept(people, visits)
    after = kept([row for row in people if row[1] != 7], [row for row in visits if not 28 <= row[0] < 32])
    assert max(len(each) for each in before.values()) == 3
    assert after == {unit: rows for unit, rows in before.items() if unit != "7"}


def test_queries_of_a_workload_share_one_from():
    session = session_of([(1, 1, 3)], [(1, 2, "a")])
    with pytest.raises(QueryError, match="same FROM"):
        session.workload(["SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM visits"], 1.0)
