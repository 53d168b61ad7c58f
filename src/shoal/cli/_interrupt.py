"""Ctrl-C that answers at once, even while compiled code runs.

Python hears a signal only between two of its own instructions, so a long kernel would make it deaf. The
signal's byte on a wake-up pipe is read by a thread; if the main thread has not reacted after a moment, the
thread removes temporary files and ends the process.
"""

from __future__ import annotations

import atexit
import signal
import socket
import sys
import threading
from types import FrameType

from shoal.cli import leave

GRACE_SECONDS = 1.0
THREAD = "shoal-interrupt"


def install() -> None:
    """Listen for Ctrl-C in the background (main thread only, once a process)."""
    if any(thread.name == THREAD for thread in threading.enumerate()):
        return
    reacted = threading.Event()

    def handler(_signal: int, _frame: FrameType | None) -> None:
        reacted.set()
        sys.unraisablehook = lambda _: None  # objects left half-made would complain when they are thrown away
        raise KeyboardInterrupt

    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    signal.signal(signal.SIGINT, handler)
    atexit.register(
        signal.signal, signal.SIGINT, signal.SIG_IGN
    )  # the work is done, and its exit code is known
    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)

    def listen() -> None:
        # `mouth` is kept alive by this closure as long as the process lives.
        while mouth.fileno() >= 0:
            heard = ear.recv(64)
            if signal.SIGINT not in heard:
                continue
            if not reacted.wait(GRACE_SECONDS):
                _leave()
            reacted.clear()

    threading.Thread(target=listen, name=THREAD, daemon=True).start()


def _leave() -> None:
    if "shoal.io" in sys.modules:
        sys.modules["shoal.io"].remove_temporaries()
    leave()
