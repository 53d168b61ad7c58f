"""Several files as one table: the type of each column over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from shoal.errors import InputError

_EXACT = 2**53
_TEXTS = (pl.String, pl.Categorical, pl.Enum)
Types = Mapping[str, pl.DataType]


def common_types(files: Sequence[tuple[str, Types]]) -> dict[str, pl.DataType]:
    """The type of each column that holds its cells in every file; raises a sentence where columns differ.

    Whole numbers and fractions go together, since many programs store whole numbers with a missing cell as fractions; so do
    columns without any value with all others, texts with categories, and moments of one time zone.

    Parameters
    ----------
    files : sequence of (name, types)

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.io import common_types
    >>> common_types([("2023.parquet", {"age": pl.Int64()}), ("2024.parquet", {"age": pl.Float64()})])
    {'age': Float64}
    """
    first, types = files[0]
    joined = dict(types)
    for name, found in files[1:]:
        if list(found) != list(joined):
            raise _others(first, name, _difference(list(joined), list(found)))
        for column, dtype in found.items():
            both = _common(joined[column], dtype)
            if both is None:
                what = f"has cells of type {_word(dtype)} in column {column!r} where {_word(joined[column])} was expected"
                raise _others(first, name, what)
            joined[column] = both
    return joined


def in_types(frame: pl.DataFrame, types: Types) -> pl.DataFrame:
    """Some columns of a file in the types they have over all files."""
    changed = [name for name, dtype in frame.schema.items() if dtype != types[name]]
    for name in changed:
        whole = frame[name].dtype.is_integer() and types[name].is_float()
        ends = (frame[name].min(), frame[name].max()) if whole else ()
        if any(isinstance(end, int) and abs(end) > _EXACT for end in ends):
            raise InputError(
                f"Column {name!r} has whole numbers beyond 2^53 in one file and fractions in another, which no type holds: "
                "store it alike in all files."
            )
    return frame.with_columns(pl.col(name).cast(types[name]) for name in changed) if changed else frame


def _common(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    if one == other or other == pl.Null:
        return one
    if one == pl.Null:
        return other
    if one in _TEXTS and other in _TEXTS:
        return pl.String()
    if isinstance(one, pl.Datetime) and isinstance(other, pl.Datetime) and one.time_zone == other.time_zone:
        return pl.Datetime("us", one.time_zone)
    if not all(each.is_integer() or each.is_float() for each in (one, other)):
        return None
    if one.is_float() or other.is_float():
        return pl.Float64()
    return None if pl.UInt64 in (one, other) else pl.Int64()


def _word(dtype: pl.DataType) -> str:
    return str(dtype).lower()


def _difference(columns: Sequence[str], found: Sequence[str]) -> str:
    lacks = [name for name in columns if name not in found]
    extra = [name for name in found if name not in columns]
    if lacks:
        return f"lacks the column {lacks[0]!r}"
    return f"has a further column {extra[0]!r}" if extra else "has its columns in another order"


def _others(first: str, name: str, what: str) -> InputError:
    return InputError(f"All files of a folder must have the columns of {first!r}: {name!r} {what}.")
