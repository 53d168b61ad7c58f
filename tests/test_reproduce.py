"""Published figures beside ours."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from shoal import reproduce, research
from shoal.cli import app
from shoal.errors import InputError, ParameterError
from shoal.microaggregation import methods
from shoal.research import _cells
from shoal.research._cells import MethodRun, PaperCell, Resumed, run_cells
from shoal.research._published import DERIVATIVE_FREE, SPLIT_RANKS, TABLE1, TABLE2
from shoal.research._rows import PaperClaim, PaperRow, ReproducedTable, agreement


def test_printed_figures_are_complete():
    for rows in (*TABLE1.values(), *TABLE2.values()):
        assert all(len(row) == 7 for row in rows.values())
    assert set(TABLE1["census"]) <= set(methods())
    assert all(set(ranks) <= set(methods()) for ranks in SPLIT_RANKS.values())
    assert (
        sum(
            len(losses)
            for by_data in DERIVATIVE_FREE.values()
            for by_start in by_data.values()
            for losses in by_start.values()
        )
        == 54
    )


def test_cells_are_run_and_compared(census, tarragona):
    cells = [
        PaperCell(data, methods()["mdav"](k=3), TABLE1[data]["mdav"][0]) for data in ("tarragona", "census")
    ]
    rows = run_cells(cells)
    for row in rows:
        assert row.sizes_kept
        assert abs(row.difference) < 0.01
        assert row.seconds < 60


def test_random_methods_are_means_over_seeds(tarragona):
    (row,) = run_cells([PaperCell("tarragona", methods()["kc"](k=3, rounds=2), seeds=3)])
    assert row.spread > 0
    assert row.published is None
    assert row.difference is None


def test_tables_are_written_in_every_form():
    row = PaperRow("census", "mdav", 3, 5.692, 5.6922, 0.1, True, None, {"rank_ours": 2})
    result = ReproducedTable("table1", "A table", (row,), ("A note.",), 0.1)
    assert "| census | mdav | 3 | 5.692 | 5.692 | +0.00 |" in result.to_markdown()
    assert "A note." in result.to_html()
    assert result.to_dict()["rows"][0]["rank_ours"] == 2


def test_a_stopped_run_goes_on(tarragona, tmp_path):
    file = tmp_path / "cells.jsonl"
    first = PaperCell("tarragona", methods()["mdav"](k=3), 16.932, {"reading": "as printed"})
    run_cells([first], None, Resumed(file))
    known = Resumed(file)
    assert list(known.runs) == [first.key]
    told = []
    rows = run_cells([first, PaperCell("tarragona", methods()["cbfs"](k=3))], told.append, known)
    assert [row.method for row in rows] == ["mdav", "cbfs"]
    assert len(told) == 1  # the first was not measured again
    file.write_text("no cells", encoding="utf-8")
    with pytest.raises(InputError, match="no file of measured cells"):
        Resumed(file)


def test_two_tables_share_one_run_of_any_seeds(tarragona, tmp_path):
    known = Resumed(tmp_path / "cells.jsonl")
    told = []

    def ask(**table):
        method = methods()["kc"](k=3, rounds=1)
        return run_cells([PaperCell("tarragona", method, seeds=2, masked=True, **table)], told.append, known)[
            0
        ]

    loss = ask(published=16.0, extra={"reading": "one"})
    other = ask(published=6.0, extra={"dld_published": 0.2}, figure="il2")
    assert len(told) == 1  # measured once, though it has two seeds and two readers
    assert other.ours == loss.extra["il2"]
    assert other.extra["information_loss"] == loss.ours
    assert other.extra["dld"] == loss.extra["dld"]
    assert "reading" not in other.extra


def test_of_several_readings_the_nearest_counts():
    row = PaperRow("census", "brkga", 3, 10.0, 9.0, 0.1, True, None, {"reading": "one"})
    near = PaperRow("census", "brkga", 3, 10.0, 10.004, 0.1, True, None, {"reading": "other"})
    unprinted = PaperRow("census", "anneal", 3, None, 4.7, 0.1, True)
    found = agreement([row, near, unprinted])
    assert (found.cells, found.within_005, found.missed) == (1, 1, 0)
    assert agreement([row]).missed == 1


def test_claims_are_shown():
    claim = PaperClaim("KCKW loses least of all", "census", False, "rank 2 of 10")
    result = ReproducedTable("split", "A table", (), (), 0.1, (claim,))
    assert "| KCKW loses least of all | census | no | rank 2 of 10 |" in result.to_markdown()
    assert "rank 2 of 10" in result.to_html()
    assert result.to_dict()["claims"][0]["holds"] is False


def test_ranks_share_equal_figures():
    assert research.ranks([1.0, 3.0, 1.001, 2.0]) == [1, 3, 1, 2]


def test_unknown_experiments_are_refused():
    with pytest.raises(ParameterError, match="must be one of"):
        reproduce("table9")


@pytest.mark.parametrize(("experiment", "cells"), [("table1", 150), ("table2", 28), ("split", 20)])
def test_the_command_lays_every_cell_beside_its_printed_figure(
    experiment, cells, census, tarragona, eia, tmp_path, monkeypatch
):
    """What is measured is made up here: the printed figure, or ten where there is none."""

    def measured(cell: PaperCell) -> MethodRun:
        loss = 10.0 if cell.published is None else cell.published
        made = dict.fromkeys(("il2", "median", "il2_of_medoids", "imp"), loss)
        return MethodRun(
            loss, 0.1, True, None, {**made, "dld": 0.1, "dld_of_medoids": 0.1, "equation_5": 1.0}
        )

    monkeypatch.setattr(_cells, "_measure", measured)
    words = [
        "reproduce",
        experiment,
        "--markdown",
        str(tmp_path / "t.md"),
        "--report",
        str(tmp_path / "t.html"),
    ]
    words += ["--pictures", str(tmp_path / "drawn")] if experiment == "split" else []
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert len(told["rows"]) >= cells
    assert {"data", "method", "k", "published", "ours", "seconds", "sizes_kept"} <= set(told["rows"][0])
    for row in told["rows"]:
        assert row["ours"] == pytest.approx(10.0 if row["published"] is None else row["published"])
    for row in told["rows"]:
        assert f"| {row['data']} | {row['method']} | {row['k']} |" in (tmp_path / "t.md").read_text()
    assert told["title"] in (tmp_path / "t.html").read_text()
    assert len(list(tmp_path.glob("drawn/*.svg"))) == (6 if experiment == "split" else 0)
    shown = CliRunner().invoke(app, ["reproduce", experiment]).stdout
    assert shown.splitlines()[0] == told["title"]
    assert f"{len(told['rows'])} cells in" in shown
