"""One copy of a table for all workers of a server, whoever of them ends and whatever happens to the file."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from .conftest import LiveServer, question


@pytest.fixture
def served(tmp_path):
    (tmp_path / "shm").mkdir()
    live = LiveServer(tmp_path / "h", f'tables_folder = "{tmp_path / "shm"}"', workers=2)
    live.ann = live.book.add("ann", "analyst")
    live.start()
    yield live
    live.kill()


def mapped(live: LiveServer) -> dict[int, set[str]]:
    """The loaded tables that each process of a server has mapped."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) == live.process.pid:
                files = set(re.findall(r"\S+\.arrow", (process / "maps").read_text()))
                found |= {int(process.name): files} if files else {}
        except OSError:
            continue
    return found


def wait_for(live: LiveServer, wanted) -> dict[int, set[str]]:
    for _ in range(1200):
        found = mapped(live)
        if wanted(found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{found} {live.log}")


def test_workers_map_one_copy_which_outlives_a_worker_and_goes_with_the_server(served, tmp_path):
    first, second = wait_for(served, lambda found: len(found) == 2)
    found = mapped(served)
    assert found[first] == found[second], "each has a copy of its own"
    files = [Path(each) for each in found[first]]
    assert {each.stat().st_mode & 0o077 for each in (*files, *(each.parent for each in files))} == {0}
    # The file changes and a worker dies: who takes its place answers about the same rows as the others.
    (served.folder / "survey.csv").write_text("broken\n")
    os.kill(first, signal.SIGKILL)
    again = wait_for(served, lambda found: len(found) == 2 and first not in found)
    assert set(again) > {second}
    assert again[second] == set.union(*again.values())
    with served.http() as client:
        for place in range(12):
            path, body = question(place, 1.0)
            done = client.post(
                path, json=body, headers={"authorization": f"Bearer {served.ann}", "connection": "close"}
            )
            assert done.status_code == 200, done.text
            assert done.json()["value"] > 500
    served.stop()
    assert list((tmp_path / "shm").iterdir()) == []
