"""What HTTP asks for, and what a client is told when something is wrong."""

from __future__ import annotations

import datetime
import re
import socket
from urllib.parse import quote

import httpx
import pytest

from shoal import Client
from shoal.errors import InputError

from .conftest import LiveServer


def test_head_is_get_without_its_body(live, tokens):
    with live.http(tokens["analyst"]) as client:
        for path in ("/health", "/api/v1/datasets", "/ask/survey", "/static/shoal.css"):
            got = client.head(path)
            assert got.status_code == 200, path
            assert got.content == b""
        for method in ("HEAD", "GET"):  # nothing is asked by it
            told = client.request(method, "/api/v1/datasets/survey/ask")
            assert (told.status_code, told.headers["allow"]) == (405, "POST")
        assert client.get("/api/v1/datasets/nowhere").status_code == 404


def test_two_hosts_are_refused(live):
    with socket.create_connection(("127.0.0.1", live.port), timeout=30) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 400")


def test_a_body_that_is_no_json_is_told_where_as_problem_details(live, tokens):
    with live.http(tokens["analyst"]) as client:
        got = client.post(
            "/api/v1/datasets/survey/ask", content=b'{"sql": ', headers={"content-type": "application/json"}
        )
    assert got.status_code == 422
    assert got.headers["content-type"] == "application/problem+json"
    assert got.json()["detail"].startswith("The body must be JSON. At character 8")
    assert got.json()["status"] == 422


def test_an_id_may_hold_what_addresses_are_made_of(tmp_path):
    name = 'a/b?c#d"e %'
    live = LiveServer(tmp_path / "h", datasets={"survey": (10.0, 10.0)})
    path = live.path.read_text().replace("[datasets.survey]", "[datasets.'" + name + "']")
    live.path.write_text(path)
    schema = live.folder / "survey.toml"
    schema.write_text(schema.read_text().replace('id = "survey"', "id = '" + name + "'"))
    live.start()
    try:
        token = live.book.add("ann", "analyst")
        with Client(live.url, token, name) as client:
            entry = client.ask("SELECT COUNT(*) FROM t", 0.5).entry
            assert client.answers()[0]["entry"] == entry
        with live.signed_in(token) as browser:
            page = browser.get("/ask").text  # straight on
            link = page.split('<form method="post" action="')[2].split('"')[0]
            assert browser.get(f"{link}/answers/{entry}").status_code == 200
            assert browser.get(f"{link}/answers/{entry}.csv").status_code == 200
            assert browser.get(f"{link}/words").status_code == 200
        with live.signed_in(live.book.add("olga", "owner")) as owner:
            page = owner.get("/owner").text
            # What was spent today is the pace of a day: of 10, half of 1 a day is left for 19 days.
            day = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=19)
            assert f"At the pace of the last week the budget is used up on {day}." in page
            links = set(re.findall(r'href="(/owner/(?:access|streams)/[^"]*)"', page))
            assert len(links) == 2
            assert {owner.get(each).status_code for each in links} == {200}
            access = owner.get(next(each for each in links if "access" in each)).text
            forms = re.findall(r'action="(/owner/access/[^"]*)"', access)
            assert forms
            assert all(each.startswith(f"/owner/access/{quote(name, safe='')}") for each in forms)
    finally:
        live.stop()


def test_the_client_retries_and_says_what_is_wrong(monkeypatch):
    seen = []

    def answer(request):
        seen.append(request)
        return httpx.Response(503 if len(seen) < 3 else 200, json={"remaining": 2.0})

    client = Client("http://h", "shoal-x", "a/b")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    client._http = httpx.Client(base_url="http://h/api/v1", transport=httpx.MockTransport(answer))
    assert client.remaining() == 2.0
    assert len(seen) == 3
    assert seen[0].url.raw_path == b"/api/v1/datasets/a%2Fb/budget"

    def untrusted(request):
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")

    client._http = httpx.Client(base_url="http://h/api/v1", transport=httpx.MockTransport(untrusted))
    with pytest.raises(InputError, match="certificate is not trusted"):
        client.remaining()
    with pytest.raises(InputError, match="file of certificates"):
        Client("https://h", "shoal-x", verify="/nowhere.pem")
