"""The check of what would be published: it holds, or nothing is given out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal import privacy
from shoal.engine.roles import Prepared
from shoal.errors import GuaranteeError


def check_or_refuse(
    protected: Any, job: Prepared, quasi: Sequence[str], k: int, l: int | None, t: float | None
) -> tuple[privacy.Verdict, ...]:
    """Verdicts on the protected table, all of them holding; raises `GuaranteeError` otherwise."""
    ground, levels = grounds(job)
    known = [*quasi, *(name for name in job.strata if name not in quasi)]
    verdicts = privacy.check(protected, known, job.sensitive, k=k, l=l, t=t, ground=ground, levels=levels)
    for verdict in verdicts:
        if verdict.holds is False:
            raise GuaranteeError(
                f"The protected table does not keep its promise, so it is not given out: {verdict}"
            )
    return tuple(verdicts)


def grounds(job: Prepared) -> tuple[dict[str, str], dict[str, Any]]:
    """The distance between values of each sensitive column, as the schema declares it."""
    facts = {name: job.schema.columns[name] for name in job.sensitive}
    ground = {name: "hierarchical" for name, each in facts.items() if each.hierarchy}
    levels = {
        name: each.hierarchy or each.levels
        for name, each in facts.items()
        if each.hierarchy or (each.kind == "ordered" and each.levels)
    }
    return ground, levels
