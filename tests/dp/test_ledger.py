"""The ledger: caps that hold under races, stored answers, the chain, and kill -9 at every step."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from shoal.dp.ledger.backup import backup, read_backup, restore
from shoal.dp.ledger.claims import Amount, Caps, Claim, ClosedError
from shoal.dp.ledger.entries import ENTRIES, HEAD
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.store import _Job
from shoal.dp.session import Session
from shoal.dp.unit import AddRemoveRecord, AddRemoveUnit, Records
from shoal.errors import BudgetError, InputError, LedgerError
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
        ask(ledger, key=f"{i}", micro=333_333)
    with pytest.raises(BudgetError, match=r"1e-06 of 1\.0 is left"):
        ask(ledger, key="x", micro=2)
    assert ask(ledger, key="y", micro=1).remaining == 0
    assert ledger.spent("d") == 1_000_000
    assert [entry.kind for entry in ledger.entries()].count("refusal") == 1
    assert ledger.verify().holds


def test_each_analyst_has_a_cap_and_the_data_set_another(ledger):
    ledger.declare("d", 1_000_000, 500_000)
    ask(ledger, analyst="ann", key="1", micro=400_000)
    with pytest.raises(BudgetError, match="budget of this analyst"):
        ask(ledger, analyst="ann", key="2", micro=200_000)
    ask(ledger, analyst="bob", key="3", micro=400_000)
    with pytest.raises(BudgetError, match="budget of this data set"):
        ask(ledger, analyst="cid", key="4", micro=300_000)
    assert (ledger.spent("d"), ledger.spent("d", "ann"), ledger.spent("d", "cid")) == (800_000, 400_000, 0)
    assert ask(ledger, analyst="cid", key="4", micro=300_000, dataset="other").remaining == 700_000


def test_one_who_was_closed_may_ask_again_once_the_owner_states_the_caps(ledger):
    ledger.declare("d", 150_000)
    ask(ledger)
    for _ in range(2):
        with pytest.raises(ClosedError):
            ask(ledger, analyst="ben", key="another")
    ledger.set_caps("d", 1_000_000)
    assert ask(ledger, analyst="ben", key="another").charged == 100_000
    assert ledger.verify().holds


def test_a_cap_of_nothing_is_no_missing_cap(ledger):
    """An owner who closes a data set to analysts has not left their cap open."""
    ledger.declare("d", 500_000)
    assert ledger.set_caps("d", 500_000, 0).per_analyst == 0
    with pytest.raises(BudgetError, match=r"0.0 of 0.0 is left"):
        ask(ledger)
    assert ledger.declare("d", 0, 0)[1] == Caps(0, 0)
    assert ledger.declare("other", 500_000, 0)[0].per_analyst == 0


def test_caps_stated_anew_keep_the_currency_and_the_reserve_that_they_leave_open(ledger):
    assert ledger.set_caps("new", 5) == Caps(5, 5)
    ledger.declare("d", 500_000, currency="zcdp", keys=7)
    assert ledger.set_caps("d", 600_000) == Caps(600_000, 600_000, "zcdp", 7)
    assert ledger.set_caps("d", 600_000, keys=0) == Caps(600_000, 600_000, "zcdp", 0)
    assert ledger.set_caps("d", 600_000, 9, keys=8) == ledger.caps("d") == Caps(600_000, 9, "zcdp", 8)


def test_a_data_set_without_caps_answers_nothing(ledger):
    with pytest.raises(BudgetError, match="no budget for data set 'd'"):
        ledger.once(claim(), lambda: pytest.fail("the data were read"))
    assert not any(each.dataset == "d" for each in ledger.entries())


def test_a_stored_answer_is_charged_to_each_analyst_once(ledger):
    first = ask(ledger, "42", analyst="ann")
    again = ask(ledger, "43", analyst="ann")
    assert (first.body, again.body, first.charged, again.charged) == ("42", "42", 100_000, 0)
    third = ask(ledger, "44", analyst="cid")
    assert (third.body, third.charged) == ("42", 100_000)
    assert ask(ledger, analyst="cid").charged == 0
    assert (ledger.spent("d"), ledger.spent("d", "cid")) == (100_000, 100_000)
    with pytest.raises(BudgetError):
        ask(ledger, analyst="dan", own=50_000)
    assert ledger.has_received(claim("cid"))
    assert not ledger.has_received(claim("dan"))
    assert ledger.verify().holds


def test_a_lost_charge_is_never_drawn_on_again(ledger):
    lose(ledger)
    assert ask(ledger, "2").charged == 100_000
    assert ledger.spent("d") == 200_000


def test_racing_analysts_share_one_draw(ledger):
    ledger.declare("d", 1_000_000)
    begun, drawn, got = threading.Barrier(8), [], {}

    def spend(i):
        def draw():
            drawn.append(i)
            time.sleep(0.05)
            return str(i)

        begun.wait()
        got[i] = ledger.once(claim(f"a{i}"), draw).body

    threads = [threading.Thread(target=spend, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 1
    assert set(got.values()) == {str(drawn[0])}
    assert ledger.spent("d") == 100_000


def test_processes_that_race_hand_out_one_draw(tmp_path):
    # Two openings do not see each other's turns: both charge and draw, and the answer stored first counts for both.
    ann, bob = Ledger(tmp_path / "l.db"), Ledger(tmp_path / "l.db")
    ann.declare("d", 1_000_000)
    inner = []

    def slow():
        inner.append(bob.once(claim("bob"), lambda: "43").body)
        return "42"

    assert ann.once(claim("ann"), slow).body == "43" == inner[0]
    assert [ann.once(claim(who), lambda: "44").body for who in ("ann", "bob", "cid")] == ["43"] * 3
    assert ann.spent("d") == 200_000  # two draws, two charges
    assert ann.verify().holds


def test_one_unit_for_life(ledger):
    ask(ledger, key="1", unit=Records(4))
    assert ledger.unit("d") == "records:4"
    assert ask(ledger, key="2").charged == 400_000  # one record counts four times for four
    with pytest.raises(BudgetError, match="keeps data set 'd' in the unit 'records:4' for life"):
        ask(ledger, key="3", unit=AddRemoveUnit("house", 3))
    assert ledger.spent("d") == 500_000


def test_what_the_owner_states_leaves_unit_and_totals_as_they_are(ledger):
    ask(ledger, unit=AddRemoveUnit("house", 3))
    for state in (
        lambda: ledger.set_caps("d", 900_000),
        lambda: ledger.set_rights("d", lambda old: old),
        lambda: ledger.note("data set changed", "owner", "", "d"),
        lambda: ledger.end_total("d", "a release"),
    ):
        state()
        assert ledger.unit("d") == "column:house"
        assert ledger.spent("d") == ledger.spent("d", "ann") == 100_000
        with pytest.raises(BudgetError, match="for life"):
            ask(ledger, key="weaker")
    assert ledger.verify().holds


def test_the_strongest_unit_is_kept(ledger):
    assert not ask(ledger, key="1").weaker
    after = ask(ledger, key="2", unit=AddRemoveUnit("house", 3))
    assert after.weaker  # the record before it is not in a total of houses
    assert ledger.unit("d") == "column:house"
    for key, unit in (("3", AddRemoveRecord()), ("4", Records(9)), ("5", AddRemoveUnit("person", 2))):
        with pytest.raises(BudgetError, match="for life"):
            ask(ledger, key=key, unit=unit)
    assert ledger.verify().holds


def test_a_total_that_ended_stays_ended(ledger):
    ledger.end_total("d", "heuristic", "ann")
    assert ledger.ended("d")
    receipt = ask(ledger)
    assert receipt.ended
    assert receipt.remaining == ask(ledger).remaining == 900_000
    assert not ask(ledger, dataset="other").ended
    assert not ledger.ended("other")
    assert ledger.verify().holds


def test_the_budget_is_never_overspent_by_fifty_threads(ledger):
    results = []
    ledger.declare("d", 1_000_000, 200_000)

    def spend(i):
        try:
            ask(ledger, str(i), analyst=f"a{i % 7}", key=f"k{i}", micro=90_000)
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
            ask(openings[i % 6], analyst=f"a{i}", key=f"k{i}", micro=90_000)
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
        ("UPDATE shoal_entries SET micro = 1 WHERE seq = 3", "entry 3 was changed"),
        ("UPDATE shoal_entries SET body = '7' WHERE seq = 4", "entry 4 was changed"),
        ("UPDATE shoal_entries SET nonce = '' WHERE seq = 4", "entry 4 was changed"),
        ("UPDATE shoal_entries SET seal = '' WHERE seq = 4", "entry 4 was changed"),
        (
            "UPDATE shoal_entries SET body = '[\"pure\", 9000000, 9000000]' WHERE seq = 2",
            "entry 2 was changed",
        ),
        ("DELETE FROM shoal_entries WHERE seq = 3", "entry 3 is missing"),
        ("DELETE FROM shoal_entries WHERE seq = 6", "6 entries, and 5 are there"),
        ("UPDATE shoal_head SET seq = 5", "5 entries, and 4 are there"),
    ],
)
def test_tampering_is_seen_and_a_broken_chain_serves_nobody(tmp_path, statement, problem):
    ledger = Ledger(tmp_path / "l.db")
    for i in range(2):
        ask(ledger, key=f"{i}")
    assert ledger.verify().entries == 6  # the secret's mark, the caps, two answers
    ledger.close()
    with sqlite3.connect(tmp_path / "l.db") as raw:
        raw.execute(statement)
    opened = Ledger(tmp_path / "l.db")
    check = opened.verify()
    assert not check.holds
    assert problem in check.problem or statement.endswith("seq = 5")
    for spends in (
        lambda: opened.once(claim(key="0"), lambda: "1"),  # not even what is stored
        lambda: opened.once(claim(key="9"), lambda: "1"),
        lambda: opened.declare("d", 1),
        lambda: opened.set_caps("d", 9_000_000),
        lambda: opened.set_rights("d", lambda old: old),
        lambda: opened.note("data set changed", "owner", "", "d"),
        lambda: opened.end_total("d", "x"),
        opened.rekey,
    ):
        with pytest.raises(LedgerError, match="chain is broken, so nothing is answered"):
            spends()
    opened.close()


def test_backup_and_restore_keep_every_entry(ledger, tmp_path):
    for i in range(3):
        ask(ledger, json.dumps({"value": i}), key=f"{i}")
    saved = backup(ledger, tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").stat().st_mode & 0o077 == 0
    other = Ledger(tmp_path / "other.db", secret=ledger._secret.path)
    assert restore(other, tmp_path / "b.jsonl") == saved
    *same, note = other.entries()
    assert same == list(ledger.entries())
    assert other.verify(saved.head).holds
    assert (note.key, note.body) == (
        "event:restored",
        f"a backup of {saved.entries} entries; charges made after it are not here",
    )
    assert other.spent("d") == 300_000
    if ledger._secret.lasting:
        assert ask(other, key="1").body == '{"value": 1}'
    with pytest.raises(LedgerError, match="empty ledger only"):
        restore(other, tmp_path / "b.jsonl")
    lines = (tmp_path / "b.jsonl").read_text().splitlines()
    edited = [line.replace('"micro": 100000', '"micro": 100001') for line in lines]
    deep = ["[" * 100_000, lines[-1]]
    for broken in (lines[:-1], lines[1:], ["x", *lines], edited, deep, [*lines[:-1], "[]"]):
        (tmp_path / "bad.jsonl").write_text("\n".join(broken))
        with pytest.raises(LedgerError):
            restore(Ledger(), tmp_path / "bad.jsonl")


def test_a_backup_is_whole_and_the_owners_alone_or_not_there(tmp_path, monkeypatch):
    path, seen, rename = tmp_path / "b.jsonl", [], Path.replace
    with Ledger() as opened:
        ask(opened)

        def watched(one, other):
            seen.append(one.stat().st_mode)
            return rename(one, other)

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", watched)
        for before in (None, 0o644):
            path.unlink(missing_ok=True)
            if before:
                path.touch(before)
            backup(opened, path)
            assert [each & 0o077 for each in (*seen, path.stat().st_mode)] == [0] * (len(seen) + 1)
        monkeypatch.setattr(Path, "replace", full)
        for target in (path, tmp_path / "new.jsonl"):
            with pytest.raises(InputError, match="No space left"):
                backup(opened, target)
        assert [each.name for each in tmp_path.iterdir()] == ["b.jsonl"]
        assert read_backup(path)[1].entries == opened.head().seq
        with pytest.raises(InputError, match="folder of .* does not exist"):
            backup(opened, tmp_path / "none" / "b.jsonl")


def test_a_ledger_without_entries_is_backed_up_too(tmp_path):
    with Ledger() as empty, Ledger() as other:
        assert backup(empty, tmp_path / "b.jsonl").entries == 0
        assert restore(other, tmp_path / "b.jsonl").holds


def test_a_backup_older_than_the_head_that_was_kept_is_refused(tmp_path):
    with Ledger(tmp_path / "l.db") as opened:
        ask(opened)
        saved = backup(opened, tmp_path / "b.jsonl")
        ask(opened, key="after the backup")
        kept = opened.head().hash
    with Ledger() as empty:
        with pytest.raises(LedgerError, match="older than the head expected"):
            restore(empty, tmp_path / "b.jsonl", kept)
        assert empty.head().seq == 0
        restore(empty, tmp_path / "b.jsonl", saved.head)
        assert empty.spent("d") == 100_000


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_ledger_file_taken_away_while_it_is_in_use_serves_nobody(tmp_path, how):
    """Connections that are open would go on charging a file that nobody finds again."""
    where = tmp_path / "l.db"
    with Ledger(where) as opened:
        ask(opened)
        backup(opened, tmp_path / "b.jsonl")
        (tmp_path / "moved").mkdir()
        for each in tmp_path.glob("l.db*"):
            if each.name != "l.db.secret":
                each.rename(tmp_path / "moved" / each.name)
        if how == "replaced":
            with Ledger(where) as fresh:
                restore(fresh, tmp_path / "b.jsonl")
        with pytest.raises(LedgerError, match="replaced or removed while it was in use"):
            ask(opened, key="another")
        with pytest.raises(LedgerError, match="replaced or removed"):
            opened.head()
    with Ledger(tmp_path / "moved" / "l.db", secret=tmp_path / "l.db.secret") as before:
        assert before.spent("d") == 100_000


def test_a_ledger_rolled_back_in_place_serves_nobody(ledger):
    """Its file is the same one, and what was checked last is still there; but charges made since are gone."""
    ask(ledger)
    ledger.ready()
    before = ledger.head()
    ask(ledger, key="another")
    with ledger.store.engine.begin() as connection:
        connection.execute(ENTRIES.delete().where(ENTRIES.c.seq > before.seq))
        connection.execute(HEAD.update().values(seq=before.seq, hash=before.hash))
    for key in ("another", "a third"):
        with pytest.raises(LedgerError, match=r"entry \d was changed or is gone"):
            ask(ledger, key=key)
    assert ledger.spent("d") == 100_000


def test_what_cannot_be_opened_is_one_sentence(tmp_path):
    for where in (tmp_path / "no" / "l.db", "nonsense://x", "postgresql://nobody@127.0.0.1:1/none"):
        with pytest.raises(LedgerError) as caught:
            Ledger(where)
        assert "\n" not in str(caught.value)
    (tmp_path / "text.db").write_text("this is no database, but long enough to look like one" * 40)
    (tmp_path / "text.db").chmod(0o644)
    with pytest.raises(LedgerError):
        Ledger(tmp_path / "text.db")
    assert (tmp_path / "text.db").stat().st_mode & 0o777 == 0o644  # a table named by mistake stays as it was


STEPS = {  # step and occurrence: what was spent, and whether the answer was stored
    "before-commit:1": (0, False),  # of the caps
    "charge-begun:1": (0, False),
    "charge-written:1": (0, False),
    "before-commit:2": (0, False),
    "charge-committed:1": (250_000, False),
    "computed:1": (250_000, False),
    "noised:1": (250_000, False),
    "settle-begun:1": (250_000, False),
    "settle-written:1": (250_000, False),
    "before-commit:3": (250_000, False),
    "settle-committed:1": (250_000, True),
}


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_kill_nine_at_every_step_loses_at_most_the_answer(backend, tmp_path, request):
    where = str(tmp_path / "l.db") if backend == "sqlite" else request.getfixturevalue("postgres")
    child = Path(__file__).with_name("crash_child.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, child, where, f"{tmp_path}/secret", *STEPS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [word for step in STEPS for word in (step, "-9")]
    ledger = Ledger(where, secret=f"{tmp_path}/secret")
    assert ledger.verify().holds
    for name, (spent, stored) in STEPS.items():
        dataset = name.replace(":", "-")
        assert ledger.spent(dataset) == spent, name
        kinds = [entry.kind for entry in ledger.entries() if entry.dataset == dataset]
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
    ask(ledger, "1", key="1")
    lose(ledger, key="2")
    cluster.crash()
    try:
        with pytest.raises(LedgerError, match="The ledger cannot be written"):
            ledger.once(claim(key="3"), lambda: "3")
    finally:
        cluster.start()
    assert ledger.spent("d") == 200_000
    assert ask(ledger, "2", key="1").body == "1"
    assert ledger.verify().holds


def test_a_caller_interrupted_in_the_queue_holds_up_nobody(tmp_path):
    """Whoever was to lead the next transaction and is gone hands that on."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.declare("d", 10**9)
    store, busy, go = ledger.store, threading.Event(), threading.Event()

    class Gone(BaseException):
        pass

    class Interrupted:
        """A turn that never comes, as if the caller was interrupted while waiting for it."""

        def acquire(self):
            go.set()
            while not gone.leads:
                time.sleep(0.001)
            raise Gone

        def release(self):
            pass

    def first(writer):
        busy.set()
        assert go.wait(30)
        while len(store._waiting) < 2:
            time.sleep(0.001)

    leader = threading.Thread(target=lambda: store.write(first))
    leader.start()
    assert busy.wait(30)
    gone = _Job(lambda writer: None, True)
    gone.turn = Interrupted()
    store._waiting.append(gone)
    done = []
    with pytest.raises(Gone):
        other = threading.Thread(target=lambda: done.append(store.write(lambda writer: "done")))
        other.start()
        store._await(gone)
    other.join(30)
    leader.join(30)
    assert done == ["done"]
    assert not store._waiting
    assert not store._writing
    assert ledger.verify().holds


def test_entries_of_callers_that_meet_share_a_transaction(tmp_path):
    steps = []
    ledger = Ledger(tmp_path / "ledger.db", slot_seconds=0.1, _hook=steps.append)
    ledger.declare("d", 10**9)
    steps.clear()
    claims = [Claim("d", f"a{i}", f"q{i}", "", Amount(1), AddRemoveRecord()) for i in range(20)]
    threads = [threading.Thread(target=ledger.once, args=(each, lambda: "1")) for each in claims]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert steps.count("charge-written") == steps.count("settle-written") == 20
    assert steps.count("before-commit") < 40, "each caller had two transactions of its own"
    assert ledger.verify().holds
