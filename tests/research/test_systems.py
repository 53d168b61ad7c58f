"""The page that puts the related systems side by side."""

import pytest
from typer.testing import CliRunner

from shoal import Session, datasets
from shoal.cli import app
from shoal.research._systems import _ROWS, common_queries, sql, stated, task


def test_the_page_is_written_by_a_command(tmp_path):
    path = tmp_path / "systems.md"
    answer = CliRunner().invoke(app, ["systems", "-o", str(path), "--queries", "6", "--data", "survey"])
    assert answer.exit_code == 0, answer.output
    page = path.read_text()
    assert all(row[0] in page for row in _ROWS)
    assert "epsilon-DP for any k edges jointly, vertices public" in page
    assert "none (research reproduction)" in page
    assert page.count("| once only |") == 2
    assert "dependent DP" not in page  # table 8 prints PD
    lengths = {line.count("|") for line in page.splitlines() if line.startswith("|")}
    assert lengths == {13}


def test_declared_models_hide_a_home_on_the_same_task():
    at = task("survey")
    query = sql(common_queries(at, 1, 0)[0])
    for model in stated():
        session = Session(at.frame, at.schema, model.mode, model=model)
        assert session.cost(query, 1.0).parts[0]["noise_scale"] == 6  # six rows jointly, as mode group hides


@pytest.mark.skipif(datasets.DATASETS["adult"].path is None, reason="the table adult is not here")
def test_adult_is_the_common_task_where_it_is():
    at = task("adult")
    assert at.frame.height == at.whole.height == 30_162
    assert (len(at.compared), at.eps, at.keep, at.components) == (14, 0.4, 8, 12)
    assert 0.2 < at.frame["secret"].mean() < 0.3


def test_other_tables_are_refused():
    answer = CliRunner().invoke(app, ["systems", "--data", "mars"])
    assert answer.exit_code != 0
