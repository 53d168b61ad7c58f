"""Private tables as jobs: bought in the background, charged once, rows and answers for nothing, for nobody else."""

from __future__ import annotations

import io
import os
import time
from types import SimpleNamespace

import polars as pl
import pytest

from shoal import Client
from shoal.errors import ShoalError
from shoal.release.marginals import MEASURING
from shoal.schema import Column
from shoal.server import releases, tables
from shoal.server.job_files import JobState, change
from shoal.server.jobs import Jobs

RELEASES = "/api/v1/datasets/survey/releases"
WANTED = {"epsilon": 40.0, "columns": ["age", "sex", "disease"], "marginals": 2}


def finished(client, job: str) -> dict:
    for _ in range(600):
        facts = client.get(f"{RELEASES}/jobs/{job}").json()
        if facts["state"] != "running":
            return facts
        time.sleep(0.1)
    raise AssertionError(facts)


def spent(client) -> float:
    return client.get("/api/v1/datasets/survey/budget").json()["spent"]


@pytest.fixture(scope="module")
def bought(live):
    """A client of an analyst who bought a table, its entry, and what stood in the budget before."""
    with live.http(live.book.add("buyer", "analyst")) as client:
        before = spent(client)
        begun = client.post(f"{RELEASES}/jobs", json=WANTED)
        assert begun.status_code == 200, begun.text
        facts = finished(client, begun.json()["job"])
        assert (facts["state"], facts["error"]) == ("done", "")
        assert facts["steps"] == ["waiting for its turn", "measuring, after the charge", "drawing rows"]
        yield client, facts["entry"], before


def test_a_job_buys_a_table_for_one_charge(bought):
    client, entry, before = bought
    assert spent(client) == before + 40
    assert [each["entry"] for each in client.get(RELEASES).json()] == [entry]
    again = finished(client, client.post(f"{RELEASES}/jobs", json=WANTED).json()["job"])
    assert again["entry"] == entry  # the same table again
    assert spent(client) == before + 40


def test_its_rows_are_the_same_each_time_and_as_many_as_asked(bought):
    client, entry, _ = bought
    first, second = (client.get(f"{RELEASES}/{entry}/rows?rows=50") for _ in range(2))
    assert first.headers["content-type"].startswith("text/csv")
    assert first.text == second.text
    rows = pl.read_csv(io.StringIO(first.text))
    assert (rows.columns, rows.height) == (["age", "sex", "disease"], 50)
    sync = client.post(RELEASES, json=WANTED | {"rows": 50}).json()[
        "csv"
    ]  # held already: free, the same rows
    assert sync == first.text
    assert client.get(f"{RELEASES}/{entry}/rows?rows=0").status_code == 422


def test_questions_to_it_are_free_and_say_what_they_know(bought):
    client, entry, before = bought
    asked = {"sql": "SELECT COUNT(*) FROM t WHERE sex = 'female' AND age >= 50"}
    answer = client.post(f"{RELEASES}/{entry}/ask", json=asked).json()
    assert answer["epsilon"] == 0
    assert answer["entry"] == entry
    low, high = answer["interval"]
    assert low <= answer["value"] <= high
    joint = "SELECT COUNT(*) FROM t WHERE sex = 'female' AND age >= 50 AND disease <> 'none'"
    modelled = client.post(f"{RELEASES}/{entry}/ask", json={"sql": joint}).json()
    assert modelled["interval"] is None
    assert any("model" in note for note in modelled["notes"])
    wrong = client.post(f"{RELEASES}/{entry}/ask", json={"sql": "SELECT MAX(age) FROM t"})
    assert (wrong.status_code, wrong.json()["error"]) == (
        400,
        "A release answers COUNT, SUM and AVG. Got MAX.",
    )
    assert spent(client) == before + 40


def test_nobody_else_sees_the_job_the_rows_or_the_answers(bought, live):
    client, entry, _ = bought
    job = client.post(f"{RELEASES}/jobs", json=WANTED).json()["job"]
    with live.http(live.book.add("stranger", "analyst")) as other:
        assert other.get(RELEASES).json() == []
        for path in (f"{RELEASES}/jobs/{job}", f"{RELEASES}/{entry}/rows", f"/ask/survey/tables/{entry}"):
            assert other.get(path).status_code == 404
        question = {"sql": "SELECT COUNT(*) FROM t"}
        assert other.post(f"{RELEASES}/{entry}/ask", json=question).status_code == 404
    finished(client, job)
    # nor is it found under another data set
    assert client.get(f"/api/v1/datasets/last/releases/jobs/{job}").status_code == 404
    assert client.get(f"/api/v1/datasets/last/releases/{entry}/rows").status_code == 404


def test_each_mistake_is_one_sentence_before_any_charge(live, tokens):
    with live.http(tokens["analyst"]) as client:
        before = spent(client)
        for wrong, status in (
            ({"epsilon": 1.0, "columns": ["nothing"]}, 400),
            ({"epsilon": 1.0, "marginals": 9}, 400),
            ({"epsilon": 1.0, "bins": "hexes"}, 400),
            ({"epsilon": 0.00001}, 400),
            ({"epsilon": -1.0}, 422),
        ):
            done = client.post(f"{RELEASES}/jobs", json=wrong)
            assert done.status_code == status, (wrong, done.text)
            assert done.json()["error"].endswith(".")
        assert spent(client) == before
    with live.http(tokens["owner"]) as client:
        assert client.post(f"{RELEASES}/jobs", json={"epsilon": 1.0}).status_code == 403


def test_what_the_budget_refuses_is_said_by_the_job(live, tokens):
    with live.http(tokens["analyst"]) as client:
        where = "/api/v1/datasets/gone/releases/jobs"
        job = client.post(where, json={"epsilon": 5.0, "columns": ["sex"]}).json()["job"]
        for _ in range(600):
            facts = client.get(f"{where}/{job}").json()
            if facts["state"] != "running":
                break
            time.sleep(0.1)
        assert facts["state"] == "refused"
        assert "budget" in facts["error"].lower() or "left" in facts["error"].lower()
        assert facts["entry"] is None


def test_the_client_buys_waits_and_asks(live):
    with Client(live.url, live.book.add("pythonista", "analyst"), dataset="survey") as client:
        table = client.release(20.0, columns=["age", "sex"], marginals=2)
        assert table["epsilon"] == 20
        assert client.rows(table["entry"], 30).height == 30
        assert client.ask_release(table["entry"], "SELECT COUNT(*) FROM t WHERE sex = 'male'").epsilon == 0
        assert client.releases() == [table]
        with pytest.raises(ShoalError, match="no such table"):
            client.rows("0" * 16)
        with pytest.raises(ShoalError, match=r"^'marginals' of all columns"):
            client.release(20.0, columns=["age", "sex"], marginals=3)


def test_what_broke_inside_is_noted_without_any_value(monkeypatch, caplog, tmp_path):
    from shoal.server import tables

    def broken(*_):
        raise ValueError("cell 'Ann Example'")

    (tmp_path / "job.json").write_text('{"state": "running"}', encoding="utf-8")
    monkeypatch.setattr(tables.releases, "release", broken)
    tables._make(None, "survey", {}, "ann", tmp_path)
    told = (tmp_path / "job.json").read_text(encoding="utf-8")
    assert "ValueError" in told
    assert "ValueError" in caplog.text
    assert "Ann" not in told + caplog.text


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A job, what makes it (told when to go on), and what was charged."""
    job, charged, before = Jobs(tmp_path).new("someone"), [], []

    def release(service, dataset, wanted, who, progress):
        for each in before:
            each()
        progress(MEASURING)
        charged.append(who)
        with pytest.raises(tables.PaidError, match="kept for you"):
            tables.cancel(job)
        progress("drawing rows")
        return SimpleNamespace(entry="0123456789abcdef")

    monkeypatch.setattr(releases, "release", release)
    change(job, state="running", work="release", dataset="survey", pid=os.getpid())
    return job, lambda: tables._make(None, "survey", {}, "someone", job), charged, before


def test_a_job_that_waits_can_be_cancelled_and_is_not_charged(made):
    job, make, charged, _ = made
    tables.cancel(job)
    make()
    tables.cancel(job)  # twice is once
    facts = JobState.read(job)
    assert (facts.state, facts.error, charged) == ("refused", tables.CANCELLED, [])


def test_a_job_is_cancelled_up_to_its_charge(made):
    job, make, charged, before = made
    before.append(lambda: tables.cancel(job))
    make()
    facts = JobState.read(job)
    assert (facts.state, facts.error, charged) == ("refused", tables.CANCELLED, [])


def test_a_charged_job_is_finished(made):
    job, make, charged, _ = made
    make()
    assert (JobState.read(job).state, charged) == ("done", ["someone"])


def test_cancelling_over_http(bought, live):
    client, entry, before = bought
    job = client.post(f"{RELEASES}/jobs", json=WANTED).json()["job"]
    finished(client, job)
    facts = client.post(f"{RELEASES}/jobs/{job}/cancel").json()
    assert (facts["state"], facts["entry"]) == ("done", entry)  # too late, and nothing is lost
    with live.http(live.book.add("curious", "analyst")) as other:
        assert other.post(f"{RELEASES}/jobs/{job}/cancel").status_code == 404
    assert spent(client) == before + 40


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("person", role="quasi", kind="category"), False),  # as a first schema has the unit of privacy
        (Column("place", role="quasi", kind="category", levels=("a", "b")), True),
        (Column("member", role="quasi", kind="boolean"), True),
        (Column("age", role="quasi", kind="number"), False),
        (Column("age", role="quasi", kind="number", bounds=(0, 110)), True),
        (Column("name", role="identifier", kind="category", levels=("a", "b")), False),
    ],
)
def test_the_page_offers_the_columns_that_a_table_can_be_made_of(column, expected):
    assert tables.can_be_released(column) is expected


def test_a_bought_table_stands_among_the_answers_and_leads_to_its_page(bought, live):
    _, entry, _ = bought
    with live.signed_in(live.book.rotate("buyer")) as page:
        listed = page.get("/ask/survey").text
        assert "A private table" in listed
        assert "RELEASE" not in listed
        assert f"?again={entry}" not in listed
        went = page.get(f"/ask/survey/answers/{entry}")
        assert went.url.path == f"/ask/survey/tables/{entry}"
        assert "What was bought" in went.text
