"""Load, races and crashes: no answer leaves without its charge, and no cap is passed."""

from __future__ import annotations

import shutil
import signal
import threading
import time

import pytest

from shoal.dp import Ledger

from .conftest import LiveServer, question
from .pressure import (
    Pounders,
    full_disk,
    killed_under_load,
    load,
    race,
    restarted_under_load,
    slow_clients,
    uncharged,
)

CAPS = {"survey": (1e5, 1e4), "last": (1.0, 1.0)}


def test_kill_nine_under_load_loses_no_charge(tmp_path):
    found = killed_under_load(tmp_path / "h", 3)
    assert found["answers"] >= 3
    assert (found["answers without charge"], found["broken ledgers"]) == (0, 0)


def test_analysts_racing_for_the_last_of_a_cap_never_overspend(live):
    found = race([live], 20, live.folder / "ledger.db")
    assert (found["answered"], found["other"]) == (9, 0)  # 0.01 / 0.0011, rounded down
    assert found["micro-epsilon spent of 1000000"] == 990_000 + 9 * 1100
    assert found["ledger holds"]


def test_five_seconds_of_load_are_answered_and_charged(live):
    found = load(live, 8, 5)
    print(found)
    assert found["answers"] > 20
    assert (found["answers without charge"], found["refused"]) == (0, {})
    assert found["ledger holds"]


def test_slow_and_malformed_clients_do_not_stop_others(live):
    found = slow_clients(live, 140, 1)
    assert (
        found["answers/s beset"] > 0.1 * found["answers/s alone"]
    )  # the clock is a poor judge, so only roughly
    assert (found["answers without charge"], found["refused"]) == (0, {})


def test_two_servers_with_two_workers_share_one_postgresql_and_outlive_its_crash(tmp_path, postgres, cluster):
    servers = [
        LiveServer(tmp_path / name, ledger=postgres, datasets=CAPS, workers=2) for name in ("one", "two")
    ]
    try:
        servers[0].start()
        # Servers of one ledger share its secret; one without it ends at once and says so.
        with pytest.raises(RuntimeError, match=r"ledger's secret .* is missing"):
            servers[1].start()
        shutil.copy(servers[0].folder / "ledger.secret", servers[1].folder)
        servers[1].start()
        found = race(servers, 8, postgres)
        assert (found["answered"], found["other"]) == (9, 0)
        assert found["micro-epsilon spent of 1000000"] == 990_000 + 9 * 1100
        found = restarted_under_load(servers, cluster.crash, cluster.start, postgres, 1)
        assert found["answers before"] > 0
        assert found["answers after"] >= 20
        assert set(found["refused"]) <= {503}
        assert found["answers without charge"] == 0
        assert found["ledger holds"]
    finally:
        for each in servers:
            if each.process is not None:
                each.kill()


def test_a_full_disk_refuses_and_loses_nothing(tmp_path):
    found = full_disk(LiveServer(tmp_path / "h"), 0.5)
    assert found["answers after"] >= 10
    assert set(found["refused"]) == {503}
    assert found["answers without charge"] == 0
    assert found["ledger holds"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_told_to_stop_ends_quietly_and_its_answers_are_charged(tmp_path, workers):
    live = LiveServer(tmp_path / "h", workers=workers).start()
    pounders = Pounders([live], 4)
    pounders.begin()
    while len(pounders.answered) < 10:
        time.sleep(0.05)
    live.process.send_signal(signal.SIGTERM)
    assert live.process.wait(timeout=60) in (0, -signal.SIGTERM)
    pounders.end()
    lost, check = uncharged(live.folder / "ledger.db", pounders.answered)
    assert (lost, check.holds) == (0, True)
    assert "Traceback" not in live.log


def test_the_same_question_by_many_at_once_is_charged_to_the_data_set_at_most_once_each(live):
    tokens = [live.book.add(f"same-{i}", "analyst") for i in range(6)]
    values: list = []

    def ask(token: str) -> None:
        path, body = question(987_654_321, 0.01)
        with live.http(token) as client:
            got = client.post(path, json=body)
            assert got.status_code == 200
            values.append(client.post(path, json=body).json())

    threads = [threading.Thread(target=ask, args=(token,)) for token in tokens]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {each["epsilon"] for each in values} == {0}
    ledger = Ledger(live.folder / "ledger.db")
    assert all(ledger.spent("survey", f"same-{i}") == 10_000 for i in range(6))
    ledger.close()
