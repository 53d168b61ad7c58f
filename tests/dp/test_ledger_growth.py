"""What a question costs does not grow with the ledger, whoever wrote the entries before it."""

import polars as pl
import sqlalchemy as sa

from shoal.dp import AddRemoveRecord, Ledger, Session
from shoal.dp.ledger.claims import Amount, Claim
from shoal.dp.ledger.writer import store_answer, take_charge
from shoal.release import KeptReleases
from shoal.schema import Column, Schema

SCHEMA = Schema({"age": Column("age", bounds=(0, 110))}, id="t", budget=1e6, version="1")
STEP = 10  # instructions of SQLite between two looks


def grow(ledger, entries, analyst="ann"):
    """Add questions and answers in one transaction."""

    def write(writer):
        for i in range(entries // 2):
            claim = Claim("t", analyst, f"question {writer.head.seq} {i}", "1", Amount(10), AddRemoveRecord())
            key = ledger.key_of(claim)
            store_answer(writer, claim, key, take_charge(writer, claim, key), "12")

    ledger.store.write(write)


def counted(ledger):
    """A list that grows with what SQLite does for this ledger."""
    looks = []

    @sa.event.listens_for(ledger.store.engine, "connect")
    def _connect(connection, _record):
        connection.set_progress_handler(lambda: looks.append(1), STEP)

    ledger.store.engine.dispose()
    return looks


def work_of(looks, act):
    before = len(looks)
    act()
    return STEP * (len(looks) - before)


def test_a_charge_after_another_process_wrote_reads_no_more_than_before(tmp_path):
    ours, theirs = Ledger(tmp_path / "ledger.db"), Ledger(tmp_path / "ledger.db")
    ours.declare("t", 10**12)
    looks = counted(ours)

    def ask(text):
        claim = Claim("t", "ann", text, "1", Amount(10), AddRemoveRecord())
        return lambda: ours.once(claim, lambda: "12")

    grow(theirs, 100)
    ask("a first one")()
    grow(theirs, 100)
    few = work_of(looks, ask("few entries"))
    again = work_of(looks, ask("few entries"))
    for _ in range(20):
        grow(theirs, 200)
        ours.once(Claim("t", "ben", "now and then", "1", Amount(10), AddRemoveRecord()), lambda: "12")
    grow(theirs, 100)
    assert work_of(looks, ask("many entries")) < 1.5 * few
    assert work_of(looks, ask("few entries")) < 1.5 * again + 500
    assert work_of(looks, lambda: ours.remaining("t", "ann")) < few
    ours.close()
    theirs.close()


def test_looking_for_bought_tables_reads_only_what_is_new(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    frame = pl.DataFrame({"age": [31, 45, 62]})
    session = Session(frame, SCHEMA, ledger=ledger, analyst="ann", releases=[KeptReleases(ledger, SCHEMA)])
    looks = counted(ledger)
    session.ask("SELECT COUNT(*) FROM t WHERE age > 1", 0.1)
    few = work_of(looks, lambda: session.ask("SELECT COUNT(*) FROM t WHERE age > 2", 0.1))
    grow(ledger, 4000)
    session.ask("SELECT COUNT(*) FROM t WHERE age > 3", 0.1)
    assert work_of(looks, lambda: session.ask("SELECT COUNT(*) FROM t WHERE age > 4", 0.1)) < 1.5 * few
    ledger.close()
