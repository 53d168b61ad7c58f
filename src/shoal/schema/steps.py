"""Steps of a run that treats different columns differently: a list, done in its order."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from shoal.errors import SchemaError
from shoal.params import Constraint, Options
from shoal.schema.checks import (
    Finite,
    LimitValue,
    Maybe,
    TextList,
    TextValue,
    TruthValue,
    Whole,
    check_keys,
    shown,
)
from shoal.schema.parts import Checked
from shoal.typing import Json

LEVELS = ("record", "household")
# Conditions on the sensitive columns of a step that generalises.
CONDITIONS = ("l", "entropy_l", "t", "alpha", "beta", "enhanced_beta", "delta_disclosure")
# Steps that are no microaggregation, and the fields each of them takes beside columns and level.
TAKES: dict[str, tuple[str, ...]] = {
    "suppress": ("k", "within", "count", "reading", "subsets"),
    "generalize": (
        "k",
        "within",
        "count",
        "recoding",
        "suppress_at_most",
        "objective",
        "classes",
        *CONDITIONS,
    ),
    "pram": ("probability", "matrix", "invariant"),
    "noise": ("scale", "correlated"),
    "rank-swap": ("share",),
    "shuffle": ("given",),
    "code-ends": ("bottom", "top"),
    "round": ("to",),
    "swap-records": ("k", "share", "given", "similar"),
}
NEEDS: dict[str, tuple[str, ...]] = {"round": ("to",), "swap-records": ("given",)}
_GROUPING = ("k", "within", "count")


@dataclass(frozen=True)
class Square(Constraint):
    """As many rows of probabilities as each row has, every row summing to 1."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is such a matrix."""
        if not isinstance(value, tuple) or not value:
            return False
        return all(
            isinstance(row, tuple)
            and len(row) == len(value)
            and all(Finite(0).accepts(each) for each in row)
            and abs(sum(row) - 1.0) < 1e-9
            for row in value
        )

    def __str__(self) -> str:
        return "a square list of rows of probabilities, each row summing to 1"


@dataclass(frozen=True)
class Step(Checked):
    """One treatment of some columns.

    Parameters
    ----------
    method : str
        "suppress", "generalize", the name of a microaggregation method (such as "mdav"), "pram", "noise",
        "rank-swap", "shuffle", "code-ends", "round" or "swap-records".
    columns : tuple of str
        What is treated. Of "swap-records": the geography, from the largest area to the smallest.
    k : int, optional
        Smallest class or group; the run's k if left open.
    level : {"record", "household"}, default "record"
        "household": the columns are the household's own; each household is treated once and counts once.
    within : tuple of str, optional
        Columns whose published values classes and groups never cross. Left open: the columns that earlier
        suppression or generalisation has treated, so that all of them together keep k. Empty: none.
    count : {"record", "household"}, default "record"
        What k counts at the level of records: "household" lets every class or group hold k different households.
    reading : {"strict", "own", "wildcard"}, optional
        Of "suppress".
    subsets : int, optional
        Of "suppress" with the reading "own": only combinations of up to so many keys must occur k times.
    recoding : {"local", "global"}, optional
        Of "generalize".
    suppress_at_most : float, optional
        Of "generalize": largest share of suppressed records.
    objective : {"loss", "arx-loss", "precision", "cells"}, optional
        Of "generalize": what it keeps small.
    classes : {"ancestors", "sets"}, optional
        Of "generalize": release a class at its common ancestors, or as the values present in it.
    l, entropy_l, t, alpha, beta, enhanced_beta, delta_disclosure : optional
        Of "generalize": conditions on the sensitive columns in each class of what the step publishes.
    probability : float, optional
        Of "pram": that a value is drawn anew.
    matrix : tuple of tuples, optional
        Of "pram": for each level, in order, the probabilities of what it becomes.
    invariant : bool, default False
        Of "pram" with a matrix: make of it one that keeps the expected shares of the levels.
    scale : float, optional
        Of "noise": its deviation, in deviations of the column.
    correlated : bool, default False
        Of "noise": with the columns' correlations.
    share : float, optional
        Of "rank-swap": largest difference of ranks. Of "swap-records": least share of swapped units.
    given : tuple of str, default ()
        Of "shuffle": columns whose relation to the shuffled ones is kept. Of "swap-records": the columns by
        which somebody stands out in an area.
    similar : tuple of str, default ()
        Of "swap-records": columns in which swapped units agree.
    bottom, top : float, optional
        Of "code-ends".
    to : float, optional
        Of "round": the base.

    Examples
    --------
    >>> from shoal.schema import Step
    >>> Step("mdav", ("income", "expend"), k=3).to_dict()
    {'method': 'mdav', 'columns': ['income', 'expend'], 'k': 3}
    """

    method: str
    columns: tuple[str, ...]
    k: int | None = None
    level: str = "record"
    within: tuple[str, ...] | None = None
    count: str = "record"
    reading: str | None = None
    subsets: int | None = None
    recoding: str | None = None
    suppress_at_most: float | None = None
    objective: str | None = None
    classes: str | None = None
    l: int | None = None
    entropy_l: float | None = None
    t: float | None = None
    alpha: float | None = None
    beta: float | None = None
    enhanced_beta: float | None = None
    delta_disclosure: float | None = None
    probability: float | None = None
    matrix: tuple[tuple[float, ...], ...] | None = None
    invariant: bool = False
    scale: float | None = None
    correlated: bool = False
    share: float | None = None
    given: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    bottom: Any = None
    top: Any = None
    to: float | None = None

    _what: ClassVar[str] = "[[steps]]"
    _rules: ClassVar[dict[str, Constraint]] = {
        "method": TextValue(),
        "columns": TextList(),
        "k": Maybe(Whole(2)),
        "level": Options(LEVELS),
        "within": Maybe(TextList(empty=True)),
        "count": Options(LEVELS),
        "reading": Maybe(Options(("strict", "own", "wildcard"))),
        "subsets": Maybe(Whole(1)),
        "objective": Maybe(Options(("loss", "arx-loss", "precision", "cells"))),
        "classes": Maybe(Options(("ancestors", "sets"))),
        "recoding": Maybe(Options(("local", "global"))),
        "l": Maybe(Whole(2)),
        "entropy_l": Maybe(Finite(1)),
        "t": Maybe(Finite(0, below=1.0000001)),
        "alpha": Maybe(Finite(0, below=1.0000001)),
        "beta": Maybe(Finite(0)),
        "enhanced_beta": Maybe(Finite(0)),
        "delta_disclosure": Maybe(Finite(0)),
        "suppress_at_most": Maybe(Finite(0, below=1.0000001)),
        "probability": Maybe(Finite(0, below=1.0000001)),
        "invariant": TruthValue(),
        "scale": Maybe(Finite(0)),
        "correlated": TruthValue(),
        "share": Maybe(Finite(0, below=1.0000001)),
        "given": TextList(empty=True),
        "similar": TextList(empty=True),
        "bottom": Maybe(LimitValue()),
        "top": Maybe(LimitValue()),
        "to": Maybe(Finite(0, above=True)),
        "matrix": Maybe(Square()),
    }

    def __post_init__(self) -> None:
        for name in ("columns", "within", "given", "similar"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, (getattr(self, name),))
        super().__post_init__()
        takes = (*TAKES.get(self.method, _GROUPING), "method", "columns", "level")
        odd = [name for name in self.to_dict() if name not in takes]
        if odd:
            raise SchemaError(f"A step {self.method!r} may have {', '.join(takes)}. Got {odd[0]!r}.")
        for name in NEEDS.get(self.method, ()):
            if not getattr(self, name):
                raise SchemaError(f"A step {self.method!r} must have {name!r}. It has none.")
        if self.count == "household" and (self.level == "household" or not self.keeps_k):
            raise SchemaError(
                f"A step {self.method!r} counts households at the level of records and under the reading 'strict'. Got level "
                f"{self.level!r} and reading {self.reading or 'strict'!r}."
            )
        if self.conditions and self.level == "household":
            raise SchemaError(
                f"A condition such as {next(iter(self.conditions))!r} is on records, so its step cannot be at the level of "
                "households."
            )
        if self.method == "pram" and (self.probability is None) == (self.matrix is None):
            raise SchemaError("A step 'pram' must have either 'probability' or 'matrix'.")
        if self.method == "code-ends" and self.bottom is None and self.top is None:
            raise SchemaError("A step 'code-ends' must have 'bottom', 'top' or both. It has neither.")

    @property
    def conditions(self) -> dict[str, float]:
        """What is asked of the sensitive columns."""
        return {name: getattr(self, name) for name in CONDITIONS if getattr(self, name) is not None}

    @property
    def is_truthful(self) -> bool:
        """Whether it coarsens or leaves out cells instead of changing them."""
        return self.method in ("suppress", "generalize")

    @property
    def is_grouping(self) -> bool:
        """Whether it is a microaggregation."""
        return self.method not in TAKES

    @property
    def keeps_k(self) -> bool:
        """Whether its columns are shared by k afterwards."""
        return self.is_grouping or (self.is_truthful and self.reading in (None, "strict"))

    def to_dict(self) -> Json:
        """The fields that differ from their defaults, as lists and plain values."""
        told = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("method", "columns") or value != each.default:
                told[each.name] = _lists(value)
        return told

    @classmethod
    def from_dict(cls, facts: Any, where: str = "[[steps]]") -> Self:
        """A step from the facts of its table in a file."""
        names = tuple(each.name for each in fields(cls))
        check_keys(where, facts, names)
        lacking = [name for name in ("method", "columns") if name not in facts]
        if lacking:
            raise SchemaError(f"Each of {where} must have a method and columns. It lacks {lacking[0]!r}.")
        return cls(**facts)


class Steps(tuple[Step, ...]):
    """Several steps in their order; their text is one line of TOML that `Steps.of` reads back.

    Examples
    --------
    >>> from shoal.schema import Steps
    >>> steps = Steps.of([{"method": "round", "columns": ["income"], "to": 10}])
    >>> str(steps)
    '[{method = "round", columns = ["income"], to = 10}]'
    >>> Steps.of(str(steps)) == steps
    True
    """

    @classmethod
    def of(cls, given: Any) -> Steps:
        """Steps, their dicts, or their text."""
        if isinstance(given, str):
            try:
                given = tomllib.loads(f"steps = {given}")["steps"]
            except (ValueError, RecursionError) as error:
                raise SchemaError(
                    "Steps must be a list in TOML, such as "
                    f'[{{method = "mdav", columns = ["income"]}}]: {error}.'
                ) from None
        if isinstance(given, Mapping | Step) or not isinstance(given, Iterable):
            raise SchemaError(f"Steps must be a list. Got {shown(given)}.")
        return cls(each if isinstance(each, Step) else Step.from_dict(each) for each in given)

    def __str__(self) -> str:
        import tomli_w

        return _inline([each.to_dict() for each in self], tomli_w.dumps)


def _inline(value: Any, dumps: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_inline(each, dumps)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(each, dumps) for each in value) + "]"
    return str(dumps({"x": value})).removeprefix("x = ").strip()


def _lists(value: Any) -> Any:
    return [_lists(each) for each in value] if isinstance(value, tuple) else value
