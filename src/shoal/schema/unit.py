"""Whom a guarantee protects: units, look-alike cells, and what undeclared groups may use of delta."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.errors import SchemaError
from shoal.schema.checks import Finite, Maybe, TextList, TextValue, Whole, check_fields, make_plain, shown


@dataclass(frozen=True)
class Unit:
    """Whom a guarantee protects: one record, or all rows that share a value of a column.

    Parameters
    ----------
    column : str, optional
        The person, household or firm; None means a single record.
    rows : int, default 1
        At most this many rows of one unit are counted.

    Examples
    --------
    >>> from shoal.schema import Unit
    >>> Unit("household", rows=8)
    Unit(column='household', rows=8)
    """

    column: str | None = None
    rows: int = 1

    def __post_init__(self) -> None:
        make_plain(self)
        check_fields("a unit", {"column": Maybe(TextValue()), "rows": Whole(1)}, vars(self))
        if self.column is None and self.rows != 1:
            raise SchemaError(f"'rows' of a unit needs a column whose rows they are. Got rows = {self.rows}.")

    def __str__(self) -> str:
        return "record" if self.column is None else self.column


@dataclass(frozen=True)
class Keys:
    """How much of a data set's delta is reserved for groups that no schema declares (docs/theory/keys.md).

    Parameters
    ----------
    delta : float
        In all; part of the table's delta.
    questions : int
        How many questions with such groups share it, in equal parts.

    Examples
    --------
    >>> from shoal.schema import Keys
    >>> Keys(delta=1e-7, questions=5)
    Keys(delta=1e-07, questions=5)
    """

    delta: float
    questions: int

    def __post_init__(self) -> None:
        make_plain(self)
        check_fields("keys", {"delta": Finite(0, above=True, below=1), "questions": Whole(1)}, vars(self))
        if self.delta / self.questions < 1e-15:
            raise SchemaError(
                "'keys' must leave each question a delta of at least 1e-15. "
                f"Got {self.delta:g} for {self.questions} questions."
            )


@dataclass(frozen=True)
class Cells:
    """A public grid of look-alike cells: one answer protects all rows of a cell jointly.

    Parameters
    ----------
    columns : tuple of str
        Columns with declared bounds (cut into bins) or declared levels (one bin each).
    bins : int or tuple of int, default 16
        Bins per column; columns with levels take no notice.
    tau : int, optional
        At most this many rows of a cell are counted; left open, it must be bought.

    Examples
    --------
    >>> from shoal.schema import Cells
    >>> Cells(("age", "income"), bins=(20, 16), tau=8)
    Cells(columns=('age', 'income'), bins=(20, 16), tau=8)
    """

    columns: tuple[str, ...]
    bins: int | tuple[int, ...] = 16
    tau: int | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        check_fields("cells", {"columns": TextList()}, vars(self))
        bins = self.bins if isinstance(self.bins, tuple) else (self.bins,) * len(self.columns)
        if len(bins) != len(self.columns):
            raise SchemaError(
                f"'bins' of cells must be an int, or one int per column. Got {shown(self.bins)}."
            )
        for each in bins:
            check_fields("cells", {"bins": Whole(1)}, {"bins": each})
        check_fields("cells", {"tau": Maybe(Whole(1))}, vars(self))
