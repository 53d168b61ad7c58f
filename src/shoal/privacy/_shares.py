"""Models on how much the shares of sensitive values in a class differ from what was known before."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from shoal.engine.compile import kernel
from shoal.params import AnyOf, Interval, Options, Unset, check_params
from shoal.privacy._diversity import missing_note
from shoal.privacy._profile import Profile, profile_of
from shoal.privacy._verdict import Verdict
from shoal.privacy.classes import Classes, prepared

ALPHA_RULE = AnyOf((Unset(), Interval(Real, 0, 1)))
GAIN_RULE = AnyOf((Unset(), Interval(Real, 0)))
KINDS = {
    "alpha": "(alpha, k)-anonymity",
    "beta": "beta-likeness",
    "delta": "delta-disclosure privacy",
    "enhanced": "enhanced beta-likeness",
}
_ENDLESS = {
    "delta": "A class lacks a value of the table, so the ratio of shares is not bounded.",
    "enhanced": "The share of a frequent value grows by more than any beta of the enhanced kind allows.",
}
# Rounding of a share must not make a class miss a demand that it meets.
_SLACK = 1e-12


def share_limits(
    frame: Any, quasi: Sequence[str] | str, sensitive: str, *, kind: str = "alpha", limit: float | None = None
) -> Verdict:
    """Check how far the shares of one sensitive column's values differ in any class.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
        The columns an intruder is taken to know.
    sensitive : str
        The column whose values are to stay uncertain.
    kind : {"alpha", "beta", "delta", "enhanced"}, default "alpha"
        alpha: the largest share of one value in a class. beta: the largest gain of a value's share over its share in the
        table, as a part of it. delta: the largest absolute logarithm of the ratio of the two shares, infinite where a
        class lacks a value of the table. enhanced: as beta, infinite where a gain exceeds -log of the value's share in
        the table, so that the shares of frequent values may grow by less.
    limit : float, optional
        The demand: at most this.

    Returns
    -------
    Verdict

    References
    ----------
    .. [1] R. C.-W. Wong, J. Li, A. W.-C. Fu, K. Wang (2006). (alpha, k)-anonymity: an enhanced k-anonymity model for
       privacy preserving data publishing. KDD 2006, 754-759. doi:10.1145/1150402.1150499
    .. [2] J. Cao, P. Karras (2012). Publishing microdata with a robust privacy guarantee. PVLDB 5(11), 1388-1399.
       doi:10.14778/2350229.2350255
    .. [3] J. Brickell, V. Shmatikov (2008). The cost of privacy. KDD 2008, 70-78. doi:10.1145/1401890.1401904

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"zip": list("aaabbb"), "disease": ["flu", "flu", "cold", "flu", "cold", "cold"]})
    >>> privacy.share_limits(table, "zip", "disease", kind="beta", limit=0.4).holds
    True
    """
    check_params(
        "share_limits", {"kind": Options(tuple(KINDS)), "limit": GAIN_RULE}, {"kind": kind, "limit": limit}
    )
    _, classes, cells = prepared(frame, quasi, sensitive)
    return share_verdict(classes, profile_of(classes, cells), kind, limit)


def share_verdict(classes: Classes, profile: Profile, kind: str, limit: float | None) -> Verdict:
    """The verdict on classes already found."""
    figures = share_figures(profile, kind)
    value = float(figures.max())
    above = figures > (np.inf if limit is None else limit + _SLACK)
    missing = classes.missing()
    if profile.cells.n_missing:
        missing[profile.cells.name] = profile.cells.n_missing
    # A ratio of shares has no logarithm where a class lacks a value: JSON knows no infinity.
    endless = np.isinf(value)
    lacking = (_ENDLESS[kind],) if endless else ()
    return Verdict(
        model=KINDS[kind],
        quasi=classes.names,
        sensitive=profile.cells.name,
        value=None if endless else value,
        limit=limit,
        holds=None if limit is None else not bool(above.any()),
        n_records=classes.n_records,
        n_classes=classes.n_classes,
        worst=() if endless else classes.worst(figures, lowest=False),
        records_at_risk=None if limit is None else int(classes.sizes[above].sum()),
        missing=missing,
        missing_records=classes.missing_records(),
        labels=classes.labels,
        classes_at_risk=None if limit is None else above,
        notes=(*lacking, *missing_note(profile)),
    )


def share_figures(profile: Profile, kind: str) -> np.ndarray:
    """The figure of each class."""
    totals = profile.totals
    return _figures(
        profile.codes,
        profile.starts,
        totals / max(1, totals.sum()),
        int((totals > 0).sum()),
        list(KINDS).index(kind),
    )


# Kernel: sorted codes per class in, one figure per class out.


@kernel()
def _figures(codes, starts, shares, values, kind):
    out = np.zeros(starts.shape[0] - 1)
    for g in range(out.shape[0]):
        low, high = starts[g], starts[g + 1]
        run, distinct = 1, 0
        for i in range(low + 1, high + 1):
            if i < high and codes[i] == codes[i - 1]:
                run += 1
                continue
            distinct += 1
            p, q = run / (high - low), shares[codes[i - 1]]
            if kind == 0:
                figure = p
            elif kind == 1:
                figure = max(0.0, (p - q) / q)
            elif kind == 3:
                figure = max(0.0, (p - q) / q)
                if figure > -np.log(q) + 1e-12:
                    figure = np.inf
            else:
                figure = abs(np.log(p / q))
            out[g] = max(out[g], figure)
            run = 1
        if kind == 2 and distinct < values:
            out[g] = np.inf
    return out
