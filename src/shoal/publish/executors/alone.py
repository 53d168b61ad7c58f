"""A folder that one run holds: another would replace what waits in it by the rows of its own table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from shoal.errors import InputError

try:
    import fcntl
except ImportError:  # a system without locks of this kind
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def alone(folder: Path, output: Path) -> Iterator[None]:
    """Hold a folder as long as the block runs; raises a sentence where another run holds it."""
    held = os.open(folder, os.O_RDONLY) if fcntl is not None and folder.is_dir() else None
    try:
        if held is not None and not _is_ours(held, folder):
            raise InputError(
                f"Another run is writing {str(output)!r}: wait until it ends, or choose another output."
            )
        yield
    finally:
        if held is not None:
            os.close(held)


def _is_ours(held: int, folder: Path) -> bool:
    """Whether nobody else holds a folder, and the run that held it before has not removed it."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return folder.exists() and os.path.samestat(os.fstat(held), folder.stat())
