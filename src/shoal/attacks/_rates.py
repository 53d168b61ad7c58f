"""How often an attack succeeds, with the interval in which the true rate lies, and what is left after a control."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from shoal.typing import Json

Z = 1.959963984540054  # the normal quantile of a 95 % interval


@dataclass(frozen=True)
class Rate:
    """A success rate with its 95 % interval.

    Attributes
    ----------
    value, low, high : float
    attempts : int

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.attacks import Rate
    >>> rate = Rate.of(np.array([1.0, 0.0, 0.0, 0.0]))
    >>> rate.value, rate.attempts, rate.low < 0.25 < rate.high
    (0.25, 4, True)
    >>> rate.over(Rate.of(np.zeros(4))).value  # beyond a control group in which nobody was found
    0.25
    """

    value: float
    low: float
    high: float
    attempts: int

    @classmethod
    def of(cls, chances: np.ndarray) -> Self:
        """From the chance of success of each attempt, by the score interval.

        A chance between 0 and 1 is that of a draw among equals; its variance is below that of a success or
        failure, so the interval is wide enough.

        References
        ----------
        .. [1] E. B. Wilson (1927). Probable inference, the law of succession, and statistical inference. Journal of the
           American Statistical Association 22, 209-212. doi:10.1080/01621459.1927.10502953

        Examples
        --------
        >>> import numpy as np
        >>> from shoal.attacks import Rate
        >>> Rate.of(np.array([1.0, 0.0, 0.0, 0.0])).value
        0.25
        """
        n = int(chances.size)
        if n == 0:
            return cls(0.0, 0.0, 1.0, 0)
        p = float(np.mean(chances))
        middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
        return cls(p, min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half)), n)

    def over(self, other: Rate) -> Rate:
        """What is left of this rate after another one: (this - other) / (1 - other), with its interval.

        Of what the other leaves open, the share that this one finds: 0 where both are equal, 1 where all is found.

        References
        ----------
        .. [1] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnadi (2023). A unified framework for quantifying privacy risk
           in synthetic data. Proceedings on Privacy Enhancing Technologies 2023(2), 312-328.
           doi:10.56553/popets-2023-0055
        """
        if other.value >= 1.0:
            return Rate(0.0, 0.0, 0.0, self.attempts)
        room = 1.0 - other.value
        value = (self.value - other.value) / room
        # Both rates err by themselves; each side of the difference takes the sides of the intervals that lead there.
        down = math.hypot(
            (self.value - self.low) / room, (other.high - other.value) * (1 - self.value) / room**2
        )
        up = math.hypot(
            (self.high - self.value) / room, (other.value - other.low) * (1 - self.value) / room**2
        )
        return Rate(value, value - down, min(1.0, value + up), self.attempts)

    def to_dict(self) -> Json:
        """As plain values."""
        return {"rate": self.value, "interval": [self.low, self.high], "attempts": self.attempts}

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"
