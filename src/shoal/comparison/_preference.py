"""Which cell to take: the least loss at a fixed k, or the least loss within a limit of risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

from shoal.errors import ParameterError
from shoal.microaggregation import methods
from shoal.params import AnyOf, Interval, Nothing, check_params

if TYPE_CHECKING:
    from shoal.comparison._grid import Cell

# The default of `protect`.
USUAL_K = 5


@dataclass(frozen=True)
class Preference:
    """What a recommendation goes by. Loss and risk have no common unit, so one is fixed and the other made small.

    Attributes
    ----------
    k : int
        Where no limit is given.
    risk_limit : float or None
        Largest share of records that may be linked.
    """

    k: int
    risk_limit: float | None

    @classmethod
    def of(cls, ks: Sequence[int], fixed_k: int | None, risk_limit: float | None) -> Preference:
        """Check what was asked for; without it the usual k, or the largest compared."""
        check_params(
            "compare",
            {
                "fixed_k": AnyOf((Nothing(), Interval(Integral, 2))),
                "risk_limit": AnyOf((Nothing(), Interval(Real, 0, 1))),
            },
            {"fixed_k": fixed_k, "risk_limit": risk_limit},
        )
        if fixed_k is not None and risk_limit is not None:
            raise ParameterError("compare recommends by 'fixed_k' or by 'risk_limit'. Got both.")
        if fixed_k is not None and fixed_k not in ks:
            raise ParameterError(
                f"'fixed_k' of compare must be one of the k compared ({', '.join(map(str, ks))}). Got {fixed_k}."
            )
        return cls(fixed_k or (USUAL_K if USUAL_K in ks else max(ks)), risk_limit)

    def choose(self, cells: Sequence[Cell]) -> tuple[Cell, str]:
        """The cell to take and why; only methods that `protect` takes by name."""
        able = [cell for cell in cells if cell.method in methods()]
        if self.risk_limit is None:
            asked = [cell for cell in able if cell.k == self.k]
            chosen = min(asked, key=_loss_first)
            return chosen, f"{_told(chosen)} It loses least of the {len(asked)} compared at this k."
        limit = f"{100 * self.risk_limit:g} %"
        within = [cell for cell in able if cell.dld <= self.risk_limit]
        if not within:
            chosen = min(able, key=lambda cell: (cell.dld, cell.information_loss))
            return (
                chosen,
                f"{_told(chosen)} No cell keeps the limit of {limit}; this one comes nearest to it.",
            )
        chosen = min(within, key=_loss_first)
        return (
            chosen,
            f"{_told(chosen)} It loses least of the {len(within)} cells within the limit of {limit}.",
        )


def _loss_first(cell: Cell) -> tuple[float, float]:
    return cell.information_loss, cell.dld


def _told(cell: Cell) -> str:
    return (
        f"{cell.method} with k = {cell.k}: it loses {cell.information_loss:.2f} % of the information, and "
        f"{100 * cell.dld:.1f} % of the records can be linked by distance."
    )
