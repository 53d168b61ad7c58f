"""The ledger's secret: the key of its store, kept outside the ledger and its backups."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from shoal.errors import LedgerError

BYTES = 32


def random_word() -> str:
    """A word that says nothing: for nonces, and for states of a table that nobody named."""
    return secrets.token_hex(16)


class Secret:
    """A key in a file of its own that only its owner can read, or for one opening of a ledger only.

    Parameters
    ----------
    path : Path, optional
        Without one the key is drawn at random and forgotten with the ledger: stored answers are then found by this
        opening alone.

    Examples
    --------
    >>> from shoal.dp.ledger.secret import Secret
    >>> secret = Secret()
    >>> secret.key_of("a question") == secret.key_of("a question") != Secret().key_of("a question")
    True
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._key = secrets.token_bytes(BYTES) if path is None else None

    def key_of(self, facts: str) -> str:
        """The store's key: tells nothing about the facts to who has not the secret."""
        return hmac.new(self._bytes(), facts.encode(), hashlib.sha256).hexdigest()

    @property
    def mark(self) -> str:
        """What tells the ledger that this is its secret, and nobody anything else."""
        return self.key_of("the mark of this secret")

    @property
    def lasting(self) -> bool:
        """Whether it outlives this opening."""
        return self.path is not None

    def make(self) -> None:
        """Draw a key and write its file; one that another process wrote a moment ago is taken instead."""
        if self.path is None or self.path.exists():
            return
        self._write(self.path)

    def renew(self) -> None:
        """Draw another key in place of the one there is, or was."""
        if self.path is None:
            self._key = secrets.token_bytes(BYTES)
            return
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        self._key = None
        self._write(self.path)

    def _write(self, path: Path) -> None:
        draft = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
        try:
            with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                file.write(secrets.token_hex(BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # whole, or not at all, and never over another
        except OSError as error:
            raise LedgerError(
                f"The ledger's secret {str(path)!r} cannot be written: {error.strerror or error}."
            ) from None
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    def _bytes(self) -> bytes:
        if self._key is None:
            assert self.path is not None  # else it was drawn
            self._key = _read(self.path)
        return self._key


def _read(path: Path) -> bytes:
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="ascii")
        key = bytes.fromhex(text.strip())
    except FileNotFoundError:
        raise LedgerError(
            f"The ledger's secret {str(path)!r} is missing: put it back, or make another with 'shoal ledger rekey' "
            "(no charge is lost; answers stored so far are then asked for and charged anew)."
        ) from None
    except (OSError, ValueError):
        raise LedgerError(f"The ledger's secret {str(path)!r} cannot be read.") from None
    if len(key) < BYTES:
        raise LedgerError(f"The ledger's secret {str(path)!r} must have {BYTES} bytes in hexadecimal.")
    if os.name == "posix" and mode & 0o077:
        raise LedgerError(
            f"The ledger's secret {str(path)!r} must be readable by its owner only (chmod 600)."
        )
    return key
