"""Signed heads: made, kept, compared, and refused where somebody changed them."""

from __future__ import annotations

import base64
import dataclasses
import os
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shoal.dp import AddRemoveRecord, Ledger
from shoal.dp.ledger.claims import Amount, Claim
from shoal.dp.ledger.signing import SignedHead, SigningKey, kept_head, key_beside, public_key_in
from shoal.errors import LedgerError, ParameterError
from shoal.server.config import Config

HEAD = "3f" * 32


def spend(ledger, what="how many?"):
    ledger.declare("survey", 5_000_000)
    claim = Claim("survey", "ann", what, "version 1", Amount(1000), AddRemoveRecord())
    ledger.once(claim, lambda: "12")


def shoal(*words):
    return subprocess.run(
        [sys.executable, "-m", "shoal", *map(str, words)], capture_output=True, text=True, check=False
    )


def test_a_key_is_made_once_for_its_owner_only(tmp_path):
    path = tmp_path / "ledger.db.signing-key"
    first, second = SigningKey(path), SigningKey(path)
    assert first.public_key == second.public_key == public_key_in(tmp_path / "ledger.db.signing-key.pub")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name, path.name + ".pub"]
    path.chmod(0o644)
    with pytest.raises(LedgerError, match="owner only"):
        SigningKey(path)
    assert key_beside("postgresql://x/y") is None


def test_the_signature_holds_by_plain_ed25519_and_breaks_with_any_change(tmp_path):
    from shoal.dp.ledger.entries import Head

    signed = SigningKey(tmp_path / "key").sign(Head(7, HEAD))
    said = f"head of a shoal ledger\n7\n{HEAD}\n{signed.at}\n".encode()
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(signed.public_key))
    public.verify(base64.b64decode(signed.signature), said)  # raises if it does not hold
    assert kept_head(signed.line) == HEAD
    assert kept_head(HEAD.upper()) == HEAD
    for change in (
        {"entries": 8},
        {"head": "4f" * 32},
        {"at": "2020-01-01T00:00:00+00:00"},
        {"public_key": SigningKey().public_key},
    ):
        line = dataclasses.replace(signed, **change).line
        assert not SignedHead.from_line(line).holds()
        with pytest.raises(ParameterError, match="does not hold"):
            kept_head(line)
    other = SigningKey().sign(Head(7, HEAD))
    assert other.holds()
    with pytest.raises(ParameterError, match="another key"):
        kept_head(other.line, signed.public_key)
    for wrong in ("7 x", f"7 {HEAD}", f"seven {HEAD} now ed25519:a ed25519:b"):
        with pytest.raises(ParameterError):
            kept_head(wrong)


def test_the_command_signs_and_compares(tmp_path):
    where, heads = tmp_path / "ledger.db", tmp_path / "heads.txt"
    with Ledger(where) as ledger:
        spend(ledger)
    assert shoal("ledger", "sign", where, "-o", heads).returncode == 0
    with Ledger(where) as ledger:
        spend(ledger, "and how many more?")
    public = tmp_path / "ledger.db.signing-key.pub"
    fine = shoal("ledger", "verify", where, "--expects", heads, "--public-key", public)
    assert (fine.returncode, "the chain holds" in fine.stdout) == (0, True), fine.stderr
    stranger = tmp_path / "other.pub"
    stranger.write_text(f"ed25519:{SigningKey().public_key}\n")
    told = shoal("ledger", "verify", where, "--expects", heads, "--public-key", stranger)
    assert (told.returncode, "another key" in told.stderr) == (2, True)
    with Ledger(tmp_path / "other.db") as ledger:
        spend(ledger)
    replaced = shoal("ledger", "verify", tmp_path / "other.db", "--expects", heads)
    assert (replaced.returncode, "rolled back or replaced" in replaced.stdout) == (1, True)


def test_the_anchor_of_a_server_is_signed_and_a_forged_one_is_refused(tmp_path):
    anchor = tmp_path / "heads.txt"
    config = Config(ledger=str(tmp_path / "ledger.db"), anchor=str(anchor), slot_seconds=0.0)
    with config.open_ledger() as ledger:
        spend(ledger)
        head = ledger.head()
    signed = SignedHead.from_line(anchor.read_text().splitlines()[-1])
    assert (signed.entries, signed.head, signed.holds(config.signing().public_key)) == (*head, True)
    config.open_ledger().close()
    for forged in (SigningKey().sign(head).line, f"{head.seq} {head.hash} now"):
        anchor.write_text(forged + "\n")
        with pytest.raises(LedgerError, match="not to be trusted"):
            config.open_ledger()
    other = Config(ledger=str(tmp_path / "ledger.db"), expects=signed.line, slot_seconds=0.0)
    other.open_ledger().close()
