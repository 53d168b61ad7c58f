"""The publish page over a real server: upload, run, progress, cancel, download, and files that are no tables."""

from __future__ import annotations

import io
import time
import zipfile

import polars as pl
import pytest

from shoal import privacy

TABLE = "age,income,town,note\n" + "".join(
    f"{20 + i % 40},{1000 + 37 * i},{'ab'[i % 2]},=1+{i}\n" for i in range(60)
)


@pytest.fixture
def owner(house, tokens):
    with house.signed_in(tokens["owner"]) as client:
        yield client


def upload(owner, name: str, data: bytes):
    csrf = owner.headers["x-csrf-token"]
    return owner.post("/publish", data={"csrf": csrf}, files={"table": (name, data, "text/csv")})


def wait(owner, path: str) -> str:
    for _ in range(1500):
        page = owner.get(path).text
        if "Look again" not in page:
            return page
        time.sleep(0.2)
    raise AssertionError("the work does not end")


def test_a_table_is_published_and_the_run_can_be_repeated(owner, house, tokens):
    page = upload(owner, "../../etc/passwd.csv", TABLE.encode())
    path = page.url.path
    assert "The roles are guesses" in page.text
    assert "passwd" not in page.text
    roles = {"role-0": "quasi", "role-1": "quasi", "role-2": "stratum", "role-3": "leave"}
    owner.post(f"{path}/run", data={**roles, "k": "4", "method": "mdav", "escape": "on", "accept_risk": "on"})
    with owner.stream("GET", f"{path}/events") as events:
        told = "".join(events.iter_text())
    assert "forming groups of at least 4 with mdav" in told
    assert told.rstrip().endswith("event: end\ndata: {}")
    page = wait(owner, path)
    assert "shoal protect table.csv -k 4 -o protected.csv --method mdav" in page
    assert "shoal.protect(" in page
    protected = pl.read_csv(owner.get(f"{path}/files/protected.csv").content)
    assert privacy.check(protected, ["age", "income", "town"], [], k=4)[0].holds
    assert all(cell.startswith("'=") for cell in protected["note"])
    report = owner.get(f"{path}/files/report.html")
    assert (
        "script" not in report.headers["content-security-policy"]
    )  # nothing may run but by the default, which is none
    for name in ("job.json", "..%2f..%2fledger.db", "table.csv", "wanted.json"):
        assert owner.get(f"{path}/files/{name}").status_code == 404
    other = house.http(house.book.add("other-owner", "owner"))
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


def test_an_upload_that_is_too_large_is_refused(owner):
    assert upload(owner, "t.csv", bytes(51 << 20)).status_code == 413
