"""The page that puts the related systems side by side."""

from typer.testing import CliRunner

from shoal.cli import app
from shoal.release._systems import _ROWS


def test_the_page_is_written_by_a_command(tmp_path):
    path = tmp_path / "systems.md"
    answer = CliRunner().invoke(app, ["systems", "-o", str(path), "--queries", "6"])
    assert answer.exit_code == 0, answer.output
    page = path.read_text()
    assert all(row[0] in page for row in _ROWS)
    assert "epsilon-DP for any k edges jointly, vertices public" in page
    assert "none (research reproduction)" in page
    assert page.count("once only") == 2
    lengths = {line.count("|") for line in page.splitlines() if line.startswith("|")}
    assert lengths == {12}
