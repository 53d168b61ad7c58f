"""What can be seen from outside beside the answers: costs, refusals, the log, a backup, and what they must not tell."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import stat
import sys
import threading
import time
from dataclasses import asdict, replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from shoal import dp
from shoal.dp import DependentDP, Ledger, Pufferfish, Session
from shoal.dp.ledger.anchor import Anchor
from shoal.dp.ledger.backup import backup, restore
from shoal.dp.ledger.chain import replay
from shoal.dp.ledger.claims import CLOSED, Amount, Claim, ClosedError
from shoal.dp.ledger.entries import Entry
from shoal.dp.past import past
from shoal.dp.pufferfish import MarkovChain, Scenario
from shoal.dp.unit import AddRemoveRecord
from shoal.errors import BudgetError, LedgerError, ParameterError, ShoalError
from shoal.release import release_graph, release_table
from shoal.schema import Column, Schema, Unit

SCHEMA = Schema({"age": Column("age", bounds=(0, 110), step=1)}, id="clinic")
TABLE = pl.DataFrame({"age": [20, 50, 70]})
COUNT = "SELECT COUNT(*) FROM t WHERE age >= 40"


def session(ledger, frame=TABLE, schema=SCHEMA, **words):
    return Session(frame, schema, **{"budget": 2.0, "ledger": ledger, "data_version": "1", **words})


# --- the store's key, the log and the backup


def test_neighbouring_tables_leave_the_same_log_but_for_the_answers(tmp_path):
    """Keys, versions and texts are no function of the rows: everything in the log but the answers is the same."""
    logs = []
    for name, frame in (("a", TABLE), ("b", TABLE[1:])):
        ledger = Ledger(tmp_path / f"{name}.db", secret=tmp_path / "secret")
        s = session(ledger, frame)
        s.ask(COUNT, 0.5)
        s.ask("SELECT AVG(age) FROM t", 0.5, analyst="bob")
        with pytest.raises(BudgetError):
            s.ask("SELECT SUM(age) FROM t", 99)
        logs.append([asdict(each.shown()) for each in ledger.entries()])
    secret_parts = ("hash", "previous", "seal", "at")
    plain = [[{k: v for k, v in each.items() if k not in secret_parts} for each in log] for log in logs]
    assert plain[0] == plain[1]


def test_who_reads_the_log_cannot_find_out_what_was_asked_or_answered(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    s = session(ledger)
    s.ask(COUNT, 0.5)
    kept = next(each for each in ledger.entries() if each.kind == "settle")
    shown = kept.shown()
    assert (shown.body, shown.nonce) == ("", "")
    for guess in range(-1000, 1000):  # the answer is one of these, and the log tells not which
        body = json.dumps([[guess]])
        assert hashlib.sha256(f":{body}".encode()).hexdigest() != shown.seal
        assert replace(shown, body=body).own_hash() == shown.hash  # the hash covers the seal alone
    # The key is that of nobody who has not the secret, even who knows every fact that goes into it.
    claim = s._claim(s._plan(dp.count().where(dp.col("age") >= 40), 500_000), "me")
    assert ledger.key_of(claim) == kept.key
    assert Ledger().key_of(claim) != kept.key
    assert hashlib.sha256(claim.facts.encode()).hexdigest() != kept.key


def test_an_auditor_checks_the_chain_from_what_is_shown(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    session(ledger).ask(COUNT, 0.5)
    shown = [Entry(**json.loads(json.dumps(asdict(each.shown())))) for each in ledger.entries()]
    assert replay(shown, ledger.head()).holds
    shown[-1] = replace(shown[-1], seal="0" * 64)
    assert not replay(shown, ledger.head()).holds


def test_the_secret_is_in_no_backup_and_no_file_is_for_others(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    session(ledger).ask(COUNT, 0.5)
    backup(ledger, tmp_path / "b.jsonl")
    secret = (tmp_path / "l.db.secret").read_text().strip()
    assert len(secret) == 64
    for name in ("l.db", "l.db-wal", "b.jsonl"):
        data = (tmp_path / name).read_bytes()
        assert secret.encode() not in data
        assert bytes.fromhex(secret) not in data
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    (tmp_path / "l.db.secret").chmod(0o644)
    with pytest.raises(LedgerError, match="readable by its owner only"):
        Ledger(tmp_path / "l.db").ready()
    (tmp_path / "l.db").chmod(0o644)
    Ledger(tmp_path / "l.db").close()
    assert stat.S_IMODE((tmp_path / "l.db").stat().st_mode) == 0o600


def test_a_lost_secret_is_made_anew_and_no_charge_is_lost(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    session(ledger).ask(COUNT, 0.5)
    ledger.close()
    (tmp_path / "l.db.secret").unlink()
    again = Ledger(tmp_path / "l.db")
    with pytest.raises(
        LedgerError, match="is missing: put it back, or make another with 'shoal ledger rekey'"
    ):
        session(again)
    again.rekey()
    answer = session(again).ask(COUNT, 0.5)
    assert (answer.epsilon, again.spent("clinic")) == (0.5, 1_000_000)  # asked and charged anew
    assert again.verify().holds
    again.close()
    (tmp_path / "l.db.secret").write_text("ab" * 32)
    with pytest.raises(LedgerError, match="kept under another secret"):
        Ledger(tmp_path / "l.db").ready()


def test_times_in_the_log_tell_nothing_of_the_work(tmp_path):
    ledger = Ledger(tmp_path / "l.db", slot_seconds=2.0)
    ledger._slot = 0.0  # the clock of the log, without the waiting
    ledger.declare("d", 10**6)
    ledger.once(_claim("1"), lambda: time.sleep(1.1) or "1")
    kept = [each for each in ledger.entries() if each.kind in ("charge", "settle")]
    assert kept[0].at == kept[1].at
    assert int(kept[0].at[17:19]) % 2 == 0
    assert kept[0].at.endswith(":" + kept[0].at[17:19] + "+00:00")


class Clock:
    """Time that passes where somebody sleeps, and nowhere else."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds


def test_answers_and_refusals_leave_at_whole_slots(monkeypatch):
    """A drawn answer, a stored one and a refusal, whatever the work took; drawn ones are stored a quarter before."""
    clock, stored_at = Clock(), []
    monkeypatch.setattr("shoal.dp.ledger.ledger.time", clock)
    ledger = Ledger(
        slot_seconds=0.2, _hook=lambda step: step == "settle-begun" and stored_at.append(clock.now)
    )
    ledger.declare("d", 10**6)

    def slots(question, work=0.0, micro=1000):
        start = clock.now
        try:
            ledger.once(_claim(question, micro), lambda: clock.sleep(work) or "1")
        finally:
            taken.append((clock.now - start) / 0.2)

    taken = []
    for work in (0.0, 0.05, 0.149, 0.151, 0.349, 0.36):
        slots(str(work), work)
    slots("0.36")  # what is stored
    with pytest.raises(BudgetError):
        slots("much", micro=10**7)
    assert taken == pytest.approx([1, 1, 1, 2, 2, 3, 1, 1])
    starts = 1000.0 + 0.2 * np.cumsum([0, *taken[:-1]])
    early = [(at - start) / 0.2 for at, start in zip(stored_at, starts, strict=False)]
    assert early == pytest.approx([0.75, 0.75, 0.75, 1.75, 1.75, 2.75])


def _claim(question, micro=1000, unit=None, analyst="ann"):
    return Claim("d", analyst, question, "", Amount(micro), unit or dp.AddRemoveRecord())


# --- costs and refusals


def test_an_answer_that_is_stored_leaves_like_one_that_is_drawn(monkeypatch):
    """The last thing anybody waits for is the end of a slot, with no turn held: time tells nothing about the store."""
    steps = []
    made = Ledger(slot_seconds=0.01, _hook=steps.append)
    made.declare("d", 10**6)
    monkeypatch.setattr(
        "shoal.dp.ledger.ledger.time.sleep",
        lambda seconds: steps.append(f"sleep, {len(made._turns._turns)} held"),
    )
    for analyst in ("ann", "bob"):
        made.once(Claim("d", analyst, "q", "", Amount(1), AddRemoveRecord()), lambda: "1")
    last = [at for at, step in enumerate(steps) if step == "sleep, 0 held"]
    assert len(last) == 2
    assert steps.index("settle-committed") < last[0]
    assert last[1] == len(steps) - 1


def test_a_lost_answer_stays_lost_whoever_asks_later():
    """That another analyst asked the same afterwards is not told by one's own past answers."""
    schema = Schema({"x": Column("x", bounds=(0, 1))}, id="lost")
    session = Session(pl.DataFrame({"x": [0.0, 1.0]}), schema, budget=10.0)

    def fails(plan):
        raise ConnectionError

    sound, session._draw = session._draw, fails
    with pytest.raises(ConnectionError):
        session.ask("SELECT COUNT(*) FROM t", 1.0, analyst="ann")
    session._draw = sound
    session.ask("SELECT COUNT(*) FROM t", 1.0, analyst="bob")
    assert [each.answer for each in past([session], "ann")] == [None]
    assert past([session], "bob")[0].answer is not None


def test_cost_tells_nothing_about_changed_rows(tmp_path):
    changed = pl.DataFrame({"age": [20, 50, 71]})
    for version in ("May", None):
        ledger = Ledger(tmp_path / f"{version}.db")
        session(ledger, data_version=version).ask(COUNT, 0.5)
        same = session(ledger, data_version=version).cost(COUNT, 0.5)
        other = session(ledger, changed, data_version=version).cost(COUNT, 0.5)
        assert same == other
        assert same.epsilon == (0.0 if version else 0.5)


def test_refusals_and_costs_tell_an_analyst_about_that_analyst_only():
    """With and without bob, ann sees the same: costs, what remains, answers' charges, and the words of refusals."""
    seen = []
    for bobs in ((), ("SELECT SUM(age) FROM t", COUNT)):
        ledger = Ledger()
        s = session(ledger, budget=2.0, per_analyst=0.5)
        for sql in bobs:
            s.ask(sql, 0.2, analyst="bob")
        told = [
            s.remaining("ann"),
            s.cost(COUNT, 0.2, analyst="ann"),
            s.ask(COUNT, 0.2, analyst="ann").epsilon,
        ]
        with pytest.raises(BudgetError) as caught:
            s.ask("SELECT MAX(age) FROM t", 0.4, analyst="ann")
        seen.append([*told, str(caught.value), s.remaining("ann")])
    assert seen[0] == seen[1]


def test_a_refusal_tells_neither_the_total_nor_what_is_stored():
    s = session(Ledger(), budget=1.0, per_analyst=1.0)
    s.ask(COUNT, 0.9, analyst="bob")
    said = []
    for sql in (COUNT, "SELECT COUNT(*) FROM t WHERE age >= 41"):  # bob's question, and one that nobody asked
        with pytest.raises(BudgetError) as caught:
            s.ask(sql, 0.9, analyst="ann")
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert said[0] == CLOSED
    assert s.ask(COUNT, 0.9, analyst="bob").epsilon == 0.0  # one's own stays


def test_what_is_left_of_the_data_set_cannot_be_searched_for():
    """Whatever the others have spent, an analyst sees the same answers and refusals after the first at the data set's cap."""
    seen = []
    for others in (0.5, 0.7, 0.9, 1.0):
        s = session(Ledger(), budget=1.0, per_analyst=1.0)
        s.ask(COUNT, others, analyst="bob")
        told = []
        for step, asked in enumerate((0.6, 0.3, 0.15, 0.075, 0.001)):  # by halving
            with pytest.raises(BudgetError) as caught:
                s.ask(f"SELECT COUNT(*) FROM t WHERE age >= {step}", asked, analyst="ann")
            told.append((str(caught.value), s.remaining("ann"), s.cost(COUNT, 0.1, analyst="ann").affordable))
        seen.append(told)
    assert all(each == seen[0] for each in seen)
    assert set(seen[0]) == {(CLOSED, 0.0, False)}


def test_asks_that_meet_in_one_transaction_cannot_search_either():
    ledger = Ledger(slot_seconds=0.05)
    s = session(ledger, budget=1.0, per_analyst=1.0)
    s.ask(COUNT, 0.5, analyst="bob")
    given = []

    def one(asked):
        with contextlib.suppress(BudgetError):
            s.ask(COUNT, asked, analyst="ann")
            given.append(asked)

    first = threading.Thread(target=one, args=(0.9,))
    first.start()
    first.join()
    rest = [threading.Thread(target=one, args=(0.01 * (i + 1),)) for i in range(8)]
    for each in rest:
        each.start()
    for each in rest:
        each.join()
    assert not given
    assert ledger.verify().holds


def test_the_owner_opens_a_closed_data_set_again(tmp_path):
    where = tmp_path / "l.db"
    s = session(where, budget=1.0, per_analyst=0.8)
    mine = s.ask("SELECT SUM(age) FROM t", 0.1, analyst="ann")
    s.ask(COUNT, 0.7, analyst="bob")
    with pytest.raises(BudgetError, match="of this analyst"):  # one's own cap closes nothing
        s.ask(COUNT, 0.75, analyst="ann")
    assert s.remaining("ann") == 0.7
    with pytest.raises(ClosedError):
        s.ask(COUNT, 0.3, analyst="ann")
    for opened in (s, session(where, budget=1.0)):  # it lasts over a start
        with pytest.raises(ClosedError):
            opened.ask(COUNT, 0.01, analyst="ann")
        again = opened.ask("SELECT SUM(age) FROM t", 0.1, analyst="ann")
        assert (again.value, again.epsilon, again.remaining) == (mine.value, 0.0, 0.0)
    s.ask("SELECT MAX(age) FROM t", 0.05, analyst="bob")  # others go on
    with Ledger(where) as other:  # another process of the owner's, with the caps as they were
        other.set_caps("clinic", 1_000_000, 800_000, by="the owner")
    assert s.ask(COUNT, 0.01, analyst="ann").remaining == 0.69
    assert Ledger(where).verify().holds


def test_a_charge_for_whom_the_data_set_is_closed_breaks_the_chain():
    ledger = Ledger()
    ledger.declare("d", 1_000_000)
    ledger.once(_claim("1", analyst="bob", micro=900_000), lambda: "1")
    with pytest.raises(ClosedError):
        ledger.once(_claim("2", analyst="ann", micro=200_000), lambda: "1")
    ledger.store.write(lambda w: w.add(w.last("d", "ann"), "charge", "ann", "k", micro=1))
    assert ledger.verify().problem == "entry 5 was charged to an analyst for whom the data set was closed"


def test_a_smaller_budget_of_a_session_is_ones_own():
    """A session's tighter total, reached by the analyst alone, is told as the analyst's."""
    ledger = Ledger()
    session(ledger, budget=2.0)
    s = session(ledger, budget=0.5)
    s.ask(COUNT, 0.4)
    with pytest.raises(BudgetError, match=r"of this analyst does not allow epsilon 0\.2: 0\.1 of 0\.5"):
        s.ask("SELECT SUM(age) FROM t", 0.2)
    assert s.remaining() == 0.1


# --- whom the unit's ids stand for


def _people(**reads):
    columns = {"who": Column("who", kind="category", **reads), "age": Column("age", bounds=(0, 110))}
    return Schema(columns, id="people", unit=Unit("who", 2))


@pytest.mark.parametrize("reads", [{"numeric_id": True}, {"normalize": True}])
@pytest.mark.parametrize("given", [None, dp.AddRemoveUnit("who", 2)])
def test_ids_read_in_another_way_are_another_unit(reads, given):
    """`007` and `7` are two persons as texts and one as numbers, so totals of the two readings do not add up."""
    table, ledger = pl.DataFrame({"who": ["007", "7", "8"], "age": [1, 2, 3]}), Ledger()
    Session(table, _people(), budget=9.0, ledger=ledger, unit=given).ask(COUNT, 1)
    again = Session(table, _people(**reads), budget=9.0, ledger=ledger, unit=given)
    with pytest.raises(BudgetError, match="in the unit 'column:who' for life"):
        again.ask(COUNT, 1)
    fresh = Ledger()
    Session(table, _people(**reads), budget=9.0, ledger=fresh, unit=given).ask(COUNT, 1)
    assert fresh.unit("people") == "column:who" + (
        " (as numbers)" if reads.get("numeric_id") else " (in NFC)"
    )


def test_a_session_cannot_raise_the_cap(tmp_path):
    where = tmp_path / "l.db"
    session(where, budget=1.0).ask(COUNT, 0.9)
    for words in ({"budget": 5.0}, {"budget": 1.0, "per_analyst": 9.0, "analyst": "x"}, {"budget": None}):
        if words["budget"] == 5.0:
            with pytest.raises(
                BudgetError,
                match=r"holds data set 'clinic' to a budget of epsilon 1\.0, which only its owner",
            ):
                session(where, **words)
        else:
            with pytest.raises(BudgetError, match="does not allow"):
                session(where, **words).ask("SELECT SUM(age) FROM t", 0.5)
    with pytest.raises(BudgetError, match="does not allow"):  # a smaller one holds for its session
        session(where, budget=0.95).ask("SELECT SUM(age) FROM t", 0.06, analyst="bob")
    with Ledger(where) as ledger:
        ledger.set_caps("clinic", 3_000_000, by="the owner")
        assert [each.analyst for each in ledger.entries() if each.kind == "caps"] == ["owner", "the owner"]
    assert session(where, budget=3.0).ask("SELECT SUM(age) FROM t", 1.5).remaining == 0.6
    assert Ledger(where).verify().holds


def test_a_currency_is_for_life():
    from shoal.dp.ledger.claims import Amount

    ledger = Ledger()
    ledger.declare("d", 10**6, currency="zcdp")
    with pytest.raises(BudgetError, match="counted in rho for life"):
        ledger.once(_claim("1"), lambda: "1")
    paid = replace(_claim("1"), cost=Amount(1000, "zcdp"))
    assert ledger.once(paid, lambda: "1").charged == 1000
    with pytest.raises(BudgetError, match="counted in rho for life"):
        ledger.declare("d", 10**6, currency="pure")
    with pytest.raises(ParameterError, match="A cost must be"):
        Amount(0)


# --- the chain, its anchor and its layout


def test_a_ledger_rolled_back_or_replaced_is_noticed(tmp_path):
    where, anchor = tmp_path / "l.db", tmp_path / "anchor.txt"
    with Ledger(where, anchor=Anchor(anchor)) as ledger:
        session(ledger).ask(COUNT, 0.5)
        backup(ledger, tmp_path / "old.jsonl")
        session(ledger).ask("SELECT SUM(age) FROM t", 0.5)
        head = ledger.head().hash
    assert anchor.read_text().split()[:2] == [str(ledger.head().seq), head]
    with Ledger(where, expects=head) as same, Ledger(where, anchor=Anchor(anchor)) as anchored:
        session(same).ask(COUNT, 0.25)
        anchored.ready()
        assert same.verify(head).holds
    for old in ("rolled back", "replaced"):
        for ending in ("", "-wal", "-shm"):
            (tmp_path / f"l.db{ending}").unlink(missing_ok=True)
        if old == "rolled back":
            with Ledger(where, secret=tmp_path / "l.db.secret") as empty:
                restore(empty, tmp_path / "old.jsonl")
        for opened in (Ledger(where, expects=head), Ledger(where, anchor=Anchor(anchor))):
            with (
                opened,
                pytest.raises(
                    LedgerError, match="head expected is not in it, so it was rolled back or replaced"
                ),
            ):
                session(opened)


def test_a_ledger_changed_under_our_hands_is_noticed(tmp_path, monkeypatch):
    where = tmp_path / "l.db"
    ledger = Ledger(where)
    s = session(ledger)
    for i in range(3):
        s.ask(f"SELECT COUNT(*) FROM t WHERE age > {i}", 0.1)
    monkeypatch.setattr("shoal.dp.ledger.watch.CHECK_SECONDS", 0.0)
    s.ask(COUNT, 0.1)
    with sqlite3.connect(where) as raw:
        raw.execute("DELETE FROM shoal_entries WHERE seq > 6")
        raw.execute("UPDATE shoal_head SET seq = 6, hash = (SELECT hash FROM shoal_entries WHERE seq = 6)")
    for _ in range(2):
        with pytest.raises(LedgerError, match="chain is broken, so nothing is answered"):
            s.ask("SELECT COUNT(*) FROM t WHERE age > 9", 0.1)


def test_an_anchor_takes_a_command_and_no_answer_depends_on_it(tmp_path, caplog):
    script = f"import sys; open({str(tmp_path / 'sent')!r}, 'a').write(sys.stdin.read())"
    with Ledger(anchor=Anchor(command=[sys.executable, "-c", script])) as ledger:
        session(ledger).ask(COUNT, 0.5)
    assert (tmp_path / "sent").read_text().split()[1] == ledger._anchor._sent.hash
    with Ledger(anchor=Anchor(tmp_path / "no" / "such", ["/nothing/of/the/kind"])) as ledger:
        assert session(ledger).ask(COUNT, 0.5).epsilon == 0.5
    assert "could not be anchored" in caplog.text


FIRST_LAYOUT = """
CREATE TABLE shoal_entries (seq BIGINT PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, dataset TEXT NOT NULL,
 unit TEXT NOT NULL, analyst TEXT NOT NULL, "key" TEXT NOT NULL, micro BIGINT NOT NULL, dataset_total BIGINT NOT NULL,
 analyst_total BIGINT NOT NULL, ended INTEGER NOT NULL, refers BIGINT NOT NULL, body TEXT NOT NULL,
 previous TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE shoal_head (id INTEGER PRIMARY KEY, seq BIGINT NOT NULL, hash TEXT NOT NULL);
"""


def test_a_ledger_of_the_first_layout_is_brought_up_to_date(tmp_path):
    row = [1, "2026-01-01T00:00:00.000+00:00", "charge", "clinic", "record", "me", "k", 500_000, 500_000, 500_000, 0, 0,
           "SELECT COUNT(*)", "0" * 64]  # fmt: skip
    digest = hashlib.sha256(json.dumps(row).encode()).hexdigest()
    with sqlite3.connect(tmp_path / "l.db") as raw:
        raw.executescript(FIRST_LAYOUT)
        raw.execute(f"INSERT INTO shoal_entries VALUES ({','.join('?' * 15)})", [*row, digest])
        raw.execute("INSERT INTO shoal_head VALUES (1, 1, ?)", [digest])
    with Ledger(tmp_path / "l.db") as ledger:
        assert ledger.verify().holds
        assert ledger.spent("clinic", "me") == 500_000
        assert session(ledger).ask(COUNT, 0.5).remaining == 1.0
        assert ledger.verify().holds
    with sqlite3.connect(tmp_path / "l.db") as raw:
        raw.execute("UPDATE shoal_layout SET version = 99")
    with pytest.raises(LedgerError, match="later version of Shoal: layout 2 at most was expected. Got 99"):
        Ledger(tmp_path / "l.db")


def test_odd_ledger_files_are_one_sentence(tmp_path):
    where = tmp_path / "l.db"
    with Ledger(where) as ledger:
        s = session(ledger)
        for i in range(40):
            s.ask(f"SELECT COUNT(*) FROM t WHERE age > {i}", 0.01)
    whole = where.read_bytes()
    for data in (
        whole[: len(whole) // 2],
        whole[:100],
        b"\x00" * 8192,
        whole[:4096] + b"\xff" * 4096 + whole[8192:],
    ):
        for ending in ("-wal", "-shm"):
            (tmp_path / f"l.db{ending}").unlink(missing_ok=True)
        where.write_bytes(data)
        with pytest.raises(LedgerError) as caught, Ledger(where) as cut:
            session(cut).ask(COUNT, 0.1)
        assert "\n" not in str(caught.value)


# --- one way to spend, for all


def test_every_release_is_charged_by_the_same_function(monkeypatch):
    """Sessions, tau, Pufferfish, dependent answers, tables and graphs: none spends but through `Ledger.once`."""
    called = []
    once = Ledger.once
    monkeypatch.setattr(
        Ledger, "once", lambda self, claim, draw: called.append(claim.question) or once(self, claim, draw)
    )
    session(Ledger()).ask(COUNT, 0.5)
    schema = replace(SCHEMA, id="cells", budget=1.0)
    cells = dp.correlation.Grid(schema, ["age"], 400)
    Session(TABLE, schema, "correlated", model=cells).buy_tau(0.5)
    ill, well = (lambda world: world[0] == 1), (lambda world: world[0] == 0)
    family = Scenario({(0,): "1/2", (1,): "1/2"})
    Pufferfish({"ill": ill, "well": well}, [("ill", "well")], [family]).ask(sum, 0.5, (1,), text="ill")
    DependentDP([[1]], (0, 1)).ask([1], 0.5, text="dependent")
    release_table(pl.DataFrame({"age": [1, 2, 3, 4]}), replace(SCHEMA, budget=1.0), 4, 0.5)
    release_graph(pl.DataFrame({"a": [1, 2, 3], "b": [2, 3, 4]}), 1, 90.0)
    assert [each.split()[0] for each in called] == ["SELECT", "TAU", "ill", "dependent", "RELEASE", "RELEASE"]


def test_pufferfish_and_dependent_answers_say_that_the_total_has_ended():
    ledger = Ledger()
    ledger.end_total("f", "protected copy")
    family = Scenario({(0,): "1/2", (1,): "1/2"})
    secrets = {"ill": lambda world: world[0] == 1, "well": lambda world: world[0] == 0}
    p = Pufferfish(secrets, [("ill", "well")], [family], dataset="f", ledger=ledger)
    assert p.ask(sum, 0.5, (1,)).guarantee.endswith("; the ledger total of this data set has ended")
    ledger.end_total("g", "protected copy")
    answer = DependentDP([[1]], (0, 1), dataset="g", ledger=ledger).ask([1], 0.5)
    assert answer.guarantee.endswith("; the ledger total of this data set has ended")


@pytest.mark.parametrize("far", [10**19, 10**400, Fraction(1, 10**400)])
def test_what_could_overflow_in_one_world_is_refused_before_the_charge_in_all(far):
    secrets = {"ill": lambda world: world[0] == 1, "well": lambda world: world[0] == 0}
    worlds = Scenario({(0, 0): "1/4", (1, 0): "1/4", (0, 1): "1/4", (1, 1): "1/4"})
    said = set()
    for world in worlds.worlds:
        ledger = Ledger()
        p = Pufferfish(secrets, [("ill", "well")], [worlds], dataset="f", ledger=ledger)
        with pytest.raises(ParameterError) as caught:
            p.ask(lambda world: world[0] + far * world[1], 0.5, world)
        said.add(str(caught.value))
        assert ledger.spent("f") == 0
    assert len(said) == 1


def test_after_the_charge_a_query_that_fails_in_one_world_is_answered():
    chain = MarkovChain(["1/2", "1/2"], [["7/10", "3/10"], ["3/10", "7/10"]], length=30)

    def query(world):
        if world[0]:
            raise ValueError("a private fact")
        return 10**400 if world[1] else sum(world)

    for world in ((0,) * 30, (1,) + (0,) * 29, (0, 1) + (0,) * 28):
        p = Pufferfish({}, [], [chain], data_version="1")
        answer = p.ask(query, 2.0, world, mechanism="quilt", lipschitz=1, width=3)
        assert isinstance(answer.value, float)


def test_a_dependent_value_that_is_no_number_is_the_lower_bound_and_is_not_quoted():
    for odd in (float("nan"), "a private cell", None, 10**400, float("inf")):
        answer = DependentDP([[1, 0], [0, 1]], (0, 1)).ask([odd, 1], 0.5)
        assert isinstance(answer.value, float)
    with pytest.raises(ShoalError):
        DependentDP([[1]], (0, 10**400)).ask([1], 0.5)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT COUNT(*) FROM t WHERE age = 1\x00", "control characters"),
        ("SELECT COUNT(*) FROM t WHERE age = '\ud800'", "control characters"),
        ("SELECT COUNT(*) FROM t WHERE age IN (" + ",".join(map(str, range(1500))) + ")", "at most 1000"),
        ("SELECT COUNT(*) FROM t WHERE age = " + "9" * 19_000, "below 1e308"),
        ("SELECT COUNT(*) FROM t WHERE age = '" + "9" * 19_000 + "x'", "at most"),
        ("SELECT " + "1" * 10_000_000, "at most 20000 characters"),
        ("SELECT COUNT(*) FROM t WHERE age > 1e400", "below 1e308"),
        ("SELECT COUNT(*) FROM t WHERE age > " + "9" * 400, "below 1e308"),
        ("SELECT SUM(age - " + "9" * 400 + ") FROM t", "below 1e308"),
        ("SELECT COUNT(*) / " + "9" * 400 + " FROM t", "below 1e308"),  # broke off after its charge
        ("SELECT COUNT(*) FROM t LIMIT " + "9" * 5000, "need a whole number"),
        ("SELECT COUNT(*) FROM t WHERE age > INTERVAL '²' DAY", "whole number of days"),
        ("SELECT COUNT(*) FROM t WHERE age > INTERVAL '--5' DAY", "whole number of days"),
    ],
)
def test_long_and_odd_questions_cost_no_time_and_no_budget(sql, words):
    s = session(Ledger())
    start = time.process_time()
    with pytest.raises(ShoalError, match=words):
        s.ask(sql, 0.5)
    assert time.process_time() - start < 1.0
    assert s.ledger.spent("clinic") == 0


def test_figures_over_all_groups_are_bounded():
    levels = tuple(f"L{i}" for i in range(3000))
    schema = Schema({"z": Column("z", kind="category", levels=levels)}, id="many")
    s = Session(pl.DataFrame({"z": ["L1"]}), schema, budget=1.0)
    figures = ", ".join(f"COUNT(CASE WHEN z = 'L{i}' THEN 1 END) AS a{i}" for i in range(40))
    with pytest.raises(
        ShoalError, match="at most 100000 figures over all its groups. Got 40 for each of 3000"
    ):
        s.ask(f"SELECT {figures} FROM t GROUP BY z", 0.5)


@pytest.mark.parametrize("name", ["group", "cell", "bin", "value", "shoal:group"])
def test_a_column_may_have_any_name(name):
    """A column named `group` was once overwritten under GROUP BY."""
    schema = Schema(
        {name: Column(name, bounds=(0, 100)), "sex": Column("sex", kind="category", levels=("f", "m"))}
    )
    s = Session(pl.DataFrame({name: [7.0] * 50, "sex": ["f"] * 50}), schema, budget=1e5)
    rows = s.ask(
        f'SELECT sex, SUM("{name}") AS x, COUNT(*) AS n FROM t WHERE "{name}" > 5 GROUP BY sex', 2000.0
    ).value
    assert [row["n"] for row in rows] == [50, 0]
    assert rows[0]["x"] == pytest.approx(350, abs=3)


def test_a_restored_backup_keeps_the_data_set_closed(tmp_path):
    with Ledger(tmp_path / "l.db") as ledger:
        s = session(ledger, budget=1.0, per_analyst=1.0)
        s.ask(COUNT, 0.9, analyst="bob")
        with pytest.raises(ClosedError):
            s.ask(COUNT, 0.5, analyst="ann")
        backup(ledger, tmp_path / "b.jsonl")
    with Ledger(tmp_path / "new.db", secret=tmp_path / "l.db.secret") as other:
        restore(other, tmp_path / "b.jsonl")
        with pytest.raises(ClosedError):
            session(other, budget=1.0).ask(COUNT, 0.001, analyst="ann")
        assert other.verify().holds
