"""The correlated experiments from end to end on a small table."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from shoal import datasets
from shoal.errors import InputError
from shoal.research import (
    EXPERIMENTS,
    CorrelatedReproduction,
    _correlated,
    _correlated_run,
    agreement,
    reproduce,
)
from shoal.research._correlated_queries import Bench, answering, random_queries


@pytest.fixture(scope="module")
def small() -> Bench:
    frame = datasets.make_survey(500, random_state=5).drop("person", "household", "weight")
    schema = datasets.load_survey_schema()
    kept = type(schema)({name: schema.columns[name] for name in frame.columns}, id="small")
    return Bench("adult", frame, kept, "disease", 4, 0.2, (0.1, 0.2, 0.4), (1, 4, 8), (1, 4), 5, "income")


@pytest.fixture(scope="module")
def result(small) -> CorrelatedReproduction:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(_correlated, "bench", lambda name: small)
        patch.setattr(_correlated_run, "CELLS", {"adult": 320})
        return _correlated.correlated(tables=("adult",), queries=8)


def test_queries_are_answered_by_enough_rows(small) -> None:
    loaded = small.loaded()
    queries = random_queries(small, loaded, 30, seed=1)
    shares = [answering(query, loaded, small.schema).size / loaded.height for query in queries]
    assert min(shares) >= 0.01
    assert max(shares) <= 1
    assert len({str(query) for query in queries}) > 20


def test_every_method_has_every_error(result) -> None:
    methods = {"baseline", "approach 1", "approach 2", "approach 3", "dp", "group", "correlated"}
    for figure in ("COUNT", "SUM", "AVG"):
        for epsilon in (0.1, 0.5, 1.0):
            found = {
                row.method: row.ours
                for row in result.rows
                if (row.experiment, row.figure, row.x) == ("error", figure, epsilon)
            }
            assert methods <= set(found)
            assert all(np.isfinite(value) and value >= 0 for value in found.values())
    assert {row.guarantee for row in result.rows if row.method.startswith(("baseline", "approach"))} == {
        "none"
    }


def test_what_must_hold_holds(result) -> None:
    """With one preprocessing approach 1 only leaves pairs out, and errors go with 1 / parameter."""
    error = {
        (row.method, row.x): row.ours
        for row in result.rows
        if row.experiment == "error" and row.figure == "COUNT"
    }
    assert error["approach 1", 1.0] <= error["baseline", 1.0]
    assert error["baseline", 0.1] == pytest.approx(10 * error["baseline", 1.0])
    sweep = [row.ours for row in result.rows if row.experiment == "dbscan eps" and row.method == "approach 1"]
    assert sweep == sorted(sweep)


def test_claims_pictures_and_texts(result) -> None:
    assert sum("builds 40x" in claim.claim for claim in result.claims) == 2
    pictures = result.pictures()
    assert {"adult-error-count", "adult-dbscan", "adult-figure-13", "adult-figure-19"} <= set(pictures)
    assert all(svg.startswith("<svg") for svg in pictures.values())
    page = result.to_html()
    assert page.count("<figure") == len(pictures)
    assert "owner only" in page
    assert "| claim |" in result.to_markdown()
    assert len(result.cells()[0]) == len(result.header())
    assert result.to_dict()["claims"][0]["claim"] == "approach 1 beats baseline"


def test_printed_figures_stand_beside_ours(result, small) -> None:
    rows = {row.figure: row for row in result.rows if row.experiment == "tables" and row.method != "z-score"}
    assert {row.published for row in rows.values()} == {30_162, 14, 60, 6, 8, 12}
    assert rows["columns kept"].difference is None  # given, not found
    assert rows["records"].difference == pytest.approx(100 * (small.frame.height - 30_162) / 30_162)
    found = agreement(result.rows)
    assert (found.cells, found.missed) == (4, found.cells - found.within_2)
    assert result.to_dict()["agreement"]["cells"] == 4
    assert any("BIC finds 60 components" in claim.claim for claim in result.claims)


def test_pictures_show_the_size_of_the_noise(result) -> None:
    from shoal.research._correlated_rows import _away

    assert _away([5.0, 5.0], [3.0, 9.0]) == [7.0, 9.0]


def test_it_is_among_the_experiments_and_says_what_it_needs(monkeypatch, tmp_path) -> None:
    assert "correlated" in EXPERIMENTS
    monkeypatch.setattr("shoal.datasets._base._folders", lambda: [tmp_path])
    with pytest.raises(InputError, match="adult, ccc, hapt"):
        reproduce("correlated")
