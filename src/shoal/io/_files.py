"""Files as such: written to a temporary one beside the target and renamed when complete; refusals beforehand."""

from __future__ import annotations

import contextlib
import contextvars
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl

from shoal.errors import InputError

_temporaries: set[Path] = set()
_waiting: contextvars.ContextVar[dict[Path, Path] | None] = contextvars.ContextVar("waiting", default=None)


def write_text(text: str, path: str | Path, mode: int | None = None) -> None:
    """Write a page or a picture as UTF-8; a character that has no place there becomes a question mark.

    Parameters
    ----------
    text : str
    path : str or Path
    mode : int, optional
        Who may read the file, as of `atomic`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from shoal.io import write_text
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> write_text("<p>née</p>", path)
    >>> path.read_text(encoding="utf-8")
    '<p>née</p>'
    """
    check_folder(path)
    with atomic(path, mode) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def check_apart(written: Mapping[str, str | Path | None], read: Iterable[str | Path | None] = ()) -> None:
    """Raise a sentence if a file would be written over one that is read, among those of a folder, or over another one.

    Parameters
    ----------
    written : mapping of str to path
        The option that names each file to be written; None where it is not given, `-` for a pipe.
    read : paths
        The files that are read.

    Examples
    --------
    >>> from shoal.io import check_apart
    >>> check_apart({"--output": "protected.csv", "--report": "protected.csv"}, ["survey.csv"])
    Traceback (most recent call last):
    ...
    shoal.errors.InputError: '--report' must name a file of its own. Got 'protected.csv', which is '--output'.
    """
    places = [_place(path) for path in read if path is not None and str(path) != "-"]
    taken = dict.fromkeys(places, "a file that is read")
    folders = [place for place in places if os.path.isdir(place)]
    for option, path in written.items():
        if path is None or str(path) == "-":
            continue
        other = taken.setdefault(_place(path), repr(option))
        if other != repr(option):
            raise InputError(f"{option!r} must name a file of its own. Got {str(path)!r}, which is {other}.")
        if any(_place(path).startswith(folder + os.sep) for folder in folders):
            raise InputError(
                f"{option!r} must name a file of its own. Got {str(path)!r}, which is inside a folder that is read."
            )


def _place(path: str | Path) -> str:
    """The file itself, whatever way leads to it."""
    return os.path.realpath(path)


def _behind_links(path: str | Path) -> Path:
    """The file that a link leads to, so that the link itself stays; any other path as it is."""
    return Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)


def check_folder(path: str | Path) -> None:
    """Raise a sentence if the folder of a file to be written is absent or may not be written to."""
    path = _behind_links(path)
    if path.is_dir():
        raise InputError(f"A file was expected for the output. Got the folder {str(path)!r}.")
    if path.exists() and not path.is_file():
        raise InputError(
            f"A file was expected for the output. Got {str(path)!r}, which is a pipe or a device."
        )
    if not path.parent.is_dir():
        raise InputError(f"The folder of {str(path)!r} does not exist.")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InputError(f"The file {str(path)!r} cannot be written: no permission.")


def check_page(path: str | Path) -> None:
    """Raise a sentence if an HTML page cannot be written here, or would have the ending of another format.

    Examples
    --------
    >>> from shoal.io import check_page
    >>> check_page("report.pdf")
    Traceback (most recent call last):
    ...
    shoal.errors.InputError: A report is an HTML page: its name must end in .html or .htm. Got 'report.pdf'.
    """
    path = Path(path)
    check_folder(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"A report is an HTML page: its name must end in .html or .htm. Got {path.name!r}.")


@contextlib.contextmanager
def atomic(path: str | Path, mode: int | None = None) -> Iterator[Path]:
    """Give a temporary path beside the target; rename it when the block ends well, else remove it.

    Where the target is a link, the file that it leads to is written.

    Parameters
    ----------
    path : str or Path
    mode : int, optional
        Who may read the file, from its first byte on; as the file that it replaces, or as usual, if left open.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from shoal.io import atomic
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> with atomic(path) as temporary:
    ...     _ = temporary.write_text("whole, or not at all")
    >>> path.read_text()
    'whole, or not at all'
    """
    path = _behind_links(path)
    temporary = path.parent / f".{path.stem}-{secrets.token_hex(6)}{path.suffix}"
    _temporaries.add(temporary)
    waiting = _waiting.get()
    try:
        if mode is not None:
            temporary.touch(mode)
        yield temporary
        if mode is None:
            mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
        temporary.chmod(mode)
        if waiting is None:
            temporary.replace(path)
        else:
            if path in waiting:
                _remove(waiting[path])
            waiting[path] = temporary
    except OSError as error:
        raise InputError(f"The file {str(path)!r} cannot be written: {error.strerror or error}.") from None
    except pl.exceptions.PolarsError as error:
        raise InputError(f"The file {str(path)!r} cannot be written: {first_line(error)}") from None
    finally:
        if waiting is None or waiting.get(path) != temporary:
            _remove(temporary)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Files written in this block get their names together when it ends well, the last written first; else none does."""
    waiting: dict[Path, Path] = {}
    token = _waiting.set(waiting)
    try:
        yield
        for path, temporary in reversed(waiting.items()):
            temporary.replace(path)
    except OSError as error:
        raise InputError(f"A file cannot be written: {error.strerror or error}.") from None
    finally:
        _waiting.reset(token)
        for temporary in waiting.values():
            _remove(temporary)


def make_folder(folder: str | Path) -> Path:
    """Make a folder where it is absent."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {str(folder)!r} cannot be made: {error.strerror}.") from None
    return Path(folder)


def copy_files(sources: Iterable[Path], folder: str | Path) -> list[Path]:
    """Copy files to a folder, which is made where it is absent: all of them, or none."""
    folder = make_folder(folder)
    targets = []
    with together():
        for source in sources:
            targets.append(folder / source.name)
            check_folder(targets[-1])
            with atomic(targets[-1]) as temporary:
                shutil.copyfile(source, temporary)
    return targets


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)
    _temporaries.discard(temporary)


def remove_temporaries() -> None:
    """Remove files that are being written, before the process ends without a word."""
    for each in list(_temporaries):
        with contextlib.suppress(OSError):
            each.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def first_line(error: Exception) -> str:
    """The first line of what a library said, as a sentence ends."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return text if text.endswith(".") else text + "."


def left_out(empty: int) -> list[str]:
    """What is said of rows that were left out because none of their cells holds anything."""
    if not empty:
        return []
    rows, they = ("row holds", "it is no record") if empty == 1 else ("rows hold", "they are no records")
    return [f"{empty:,} {rows} nothing in any cell and {'is' if empty == 1 else 'are'} left out: {they}."]
