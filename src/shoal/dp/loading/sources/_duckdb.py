"""A table or view of a DuckDB file."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from shoal.dp.loading.sources._source import BATCH_ROWS, Source
from shoal.errors import InputError, MissingExtraError

_TEXTS = (
    "INTERVAL",
    "BIT",
    "BIGNUM",
    "TIME WITH TIME ZONE",
    "TIMETZ",
)  # types that Arrow or polars has no like of
_NESTED = ("STRUCT", "MAP", "UNION", "LIST", "ARRAY", "VARIANT")


class DuckDBSource(Source):
    """A table of a DuckDB file, opened for reading only.

    Parameters
    ----------
    path : str or Path
    table : str
        Its name, or ``schema.name``.

    Examples
    --------
    >>> import tempfile, pathlib, duckdb
    >>> from shoal.dp.loading.sources._duckdb import DuckDBSource
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.db"
    >>> with duckdb.connect(path) as con:
    ...     _ = con.execute("CREATE TABLE people AS SELECT 41 AS age, 'n' AS region")
    >>> source = DuckDBSource(path, "people")
    >>> source.columns, next(source.batches(["region", "age"])).rows()
    (('age', 'region'), [('n', 41)])
    """

    def __init__(self, path: str | Path, table: str) -> None:
        self.path, self.table = Path(path), table
        if not self.path.is_file():
            raise InputError(f"No file {str(path)!r}.")
        self._named = ".".join(_quoted(part) for part in table.split("."))

    def __str__(self) -> str:
        return f"{self.table} of {self.path}"

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Source.columns`."""
        with self._connected() as connection:
            return tuple(self._types(connection))

    def check_types(self, names: Sequence[str]) -> None:
        """See `Source.check_types`."""
        with self._connected() as connection:
            self._plain_types(connection, names)

    def batches(self, names: Sequence[str]) -> Generator[pl.DataFrame]:
        """See `Source.batches`."""
        import duckdb

        with self._connected() as connection:
            types = self._plain_types(connection, names)
            chosen = ", ".join(_cell(name, types[name]) for name in names)
            try:
                asked = connection.sql(f"SELECT {chosen} FROM {self._named}")  # noqa: S608 - names of the schema, quoted
                read = (
                    getattr(asked, "to_arrow_reader", None) or asked.fetch_arrow_reader
                )  # before 1.4 it was called so
                reader = read(BATCH_ROWS)
                for batch in reader:
                    yield pl.from_arrow(batch)  # type: ignore[misc]
            except (duckdb.Error, OSError):
                raise InputError(
                    f"The table {self.table!r} of {str(self.path)!r} cannot be read to its end."
                ) from None

    def _plain_types(self, connection: Any, names: Sequence[str]) -> dict[str, str]:
        types = self._types(connection)
        for name in names:
            if types[name].startswith(_NESTED) or types[name].endswith("]"):
                raise self.not_plain(name, types[name])
        return types

    def _connected(self) -> Any:
        try:
            import duckdb
        except ImportError:
            raise MissingExtraError("duckdb", "duckdb") from None
        try:
            return duckdb.connect(self.path, read_only=True)
        except duckdb.Error:
            raise InputError(
                f"The file {str(self.path)!r} cannot be opened as a DuckDB database: it is none, or another process writes to it."
            ) from None

    def _types(self, connection: Any) -> dict[str, str]:
        import duckdb

        try:
            found = connection.sql(f"SELECT * FROM {self._named} LIMIT 0")  # noqa: S608 - quoted
        except duckdb.Error:
            raise InputError(
                f"The database {str(self.path)!r} has no table {self.table!r}: name it by ?table= at the end of the address."
            ) from None
        return dict(zip(found.columns, (str(each) for each in found.types), strict=True))


def _cell(name: str, kind: str) -> str:
    """How a column is asked for: as stored, or as its text where the type has no like outside the database."""
    text = kind.startswith(("ENUM", *_TEXTS))
    return f"CAST({_quoted(name)} AS VARCHAR) AS {_quoted(name)}" if text else _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
