"""Load, races and crashes: no answer leaves without its charge, and no cap is passed."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from shoal.dp import Ledger

from .conftest import House, question


def pound(house: House, token: str, analyst: int, until: float, answered: list) -> None:
    """Ask new questions until told to stop or the server is gone; keep what came back."""
    with house.http(token) as client:
        place = 0
        while time.monotonic() < until:
            place += 1
            path, body = question(1_000_000 * (analyst + 1) + len(answered) * 1000 + place)
            try:
                got = client.post(path, json=body)
            except httpx.HTTPError:
                return
            if got.status_code == 200:
                answered.append((body["sql"], got.json()["value"]))


def charged(ledger: Ledger, dataset: str = "survey") -> dict[str, dict]:
    """Charges by the number in their question."""
    found = {}
    for entry in ledger.entries(dataset=dataset):
        if entry["kind"] == "charge" and "> " in entry["body"]:
            found[entry["body"].split("> ")[1].rstrip(")")] = entry
    return found


def killed_under_load(folder: Path, times: int) -> int:
    """Kill a server under load so many times; after each, its ledger must hold all that left. Gives the answers."""
    house = House(folder)
    tokens = [house.book.add(f"a{i}", "analyst") for i in range(6)]
    answered: list = []
    for _ in range(times):
        house.start()
        before, until = len(answered), time.monotonic() + 60
        threads = [
            threading.Thread(target=pound, args=(house, t, i, until, answered)) for i, t in enumerate(tokens)
        ]
        for each in threads:
            each.start()
        while len(answered) < before + 25 and time.monotonic() < until:
            time.sleep(0.02)
        house.kill()
        for each in threads:
            each.join()
        assert len(answered) > before
        ledger = Ledger(house.folder / "ledger.db")
        assert ledger.verify().holds
        charges = charged(ledger)
        for sql, _ in answered:
            assert sql.split("> ")[1] in charges, sql
        ledger.close()
    return len(answered)


def race(house: House, analysts: int) -> None:
    """Let analysts race for the last 1 % of the data set "last"; it must not be overspent by a millionth."""
    tokens = [house.book.add(f"racer-{i}", "analyst") for i in range(analysts)]

    def ask(analyst: int, place: int, epsilon: float) -> int:
        path, body = question(place, epsilon, "last")
        with house.http(tokens[analyst]) as client:
            return client.post(path, json=body).status_code

    assert ask(0, 0, 0.99) == 200
    with ThreadPoolExecutor(analysts) as pool:
        rows = pool.map(lambda who: [ask(who, 100 + 10 * who + i, 0.0007) for i in range(3)], range(analysts))
        statuses = [each for row in rows for each in row]
    assert set(statuses) == {200, 403}
    assert statuses.count(200) == 14  # 0.01 / 0.0007, rounded down
    ledger = Ledger(house.folder / "ledger.db")
    assert ledger.spent("last") == 990_000 + 14 * 700
    assert ledger.verify().holds
    ledger.close()


def test_kill_nine_under_load_loses_no_charge(tmp_path):
    assert killed_under_load(tmp_path / "h", 3) >= 3


def test_analysts_racing_for_the_last_of_a_cap_never_overspend(house):
    race(house, 20)


def test_five_seconds_of_load_are_answered_and_charged(house):
    tokens = [house.book.add(f"load-{i}", "analyst") for i in range(8)]
    answered: list = []
    started = time.monotonic()
    threads = [
        threading.Thread(target=pound, args=(house, t, 100 + i, started + 5, answered))
        for i, t in enumerate(tokens)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(f"{len(answered) / (time.monotonic() - started):.0f} answers a second")
    assert len(answered) > 20
    ledger = Ledger(house.folder / "ledger.db")
    charges = charged(ledger)
    assert all(sql.split("> ")[1] in charges for sql, _ in answered)
    ledger.close()


def test_two_servers_share_one_postgresql_and_outlive_its_crash(tmp_path, postgres, cluster):
    caps = {"survey": (0.02, 0.02)}
    first = House(tmp_path / "one", ledger=postgres, datasets=caps)
    second = House(tmp_path / "two", ledger=postgres, datasets=caps)
    tokens = [each.book.add("ann", "analyst") for each in (first, second)]
    try:
        first.start(), second.start()

        def ask(place: int) -> int:
            at = place % 2
            with (first, second)[at].http(tokens[at]) as client:
                path, body = question(place, 0.001)
                return client.post(path, json=body).status_code

        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(ask, range(15)))
        assert statuses == [200] * 15
        cluster.crash()
        assert ask(100) == 503
        cluster.start()
        for _ in range(50):
            if httpx.get(f"{first.url}/health").status_code == 200:
                break
            time.sleep(0.1)
        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(ask, range(200, 212)))
        ledger = Ledger(postgres)
        spent, check = ledger.spent("survey"), ledger.verify()
        ledger.close()
        assert check.holds
        assert spent <= 20_000
        assert statuses.count(200) >= 4
        assert spent >= 1000 * (15 + statuses.count(200))
    finally:
        for each in (first, second):
            if each.process is not None:
                each.kill()


@pytest.mark.skipif(not hasattr(__import__("os"), "statvfs"), reason="needs a file size limit")
def test_a_full_disk_refuses_and_loses_nothing(tmp_path):
    import resource

    house = House(tmp_path / "h")
    token = house.book.add("ann", "analyst")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    house.start()
    try:
        with house.http(token) as client:
            path, body = question(1)
            assert client.post(path, json=body).status_code == 200
            resource.prlimit(house.process.pid, resource.RLIMIT_FSIZE, (8192, hard))
            path, body = question(2)
            refused = client.post(path, json=body)
            assert refused.status_code == 503
            assert "ledger" in refused.json()["error"]
            resource.prlimit(house.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
            assert client.post(path, json=body).status_code == 200
    finally:
        house.kill()
    ledger = Ledger(house.folder / "ledger.db")
    assert ledger.verify().holds
    ledger.close()
