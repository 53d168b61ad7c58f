"""Dependent differential privacy with coefficients that the user vouches for."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from shoal.dp import budget
from shoal.dp.answering.answer import Answer
from shoal.dp.ledger.claims import Amount, Claim
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.secret import random_word
from shoal.dp.mechanisms.discrete_laplace import laplace, laplace_radius
from shoal.dp.pufferfish._answer import check_range, spend
from shoal.dp.pufferfish._scenario import exact
from shoal.dp.unit import ENDED, Stated
from shoal.errors import ParameterError

DEPENDENT_GUARANTEE = "guarantee: for the stated coefficients, pairwise dependence only; one release"
_STEPS = 1 << 20


class PairwiseOnlyWarning(UserWarning):
    """Dependence among three or more records is not covered by coefficients of pairs."""


class DependentDP:
    """A sum over records with noise for the dependence that given coefficients state.

    Parameters
    ----------
    coefficients : n x n numbers in [0, 1]
        Row i: how much of record j's largest influence shows when record i changes; 1 on the diagonal.
    bounds : (low, high)
        Declared bounds of a record's number; numbers beyond are clamped.
    dataset : str, default "table"
    ledger : Ledger, path or database URL, optional
    data_version : str, optional
        The owner's word for this state of the data; drawn at random if left open.

    Notes
    -----
    Scale max over i of sum over j of rho_ij * Delta_j, divided by epsilon; Delta_j = high - low, the reading
    in which records are replaced. **Weak where** dependence is not of pairs: if X3 = X1 xor X2, all coefficients
    of pairs are zero, and yet the odds about X1 move by epsilon + ln cosh epsilon. The coefficients must be
    known beforehand; taken from the private table they promise nothing.

    References
    ----------
    .. [1] C. Liu, S. Chakraborty, P. Mittal (2016). Dependence makes you vulnerable: differential privacy under
       dependent tuples. NDSS.

    Examples
    --------
    >>> import warnings
    >>> from shoal import dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     d = dp.DependentDP([[1, 0.5], [0.5, 1]], (0, 1))
    >>> d.scale(0.5)
    Fraction(3, 1)
    """

    def __init__(
        self,
        coefficients: Sequence[Sequence[Any]],
        bounds: tuple[Any, Any],
        *,
        dataset: str = "table",
        ledger: Ledger | str | Path | None = None,
        data_version: str | None = None,
    ) -> None:
        self._version = data_version or random_word()
        self.coefficients = [[exact(each, "A coefficient") for each in row] for row in coefficients]
        size = len(self.coefficients)
        if not size or any(len(row) != size for row in self.coefficients):
            raise ParameterError("'coefficients' must be a square table, a row per record.")
        if any(not 0 <= each <= 1 for row in self.coefficients for each in row) or any(
            row[at] != 1 for at, row in enumerate(self.coefficients)
        ):
            raise ParameterError("'coefficients' must lie in [0, 1], with 1 on the diagonal.")
        self.low, self.high = (exact(each, "A bound") for each in bounds)
        if not self.low < self.high:
            raise ParameterError(f"'bounds' must be (low, high) with low < high. Got {bounds!r}.")
        self.dataset = dataset
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        if size > 2:
            warnings.warn(
                "Coefficients of pairs do not see dependence among three or more records (X3 = X1 xor X2).",
                PairwiseOnlyWarning,
                stacklevel=2,
            )

    def scale(self, epsilon: Any) -> Fraction:
        """Noise scale of a sum, from what was stated alone."""
        worst = max(sum(row, Fraction(0)) for row in self.coefficients)
        return worst * (self.high - self.low) / Fraction(budget.micro(epsilon), budget.MICRO)

    def ask(self, values: Sequence[Any], epsilon: Any, *, text: str = "sum", analyst: str = "me") -> Answer:
        """The noisy sum of the records' numbers, once per data set.

        Parameters
        ----------
        values : sequence of n numbers
        epsilon : float
        text : str
            What was asked, for the ledger.
        analyst : str
        """
        if len(values) != len(self.coefficients):
            raise ParameterError(
                f"'values' must hold {len(self.coefficients)} numbers, one per record. Got {len(values)}."
            )
        micro, noise = budget.micro(epsilon), self.scale(epsilon)
        quantum = (self.high - self.low) / _STEPS
        base, scale = len(values) * self.low, noise / quantum
        check_range(scale, abs(base), quantum)
        stated = hashlib.sha256(repr([self.coefficients, self.low, self.high]).encode()).hexdigest()[:16]
        unit = Stated(f"dependent:{stated}", DEPENDENT_GUARANTEE)
        claim = Claim(self.dataset, analyst, text, self._version, Amount(micro), unit)

        def draw() -> str:
            steps = sum(self._steps(each, quantum) for each in values)
            return json.dumps(int(laplace(np.array([steps]), scale)[0]))

        receipt = spend(self.ledger, claim, draw)
        noisy, radius = int(json.loads(receipt.body)), laplace_radius(scale)
        value, low, high = (float(base + (noisy + more) * quantum) for more in (0, -radius, radius))
        guarantee = DEPENDENT_GUARANTEE + (ENDED if receipt.ended else "")
        return Answer(
            value, guarantee, budget.epsilon(receipt.charged), 0.0, (low, high), entry=receipt.entry or None
        )

    def _steps(self, value: Any, quantum: Fraction) -> int:
        """A record's number in quanta above the lower bound; what is no number counts as that bound."""
        try:
            known = exact(value, "A value")
        except ParameterError:  # its sentence would quote a private cell
            return 0
        return round((min(max(known, self.low), self.high) - self.low) / quantum)
