"""Compiled kernels on disk: where they are kept, and when they are no longer those of the source.

numba's files are used as they are; what differs is the digest, which covers every kernel that is called, and their
names, which hold no line numbers: a new version overwrites the old one, and files of kernels that are gone are
removed. What one process is compiling, another waits for instead of compiling it too.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    NullCache,
    _Cache,
    _CacheLocator,
)

if TYPE_CHECKING:
    from shoal.engine.compile import Kernel

_MARK = "kernel"
_PATIENCE = 60.0  # seconds to wait for another process; kernels that call each other could wait for ever
_digests: dict[int, str] = {}
_tidied: set[str] = set()


class KeptCode(_Cache):
    """The files of one kernel, looked for when it is first called."""

    def __init__(self, kernel: Kernel, about_to_compile: Callable[[], None]) -> None:
        self.kernel = kernel
        self._about_to_compile = about_to_compile
        self._held: tuple[int, Path] | None = None  # an open file that other processes wait for

    @functools.cached_property
    def _files(self) -> Any:
        function = self.kernel.py_func
        _digests[id(function)] = self.kernel.digest()
        try:
            return _Files(function)
        except (RuntimeError, OSError):  # no folder to write to
            return NullCache()

    @property
    def cache_path(self) -> str | None:
        """The folder of the files."""
        path: str | None = self._files.cache_path
        return path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for these types, or nothing: then it is compiled now."""
        found = self._load(sig, target_context)
        if found is None:
            self._about_to_compile()
            if self._waited():
                found = self._load(sig, target_context)
            if found is not None:
                self._done()
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        try:
            return self._files.load_overload(sig, target_context)
        except (
            Exception
        ):  # an index may name types that an upgrade has renamed, and then cannot be read at all
            with contextlib.suppress(OSError):
                self._files.flush()
            return None

    def _waited(self) -> bool:
        """Whether another process was compiling this kernel, and has ended; the next one waits for this process."""
        folder = self.cache_path
        if folder is None or self._held or sys.platform == "win32":
            return False
        path = Path(folder) / f"{_stem(self.kernel)}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # a folder that cannot be written
            return False
        self._held = (held, path)
        began, waited = time.monotonic(), False
        while not _locked(held) and time.monotonic() - began < _PATIENCE:
            waited = True
            time.sleep(0.02)
        return waited

    def _done(self) -> None:
        """Let other processes go on."""
        if self._held:
            held, path = self._held
            self._held = None
            with contextlib.suppress(OSError):
                path.unlink()
            _unlock(held)  # before it is closed: a child forked meanwhile has the file open as well
            os.close(held)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled; a folder that has become full or read-only is no mistake."""
        try:
            with contextlib.suppress(OSError):  # a folder that cannot be written
                self._files.save_overload(sig, data)
                _tidy(self.kernel, self._files.cache_path)
        finally:
            self._done()

    def enable(self) -> None:
        """Use the files."""
        self._files.enable()

    def disable(self) -> None:
        """Compile anew in each process."""
        self._files.disable()

    def flush(self) -> None:
        """Forget what was compiled."""
        self._files.flush()


class _Place(_CacheLocator):
    """The folder for a kernel's files, and the digest of the source that they must name."""

    def __init__(self, py_func: Any, folder: Path) -> None:
        self._py_file = py_func.__code__.co_filename
        self._folder = folder
        self._digest = _digests[id(py_func)]

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return _MARK

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Place | None:
        """The first folder that can be written; one that cannot is still read, as in an image built by root."""
        name = f"{Path(py_file).stem}.{_file_name(py_func)}-{_MARK}."
        for folder in _folders(py_file):
            if _writable(folder) or any(folder.glob(f"{name}*.nbi")):
                return cls(py_func, folder)
        return None


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Place]  # noqa: RUF012 - numba names it and changes nothing in it


class _Files(FunctionCache):
    _impl_class = _Implementation


def _folders(py_file: str) -> list[Path]:
    """Where a file's kernels may be kept, best first."""
    inside = Path(os.path.abspath(py_file)).parent
    digest = hashlib.sha256(str(inside).encode()).hexdigest()[:16]
    named = f"{inside.name}-{digest}"
    given: str = getattr(config, "CACHE_DIR", "")
    folders = [Path(given) / named] if given else []
    if Path(py_file).exists():
        folders.append(inside / "__pycache__")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [*folders, Path(home) / "shoal" / "kernels" / named]


def _writable(folder: Path) -> bool:
    """Whether files can be put into a folder, which is made where it can be."""
    for each in (folder, *folder.parents):
        if each.exists():
            return each.is_dir() and os.access(each, os.W_OK | os.X_OK)
    return False


def _file_name(function: Any) -> str:
    return str(function.__qualname__).replace("<", "").replace(">", "")


def _stem(kernel: Kernel) -> str:
    """How the names of a kernel's files begin."""
    function = kernel.py_func
    return f"{Path(function.__code__.co_filename).stem}.{_file_name(function)}-{_MARK}"


def _unlock(held: int) -> None:
    import fcntl

    fcntl.flock(held, fcntl.LOCK_UN)


def _locked(held: int) -> bool:
    """Whether an open file is now this process's own."""
    import fcntl

    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _tidy(kernel: Kernel, folder: str | None) -> None:
    """Remove files of kernels that their module no longer has; once for each module, after one was compiled."""
    from shoal.engine.compile import siblings

    function = kernel.py_func
    if folder is None or function.__module__ in _tidied or "<locals>" in function.__qualname__:
        return
    _tidied.add(function.__module__)
    stem = Path(function.__code__.co_filename).stem
    present = {_stem(each) for each in siblings(function.__module__)}
    for path in Path(folder).glob(f"{stem}.*.nb[ic]"):
        if path.name.rpartition(".py3")[0] not in present:
            path.unlink(missing_ok=True)
