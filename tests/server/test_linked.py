"""Two linked tables on the server: persons and their visits, protected by household, from `shoal.toml` to the page."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from shoal import Client
from shoal.errors import ParameterError, ShoalError
from shoal.server.config import Config

from .conftest import LiveServer

PEOPLE = """
[table]
id = "people"
unit = {column = "household", rows = 40}
budget = 50.0
per_analyst = 20.0

[columns.age]
bounds = [0, 110]
step = 1

[columns.region]
kind = "category"
levels = ["north", "south"]

[links.visits-of-people]
from = "visits"
to = "people"
key = "person"
"""
VISITS = """
[table]
id = "visits"

[columns.cost]
bounds = [0, 300]
step = 1

[columns.ward]
kind = "category"
levels = ["surgery", "general"]
"""
CONFIG = """
[server]
requests_per_minute = 60000
[datasets.people]
file = "people.csv"
schema = "people.toml"
[datasets.people.tables.visits]
file = "visits.csv"
schema = "visits.toml"
"""
JOIN = "SELECT p.region, SUM(v.cost) AS spent, COUNT(*) AS n FROM visits v JOIN people p ON v.person = p.person GROUP BY p.region"
PER_HOUSE = (
    "SELECT AVG(spent) AS mean FROM (SELECT p.household, SUM(v.cost) AS spent FROM visits v "
    "JOIN people p ON v.person = p.person GROUP BY p.household) h"
)


def write(folder, **names):
    rng = np.random.default_rng(1)
    people = pl.DataFrame(
        {
            "person": range(600),
            "household": [at // 3 for at in range(600)],
            "age": rng.integers(0, 90, 600),
            "region": rng.choice(["north", "south"], 600),
        }
    )
    visits = pl.DataFrame(
        {
            "person": rng.integers(0, 600, 2000),
            "cost": rng.integers(0, 300, 2000),
            "ward": rng.choice(["surgery", "general"], 2000),
        }
    )
    people.write_csv(folder / "people.csv")
    visits.write_csv(folder / "visits.csv")
    texts = {"people.toml": PEOPLE, "visits.toml": VISITS, "shoal.toml": CONFIG} | names
    for name, text in texts.items():
        (folder / name).write_text(text)
    return people, visits


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    live = LiveServer(tmp_path_factory.mktemp("linked"))
    live.tables = write(live.folder)
    live.start()
    live.token = live.book.add("ann", "analyst")
    yield live
    live.stop()


def test_joins_and_sums_per_household_over_http(linked):
    people, visits = linked.tables
    joined = visits.join(people, on="person")
    exact = dict(joined.group_by("region").agg(pl.len()).iter_rows())
    with Client(linked.url, linked.token, "people") as client:
        answer = client.ask(JOIN, 4.0)
        assert client.ask(JOIN, 4.0).epsilon == 0
        assert "household" in answer.guarantee
        for row, ends in zip(answer.value, answer.interval, strict=True):
            assert abs(row["n"] - exact[row["region"]]) < 600
            assert ends["n"][0] <= row["n"] <= ends["n"][1]
        mean = client.ask(PER_HOUSE, 2.0)
        true = joined.group_by("household").agg(pl.col("cost").sum())["cost"].sum() / 200
        assert abs(mean.value - true) < 600
        assert client.remaining() == 14.0
        (facts,) = client.datasets()
        assert [each["name"] for each in facts["tables"]] == ["visits"]
        assert facts["tables"][0]["keys"] == ["person"]
        assert [each["name"] for each in facts["tables"][0]["columns"]] == ["cost", "ward"]
        assert client.cost(facts["examples"][-1], 0.5)["epsilon"] == 0.5  # the join that is shown is accepted
        past = client.answers()
        again = past[-1]["answer"]["value"]  # names are those of the canonical text
        assert [list(each.values()) for each in again] == [list(each.values()) for each in answer.value]
        with pytest.raises(ShoalError):
            client.ask("SELECT COUNT(*) FROM visits v JOIN people p ON v.cost = p.age", 1.0)


def test_page_and_completion_know_both_tables(linked):
    with linked.signed_in(linked.token) as page:
        shown = page.get("/ask/people").text
        assert "joined by person" in shown
        assert 'data-word="visits"' in shown
        words = page.get("/ask/people/words").json()["words"]
        kinds = {(each["text"], each["kind"]) for each in words}
        assert {("visits", "table"), ("people", "table"), ("cost", "column"), ("person", "column")} <= kinds
        assert ("'surgery'", "level") in kinds
        assert next(each for each in words if each["text"] == "'surgery'")["owner"] == "ward"
        form = {"sql": JOIN, "epsilon": "4.0", "error": "", "mode": "dp", "do": "ask"}
        assert "You had this answer already" in page.post("/ask/people", data=form).text
    with linked.signed_in(linked.book.add("olga", "owner")) as owner:
        assert "visits.cost" in owner.get("/owner").text


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (CONFIG.replace('file = "visits.csv"', 'file = "no.csv"'), "no file"),
        (CONFIG.replace('schema = "visits.toml"', ""), "must say 'schema'"),
        (
            CONFIG.replace('schema = "people.toml"', 'schema = "people.toml"\nmodes = ["correlated"]'),
            "several tables",
        ),
        (CONFIG.replace('schema = "visits.toml"', 'schema = "visits.toml"\nodd = 1'), "Got 'odd'"),
    ],
)
def test_what_is_wrong_with_a_further_table_is_said(tmp_path, config, says):
    write(tmp_path, **{"shoal.toml": config})
    with pytest.raises(ParameterError, match=says):
        Config.from_toml(tmp_path / "shoal.toml")


def test_check_opens_all_tables(tmp_path):
    from shoal.server.check import look_through

    write(tmp_path, **{"visits.toml": VISITS.replace("[columns.cost]", "[columns.nothing]")})
    with pytest.raises(ParameterError, match="nothing"):
        look_through(Config.from_toml(tmp_path / "shoal.toml"))
