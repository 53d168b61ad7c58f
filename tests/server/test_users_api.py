"""Users over the API, and a token that is shown once."""

from __future__ import annotations

import re


def opens(live, token) -> bool:
    """Whether the server lets a token in; the book of this process may be a second old."""
    with live.http(token) as client:
        return client.get("/api/v1/me").status_code == 200


def test_an_owner_makes_renews_and_closes_accounts(live, tokens):
    with live.http(tokens["owner"]) as owner:
        made = owner.post("/api/v1/users", json={"name": "carla", "role": "analyst", "days": 3}).json()
        assert made["active"]
        assert round((made["expires"] - made["created"]) / 86400, 3) == 3
        with live.http(made["token"]) as carla:
            assert carla.get("/api/v1/me").json()["name"] == "carla"
            assert carla.get("/api/v1/users").status_code == 403
        twice = owner.post("/api/v1/users", json={"name": "carla", "role": "analyst"})
        assert twice.status_code in (400, 422)
        for wrong in ({"name": "X Y", "role": "analyst"}, {"name": "x", "role": "king"}, {"name": "x"}):
            assert owner.post("/api/v1/users", json=wrong).status_code in (400, 422)
        renewed = owner.post("/api/v1/users/carla/rotate", json={"days": 5}).json()
        assert not opens(live, made["token"])
        assert live.book.find(renewed["token"]).role == "analyst"
        listed = [each for each in owner.get("/api/v1/users").json() if each["name"] == "carla"]
        assert [each["active"] for each in listed] == [False, True]
        assert not any("token" in each or "hash" in each for each in listed)
        assert owner.delete("/api/v1/users/carla").json()["active"] is False
        assert not opens(live, renewed["token"])
        assert owner.delete("/api/v1/users/carla").status_code == 404
        assert owner.post("/api/v1/users/nobody/rotate", json={}).status_code == 404
        for each in owner.get("/api/v1/users").json():  # other tests share this server
            if each["role"] == "owner" and each["active"] and each["name"] != "the-owner":
                owner.delete(f"/api/v1/users/{each['name']}")
        last = owner.delete("/api/v1/users/the-owner")
        assert last.status_code == 400
        assert "last owner" in last.json()["error"]
    with live.http(tokens["auditor"]) as auditor:
        rows = auditor.get("/api/v1/log/questions", params={"text": "carla"}).json()["rows"]
        assert len(rows) == 3  # added, renewed, revoked


def test_a_page_that_is_loaded_again_shows_no_token_and_adds_nobody(live, tokens):
    with live.signed_in(tokens["owner"]) as browser:
        form = {"name": "dora", "role": "analyst", "days": "30"}
        told = browser.post("/owner/users", data=form, follow_redirects=False)
        assert told.status_code == 303
        page = browser.get(told.headers["location"])
        token = re.search(r'class="token">([^<]+)<', page.text)[1]
        assert live.book.find(token).name == "dora"
        again = browser.get(told.headers["location"])  # a reload is a GET, which repeats nothing
        assert token not in again.text
        assert "was shown" in again.text
        assert token not in browser.get("/owner").text
        assert [each.name for each in live.book.list()].count("dora") == 1
        asked = browser.post("/owner/users/rotate", data={"name": "dora"})
        assert "stops working at once" in asked.text
        page = browser.post("/owner/users/rotate", data={"name": "dora", "sure": "yes"})
        assert not opens(live, token)
        assert live.book.find(re.search(r'class="token">([^<]+)<', page.text)[1]).name == "dora"
