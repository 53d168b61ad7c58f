"""The fields of a request: the rule of each, its help, how it is written and where it can be given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import Any

from shoal.errors import ParameterError
from shoal.params import AnyOf, Constraint, Instance, Options, Unset

METADATA = "option"
# Fields that name files written beside the table: what is published does not depend on them.
BESIDE = ("labels", "report", "public_report", "save_run")
_NAME = re.compile(r'\s*"((?:[^"]|"")+)"\s*(?=,|$)|([^,]+)')  # in double quotes, or as far as the next comma


@dataclass(frozen=True)
class Option:
    """What is known of a field: its rule, its help, how it is written, and where it can be given.

    Attributes
    ----------
    rule : Constraint
    help : str
    kind : {"whole", "number", "text", "names", "flag", "path", "value"}
        How it is written on a command line or in a form; a "value" only exists in Python.
    flag : str
        Its name on the command line, such as "--on-missing"; empty where it has none.
    python : bool
        Whether `protect` takes it; paths and places do not concern a frame.
    page : bool
        Whether the publish page asks for it; roles are asked for by column there.
    """

    rule: Constraint
    help: str
    kind: str
    flag: str
    python: bool
    page: bool

    @property
    def choices(self) -> tuple[str, ...]:
        """The values to choose from, where there are few."""
        rules = self.rule.rules if isinstance(self.rule, AnyOf) else (self.rule,)
        found = [each.values for each in rules if isinstance(each, Options) and self.kind == "text"]
        return tuple(str(value) for values in found for value in values)


@dataclass(frozen=True)
class ColumnNames(Constraint):
    """Names of columns, each a text, none twice."""

    def accepts(self, value: Any) -> bool:
        """Whether a value is such names."""
        return (
            isinstance(value, tuple)
            and all(isinstance(each, str) and each != "" for each in value)
            and len(set(value)) == len(value)
        )

    def __str__(self) -> str:
        return "names of columns, each once"


@dataclass(frozen=True)
class IsSchema(Constraint):
    """A schema, which is loaded only where there is one: the command makes its options from these rules."""

    def accepts(self, value: Any) -> bool:
        """Whether a value is a schema."""
        from shoal.schema import Schema

        return isinstance(value, Schema)

    def __str__(self) -> str:
        return "a Schema"


@dataclass(frozen=True)
class IsSteps(Constraint):
    """Steps of a run, or none."""

    def accepts(self, value: Any) -> bool:
        """Whether a value is such steps."""
        return isinstance(value, tuple)

    def __str__(self) -> str:
        return "a list of steps"


def option(
    default: Any,
    rule: Constraint,
    words: str,
    kind: str,
    flag: str | None = None,
    *,
    python: bool = True,
    page: bool = False,
) -> Any:
    """A field of a request with its default, rule and help, how it is written, and where it can be given."""
    return field(default=default, metadata={METADATA: Option(rule, words, kind, flag or "", python, page)})


def maybe(rule: Constraint) -> Constraint:
    """Nothing, or what a rule allows."""
    return AnyOf((Unset(), rule))


TEXT = maybe(Instance((str,)))
PATH = maybe(Instance((str, Path)))
FLAG = Options((True, False))


def options_of(request: Any) -> dict[str, Option]:
    """The fields of a request, or of its class, with what is known of each, in order."""
    return {each.name: each.metadata[METADATA] for each in fields(request) if METADATA in each.metadata}


def split(text: str) -> tuple[str, ...]:
    """Names separated by commas; one that holds a comma, or begins or ends with a space, stands in double quotes.

    Examples
    --------
    >>> from shoal.publish.fields import joined, split
    >>> split('age, "town, county"')
    ('age', 'town, county')
    >>> joined(("age", "town, county"))
    'age,"town, county"'
    """
    words = (quoted.replace('""', '"') or plain.strip() for quoted, plain in _NAME.findall(text))
    found = tuple(word for word in words if word)
    if not found:
        raise ParameterError(f"Names separated by commas were expected. Got {text!r}.")
    return found


def joined(names: Iterable[str]) -> str:
    """Names as `split` reads them."""
    return ",".join(_quoted(name) if _needs_quotes(name) else name for name in names)


def _needs_quotes(name: str) -> bool:
    return name != name.strip() or any(each in name for each in ',"\r\n')


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def bytes_of(memory: int | str) -> int:
    """A size like '2GB' or '500 MB' in bytes.

    Examples
    --------
    >>> from shoal.publish.fields import bytes_of
    >>> bytes_of("2GB"), bytes_of("1.5 M"), bytes_of(4096)
    (2000000000, 1500000, 4096)
    """
    text = str(memory).strip().upper().removesuffix("B").removesuffix("I").strip()
    units = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    unit = units.get(text[-1:], 1)
    try:
        size = float(text if unit == 1 else text[:-1]) * unit
    except ValueError:
        size = 0.0
    if not 1 <= size < 1e18:
        raise ParameterError(f"'memory' must be a size such as 500MB or 2GB. Got {memory!r}.")
    return int(size)


def listed(value: Any, name: str) -> Iterable[Any]:
    """One name, several or none; whole numbers, which pandas names columns by, as texts."""
    if value is None:
        return ()
    if isinstance(value, str) or is_number_name(value):
        return (str(value),)
    if not isinstance(value, Iterable):
        raise ParameterError(f"{name!r} of protect must be names of columns. Got {short(value)}.")
    return [str(each) if is_number_name(each) else each for each in value]


def is_number_name(value: Any) -> bool:
    """Whether a column may be named by a value that is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def short(value: Any) -> str:
    """A value for a sentence; the type alone where it is long."""
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else type(value).__name__
