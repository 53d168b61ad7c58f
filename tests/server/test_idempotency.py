"""A request sent again under its key: the same answer, one charge, through races, crashes and restarts."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from shoal.dp import Ledger
from shoal.server import once
from shoal.server.accounts import Accounts
from shoal.server.once import IdempotencyKeys, Kept, Turn

from .conftest import NOTHING, LiveServer, question


def keyed(key: str | None = None) -> dict[str, str]:
    return {"idempotency-key": key or str(uuid.uuid4())}


def spent(live, name="the-analyst") -> int:
    with Ledger(live.folder / "ledger.db") as ledger:
        return ledger.spent("survey", name)


def test_the_same_key_gives_the_same_answer_and_one_charge(live, tokens):
    path, body = question(31_001, 0.01)
    before, headers = spent(live), keyed()
    with live.http(tokens["analyst"]) as client:
        first = client.post(path, json=body, headers=headers)
        again = client.post(path, json=body, headers=headers)
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.content == first.content  # what was charged included
        assert again.headers["idempotency-replayed"] == "true"
        assert first.json()["epsilon"] == 0.01
        other = client.post(path, json=body | {"epsilon": 0.02}, headers=headers)
        assert other.status_code == 422
        assert "another request" in other.json()["error"]
        elsewhere = client.post(path.replace("survey", "last"), json=body, headers=headers)
        assert elsewhere.status_code == 422
        assert client.post(path, json=body, headers=keyed("short")).status_code == 400
    assert spent(live) - before == 10_000
    second = live.book.add("second-analyst", "analyst")
    with live.http(second) as client:  # a key is its account's own
        assert client.post(path, json=body, headers=headers).status_code == 200
    assert spent(live, "second-analyst") == 10_000


def test_a_refusal_is_given_again_and_adds_no_second_entry(live, tokens):
    path, body = question(31_002, 99_000.0)
    headers = keyed()

    def refusals() -> int:
        with Ledger(live.folder / "ledger.db") as ledger:
            return sum(each.kind == "refusal" for each in ledger.entries())

    with live.http(tokens["analyst"]) as client:
        first = client.post(path, json=body, headers=headers)
        count = refusals()
        again = client.post(path, json=body, headers=headers)
    assert (first.status_code, again.status_code) == (403, 403)
    assert again.json() == first.json()
    assert again.headers["content-type"] == "application/problem+json"
    assert refusals() == count


def test_requests_that_race_under_one_key_are_done_once(tmp_path):
    live = LiveServer(tmp_path / "h", workers=2).start()
    try:
        token = live.book.add("ann", "analyst")
        path, body = question(5, 0.5)
        headers = keyed()

        def ask(_):
            with live.http(token) as client:  # a connection of its own goes to any worker
                return client.post(path, json=body, headers=headers)

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, range(32)))
        assert {each.status_code for each in answers} == {200}
        assert len({each.content for each in answers}) == 1
        assert sum("idempotency-replayed" in each.headers for each in answers) == 31
        assert spent(live, "ann") == 500_000
        owner = live.book.add("olga", "owner")

        def make(_):
            with live.http(owner) as client:
                return client.post("/api/v1/users", json={"name": "ben", "role": "analyst"}, headers=headers)

        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(make, range(8)))
        assert {each.status_code for each in made} == {200}
        assert len({each.json()["token"] for each in made}) == 1
        assert [each.name for each in live.book.list()].count("ben") == 1
        live.kill()
        live.start()
        with live.http(token) as client:  # after a crash as well
            assert client.post(path, json=body, headers=headers).content == answers[0].content
        with live.http(owner) as client:
            again = client.post("/api/v1/users", json={"name": "ben", "role": "analyst"}, headers=headers)
        assert again.content == made[0].content
        assert live.book.find(again.json()["token"]).name == "ben"
        kept = (live.folder / "accounts.db").read_bytes()
        assert made[0].json()["token"].encode() not in kept  # encrypted under a key that only the client has
        assert headers["idempotency-key"].encode() not in kept
        assert b'"value"' not in kept
    finally:
        live.kill()


def broken_off(live, account, key, path, body, monkeypatch) -> None:
    """A row as a server leaves it that was killed at work, long enough ago to be given up."""
    import hashlib

    import httpx

    sent = httpx.Request("POST", f"{live.url}{path}", json=body)
    asked = hashlib.sha256(f"POST {path}\n".encode() + sent.content).digest()
    book = Accounts(live.folder / "accounts.db")
    monkeypatch.setattr(once, "LEASE_SECONDS", -1.0)
    assert IdempotencyKeys(book.engine).begin(account, key, asked) == Turn()
    monkeypatch.undo()
    book.close()


def test_what_was_broken_off_before_its_charge_is_asked_and_charged_once(live, tokens, monkeypatch):
    path, body = question(31_003, 0.01)
    key, before = str(uuid.uuid4()), spent(live)
    broken_off(live, "the-analyst", key, path, body, monkeypatch)
    with live.http(tokens["analyst"]) as client:
        first = client.post(path, json=body, headers=keyed(key))
        assert first.status_code == 200
        assert client.post(path, json=body, headers=keyed(key)).content == first.content
    assert spent(live) - before == 10_000


def test_what_was_broken_off_after_its_answer_was_stored_costs_nothing_more(live, tokens, monkeypatch):
    path, body = question(31_004, 0.01)
    key, before = str(uuid.uuid4()), spent(live)
    with live.http(tokens["analyst"]) as client:
        first = client.post(path, json=body)
        broken_off(live, "the-analyst", key, path, body, monkeypatch)
        again = client.post(path, json=body, headers=keyed(key))
    assert again.json()["value"] == first.json()["value"]
    assert spent(live) - before == 10_000


def test_a_charge_whose_answer_was_lost_is_not_made_twice_under_one_key(tmp_path, monkeypatch):
    """The server dies between the charge and the answer, as a real process that kills itself there."""
    live = LiveServer(tmp_path / "h")
    start = live.folder / "dies.py"
    start.write_text(
        "import os, sys\n"
        "from shoal.dp.ledger.ledger import Ledger\n"
        "sound = Ledger.__init__\n"
        "def planted(self, *words, **named):\n"
        "    die = lambda step: os._exit(9) if step == 'charge-committed' else None\n"
        "    sound(self, *words, **named, _hook=die)\n"
        "Ledger.__init__ = planted\n"
        "from pathlib import Path\n"
        "from shoal.server.config import Config\n"
        "from shoal.server.run import run\n"
        "config = Config.from_toml(sys.argv[1]).changed(port=int(sys.argv[2]))\n"
        "run(Path(sys.argv[1]), config)\n"
    )
    import subprocess
    import sys
    import time

    import httpx

    token = live.book.add("ann", "analyst")
    path, body = question(5, 0.5)
    headers = keyed()
    with (live.folder / "log").open("ab") as log:
        live.process = subprocess.Popen(
            [sys.executable, str(start), str(live.path), str(live.port)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        for _ in range(600):
            try:
                httpx.get(f"{live.url}/health/live", timeout=5, verify=NOTHING)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        with live.http(token) as client, pytest.raises(httpx.TransportError):
            client.post(path, json=body, headers=headers)
        live.process.wait(timeout=60)
        assert spent(live, "ann") == 500_000
        book = Accounts(live.folder / "accounts.db")
        with book.engine.begin() as connection:  # as if the lease had run out
            connection.execute(sa.text("UPDATE shoal_idempotency SET until = 0"))
        book.close()
        live.start()
        with live.http(token) as client:
            for _ in range(2):
                told = client.post(path, json=body, headers=headers)
                assert told.status_code == 409, told.text
                assert "stays charged" in told.json()["error"]
            assert spent(live, "ann") == 500_000
            fresh = client.post(path, json=body, headers=keyed())  # a new key is a new question
            assert fresh.status_code == 200
        assert spent(live, "ann") == 1_000_000
    finally:
        live.kill()


def test_keys_in_the_book(monkeypatch):
    keys = IdempotencyKeys(Accounts().engine)
    assert keys.begin("ann", "k" * 20, b"a") == Turn()
    assert keys.begin("ann", "k" * 20, b"a") is None  # at work
    keys.keep("ann", "k" * 20, Kept(200, "text/plain", b"told"))
    assert keys.begin("ann", "k" * 20, b"a") == Kept(200, "text/plain", b"told")
    keys.begin("ben", "k" * 20, b"b")
    keys.break_off("ben", "k" * 20)
    assert isinstance(keys.begin("ben", "k" * 20, b"b").begun, float)  # who comes next takes it over
    assert keys.begin("ben", "k" * 20, b"b") is None  # and nobody else
    keys.drop("ben", "k" * 20)
    assert keys.begin("ben", "k" * 20, b"other") == Turn()
    word = keys.put("ann", b"token")
    assert keys.take("ben", word) is None
    assert keys.take("ann", word) == b"token"
    assert keys.take("ann", word) is None
    monkeypatch.setattr(once, "KEEP_SECONDS", 0)
    monkeypatch.setattr(once, "SWEEP_SECONDS", -1)
    assert keys.begin("ann", "k" * 20, b"something else") == Turn()  # after a day it is forgotten
