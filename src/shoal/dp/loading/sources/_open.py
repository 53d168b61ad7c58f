"""From what a user names to a source: paths and addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from shoal.dp.loading.sources._files import read_private, wanted_columns
from shoal.dp.loading.sources._source import Source
from shoal.errors import InputError
from shoal.schema import Schema

_POSTGRES = ("postgresql", "postgres")
_KNOWN = "a file, a folder of Parquet files, duckdb:///FILE?table=NAME or postgresql://USER@HOST/DATABASE?table=NAME"


def is_location(data: Any) -> bool:
    """Whether something names a table instead of being one."""
    return isinstance(data, (str, Path, Source)) or _is_spark(data)


def open_source(where: Any, schema: Schema) -> Source | None:
    """The source that a path, an address or a Spark table stands for; None for a file that is read at once.

    Parameters
    ----------
    where : str, Path, Source or pyspark.sql.DataFrame
        A Parquet file or a folder of them, ``duckdb:///FILE?table=NAME`` (four slashes before an absolute path),
        ``postgresql://USER@HOST/DATABASE?table=NAME``. Without ``table`` the schema's id is the table's name.
    schema : Schema

    Examples
    --------
    >>> from shoal.dp.loading.sources import open_source
    >>> from shoal.schema import Schema
    >>> open_source("mysql://host/db", Schema({}))
    Traceback (most recent call last):
    ...
    shoal.errors.InputError: A table must be a file, a folder of Parquet files, duckdb:///FILE?table=NAME or postgresql://USER@HOST/DATABASE?table=NAME. Got an address of the kind 'mysql'.
    """
    if isinstance(where, Source):
        return where
    if _is_spark(where):
        from shoal.dp.loading.sources._spark import SparkSource

        return SparkSource(where)
    text = str(where)
    if "://" in text:
        return _addressed(text, schema)
    path = Path(text)
    if path.is_dir() or path.suffix.lower() == ".parquet":
        from shoal.dp.loading.sources._parquet import ParquetSource

        return ParquetSource(path)
    return None


def open_table(where: Any, schema: Schema, *, also: bool = False) -> Any:
    """A source, or the cells of a file that is read at once.

    Parameters
    ----------
    where : str, Path, Source or pyspark.sql.DataFrame
    schema : Schema
    also : bool, default False
        Of a file, read the columns that the schema does not declare as well: they may be keys.
    """
    source = open_source(where, schema)
    return read_private(where, schema, also=also) if source is None else source


def whole_table(where: Any, schema: Schema, *, also: bool = False) -> Any:
    """A table in memory: what was handed in, or the cells of what was named."""
    if not is_location(where):
        return where
    found = open_table(where, schema, also=also)
    if not isinstance(found, Source):
        return found
    names = [each for each in found.columns if also or each in wanted_columns(schema)]
    return found.frame(names)


def located_table(where: str, folder: Path) -> str | Path:
    """A path or address as it is meant by a file in a folder: relative paths begin there.

    Examples
    --------
    >>> from pathlib import Path
    >>> from shoal.dp.loading.sources import located_table
    >>> located_table("duckdb:///x.db?table=t", Path("/data")), str(located_table("a.csv", Path("/data")))
    ('duckdb:////data/x.db?table=t', '/data/a.csv')
    """
    if where.lower().startswith("duckdb:///") and not where.lower().startswith("duckdb:////"):
        return f"duckdb:///{folder.absolute()}/{where[len('duckdb:///') :]}"
    return where if "://" in where else folder / where


def without_password(where: Any) -> str:
    """Where a table lies, as it may be written down.

    Examples
    --------
    >>> from shoal.dp.loading.sources import without_password
    >>> without_password("postgresql://ann:secret@host/db?table=t")
    'postgresql://ann@host/db?table=t'
    """
    text = str(where)
    if "://" not in text:
        return text
    scheme, _, rest = text.partition("://")
    ahead, slash, path = rest.partition("/")
    user, at, host = ahead.rpartition("@")
    path = re.sub(r"([?&]password=)[^&]*", r"\1...", path)
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{slash}{path}"


def _addressed(text: str, schema: Schema) -> Source:
    scheme = text.partition("://")[0].lower()
    if scheme not in ("duckdb", *_POSTGRES):
        raise InputError(f"A table must be {_KNOWN}. Got an address of the kind {scheme!r}.")
    try:
        parts = urlsplit(text)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise InputError(
            f"A table must be {_KNOWN}. Got an address of the kind {scheme!r} that cannot be read."
        ) from None
    table = dict(pairs).get("table") or schema.id
    rest = [(name, value) for name, value in pairs if name != "table"]
    if scheme == "duckdb":
        return _duckdb(parts.netloc, unquote(parts.path), table, rest)
    from shoal.dp.loading.sources._postgresql import PostgreSQLSource

    return PostgreSQLSource(urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(rest), "")), table)


def _duckdb(host: str, path: str, table: str, rest: list[tuple[str, str]]) -> Source:
    from shoal.dp.loading.sources._duckdb import DuckDBSource

    if host or rest or not path.strip("/"):
        odd = f"the host {host!r}" if host else f"the option {rest[0][0]!r}" if rest else "no file"
        raise InputError(f"An address of DuckDB must be duckdb:///FILE?table=NAME. Got {odd}.")
    file = Path(path[1:])
    if not file.is_file() and not file.is_absolute() and Path(path).is_file():
        raise InputError(f"No file {str(file)!r}: an absolute path has four slashes, duckdb:///{path}.")
    return DuckDBSource(file, table)


def _is_spark(data: Any) -> bool:
    """Whether it is a table of Spark, told without loading Spark."""
    kind = type(data)
    return kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"
