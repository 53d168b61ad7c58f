"""An earlier release of the same rows: what both tell together decides about the status too."""

from __future__ import annotations

import numpy as np
import polars as pl

from shoal import risk
from shoal.errors import InputError
from shoal.io import read_table
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.roles import Roles
from shoal.publish.status import Status
from shoal.scenarios import RED_SHARE


def with_earlier(
    status: Status, request: ProtectionRequest, roles: Roles, published: pl.DataFrame, rows: pl.Series
) -> tuple[Status, tuple[str, ...]]:
    """The status after the rows of the earlier release were laid beside those of this one, and what to say.

    Parameters
    ----------
    published : polars.DataFrame
        All rows as they would be published, in the order of the input.
    rows : polars.Series
        Their numbers in the input.
    """
    if request.earlier is None:
        return status, ()
    before = read_table(str(request.earlier), request.file)
    shared = [name for name in roles.open if name in before.columns]
    if not shared:
        raise InputError(
            f"The earlier release must have a published column of this table. It has: {', '.join(before.columns)}."
        )
    kept = rows.to_numpy()
    if before.height > published.height and kept.size and int(kept.max()) < before.height and dropped(kept):
        before = before[kept]
    found = risk.intersection(before, published, request.k, columns=roles.open, earlier_columns=shared)
    note = f"Beside the earlier release: {found}."
    if found.below == 0 or found.coarser:
        return status, (note,)
    share = found.below / found.n_records
    reason = (
        f"together with the earlier release {100 * share:.3g} % of the records share {', '.join(shared[:8])} with fewer "
        f"than {request.k - 1} others"
    )
    colour = "red" if share > RED_SHARE or status.colour == "red" else "amber"
    return Status(colour, (reason, *status.reasons)), (note,)


def dropped(rows: np.ndarray) -> bool:
    """Whether rows of the input were left out."""
    return rows.size > 0 and int(rows[-1]) >= rows.size
