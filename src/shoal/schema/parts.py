"""Facts beside the columns: the file's bytes, rules that must stay true, links between tables, indicators."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from shoal.errors import SchemaError
from shoal.params import AnyOf, Constraint, Options
from shoal.schema.checks import Finite, Maybe, TextList, TextValue, TruthValue, check_fields, plain, shown

INDICATORS = ("total", "mean", "quantile", "share", "ratio", "regression", "logit")


class Checked:
    """A frozen value whose fields are made plain and checked by rule."""

    _rules: ClassVar[dict[str, Constraint]]
    _what: ClassVar[str]

    def __post_init__(self) -> None:
        for name in self._rules:
            object.__setattr__(self, name, plain(getattr(self, name)))
        check_fields(self._what, self._rules, vars(self))


@dataclass(frozen=True)
class FileFormat(Checked):
    """How the bytes of a text file are read. It is stated once, and never inferred from private rows.

    Parameters
    ----------
    encoding : str, default "utf-8"
    separator : str, default ","
        One character between the cells of a row.
    decimal : {".", ","}, default "."
        The mark before a number's decimals.

    Examples
    --------
    >>> from shoal.schema import FileFormat
    >>> FileFormat(encoding="cp1252", separator=";", decimal=",")
    FileFormat(encoding='cp1252', separator=';', decimal=',')
    """

    encoding: str = "utf-8"
    separator: str = ","
    decimal: str = "."

    _what: ClassVar[str] = "[file]"
    _rules: ClassVar[dict[str, Constraint]] = {
        "encoding": TextValue(),
        "separator": TextValue(blank=True),
        "decimal": Options((".", ",")),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            codecs.lookup(self.encoding)
        except (LookupError, ValueError):
            raise SchemaError(
                f"'encoding' of [file] must be a known one, such as utf-8 or latin-1. Got {self.encoding!r}."
            ) from None
        mark = self.separator
        if len(mark) != 1 or mark.isalnum() or mark in "\"'\r\n.-+" or not mark.isascii() or mark == "\0":
            raise SchemaError(
                f"'separator' of [file] must be one character, such as a comma, semicolon or tab. Got {mark!r}."
            )
        if mark == self.decimal:
            raise SchemaError(
                f"'separator' and 'decimal' of [file] must be different characters. Got {mark!r} twice."
            )


@dataclass(frozen=True)
class Rule(Checked):
    """Something that must stay true of every record: exactly one field is given, as text.

    Parameters
    ----------
    equal : str, optional
        A sum, such as ``"income = wage + pension + other"``.
    ratio : str, optional
        Bounds of a quotient, such as ``"0.5 <= rent / income <= 2"``.
    order : str, optional
        An order of columns, such as ``"net <= gross"``.
    impossible : str, optional
        A combination that no record may have, such as ``"age < 15 and status = 'married'"``.
    zero : str, optional
        A column whose zeros stay zeros.
    integer : str, optional
        A column of whole numbers.
    range : str, optional
        Bounds of a column, such as ``"0 <= age <= 110"``.
    structural_zero : str, optional
        A combination that nobody in the population can have; its count is zero and is not bought.

    Examples
    --------
    >>> from shoal.schema import Rule
    >>> Rule(equal="income = wage + pension").equal
    'income = wage + pension'
    """

    equal: str | None = None
    ratio: str | None = None
    order: str | None = None
    impossible: str | None = None
    zero: str | None = None
    integer: str | None = None
    range: str | None = None
    structural_zero: str | None = None

    _what: ClassVar[str] = "[[rules]]"
    _rules: ClassVar[dict[str, Constraint]] = dict.fromkeys(
        ("equal", "ratio", "order", "impossible", "zero", "integer", "range", "structural_zero"),
        Maybe(TextValue()),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in self._rules if getattr(self, name) is not None]
        if len(given) != 1:
            raise SchemaError(
                f"Each of [[rules]] must have exactly one of {', '.join(self._rules)}. Got {shown(given)}."
            )

    @property
    def kind(self) -> str:
        """Which of the fields is given."""
        return next(name for name in self._rules if getattr(self, name) is not None)

    @property
    def text(self) -> str:
        """What the rule says."""
        return str(getattr(self, self.kind))


@dataclass(frozen=True)
class Link(Checked):
    """How the rows of one table point to those of another.

    Parameters
    ----------
    name : str
    from_table, to_table : str
        In a file: ``from`` and ``to``.
    key : tuple of str
        Columns of equal names in both tables; a single text is one column.
    public : bool, default False
        Whether the table pointed to holds nothing about people, as a look-up table does.

    Examples
    --------
    >>> from shoal.schema import Link
    >>> Link("visits", from_table="visits", to_table="persons", key=("person",)).public
    False
    """

    name: str
    from_table: str
    to_table: str
    key: tuple[str, ...]
    public: bool = False

    _what: ClassVar[str] = "[links]"
    _rules: ClassVar[dict[str, Constraint]] = {
        "name": TextValue(),
        "from_table": TextValue(),
        "to_table": TextValue(),
        "key": TextList(),
        "public": TruthValue(),
    }

    def __post_init__(self) -> None:
        if isinstance(self.key, str):
            object.__setattr__(self, "key", (self.key,))
        super().__post_init__()
        if self.from_table == self.to_table:
            raise SchemaError(
                f"Link {self.name!r} of [links] must join two tables. Got {self.to_table!r} twice."
            )


@dataclass(frozen=True)
class Indicator(Checked):
    """A figure that the published table must still give.

    Parameters
    ----------
    kind : {"total", "mean", "quantile", "share", "ratio", "regression", "logit"}
    name : str, default ""
    column : str, optional
        Of totals, means, quantiles, shares and ratios.
    level : optional
        Of a share: the value whose share it is.
    over : str, optional
        Of a ratio: the column below the line.
    q : float, optional
        Of a quantile: the share of records below, between 0 and 1.
    formula : str, optional
        Of a regression or logit, such as ``"income ~ age + sex"``.
    by : tuple of str, default ()
        Columns whose values make the domains.

    Examples
    --------
    >>> from shoal.schema import Indicator
    >>> Indicator(kind="mean", column="income", by=("region",)).by
    ('region',)
    """

    kind: str
    name: str = ""
    column: str | None = None
    level: Any = None
    over: str | None = None
    q: float | None = None
    formula: str | None = None
    by: tuple[str, ...] = ()

    _what: ClassVar[str] = "[[indicators]]"
    _rules: ClassVar[dict[str, Constraint]] = {
        "kind": Options(INDICATORS),
        "name": TextValue(blank=True),
        "column": Maybe(TextValue()),
        "level": Maybe(AnyOf((TextValue(blank=True), TruthValue(), Finite()))),
        "over": Maybe(TextValue()),
        "q": Maybe(Finite(0, above=True, below=1)),
        "formula": Maybe(TextValue()),
        "by": TextList(empty=True),
    }

    def __post_init__(self) -> None:
        if isinstance(self.by, str):
            object.__setattr__(self, "by", (self.by,))
        super().__post_init__()
        needed = {"quantile": {"column", "q"}, "share": {"column", "level"}, "ratio": {"column", "over"}}
        needs = needed.get(self.kind, {"formula"} if self.kind in ("regression", "logit") else {"column"})
        given = {
            each.name
            for each in fields(self)
            if each.name not in ("kind", "name", "by") and getattr(self, each.name) is not None
        }
        if needs != given:
            raise SchemaError(
                f"An indicator of kind {self.kind!r} must have {' and '.join(sorted(needs))}. "
                f"Got {' and '.join(sorted(given)) or 'neither'}."
            )
