"""Streams over HTTP: one charge, periods added by the owner, totals for who paid; crashes in between."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from shoal import Client
from shoal.errors import BudgetError, ParameterError, ShoalError
from shoal.server.config import Config
from shoal.server.refusals import UnknownError
from shoal.server.service import Service
from shoal.server.streams import NewStream, add_period, open_one, told_to

from .conftest import LiveServer

SQL = "SELECT COUNT(*) FROM t WHERE age >= 40 GROUP BY sex"


@pytest.fixture
def served(tmp_path):
    live = LiveServer(
        tmp_path / "live",
        "slot_seconds = 0",
        {"survey": (10.0, 2.0), "zsurvey": (10.0, 5.0)},
        counted_in_rho=frozenset({"zsurvey"}),
    )
    service = Service(Config.from_toml(live.path))
    yield live, service
    service.close()


def wanted(name="weekly", epsilon=1.0, **more):
    return NewStream(name=name, sql=SQL, periods=4, epsilon=epsilon, **more)


def test_one_charge_totals_for_who_paid_and_nobody_else(served):
    live, service = served
    opened = open_one(service, "survey", wanted(), "ann")
    assert (opened.periods, opened.steps, opened.guarantee[:22]) == (4, (), "guarantee: epsilon-DP,")
    assert service.budget("survey", "ann").spent.millionths == 1_000_000
    for period in (1, 2):
        told = add_period(service, "survey", opened.id, live.folder / "survey.csv", period, "olga")
    assert service.budget("survey", "ann").spent.millionths == 1_000_000  # nothing more
    assert [(each["period"], each["sex"]) for each in told.rows] == [
        (1, "female"), (1, "male"), (2, "female"), (2, "male"),
    ]  # fmt: skip
    assert all(each["low"] <= each["total"] <= each["high"] for each in told.rows)
    assert told_to(service, "survey", "ann") == [told]
    assert told_to(service, "survey", None) == [told]
    assert told_to(service, "survey", "ben") == []
    assert open_one(service, "survey", wanted(), "ann") == told  # again, for nothing
    assert service.budget("survey", "ann").spent.millionths == 1_000_000
    spent = service.ledger.spent("survey")
    assert open_one(service, "survey", wanted(), "ben").steps == told.steps  # pays, and sees the same
    assert service.budget("survey", "ben").spent.millionths == 1_000_000
    assert service.ledger.spent("survey") == spent  # the data set was charged once
    with pytest.raises(ParameterError, match=r"next period .* is 3"):
        add_period(service, "survey", opened.id, live.folder / "survey.csv", 2, "olga")
    with pytest.raises(UnknownError):
        add_period(service, "zsurvey", opened.id, live.folder / "survey.csv", None, "olga")
    bodies = [each.body for each in service.ledger.entries() if each.kind == "event"]
    assert bodies == ["period 1 of stream 'weekly'", "period 2 of stream 'weekly'"]
    with pytest.raises(BudgetError):
        open_one(service, "survey", wanted("another", 1.5), "ann")
    assert [each.name for each in told_to(service, "survey", None)] == ["weekly"]  # nothing is left of it


def test_opened_again_it_is_the_one_that_was_asked_for(served):
    """Two streams of one name: the question tells them apart."""
    _, service = served
    first = open_one(service, "survey", wanted(epsilon=0.5), "ann")
    second = open_one(
        service,
        "survey",
        NewStream(name="weekly", sql="SELECT COUNT(*) FROM t", periods=4, epsilon=0.5),
        "ann",
    )
    assert first.id != second.id
    assert open_one(service, "survey", wanted(epsilon=0.5), "ann") == first


def test_a_stream_in_rho(served):
    live, service = served
    opened = open_one(service, "zsurvey", NewStream(name="w", sql=SQL, periods=3, rho=0.1), "ann")
    assert opened.to_dict()["rho"] == 0.1
    assert "rho-zCDP" in opened.guarantee
    assert add_period(service, "zsurvey", opened.id, live.folder / "survey.csv", None, "olga").steps


CRASH = """
    import os, sys
    from pathlib import Path
    from shoal.dp.continual import State
    from shoal.dp.continual import _stream as stream_module
    from shoal.server.config import Config
    from shoal.server.service import Service
    from shoal.server.streams import NewStream, add_period, open_one, told_to

    where, config, table = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    service = Service(Config.from_toml(config))
    if where in ("charge-begun", "charge-committed", "settle-committed"):
        service.ledger._hook = lambda step: os._exit(9) if step == where else None
        service.ledger.store._hook = service.ledger._hook
    if where == "before the period is kept":
        State.add_period = lambda *words: os._exit(9)
    if where == "before the log":
        stream_module.note_period = lambda *words, **more: os._exit(9)
    opened = open_one(service, "survey", NewStream(name="weekly", sql=SQL, periods=4, epsilon=1.0), "ann")
    add_period(service, "survey", opened.id, table, 1, "olga")
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("where", "charged", "known", "steps"),
    [
        ("charge-committed", 1, 0, 0),  # paid and lost: never drawn again on that charge
        ("settle-committed", 1, 1, 0),  # paid, and still there
        ("before the period is kept", 1, 1, 0),  # the period is not half in
        ("before the log", 1, 1, 1),  # the period is in, and is not taken twice
    ],
)
def test_a_crash_between_charge_and_period(served, where, charged, known, steps):
    live, service = served
    code = textwrap.dedent(CRASH).replace("SQL", repr(SQL), 1).replace("sql=SQL", f"sql={SQL!r}")
    words = [sys.executable, "-c", code, where, str(live.path), str(live.folder / "survey.csv")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    assert service.ledger.verify().holds
    assert service.ledger.spent("survey") == charged * 1_000_000
    found = told_to(service, "survey", "ann")
    assert len(found) == known
    assert [len(each.steps) for each in found] == [steps] * known
    if known:
        again = open_one(service, "survey", wanted(), "ann")
        assert service.ledger.spent("survey") == 1_000_000  # nothing was charged twice
        if steps:
            with pytest.raises(ParameterError, match="next period"):
                add_period(service, "survey", again.id, live.folder / "survey.csv", 1, "olga")
        else:
            told = add_period(service, "survey", again.id, live.folder / "survey.csv", 1, "olga")
            assert len(told.steps) == 1
    else:
        open_one(service, "survey", wanted(), "ann")
        assert service.ledger.spent("survey") == 2_000_000


def test_over_http_with_client_and_pages(live, tokens):
    with (
        Client(live.url, tokens["analyst"], "survey") as analyst,
        Client(live.url, tokens["owner"], "survey") as owner,
    ):
        opened = analyst.stream("over http", SQL, 5, 0.5)
        assert (opened["epsilon"], opened["steps"]) == (0.5, [])
        with pytest.raises(ShoalError, match="not for the role"):
            analyst.add_period(opened["id"], live.folder / "survey.csv")
        told = owner.add_period(opened["id"], live.folder / "survey.csv", 1)
        assert analyst.streams()[-1] == told
        assert {each["period"] for each in told["steps"]} == {1}
        with pytest.raises(ShoalError, match="next period"):
            owner.add_period(opened["id"], live.folder / "survey.csv", 1)
    with live.signed_in(tokens["owner"]) as owner:
        page = owner.get("/owner/streams/survey").text
        assert "Rows of period 2" in page
        outside = owner.post(f"/owner/streams/survey/{opened['id']}/periods", data={"path": "/etc/passwd"})
        assert "data_folders" in outside.text
        sent = {"table": ("week.csv", (live.folder / "survey.csv").read_bytes())}
        done = owner.post(f"/owner/streams/survey/{opened['id']}/periods", files=sent, data={"period": "2"})
        assert "Rows of period 3" in done.text
    with live.signed_in(tokens["analyst"]) as analyst:
        page = analyst.get("/ask/survey/streams").text
        assert "2 of 5 periods" in page
        form = {"name": "from the page", "sql": SQL, "periods": "2", "amount": "0.1", "mode": "dp"}
        assert "from the page" in analyst.post("/ask/survey/streams", data=form).text
        wrong = analyst.post("/ask/survey/streams", data=form | {"periods": "many"})
        assert "A stream needs a name" in wrong.text
    stranger = live.book.add("stream-stranger", "analyst")
    with Client(live.url, stranger, "survey") as other:
        assert other.streams() == []
