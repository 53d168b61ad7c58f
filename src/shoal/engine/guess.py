"""A first schema, guessed from a table, with a reason for each guess.

Bounds and levels are never guessed: for private answers they must come from the codebook.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import polars as pl

from shoal.errors import InputError
from shoal.schema import Column, Schema

_ID_NAME = re.compile(
    r"(^|_|\b)(id|uuid|ssn|nhs|passport|e?mail|phone|tel|name|surname|address|iban|person)(_|\b|$)", re.I
)
_HOUSEHOLD_NAME = re.compile(r"(^|_|\b)(household|hhid|family)(_id|_no)?$", re.I)
_WEIGHT_NAME = re.compile(r"(^|_)(weight|wt|wgt|fnlwgt)(_|$)", re.I)
_DATE = re.compile(r"^\s*\d{4}-\d{2}-\d{2}\s*$")


def guess_schema(frame: pl.DataFrame, labelled: Collection[str] = ()) -> Schema:
    """Guess role and kind of every column.

    Parameters
    ----------
    frame : polars.DataFrame
    labelled : collection of str, optional
        Columns whose values have labels in their file: codes of categories, whatever their type.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.engine.guess import guess_schema
    >>> schema = guess_schema(pl.DataFrame({"age": [31, 40], "town": ["A", "A"]}))
    >>> schema.columns["age"].role, schema.columns["town"].kind
    ('quasi', 'category')
    """
    if frame.width == 0 or frame.height == 0:
        raise InputError(
            f"The table must have rows and columns. Got {frame.height} rows, {frame.width} columns."
        )
    coded = labelled_columns(labelled)
    return Schema({name: coded.get(name) or _guess(frame[name]) for name in frame.columns})


def labelled_columns(names: Collection[str]) -> dict[str, Column]:
    """Columns whose values have labels, as the categories they are."""
    return {
        name: Column(name, "quasi", "category", reason="its values have labels in the file") for name in names
    }


def looks_like_identifier(column: Column) -> bool:
    """Whether a guessed column was taken for an identifier."""
    return column.role == "identifier" and column.reason != ""


def _guess(series: pl.Series) -> Column:
    name = series.name
    present = series.drop_nulls()
    distinct = present.n_unique()
    id_like = present.len() > 1 and distinct == present.len()
    if series.dtype == pl.Boolean:
        return Column(name, "quasi", "boolean", reason="true or false")
    if series.dtype in (pl.Date, pl.Datetime):
        return Column(name, "quasi", "date", reason="dates")
    if series.dtype.is_numeric():
        hints = {
            "weight": _WEIGHT_NAME.search(name),
            "identifier": series.dtype.is_integer()
            and ((id_like and _ID_NAME.search(name)) or _HOUSEHOLD_NAME.search(name)),
        }
        words = [f"; by its name it may be the {role}: then say so" for role, fits in hints.items() if fits]
        return Column(name, "quasi", "number", reason="numbers" + "".join(words))
    if series.dtype == pl.Null:
        return Column(name, "leave", "category", reason="only missing cells")
    if series.dtype != pl.String:
        if series.dtype in (pl.Categorical, pl.Enum):
            return Column(name, "quasi", "category", reason=f"{distinct} different values")
        raise InputError(
            f"Column {name!r} must hold numbers, texts, dates or truth values. Got {series.dtype}."
        )
    numeric = present.str.strip_chars().cast(pl.Float64, strict=False).is_not_null()
    if present.len() and numeric.mean() > 0.5:  # type: ignore[operator]
        odd = present.filter(~numeric)
        why = f"mostly numbers, but also texts like {odd[0]!r}" if odd.len() else "texts that are numbers"
        return Column(name, "quasi", "number", reason=why)
    if present.len() and present.str.contains(_DATE.pattern).all():
        return Column(name, "quasi", "date", reason="texts that are dates")
    if present.len() > 1 and (
        distinct > 0.9 * present.len() or (_ID_NAME.search(name) and distinct > 0.5 * present.len())
    ):
        return Column(
            name, "identifier", "category", reason=f"{distinct} different texts in {present.len()} rows"
        )
    if distinct == 2:
        return Column(name, "quasi", "category", reason="two different values")
    return Column(name, "quasi", "category", reason=f"{distinct} different values")
