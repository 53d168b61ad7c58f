"""Dependent differential privacy on a table: one coefficient for all rows that share a key, and where it may come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from shoal.dp.pufferfish._dependent import DEPENDENT_GUARANTEE
from shoal.dp.pufferfish._scenario import Scenario, exact, holds
from shoal.dp.pufferfish._stated import StatedModel, digest
from shoal.dp.sql.query import Query
from shoal.errors import ParameterError, QueryError
from shoal.schema import Schema


@dataclass(frozen=True)
class Coefficients(StatedModel):
    """Rows that share a key depend on each other by one coefficient: dependent differential privacy on a table.

    Parameters
    ----------
    columns : tuple of one or two str
        One column: rows that share its value. Two, such as a person and a partner: rows that hold the same two values,
        in either order.
    rows : int
        At most this many rows share a key (the L of [1]); more are not counted.
    coefficient : number in [0, 1]
        How much of another row's largest influence shows when one row changes (the rho of [1]);
        `dependence_coefficient` computes one from a pair's distribution.

    Notes
    -----
    Scale (1 + (rows - 1) coefficient) Delta / epsilon. **Weak where** dependence is not of pairs, see `DependentDP`.

    References
    ----------
    .. [1] C. Liu, S. Chakraborty, P. Mittal (2016). Dependence makes you vulnerable: differential privacy under
       dependent tuples. NDSS.

    Examples
    --------
    >>> from shoal.dp.pufferfish import Coefficients
    >>> Coefficients(("household",), 4, "1/4").row_sum
    Fraction(7, 4)
    """

    columns: tuple[str, ...]
    rows: int
    coefficient: Any
    mode: ClassVar[str] = "dependent"
    guarantee: ClassVar[str] = DEPENDENT_GUARANTEE

    def __post_init__(self) -> None:
        if len(self.columns) not in (1, 2) or len(set(self.columns)) < len(self.columns):
            raise ParameterError(
                f"'columns' must name one column, or two different ones. Got {self.columns!r}."
            )
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 1 <= self.rows <= 2**30:
            raise ParameterError(f"'rows' must be an int in [1, 2^30]. Got {self.rows!r}.")
        if not 0 <= exact(self.coefficient, "'coefficient'") <= 1:
            raise ParameterError(f"'coefficient' must lie in [0, 1]. Got {self.coefficient!r}.")

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def most(self) -> int:
        """The largest number of rows that share a key."""
        return self.rows

    @property
    def row_sum(self) -> Fraction:
        """One row's own influence and the others' shares of it."""
        return 1 + (self.rows - 1) * exact(self.coefficient, "'coefficient'")

    def noise(self, query: Query, schema: Schema, epsilon: Fraction) -> tuple[Fraction, Fraction]:
        """Quantum of the answer and scale of its noise."""
        from shoal.dp.answering.plan import from_zero
        from shoal.dp.meaning.bounds import finite_bounds

        if len(query.aggregates) != 1 or query.groups or query.aggregates[0].kind not in ("count", "sum"):
            raise QueryError("Mode 'dependent' answers one COUNT or SUM without GROUP BY.")
        aggregate = query.aggregates[0]
        if aggregate.kind == "count":
            return Fraction(1), self.row_sum / epsilon
        fixed = from_zero(finite_bounds(schema.columns[aggregate.column or ""]))
        widest = max(fixed.most, 0) - min(fixed.least, 0)  # a row may also cease to answer
        return fixed.quantum, self.row_sum * widest * fixed.quantum / epsilon

    def fingerprint(self) -> str:
        """A digest of what is stated."""
        return digest(
            ["coefficients", *self.columns, self.rows, str(exact(self.coefficient, "'coefficient'"))]
        )


def dependence_coefficient(joint: Mapping[tuple[Any, Any], Any], epsilon: float) -> float:
    """Liu's coefficient of a pair from its stated distribution: the loss about one entry that the other's noise leaves, in epsilons.

    Parameters
    ----------
    joint : mapping of (entry of i, entry of j) to probability
        Entries are numbers, or texts with at least one number's worth of order between them; j's are what is added up.
    epsilon : float
        Of the answer: noise of scale (largest - least entry of j) / epsilon on j's entry.

    Returns
    -------
    float
        max over entries a, b of i and answers s of log(p(s | a) / p(s | b)) / epsilon, rounded up; between 0 (independent)
        and 1 (i settles j).

    Notes
    -----
    Between two neighbouring entries the ratio of the two densities is a quotient of sums of the same two exponentials,
    so that it is largest at an entry of j, or beyond all of them. The joint distribution must be known beforehand, from
    public figures: an estimate from the private table would itself need noise that its own dependence calls for.

    Examples
    --------
    >>> from shoal.dp.pufferfish import dependence_coefficient
    >>> round(dependence_coefficient({(0, 0): "1/2", (1, 1): "1/2"}, 1.0), 6)
    1.0
    >>> dependence_coefficient({(a, b): "1/4" for a in (0, 1) for b in (0, 1)}, 1.0)
    0.0
    >>> round(dependence_coefficient({(0, 0): "3/8", (0, 1): "1/8", (1, 0): "1/8", (1, 1): "3/8"}, 1.0), 3)
    0.471
    """
    if not 0 < epsilon < math.inf:
        raise ParameterError(f"'epsilon' must be a number above 0. Got {epsilon!r}.")
    pairs = Scenario(joint, "joint")
    places = {each[1]: exact(each[1], "An entry") for each in pairs.support()}
    low, high = min(places.values()), max(places.values())
    if low == high:
        return 0.0
    at = {entry: float((place - low) / (high - low)) * epsilon for entry, place in places.items()}
    given = [
        pairs.given(holds(0, entry), lambda pair: pair[1])
        for entry in sorted({pair[0] for pair in pairs.support()}, key=repr)
    ]
    worst = 0.0
    for point in at.values():
        logs = [
            math.log(
                math.fsum(float(mass) * math.exp(-abs(point - at[entry])) for entry, mass in each.items())
            )
            for each in given
        ]
        worst = max(worst, max(logs) - min(logs))
    return min(1.0, worst / epsilon * (1 + 1e-12) + 1e-12) if worst > 1e-13 else 0.0
