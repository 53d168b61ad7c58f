"""What a session is opened with, checked: its unit and model, its caps, who asks, and who is let in."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable

from shoal.dp.correlation import Grid, Model
from shoal.dp.mechanisms.currency import Currency
from shoal.dp.unit import AddRemoveCell, Protected, read_by, resolve
from shoal.errors import ParameterError
from shoal.schema import Schema

LEAST = 0.001  # of epsilon per figure, so that repeats are not free
Admit = Callable[[int, str], contextlib.AbstractContextManager[None]]
"""Lets a question of so many numbers by an analyst in, makes it wait, or raises; it knows nothing about the data."""


class FewCellsWarning(UserWarning):
    """A map to so few cells that answers in mode `correlated` will be poor."""


def unit_of(
    mode: str, schema: Schema, unit: Protected | None, model: Model | None, tau: int | None
) -> tuple[Model | None, Protected | None]:
    """The model and unit of a session; no unit where tau has to be bought first."""
    if tau is not None and (mode != "correlated" or unit is not None):
        raise ParameterError(
            "'tau' is declared in mode correlated, beside cells or a model; a unit brings its own."
        )
    if model is not None and mode != "correlated":
        raise ParameterError(f"'model' is for mode correlated. Got mode {mode!r}.")
    if unit is not None:
        return (unit.model if isinstance(unit, AddRemoveCell) else model), read_by(unit, schema)
    if mode != "correlated":
        return model, resolve(mode, schema)
    if model is None and schema.cells is not None:
        model = Grid.of_schema(schema)
    tau = tau if tau is not None or schema.cells is None else schema.cells.tau
    bought = resolve(mode, schema, None, model, 1 if tau is None else tau)
    return model, None if tau is None else bought


def caps_of(
    schema: Schema, currency: Currency, total: float | None = None, per_analyst: float | None = None
) -> tuple[int | None, int | None, str]:
    """What the data set and each analyst may spend, in millionths of the currency, and its name; the schema's if left open."""
    total = schema.budget if total is None else total
    per_analyst = schema.per_analyst if per_analyst is None else per_analyst
    cap = None if total is None else currency.millionths(total, "budget")
    own = None if per_analyst is None else currency.millionths(per_analyst, "per_analyst")
    return cap, own, currency.name


def named(analyst: str) -> str:
    """The name of an analyst, checked."""
    if not isinstance(analyst, str) or not analyst.strip() or len(analyst) > 200:
        raise ParameterError(f"'analyst' must be a non-empty text. Got {analyst!r}.")
    return analyst


def at_once(_size: int, _who: str) -> contextlib.AbstractContextManager[None]:
    """Let everyone in."""
    return contextlib.nullcontext()


def digest(text: str) -> str:
    """A hash of public facts."""
    return hashlib.sha256(text.encode()).hexdigest()
