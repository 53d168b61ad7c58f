"""The check of what would be published, counted by hand on six rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import polars as pl
import pytest

from shoal.errors import GuaranteeError
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages import check
from shoal.publish.stages.roles import Roles, settle_roles
from shoal.publish.treatments.groups import refuse_interrupted

TABLE = pl.DataFrame(
    {
        "age": [20.0, 20.0, 20.0, 30.0, 30.0, None],
        "town": ["a", "a", "b", "b", "b", "b"],
        "ill": ["flu", "cold", "cold", "cold", "cold", "flu"],
        "home": [1, 1, 2, 3, 4, 5],
    }
)


@dataclass(frozen=True)
class Decision:
    """All that the check needs to know of a run."""

    request: ProtectionRequest
    roles: Roles


def decided(k: int = 2, **more) -> Decision:
    request = ProtectionRequest(
        k=k, columns=("age",), leave=("town",), sensitive=("ill",), households="home", **more
    )
    return Decision(request, settle_roles(TABLE, request))


def classes(table: pl.DataFrame, plan: Decision) -> pl.DataFrame:
    return check.class_rows(table, plan, table["home"])


def test_what_stands_alone_is_at_risk_on_all_open_columns():
    plan = decided()
    found = check.exposure_of(classes(TABLE, plan), plan)
    # (20, a) and (30, b) hold two records each; (20, b) and (missing, b) one.
    assert found.at_risk == pytest.approx(2 / 6)
    assert found.columns == ("age", "town")
    # The two of (20, a) differ in their illness; everyone else has one illness in the class.
    assert found.attributes == {"ill": pytest.approx(4 / 6)}
    assert check.exposure_of(classes(TABLE, plan), decided(3)).at_risk == 1.0
    one = TABLE.head(1)
    assert check.exposure_of(classes(one, plan), plan).at_risk == 1.0
    nobody = check.exposure_of(classes(TABLE, plan).head(0), plan)
    assert (nobody.at_risk, nobody.attributes) == (0.0, {"ill": 0.0})


def test_households_are_counted_where_there_are_any():
    plan = decided()
    (alone,) = check.of_households(classes(TABLE, plan), plan)
    assert alone.model == "k-anonymity of households"
    assert alone.quasi == ("age",)
    assert alone.sensitive is None
    assert (alone.value, alone.limit, alone.holds) == (1, 2, False)
    assert (alone.n_records, alone.n_classes, alone.records_at_risk) == (6, 3, 1)
    (pairs,) = check.of_households(classes(TABLE.head(5), plan), plan)
    assert (pairs.value, pairs.holds, pairs.records_at_risk) == (2, True, 0)
    assert check.of_households(check.class_rows(TABLE, plan), plan) == ()


def test_classes_of_batches_add_up_to_those_of_the_table():
    plan = decided()
    whole = classes(TABLE, plan)
    halves = check.added(classes(each, plan) for each in (TABLE.head(4), TABLE.tail(2)))
    names = whole.columns
    assert halves.select(names).sort(names).equals(whole.sort(names))
    assert whole[check.ROWS].sum() == 6
    assert whole.filter(pl.col(check.GAP) != "")[check.ROWS].sum() == 1


@pytest.mark.parametrize("more", [{}, {"l": 2}, {"t": 0.3}])
def test_models_say_the_same_of_rows_and_of_counted_classes(more):
    plan = decided(**more)
    counted = classes(TABLE, plan)
    of_rows, of_classes = check.verdicts_of(TABLE, counted, plan), check.verdicts_of_classes(counted, plan)
    for one, other in zip(of_rows, of_classes, strict=True):
        assert (one.model, one.holds, one.limit) == (other.model, other.holds, other.limit)
        assert one.value == pytest.approx(other.value)
        assert one.records_at_risk == other.records_at_risk
        assert other.quasi == ("age",)
    assert of_classes[0].value == 1
    assert of_classes[0].missing_records == 1
    assert of_classes[0].missing == of_rows[0].missing == {"age": 1}
    assert "64-bit hash" in of_classes[0].notes[-1]
    if "l" in more:
        diverse = next(each for each in of_classes if each.model.startswith("distinct"))
        assert (diverse.value, diverse.holds) == (1, False)


def test_a_broken_promise_is_refused_and_a_kept_or_open_one_is_not():
    plan = decided()
    (home,) = check.of_households(classes(TABLE, plan), plan)
    with pytest.raises(
        GuaranteeError, match="does not keep its promise, so it is not given out: k-anonymity"
    ):
        check.refuse_broken([replace(home, holds=True), home])
    check.refuse_broken([replace(home, holds=True), replace(home, holds=None)])


def test_missing_sensitive_cells_are_counted_in_classes_too():
    table = TABLE.with_columns(pl.when(pl.col("home") > 1).then("ill").alias("ill"))
    plan = decided(l=2)
    counted = classes(table, plan)
    for found in (check.verdicts_of(table, counted, plan), check.verdicts_of_classes(counted, plan)):
        diverse = next(each for each in found if each.model.startswith("distinct"))
        assert diverse.missing.get("ill") == 2


def test_an_interrupted_search_gives_nothing_unless_its_best_was_asked_for():
    tally = SimpleNamespace(interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        refuse_interrupted(tally, ProtectionRequest(columns=("age",)))
    refuse_interrupted(tally, ProtectionRequest(columns=("age",), keep_best=True))
