"""What an operator sees: liveness, readiness, metrics, the log; and a proxy in front."""

from __future__ import annotations

import json

import pytest

from shoal.errors import ParameterError
from shoal.server.config import Config

from .conftest import LiveServer, question

SECRET = "a-token-for-the-scraper-only"


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    extra = f'metrics = true\nmetrics_token = "{SECRET}"\ntrusted_proxies = ["127.0.0.0/8"]'
    live = LiveServer(tmp_path_factory.mktemp("watched"), extra).start()
    yield live
    live.stop()


def values(text):
    """Names with labels, and their values; the form is checked on the way."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    found, typed = {}, set()
    for line in lines[:-2]:
        if line.startswith("# TYPE "):
            typed.add(line.split(" ")[2])
        elif not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            family = name.partition("{")[0].removesuffix("_total").removesuffix("_info")
            assert family in typed, line
            found[name] = float(value)
    return found


def test_metrics_are_for_owners_and_the_scraper(watched):
    analyst, owner = watched.book.add("m-ann", "analyst"), watched.book.add("m-olga", "owner")
    with watched.http(analyst) as client:
        path, body = question(1, 0.25)
        assert client.post(path, json=body).status_code == 200
        assert client.get("/metrics").status_code == 403
    with watched.http() as client:
        assert client.get("/metrics", headers={"accept": "application/json"}).status_code in (303, 401)
    for token in (owner, SECRET):
        with watched.http(token) as client:
            told = client.get("/metrics")
            assert told.headers["content-type"].startswith("application/openmetrics-text")
            found = values(told.text)
            assert found['shoal_epsilon_spent{dataset="survey"}'] == 0.25
            assert any('/ask",status="200"' in name for name in found)
            assert "income" not in told.text
            assert "m-ann" not in told.text
    with watched.http(SECRET) as client:
        assert client.get("/api/v1/me").status_code == 401


def test_live_is_apart_from_ready(watched):
    with watched.http() as client:
        assert client.get("/health/live").json() == {"status": "ok"}
        assert client.get("/health/ready").json()["status"] == "ok"
    real, gone = watched.folder / "ledger.db", watched.folder / "ledger.gone"
    real.rename(gone)
    try:
        with watched.http() as client:
            assert client.get("/health/live").status_code == 200
    finally:
        gone.rename(real)


def test_a_trusted_proxy_names_the_client_and_adds_tls(watched):
    through = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
    with watched.http(headers=through) as client:
        page = client.get("/sign-in")
        assert page.headers["strict-transport-security"] == "max-age=31536000"
        cookie = page.headers["set-cookie"]
        assert cookie.startswith("__Host-shoal_form=")
        assert "Secure" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie
        identity = page.headers["x-request-id"]
    with watched.http() as client:
        plain = client.get("/sign-in")
        assert "strict-transport-security" not in plain.headers
        assert plain.headers["set-cookie"].startswith("shoal_form=")
    lines = [json.loads(line) for line in watched.log.splitlines() if line.startswith("{")]
    (line,) = [each for each in lines if each.get("id") == identity]
    assert line["address"] == "203.0.113.9"


def test_an_untrusted_client_cannot_name_another_address(live):
    with live.http(headers={"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}) as client:
        page = client.get("/sign-in")
        assert "strict-transport-security" not in page.headers
        assert client.get("/metrics").status_code == 404
        identity = page.headers["x-request-id"]
    lines = [json.loads(line) for line in live.log.splitlines() if line.startswith("{")]
    assert {each["address"] for each in lines if each.get("id") == identity} == {"127.0.0.1"}


@pytest.mark.parametrize("each", ["proxy.example", "300.1.1.1", ""])
def test_a_proxy_is_an_address(each):
    with pytest.raises(ParameterError, match="trusted_proxies"):
        Config().changed(trusted_proxies=(each,))
