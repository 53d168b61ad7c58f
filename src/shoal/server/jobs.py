"""Jobs of the publish page: one private folder each, and the process at work in it.

All work on an uploaded table is done by a process of its own (`shoal.server.worker`), which can be stopped, whose
memory is limited, and which writes what it does to the job's folder, so that any worker can show it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from shoal.server.service import UnknownError

KEEP_SECONDS = 3600
_GONE = "There is no such job; it may have been forgotten."


class Jobs:
    """The private folder of all jobs: one folder each, named by chance, forgotten after an hour.

    Parameters
    ----------
    folder : Path, optional
        Shared by the workers of one server; one of its own if left open.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="shoal-jobs-")) if folder is None else folder

    def new(self, account: str) -> Path:
        """A new folder that only this process's user can enter."""
        self.sweep()
        job = self.folder / secrets.token_hex(12)
        job.mkdir(mode=0o700)
        write(job / "job.json", {"account": account, "state": "new", "error": "", "at": time.time()})
        return job

    def job(self, name: str, account: str) -> Path:
        """The folder of a job of this account."""
        folder = self.folder / name
        if len(name) != 24 or not set(name) <= set("0123456789abcdef") or not folder.is_dir():
            raise UnknownError(_GONE)
        if read(folder / "job.json").get("account") != account:
            raise UnknownError(_GONE)
        return folder

    def sweep(self) -> None:
        """Forget jobs older than an hour."""
        for folder in self.folder.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > KEEP_SECONDS:
                    self.forget(folder)

    def forget(self, folder: Path) -> None:
        """Stop a job's work and remove all its files."""
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Forget everything."""
        if self._own:
            for folder in list(self.folder.iterdir()):
                self.forget(folder)
            shutil.rmtree(self.folder, ignore_errors=True)


def start(folder: Path, what: str) -> None:
    """Begin a job's work in a process of its own."""
    words = [sys.executable, "-m", "shoal.server.worker", what, str(folder)]
    quiet: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    process = subprocess.Popen(words, start_new_session=True, **quiet)  # noqa: S603 - words of our own
    write(folder / "process.json", {"pid": process.pid})


def running(folder: Path) -> bool:
    """Whether a job's process is alive."""
    try:
        pid = int(read(folder / "process.json")["pid"])
        with contextlib.suppress(ChildProcessError):
            return os.waitpid(pid, os.WNOHANG)[0] != pid  # a child of this worker: no doubt whose it is
        command = Path(f"/proc/{pid}/cmdline")
        return not command.parent.parent.is_dir() or folder.name.encode() in command.read_bytes()
    except (OSError, KeyError, ValueError):
        return False


def busy(folder: Path) -> bool:
    """Whether a job is at work; a process that has said its last word may still be about to end."""
    try:
        return read(folder / "job.json")["state"] in ("looking", "running") and running(folder)
    except UnknownError:
        return False


def stop(folder: Path) -> None:
    """End a job's process."""
    if running(folder):
        with contextlib.suppress(OSError):
            os.kill(int(read(folder / "process.json")["pid"]), 9)


def steps(folder: Path) -> list[str]:
    """What a job's process said so far."""
    try:
        lines = (folder / "progress.jsonl").read_text(encoding="utf-8").splitlines()
        return [str(json.loads(line)) for line in lines]
    except (OSError, ValueError):
        return []


def read(path: Path) -> dict[str, Any]:
    """Facts from a file of a job."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnknownError(_GONE) from None
    return found


def change(folder: Path, **facts: Any) -> None:
    """Say something new about a job."""
    write(folder / "job.json", {**read(folder / "job.json"), **facts})


def write(path: Path, facts: dict[str, Any]) -> None:
    """Facts into a file of a job, whole or not at all."""
    draft = path.with_suffix(f".{secrets.token_hex(4)}")
    draft.write_text(json.dumps(facts, default=float), encoding="utf-8")
    draft.replace(path)
