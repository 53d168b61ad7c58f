"""Parquet: one file, or a folder of files with the same columns."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from shoal.dp.loading.sources._source import BATCH_ROWS, Source
from shoal.errors import InputError
from shoal.io import first_line

_ABSENT = "__HIVE_DEFAULT_PARTITION__"


class ParquetSource(Source):
    """Files of Parquet, read a row group at a time.

    Parameters
    ----------
    path : str or Path
        A file, or a folder: all files ending in ``.parquet`` below it, those beginning with ``.`` or ``_`` left out.
        Folders called ``name=value`` add a column of texts.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import polars as pl
    >>> from shoal.dp.loading.sources._parquet import ParquetSource
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> pl.DataFrame({"age": [41, 7]}).write_parquet(folder / "a.parquet")
    >>> pl.DataFrame({"age": ["x"]}).write_parquet(folder / "b.parquet")
    >>> [batch.rows() for batch in ParquetSource(folder).batches(["age"])]
    [[(41,), (7,)], [('x',)]]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise InputError(f"No file {str(path)!r}.")
        self._files = [self.path] if self.path.is_file() else _files(self.path)
        if not self._files:
            raise InputError(f"The folder {str(path)!r} must hold files that end in .parquet.")

    def __str__(self) -> str:
        return str(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names that every file has, and those of its folders."""
        first: tuple[str, ...] = ()
        for place, file in enumerate(self._files):
            found = (*self._open(file).schema_arrow.names, *self._words(file))
            if place and set(found) != set(first):
                odd = sorted(set(found) ^ set(first))[0]
                raise InputError(
                    f"The files of {str(self.path)!r} must have the same columns. Got {odd!r} in some of them only."
                )
            first = first or found
        return first

    def check_types(self, names: Sequence[str]) -> None:
        """See `Source.check_types`."""
        for file in self._files:
            for field in self._open(file).schema_arrow:
                if field.name in names and not _is_plain(field.type):
                    raise self.not_plain(field.name, field.type)

    def batches(self, names: Sequence[str]) -> Generator[pl.DataFrame | pa.Table]:
        """See `Source.batches`."""
        for file in self._files:
            words = self._words(file)
            stored = [name for name in names if name not in words]
            try:
                with self._open(file, coded=stored) as opened:
                    some = (
                        stored or opened.schema_arrow.names[:1]
                    )  # without a column the number of rows is lost
                    for batch in opened.iter_batches(BATCH_ROWS, columns=some):
                        yield _cells(batch, words, names)
            except (OSError, ValueError) as error:  # Arrow's errors are of these kinds
                if isinstance(error, InputError):
                    raise
                raise InputError(f"The file {str(file)!r} cannot be read to its end.") from None

    def _open(self, file: Path, coded: Sequence[str] = ()) -> Any:
        """A file; columns of few different texts are handed on as these and the place of each cell among them."""
        import pyarrow.parquet as pq

        try:
            opened = pq.ParquetFile(file)
            few = [name for name in coded if _has_few(opened, name)]
            return pq.ParquetFile(file, read_dictionary=few, metadata=opened.metadata) if few else opened
        except PermissionError:
            raise InputError(f"The file {str(file)!r} cannot be read: no permission.") from None
        except (OSError, ValueError) as error:
            raise InputError(
                f"The file {str(file)!r} cannot be read as .parquet: {first_line(error)}"
            ) from None

    def _words(self, file: Path) -> dict[str, str | None]:
        """Columns that the names of folders state."""
        found: dict[str, str | None] = {}
        for part in file.relative_to(self.path).parts[:-1] if file != self.path else ():
            name, equals, value = part.partition("=")
            if equals:
                found[name] = None if value == _ABSENT else unquote(value)
        return found


def _files(folder: Path) -> list[Path]:
    found = (each for each in folder.rglob("*.parquet") if each.is_file())
    return sorted(
        each for each in found if not any(part[0] in "._" for part in each.relative_to(folder).parts)
    )


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    return not (types.is_nested(kind) or types.is_duration(kind) or types.is_decimal256(kind))


def _has_few(opened: Any, name: str) -> bool:
    """Whether a column of texts takes less than 4 bytes a cell, which is less than their lengths would: it is stored coded."""
    at, facts = opened.schema_arrow.get_field_index(name), opened.metadata
    kind = opened.schema_arrow.field(name).type if at >= 0 else pa.null()
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return False
    if facts.num_columns != len(opened.schema_arrow):  # a nested column takes several places
        return False
    parts = [facts.row_group(each).column(at) for each in range(facts.num_row_groups)]
    return 0 < sum(each.total_uncompressed_size for each in parts) < 4 * facts.num_rows


def _cells(batch: Any, words: dict[str, str | None], names: Sequence[str]) -> pl.DataFrame | pa.Table:
    whole = pa.Table.from_batches([batch])
    for name, value in words.items():
        if name in names:
            whole = whole.append_column(name, pa.repeat(pa.scalar(value, pa.large_string()), batch.num_rows))
    whole = whole.select(list(names))
    coded = any(pa.types.is_dictionary(each.type) for each in whole.schema)
    return whole if coded else pl.DataFrame(pl.from_arrow(whole))
