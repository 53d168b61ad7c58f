"""The page that puts the related systems side by side."""

import pytest
from typer.testing import CliRunner

from shoal import datasets
from shoal.cli import app
from shoal.release._systems import _ROWS, measured, task


def test_the_page_is_written_by_a_command(tmp_path):
    path = tmp_path / "systems.md"
    answer = CliRunner().invoke(app, ["systems", "-o", str(path), "--queries", "6", "--data", "survey"])
    assert answer.exit_code == 0, answer.output
    page = path.read_text()
    assert all(row[0] in page for row in _ROWS)
    assert "epsilon-DP for any k edges jointly, vertices public" in page
    assert "none (research reproduction)" in page
    assert page.count("once only") == 2
    lengths = {line.count("|") for line in page.splitlines() if line.startswith("|")}
    assert lengths == {13}


@pytest.mark.skipif(datasets.DATASETS["adult"].path is None, reason="the table adult is not here")
def test_adult_is_the_common_task_where_it_is():
    figures = measured(task("adult"), 6)
    assert figures["dp"]["one"] < figures["group"]["one"] < figures["correlated"]["one"]
    assert figures["dp"]["one"] < 0.01


def test_other_tables_are_refused():
    answer = CliRunner().invoke(app, ["systems", "--data", "mars"])
    assert answer.exit_code != 0
