"""The API over a real server: answers, refusals, roles, and what malformed clients get."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

from shoal import Client
from shoal.dp import Answer, Ledger
from shoal.errors import BudgetError, InputError, QueryError, ShoalError
from shoal.server.app import WAYS

from .conftest import NOTHING, LiveServer, question

ASK = "/api/v1/datasets/survey/ask"


def test_the_client_gives_the_same_answer_again_at_no_cost(live, tokens):
    sql = "SELECT AVG(income), COUNT(*) FROM survey WHERE age >= 40 GROUP BY sex"
    with Client(live.url, tokens["analyst"], "survey") as client:
        assert client.cost(sql, 0.5)["epsilon"] == 0.5
        first = client.ask(sql, 0.5)
        assert isinstance(first, Answer)
        assert first.guarantee == "guarantee: epsilon-DP, add or remove one record"
        assert (first.epsilon, [row["sex"] for row in first.value]) == (0.5, ["female", "male"])
        again = client.ask(sql, 0.5)
        assert (again.value, again.epsilon) == (first.value, 0)
        assert client.cost(sql, 0.5)["epsilon"] == 0
        assert client.answers()[0]["answer"]["value"] == first.value
        assert client.remaining() == again.remaining


@pytest.mark.parametrize(
    "figure", ["VAR_POP(age)", "QUANTILE(age, 0.25)", "MEDIAN(income)", "MAX(age)", "SUM(rent)"]
)
def test_past_answers_come_back_from_the_ledger(live, tokens, figure):
    with Client(live.url, tokens["analyst"], "survey") as client:
        answer = client.ask(f"SELECT {figure} FROM t", 0.3)
        assert client.answers()[0]["answer"]["value"] == answer.value


def test_an_error_is_the_same_class_as_at_home(live, tokens):
    with Client(live.url, tokens["analyst"], "survey") as client:
        with pytest.raises(QueryError, match="nothere"):
            client.ask("SELECT AVG(nothere) FROM t", 0.1)
        with pytest.raises(BudgetError, match="budget"):
            client.ask("SELECT COUNT(*) FROM t", 99_999)
        with pytest.raises(InputError, match="no data set"):
            client.ask("SELECT COUNT(*) FROM t", 1, dataset="other")
        with pytest.raises(ShoalError):
            client.ask("SELECT COUNT(*) FROM t", 0)
        with pytest.raises(QueryError, match="mode"):
            client.reproduce("SELECT COUNT(*) FROM t", 0.1)
    with Client(live.url, "shoal-nobody", "survey") as nobody, pytest.raises(ShoalError, match="token"):
        nobody.ask("SELECT COUNT(*) FROM t", 1)
    with pytest.raises(InputError, match="reached"):
        Client("http://127.0.0.1:1", "shoal-x", "survey").ask("SELECT COUNT(*) FROM t", 1)


def filled(path: str) -> str:
    """A route's address, about things that are not there but for the data set."""
    known = {"dataset": "survey", "name": "all.csv", "identity": "0" * 12, "stream": "0" * 32}
    return re.sub(r"{(\w+)}", lambda found: known.get(found[1], "0" * 24), path)


def test_every_route_lets_in_its_roles_and_nobody_else(live, tokens):
    # Of these only the refusals are tried: the server is shared, and they would close it to other tests.
    safe = {"/sign-out", "/owner/users", "/owner/users/revoke", "/owner/users/rotate", "/account/sessions"}
    safe |= {"/owner/access/{dataset}", "/owner/access/{dataset}/caps", "/api/v1/datasets/{dataset}/access"}
    tokens = tokens | {"agent": live.book.add("the-agent", "agent")}  # who asks by `shoal mcp` alone
    for way, role in itertools.product(WAYS, ["owner", "analyst", "auditor", "agent", None]):
        allowed = way.roles is None or role in way.roles
        if allowed and way.path in safe:
            continue
        path = filled(way.path)
        with live.http(tokens.get(role)) as client:
            status = client.request(way.method, path).status_code
        if way.roles is None:
            assert status not in (401,), (way, role, status)
        elif role is None:
            redirected = status == 303 and not path.startswith("/api") and way.method == "GET"
            assert status == 401 or redirected, (way, role, status)
        elif allowed:
            assert status not in (401, 403, 405, 500), (way, role, status)
        else:
            assert status == 403, (way, role, status)


def test_no_route_is_changed_by_a_cookie_alone(live, tokens):
    for role in ("owner", "analyst", "auditor"):
        with live.signed_in(tokens[role]) as browser:
            del browser.headers["x-csrf-token"]
            for way in WAYS:
                if way.method == "GET" or way.roles is None or role not in way.roles:
                    continue
                path = filled(way.path)
                for body in ({}, {"data": {"csrf": "guess", "sure": "survey"}}, {"json": {}}):
                    told = browser.request(way.method, path, **body)
                    assert told.status_code == 403, (way, role, told.status_code)
                    assert "out of date" in told.text, (way, told.text)


def test_a_cookie_alone_changes_nothing(live, tokens):
    with live.signed_in(tokens["analyst"]) as browser:
        body = {"sql": "SELECT COUNT(*) FROM t", "epsilon": 0.01}
        assert browser.post(ASK, json=body).status_code == 200
        elsewhere = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        assert browser.post(ASK, json=body, headers=elsewhere).status_code == 403
        browser.headers["x-csrf-token"] = "guess"
        assert browser.post(ASK, json=body).status_code == 403
        del browser.headers["x-csrf-token"]
        assert browser.post(ASK, json=body).status_code == 403
        assert browser.post("/ask/survey", data={**body, "csrf": ""}).status_code == 403
        cookie = browser.cookies["shoal_visit"]
    with live.http() as fresh:
        assert fresh.post("/sign-in", data={"token": tokens["analyst"]}).status_code == 403
        got = fresh.get("/sign-in")
        flags = got.headers["set-cookie"].lower()
        assert "httponly" in flags
        assert "samesite=strict" in flags
        fresh.cookies.set("shoal_visit", cookie)
        assert fresh.get("/api/v1/me").json()["name"] == "the-analyst"


def test_signing_out_ends_the_visit(live, tokens):
    with live.signed_in(tokens["auditor"]) as browser:
        cookie = browser.cookies["shoal_visit"]
        assert browser.post("/sign-out").url.path == "/sign-in"
    with live.http(cookies={"shoal_visit": cookie}) as again:
        assert again.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil", "/\nx", "javascript:1"]
)
def test_sign_in_leads_only_to_this_site(live, tokens, target):
    with live.http() as client:
        client.get("/sign-in")
        form = {"token": tokens["analyst"], "form_key": client.cookies["shoal_form"], "next": target}
        assert client.post("/sign-in", data=form).headers["location"] == "/"


def test_pages_carry_a_policy_and_no_inline_script_or_style(live, tokens):
    visits = {"analyst": ["/ask", "/ask/survey"], "owner": ["/owner", "/publish"], "auditor": ["/audit"]}
    for role, paths in visits.items():
        with live.signed_in(tokens[role]) as browser:
            for path in [*paths, "/sign-in", "/nowhere"]:
                page = browser.get(path)
                assert "unsafe" not in page.headers["content-security-policy"]
                assert page.headers["cache-control"] == "no-store"
                assert "style=" not in page.text
                assert "<style" not in page.text
                assert "onclick" not in page.text
                assert page.text.count("<script") == page.text.count('<script src="/static/')
                assert "http://" not in page.text.replace("http://www.w3.org", "")


BAD = [
    b"",
    b"{",
    b"[]",
    b"\xff\xfe{}",
    b'{"sql": 1, "epsilon": 0.1}',
    b'{"sql": "SELECT COUNT(*) FROM t", "epsilon": "0.1"}',
    b'{"sql": "SELECT COUNT(*) FROM t", "epsilon": true}',
    b'{"sql": "SELECT COUNT(*) FROM t", "epsilon": NaN}',
    b'{"sql": "SELECT COUNT(*) FROM t", "epsilon": 1e999}',
    b'{"sql": "SELECT COUNT(*) FROM t", "epsilon": -1}',
    b'{"sql": "SELECT COUNT(*) FROM t", "epsilon": 1e-9}',
    b'{"sql": "SELECT COUNT(*) FROM t", "epsilon": 0.1, "more": 1}',
    b'{"sql": "\\ud800", "epsilon": 0.1}',
    b'{"sql": "SELECT COUNT(*) FROM t WHERE sex = \'\\u0000\'", "epsilon": 0.1}',
    b'{"sql": "DROP TABLE shoal_entries", "epsilon": 0.1}',
    b'{"sql": "SELECT COUNT(*) FROM t; SELECT 1", "epsilon": 0.1}',
    b"[" * 100_000,
    json.dumps(
        {"sql": "SELECT COUNT(*) FROM t WHERE " + "(" * 5000 + "age > 1" + ")" * 5000, "epsilon": 1}
    ).encode(),
    json.dumps({"sql": "SELECT COUNT(*) FROM t WHERE " + "NOT " * 4000 + "age > 1", "epsilon": 1}).encode(),
    json.dumps({"sql": "x" * 10_000_000, "epsilon": 1}).encode(),
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_what_cannot_be_read_is_refused_with_a_sentence(live, tokens, body):
    with live.http(tokens["analyst"]) as client:
        got = client.post(ASK, content=body, headers={"content-type": "application/json"})
        assert got.status_code in (400, 413, 422), got.text
        assert got.json()["error"].endswith(".")
        assert len(got.text) < 1000
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/datasets/%ff%fe/ask", 404),
        ("/api/v1/datasets/..%2f..%2fetc%2fpasswd/ask", (404, 405)),
        ("/api/v1/datasets/survey%00/ask", 404),
        ("/api/v1/datasets/" + "x" * 5000 + "/ask", 404),
    ],
)
def test_odd_paths_are_no_data_sets(live, tokens, path, status):
    with live.http(tokens["analyst"]) as client:
        got = client.post(path, json={"sql": "SELECT COUNT(*) FROM t", "epsilon": 0.1})
        assert got.status_code in (status if isinstance(status, tuple) else (status,))
        assert got.json()["error"].endswith(".")


def test_bodies_without_a_stated_length_are_limited_too(live, tokens):
    def endless():
        for _ in range(200):
            yield b"x" * 65536

    with live.http(tokens["analyst"]) as client:
        with contextlib.suppress(httpx.TransportError):  # cut off while it was still talking
            assert client.post(ASK, content=endless()).status_code == 413
        assert client.get("/health").status_code == 200
    with live.signed_in(tokens["analyst"]) as browser:
        form = b"csrf=%ff%fe&sql=\xff\xfe&epsilon=0.1"
        headers = {"content-type": "application/x-www-form-urlencoded"}
        assert browser.post("/ask/survey", content=form, headers=headers).status_code in (400, 403)


def test_slow_and_broken_clients_do_not_stop_others(live, tokens):
    slow = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(50)]
    for place, each in enumerate(slow):
        each.sendall(b"POST /api/v1/datasets/survey/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n")
        if place % 2:
            each.sendall(b"Authorization: Bearer " + tokens["analyst"].encode() + b"\r\n\r\n{")
    garbage = socket.create_connection(("127.0.0.1", live.port))
    garbage.sendall(b"\x00\xff\x16\x03 not http\r\n\r\n")
    with live.http(tokens["analyst"]) as client:
        started = time.monotonic()
        assert client.post(ASK, json={"sql": "SELECT COUNT(*) FROM t", "epsilon": 0.02}).status_code == 200
        assert time.monotonic() - started < 20
    for each in (*slow, garbage):
        each.close()


def test_many_people_who_come_at_once_are_all_let_in(live):
    tokens = [live.book.add(f"ann-{at}", "analyst") for at in range(40)]
    call = partial(httpx.get, f"{live.url}/api/v1/me", timeout=120, verify=NOTHING)
    with ThreadPoolExecutor(40) as pool:
        answers = pool.map(lambda each: call(headers={"authorization": f"Bearer {each}"}), tokens)
        assert {answer.status_code for answer in answers} == {200}


def test_guesses_sent_at_once_get_no_more_turns_than_guesses_in_a_row(tmp_path):
    live = LiveServer(tmp_path / "h").start()
    try:
        call = partial(httpx.get, f"{live.url}/api/v1/me", timeout=120, verify=NOTHING)
        guesses = [{"authorization": f"Bearer shoal-{at:012x}-{'x' * 43}"} for at in range(120)]
        with ThreadPoolExecutor(40) as pool:
            statuses = [answer.status_code for answer in pool.map(lambda each: call(headers=each), guesses)]
        assert set(statuses) == {401, 429}
        assert statuses.count(401) <= 60  # twenty, and what a slow machine lets come back meanwhile
    finally:
        live.process.kill()


def test_guessing_tokens_is_slowed_down_and_known_tokens_are_not(tmp_path):
    live = LiveServer(tmp_path / "h", "requests_per_minute = 40\nslot_seconds = 0.4").start()
    try:
        token = live.book.add("ann", "analyst")
        with live.http(token) as known:
            assert known.get("/api/v1/me").status_code == 200
            # One comes back every three seconds, so that on a slow machine it takes more of them; never without end.
            seen = [live.http(f"shoal-0-{i}").get("/api/v1/me").status_code for i in range(20)]
            while seen[-1] == 401 and len(seen) < 400:
                seen.append(live.http(f"shoal-0-{len(seen)}").get("/api/v1/me").status_code)
            assert seen[:20] == [401] * 20
            assert seen[-1] == 429
            started = time.monotonic()
            path, body = question(1)
            assert known.post(path, json=body).status_code == 200
            assert time.monotonic() - started >= 0.4  # the slot
            statuses = [200]
            while statuses[-1] == 200 and len(statuses) < 4000:
                statuses.append(known.get("/api/v1/me").status_code)
            assert statuses[-1] == 429
            live.book.revoke("ann")
            time.sleep(1.2)
            assert known.get("/api/v1/me").status_code == 401
        assert live.stop() in (0, -15)  # what was begun is ended, then the signal is passed on
        assert '"event": "stop"' in live.log
        assert "income" not in live.log
        assert token not in live.log
    finally:
        live.process.kill()


def test_the_log_is_verified_in_place_and_hides_the_stored_answers(live, tokens):
    with live.http(tokens["analyst"]) as client:
        path, body = question(77)
        client.post(path, json=body)
    with live.http(tokens["auditor"]) as auditor:
        assert auditor.get("/api/v1/log/check").json()["holds"] is True
        entries = auditor.get("/api/v1/log?last=1000").json()
        assert {each["kind"] for each in entries} >= {"charge", "settle"}
        assert not any(each["body"] for each in entries if each["kind"] == "settle")
        page = auditor.get("/audit").text
        assert "The chain holds." in page


def test_an_auditor_finds_a_question_by_filters_and_takes_the_log_along(live, tokens):
    # Who asks and what is asked are this test's alone: other tests share the log, and the refusals of an hour are counted.
    first, second = 7_001_415_926, 7_002_535_897
    with live.http(live.book.add("sought", "analyst")) as client:
        for number in (first, second):
            path, body = question(number)
            client.post(path, json=body)
        client.post(path, json=body | {"epsilon": 100_000.0})
    with live.http(tokens["auditor"]) as auditor:
        one = auditor.get("/audit", params={"text": str(second)}).text
        texts = re.findall(r'data-name="Text"><code>([^<]*)</code>', one)
        assert texts
        assert all(str(second) in each for each in texts)
        assert "Nothing is found" in auditor.get("/audit?analyst=nobody").text
        answered = auditor.get("/api/v1/log/questions?state=answered&most=1").json()
        assert (len(answered["rows"]), answered["rows"][0]["state"]) == (1, "answered")
        following = auditor.get(
            f"/api/v1/log/questions?state=answered&most=1&before={answered['older']}"
        ).json()
        assert following["rows"][0]["seq"] < answered["rows"][0]["seq"]
        own = auditor.get("/api/v1/log/questions?analyst=sought").json()["rows"]
        assert [each["state"] for each in own] == ["refused", "answered", "answered"]
        lines = auditor.get(f"/audit/log.jsonl?text={first}").text.splitlines()
        assert [json.loads(each)["state"] for each in lines] == ["answered"]
        assert auditor.get("/audit/log.csv").text.startswith("seq,at,state,")
        chain = [json.loads(each) for each in auditor.get("/audit/entries.jsonl").text.splitlines()]
        assert all(after["previous"] == before["hash"] for before, after in itertools.pairwise(chain))
        head = chain[-1]["hash"]
        assert "holds the head you kept" in auditor.get(f"/audit?expects={head}").text
        assert "The chain is broken" in auditor.get(f"/audit?expects={'0' * 63}1").text
        assert auditor.get("/audit/other.csv").status_code == 404
        assert auditor.get("/audit?since=yesterday").status_code == 400
        assert auditor.get("/audit?before=-1").status_code == 422


def test_openapi_describes_what_happens(live, tokens):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    import hypothesis

    headers = {"authorization": f"Bearer {tokens['analyst']}"}
    described = schemathesis.openapi.from_url(f"{live.url}/api/v1/openapi.json")
    checked = set()

    for found in described.get_all_operations():
        operation = found.ok()

        @hypothesis.settings(
            max_examples=5, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
        )
        @hypothesis.given(case=operation.as_strategy())
        def fits(case):
            got = case.call(base_url=live.url, headers=headers)
            case.validate_response(
                got,
                checks=[
                    schemathesis.checks.not_a_server_error,
                    schemathesis.checks.status_code_conformance,
                    schemathesis.checks.response_schema_conformance,
                    schemathesis.checks.content_type_conformance,
                ],
            )

        fits()
        checked.add(operation.path)
    assert checked == {way.path for way in WAYS if way.is_api}


OPERATIONS = (
    "access answers ask ask_table budget check cost create_user dataset datasets decide disable_user entries health list_users live me "
    "publish_cancel publish_compare publish_confirm publish_file publish_job publish_jobs publish_plan publish_remove "
    "publish_run publish_upload questions ready release release_job release_cancel release_rows releases rotate_token "
    "set_access spending start_release wish wishes"
)


def test_every_operation_has_a_name_that_stays_and_a_typed_answer(live):
    described = httpx.get(f"{live.url}/api/v1/openapi.json").json()
    operations = [each for path in described["paths"].values() for each in path.values()]
    assert set(OPERATIONS.split()) <= {each["operationId"] for each in operations}  # others may join
    assert len({each["operationId"] for each in operations}) == len(operations)
    models = described["components"]["schemas"]
    for each in operations:
        if each["operationId"] in ("publish_file", "release_rows"):
            assert "text/csv" in each["responses"]["200"]["content"]
            continue
        schema = each["responses"]["200"]["content"]["application/json"]["schema"]
        named = schema.get("items", schema)["$ref"].rpartition("/")[2]
        assert models[named]["properties"], each["operationId"]
    keyed = {each["operationId"] for each in operations if "Idempotency-Key" in json.dumps(each)}
    assert keyed >= {"ask", "release", "wish", "decide", "create_user", "publish_upload", "publish_run"}
    assert "cost" not in keyed


def test_the_ledger_of_all_this_verifies(live):
    ledger = Ledger(live.folder / "ledger.db")
    assert ledger.verify().holds
    ledger.close()
    assert isinstance(httpx.get(f"{live.url}/health").json()["version"], str)


def test_slots_and_a_least_epsilon_are_on_by_default():
    from shoal.server.config import Config

    assert (Config().slot_seconds, Config().least_epsilon) == (0.1, 0.001)
