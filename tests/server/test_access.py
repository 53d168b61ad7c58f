"""Who may ask what, requests for more budget, sessions: over HTTP, on a server of their own."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from shoal.dp.ledger.rights import Rights
from shoal.errors import ParameterError
from shoal.server.access import read_people, read_teams
from shoal.server.accounts import Accounts
from shoal.server.refusals import UnknownError
from shoal.server.service import Service

from .conftest import LiveServer
from .test_owner_datasets import config_of


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    live = LiveServer(
        tmp_path_factory.mktemp("guarded"), datasets={"survey": (50.0, 1.0), "secret": (50.0, 1.0)}
    ).start()
    live.tokens = {name: live.book.add(name, "analyst") for name in ("ann", "ben", "cai")}
    live.tokens |= {"olga": live.book.add("olga", "owner"), "aud": live.book.add("aud", "auditor")}
    yield live
    live.stop()


def count(place, epsilon=0.5):
    return {"sql": f"SELECT COUNT(*) FROM t WHERE age > {place}", "epsilon": epsilon}


def test_a_closed_data_set_does_not_exist_for_others(guarded):
    with guarded.http(guarded.tokens["olga"]) as owner:
        facts = {"everyone": False, "people": {"ann": 2.0}, "why": "only ann"}
        told = owner.put("/api/v1/datasets/secret/access", json=facts)
        assert told.json() == {
            "counted_in": "epsilon",
            "everyone": False,
            "people": {"ann": 2.0},
            "teams": {},
        }
        assert owner.get("/api/v1/datasets/secret/access").json() == told.json()
        assert len(owner.get("/api/v1/datasets").json()) == 2
    with guarded.http(guarded.tokens["ann"]) as ann:
        assert ann.get("/api/v1/datasets/secret/budget").json()["cap"] == 2.0
        assert ann.post("/api/v1/datasets/secret/ask", json=count(1)).status_code == 200
        assert ann.put("/api/v1/datasets/secret/access", json={"everyone": True}).status_code == 403
    with guarded.http(guarded.tokens["ben"]) as ben:
        assert [each["id"] for each in ben.get("/api/v1/datasets").json()] == ["survey"]
        for path, method in (
            ("", "GET"),
            ("/budget", "GET"),
            ("/answers", "GET"),
            ("/ask", "POST"),
            ("/cost", "POST"),
        ):
            body = {"json": count(1)} if method == "POST" else {}
            there = ben.request(method, f"/api/v1/datasets/secret{path}", **body)
            nowhere = ben.request(method, f"/api/v1/datasets/nowhere{path}", **body)
            assert (there.status_code, there.text.replace("secret", "nowhere")) == (404, nowhere.text)
    with guarded.signed_in(guarded.tokens["ben"]) as ben:
        assert ben.get("/ask/secret").status_code == 404
        assert "secret" not in ben.get("/requests").text
    with guarded.http(guarded.tokens["aud"]) as auditor:
        rows = auditor.get("/api/v1/log/questions", params={"state": "changes by owners"}).json()["rows"]
        assert any("only ann" in each["text"] and each["analyst"] == "olga" for each in rows)
        assert auditor.get("/api/v1/log/check").json()["holds"]


def test_a_closed_data_set_and_none_are_refused_at_the_same_time(tmp_path, monkeypatch):
    """The ledger was read for one of them only: hundreds of tries told which data sets there are."""
    config = config_of(tmp_path)
    service = Service(dataclasses.replace(config, slot_seconds=0.1))
    service.ledger.set_rights("cats", lambda _: Rights(False, {"ben": None}))
    waits = []
    monkeypatch.setattr("shoal.server.service.time.sleep", waits.append)
    for _ in range(2):  # with rights that were just read too
        for name in ("cats", "none"):
            assert not service.lets_in(name, "ann")
            with pytest.raises(UnknownError, match="There is no data set"):
                service.require(name, "ann")
    assert len(waits) == 4
    assert all(0 < each <= 0.1 for each in waits)
    service.require("cats", "ben")
    assert service.lets_in("cats", "ben")
    service.close()


def test_more_budget_is_asked_for_granted_and_written_in_the_log(guarded):
    with guarded.http(guarded.tokens["cai"]) as cai, guarded.http(guarded.tokens["olga"]) as owner:
        assert cai.post("/api/v1/datasets/survey/ask", json=count(1, 1.0)).status_code == 200
        assert cai.post("/api/v1/datasets/survey/ask", json=count(2)).status_code == 403
        wish = {"epsilon": 2.0, "reason": "a chapter on rents"}
        made = cai.post("/api/v1/datasets/survey/requests", json=wish).json()
        assert (made["state"], made["epsilon"]) == ("open", 2.0)
        again = cai.post("/api/v1/datasets/survey/requests", json=wish)
        assert again.status_code in (400, 422)
        assert "still open" in again.text
        assert cai.post(f"/api/v1/requests/{made['id']}", json={"epsilon": 2.0}).status_code == 403
        assert [each["id"] for each in owner.get("/api/v1/requests").json()] == [made["id"]]
        told = owner.post(
            f"/api/v1/requests/{made['id']}", json={"epsilon": 0.5, "note": "half of that"}
        ).json()
        assert (told["state"], told["granted"], told["decided"]["by"]) == ("granted", 0.5, "olga")
        assert owner.post(f"/api/v1/requests/{made['id']}", json={"epsilon": 1.0}).status_code in (400, 422)
        assert cai.get("/api/v1/datasets/survey/budget").json()["cap"] == 1.5
        assert cai.post("/api/v1/datasets/survey/ask", json=count(2)).status_code == 200
        assert cai.post("/api/v1/datasets/survey/ask", json=count(3)).status_code == 403
        second = cai.post("/api/v1/datasets/survey/requests", json=wish).json()
        owner.post(f"/api/v1/requests/{second['id']}", json={"epsilon": 0, "note": "no"})
        assert [each["state"] for each in cai.get("/api/v1/requests").json()] == ["refused", "granted"]
    with guarded.http(guarded.tokens["aud"]) as auditor:
        texts = [
            each["text"]
            for each in auditor.get("/api/v1/log/questions", params={"state": "changes by owners"}).json()[
                "rows"
            ]
        ]
        assert any(
            "a chapter on rents" in each and "epsilon 0.5 granted. half of that" in each for each in texts
        )
        assert any("refused. no" in each for each in texts)
        assert auditor.get("/api/v1/log/check").json()["holds"]


def test_pages_of_access_and_requests(guarded):
    with guarded.signed_in(guarded.tokens["ben"]) as ben:
        done = ben.post("/requests", data={"dataset": "survey", "amount": "1", "reason": "<b>why</b>"})
        assert "&lt;b&gt;why&lt;/b&gt;" in done.text
    with guarded.signed_in(guarded.tokens["olga"]) as owner:
        page = owner.get("/requests").text
        assert "Grant epsilon" in page
        identity = page.split('action="/requests/')[1].split('"')[0]
        owner.post(f"/requests/{identity}", data={"decision": "refuse", "amount": "1", "note": ""})
        assert "Grant epsilon" not in owner.get("/requests").text
        form = {"everyone": "yes", "people": "ann 3\nben", "teams": "health 5: ben, cai", "why": "x"}
        assert "health 5: ben, cai" in owner.post("/owner/access/survey", data=form).text
        wrong = owner.post("/owner/access/survey", data=form | {"teams": "health"})
        assert wrong.status_code in (400, 422)
        assert "must be a line such as" in wrong.text
        assert owner.post("/owner/access/survey").status_code in (400, 422)  # an empty form closes nothing
        caps = {"budget": "60", "per_analyst": "2", "sure": "no"}
        assert "Type the name" in owner.post("/owner/access/survey/caps", data=caps).text
        assert owner.post("/owner/access/survey/caps", data=caps | {"sure": "survey"}).status_code == 200
    with guarded.http(guarded.tokens["olga"]) as owner:
        assert owner.get("/api/v1/datasets/survey/spending").json()["cap"] == 60.0


def test_sessions_are_listed_and_signed_out(guarded):
    with guarded.signed_in(guarded.tokens["ann"]) as one, guarded.signed_in(guarded.tokens["ann"]) as two:
        listed = one.get("/account").text
        assert "this one" in listed
        assert "127.0.0.1" in listed
        session = listed.split('name="session" value="')[1].split('"')[0]
        one.post("/account/sessions", data={"session": session})
        assert two.get("/account").url.path == "/sign-in"
        assert one.post("/account/sessions").url.path == "/sign-in"


def test_a_revocation_is_confirmed_and_the_last_owner_stays(guarded):
    with guarded.signed_in(guarded.tokens["olga"]) as owner:
        owner.post("/owner/users", data={"name": "dora", "role": "analyst", "days": "1"})
        asked = owner.post("/owner/users/revoke", data={"name": "dora"})
        assert "Yes, revoke dora" in asked.text
        assert guarded.book.list()[-1].active
        owner.post("/owner/users/revoke", data={"name": "dora", "sure": "yes"})
        assert not guarded.book.list()[-1].active
        told = owner.post("/owner/users/revoke", data={"name": "olga", "sure": "yes"})
        assert "last owner" in told.text
        assert owner.get("/owner").status_code == 200
    words = [sys.executable, "-m", "shoal", "users"]
    done = subprocess.run(
        [*words, "revoke", str(guarded.path), "olga"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "last owner" in done.stderr
    with guarded.http(guarded.tokens["aud"]) as auditor:
        rows = auditor.get("/api/v1/log/questions", params={"text": "dora"}).json()["rows"]
        assert {each["text"] for each in rows} == {
            "account added: dora, analyst, 1 days",
            "account revoked: dora",
        }


def test_an_idle_session_ends(monkeypatch):
    book = Accounts(idle_seconds=100)
    book.add("olga", "owner")
    account = book.find(book.add("ann", "analyst"))
    cookie, other = book.enter(account), book.enter(account)
    now = [0.0]
    real = __import__("time").time()
    monkeypatch.setattr("shoal.server.accounts.time.time", lambda: real + now[0])
    monkeypatch.setattr("shoal.server.accounts.FRESH_SECONDS", -1.0)
    for step in (60, 120, 180):
        now[0] = step
        assert book.visit(cookie) is not None
    assert book.visit(other) is None
    assert [each.current for each in book.signed_in(account, cookie)] == [True]
    with pytest.raises(ParameterError, match="last owner"):
        book.revoke("olga")
    book.revoke("olga", last_owner=True)


@pytest.mark.parametrize("text", ["ann x", "ann -1", "Ann", "ann 1e999", "a b c"])
def test_people_that_cannot_be_read(text):
    with pytest.raises(ParameterError):
        read_people(text)


@pytest.mark.parametrize("text", ["health", "health 5", "health x: ann", "health 5: Ann B", ": ann"])
def test_teams_that_cannot_be_read(text):
    with pytest.raises(ParameterError):
        read_teams(text)
