"""A table or view of a PostgreSQL database, by its address."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from shoal.dp.loading.sources._source import BATCH_ROWS, Source
from shoal.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from psycopg import Column

_BYTES = 1 << 25  # of text, parsed at a time
_WHOLE = {
    20: pl.Int64,
    21: pl.Int64,
    23: pl.Int64,
    26: pl.Int64,
}  # by the number that PostgreSQL gives a type
_FLOATS = {700: pl.Float32, 701: pl.Float64}
_BOOLEAN, _DATE, _TIMES, _NUMERIC = 16, 1082, (1114, 1184), 1700
_WIDEST = 38  # digits of a decimal outside the database


class PostgreSQLSource(Source):
    """A table of a PostgreSQL database, copied out as text in one read-only transaction for each question.

    Parameters
    ----------
    url : str
        ``postgresql://user@host/database``; what it leaves out comes from the environment, as libpq has it.
    table : str
        Its name, or ``schema.name``.

    Notes
    -----
    Cells are asked for as texts, which are exact, and given the type that the column is stored in: the database's own
    rules of rounding, order and time zones have no say. Timestamps with a zone are taken in UTC.
    """

    def __init__(self, url: str, table: str) -> None:
        self._url, self.table = url, table

    def __str__(self) -> str:
        return f"{self.table} of a PostgreSQL database"

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Source.columns`."""
        with contextlib.closing(self._connected()) as connection:
            return tuple(each.name for each in self._described(connection))

    def batches(self, names: Sequence[str]) -> Generator[pl.DataFrame]:
        """See `Source.batches`."""
        import psycopg
        from psycopg import sql

        with contextlib.closing(self._connected()) as connection:
            stored = {each.name: each for each in self._described(connection)}
            cells = [_cell(stored[name]) for name in names]
            query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)").format(
                sql.SQL(", ").join(cells), self._table()
            )
            try:
                for text in _copied(connection.pgconn, query.as_bytes(connection)):
                    yield _typed(_parsed(text, names), stored)
            except psycopg.Error:
                raise InputError(f"{self} cannot be read to its end.") from None

    def _table(self) -> Any:
        from psycopg import sql

        return sql.Identifier(*self.table.split("."))

    def _connected(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError("psycopg", "dp") from None
        options = "-c TimeZone=UTC -c DateStyle=ISO -c extra_float_digits=1 -c bytea_output=hex -c intervalstyle=postgres"
        try:
            connection = psycopg.connect(
                self._url, client_encoding="UTF8", options=options, connect_timeout=30
            )
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        except psycopg.Error as error:
            raise InputError(f"The PostgreSQL database cannot be reached: {_reason(error)}.") from None
        return connection

    def _described(self, connection: Any) -> Any:
        import psycopg
        from psycopg import sql

        try:
            with connection.cursor() as cursor:
                cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(self._table()))
                return cursor.description
        except psycopg.Error:
            raise InputError(
                f"The PostgreSQL database has no table {self.table!r} that this user may read: name it by table= in the address."
            ) from None


def _reason(error: Exception) -> str:
    """The kind of failure; libpq's own sentence may quote the address."""
    text = str(error).lower()
    for word in (
        "authentication failed",
        "does not exist",
        "refused",
        "timeout",
        "no password supplied",
        "ssl",
    ):
        if word in text:
            return word
    return "the address is wrong, or the server is not there"


def _cell(column: Any) -> Any:
    """How a column is asked for: as its text; a time of day with a zone in UTC, bytes as the text that they encode."""
    from psycopg import sql

    name = sql.Identifier(column.name)
    if column.type_code == 17:  # bytes, in hexadecimal
        return name
    return sql.SQL("{}::text").format(name)


def _copied(wire: Any, query: bytes) -> Iterator[bytes]:
    """Whole rows, some megabytes of them at a time: the server sends each row as one message."""
    from psycopg import OperationalError, pq

    if wire.exec_(query).status != pq.ExecStatus.COPY_OUT:
        raise OperationalError
    parts: list[bytes] = []
    size = rows = 0
    while True:
        length, data = wire.get_copy_data(0)
        if length < 0:
            break
        parts.append(bytes(data))
        size, rows = size + length, rows + 1
        if size >= _BYTES or rows >= BATCH_ROWS:
            yield b"".join(parts)
            parts, size, rows = [], 0, 0
    ended = wire.get_result()
    if ended is None or ended.status != pq.ExecStatus.COMMAND_OK:
        raise OperationalError
    if parts:
        yield b"".join(parts)


def _parsed(text: bytes, names: Sequence[str]) -> pl.DataFrame:
    """Every cell as text; NULL is what stands without quotes. One block holds all rows, so that none is cut."""
    import pyarrow as pa
    from pyarrow import csv

    table = csv.read_csv(
        io.BytesIO(text),
        read_options=csv.ReadOptions(column_names=list(names), block_size=len(text) + 1, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),  # one NULL
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.large_string()),
            check_utf8=False,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return pl.DataFrame(pl.from_arrow(table))


def _typed(cells: pl.DataFrame, stored: Mapping[str, Column]) -> pl.DataFrame:
    """Every cell in the type that its column is stored in."""
    return cells.with_columns(_as_stored(stored[name]) for name in cells.columns)


def _as_stored(column: Column) -> pl.Expr:
    """A text in the type that its column is stored in; what that type cannot hold outside the database is NULL."""
    cell, code = pl.col(column.name), column.type_code
    if code in _WHOLE or code in _FLOATS:
        return cell.cast((_WHOLE | _FLOATS)[code], strict=False)
    if code == _BOOLEAN:
        return cell == "true"
    if code == _DATE:
        return cell.str.to_date("%Y-%m-%d", strict=False)
    if code in _TIMES:
        text = cell.str.strip_suffix("+00")  # the zone is UTC
        time = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
        return time if code == _TIMES[0] else time.dt.replace_time_zone("UTC")
    if code == _NUMERIC and column.precision and column.precision <= _WIDEST and (column.scale or 0) >= 0:
        return cell.str.to_decimal(scale=column.scale or 0)
    if code == 17:
        return cell.str.strip_prefix("\\x").str.decode("hex", strict=False)
    return cell
