"""A first schema, guessed from a table, with a reason for each guess.

What nobody spoke of is protected: a column is a quasi-identifier unless it is an identifier. Values that only
look like quantities (codes, counts of few values, postcodes) are never averaged. Bounds and levels are never
guessed: for private answers they must come from the codebook.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import polars as pl

from shoal.engine.columns import THOUSANDS
from shoal.errors import InputError
from shoal.schema import Column, Schema

# Whole numbers with at most so many values, each taken by so many records on average, are no quantities.
FEW_VALUES = 20
RECORDS_PER_VALUE = 5
# Different whole numbers, all of at least so many digits and of equally many, are numbers of persons.
KEY_DIGITS = 6
# In fewer rows all numbers may well be different.
KEY_ROWS = 10
# Numbers named like keys count as keys where each stands for at most so many rows on average.
ROWS_PER_KEY = 10

LEADING_ZERO = r"^\s*[+-]?0\d+\s*$"
DATE = r"^\s*\d{4}-\d{2}-\d{2}\s*$"
DATE_TIME = r"^\s*\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?\s*$"

_ID_NAME = re.compile(
    r"(^|_|\b)(id|uuid|guid|ssn|nhs|passport|e?mail|phone|tel|name|surname|address|iban|person)(_|\b|$)", re.I
)
_WHO = "person|patient|respondent|customer|client|case|record|account|member|employee|student|household|family|hh|firm"
_KEY_NAME = re.compile(
    rf"(?i:(^|[_\W])(id|uid|key|uuid|guid|pid|pnr|ssn|serial|hhid|iban|phone)$|^(id|key)[_\W]|"
    rf"(^|[_\W])({_WHO})([_\W]?(id|no|nr|num|number|key|code))?$)|[a-z](Id|ID|Nr|No|Key)$"
)
_WEIGHT_NAME = re.compile(r"(^|_)(weight|wt|wgt|fnlwgt)(_|$)", re.I)


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
    >>> schema = guess_schema(pl.DataFrame({"age": [31, 40], "town": ["A", "A"], "postcode": ["01067", "01067"]}))
    >>> [(column.role, column.kind) for column in schema.columns.values()]
    [('quasi', 'number'), ('quasi', 'category'), ('quasi', 'category')]
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


def can_aggregate(dtype: pl.DataType) -> bool:
    """Whether cells of this type can be read as numbers, levels or dates."""
    known = (pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Null, pl.Date, pl.Datetime)
    return dtype.is_numeric() or dtype in known


def _guess(series: pl.Series) -> Column:
    name, dtype = series.name, series.dtype
    if not can_aggregate(dtype):
        why = f"cells of type {str(dtype).lower()}, which have no mean and no mode: leave them as they are by name"
        return Column(name, "identifier", "category", reason=why)
    present = series.drop_nulls()
    if dtype.is_float():
        present = present.drop_nans()
    if (
        present.len() == 0
    ):  # of a type that holds nothing there is nothing to protect; later rows of others may have values
        return Column(name, "leave" if dtype == pl.Null else "quasi", "category", reason="only missing cells")
    if dtype == pl.Boolean:
        return Column(name, "quasi", "boolean", reason="true or false")
    if dtype in (pl.Date, pl.Datetime):
        return Column(name, "quasi", "date", reason="dates")
    if dtype.is_numeric():
        return _numbers(name, present)
    return _texts(name, present.cast(pl.String))


def _numbers(name: str, present: pl.Series) -> Column:
    """Numbers: keys, codes and counts of few values, quantities."""
    distinct = present.n_unique()
    if present.dtype.is_decimal():
        present = present.cast(pl.Float64)
    whole = present.dtype.is_integer() or bool((present.is_finite() & (present == present.round())).all())
    if whole and (why := _key(name, present, distinct)):
        return Column(name, "identifier", "number", reason=why)
    weight = _WEIGHT_NAME.search(name)
    if whole and not weight and distinct <= FEW_VALUES and present.len() >= RECORDS_PER_VALUE * distinct:
        return Column(name, "quasi", "ordered", reason=f"whole numbers with {_values(distinct)}")
    hint = "; by its name it may be the weight: then say so" if weight else ""
    return Column(name, "quasi", "number", reason="numbers" + hint)


def _key(name: str, present: pl.Series, distinct: int) -> str:
    """Why whole numbers are taken for keys; empty where they are none."""
    rows = present.len()
    if rows < KEY_ROWS:
        return ""
    if _KEY_NAME.search(name) and distinct > FEW_VALUES // 2 and rows <= ROWS_PER_KEY * distinct:
        if distinct == rows:
            return "a different number in each row, named like a key"
        return (
            f"named like a key; {distinct:,} different numbers in {rows:,} rows, so some numbers have several rows: name it "
            "as households to count households instead of rows"
        )
    # Different in every row is not enough: seven of the thirteen amounts of the Census benchmark are.
    if distinct < rows or not present.dtype.is_integer():
        return ""
    low, high = int(present.min()), int(present.max())  # type: ignore[arg-type]
    if high - low == rows - 1:
        return "the rows' own numbers"
    if low > 0 and len(str(low)) == len(str(high)) >= KEY_DIGITS:
        return f"a different number of {len(str(low))} digits in each row"
    return ""


def _texts(name: str, present: pl.Series) -> Column:
    """Texts: numbers written as texts, dates, identifiers, categories."""
    texts = present.str.strip_chars()
    distinct, rows = present.n_unique(), present.len()
    if texts.str.contains(DATE).all():
        return Column(name, "quasi", "date", reason="texts that are dates")
    if texts.str.contains(DATE_TIME).all():
        return Column(name, "quasi", "date", reason="texts that are dates with times")
    numeric = texts.cast(pl.Float64, strict=False).is_not_null() | texts.str.contains(THOUSANDS)
    leading = texts.str.contains(LEADING_ZERO)
    if numeric.mean() > 0.5 and not leading.any():  # type: ignore[operator]
        odd = present.filter(~numeric)
        why = f"mostly numbers, but also texts like {odd[0]!r}" if odd.len() else "texts that are numbers"
        return Column(name, "quasi", "number", reason=why)
    if rows > 1 and (distinct > 0.9 * rows or (_ID_NAME.search(name) and distinct > 0.5 * rows)):
        return Column(name, "identifier", "category", reason=f"{distinct:,} different texts in {rows:,} rows")
    why = "digits with leading zeros: codes, " if leading.any() and numeric.all() else ""
    return Column(name, "quasi", "category", reason=why + _values(distinct))


def _values(distinct: int) -> str:
    return "one value" if distinct == 1 else f"{distinct:,} different values"
