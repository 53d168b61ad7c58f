"""Anchors: the ledger's head told to a place outside, so that a ledger rolled back or replaced is noticed."""

from __future__ import annotations

import datetime
import logging
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from shoal.dp.ledger.entries import Head
from shoal.errors import LedgerError, ParameterError

SECONDS = 5.0
PATIENCE = 30.0
log = logging.getLogger("shoal.dp")


class Anchor:
    """Where heads are sent.

    Parameters
    ----------
    file : Path, optional
        On another disk or machine; heads are added line by line, and the last one is asked for when a ledger is opened.
    command : sequence of str, optional
        Run with the head on its standard input.
    line_of, hash_of : callable, optional
        The line of a head, such as a signed one (`SigningKey`), and the hash of a line, which raises where it is not to be
        trusted. Number of entries, hash and time if left open.

    Notes
    -----
    Sent at most every few seconds, and when the ledger is closed: what was charged after the last head that was sent
    can be rolled back unnoticed.
    """

    def __init__(
        self,
        file: Path | None = None,
        command: Sequence[str] = (),
        line_of: Callable[[Head], str] | None = None,
        hash_of: Callable[[str], str] | None = None,
    ) -> None:
        self.file, self.command = file, tuple(command)
        self._line_of, self._hash_of = line_of or plain_line, hash_of or _second_word
        self._timer: threading.Timer | None = None
        self._sent, self._lock = Head(-1, ""), threading.Lock()

    def expected(self) -> str | None:
        """The last head in the file."""
        if self.file is None or not self.file.exists():
            return None
        try:
            lines = self.file.read_text(encoding="utf-8").split("\n")
            whole = [line for line in lines[:-1] if line.strip()]
            return self._hash_of(whole[-1]) if whole else None
        except ParameterError as error:
            raise LedgerError(f"The anchor {str(self.file)!r} is not to be trusted. {error}") from None
        except (OSError, ValueError, IndexError):
            raise LedgerError(f"The anchor {str(self.file)!r} cannot be read.") from None

    def soon(self, head: Callable[[], Head]) -> None:
        """Send the head in a few seconds, unless that is already about to happen."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(SECONDS, self._later, [head])
                self._timer.daemon = True
                self._timer.start()

    def send(self, head: Head) -> None:
        """Send a head now; what goes wrong is logged, for no answer may depend on it."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if head == self._sent or head.seq == 0:
                return
            try:
                self._deliver(head)
                self._sent = head
            except (OSError, subprocess.SubprocessError) as error:
                log.error("The ledger's head could not be anchored: %s.", type(error).__name__)

    def _later(self, head: Callable[[], Head]) -> None:
        with self._lock:
            self._timer = None
        try:
            self.send(head())
        except LedgerError:
            log.error("The ledger's head could not be anchored: the ledger was not reached.")

    def _deliver(self, head: Head) -> None:
        line = f"{self._line_of(head)}\n"
        if self.file is not None:
            with os.fdopen(os.open(self.file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "w") as file:
                file.write(line)
        if self.command:
            subprocess.run(  # noqa: S603 - the owner's own words
                self.command, input=line.encode(), timeout=PATIENCE, check=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip


def plain_line(head: Head) -> str:
    """Number of entries, hash and time."""
    return f"{head.seq} {head.hash} {datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')}"


def _second_word(line: str) -> str:
    return line.split()[1]
