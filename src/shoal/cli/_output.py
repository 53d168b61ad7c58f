"""The output stream when nobody reads on: a command whose reader has left still ends with its own exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Any

from shoal.errors import InputError


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
        except OSError as error:
            raise _unwritten(error) from None

    def flush(self) -> None:
        """Hand over what was written."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._to_nowhere()
        except OSError as error:
            self._to_nowhere()
            raise _unwritten(error) from None

    def _to_nowhere(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _unwritten(error: OSError) -> InputError:
    return InputError(f"The standard output cannot be written: {error.strerror or error}.")


def install() -> None:
    """Let no reader who leaves early change what a command answers by its exit code, nor one who was never there."""
    # Streams that were closed by who started the command are held open, or the next file would take their numbers and
    # what is meant for a stream would be written into it.
    while (held := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(held)
    nowhere = Path(os.devnull)
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")
    sys.stdout = Unread(sys.stdout or nowhere.open("w", encoding="utf-8"))
