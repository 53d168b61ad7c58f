"""Publishing over the API: upload, plan, run, progress, cancel, result, download."""

from __future__ import annotations

import time
import uuid

import pytest

from shoal.datasets import DATASETS

SURVEY = DATASETS["survey"].path


def upload(client, **headers):
    files = {
        "table": ("survey.csv", SURVEY.read_bytes()),
        "codebook": ("survey.toml", SURVEY.with_suffix(".toml").read_bytes()),
    }
    told = client.post("/api/v1/publish", files=files, headers=headers)
    assert told.status_code == 200, told.text
    return told.json()


def ended(client, job, state="running"):
    for _ in range(2400):
        facts = client.get(f"/api/v1/publish/{job}").json()
        if facts["state"] != state:
            return facts
        time.sleep(0.1)
    raise AssertionError(facts)


@pytest.fixture
def owner(live, tokens):
    with live.http(tokens["owner"]) as client:
        yield client


def test_a_table_goes_in_and_its_protected_copy_comes_out(owner):
    key = str(uuid.uuid4())
    made = upload(owner, **{"idempotency-key": key})
    assert upload(owner, **{"idempotency-key": key})["job"] == made["job"]  # sent again, taken in once
    job, at = made["job"], f"/api/v1/publish/{made['job']}"
    assert (made["state"], made["rows"], made["result"], made["files"]) == ("ready", 1012, None, [])
    columns = {each["name"]: each for each in made["columns"]}
    assert columns["age"]["samples"]
    wish = {"columns": {"age": {"role": "quasi"}}, "settings": {"k": 4, "method": "mdav"}}
    plan = owner.post(f"{at}/plan", json=wish).json()
    assert plan["columns"]["age"]["role"] == "quasi"
    assert "--method mdav" in plan["command"]
    assert "-k 4" in plan["command"]
    assert owner.get(at).json()["state"] == "ready"  # nothing was begun
    begun = owner.post(f"{at}/run", json=wish).json()
    assert begun["state"] in ("running", "done")
    done = ended(owner, job)
    assert (done["state"], done["error"]) == ("done", "")
    assert done["steps"][0]["stage"] == "reading the table"
    assert done["result"]["figures"]["smallest_group"] >= 4
    if done["confirm"]:
        assert done["files"] == []
        assert owner.get(f"{at}/files/protected.csv").status_code == 403
        assert owner.post(f"{at}/confirm", json={"red": "no"}).status_code in (400, 422)
        done = owner.post(f"{at}/confirm", json=done["confirm"]).json()
    assert "protected.csv" in done["files"]
    got = owner.get(f"{at}/files/protected.csv")
    assert len(got.text.splitlines()) == 1013
    assert got.text.startswith("age,sex,region,")
    assert job in [each["job"] for each in owner.get("/api/v1/publish").json()]
    assert owner.delete(at).json() == {"job": job, "state": "removed"}
    assert owner.get(at).status_code == 404


def test_work_is_cancelled_and_wrong_wishes_are_refused(owner, live, tokens):
    job = upload(owner)["job"]
    at = f"/api/v1/publish/{job}"
    for wrong in (
        {"settings": {"nothing": 1}},
        {"settings": {"k": 1}},
        {"settings": {"accept_risk": True}},
        {"columns": {"nothere": {"role": "quasi"}}},
        {"columns": {"age": {"role": "king"}}},
        {"more": 1},
    ):
        assert owner.post(f"{at}/run", json=wrong).status_code in (400, 422), wrong
    slow = {"settings": {"k": 3, "method": "anneal", "time_limit": 120}}
    assert owner.post(f"{at}/run", json=slow).json()["state"] == "running"
    assert owner.post(f"{at}/run", json=slow).status_code == 400  # one piece of work at a time
    stopped = owner.post(f"{at}/cancel").json()
    assert (stopped["state"], stopped["result"]) == ("ready", None)
    assert "Cancelled" in stopped["error"]
    assert owner.get(f"{at}/files/protected.csv").status_code == 404
    with live.http(tokens["analyst"]) as analyst:
        assert analyst.get(at).status_code == 403
    other = live.book.add("another-owner", "owner")
    with live.http(other) as stranger:
        assert stranger.get(at).status_code == 404
        stranger.delete(at)
    assert owner.delete(at).status_code == 200
    assert owner.post("/api/v1/publish", files={"table": ("x.exe", b"MZ")}).status_code == 400


def test_hierarchies_come_as_files_and_are_climbed(owner):
    table = "region,age\n" + "".join(f"{'abcd'[i % 4]},{20 + i % 7}\n" for i in range(80))
    levels = "a;ab;*\nb;ab;*\nc;cd;*\nd;cd;*\n"
    parts = [("table", ("t.csv", table)), ("hierarchies", ("region.csv", levels))]
    made = owner.post("/api/v1/publish", files=parts).json()
    at = f"/api/v1/publish/{made['job']}"
    assert made["state"] == "ready", made
    assert {each["name"]: each["hierarchy"] for each in made["columns"]} == {"region": True, "age": False}
    wish = {
        "columns": {"region": {"role": "quasi", "kind": "category"}, "age": {"role": "leave"}},
        "settings": {"k": 30, "method": "generalize"},
    }
    assert owner.post(f"{at}/run", json=wish).status_code == 200
    done = ended(owner, made["job"])
    assert (done["state"], done["error"]) == ("done", "")
    assert "--hierarchies hierarchies" in done["result"]["command"]
    if done["confirm"]:
        done = owner.post(f"{at}/confirm", json=done["confirm"]).json()
    rows = owner.get(f"{at}/files/protected.csv").text.splitlines()[1:]
    assert {row.split(",")[0] for row in rows} == {"ab", "cd"}  # named as the file names them
    owner.delete(at)
    for name in ("../up.csv", ".hidden.csv", "region.txt"):
        told = owner.post("/api/v1/publish", files=[parts[0], ("hierarchies", (name, levels))])
        assert told.status_code in ((200, 400) if name.startswith("..") else (400,)), name
    broken = owner.post("/api/v1/publish", files=[parts[0], ("hierarchies", ("region.csv", "a;b\na;c\n"))])
    assert broken.json()["state"] == "refused"
