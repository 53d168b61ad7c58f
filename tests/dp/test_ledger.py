"""The ledger: caps that hold under races, stored answers, the chain, and kill -9 at every step."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

from shoal.dp.backup import backup, restore
from shoal.dp.claims import Amount, Caps, Claim
from shoal.dp.ledger import Ledger
from shoal.dp.session import Session
from shoal.errors import BudgetError, LedgerError
from shoal.schema import Column, Schema


def claim(analyst="ann", key="q", micro=100_000, own=None, dataset="d", unit=None):
    limit = None if own is None else Caps(1_000_000, own)
    return Claim(dataset, analyst, key, "state", Amount(micro), unit or AddRemoveRecord(), limit)


def ask(ledger, answer="1", **words):
    """A charge and its answer, on a data set of epsilon 1 where nobody declared another cap."""
    asked = claim(**words)
    if ledger.caps(asked.dataset) is None:
        ledger.declare(asked.dataset, 1_000_000)
    return ledger.once(asked, lambda: answer)


def lose(ledger, **words):
    """A charge whose answer is lost on the way."""

    def fails():
        raise ConnectionError

    with pytest.raises(ConnectionError):
        ledger.declare("d", 1_000_000)
        ledger.once(claim(**words), fails)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def ledger(request, tmp_path):
    if request.param == "postgresql":
        opened = Ledger(request.getfixturevalue("postgres"))
    else:
        opened = Ledger(None if request.param == "memory" else tmp_path / "l.db")
    yield opened
    opened.close()


def test_caps_hold_to_the_last_millionth(ledger):
    for i in range(3):
        ledger.settle(ledger.charge(claim(key=f"{i}", micro=333_333)), "1")
    with pytest.raises(BudgetError, match=r"1e-06 of 1\.0 is left"):
        ledger.charge(claim(key="x", micro=2))
    assert ledger.charge(claim(key="y", micro=1)).remaining == 0
    assert ledger.spent("d") == 1_000_000
    assert [entry["kind"] for entry in ledger.entries()].count("refusal") == 1
    assert ledger.verify().holds


def test_each_analyst_has_a_cap_and_the_data_set_another(ledger):
    ledger.charge(claim("ann", "1", 400_000, own=500_000))
    with pytest.raises(BudgetError, match="budget of this analyst"):
        ledger.charge(claim("ann", "2", 200_000, own=500_000))
    ledger.charge(claim("bob", "3", 400_000, own=500_000))
    with pytest.raises(BudgetError, match="budget of this data set"):
        ledger.charge(claim("cid", "4", 300_000, own=500_000))
    assert (ledger.spent("d"), ledger.spent("d", "ann"), ledger.spent("d", "cid")) == (800_000, 400_000, 0)
    assert ledger.charge(claim("cid", "4", 300_000, dataset="other")).remaining == 700_000


def test_a_stored_answer_is_charged_to_each_analyst_once(ledger):
    first = ledger.charge(claim("ann"))
    assert first.stored is None
    waiting = ledger.charge(claim("bob"))  # not settled yet: bob pays in full for a draw of his own
    assert waiting.stored is None
    ledger.settle(first, "42")
    ledger.settle(waiting, "43")
    again = ledger.charge(claim("ann"))
    assert (again.stored, again.charged) == ("42", 0)
    third = ledger.charge(claim("cid"))
    assert (third.stored, third.charged) == ("42", 100_000)
    assert ledger.charge(claim("cid")).charged == 0
    assert (ledger.spent("d"), ledger.spent("d", "cid")) == (200_000, 100_000)
    with pytest.raises(BudgetError):
        ledger.charge(claim("dan", own=50_000))
    assert ledger.has_received("d", "cid", "q")
    assert not ledger.has_received("d", "dan", "q")
    assert ledger.verify().holds


def test_a_lost_charge_is_never_drawn_on_again(ledger):
    ledger.charge(claim())
    assert ledger.charge(claim()).stored is None
    assert ledger.spent("d") == 200_000


def test_one_unit_for_life(ledger):
    ledger.charge(claim(key="1"))
    with pytest.raises(BudgetError, match="keeps data set 'd' in the unit 'record' for life"):
        ledger.charge(claim(key="2", covers=False))
    assert ledger.spent("d") == 100_000


def test_a_total_that_ended_stays_ended(ledger):
    ledger.end_total("d", "heuristic", "ann")
    assert ledger.ended("d")
    charge = ledger.charge(claim())
    assert charge.ended
    assert charge.remaining == 900_000
    assert not ledger.ended("other")
    assert ledger.verify().holds


def test_the_budget_is_never_overspent_by_fifty_threads(ledger):
    results = []

    def spend(i):
        try:
            charge = ledger.charge(claim(f"a{i % 7}", f"k{i}", 90_000, own=200_000))
            ledger.settle(charge, str(i))
            results.append(1)
        except BudgetError:
            results.append(0)

    threads = [threading.Thread(target=spend, args=(i,)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 50
    assert sum(results) == 11  # 11 * 0.09 <= 1 < 12 * 0.09
    assert ledger.spent("d") == 990_000
    assert max(ledger.spent("d", f"a{i}") for i in range(7)) <= 200_000
    check = ledger.verify()
    assert check.holds, check.problem


def test_separate_openings_of_one_file_share_the_cap(tmp_path):
    openings = [Ledger(tmp_path / "l.db") for _ in range(6)]
    won = []

    def spend(i):
        try:
            openings[i % 6].charge(claim(f"a{i}", f"k{i}", 90_000))
            won.append(i)
        except BudgetError:
            pass

    threads = [threading.Thread(target=spend, args=(i,)) for i in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 11
    assert openings[0].verify().holds


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE shoal_entries SET micro = 1 WHERE seq = 2", "entry 2 was changed"),
        ("UPDATE shoal_entries SET body = '7' WHERE seq = 3", "entry 3 was changed"),
        ("DELETE FROM shoal_entries WHERE seq = 2", "entry 2 is missing"),
        ("DELETE FROM shoal_entries WHERE seq = 4", "4 entries, and 3 are there"),
        ("UPDATE shoal_head SET seq = 3", "3 entries, and 4 are there"),
    ],
)
def test_tampering_is_seen(tmp_path, statement, problem):
    ledger = Ledger(tmp_path / "l.db")
    for i in range(2):
        ledger.settle(ledger.charge(claim(key=f"{i}")), "1")
    assert ledger.verify().entries == 4
    ledger.close()
    with sqlite3.connect(tmp_path / "l.db") as raw:
        raw.execute(statement)
    check = Ledger(tmp_path / "l.db").verify()
    assert not check.holds
    assert problem in check.problem


def test_backup_and_restore_keep_every_entry(ledger, tmp_path):
    for i in range(3):
        ledger.settle(ledger.charge(claim(key=f"{i}")), json.dumps({"value": i}))
    saved = backup(ledger, tmp_path / "b.jsonl")
    other = Ledger(tmp_path / "other.db")
    assert restore(other, tmp_path / "b.jsonl") == saved == other.verify()
    assert other.spent("d") == 300_000
    assert other.charge(claim(key="1")).stored == '{"value": 1}'
    with pytest.raises(LedgerError, match="empty ledger only"):
        restore(other, tmp_path / "b.jsonl")
    lines = (tmp_path / "b.jsonl").read_text().splitlines()
    for broken in (lines[:-1], lines[1:], ["x", *lines], [lines[0].replace("100000", "100001"), *lines[1:]]):
        (tmp_path / "bad.jsonl").write_text("\n".join(broken))
        with pytest.raises(LedgerError):
            restore(Ledger(), tmp_path / "bad.jsonl")


def test_what_cannot_be_opened_is_one_sentence(tmp_path):
    for where in (tmp_path / "no" / "l.db", "nonsense://x", "postgresql://nobody@127.0.0.1:1/none"):
        with pytest.raises(LedgerError) as caught:
            Ledger(where)
        assert "\n" not in str(caught.value)
    (tmp_path / "text.db").write_text("this is no database, but long enough to look like one" * 40)
    with pytest.raises(LedgerError):
        Ledger(tmp_path / "text.db")


STEPS = {  # step and occurrence: what was spent, and whether the answer was stored
    "charge-begun:1": (0, False),
    "charge-written:1": (0, False),
    "before-commit:1": (0, False),
    "charge-committed:1": (250_000, False),
    "computed:1": (250_000, False),
    "noised:1": (250_000, False),
    "settle-begun:1": (250_000, False),
    "settle-written:1": (250_000, False),
    "before-commit:2": (250_000, False),
    "settle-committed:1": (250_000, True),
}


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_kill_nine_at_every_step_loses_at_most_the_answer(backend, tmp_path, request):
    where = str(tmp_path / "l.db") if backend == "sqlite" else request.getfixturevalue("postgres")
    nursery = Path(__file__).with_name("crash_nursery.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, nursery, where, *STEPS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [word for step in STEPS for word in (step, "-9")]
    ledger = Ledger(where)
    assert ledger.verify().holds
    for name, (spent, stored) in STEPS.items():
        dataset = name.replace(":", "-")
        assert ledger.spent(dataset) == spent, name
        kinds = [entry["kind"] for entry in ledger.entries() if entry["dataset"] == dataset]
        assert ("settle" in kinds) == stored, name
        schema = Schema({"age": Column("age", bounds=(0, 110))}, id=dataset)
        frame = pl.DataFrame({"age": [20, 50, 70]})
        session = Session(frame, schema, "dp", 1.0, ledger=ledger, data_version="1")
        again = session.ask("SELECT COUNT(*) FROM t WHERE age >= 40", 0.25)
        assert again.epsilon == (0.0 if stored else 0.25)  # the stored answer, or a fresh charge
        assert ledger.spent(dataset) == spent + (0 if stored else 250_000)
    assert ledger.verify().holds


def test_a_database_that_falls_over_keeps_every_charge(postgres, cluster):
    ledger = Ledger(postgres)
    ledger.settle(ledger.charge(claim(key="1")), "1")
    ledger.charge(claim(key="2"))
    cluster.crash()
    try:
        with pytest.raises(LedgerError, match="The ledger cannot be written"):
            ledger.charge(claim(key="3"))
    finally:
        cluster.start()
    assert ledger.spent("d") == 200_000
    assert ledger.charge(claim(key="1")).stored == "1"
    assert ledger.verify().holds
