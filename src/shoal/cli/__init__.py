"""The command line: words and exit codes, nothing computed here.

Each file holds one group of commands and adds them in `register`. Heavy packages are imported inside the
commands, so that `shoal --help` answers at once. This file loads nothing before `main` listens for Ctrl-C.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

from shoal.lazy import loaded_when_used

INTERRUPTED = "Interrupted; nothing was written."
CHARGED = "Interrupted; no file was written. What was charged stays charged, and a period that a stream took in stays in it."
EXIT_CODE = 130

__getattr__ = loaded_when_used(__name__, {"app": "shoal.cli._commands"})


def main() -> None:
    """Run the command that the words after `shoal` ask for."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, _leave
        )  # loading the commands takes a while, and begins with what others wrote
    gc.set_threshold(
        50_000, 50, 50
    )  # a sixth of the start is spent on looking for garbage among what is loaded
    from shoal.cli._commands import run

    run()


def _leave(_signal: int, _frame: FrameType | None) -> None:
    leave()


def interrupted() -> str:
    """What is said of a command that was interrupted: once a ledger may have been opened, charges are not taken back."""
    return CHARGED if "shoal.dp.ledger.ledger" in sys.modules else INTERRUPTED


def leave() -> None:
    """End the process as an interrupted one, with a word if anybody can hear it."""
    try:
        os.write(2, f"shoal: {interrupted()}\n".encode())
    finally:
        os._exit(EXIT_CODE)
