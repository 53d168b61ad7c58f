"""Groups: formed inside the strata, households kept whole, then mended until the sensitive columns are safe."""

from __future__ import annotations

import numpy as np

from shoal import privacy
from shoal.engine.compile import needs_compiling
from shoal.engine.roles import row_codes
from shoal.errors import InputError
from shoal.microaggregation import Microaggregator, partition_within
from shoal.protect.choices import Progress
from shoal.protect.ground import Ground
from shoal.protect.verdicts import grounds


def form_groups(
    ground: Ground, estimator: Microaggregator, strata: np.ndarray, progress: Progress | None = None
) -> tuple[np.ndarray, list[Microaggregator]]:
    """A label for each row, and the method as it ran in each stratum."""
    if progress is not None:
        doing = f"forming groups of at least {estimator.k} with {estimator.name}"
        compiling = " (first use: compiling, once)" if needs_compiling(type(estimator).__module__) else ""
        progress(f"{doing}{compiling}")
        if estimator.takes("progress"):
            estimator.set_params(
                progress=lambda stage, done, of: progress(
                    f"{doing}, {100 * done / of if of > 0 else 100:.0f} %: {stage}"
                )
            )
    return partition_within(ground.Z, estimator, strata, row_codes(ground.job.table, ground.job.household))


def reach_models(
    ground: Ground, labels: np.ndarray, strata: np.ndarray, l: int | None, t: float | None
) -> tuple[np.ndarray, list[str]]:
    """Merge groups and swap records until the sensitive columns are l-diverse and t-close."""
    if l is None and t is None:
        return labels, []
    job = ground.job
    if not job.sensitive:
        raise InputError(
            "l-diversity and t-closeness need a column with the role 'sensitive'. The schema has none."
        )
    before = int(labels.max()) + 1
    ground_distance, levels = grounds(job)
    # Households stay together, so their records are not swapped.
    labels = privacy.reach(
        labels,
        ground.Z,
        job.table.select(job.sensitive),
        l=l,
        t=t,
        ground=ground_distance,
        levels=levels,
        swap=job.household is None,
        strata=strata,
    )
    after = int(labels.max()) + 1
    return labels, [
        f"{before} groups became {after} to protect the sensitive columns."
    ] if after < before else []
