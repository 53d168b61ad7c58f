"""What a class must hold before it may be released: k records, and sensitive values that stay uncertain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from shoal.engine.compile import kernel
from shoal.params import AnyOf, Constraint, Interval, Unset, check_params

if TYPE_CHECKING:
    from shoal.generalization._lattice import Lattice

RULES: dict[str, Constraint] = {
    "k": Interval(Integral, 2),
    "l": AnyOf((Unset(), Interval(Integral, 2))),
    "entropy_l": AnyOf((Unset(), Interval(Real, 1))),
    "t": AnyOf((Unset(), Interval(Real, 0, 1))),
    "alpha": AnyOf((Unset(), Interval(Real, 0, 1))),
    "beta": AnyOf((Unset(), Interval(Real, 0))),
    "delta": AnyOf((Unset(), Interval(Real, 0))),
    "enhanced_beta": AnyOf((Unset(), Interval(Real, 0))),
}


@dataclass(frozen=True)
class Conditions:
    """Demands on every class; those on sensitive values hold for each sensitive column.

    Parameters
    ----------
    k : int
        Records in a class.
    l : int, optional
        Different sensitive values in a class (distinct l-diversity).
    entropy_l : float, optional
        Entropy l-diversity: the exponential of the entropy of a class's values.
    t : float, optional
        Largest distance of a class's values from those of the table: total variation for categories, the
        earth mover's distance over ranks for ordered values.
    alpha : float, optional
        Largest share of one sensitive value in a class: (alpha, k)-anonymity.
    beta : float, optional
        Largest gain of a value's share over its share in the table, as a part of it: beta-likeness.
    delta : float, optional
        Largest absolute logarithm of the ratio of the shares: delta-disclosure privacy.
    enhanced_beta : float, optional
        As beta, and at most -log of the value's share in the table: enhanced beta-likeness.
    sensitive : tuple of array of int64
        Codes of each sensitive column, one per record.
    ordered : tuple of bool
        Whether each sensitive column's codes are ranks.
    apart : array of int64, optional
        Codes of what k counts instead of records, households for one: a class must hold k different ones.

    Notes
    -----
    If two classes hold all of them, so does their union: every one is convex in the shares.

    Examples
    --------
    >>> from shoal.generalization import Conditions
    >>> Conditions(k=5, alpha=0.5).k
    5
    """

    k: int
    l: int | None = None
    entropy_l: float | None = None
    t: float | None = None
    alpha: float | None = None
    beta: float | None = None
    delta: float | None = None
    sensitive: tuple[np.ndarray, ...] = ()
    ordered: tuple[bool, ...] = ()
    apart: np.ndarray | None = None
    enhanced_beta: float | None = None
    _spans: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_params("a condition", RULES, {name: getattr(self, name) for name in RULES})
        spans = np.zeros((len(self.codes), 4), np.int64)
        start = 0
        for at, codes in enumerate(self.codes):
            size, ranks = (
                int(codes.max(initial=-1)) + 1,
                bool(self.ordered and at < len(self.ordered) and self.ordered[at]),
            )
            least = self.k if at >= len(self.sensitive) else 0
            spans[at] = start, start + size, int(ranks), least
            start += size
        object.__setattr__(self, "_spans", spans)

    @property
    def codes(self) -> tuple[np.ndarray, ...]:
        """All columns of codes that are counted in classes: the sensitive ones, then what k counts."""
        return self.sensitive if self.apart is None else (*self.sensitive, self.apart)

    @property
    def demands(self) -> bool:
        """Whether anything but k records is asked for."""
        asked = any(getattr(self, name) is not None for name in RULES if name != "k")
        return asked or self.apart is not None

    @property
    def width(self) -> int:
        """Values of all counted columns."""
        return int(self._spans[-1, 1]) if len(self.codes) and self.demands else 0

    def by_record(self) -> Conditions:
        """The same with k counted in records."""
        return replace(self, apart=None)

    def table(self, lattice: Lattice) -> np.ndarray:
        """How often each sensitive value occurs with each distinct record."""
        return self.counted(lattice.of_row, lattice.tuples.shape[0])

    def counted(self, labels: np.ndarray, groups: int) -> np.ndarray:
        """How often each sensitive value occurs in each group of records."""
        table = np.zeros((groups, self.width), np.int64)
        if self.width:
            for (start, stop, _, _), codes in zip(self._spans, self.codes, strict=True):
                size = int(stop - start)
                table[:, start:stop] = np.bincount(labels * size + codes, minlength=groups * size).reshape(
                    groups, size
                )
        return table

    def packed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Spans of the columns, limits and shares in the table, as the kernels take them."""
        none = np.nan
        limits = np.array(
            [
                none if each is None else float(each)
                for each in (
                    self.l,
                    self.entropy_l,
                    self.t,
                    self.alpha,
                    self.beta,
                    self.delta,
                    self.enhanced_beta,
                )
            ]
        )
        shares = np.zeros(self.width)
        if self.width:
            n = self.codes[0].size
            shares = self.counted(np.zeros(n, np.int64), 1)[0] / n
        return self._spans, limits, shares

    def holds(self, labels: np.ndarray) -> np.ndarray:
        """Whether each class holds all demands, k included."""
        groups = int(labels.max(initial=-1)) + 1
        sizes = np.bincount(labels, minlength=groups)
        kept = sizes >= self.k
        if self.apart is not None:
            # Pairs instead of a table: households are many.
            many = int(self.apart.max(initial=-1)) + 1
            kept &= np.bincount(np.unique(labels * many + self.apart) // many, minlength=groups) >= self.k
            return kept & self.by_record().holds(labels)
        if self.width:
            table = self.counted(labels, groups)
            spans, limits, shares = self.packed()
            kept &= np.array(
                [class_holds(table[g], sizes[g], spans, limits, shares) for g in range(groups)], bool
            )
        return kept

    def __str__(self) -> str:
        words = [f"k = {self.k}" + ("" if self.apart is None else " households")]
        named = {
            "l": "distinct l",
            "entropy_l": "entropy l",
            "t": "t",
            "alpha": "alpha",
            "beta": "beta",
            "delta": "delta",
            "enhanced_beta": "enhanced beta",
        }
        words += [
            f"{text} = {getattr(self, name):g}"
            for name, text in named.items()
            if getattr(self, name) is not None
        ]
        return ", ".join(words)


# Kernel: counts of the sensitive values of one class; limits as packed, not a number where nothing is asked.


@kernel()
def class_holds(counts, size, spans, limits, shares):  # noqa: C901, PLR0911, PLR0912 - one step of a compiled search, case by case
    """Whether a class of so many records holds the demands on its sensitive values."""
    slack = 1e-12
    for at in range(spans.shape[0]):
        start, stop, ordered = spans[at, 0], spans[at, 1], spans[at, 2]
        distinct, entropy, far, moved, carried = 0, 0.0, 0.0, 0.0, 0.0
        if spans[at, 3] > 0:
            for v in range(start, stop):
                distinct += counts[v] > 0
            if distinct < spans[at, 3]:
                return False
            continue
        for v in range(start, stop):
            p = counts[v] / size
            q = shares[v]
            if counts[v] > 0:
                distinct += 1
                entropy -= p * math.log(p)
            carried += p - q
            moved += abs(carried)
            far += abs(p - q)
            if not math.isnan(limits[3]) and p > limits[3] + slack:
                return False
            if not math.isnan(limits[4]) and q > 0 and p > q and (p - q) / q > limits[4] + slack:
                return False
            enhanced = not math.isnan(limits[6]) and q > 0 and p > q
            if enhanced and (p - q) / q > min(limits[6], -math.log(q)) + slack:
                return False
            if not math.isnan(limits[5]) and q > 0 and (p == 0 or abs(math.log(p / q)) > limits[5] + slack):
                return False
        if not math.isnan(limits[0]) and distinct < limits[0]:
            return False
        if not math.isnan(limits[1]) and math.exp(entropy) < limits[1] - slack:
            return False
        if not math.isnan(limits[2]):
            values = stop - start
            distance = far / 2.0
            if ordered == 1:
                distance = moved / (values - 1) if values > 1 else 0.0
            if distance > limits[2] + slack:
                return False
    return True
