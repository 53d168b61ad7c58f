"""What the cells of a text file are: found over a whole column, batch by batch where it is large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import polars as pl

_WHOLE = r"^[+-]?\d+$"
_LEADING_ZERO = r"^[+-]?0\d+$"
_TRUTH = r"^(?i:true|false)$"
_KINDS = frozenset({"whole", "number", "truth"})
# Whole numbers and truth values as they are written.
_WRITTEN = {"whole": r"^(0|-?[1-9]\d*)$", "truth": r"^(true|false)$"}


def typed(texts: pl.Series, decimal: str = ".", *, exact: bool = False) -> pl.Series:
    """Cells of a text file as whole numbers, numbers or truth values where all of them are; else as texts.

    Digits with a leading zero stay texts: a postcode or the code of a trade is no quantity, and 01067 is not 1067. With
    `exact` all cells stay texts where one of them would be written back otherwise: 250.10 as 250.1, +49 as 49.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.io import typed
    >>> typed(pl.Series(["7", None, "12"])).to_list(), typed(pl.Series(["07", "12"])).to_list()
    ([7, None, 12], ['07', '12'])
    >>> typed(pl.Series(["1.5", "2.50"])).to_list(), typed(pl.Series(["1.5", "2.50"]), exact=True).to_list()
    ([1.5, 2.5], ['1.5', '2.50'])
    """
    return CellKind.of(texts, decimal, exact=exact).read(texts, decimal)


@dataclass(frozen=True)
class CellKind:
    """What all cells of some rows of a column are; `joined` tells it of several batches together.

    Attributes
    ----------
    empty : bool
        Whether there is no cell with a value.
    whole, number, truth : bool
        Whether all cells with a value are of that kind.
    zeros : bool
        Whether digits begin with a zero somewhere.
    fits : bool
        Whether whole numbers fit into 64 bits.
    kept : frozenset of str
        As which of "whole", "number" and "truth" the cells may be read: all, or where they must be exact those as which
        each of them would be written back as it came.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.io import CellKind
    >>> one, two = (CellKind.of(pl.Series(cells)) for cells in (["1", "2"], ["2.5", ""]))
    >>> one.joined(two).read(pl.Series(["1", ""])).to_list()
    [1.0, None]
    """

    empty: bool
    whole: bool
    number: bool
    truth: bool
    zeros: bool
    fits: bool
    kept: frozenset[str] = _KINDS

    @classmethod
    def of(cls, texts: pl.Series, decimal: str = ".", *, exact: bool = False) -> Self:
        """What the cells of some rows are."""
        present = texts.drop_nulls()
        present = present.filter(present != "")
        if present.len() == 0:
            return cls(empty=True, whole=True, number=True, truth=True, zeros=False, fits=True)
        mark = "," if decimal == "," else r"\."
        number = rf"^[+-]?(\d+({mark}\d*)?|{mark}\d+)([eE][+-]?\d+)?$|^[+-]?inf$|^NaN$"
        whole = present.str.contains(_WHOLE).all()
        return cls(
            empty=False,
            whole=whole,
            number=whole or present.str.contains(number).all(),
            truth=not whole and present.str.contains(_TRUTH).all(),
            zeros=present.str.contains(_LEADING_ZERO).any(),
            fits=not whole or present.cast(pl.Int64, strict=False).null_count() == 0,
            kept=_kept(present, decimal) if exact else _KINDS,
        )

    def joined(self, other: Self) -> Self:
        """What the cells of both are."""
        return type(self)(
            empty=self.empty and other.empty,
            whole=self.whole and other.whole,
            number=self.number and other.number,
            truth=self.truth and other.truth,
            zeros=self.zeros or other.zeros,
            fits=self.fits and other.fits,
            kept=self.kept & other.kept,
        )

    def read(self, texts: pl.Series, decimal: str = ".") -> pl.Series:
        """Texts of this kind as what they are."""
        kind = self._name()
        if kind not in self.kept:
            return texts
        cells = texts.set(texts == "", None) if (texts == "").any() else texts
        if kind == "truth":
            return cells.str.to_lowercase() == "true"
        if kind == "number" and decimal == ",":
            cells = cells.str.replace(",", ".", literal=True)
        return cells.cast(pl.Int64 if kind == "whole" else pl.Float64)

    def _name(self) -> str:
        if self.empty or self.zeros:
            return "text"
        if self.whole:
            return "whole" if self.fits else "text"
        return "number" if self.number else "truth" if self.truth else "text"


def _kept(present: pl.Series, decimal: str) -> frozenset[str]:
    """As which kinds all cells would be written back as they came."""
    points = present.str.replace(",", ".", literal=True) if decimal == "," else present
    numbers = points.cast(pl.Float64, strict=False).cast(pl.String)
    found = {kind for kind, pattern in _WRITTEN.items() if present.str.contains(pattern).all()}
    return frozenset(found | ({"number"} if (numbers == points).all() else set()))
