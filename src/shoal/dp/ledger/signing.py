"""Signed heads: the ledger's head with an Ed25519 signature, so that who keeps it can prove where it came from."""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from shoal.dp.ledger.entries import Head
from shoal.errors import LedgerError, MissingExtraError, ParameterError

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError:
    raise MissingExtraError("cryptography", "server") from None

ENDING = ".signing-key"
PUBLIC = ".pub"
_HASH = re.compile("[0-9a-f]{64}")
_PREFIX = "ed25519:"


@dataclass(frozen=True)
class SignedHead:
    """A head of a ledger, when it was signed, the signature, and the public key that it holds under.

    Parameters
    ----------
    entries : int
    head : str
    at : str
    signature, public_key : str
        Base64.

    Examples
    --------
    >>> from shoal.dp.ledger.entries import Head
    >>> from shoal.dp.ledger.signing import SignedHead, SigningKey
    >>> signed = SigningKey().sign(Head(7, "3f" * 32))
    >>> SignedHead.from_line(signed.line) == signed, signed.holds(), signed.holds(SigningKey().public_key)
    (True, True, False)
    """

    entries: int
    head: str
    at: str
    signature: str
    public_key: str

    @property
    def line(self) -> str:
        """The one line in which it is kept: number of entries, hash, time, signature, public key."""
        return f"{self.entries} {self.head} {self.at} {_PREFIX}{self.signature} {_PREFIX}{self.public_key}"

    @classmethod
    def from_line(cls, line: str) -> Self:
        """What `line` wrote."""
        words = line.split()
        try:
            entries, head, at, signature, public_key = words
            if not (
                _HASH.fullmatch(head) and signature.startswith(_PREFIX) and public_key.startswith(_PREFIX)
            ):
                raise ValueError
            return cls(
                int(entries), head, at, signature.removeprefix(_PREFIX), public_key.removeprefix(_PREFIX)
            )
        except ValueError:
            raise ParameterError("A signed head must be the line that 'shoal ledger sign' prints.") from None

    def holds(self, public_key: str | None = None) -> bool:
        """Whether the signature is right, under the key named here or under one known from elsewhere."""
        if public_key is not None and public_key != self.public_key:
            return False
        try:
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(self.public_key, validate=True))
            key.verify(base64.b64decode(self.signature, validate=True), _message(self))
        except (ValueError, InvalidSignature):
            return False
        return True

    def required(self, public_key: str | None = None) -> str:
        """The hash, or a sentence where the signature does not hold."""
        if not self.holds(public_key):
            raise ParameterError(
                "The signature of the head kept does not hold: it was changed, or another key signed it."
            )
        return self.head


class SigningKey:
    """The key that signs heads, in a file that only its owner can read; its public half lies beside it.

    Parameters
    ----------
    path : Path, optional
        Made where there is none. Without a path the key lives as long as this object.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._key = Ed25519PrivateKey.generate() if path is None else _found(path)

    @property
    def public_key(self) -> str:
        """What auditors are given, once, by another way than the heads."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, head: Head) -> SignedHead:
        """A head with its signature."""
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        open_head = SignedHead(head.seq, head.hash, at, "", self.public_key)
        signature = base64.b64encode(self._key.sign(_message(open_head))).decode()
        return SignedHead(head.seq, head.hash, at, signature, self.public_key)


def key_beside(ledger: str | Path) -> Path | None:
    """Where the signing key of a ledger in a file lies; None for one in a database."""
    text = str(ledger)
    return None if "://" in text else Path(text + ENDING)


def public_key_in(path: Path) -> str:
    """The public key that a file holds."""
    try:
        text = path.read_text(encoding="ascii").strip().removeprefix(_PREFIX)
        Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (OSError, ValueError):
        raise ParameterError(f"{str(path)!r} must hold a public key such as {_PREFIX}AbC...=.") from None
    return text


def kept_head(text: str, public_key: str | None = None) -> str:
    """The hash of a head that somebody kept: the hash itself, or a signed line whose signature must hold.

    Parameters
    ----------
    text : str
    public_key : str, optional
        Known from elsewhere. Without it a signature shows only that the line was not changed since it was signed by
        whoever holds the key it names.
    """
    text = text.strip()
    if len(text.split()) < 2:
        return text.lower()
    return SignedHead.from_line(text).required(public_key)


def _message(signed: SignedHead) -> bytes:
    return f"head of a shoal ledger\n{signed.entries}\n{signed.head}\n{signed.at}\n".encode()


def _found(path: Path) -> Ed25519PrivateKey:
    if not path.exists():
        _make(path)
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="ascii")
        key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(text.strip(), validate=True))
    except (OSError, ValueError):
        raise LedgerError(f"The signing key {str(path)!r} cannot be read.") from None
    if os.name == "posix" and mode & 0o077:
        raise LedgerError(f"The signing key {str(path)!r} must be readable by its owner only (chmod 600).")
    return key


def _make(path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    _write(path, base64.b64encode(key.private_bytes_raw()).decode(), 0o600)
    kept = _found(path)  # another process may have been quicker
    public = base64.b64encode(kept.public_key().public_bytes_raw()).decode()
    _write(path.with_name(path.name + PUBLIC), f"{_PREFIX}{public}", 0o644)


def _write(path: Path, text: str, mode: int) -> None:
    """Whole or not at all, and never over another."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "w") as file:
            file.write(text + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise LedgerError(
            f"The signing key {str(path)!r} cannot be written: {error.strerror or error}."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
