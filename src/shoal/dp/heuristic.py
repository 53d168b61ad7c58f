"""The dissertation's mechanism, f(D) + Laplace(CS_f(D) / epsilon), reproduced faithfully.

It is not differential privacy: its noise scale is read from the private data and can be zero. It serves
experiments only: it is refused on a table marked private, ends the total of the data set's ledger, and its results are of
a type of their own, with *guarantee: none (research reproduction)*.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl

from shoal.dp import budget
from shoal.dp.answering.exact import expression
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.loading.load import load
from shoal.dp.loading.shared import shared_rows
from shoal.dp.loading.sources import whole_table
from shoal.dp.meaning.check import has_codes, levels, number, plain_query
from shoal.dp.meaning.reading import read_query
from shoal.dp.sql.query import Aggregate, Query
from shoal.dp.unit import NO_GUARANTEE
from shoal.errors import ParameterError, QueryError
from shoal.schema import Schema
from shoal.typing import Json

if TYPE_CHECKING:
    from shoal.dp.stream import Drift


@dataclass(frozen=True)
class Reproduction:
    """What the dissertation's mechanism gives. Nothing is guaranteed, and nothing is charged.

    Parameters
    ----------
    value : number, or mapping of label to number, or list of such rows
    noise_parameter : float
        As it was asked for; it buys nothing.
    guarantee : str
        That there is none; `stamp` in JSON.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import dp
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="made-up", private=False)
    >>> h = dp.Heuristic(pl.DataFrame({"age": [31, 45, 62]}), schema)
    >>> found = h.ask("SELECT COUNT(*) FROM t WHERE age >= 40", noise_parameter=0.5)
    >>> found.guarantee, found.noise_parameter
    ('guarantee: none (research reproduction)', 0.5)
    """

    value: Any
    noise_parameter: float
    guarantee: str = NO_GUARANTEE
    interval: ClassVar[None] = None  # its width would tell the sensitivity, which is private
    notes: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> Json:
        """The facts as plain values, with the keys of an answer."""
        return {
            "value": self.value,
            "stamp": self.guarantee,
            **dict.fromkeys(("epsilon", "remaining", "interval")),
            "noise_parameter": self.noise_parameter,
        }

    def to_json(self) -> str:
        """The facts as JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote, as it comes from a server."""
        return cls(facts["value"], facts["noise_parameter"], facts["stamp"])


class Heuristic:
    """The dissertation's mechanism over one table that is not private.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    schema : Schema or path
        With ``private = false``.
    model : Model, optional
        Fitted on the table; records are taken as independent if left open.
    analyst : str, default "me"
    ledger : Ledger, path or database URL, optional
        Its total for this data set ends with the first answer.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import dp
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="made-up", private=False)
    >>> h = dp.Heuristic(pl.DataFrame({"age": [31, 45, 62]}), schema)
    >>> h.ask("SELECT COUNT(*) FROM t WHERE age >= 90", noise_parameter=0.5)  # no noise at all
    Reproduction(value=0.0, noise_parameter=0.5, guarantee='guarantee: none (research reproduction)')
    """

    mode = "heuristic"

    def __init__(
        self,
        frame: Any,
        schema: Schema | str | Path,
        model: Any = None,
        *,
        analyst: str = "me",
        ledger: Ledger | str | Path | None = None,
    ) -> None:
        self.schema, self.analyst = Schema.of(schema), analyst
        if self.schema.private:
            raise ParameterError(
                f"Mode 'heuristic' guarantees nothing, so it is refused on a data set marked private. "
                f"Got {self.schema.id!r}."
            )
        self._frame = shared_rows(
            whole_table(frame, self.schema), "rows", lambda cells: load(cells, self.schema)
        )
        self.model = fitted(model, self._frame)
        self._own = not isinstance(ledger, Ledger)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)

    def ask(self, query: str | Query, noise_parameter: float, *, analyst: str | None = None) -> Reproduction:
        """Answer a query as the dissertation does; the ledger's total ends with it.

        Parameters
        ----------
        query : str or Query
        noise_parameter : float
            The dissertation's epsilon; it buys no guarantee.
        analyst : str, optional
        """
        asked = plain_query(read_query(query, self.schema), self.schema)
        check_heuristic(asked)
        budget.micro(noise_parameter, "noise_parameter")
        self.ledger.end_total(self.schema.id, "heuristic", self.analyst if analyst is None else analyst)
        return reproduce(self._frame, asked, self.schema, self.model, float(noise_parameter))

    def append(self, rows: Any) -> Drift:
        """Take further rows in: the model takes them as they come, without a refit where it can."""
        from shoal.dp.stream import append_fitted

        self._frame, drift = append_fitted(self.model, self._frame, load(rows, self.schema))
        return drift

    def close(self) -> None:
        """Let go of the ledger, where it is this one's own."""
        if self._own:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Independent:
    """Every record stands alone: CS_f is then the largest single change."""

    name, fingerprint, frozen, n_cells = "independent records", "independent", False, 0

    def fit(self, frame: pl.DataFrame) -> _Independent:
        return self

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> np.ndarray:
        return weights

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        raise ParameterError("Independent records are no map to cells.")


def fitted(model: Any, frame: pl.DataFrame) -> Any:
    """The model fitted on the loaded table; without one, records are taken as independent."""
    return (model or _Independent()).fit(frame)


def reproduce(
    frame: pl.DataFrame, query: Query, schema: Schema, model: Any, parameter: float
) -> Reproduction:
    """Answer a query as the dissertation does; no guarantee.

    Parameters
    ----------
    frame : polars.DataFrame
        The loaded table on which `model` was fitted.
    query : Query
    schema : Schema
    model : Model
    parameter : float
        The noise parameter, epsilon in the dissertation.

    Returns
    -------
    Reproduction
        Without interval: its width would tell the sensitivity, which is private.
    """
    answering = np.ones(frame.height, dtype=bool)
    if query.condition is not None:
        answering = frame.select(expression(query.condition, schema).fill_null(False)).to_series().to_numpy()
    rows = []
    for label, within in _groups(frame, query, schema):
        values = {
            each.name: _answer(each, frame, np.flatnonzero(answering & within), model, parameter)
            for each in query.aggregates
        }
        rows.append({**label, **values})
    value: Any = rows
    if not query.groups:
        value = rows[0] if len(rows[0]) > 1 else next(iter(rows[0].values()))
    return Reproduction(value, parameter)


def exact_and_sensitivity(
    aggregate: Aggregate, frame: pl.DataFrame, rows: np.ndarray, model: Any
) -> tuple[float | None, float]:
    """f(D) and CS_f(D) = max over answering rows i of sum_j |delta_ij| |f(D) - f(D without j)|.

    Private figures: for the owner's experiments only. f is None where it is undefined.
    """
    if aggregate.column is None:
        f, weights = float(len(rows)), np.ones(len(rows))
    else:
        values = frame[aggregate.column].gather(rows)
        known = values.is_not_null().to_numpy()
        rows = rows[known]
        if aggregate.kind == "count":
            f, weights = float(len(rows)), np.ones(len(rows))
        else:
            f, weights = _weights(aggregate, values.drop_nulls().cast(pl.Float64).to_numpy())
    if len(rows) == 0:
        return (f if aggregate.kind in ("count", "sum") else None), 0.0
    return f, float(np.max(model.row_influence(weights, rows)))


def _weights(aggregate: Aggregate, x: np.ndarray) -> tuple[float, np.ndarray]:
    """F and |f - f without j| per value, in linear time."""
    n = len(x)
    if aggregate.kind == "sum" or n == 0:
        return float(x.sum()), np.abs(x)
    if aggregate.kind == "avg":
        return float(x.mean()), np.abs(x - x.mean()) / max(n - 1, 1)
    sign = 1.0 if aggregate.kind == "max" else -1.0
    order = np.argsort(-sign * x, kind="stable")
    weights = np.zeros(n)
    weights[order[0]] = abs(x[order[0]] - x[order[1]]) if n > 1 else abs(x[order[0]])
    return float(x[order[0]]), weights


def noisy(f: float, sensitivity: float, parameter: float, draws: int = 1) -> np.ndarray:
    """Draws of f + Laplace(CS_f / parameter): with CS_f = 0 the exact figure itself."""
    return f + np.random.default_rng().laplace(0.0, 1.0, draws) * (sensitivity / parameter)


def check_heuristic(query: Query) -> None:
    """Raise unless the dissertation's mechanism knows every figure asked for; the text alone decides."""
    for aggregate in query.aggregates:
        if aggregate.kind not in ("count", "sum", "avg", "min", "max"):
            raise QueryError(
                f"Mode 'heuristic' answers COUNT, SUM, AVG, MIN and MAX. Got {aggregate.kind.upper()}."
            )


def _answer(
    aggregate: Aggregate, frame: pl.DataFrame, rows: np.ndarray, model: Any, parameter: float
) -> float | None:
    f, sensitivity = exact_and_sensitivity(aggregate, frame, rows, model)
    value = None if f is None else float(noisy(f, sensitivity, parameter)[0])
    return value if value is not None and math.isfinite(value) else None


def _groups(frame: pl.DataFrame, query: Query, schema: Schema) -> Any:
    columns = [schema.columns[name] for name in query.groups]
    for combination in itertools.product(*(levels(column) or () for column in columns)):
        within = np.ones(frame.height, dtype=bool)
        for column, level in zip(columns, combination, strict=True):
            position = list(levels(column) or ()).index(level)
            stored = position if has_codes(column) else number(column, level)
            within &= (frame[column.name] == stored).fill_null(False).to_numpy()
        shown = [each.isoformat() if hasattr(each, "isoformat") else each for each in combination]
        yield dict(zip(query.groups, shown, strict=True)), within
