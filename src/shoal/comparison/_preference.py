"""Which cell to take: the least loss at a fixed k or within a limit of risk, or what comes nearest to an aim in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

from shoal.errors import ParameterError
from shoal.microaggregation import methods
from shoal.params import AnyOf, Interval, Unset, check_params

if TYPE_CHECKING:
    from shoal.comparison._result import Cell

# The default of `protect`.
USUAL_K = 5
# What cells of the multi-objective search are called.
SEARCHED = "search"


@dataclass(frozen=True)
class Preference:
    """What a recommendation goes by. Loss and risk have no common unit, so one is fixed and the other made small.

    Attributes
    ----------
    k : int
        Where no limit is given.
    risk_limit : float or None
        Largest share of records that may be linked.
    aim : (float, float) or None
        Loss in per cent and share of records linked that are wished for; the search is led towards them.
    """

    k: int
    risk_limit: float | None
    aim: tuple[float, float] | None = None

    @classmethod
    def of(
        cls,
        ks: Sequence[int],
        fixed_k: int | None,
        risk_limit: float | None,
        aim: tuple[float, float] | None = None,
    ) -> Preference:
        """Check what was asked for; without it the usual k, or the largest compared."""
        check_params(
            "compare",
            {
                "fixed_k": AnyOf((Unset(), Interval(Integral, 2))),
                "risk_limit": AnyOf((Unset(), Interval(Real, 0, 1))),
            },
            {"fixed_k": fixed_k, "risk_limit": risk_limit},
        )
        if sum(each is not None for each in (fixed_k, risk_limit, aim)) > 1:
            raise ParameterError(
                "compare recommends by one of 'fixed_k', 'risk_limit' and 'aim'. Got several."
            )
        if aim is not None:
            aim = _aim(aim)
        if fixed_k is not None and fixed_k not in ks:
            raise ParameterError(
                f"'fixed_k' of compare must be one of the k compared ({', '.join(map(str, ks))}). Got {fixed_k}."
            )
        return cls(fixed_k or (USUAL_K if USUAL_K in ks else max(ks)), risk_limit, aim)

    def choose(self, cells: Sequence[Cell]) -> tuple[Cell, str]:
        """The cell to take and why: of methods that `protect` takes by name, or with an aim of the search too."""
        if self.aim is not None:
            return self._nearest([cell for cell in cells if cell.method in (*methods(), SEARCHED)], self.aim)
        able = [cell for cell in cells if cell.method in methods()]
        if self.risk_limit is None:
            asked = [cell for cell in able if cell.k == self.k]
            chosen = min(asked, key=_loss_first)
            others = f" It loses least of the {len(asked)} compared at this k." if len(asked) > 1 else ""
            return chosen, _told(chosen) + others
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

    def _nearest(self, cells: Sequence[Cell], aim: tuple[float, float]) -> tuple[Cell, str]:
        """What falls short of the aim least, loss and linkage each in shares of their range over the front."""
        front = [cell for cell in cells if cell.on_front] or list(cells)
        ranges = [
            max(of(cell) for cell in front) - min(of(cell) for cell in front) or 1.0
            for of in (_loss, _linked)
        ]

        def short(cell: Cell) -> tuple[float, float]:
            by = [
                (of(cell) - wish) / wide for of, wish, wide in zip((_loss, _linked), aim, ranges, strict=True)
            ]
            return max(by), sum(by)

        chosen = min(front, key=short)
        reached = all(of(chosen) <= wish for of, wish in zip((_loss, _linked), aim, strict=True))
        wished = f"{aim[0]:g} % loss and {100 * aim[1]:g} % linked"
        how = f"The aim of {wished} is reached." if reached else f"It comes nearest to the aim of {wished}."
        return chosen, f"{_told(chosen)} {how}"


def _aim(aim: Sequence[float]) -> tuple[float, float]:
    if (
        not isinstance(aim, (list, tuple))
        or len(aim) != 2
        or not all(isinstance(each, Real) and not isinstance(each, bool) for each in aim)
        or not (0 <= aim[0] <= 100 and 0 <= aim[1] <= 1)
    ):
        raise ParameterError(
            f"'aim' of compare must be a loss in per cent and a share of records (0 to 1). Got {aim!r}."
        )
    return float(aim[0]), float(aim[1])


def _loss(cell: Cell) -> float:
    return cell.information_loss


def _linked(cell: Cell) -> float:
    return cell.dld


def _loss_first(cell: Cell) -> tuple[float, float]:
    return cell.information_loss, cell.dld


def _told(cell: Cell) -> str:
    return (
        f"{cell.method} with k = {cell.k}: it loses {cell.information_loss:.2f} % of the information, and "
        f"{100 * cell.dld:.1f} % of the records can be linked by distance."
    )
