"""Owners add and change data sets while the server runs, and every worker sees it."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time

import pytest

from shoal.errors import ParameterError
from shoal.server.config import Config
from shoal.server.dataset_files import DatasetFiles
from shoal.server.service import Service

from .conftest import LiveServer

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
    live = LiveServer(folder, 'data_folders = ["shelf"]', workers=2).start()
    live.owner, live.ann = live.book.add("olga", "owner"), live.book.add("ann", "analyst")
    yield live
    live.stop()


def begin(owner, text=TABLE, name="pets.csv"):
    done = owner.post("/owner/datasets", files={"table": (name, text)})
    assert done.status_code == 200, done.text
    return done, done.url.path.rpartition("/")[2]


def wait_until(happened, seconds=120.0):
    """Wait for what will happen, however slow the machine is."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def status(got):
    return got.status_code


def settled(live, dataset, read, in_a_row=12):
    """What both workers say at last: the same so often in a row, each time on a connection of its own."""
    seen = []

    def again():
        with live.http(live.ann) as client:  # goes to any worker
            seen.append(read(client.get(f"/api/v1/datasets/{dataset}")))
        return len(seen) >= in_a_row and len(set(seen[-in_a_row:])) == 1

    def status_is(wanted):
        wait_until(lambda: again() and seen[-1] == wanted)

    return status_is


def test_a_data_set_is_added_looked_at_changed_and_taken_out(growing):
    with growing.signed_in(growing.owner) as owner:
        page, draft = begin(owner)
        assert re.search(r'aria-label="Kind of kind".*?value="category" selected', page.text, re.DOTALL)
        assert "<span>cat</span><span>dog</span>" in page.text  # samples, for the owner
        assert (
            'aria-label="Levels of kind" rows="3" spellcheck="false"></textarea>' in page.text
        )  # none from the rows
        assert 'kind = "category"' in owner.get(f"/owner/drafts/{draft}?written=true").text.replace(
            "&#34;", '"'
        )
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
    settled(growing, "pets", status)(200)
    with growing.http(growing.ann) as client:
        body = {"sql": "SELECT COUNT(*) FROM t", "epsilon": 5.0}
        for _ in range(3):
            assert client.post("/api/v1/datasets/pets/ask", json=body).status_code == 200
    with growing.signed_in(growing.owner) as owner:
        edit = owner.get("/owner/datasets/pets")
        assert "Versions of pets" in edit.text
        draft = edit.text.split('action="/owner/drafts/')[1].split('"')[0]
        again = FORM | {"schema": SCHEMA.replace("[0, 30]", "[0, 5]"), "decision": "save"}
        more = owner.post(f"/owner/drafts/{draft}", data=again | {"budget": "1000"})
        assert "raise it on its page" in more.text
        owner.post(f"/owner/drafts/{draft}", data=again)
    settled(growing, "pets", lambda got: tuple(got.json()["columns"][1]["bounds"]))((0, 5))
    with growing.http(growing.ann) as client:
        assert client.get("/api/v1/datasets/pets/budget").json()["spent"] == 5.0
    assert DatasetFiles(growing.folder / "datasets").versions("pets")[0].number == 2
    with growing.signed_in(growing.owner) as owner:
        assert "Type the name" in owner.post("/owner/datasets/pets/take-out", data={"sure": "x"}).text
        owner.post("/owner/datasets/pets/take-out", data={"sure": "pets"})
    settled(growing, "pets", status)(404)
    auditor = growing.book.add("aud", "auditor")
    with growing.http(auditor) as client:
        rows = client.get("/api/v1/log/questions", params={"state": "changes by owners"}).json()["rows"]
        texts = [each["text"] for each in rows]
        assert sum("pets, version" in each for each in texts) == 2
        assert "data set taken out: pets" in texts
        assert client.get("/api/v1/log/check").json()["holds"]


def test_questions_go_on_while_their_data_set_is_changed_taken_out_and_brought_back(growing):
    """Each is answered and charged, or told that there is no such data set; one budget covers all that happened."""
    form = FORM | {"schema": SCHEMA.replace('"pets"', '"fish"'), "budget": "100", "per_analyst": "40"}
    over, seen = threading.Event(), []

    def keep_asking(token, place):
        with growing.http(token) as client:
            for number in itertools.count():
                if over.is_set():
                    return
                sql = f"SELECT COUNT(*) FROM t WHERE age < {place + number / 1000}"
                asked = client.post("/api/v1/datasets/fish/ask", json={"sql": sql, "epsilon": 0.01})
                seen.append((asked.status_code, asked.text))

    def save(owner, draft, **facts):
        assert (
            owner.post(f"/owner/drafts/{draft}", data=form | facts | {"decision": "save"}).url.path
            == "/owner"
        )

    with growing.signed_in(growing.owner) as owner:
        save(owner, begin(owner)[1])
        settled(growing, "fish", status)(200)
        tokens = [growing.book.add(f"fisher{each}", "analyst") for each in range(3)]
        askers = [
            threading.Thread(target=keep_asking, args=each) for each in zip(tokens, (1, 4, 8), strict=True)
        ]
        for each in askers:
            each.start()
        try:
            for bounds in ("[0, 20]", "[0, 25]"):
                page = owner.get("/owner/datasets/fish").text
                draft = page.split('action="/owner/drafts/')[1].split('"')[0]
                save(owner, draft, schema=form["schema"].replace("[0, 30]", bounds))
                wanted = (0, int(bounds[4:6]))
                settled(growing, "fish", lambda got: tuple(got.json()["columns"][1]["bounds"]))(wanted)
            owner.post("/owner/datasets/fish/take-out", data={"sure": "fish"})
            settled(growing, "fish", status)(404)
            wait_until(lambda: {each for each, _ in seen[-12:]} == {404})
            save(owner, begin(owner, TABLE.replace("dog", "cat"))[1])
            settled(growing, "fish", status)(200)
            wait_until(lambda: {each for each, _ in seen[-12:]} == {200})
        finally:
            over.set()
            for each in askers:
                each.join()
    statuses = [status for status, _ in seen]
    assert set(statuses) == {200, 404}, [text for status, text in seen if status not in (200, 404)][:1]
    assert statuses[:3] == statuses[-3:] == [200] * 3
    with growing.http(growing.owner) as owner:
        spent = owner.get("/api/v1/datasets/fish/spending").json()
        assert spent["spent"] == pytest.approx(0.01 * statuses.count(200))
    with growing.http(growing.book.add("fish-aud", "auditor")) as auditor:
        assert auditor.get("/api/v1/log/check").json()["holds"]


@pytest.mark.parametrize("harm", ["no table", "no facts", "no schema", "a folder"])
def test_a_data_set_that_cannot_be_read_stays_as_it_was_and_stops_nobody(tmp_path, harm):
    """Once a second somebody was told of it, with the server's path, whatever data set they asked."""
    config = config_of(tmp_path)
    files = DatasetFiles(tmp_path / "datasets")
    files.save(files.draft(tmp_path / "pets.csv", ".csv"), SCHEMA, {"modes": ["dp"], "budget": 5.0})
    service = Service(config)
    place = files.folder / "pets"
    (place / {"no table": "table-1.csv", "no schema": "schema-1.toml"}.get(harm, "dataset.toml")).unlink()
    if harm == "a folder":
        (place / "dataset.toml").mkdir()
    if harm == "no facts":
        (place / "dataset.toml").write_text("modes = [")
    files._changed()
    assert service.is_stale()
    service.reload()
    assert sorted(service.datasets) == ["cats", "pets"]
    assert service.ask("pets", "SELECT COUNT(*) FROM t", 1.0, None, "ann").epsilon == 1.0
    service.close()
    again = Service(config)
    assert list(again.datasets) == ["cats"]
    again.close()


@pytest.mark.parametrize("name", ["drafts", "revision"])
def test_a_data_set_is_not_called_like_a_file_of_the_folder(tmp_path, name):
    (tmp_path / "pets.csv").write_text(TABLE)
    files = DatasetFiles(tmp_path / "datasets")
    draft = files.draft(tmp_path / "pets.csv", ".csv")
    with pytest.raises(ParameterError, match="not 'drafts'"):
        files.save(draft, SCHEMA.replace('"pets"', f'"{name}"'), {"modes": ["dp"], "budget": 5.0})


def config_of(folder):
    """A configuration with one data set, `cats`, and a folder for others."""
    (folder / "pets.csv").write_text(TABLE)
    (folder / "cats.toml").write_text(SCHEMA.replace('"pets"', '"cats"'))
    (folder / "shoal.toml").write_text(
        '[server]\nledger = "ledger.db"\nslot_seconds = 0\n'
        '[datasets.cats]\nfile = "pets.csv"\nschema = "cats.toml"\nbudget = 5.0\n'
    )
    return Config.from_toml(folder / "shoal.toml")


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


FIELDS = {
    "id": "cats", "unit": "", "rows": "1", "private": "yes", "modes": "dp", "budget": "10",
    "kind-0": "category", "role-0": "quasi", "levels-0": "cat\ndog\ncat\n", "source-0": "knowledge",
    "kind-1": "number", "role-1": "quasi", "low-1": "0", "high-1": "30.5", "step-1": "0.5", "source-1": "codebook",
}  # fmt: skip


def test_a_schema_is_stated_by_fields_and_says_where_its_bounds_come_from(growing):
    with growing.signed_in(growing.owner) as owner:
        _, draft = begin(owner)
        at = f"/owner/drafts/{draft}"
        for change, said in (
            ({"source-1": ""}, "State where the bounds or levels of &#39;age&#39; come from"),
            ({"source-0": "table"}, "must not come from its rows"),
            ({"high-1": ""}, "both bounds"),
            ({"low-1": "x"}, "must be a number"),
            ({"low-1": "31"}, "bounds"),
            ({"step-1": "-1"}, "step"),
            ({"kind-0": "king"}, "kind and a role"),
            ({"unit": "kind", "rows": "0"}, "at least 1"),
            ({"id": "a/b"}, "letters, digits"),
        ):
            told = owner.post(at, data=FIELDS | change | {"decision": "save"})
            assert told.status_code in (400, 422), change
            assert said in told.text, (change, told.text)
            assert 'aria-label="Highest age"' in told.text  # the form comes back as it was typed
        looked = owner.post(at, data=FIELDS | {"decision": "look"})
        assert "This can be saved" in looked.text
        again = owner.get(at).text  # what was looked at is what the draft holds now
        assert 'aria-label="Highest age" value="30.5"' in again
        saved = owner.post(at, data=FIELDS | {"decision": "save"})
        assert saved.url.path == "/owner"
        (schema,) = (growing.folder / "datasets" / "cats").glob("schema-1.toml")
        text = schema.read_text()
        assert 'reason = "bounds and levels from a codebook"' in text
        assert 'levels = ["cat", "dog"]' in text
    settled(growing, "cats", status)(200)
    with growing.http(growing.ann) as client:
        kind, age = client.get("/api/v1/datasets/cats").json()["columns"]
        assert (kind["levels"], age["bounds"], age["step"]) == (["cat", "dog"], [0, 30.5], 0.5)
        assert "reason" not in age
    with growing.signed_in(growing.owner) as owner:
        _, draft = begin(owner)
        only = FIELDS | {"id": "fewer", "kind-1": "", "decision": "save"}  # a column that is not offered
        assert owner.post(f"/owner/drafts/{draft}", data=only).url.path == "/owner"
    settled(growing, "fewer", status)(200)
    with growing.http(growing.ann) as client:
        assert [each["name"] for each in client.get("/api/v1/datasets/fewer").json()["columns"]] == ["kind"]


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 20_000,
        "a." * 5_000 + "b = 1",
        SCHEMA.replace("30", "9" * 5_000),
        SCHEMA.replace("30", "9" * 400),
        SCHEMA.replace("30", "inf"),
        SCHEMA.replace("[0, 30]", "[nan, 1]"),
        SCHEMA.replace("[0, 30]", "[1979-05-27T07:32:00Z, 9999-12-31]"),
        SCHEMA.replace('"pets"', '["pets"]'),
        SCHEMA.replace('"pets"', '"\\u0000"'),
        SCHEMA.replace('"pets"', '".."'),
        SCHEMA.replace('"pets"', f'"{"x" * 5_000}"'),
    ],
)  # fmt: skip
def test_a_hostile_schema_is_one_sentence_and_the_draft_lives(growing, text):
    with growing.signed_in(growing.owner) as owner:
        _, draft = begin(owner)
        told = owner.post(f"/owner/drafts/{draft}", data=FORM | {"schema": text, "decision": "save"})
        assert told.status_code in (400, 422)
        assert 'role="alert"' in told.text
        looked = owner.post(f"/owner/drafts/{draft}", data=FORM | {"decision": "look"})
        assert "This can be saved" in looked.text


def test_a_codebook_fills_the_fields(growing):
    with growing.signed_in(growing.owner) as owner:
        files = {"table": ("pets.csv", TABLE), "codebook": ("pets.toml", SCHEMA)}
        page = owner.post("/owner/datasets", files=files).text
        assert 'aria-label="Highest age" value="30"' in page
        assert ">cat\ndog</textarea>" in page
        assert re.search(r'come from"><option value="">.*?value="codebook" selected', page)
        files["codebook"] = ("pets.exe", b"MZ")
        assert owner.post("/owner/datasets", files=files).status_code in (400, 422)


def test_drafts_are_removed_by_the_clock(tmp_path):
    files = DatasetFiles(tmp_path)
    (tmp_path / "pets.csv").write_text(TABLE)
    old, new = (files.draft(tmp_path / "pets.csv", ".csv") for _ in range(2))
    files.sweep()
    assert files.table(old).is_file()
    os.utime(tmp_path / "drafts" / old, (0, 0))
    files.sweep()
    assert not (tmp_path / "drafts" / old).exists()
    assert files.table(new).is_file()
