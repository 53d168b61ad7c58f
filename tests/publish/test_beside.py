"""Files beside a table that is taken in parts, and runs of it that are resumed."""

import os

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from shoal.cli import app
from shoal.errors import InputError, ShoalError
from shoal.publish import protect_file
from shoal.publish.executors import parts


def numbers(n: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame({name: rng.normal(size=n) for name in ("a", "b", "c")})


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of a few hundred rows."""
    monkeypatch.setattr(parts, "part_rows", lambda *_: 400)


def _stop_at_writing(stage, _done, _of):
    if stage.startswith("writing"):
        raise KeyboardInterrupt


def test_files_asked_for_when_a_run_is_resumed_are_written(small_parts, tmp_path):
    numbers(1_000).write_parquet(tmp_path / "in.parquet")
    asked = {"method": "mdav", "k": 3, "n_jobs": 1}
    with pytest.raises(KeyboardInterrupt):
        protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", **asked, progress=_stop_at_writing)
    asked["labels"] = tmp_path / "labels.csv"
    found = protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", **asked, resume=True)
    assert found.labels.size == 1_000


def test_files_beside_the_table_are_written_with_it(small_parts, tmp_path):
    numbers(1_000).write_parquet(tmp_path / "in.parquet")
    asked = {"method": "mdav", "k": 3, "n_jobs": 1}
    asked |= {
        "labels": tmp_path / "labels.csv",
        "report": tmp_path / "r.html",
        "public_report": tmp_path / "p.html",
    }
    protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", **asked)
    assert pl.read_csv(tmp_path / "labels.csv").height == 1_000
    assert "<html" in (tmp_path / "r.html").read_text()
    assert "<html" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize("name", ["labels", "report", "public_report", "save_run"])
def test_no_table_is_written_where_a_file_beside_it_cannot_be(small_parts, tmp_path, name):
    numbers(1_000).write_parquet(tmp_path / "in.parquet")
    ending = {"labels": "csv", "save_run": "json"}.get(name, "html")
    flag = f"--{name.replace('_', '-')}"
    words = f"protect {tmp_path}/in.parquet -k 3 -o {tmp_path}/out.parquet --method mdav --memory 100MB --jobs 1 {flag}"
    said = CliRunner().invoke(app, [*words.split(), str(tmp_path / "absent" / f"it.{ending}")])
    assert isinstance(said.exception, InputError)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.parquet"]
    with pytest.raises(ShoalError, match=name if name == "save_run" else "does not exist"):
        protect_file(
            tmp_path / "in.parquet", tmp_path / "out.parquet", **{name: tmp_path / "absent" / f"it.{ending}"}
        )


def test_a_folder_whose_file_was_written_again_starts_anew(small_parts, tmp_path):
    (tmp_path / "in").mkdir()
    numbers(1_000).write_ipc(tmp_path / "in" / "a.arrow", compression="uncompressed")
    asked = {"method": "mdav", "k": 3, "n_jobs": 1}
    with pytest.raises(KeyboardInterrupt):
        protect_file(tmp_path / "in", tmp_path / "out.parquet", **asked, progress=_stop_at_writing)
    other = numbers(1_000).with_columns(pl.selectors.numeric() + 1000)
    with (tmp_path / "in" / "a.arrow").open("r+b") as file:  # the same size, and no new name in the folder
        other.write_ipc(file, compression="uncompressed")
    protect_file(tmp_path / "in", tmp_path / "out.parquet", **asked, resume=True)
    means = [
        each.select(pl.selectors.numeric()).mean().row(0)
        for each in (pl.read_parquet(tmp_path / "out.parquet"), other)
    ]
    assert means[0] == pytest.approx(means[1])


def test_nothing_is_written_over_or_among_what_is_read(tmp_path):
    """A second run on a folder would have taken the first one's copy for more of its people, or replaced its input."""
    (tmp_path / "in").mkdir()
    table = tmp_path / "in" / "a.parquet"
    numbers(100).write_parquet(table)
    before = table.read_bytes()
    asked = {"method": "mdav", "k": 3, "n_jobs": 1}
    for output, more in (
        (table, {}), (tmp_path / "in" / "b.parquet", {}), (tmp_path / "o.parquet", {"labels": tmp_path / "in" / "l.csv"}),
        (tmp_path / "e.parquet", {"earlier": tmp_path / "e.parquet"}),
    ):  # fmt: skip
        with pytest.raises(InputError, match="must name a file of its own"):
            protect_file(tmp_path / "in", output, **asked, **more)
        with pytest.raises(InputError, match="must name a file of its own"):
            protect_file(table, table, **asked)
        flags = [word for name, path in more.items() for word in (f"--{name}", str(path))]
        words = ["protect", str(tmp_path / "in"), "-k", "3", "-o", str(output), *flags]
        assert CliRunner().invoke(app, words).exception.exit_code == 2
    assert table.read_bytes() == before
    assert [each.name for each in tmp_path.rglob("*")] == ["in", "a.parquet"]


def test_pipes_are_told_where_a_file_is_needed(tmp_path):
    """A pipe gave its rows once and was waited for without end; one to be written to was replaced by a file."""
    numbers(100).write_csv(tmp_path / "t.csv")
    os.mkfifo(tmp_path / "p.csv")
    with pytest.raises(InputError, match="a file was expected. Got the pipe"):
        protect_file(tmp_path / "p.csv", tmp_path / "o.csv", k=3, method="mdav", n_jobs=1)
    with pytest.raises(InputError, match="which is a pipe or a device"):
        protect_file(tmp_path / "t.csv", tmp_path / "p.csv", k=3, method="mdav", n_jobs=1)
    assert (tmp_path / "p.csv").is_fifo()


def test_two_runs_do_not_share_a_work_folder(small_parts, tmp_path):
    """The second run took the parts of the first for its own: people of one table stood in the copy of another."""
    numbers(1_000).write_parquet(tmp_path / "one.parquet")
    numbers(1_000).with_columns(pl.all() + 100).write_parquet(tmp_path / "two.parquet")
    said: list[str] = []

    def second(stage, _done, _of):
        if not said and stage.startswith("writing"):
            with pytest.raises(InputError, match=r"Another run is writing '.*out.parquet'") as caught:
                protect_file(tmp_path / "two.parquet", tmp_path / "out.parquet", **asked)
            said.append(str(caught.value))

    asked = {"method": "mdav", "k": 3, "n_jobs": 1}
    protect_file(tmp_path / "one.parquet", tmp_path / "out.parquet", **asked, progress=second)
    assert said
    assert pl.read_parquet(tmp_path / "out.parquet")["a"].max() < 50
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.parquet", "out.parquet", "two.parquet"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_run_goes_on_only_if_its_input_is_the_same(small_parts, tmp_path, kind):
    """Text began anew each time, since the file made from it was new; an input with its old time was taken for the old one."""
    asked = {"method": "mdav", "k": 3, "n_jobs": 1}
    path, write = tmp_path / f"in.{kind}", f"write_{kind}"
    getattr(numbers(1_000), write)(path)

    def again(**more) -> bool:
        stages: list[str] = []
        with pytest.raises(KeyboardInterrupt):
            protect_file(path, tmp_path / "out.csv", **asked, progress=_stop_at_writing)
        if more.pop("changed", False):
            before, data = path.stat(), path.read_bytes()
            path.unlink()
            path.write_bytes(data)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        protect_file(
            path,
            tmp_path / "out.csv",
            **(asked | more),
            resume=True,
            progress=lambda stage, *_: stages.append(stage),
        )
        return not any(stage.startswith("spilling") for stage in stages)

    assert again()
    assert not again(changed=True)
    assert not again(k=4)
    assert not again(sensitive="c", l=2)
