"""The comparison: every cell measured as `protect` measures it, the front right, a page to show."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import datasets
from shoal.errors import InputError, ParameterError


@pytest.fixture(scope="module")
def survey():
    return datasets.load_survey()


@pytest.fixture(scope="module")
def result(survey):
    return shoal.compare(survey, k=[3, 6], methods=["mdav", "cbfs", "fdm"], columns=["age", "income", "sex"])


def test_cells_equal_protect(survey, result):
    cell = next(cell for cell in result.cells if (cell.method, cell.k) == ("mdav", 6))
    alone = shoal.protect(survey, 6, columns=["age", "income", "sex"], method="mdav", accept_risk=True)
    assert cell.information_loss == pytest.approx(alone.figures.information_loss)
    assert cell.dld == pytest.approx(alone.figures.dld)
    np.testing.assert_array_equal(cell.labels, alone.labels)


def test_the_front_is_beaten_by_nobody(result):
    assert len(result.cells) == 6
    for cell in result.cells:
        beaten = any(
            other.information_loss <= cell.information_loss
            and other.dld <= cell.dld
            and (other.information_loss, other.dld) != (cell.information_loss, cell.dld)
            for other in result.cells
        )
        assert cell.on_front is not beaten
    assert result.recommended in result.front
    assert result.recommended.method in result.reason
    assert result.frame().height == 6


def test_one_tour_serves_every_k(result):
    three, six = (next(cell for cell in result.cells if (cell.method, cell.k) == ("fdm", k)) for k in (3, 6))
    assert three.information_loss < six.information_loss
    assert three.smallest_group >= 3
    assert six.smallest_group >= 6


def test_strata_are_kept(survey):
    found = shoal.compare(survey, k=[4], methods=["mdav"], columns=["age", "income"], strata="region")
    labels = found.cells[0].labels
    together = (
        pl.DataFrame({"region": survey["region"], "group": labels})
        .group_by("group")
        .agg(pl.col("region").n_unique())
    )
    assert together["region"].max() == 1


def test_search_fills_the_front(survey):
    small = survey.head(150).select("age", "income", "rent")
    found = shoal.compare(small, k=[3, 5], methods=["mdav"], search=True)
    new = [cell for cell in found.cells if cell.method == "search"]
    assert new
    assert all(cell.smallest_group >= 3 for cell in new)
    assert found.recommended.method == "mdav"


def test_the_page(result, tmp_path):
    result.report(tmp_path / "map.html")
    text = (tmp_path / "map.html").read_text()
    assert "Risk-utility map" in text
    assert "<svg" in text
    assert "custodian only" in text
    best = result.recommended
    assert f"shoal protect FILE -k {best.k} --method {best.method}" in text
    assert text.count(">recommended<") == 1
    assert "http://" not in text.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 3}, "must be a list"),
        ({"k": [1]}, "'k' of compare"),
        ({"methods": ["magic"]}, "must be among"),
        ({"columns": ["nope"]}, "No column 'nope'"),
        ({"n_jobs": 0}, "'n_jobs'"),
    ],
)
def test_bad_questions(survey, options, message):
    with pytest.raises((ParameterError, InputError), match=message):
        shoal.compare(survey, **({"k": [3], "columns": ["age"], "methods": ["mdav"]} | options))
