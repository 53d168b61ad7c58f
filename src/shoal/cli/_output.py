"""The output stream when nobody reads on: a command whose reader has left still ends with its own exit code."""

from __future__ import annotations

import os
import sys
from typing import IO, Any


class Unread:
    """A text stream that writes to nowhere once its reader has gone (`shoal check ... | head -1`)."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop what nobody reads."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._to_nowhere()
            return len(text)

    def flush(self) -> None:
        """Hand over what was written."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._to_nowhere()

    def _to_nowhere(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def install() -> None:
    """Let no reader who leaves early change what a command answers by its exit code."""
    sys.stdout = Unread(sys.stdout)
