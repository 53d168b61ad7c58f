"""Private folders of a running server: for its user alone, removed at its end, or at the next start if it was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Self

try:
    import fcntl
except ImportError:  # no such system has several workers
    fcntl = None  # type: ignore[assignment]

JOBS, TABLES = "shoal-jobs-", "shoal-tables-"
YOUNG_SECONDS = 60.0  # between the making of a folder and its lock


class PrivateFolder:
    """A folder of this process, locked as long as the process lives, whatever ends it.

    Folders of its kind that killed processes left behind are removed first.

    Parameters
    ----------
    kind : str
        What its name begins with.
    where : str, optional
        The folder to make it in; the system's for temporary files if left open.
    """

    def __init__(self, kind: str, where: str | None = None) -> None:
        sweep(kind, where)
        self._made = tempfile.TemporaryDirectory(prefix=f"{kind}{os.getpid()}-", dir=where)
        self.path = Path(self._made.name)
        self._held = os.open(self.path, os.O_RDONLY)
        if fcntl is not None:
            fcntl.flock(self._held, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it with all that is in it."""
        self._made.cleanup()
        with contextlib.suppress(OSError):
            os.close(self._held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sweep(kind: str, where: str | None = None) -> None:
    """Remove the folders of servers that were killed before they could do it themselves."""
    for folder in Path(where or tempfile.gettempdir()).glob(f"{kind}*-*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            young = abs(time.time() - found.st_mtime) < YOUNG_SECONDS
            owner = folder.name.removeprefix(kind).partition("-")[0]
            if found.st_uid == os.getuid() and not _alive(owner, young=young) and not _locked(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _alive(owner: str, *, young: bool) -> bool:
    """Whether a folder's process may be running; in a container the next one often has the same number."""
    if not owner.isdigit():
        return True
    if int(owner) == os.getpid():
        return young
    try:
        os.kill(int(owner), 0)
    except OSError:
        return False
    return True


def _locked(folder: Path) -> bool:
    if fcntl is None:
        return False
    opened = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False
