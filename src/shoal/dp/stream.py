"""Rows that come later: a session takes them in without a refit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.dp.load import _row_hashes, load, protect_rows, version
from shoal.dp.plan import CELL
from shoal.dp.unit import resolve

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
        Share of rows that would have to change cells for the old and the new rows to fill cells alike; in
        mode `correlated`.
    """

    rows: int
    likelihood_drop: float | None
    moved: float | None


def append(session: Session, rows: Any, data_version: str | None = None) -> Drift:
    """Take rows into a session's table; see `Session.append`."""
    loaded = load(rows, session.schema)
    before = session._frame
    protected, drop, moved = session.protected, None, None
    if session.mode == "correlated" and protected is None:
        protected = resolve("correlated", session.schema, None, session.model, 1)
    new = loaded
    if protected is not None:
        new = protect_rows(loaded, rows, session.schema, protected, session.model)
    both = pl.concat([before, new])
    if protected is not None and protected.kind in ("column", "cell"):
        both = both[np.argsort(_row_hashes(both), kind="stable")]
    if session.mode == "heuristic":
        model: Any = session.model
        if hasattr(model, "append"):
            drop = float(model.append(loaded))
        else:
            model.fit(both)
    if CELL in both.columns and session.model is not None:
        moved = _moved(before[CELL].to_numpy(), new[CELL].to_numpy(), session.model.n_cells)
    session._frame = both
    session._key[2] = data_version or version(
        pl.DataFrame({"before": [session._key[2]], "added": [version(loaded)]})
    )
    return Drift(loaded.height, drop, moved)


def _moved(old: np.ndarray, new: np.ndarray, n_cells: int) -> float:
    """Total variation between the cells' shares."""
    shares = [np.bincount(each, minlength=n_cells) / max(1, len(each)) for each in (old, new)]
    return float(0.5 * np.abs(shares[0] - shares[1]).sum()) if len(old) and len(new) else 0.0
