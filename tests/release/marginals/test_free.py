"""What was bought answers for nothing: whoever paid for it, of the same data, at least as exactly as asked for."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from shoal.dp import Ledger, Session
from shoal.errors import InputError
from shoal.release import KeptReleases, load_release, release_marginals
from shoal.release.marginals._ask import CUT, FREE
from shoal.schema import Column, Schema, Unit

COLUMNS = {
    "age": Column("age", bounds=(0, 19), step=1, breaks=(5, 10, 15)),
    "sex": Column("sex", role="quasi", kind="category", levels=("f", "m")),
    "job": Column("job", role="quasi", kind="category", levels=("a", "b", "c")),
}
SCHEMA = Schema(COLUMNS, id="t", budget=50.0, version="1")
COVERED = "SELECT COUNT(*) FROM t WHERE age >= 10 AND sex = 'f'"


def table(n=900):
    rng = np.random.default_rng(3)
    ids = np.arange(n) // 2
    return pl.DataFrame(
        {
            "age": rng.integers(0, 20, n),
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(["a", "b", "c"], n),
            "who": ids.astype(str),
        }
    )


def bought(ledger, schema=SCHEMA, **options):
    options = {"marginals": [("age", "sex")], **options}
    return release_marginals(table(), schema, 20.0, ledger=ledger, **options)


def session(ledger, schema=SCHEMA, **options):
    return Session(table(), schema, ledger=ledger, releases=[KeptReleases(ledger, schema)], **options)


def test_who_holds_a_release_asks_it_before_spending():
    ledger = Ledger()
    out = bought(ledger)
    before = ledger.spent("t")
    answer = session(ledger).ask(COVERED, epsilon=0.5)
    true = table().filter((pl.col("age") >= 10) & (pl.col("sex") == "f")).height
    assert (answer.epsilon, answer.entry) == (0.0, out.entry)
    assert FREE in answer.notes
    assert answer.guarantee == out.guarantee
    assert answer.interval[0] <= true + 6
    assert answer.interval[1] >= true - 6
    assert ledger.spent("t") == before
    assert answer.remaining == 30.0
    assert session(ledger).cost(COVERED, 0.5).epsilon == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM t WHERE age >= 10 AND job = 'a'",  # not measured together
        "SELECT MEDIAN(age) FROM t",
        "SELECT COUNT(*) FROM t WHERE age >= 12 AND sex = 'f'",  # cuts a bin: the interval is wider than what is paid
        "SELECT COUNT(*) FROM t WHERE age + 1 >= 10",
    ],
)
def test_what_it_does_not_know_is_paid_for(query):
    ledger = Ledger()
    bought(ledger)
    assert session(ledger).ask(query, epsilon=0.5).epsilon == 0.5


def test_a_better_answer_than_the_release_has_is_paid_for():
    ledger = Ledger()
    bought(ledger)
    assert session(ledger).ask(COVERED, epsilon=30.0).epsilon == 30.0


def test_others_pay_and_so_does_other_data():
    ledger = Ledger()
    bought(ledger)
    assert session(ledger).ask(COVERED, epsilon=0.5, analyst="ann").epsilon == 0.5
    assert session(ledger, data_version="2").ask(COVERED, epsilon=0.5).epsilon == 0.5
    changed = dataclasses.replace(
        SCHEMA, columns={**COLUMNS, "sex": dataclasses.replace(COLUMNS["sex"], reason="x")}
    )
    assert session(ledger, changed).ask(COVERED, epsilon=0.5).epsilon == 0.5


def test_a_release_bought_later_or_received_by_another_is_found():
    ledger = Ledger()
    open_session = session(ledger)
    assert open_session.ask(COVERED, epsilon=0.01).epsilon == 0.01
    bought(ledger)
    bought(ledger, analyst="ann")  # the same one: charged to ann, drawn once
    assert ledger.spent("t") == 20_010_000
    first, second = (open_session.ask(COVERED, epsilon=0.5, analyst=who) for who in ("me", "ann"))
    assert first.epsilon == second.epsilon == 0.0
    assert first.value == second.value


def test_groups_and_averages_come_from_the_release():
    ledger = Ledger()
    out = bought(ledger)
    held = KeptReleases(ledger, SCHEMA).of("me")
    assert [each.entry for each in held] == [out.entry]
    assert ["age", "sex"] in held[0].to_dict()["measured"]
    grouped = session(ledger).ask("SELECT COUNT(*) FROM t GROUP BY sex", epsilon=0.1)
    assert grouped.epsilon == 0.0
    assert len(grouped.value) == 2
    mean = session(ledger).ask("SELECT AVG(age) FROM t WHERE sex = 'm'", epsilon=0.1)
    assert mean.epsilon == 0.0
    assert mean.interval[0] <= 9.5 <= mean.interval[1]


def test_a_given_release_serves_a_session_without_a_ledger_and_from_a_file(tmp_path):
    out = release_marginals(table(), SCHEMA, 20.0, marginals=2, delta=1e-9)
    pure = dataclasses.replace(SCHEMA, budget=1.0)
    assert Session(table(), pure, releases=[out]).ask(COVERED, epsilon=0.2).epsilon == 0.0
    out.save(tmp_path / "r.json")
    kept = load_release(tmp_path / "r.json", SCHEMA)
    assert kept.ask(COVERED).value == out.ask(COVERED).value
    assert kept.model.rows(5).equals(out.model.rows(5))
    with pytest.raises(InputError, match="another schema"):
        load_release(tmp_path / "r.json", dataclasses.replace(SCHEMA, version="2"))
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(InputError, match="must be a release"):
        load_release(tmp_path / "x.json", SCHEMA)


def test_where_rows_of_a_unit_were_cut_the_interval_says_so():
    persons = dataclasses.replace(SCHEMA, unit=Unit("who", 1))
    answer = bought(Ledger(), persons).ask(COVERED)
    assert answer.interval is None
    assert answer.cut_interval is not None
    assert answer.cautions == (CUT,)


def test_a_charge_whose_table_was_lost_hides_no_later_table(monkeypatch):
    ledger = Ledger()
    with monkeypatch.context() as broken:

        def crash(*_):
            raise MemoryError

        broken.setattr("shoal.release.marginals._release.buy", crash)
        with pytest.raises(MemoryError):
            bought(ledger)
    kept = KeptReleases(ledger, SCHEMA)
    assert kept.of("me") == []
    out = bought(ledger, marginals=[("age", "job")])
    assert [each.entry for each in kept.of("me")] == [out.entry]
    assert [each.entry for each in kept.of("me")] == [out.entry]  # read once
