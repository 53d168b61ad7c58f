"""Microaggregation, generalisation and private tables on one map."""

import pytest
from typer.testing import CliRunner

from shoal.cli import app
from shoal.comparison import table_map
from shoal.datasets import load_survey, load_survey_schema
from shoal.errors import ParameterError


def test_all_three_families_are_measured_alike():
    found = table_map(load_survey(), load_survey_schema(), k=[50], epsilons=[1.0, 500.0])
    at = {(each.family, each.strength): each for each in found.points}
    assert len(at) == 4
    assert not found.notes
    assert at["private tables", 500.0].lost < at["private tables", 1.0].lost
    assert at["private tables", 1.0].linked == pytest.approx(1 / load_survey().height)
    assert at["private tables", 1.0].lost < at["microaggregation", 50.0].lost
    assert all(0 <= each.lost <= 1 for each in found.points)
    assert at["microaggregation", 50.0].linked <= 2 / 50


def test_the_command_draws_the_map(tmp_path):
    from shoal.datasets import copy_bundled

    copy_bundled(tmp_path)
    asked = ["compare", str(tmp_path / "survey.csv"), "-k", "20", "--methods", "mdav", "--epsilons", "1"]
    assert isinstance(CliRunner().invoke(app, asked).exception, ParameterError)
    page = tmp_path / "map.html"
    words = [
        *asked,
        "--schema",
        str(tmp_path / "survey.toml"),
        "--on-missing",
        "impute",
        "--report",
        str(page),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "private tables" in done.output
    assert "generalisation" in page.read_text()


def test_a_map_needs_an_epsilon():
    with pytest.raises(ParameterError, match="at least one"):
        table_map(load_survey(), load_survey_schema(), epsilons=[])
