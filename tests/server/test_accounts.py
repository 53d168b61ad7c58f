"""Accounts and configuration: what is kept, what is refused, and in which words."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from shoal.datasets import DATASETS
from shoal.errors import ParameterError, ShoalError
from shoal.server.accounts import Accounts
from shoal.server.config import Config
from shoal.server.limits import Buckets


def test_a_token_is_kept_only_as_a_hash_and_opens_until_revoked(tmp_path):
    book = Accounts(tmp_path / "a.db")
    token = book.add("ann", "analyst")
    secret = token.split("-", 2)[2]
    book.close()
    assert secret.encode() not in (tmp_path / "a.db").read_bytes()
    assert (tmp_path / "a.db").stat().st_mode & 0o077 == 0
    book, other = Accounts(tmp_path / "a.db"), Accounts(tmp_path / "a.db")
    assert other.find(token).name == "ann"
    cookie = other.enter(other.find(token))
    assert other.visit(cookie)[0].name == "ann"
    book.revoke("ann")
    assert book.find(token) is None
    time.sleep(1.1)  # another process notices within a second
    assert other.find(token) is None
    assert other.visit(cookie) is None


def test_tokens_expire_and_a_new_one_keeps_the_name(monkeypatch):
    book = Accounts()
    token = book.add("ann", "analyst", days=1)
    with pytest.raises(ParameterError, match="already"):
        book.add("ann", "owner")
    later = time.time() + 2 * 86400
    monkeypatch.setattr("shoal.server.accounts.time.time", lambda: later)
    assert book.find(token) is None
    assert book.find(book.add("ann", "analyst")).name == "ann"


@pytest.mark.parametrize(
    "token", ["", "shoal-", "shoal-x-y", "a" * 10_000, "\ud800", "shoal-000000000000-", "\0"]
)
def test_what_is_no_token_opens_nothing(token):
    book = Accounts()
    book.add("ann", "analyst")
    assert book.find(token) is None
    assert book.visit(token) is None


@pytest.mark.parametrize(
    ("name", "role", "days"),
    [
        ("", "analyst", 1),
        ("A", "analyst", 1),
        ("a" * 65, "analyst", 1),
        ("ann", "king", 1),
        ("ann", "owner", 0),
    ],
)
def test_accounts_that_are_refused(name, role, days):
    with pytest.raises(ParameterError, match="must be"):
        Accounts().add(name, role, days)


def test_a_bucket_gives_so_many_turns_a_minute():
    bucket = Buckets(3)
    assert [bucket.take("a") for _ in range(5)] == [True, True, True, False, False]
    assert bucket.take("b")
    bucket.give_back("a")
    assert [bucket.take("a"), bucket.take("a")] == [True, False]


def write(folder, server="", dataset="", private="false"):
    survey = DATASETS["survey"].path
    (folder / "s.csv").write_bytes(survey.read_bytes())
    text = survey.with_suffix(".toml").read_text().replace("private = false", f"private = {private}")
    (folder / "s.toml").write_text(text)
    path = folder / "shoal.toml"
    path.write_text(f'[server]\n{server}\n[datasets.s]\nfile = "s.csv"\nschema = "s.toml"\n{dataset}\n')
    return path


def test_a_configuration_is_read_relative_to_its_folder(tmp_path):
    config = Config.from_toml(write(tmp_path, "slot_seconds = 0.5", 'modes = ["dp", "heuristic"]'))
    assert config.ledger == str(tmp_path / "ledger.db")
    assert config.datasets["survey"].modes == ("dp", "heuristic")
    assert config.host == "127.0.0.1"
    shared = Config.from_toml(write(tmp_path, 'ledger = "postgresql://u@h/d"'))
    assert shared.accounts == shared.ledger


@pytest.mark.parametrize(
    ("server", "dataset", "says"),
    [
        ("nonsense = 1", "", "may have"),
        ("port = 0", "", "'port'"),
        ('port = "x"', "", "'port'"),
        ("slot_seconds = -1", "", "'slot_seconds'"),
        ('certificate = "c.pem"', "", "together"),
        ('certificate = "c.pem"\ncertificate_key = "k.pem"', "", "No certificate file"),
        ("", 'modes = ["magic"]', "'modes'"),
        ("", "modes = []", "at least one mode"),
        ("", 'modes = ["heuristic"]', "refused on a data set marked private"),
        ("", "colour = 1", "may have"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(tmp_path, server, dataset, says):
    with pytest.raises(ShoalError, match=says) as caught:
        Config.from_toml(write(tmp_path, server, dataset, private="true"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "example.org", "::"])
def test_a_public_address_needs_tls_or_a_proxy(host):
    with pytest.raises(ParameterError, match="--behind-proxy"):
        Config(host=host).check_address(behind_proxy=False)
    Config(host=host).check_address(behind_proxy=True)
    Config(host="127.0.0.1").check_address(behind_proxy=False)


def test_accounts_that_are_in_use_are_read_together(tmp_path, monkeypatch):
    book = Accounts(tmp_path / "accounts.db")
    tokens = [book.add(f"ann-{i}", "analyst") for i in range(5)]
    now = time.monotonic()
    monkeypatch.setattr(
        time, "monotonic", lambda: now
    )  # a busy machine may take longer than an account stays fresh
    found = [book.find(token) for token in tokens]
    assert [book.recall(token) for token in tokens] == found
    statements = []
    sa.event.listen(book.engine, "before_cursor_execute", lambda *said: statements.append(said[2]))

    for late in (2, 4):
        monkeypatch.setattr(time, "monotonic", lambda late=late: now + late)
        statements.clear()
        assert [book.recall(token) for token in tokens] == [None] * 5
        assert [book.find(token) for token in tokens] == found
        assert len(statements) == 1
        assert [book.recall(token) for token in tokens] == found

    Accounts(tmp_path / "accounts.db").revoke("ann-3")  # by another process
    monkeypatch.setattr(time, "monotonic", lambda: now + 6)
    assert [book.find(token) is None for token in tokens] == [False, False, False, True, False]
    book.revoke("ann-1")
    assert [book.recall(token) is None for token in tokens] == [True] * 5
    assert [book.find(token) is None for token in tokens] == [False, True, False, True, False]
