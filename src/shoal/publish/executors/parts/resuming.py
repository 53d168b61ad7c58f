"""The work folder beside the output, and how an interrupted run finds what it has done."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.errors import InputError
from shoal.publish.executors.alone import alone
from shoal.publish.stages.plan import PublishPlan

# Rows of each part, and of each part and sensitive value where closeness was asked for.
Sizes = tuple[np.ndarray, pl.DataFrame | None]
PLAN = "plan.pickle"
"""What is written when all rows are spilled."""


@contextlib.contextmanager
def work_folder(output: Path, resume: bool) -> Iterator[Path]:
    """A folder beside the output, of one run at a time: kept when a run is interrupted whose parts wait in it, else removed."""
    folder = output.parent / f".{output.name}.parts"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InputError(f"The work folder {str(folder)!r} cannot be made: {error.strerror}.") from None
    _refuse_of_others(folder)
    with alone(folder, output):
        if not resume:
            _empty(folder)
        with _kept_or_removed(folder):
            yield folder


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


@contextlib.contextmanager
def _kept_or_removed(folder: Path) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if not (folder / PLAN).exists():  # there is nothing to go on from, only rows of the table
            shutil.rmtree(folder, ignore_errors=True)
        raise
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        text = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"The work folder {str(folder)!r} cannot be written: {text}.") from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_of_others(folder: Path) -> None:
    """Raise a sentence where somebody else could have put something there: what is kept in it is run."""
    if not hasattr(os, "getuid"):  # a system without owners of this kind
        return
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        raise InputError(
            f"The work folder {str(folder)!r} must be a folder of yours that nobody else can write to. "
            "Got another: remove it, or choose another output."
        )


def fingerprint(*facts: Any) -> str:
    """A digest by which a resumed run knows its own work folder."""
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def state_of(file: Path) -> tuple[str, int, int, int]:
    """What changes with a file: a copy that keeps its time is another file all the same."""
    found = file.stat()
    return str(file), found.st_size, found.st_mtime_ns, found.st_ctime_ns


def remember(folder: Path, mark: str, plan: PublishPlan, sizes: Sizes) -> None:
    """Note that all rows are spilled, and how."""
    temporary = folder / "plan.tmp"
    temporary.write_bytes(pickle.dumps((mark, plan, sizes)))
    temporary.replace(folder / PLAN)


def forget(folder: Path) -> None:
    """Remove what another run spilled and solved."""
    for pattern in ("plan.*", "part-*", "solved-*"):
        for file in folder.glob(pattern):
            file.unlink()


def recall(folder: Path, mark: str) -> tuple[PublishPlan, Sizes] | None:
    """The plan of an interrupted run of the same settings on the same files, if there is one."""
    path = folder / PLAN
    if not path.exists():
        return None
    found, plan, sizes = pickle.loads(path.read_bytes())  # noqa: S301 (our own folder, mode 700)
    return (plan, sizes) if found == mark else None
