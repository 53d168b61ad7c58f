"""Owners add and change data sets while the server runs, and every worker sees it."""

from __future__ import annotations

import time

import pytest

from shoal.server.dataset_files import DatasetFiles

from .conftest import House

SCHEMA = """[table]
id = "pets"
private = true

[columns.kind]
kind = "category"
levels = ["cat", "dog"]

[columns.age]
kind = "number"
bounds = [0, 30]
"""
TABLE = "kind,age\n" + "cat,3\ndog,7\n" * 400
FORM = {"schema": SCHEMA, "modes": "dp", "budget": "100", "per_analyst": "50", "about": "Pets", "version": ""}


@pytest.fixture(scope="module")
def growing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("growing")
    (folder / "shelf").mkdir()
    (folder / "shelf" / "pets.csv").write_text(TABLE)
    (folder / "else.csv").write_text(TABLE)
    house = House(folder, 'data_folders = ["shelf"]', workers=2).start()
    house.owner, house.ann = house.book.add("olga", "owner"), house.book.add("ann", "analyst")
    yield house
    house.stop()


def begin(owner, text=TABLE, name="pets.csv"):
    done = owner.post("/owner/datasets", files={"table": (name, text)})
    assert done.status_code == 200, done.text
    return done, done.url.path.rpartition("/")[2]


def asked(house, until=10.0, sql="SELECT COUNT(*) FROM t", epsilon=5.0):
    """The same question again and again, so that both workers answer it."""
    end, seen = time.monotonic() + until, []
    while time.monotonic() < end and len(seen) < 12:
        with house.http(house.ann) as client:  # a connection of its own goes to any worker
            seen.append(client.post("/api/v1/datasets/pets/ask", json={"sql": sql, "epsilon": epsilon}))
        time.sleep(0.15)
    return seen


def test_a_data_set_is_added_looked_at_changed_and_taken_out(growing):
    with growing.signed_in(growing.owner) as owner:
        page, draft = begin(owner)
        assert 'kind = "category"' in page.text.replace("&#34;", '"')
        assert "cat, dog" in page.text  # samples, for the owner
        wrong = owner.post(f"/owner/drafts/{draft}", data=FORM | {"schema": "id = 3", "decision": "look"})
        assert wrong.status_code in (400, 422)
        missing = owner.post(
            f"/owner/drafts/{draft}",
            data=FORM | {"schema": SCHEMA.replace("age", "agee"), "decision": "save"},
        )
        assert "agee" in missing.text
        assert "pets" not in owner.get("/owner").text
        looked = owner.post(f"/owner/drafts/{draft}", data=FORM | {"decision": "look"})
        assert "This can be saved" in looked.text
        saved = owner.post(f"/owner/drafts/{draft}", data=FORM | {"decision": "save"})
        assert saved.url.path == "/owner"
        assert "pets" in saved.text
    time.sleep(1.2)
    statuses = {each.status_code for each in asked(growing)}
    assert statuses == {200}, "a worker has not seen it"
    with growing.signed_in(growing.owner) as owner:
        edit = owner.get("/owner/datasets/pets")
        draft = edit.text.split('action="/owner/drafts/')[1].split('"')[0]
        again = FORM | {"schema": SCHEMA.replace("[0, 30]", "[0, 5]"), "decision": "save"}
        more = owner.post(f"/owner/drafts/{draft}", data=again | {"budget": "1000"})
        assert "raise it on its page" in more.text
        owner.post(f"/owner/drafts/{draft}", data=again)
    time.sleep(1.2)
    with growing.http(growing.ann) as client:
        bounds = {str(client.get("/api/v1/datasets/pets").json()["columns"][1]["bounds"]) for _ in range(6)}
        assert bounds in ({"[0, 5]"}, {"[0.0, 5.0]"})
        assert client.get("/api/v1/datasets/pets/budget").json()["spent"] == 5.0
    assert DatasetFiles(growing.folder / "datasets").versions("pets") == [1, 2]
    with growing.signed_in(growing.owner) as owner:
        assert "Type the name" in owner.post("/owner/datasets/pets/take-out", data={"sure": "x"}).text
        owner.post("/owner/datasets/pets/take-out", data={"sure": "pets"})
    time.sleep(1.2)
    assert {each.status_code for each in asked(growing, 3.0)} == {404}
    auditor = growing.book.add("aud", "auditor")
    with growing.http(auditor) as client:
        rows = client.get("/api/v1/log/questions", params={"state": "changes by owners"}).json()["rows"]
        texts = [each["text"] for each in rows]
        assert sum("pets, version" in each for each in texts) == 2
        assert "pets" in texts
        assert client.get("/api/v1/log/check").json()["holds"]


def test_only_owners_and_only_allowed_places(growing):
    with growing.signed_in(growing.ann) as analyst:
        assert analyst.get("/owner/datasets/new").status_code == 403
        assert analyst.post("/owner/datasets", data={"path": "x"}).status_code == 403
    with growing.signed_in(growing.owner) as owner:
        for path in ("else.csv", "shelf/../else.csv", "shelf", "/etc/passwd"):
            told = owner.post("/owner/datasets", data={"path": str(growing.folder / path)})
            assert told.status_code in (400, 422), path
            assert "data_folders" in told.text
        fine = owner.post("/owner/datasets", data={"path": str(growing.folder / "shelf" / "pets.csv")})
        assert "Schema and budget" in fine.text
        told = owner.post("/owner/datasets", files={"table": ("x.exe", "MZ")})
        assert told.status_code in (400, 422)
        assert owner.get("/owner/drafts/zz").status_code in (400, 404, 422)
        assert owner.get("/owner/datasets/survey").status_code in (400, 422)  # of the configuration
        _, draft = begin(owner)
        form = FORM | {"schema": SCHEMA.replace('"pets"', '"survey"'), "decision": "save"}
        assert "declared in the configuration" in owner.post(f"/owner/drafts/{draft}", data=form).text
        for name in ("../up", "a/b", ".hidden", ""):
            form = FORM | {"schema": SCHEMA.replace('"pets"', f'"{name}"'), "decision": "save"}
            assert owner.post(f"/owner/drafts/{draft}", data=form).status_code in (400, 422), name
