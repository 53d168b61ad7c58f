"""`shoal serve --check` and the start: what is wrong is said before anything is touched."""

from __future__ import annotations

import socket

import polars as pl
import pytest
from typer.testing import CliRunner

from shoal.cli import app
from shoal.datasets import DATASETS
from shoal.server.accounts import Accounts

from .conftest import free_port


@pytest.fixture
def folder(tmp_path):
    survey = DATASETS["survey"].path
    (tmp_path / "s.csv").write_bytes(survey.read_bytes())
    (tmp_path / "s.toml").write_text(survey.with_suffix(".toml").read_text())
    configure(tmp_path)
    return tmp_path


def configure(folder, server="", file="s.csv"):
    (folder / "shoal.toml").write_text(
        f'[server]\nport = {free_port()}\n{server}\n[datasets.s]\nfile = "{file}"\nschema = "s.toml"\nbudget = 1\n'
    )


def check(folder, *more):
    return CliRunner().invoke(app, ["serve", str(folder / "shoal.toml"), *more])


def test_all_is_well_where_it_is_and_nothing_is_made(folder):
    found = check(folder, "--check")
    assert found.exit_code == 0, found.output
    assert "all is well" in found.output
    assert not (folder / "ledger.db").exists()


def test_a_missing_column_is_said(folder):
    pl.read_csv(folder / "s.csv").drop("income").write_csv(folder / "s.csv")
    found = check(folder, "--check")
    assert found.exit_code != 0
    assert "Data set 'survey': The schema declares column 'income'" in str(found.exception)


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda folder: (folder / "s.parquet").write_bytes(b"PAR1 no more"), "cannot be read"),
        (lambda folder: (folder / "s.parquet").write_bytes(b""), "s.parquet"),
    ],
)
def test_a_broken_file_is_said(folder, prepare, says):
    prepare(folder)
    configure(folder, file="s.parquet")
    found = check(folder, "--check")
    assert found.exit_code != 0
    assert says in str(found.exception)
    assert "Data set 'survey'" in str(found.exception)


def test_a_key_that_is_not_the_certificates_is_said(folder):
    (folder / "c.pem").write_text("no certificate")
    (folder / "k.pem").write_text("no key")
    configure(folder, 'certificate = "c.pem"\ncertificate_key = "k.pem"')
    found = check(folder, "--check")
    assert "belong together" in str(found.exception)


def test_an_anchor_that_cannot_be_written_is_said(folder):
    configure(folder, f'anchor = "{folder}/elsewhere/head.txt"')
    found = check(folder, "--check")
    assert found.exit_code == 0
    assert "head.txt': its folder is not there" in " ".join(found.output.split())


def test_cells_that_are_not_understood_are_told_to_the_owner(folder):
    table = pl.read_csv(folder / "s.csv", infer_schema=False)
    table = table.with_columns(
        income=pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("many")).otherwise("income")
    )
    table.write_csv(folder / "s.csv")
    found = check(folder, "--check")
    assert found.exit_code == 0
    assert "column 'income': of 1,012 cells 0 are missing; 3 could not be read" in found.output


def test_a_port_that_is_taken_ends_the_start_and_revokes_no_token(folder):
    demo = folder / "demo"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        demo.mkdir()
        token = Accounts(demo / "accounts.db").add("demo-owner", "owner")
        found = CliRunner().invoke(app, ["serve", "--demo", str(demo), "--port", str(port)])
        assert "cannot listen" in str(found.exception)
        assert str(port) in str(found.exception)
        assert Accounts(demo / "accounts.db").find(token) is not None


def test_a_data_set_counted_in_rho_is_served_and_one_without_delta_is_not(folder):
    schema = folder / "s.toml"
    plain = schema.read_text()
    schema.write_text(plain.replace("[table]", '[table]\ncurrency = "zcdp"\ndelta = 1e-6', 1))
    assert check(folder, "--check").exit_code == 0
    schema.write_text(plain.replace("[table]", '[table]\ncurrency = "zcdp"', 1))
    found = check(folder, "--check")
    assert found.exit_code != 0
    assert "delta" in str(found.exception)
