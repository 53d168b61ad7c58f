"""Loaded tables that several processes ask about, in files that all of them map: memory holds each once.

The process that comes first loads a table, row by row as ever, and writes what it loaded; it and all others then map the
same pages. A file is named by what the owner declared, never by rows, and can be read by one user of the machine alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

from shoal.errors import InputError

try:
    import fcntl
except ImportError:  # no such system has several workers
    fcntl = None  # type: ignore[assignment]

Make = Callable[[], pl.DataFrame]


@dataclass(frozen=True)
class KeptFrames:
    """The files of one state of a data set; to be used while `SharedTables.opening` holds its lock.

    Parameters
    ----------
    folder : Path
    """

    folder: Path

    def frame(self, name: str, make: Make) -> pl.DataFrame:
        """A table, mapped; made and written first where no process has done it yet."""
        return self.frames([name], lambda: {name: make()})[name]

    def frames(
        self, names: Sequence[str], make: Callable[[], Mapping[str, pl.DataFrame]]
    ) -> dict[str, pl.DataFrame]:
        """Tables that are made together."""
        if self.has(names):
            return {name: _mapped(self._file(name)) for name in names}
        made = make()
        return {name: _written(made[name], self._file(name)) for name in names}

    def has(self, names: Iterable[str]) -> bool:
        """Whether all these tables were written."""
        return all(self._file(name).exists() for name in names)

    def _file(self, name: str) -> Path:
        return self.folder / f"{_digest(name)}.arrow"


@dataclass(frozen=True)
class SharedTable:
    """A table whose cells, and what is loaded from them, are kept for all processes.

    Parameters
    ----------
    cells : polars.DataFrame
        As read, mapped.
    kept : KeptFrames
    """

    cells: pl.DataFrame
    kept: KeptFrames


class SharedTables:
    """A private folder with the loaded tables of a server.

    Parameters
    ----------
    folder : path
        Made where there is none. The server that made it removes it when it ends.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> from shoal.dp.loading.shared import SharedTables
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SharedTables(folder).opening("survey", "version 1") as kept:
    ...         _ = kept.frame("rows", lambda: pl.DataFrame({"age": [31, 45]}))
    ...     with SharedTables(folder).opening("survey", "version 1") as kept:  # another process does not make it again
    ...         kept.frame("rows", lambda: None)["age"].to_list()
    [31, 45]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def opening(self, dataset: str, state: str) -> Iterator[KeptFrames]:
        """The files of a state of a data set, for one process at a time; those of other states go once it is open.

        Who has mapped an earlier state keeps it until it lets go.

        Parameters
        ----------
        dataset : str
        state : str
            What was declared: another declaration is another state.
        """
        place = self.folder / _digest(dataset)
        place.mkdir(mode=0o700, exist_ok=True)
        with (place / "lock").open("a") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            current = place / _digest(state)
            current.mkdir(mode=0o700, exist_ok=True)
            yield KeptFrames(current)
            for other in place.iterdir():
                if other.is_dir() and other != current:
                    shutil.rmtree(other, ignore_errors=True)

    def forget(self, dataset: str) -> None:
        """Remove the files of a data set that is no longer asked about."""
        with self.opening(dataset, "") as kept:
            pass
        shutil.rmtree(kept.folder, ignore_errors=True)


def shared_rows(data: object, name: str, make: Callable[[object], pl.DataFrame]) -> pl.DataFrame:
    """What `make` loads from a table's cells: kept for all processes where the table is shared."""
    if isinstance(data, SharedTable):
        return data.kept.frame(name, lambda: make(data.cells))
    return make(data)


def _written(frame: pl.DataFrame, file: Path) -> pl.DataFrame:
    """The table as it is mapped from its file; itself, for this process alone, where Arrow has no such columns."""
    draft = file.with_suffix(".part")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
            frame.write_ipc(opened, compression="uncompressed", record_batch_size=max(1, frame.height))
        found = _mapped(draft)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InputError(
            f"The copy of a table that all workers share cannot be written: {(error.strerror or 'no reason').lower()}. "
            "Give another 'tables_folder'."
        ) from None
    except (pl.exceptions.PolarsError, pa.ArrowException):
        found = None
    if found is None or found.schema != frame.schema or found.height != frame.height:
        draft.unlink(missing_ok=True)
        return frame
    os.replace(draft, file)
    return found


def _mapped(file: Path) -> pl.DataFrame:
    with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as reader:
        found = pl.from_arrow(reader.read_all(), rechunk=False)
    if not isinstance(found, pl.DataFrame):
        raise TypeError("A table was expected.")
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
