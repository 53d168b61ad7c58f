"""An earlier release of the same rows: what both tell together decides about the status too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from shoal import risk
from shoal.errors import InputError
from shoal.io import read_table
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.roles import Roles
from shoal.publish.stages.survey import ROW
from shoal.publish.status import Status
from shoal.scenarios import RED_SHARE


@dataclass(frozen=True)
class RowClasses:
    """The class of each row that would be published, where the rows themselves are not in memory.

    Attributes
    ----------
    rows : polars.Series
        Numbers in the input.
    digests : polars.Series
        64 bits of what is published: of a hundred million classes two fall together once in three thousand runs.
    """

    rows: pl.Series
    digests: pl.Series

    @classmethod
    def of(cls, rows: pl.Series, published: pl.DataFrame, names: Sequence[str]) -> RowClasses:
        """The classes of a batch by some columns."""
        cells = [each.fill_nan(None) if each.dtype.is_float() else each for each in published.select(names)]
        return cls(rows, pl.DataFrame(cells).hash_rows(seed=5).rename("class"))

    @classmethod
    def joined(cls, batches: Sequence[RowClasses]) -> RowClasses:
        """The classes of all batches, rows in the order of the input."""
        rows = pl.concat([each.rows for each in batches])
        order = rows.arg_sort()
        return cls(rows.gather(order), pl.concat([each.digests for each in batches]).gather(order))


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
    before = read_table(str(request.earlier), request.file, exact=request.as_written, published=True)
    shared = _shared(before.columns, roles)
    kept = rows.to_numpy()
    if _same_people(before.height, kept):
        before = before[kept]
    found = risk.intersection(before, published, request.k, columns=roles.open, earlier_columns=shared)
    return _judged(status, request, shared, found)


def with_earlier_classes(
    status: Status, request: ProtectionRequest, roles: Roles, classes: RowClasses, folder: Path
) -> tuple[Status, tuple[str, ...]]:
    """The same for rows that are not in memory: the earlier release is read in batches, its classes kept.

    Parameters
    ----------
    folder : Path
        Where a text file waits as Arrow while it is read.
    """
    if request.earlier is None:
        return status, ()
    shared, before = _digests(request, roles, folder)
    kept = classes.rows.to_numpy()
    if _same_people(before.len(), kept):
        before = before.gather(kept)
    found = risk.joint_classes(before, classes.digests, request.k)
    return _judged(status, request, shared, found)


def _digests(request: ProtectionRequest, roles: Roles, folder: Path) -> tuple[list[str], pl.Series]:
    """The columns that both releases have, and the class of each row of the earlier one."""
    from shoal.publish.executors.parts.source import ENDINGS, open_source

    path = Path(str(request.earlier))
    if not path.is_dir() and path.suffix.lower() not in ENDINGS:
        before = read_table(path, request.file, exact=request.as_written, published=True)
        shared = _shared(before.columns, roles)
        return shared, RowClasses.of(pl.Series(ROW, np.arange(before.height)), before, shared).digests
    work = folder / "earlier"
    work.mkdir(exist_ok=True)
    source = open_source(path, work, request.file, request.as_written, published=True)
    shared = _shared(list(source.types), roles)
    batches = [RowClasses.of(each[ROW], each, shared) for each in source.numbered(shared)]
    return shared, RowClasses.joined(batches).digests


def _shared(names: Sequence[str], roles: Roles) -> list[str]:
    shared = [name for name in roles.open if name in names]
    if not shared:
        raise InputError(
            f"The earlier release must have a published column of this table. It has: {', '.join(names)}."
        )
    return shared


def _same_people(height: int, kept: np.ndarray) -> bool:
    """Whether rows of the input were left out of this release that the earlier one has."""
    return bool(kept.size and height > kept.size and int(kept.max()) < height and int(kept[-1]) >= kept.size)


def _judged(
    status: Status, request: ProtectionRequest, shared: Sequence[str], found: risk.Intersection
) -> tuple[Status, tuple[str, ...]]:
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
