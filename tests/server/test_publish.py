"""The publish page over a real server: upload, run, progress, cancel, download, and files that are no tables."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from fastapi import Request

from shoal import privacy
from shoal.errors import InputError
from shoal.server import accounts as accounts_module
from shoal.server import jobs as jobs_module
from shoal.server.accounts import Accounts
from shoal.server.auth import COOKIE
from shoal.server.job_files import change
from shoal.server.jobs import KEEP_SECONDS, MOST_AT_ONCE, MOST_STREAMS, Jobs, begin_work, tell
from shoal.server.limits import TooOftenError
from shoal.server.refusals import UnknownError

from .conftest import LiveServer

TABLE = "age,income,town,note\n" + "".join(
    f"{20 + i % 40},{1000 + 37 * i},{'ab'[i % 2]},=1+{i}\n" for i in range(60)
)


@pytest.fixture
def owner(live, tokens):
    with live.signed_in(tokens["owner"]) as client:
        yield client


def upload(owner, name: str, data: bytes):
    csrf = owner.headers["x-csrf-token"]
    return owner.post("/publish", data={"csrf": csrf}, files={"table": (name, data, "text/csv")})


def wait(owner, path: str) -> str:
    for _ in range(6000):
        page = owner.get(path).text
        if "Look again" not in page:
            return page
        time.sleep(0.05)
    raise AssertionError("the work does not end")


def test_a_table_is_published_and_the_run_can_be_repeated(owner, live, tokens):
    page = upload(owner, "../../etc/passwd.csv", TABLE.encode())
    path = page.url.path
    assert "The roles are guesses" in page.text
    assert "passwd" not in page.text
    roles = {"role-0": "quasi", "role-1": "quasi", "role-2": "stratum", "role-3": "leave"}
    owner.post(f"{path}/run", data={**roles, "k": "4", "method": "mdav", "escape": "on"})
    with owner.stream("GET", f"{path}/events") as events:
        told = "".join(events.iter_text())
    assert "forming groups of at least 4 with mdav" in told
    assert told.rstrip().endswith("event: end\ndata: {}")
    page = wait(owner, path)
    assert "shoal protect table.csv -k 4 -o protected.csv --method mdav" in page
    assert "shoal.protect(" in page
    assert page.index("Status red") < page.index("smallest group")
    for name in ("protected.csv", "public-report.html", "schema.toml", "report.html?download"):
        assert owner.get(f"{path}/files/{name}").status_code == 403  # red: behind a typed word
    assert owner.get(f"{path}/files/report.html").status_code == 200
    assert "Type &#39;red&#39; to confirm" in owner.post(f"{path}/confirm", data={"red": "yes"}).text
    assert owner.get(f"{path}/files/protected.csv").status_code == 403
    owner.post(f"{path}/confirm", data={"red": "red"})
    protected = pl.read_csv(owner.get(f"{path}/files/protected.csv").content)
    assert privacy.check(protected, ["age", "income", "town"], [], k=4)[0].holds
    assert all(cell.startswith("'=") for cell in protected["note"])
    report = owner.get(f"{path}/files/report.html")
    assert (
        "script" not in report.headers["content-security-policy"]
    )  # nothing may run but by the default, which is none
    for name in ("job.json", "..%2f..%2fledger.db", "table.csv", "wanted.json"):
        assert owner.get(f"{path}/files/{name}").status_code == 404
    other = live.http(live.book.add("other-owner", "owner"))
    assert other.get(path).status_code == 404  # another owner's job
    owner.post(f"{path}/forget")
    assert owner.get(path).status_code == 404


def test_work_can_be_cancelled(owner):
    path = owner.post("/publish", data={"example": "survey"}).url.path
    owner.post(f"{path}/run", data={"method": "anneal", "time_limit": "300", "k": "5"})
    assert "Working" in owner.get(path).text
    page = owner.post(f"{path}/cancel").text
    assert "Cancelled" in page
    assert owner.get(f"{path}/files/protected.csv").status_code == 404


def test_a_job_that_is_begun_many_times_at_once_is_begun_once(owner, live, tokens):
    """Or the others would go on where nobody can cancel them."""
    path = owner.post("/publish", data={"example": "survey"}).url.path
    job = path.rpartition("/")[2]
    wish = {"settings": {"method": "anneal", "time_limit": 300, "k": 5, "on_missing": "impute"}}

    def run(_place):
        with live.http(tokens["owner"]) as client:
            return client.post(f"/api/v1/publish/{job}/run", json=wish).status_code

    with ThreadPoolExecutor(6) as pool:
        told = sorted(pool.map(run, range(6)))
    assert told == [200, 400, 400, 400, 400, 400]
    assert len(_at_work(job)) == 1
    owner.post(f"{path}/cancel")
    assert _at_work(job) == []
    owner.post(f"{path}/forget")


def _at_work(job: str) -> list[Path]:
    """The processes that protect a job's table; one that was just killed has no command, and the look may still be ending."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = each.read_bytes()
            found += [each] if job.encode() in command and b"\0run\0" in command else []
    return found


def test_only_a_few_jobs_are_at_work_at_a_time(tmp_path, monkeypatch):
    jobs, begun = Jobs(tmp_path), []
    monkeypatch.setattr(jobs_module, "_start", lambda folder, _what: begun.append(folder))
    monkeypatch.setattr(jobs_module, "running", lambda folder: folder in begun)
    folders = [jobs.new("ann") for _ in range(6)]

    def begin(folder):
        with contextlib.suppress(InputError):
            begin_work(folder, "look", lambda: change(folder, state="looking"))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(begin, folders * 2))
    assert len(begun) == len(set(begun)) == MOST_AT_ONCE
    with pytest.raises(InputError, match="cannot be run now"):
        begin_work(begun[0], "look", lambda: None)
    with pytest.raises(InputError, match="At most 4 jobs"):
        begin_work(next(each for each in folders if each not in begun), "look", lambda: None)
    with pytest.raises(UnknownError):
        begin_work(tmp_path / "gone", "look", lambda: None)


@pytest.mark.parametrize("by", ["revoked token", "revoked account", "signed out"])
def test_a_stream_of_progress_ends_with_the_right_to_see_it(tmp_path, monkeypatch, by):
    """Whoever is revoked, or signs out elsewhere, is told no more of a job that goes on; and streams are few."""
    monkeypatch.setattr(jobs_module, "PROVEN_SECONDS", 0.0)
    monkeypatch.setattr(jobs_module, "TELL_SECONDS", 0.01)
    monkeypatch.setattr(accounts_module, "FRESH_SECONDS", 0.0)
    book = Accounts()
    account = book.find(book.add("ann", "owner"))
    cookie = book.enter(account)
    request = Request(
        {
            "type": "http", "method": "GET", "scheme": "http", "path": "/", "server": ("127.0.0.1", 80),
            "headers": [(b"authorization", b"Bearer x")] if by == "revoked token" else [(b"cookie", f"{COOKIE}={cookie}".encode())],
            "app": SimpleNamespace(state=SimpleNamespace(accounts=book, config=SimpleNamespace(tls=None))),
            "state": {"visitor": account},
        }
    )  # fmt: skip
    monkeypatch.setattr(request, "is_disconnected", lambda: asyncio.sleep(0, False))
    job = Jobs(tmp_path).new(account.id)
    tell(job, "reading the table")

    async def watch() -> tuple[list[str], list[str]]:
        streams = [
            jobs_module.progress(request, job, lambda: True).body_iterator for _ in range(MOST_STREAMS)
        ]
        firsts = [await anext(each) for each in streams]
        with pytest.raises(TooOftenError, match="close one"):
            jobs_module.progress(request, job, lambda: True)
        book.end(account) if by == "signed out" else book.revoke("ann", last_owner=True)
        tell(job, "a secret of later")
        later = [each for stream in streams async for each in stream]
        assert jobs_module.progress(request, job, lambda: True)  # all were counted out again
        return firsts, later

    firsts, later = asyncio.run(asyncio.wait_for(watch(), 60))
    assert all("reading the table" in each for each in firsts)
    assert later == []


def wide_parquet() -> bytes:
    """A few kilobytes that say they are 150 million rows."""
    file = io.BytesIO()
    pl.DataFrame({"a": pl.repeat(0, 150_000_000, dtype=pl.Int8, eager=True)}).write_parquet(file)
    return file.getvalue()


def bomb() -> bytes:
    """A workbook that unpacks to more than a gigabyte."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for place in range(11):
            packed.writestr(f"xl/{place}", bytes(100 << 20))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("t.exe", b"MZ", "must end in"),
        ("t", b"a,b\n1,2\n", "must end in"),
        ("t.csv", b"", "empty"),
        ("t.csv", lambda: (",".join(map(str, range(2001))) + "\n").encode() * 2, "at most 2,000 columns"),
        ("t.csv", b"\x00\x01\x02", "text"),
        ("t.parquet", b"PAR1 no", "cannot be read"),
        ("t.arrow", b"ARROW1 no", "cannot be read"),
        ("t.xlsx", bomb, "unpacks to more"),
        ("t.parquet", wide_parquet, "unpacks to more"),
    ],
)
def test_what_is_no_table_is_refused(owner, name, data, says):
    page = upload(owner, name, data() if callable(data) else data)
    assert says in page.text
    assert "/tmp" not in page.text
    assert owner.get("/health").status_code == 200


@pytest.mark.parametrize(
    "name", ["\N{FISH}" * 60 + ".csv", ".csv", "a\x01.csv", "town.exe", "x" * 300 + ".csv"]
)
def test_a_hierarchy_whose_name_is_none_is_refused(owner, name):
    # Written by hand: the client would replace what does not belong in a name.
    parts = [
        ('name="csrf"', owner.headers["x-csrf-token"].encode()),
        ('name="table"; filename="t.csv"', TABLE.encode()),
        (f'name="hierarchies"; filename="{name}"', b"a,b\n"),
    ]
    body = b"".join(
        b"--edge\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    told = owner.post(
        "/publish",
        content=body + b"--edge--\r\n",
        headers={"content-type": "multipart/form-data; boundary=edge"},
    )
    assert told.status_code == 400
    assert "named by its column" in told.text


def test_an_upload_that_is_too_large_is_refused(owner):
    assert upload(owner, "t.csv", bytes(51 << 20)).status_code == 413


CODEBOOK = b"""
[table]
id = "t"
[columns.town]
kind = "category"
levels = ["a", "b"]
role = "stratum"
"""


def test_columns_are_shown_with_samples_and_a_codebook_may_come_along(owner):
    files = {"table": ("t.csv", TABLE.encode(), "text/csv"), "codebook": ("c.toml", CODEBOOK, "text/plain")}
    page = owner.post("/publish", data={"csrf": owner.headers["x-csrf-token"]}, files=files)
    path = page.url.path
    assert "2 levels" in page.text
    assert "1000 \u00b7 1037" in page.text
    assert page.text.count('class="pill warn">unique') == 2  # income and note
    assert "removed at" in page.text
    assert path.split("/")[-1] in owner.get("/publish").text  # among one's own jobs
    got = owner.post(f"{path}/run", data={"k": "4", "low-0": "0", "high-0": "x"})
    assert "two numbers" in got.text
    bad = {**files, "codebook": ("c.toml", b"[columns", "text/plain")}
    assert (
        'role="alert"' in owner.post("/publish", data={"csrf": owner.headers["x-csrf-token"]}, files=bad).text
    )


@pytest.mark.parametrize(
    ("k", "says"),
    [
        ("0000000059999999", "whole number of at most nine digits"),
        ("59999999", "at most the 60 rows"),
        ("1e3", "whole number"),
        ("9" * 5000, "whole number"),
    ],
)
def test_a_k_that_no_table_has_is_refused_before_any_work(owner, k, says):
    path = upload(owner, "t.csv", TABLE.encode()).url.path
    for what in ("run", "compare"):
        got = owner.post(f"{path}/{what}", data={"k": k})
        assert got.status_code == 400
        assert says in got.text


def test_a_total_is_ended_only_when_its_name_was_typed_after_success(tmp_path):
    live = LiveServer(tmp_path / "h", datasets={"survey": (10.0, 10.0)}).start()
    try:
        with live.signed_in(live.book.add("own", "owner")) as owner:
            path = upload(owner, "t.csv", TABLE.encode()).url.path
            roles = {"role-0": "quasi", "role-1": "quasi", "role-2": "quasi", "role-3": "identifier"}

            def ended() -> bool:
                return owner.get("/api/v1/datasets/survey/spending").json()["ended"]

            owner.post(
                f"{path}/run", data={**roles, "k": "50", "l": "3", "method": "mdav", "dataset": "survey"}
            )
            wait(owner, path)
            assert not ended()
            owner.post(f"{path}/run", data={**roles, "k": "4", "method": "mdav", "dataset": "survey"})
            page = wait(owner, path)
            assert "Status green" in page
            owner.get(f"{path}/files/report.html")
            assert owner.get(f"{path}/files/protected.csv").status_code == 403
            owner.post(f"{path}/confirm", data={"dataset": "other"})
            assert not ended()
            owner.post(f"{path}/confirm", data={"dataset": "survey"})
            assert ended()
            assert owner.get(f"{path}/files/protected.csv").status_code == 200
    finally:
        live.stop()


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_is_set_neither_keeps_files_nor_takes_them(tmp_path, monkeypatch, jump):
    jobs = Jobs(tmp_path)
    old, young = jobs.new("a"), jobs.new("a")
    change(old, since=time.monotonic() - KEEP_SECONDS - 1)
    now = time.time
    monkeypatch.setattr(jobs_module.time, "time", lambda: now() + jump)
    jobs.sweep()
    assert (old.exists(), young.exists()) == (False, True)


def test_files_are_gone_after_their_hour_by_the_clock(tmp_path, monkeypatch):
    jobs = Jobs(tmp_path)
    old, young = jobs.new("a"), jobs.new("a")
    change(old, since=time.monotonic() - KEEP_SECONDS - 1)
    (old / "table.csv").write_text("a\n1\n")
    monkeypatch.setattr(jobs_module, "SWEEP_SECONDS", 0.05)

    async def nobody_comes() -> None:
        sweeping = asyncio.create_task(jobs.sweep_always(lambda: None))
        for _ in range(200):
            if not old.exists():
                break
            await asyncio.sleep(0.05)
        sweeping.cancel()

    asyncio.run(nobody_comes())
    assert not old.exists()
    assert [name for name, _ in jobs.of("a")] == [young.name]
    assert jobs.of("b") == []
