"""The comparison: every cell measured as `protect` measures it, the front right, a page to show."""

from __future__ import annotations

import json
import shlex
import sys

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import datasets
from shoal.errors import InputError, ParameterError
from shoal.microaggregation import GivenPartition


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
    assert f"shoal protect FILE -k {best.k} -o protected.csv --method {best.method}" in text
    assert text.count(">recommended<") == 1
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_the_least_loss_at_a_fixed_k(survey, result):
    assert result.recommended.k == 6  # 5 was not compared: the largest
    at = {cell.method: cell.information_loss for cell in result.cells if cell.k == 6}
    assert result.recommended.method == min(at, key=at.get)
    options = {"methods": ["mdav", "rank-swap:0.01"], "columns": ["age", "income"]}
    found = shoal.compare(survey, k=[3, 5, 10], **options)
    assert (found.recommended.method, found.recommended.k) == ("mdav", 5)  # a mask is not for protect
    assert shoal.compare(survey, k=[3, 5], fixed_k=3, **options).recommended.k == 3


def test_the_least_loss_within_a_limit_of_risk(survey):
    options = {"k": [3, 6], "methods": ["mdav", "cbfs"], "columns": ["age", "income"]}
    cells = shoal.compare(survey, **options).cells
    limit = sorted(cell.dld for cell in cells)[1]
    found = shoal.compare(survey, risk_limit=limit, **options)
    within = [cell for cell in cells if cell.dld <= limit]
    assert found.recommended.information_loss == min(cell.information_loss for cell in within)
    none = shoal.compare(survey, risk_limit=0.0, **options)
    assert none.recommended.dld == min(cell.dld for cell in cells)
    assert "No cell keeps the limit" in none.reason


@pytest.mark.parametrize(
    ("method", "extra"),
    [("mdav", ()), ("anneal", ()), ("mdav", ("--strata", "region", "--fixed-k", "4", "--seed", "7"))],
)
def test_the_command_as_printed_gives_the_recommended_loss(tmp_path, monkeypatch, capsys, method, extra):
    from shoal.cli import main

    def run(*words):
        monkeypatch.setattr(sys, "argv", list(words))
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        return json.loads(capsys.readouterr().out)

    datasets.copy_bundled(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ("--schema", "survey.toml", "-k", "4,8", "--methods", method, "--time-limit", "0.5", *extra)
    facts = run("shoal", "compare", "survey.csv", *words, "--json")
    best = next(row for row in facts["rows"] if row["k"] == facts["recommended"]["k"])
    assert "--schema survey.toml" in facts["command"]
    done = run(*shlex.split(facts["command"]), "--json")
    assert (tmp_path / "protected.csv").exists()
    assert done["information_loss"] == pytest.approx(best["information_loss"])
    assert done["dld"] == pytest.approx(best["dld"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 3}, "must be a list"),
        ({"k": [1]}, "'k' of compare"),
        ({"methods": ["magic"]}, "must be among"),
        ({"columns": ["nope"]}, "No column 'nope'"),
        ({"n_jobs": 0}, "'n_jobs'"),
        ({"fixed_k": 4}, "one of the k compared"),
        ({"risk_limit": 2.0}, "'risk_limit'"),
        ({"risk_limit": 0.1, "fixed_k": 3}, "Got several"),
        ({"methods": ["noise:0.2"]}, "that protect takes"),
    ],
)
def test_bad_questions(survey, options, message):
    with pytest.raises((ParameterError, InputError), match=message):
        shoal.compare(survey, **({"k": [3], "columns": ["age"], "methods": ["mdav"]} | options))


def test_the_search_is_led_to_an_aim_and_its_choice_is_published(tmp_path):
    """Preferences over loss and linkage; what is chosen comes out of `protect` with the same figures."""
    pytest.importorskip("pymoo")
    rng = np.random.default_rng(3)
    table = pl.DataFrame(rng.normal(size=(90, 3)).round(3), schema=["x", "y", "z"])
    plain = shoal.compare(table, k=[3], methods=["mdav"], search=True)
    least = min(plain.cells, key=lambda cell: cell.dld)
    result = shoal.compare(table, k=[3], methods=["mdav"], search=True, aim=(60.0, 0.0))
    assert result.recommended.dld <= least.dld + 0.1
    assert result.recommended.on_front
    published = result.protect(table)
    assert published.figures.information_loss == pytest.approx(result.recommended.information_loss)
    assert published.figures.smallest_group >= 3
    if result.recommended.method == "search":
        assert "--aim 60,0 " in result.command()
        assert result.command().startswith("shoal compare FILE -k 3 --methods mdav --search")


def test_an_aim_that_is_reached_is_said_so():
    table = pl.DataFrame({"x": [1.0, 2, 3, 10, 11, 12, 30, 31, 32], "y": [1.0, 1, 2, 5, 5, 6, 1, 2, 1]})
    assert "is reached" in shoal.compare(table, k=[2, 3], methods=["mdav"], aim=(100.0, 1.0)).reason
    assert "comes nearest" in shoal.compare(table, k=[2, 3], methods=["mdav"], aim=(0.0, 0.0)).reason
    for bad in ((1.0,), (101.0, 0.0), (1.0, 2.0), "no"):
        with pytest.raises(ParameterError, match="'aim' of compare"):
            shoal.compare(table, k=[2, 3], methods=["mdav"], aim=bad)
    with pytest.raises(ParameterError, match="one of 'fixed_k'"):
        shoal.compare(table, k=[2, 3], methods=["mdav"], aim=(1.0, 0.1), fixed_k=3)


def test_the_choice_is_written_from_the_command_line(tmp_path):
    pytest.importorskip("pymoo")
    from typer.testing import CliRunner

    from shoal.cli import app

    rng = np.random.default_rng(3)
    pl.DataFrame(rng.normal(size=(60, 3)).round(3), schema=["x", "y", "z"]).write_csv(tmp_path / "t.csv")
    out = tmp_path / "out.csv"
    words = [
        "compare",
        str(tmp_path / "t.csv"),
        "-k",
        "3",
        "--methods",
        "mdav",
        "--search",
        "--aim",
        "50,0.1",
    ]
    found = CliRunner().invoke(app, [*words, "-o", str(out)])
    assert found.exit_code == 0, found.output
    groups = pl.read_csv(out).group_by(pl.all()).len()
    assert groups["len"].min() >= 3
    assert CliRunner().invoke(app, [*words[:-1], "much"]).exit_code != 0


def test_given_groups_are_checked():
    X = np.arange(6.0)[:, None]
    for labels, said in (
        ([0, 0, 1], "one for each record"),
        ([0, 0, 0, 0, 0, 1], "Got one of 1"),
        ([0.5] * 6, "whole"),
    ):
        with pytest.raises(InputError, match=said):
            GivenPartition(k=2, labels=labels).fit(X)


def test_zeros_that_stay_are_compared_and_protected_alike():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"a": rng.normal(size=90), "b": np.where(rng.random(90) < 0.4, 0, rng.lognormal(size=90))}
    )
    schema = {"columns": {}, "rules": [{"zero": "b"}]}
    found = shoal.compare(frame, k=[4], methods=["mdav", "md"], schema=schema)
    done = found.protect(frame)
    assert done.figures.information_loss == pytest.approx(found.recommended.information_loss)
    assert done.frame["b"].sum() == pytest.approx(frame["b"].sum())
    given = GivenPartition(4, found.recommended.labels)
    assert shoal.protect(frame, k=4, method=given, schema=schema).figures.smallest_group >= 4
