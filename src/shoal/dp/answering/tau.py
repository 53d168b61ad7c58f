"""How many rows of a cell count, chosen privately."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from shoal.dp.meaning.relation import CELL
from shoal.dp.mechanisms.tau import choose_tau
from shoal.dp.unit import AddRemoveCell
from shoal.errors import ParameterError

if TYPE_CHECKING:
    from shoal.dp.session import Session


def buy_tau(session: Session, epsilon: float, r: int, analyst: str) -> int:
    """Charge for tau, draw it, and let the session go by it; see `Session.buy_tau`."""
    model = session.model
    if session.mode != "correlated" or model is None:
        raise ParameterError(f"Only mode 'correlated' has a tau to buy. Got {session.mode!r}.")
    micro = session._least_of(session._amount(epsilon))
    if isinstance(r, bool) or not isinstance(r, int) or r < 0:
        raise ParameterError(f"'r' must be an int of at least 0. Got {r!r}.")

    def draw() -> str:
        sizes = np.bincount(session._rows.frame[CELL].to_numpy(), minlength=model.n_cells)
        return json.dumps(choose_tau(sizes, r, micro, session.currency.name))

    session._rows.ready()
    claim = session._claim_for(f"TAU r={r}", micro, AddRemoveCell(model, 1), analyst)
    tau = int(json.loads(session.ledger.once(claim, draw).body))
    session.protected = AddRemoveCell(model, tau)
    return tau
