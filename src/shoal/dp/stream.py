"""Rows that come later: a session takes them in without a refit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.dp.answering.rows import Held
from shoal.dp.ledger.secret import random_word
from shoal.dp.loading.load import load, protect_rows, row_hashes
from shoal.dp.meaning.relation import CELL
from shoal.dp.unit import resolve
from shoal.errors import ParameterError

if TYPE_CHECKING:
    from shoal.dp.session import Session


@dataclass(frozen=True)
class Drift:
    """How the rows appended differ from those before. Read from the private rows: for the owner only.

    Attributes
    ----------
    rows : int
        Appended.
    likelihood_drop : float or None
        How far their mean log-likelihood under the mixture lies below that at its fit; a rise is negative.
        None where the model has no likelihood.
    moved : float or None
        Share of rows that would have to change cells, or components, for the old and the new rows to fill them
        alike. None where the model has neither.
    far : float or None
        Share of the new rows that the mixture finds less likely than all but one in a hundred of the old: about
        0.01 if nothing changed. None where the model has no likelihood.
    """

    rows: int
    likelihood_drop: float | None
    moved: float | None
    far: float | None = None


def append(session: Session, rows: Any, data_version: str | None = None) -> Drift:
    """Take rows into a session's table; see `Session.append`."""
    if session.catalog is not None:
        raise ParameterError("Rows are appended to a session of one table only.")
    held = session._rows
    if not isinstance(held, Held):
        raise ParameterError(
            "Rows are appended to a table in memory; those of a source are appended where it lies."
        )
    loaded, before, model = load(rows, session.schema), held.frame, session.model
    protected = session.protected or resolve("correlated", session.schema, None, model, 1)
    far = _far(model, before, loaded)
    new = protect_rows(loaded, rows, session.schema, protected, model)
    both = pl.concat([before, new])
    if protected.kind in ("column", "cell"):
        both = both[np.argsort(row_hashes(both), kind="stable")]
    moved = None
    if CELL in both.columns and model is not None:
        moved = _moved(before[CELL].to_numpy(), new[CELL].to_numpy(), model.n_cells)
    session._rows, session._version = Held(both), data_version or random_word()
    return Drift(loaded.height, None, moved, far)


def append_fitted(model: Any, before: pl.DataFrame, loaded: pl.DataFrame) -> tuple[pl.DataFrame, Drift]:
    """Rows for a model that was fitted on the table: it takes them as they come, or is fitted anew."""
    far, both = _far(model, before, loaded), pl.concat([before, loaded])
    drop, moved = None, None
    if hasattr(model, "append"):
        drop = float(model.append(loaded))
        moved = _shifted(model, before.height)
    else:
        model.fit(both)
    return both, Drift(loaded.height, drop, moved, far)


def _far(model: Any, before: pl.DataFrame, new: pl.DataFrame) -> float | None:
    """Share of new rows below the hundredth part of the old ones' log-likelihoods."""
    if not hasattr(model, "log_likelihood") or not before.height or not new.height:
        return None
    limit = np.quantile(model.log_likelihood(before), 0.01)
    return float((model.log_likelihood(new) < limit).mean())


def _shifted(model: Any, n_before: int) -> float | None:
    """Total variation between the components' shares, or the cells', of old and new rows."""
    shares = getattr(model, "memberships_", None)
    if shares is not None and 0 < n_before < len(shares):
        apart = shares[:n_before].mean(axis=0) - shares[n_before:].mean(axis=0)
        return float(0.5 * np.abs(apart).sum())
    cells = getattr(model, "_cells", None)
    return None if cells is None else _moved(cells[:n_before], cells[n_before:], model.n_cells)


def _moved(old: np.ndarray, new: np.ndarray, n_cells: int) -> float:
    """Total variation between the cells' shares."""
    shares = [np.bincount(each, minlength=n_cells) / max(1, len(each)) for each in (old, new)]
    return float(0.5 * np.abs(shares[0] - shares[1]).sum()) if len(old) and len(new) else 0.0
