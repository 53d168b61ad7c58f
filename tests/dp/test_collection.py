"""The collection of queries from public documentation: accepted, or refused for the reason written beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.dp.queries import collection
from tests.dp.queries.__main__ import sessions

from shoal.dp.answering.plan import make_plan
from shoal.errors import QueryError

ALL = collection()


@pytest.fixture(scope="module")
def given():
    return sessions()


@pytest.mark.parametrize("each", ALL, ids=[each.sql[:60] for each in ALL])
def test_a_query_is_answered_or_refused_for_its_reason(each, given):
    session = given[each.data]
    if each.refused is None:
        answer = session.ask(each.sql, 1.0)
        assert answer.guarantee.startswith("guarantee: epsilon-DP")
        return
    with pytest.raises(QueryError) as caught:
        session.ask(each.sql, 1.0)
    assert each.refused in str(caught.value)
    assert len(str(caught.value)) < 400


def test_at_least_85_of_100_are_answered():
    assert len(ALL) >= 80
    assert sum(each.refused is None for each in ALL) >= 0.85 * len(ALL)


@pytest.mark.parametrize(
    "each", [each for each in ALL if each.refused is None], ids=lambda each: each.sql[:60]
)
def test_the_canonical_text_is_accepted_and_its_own_canonical_text(each, given):
    session = given[each.data]
    asked = session._question(each.sql)
    again = session._question(str(asked))
    assert str(again) == str(asked)
    plans = [
        make_plan(one, session.schema, session.protected, 1_000_000, session.catalog)
        for one in (asked, again)
    ]
    assert plans[0].releases == plans[1].releases
