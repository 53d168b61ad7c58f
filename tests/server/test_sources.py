"""Data sets of a server that are folders of Parquet files or tables of a database."""

from __future__ import annotations

import polars as pl
import pytest

from shoal.dp.answering.rows import Streamed
from shoal.errors import ParameterError
from shoal.server.check import look_through
from shoal.server.config import Config
from shoal.server.refusals import TableError, sentence_of
from shoal.server.service import Service

duckdb = pytest.importorskip("duckdb")

SCHEMA = """
[table]
id = "{id}"
budget = 100000.0
per_analyst = 50000.0
[columns.age]
bounds = [0, 110]
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "folder").mkdir()
    frame = pl.DataFrame({"age": ["41", "7", "x", "130"]})
    frame[:2].write_parquet(tmp_path / "folder" / "a.parquet")
    frame[2:].write_parquet(tmp_path / "folder" / "b.parquet")
    with duckdb.connect(tmp_path / "x.db") as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM '{tmp_path}/folder/*.parquet'")
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(SCHEMA.format(id=name))
    (tmp_path / "shoal.toml").write_text(
        '[server]\nslot_seconds = 0\n[datasets.one]\nfile = "folder"\nschema = "one.toml"\n'
        '[datasets.two]\nfile = "duckdb:///x.db?table=people"\nschema = "two.toml"\n'
    )
    return tmp_path / "shoal.toml"


def test_a_server_answers_about_folders_and_databases(config):
    service = Service(Config.from_toml(config))
    try:
        for name in ("one", "two"):
            session = service.session(name)
            assert isinstance(session._rows, Streamed)
            assert (
                service.ask(name, "SELECT COUNT(*) FROM t WHERE age > 10", 20_000.0, None, "ann").value == 2
            )
            (age,) = service.quality(name)
            assert (age.rows, age.missing, age.unread, age.outside) == (4, 0, 1, 1)
    finally:
        service.close()


def test_where_a_table_lies_is_told_to_nobody(config):
    """An analyst read the path of a file, and the value in the name of its folder."""
    service = Service(Config.from_toml(config))
    (config.parent / "folder" / "b.parquet").write_bytes(b"no table")
    (config.parent / "x.db").unlink()
    try:
        for name in ("one", "two"):
            with pytest.raises(TableError) as caught:
                service.ask(name, "SELECT COUNT(*) FROM t", 1.0, None, "ann")
            assert sentence_of(caught.value) == (
                "The table of this data set cannot be read at the moment, so nothing was answered."
            )
            assert service.ledger.spent(name) == 0
    finally:
        service.close()


def test_the_check_of_a_server_reads_them_too(config):
    said = look_through(Config.from_toml(config))
    assert sum("1 lie outside the bounds" in each for each in said) == 2
    text = config.read_text()
    config.write_text(text.replace("table=people", "table=nobody"))
    with pytest.raises(ParameterError, match="Data set 'two': .* has no table 'nobody'"):
        look_through(Config.from_toml(config))
    config.write_text(text.replace('"folder"', '"none"'))
    with pytest.raises(ParameterError, match="no file"):
        Config.from_toml(config)
