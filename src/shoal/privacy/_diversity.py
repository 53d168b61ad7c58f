"""l-diversity: every class holds enough well-represented sensitive values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from shoal.engine.compile import kernel
from shoal.errors import ParameterError
from shoal.params import AnyOf, Interval, Options, Unset, check_params
from shoal.privacy._profile import Profile, ascend, profile_of
from shoal.privacy._verdict import Verdict
from shoal.privacy.classes import Classes, prepared

KINDS = ("distinct", "entropy", "recursive")
L_RULE = AnyOf((Unset(), Interval(Real, 1)))
C_RULE = AnyOf((Unset(), Interval(Real, 0)))
# Rounding of logarithms must not make a class of l equally frequent values miss entropy l-diversity.
_SLACK = 1e-9


def l_diversity(
    frame: Any,
    quasi: Sequence[str] | str,
    sensitive: str,
    *,
    kind: str = "distinct",
    l: float | None = None,
    c: float | None = None,
) -> Verdict:
    """Check l-diversity of one sensitive column.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
        The columns an intruder is taken to know.
    sensitive : str
        The column whose values are to stay uncertain.
    kind : {"distinct", "entropy", "recursive"}, default "distinct"
        distinct: the number of different values in a class; entropy: e to the entropy of a class's values,
        so that l equally frequent values reach l; recursive: the largest l with r_1 < c (r_l + ... + r_m),
        r being the counts of a class's values in descending order.
    l : float, optional
        The demand.
    c : float, optional
        The factor of the recursive kind, which needs it.

    Returns
    -------
    Verdict
        `value` is the achieved l, an int but for the entropy kind.

    Notes
    -----
    O(n log(largest class)) time, O(n) memory. A missing sensitive cell is a value of its own, and is stated.

    References
    ----------
    .. [1] A. Machanavajjhala, D. Kifer, J. Gehrke, M. Venkitasubramaniam (2007). l-diversity: privacy beyond
       k-anonymity. ACM TKDD 1(1), 3. doi:10.1145/1217299.1217302

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"zip": ["a", "a", "a", "b", "b", "b"],
    ...                       "disease": ["flu", "flu", "cold", "flu", "flu", "flu"]})
    >>> privacy.l_diversity(table, "zip", "disease", l=2).worst[0].values
    {'zip': 'b'}
    >>> round(privacy.l_diversity(table.head(3), "zip", "disease", kind="entropy").value, 4)
    1.8899
    """
    check_params(
        "l_diversity", {"kind": Options(KINDS), "l": L_RULE, "c": C_RULE}, {"kind": kind, "l": l, "c": c}
    )
    if kind == "recursive" and c is None:
        raise ParameterError(
            "'c' of l_diversity must be a number in [0, inf] for the recursive kind. Got None."
        )
    _, classes, cells = prepared(frame, quasi, sensitive)
    return diversity_verdict(classes, profile_of(classes, cells), kind, l, c)


def diversity_verdict(
    classes: Classes, profile: Profile, kind: str, l: float | None, c: float | None = None
) -> Verdict:
    """The verdict on classes already found."""
    figures = diversity_figures(profile, kind, c)
    lowest = figures.min().item()
    below = figures < l * (1 - _SLACK) if l is not None else diversity_figures(profile, "distinct", None) < 2
    missing = classes.missing()
    if profile.cells.n_missing:
        missing[profile.cells.name] = profile.cells.n_missing
    name = f"{kind} l-diversity"
    return Verdict(
        model=name if kind != "recursive" else f"recursive (c, l)-diversity with c = {c:g}",
        quasi=classes.names,
        sensitive=profile.cells.name,
        value=lowest,
        limit=l,
        holds=None if l is None else not bool(below.any()),
        n_records=classes.n_records,
        n_classes=classes.n_classes,
        worst=classes.worst(figures, lowest=True),
        records_at_risk=int(classes.sizes[below].sum()),
        missing=missing,
        missing_records=classes.missing_records(),
        labels=classes.labels,
        classes_at_risk=below,
        notes=missing_note(profile),
    )


def missing_note(profile: Profile) -> tuple[str, ...]:
    """What is said about missing sensitive cells."""
    count = profile.cells.n_missing
    return (
        (f"{count:,} cells of {profile.cells.name} are missing and count as one value of their own.",)
        if count
        else ()
    )


def diversity_figures(profile: Profile, kind: str, c: float | None) -> np.ndarray:
    """The achieved l of each class."""
    if kind == "distinct":
        return _distinct(profile.codes, profile.starts)
    if kind == "entropy":
        figures = np.exp(_entropy(profile.codes, profile.starts))
        whole = np.rint(figures)
        return np.where(np.abs(figures - whole) <= _SLACK * whole, whole, figures)
    return _recursive(profile.codes, profile.starts, math.inf if c is None else float(c))


# Kernels: sorted codes per class in, one figure per class out.


@kernel()
def _distinct(codes, starts):
    out = np.zeros(starts.shape[0] - 1, np.int64)
    for g in range(out.shape[0]):
        count = 1
        for i in range(starts[g] + 1, starts[g + 1]):
            count += codes[i] != codes[i - 1]
        out[g] = count
    return out


@kernel()
def _entropy(codes, starts):
    out = np.zeros(starts.shape[0] - 1)
    for g in range(out.shape[0]):
        low, high = starts[g], starts[g + 1]
        weighted = 0.0
        run = 1
        for i in range(low + 1, high + 1):
            if i < high and codes[i] == codes[i - 1]:
                run += 1
            else:
                weighted += run * np.log(run)
                run = 1
        out[g] = np.log(high - low) - weighted / (high - low)
    return out


@kernel()
def _recursive(codes, starts, c):
    """Largest l with r_1 < c (r_l + ... + r_m), counts descending; 0 where not even l = 1 holds."""
    out = np.zeros(starts.shape[0] - 1, np.int64)
    for g in range(out.shape[0]):
        low, high = starts[g], starts[g + 1]
        counts = np.zeros(high - low, np.int64)
        m = 0
        for i in range(low, high):
            if i > low and codes[i] != codes[i - 1]:
                m += 1
            counts[m] += 1
        counts = counts[: m + 1]
        ascend(counts)
        most = counts[m]
        tail = 0
        # From the rarest value upwards: the first tail that suffices belongs to the largest l.
        for at in range(m + 1):
            tail += counts[at]
            if most < c * tail:
                out[g] = m + 1 - at
                break
    return out
