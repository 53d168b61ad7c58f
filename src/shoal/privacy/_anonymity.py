"""k-anonymity: every record shares its quasi-identifiers with at least k - 1 others."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from shoal.params import AnyOf, Interval, Unset, check_params
from shoal.privacy._verdict import Verdict
from shoal.privacy.classes import Classes, find_classes

K_RULE = AnyOf((Unset(), Interval(Integral, 1)))


def k_anonymity(frame: Any, quasi: Sequence[str] | str, *, k: int | None = None) -> Verdict:
    """Check k-anonymity: the size of the smallest equivalence class.

    It speaks of record linkage by the named columns and of nothing else: not of the columns left out,
    and not of what the records of a class have in common.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
        The columns an intruder is taken to know.
    k : int, optional
        The demand. Without it `holds` is None.

    Returns
    -------
    Verdict
        `value` is the achieved k.

    Notes
    -----
    O(n) time and memory. A missing cell is a value of its own: records with it are counted, in classes
    with each other, never dropped.

    References
    ----------
    .. [1] L. Sweeney (2002). k-anonymity: a model for protecting privacy. International Journal of
       Uncertainty, Fuzziness and Knowledge-Based Systems 10(5), 557-570. doi:10.1142/S0218488502001648

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"age": [30, 30, 30, 40, 40], "zip": ["a", "a", "a", "b", "b"]})
    >>> verdict = privacy.k_anonymity(table, ["age", "zip"], k=3)
    >>> verdict.value, verdict.holds, verdict.records_at_risk
    (2, False, 2)
    >>> print(verdict)
    k-anonymity on age, zip: 2 in 2 classes where 3 was demanded, so the demand is not met; 2 of 5 records
    (40 %) at risk.
    """
    check_params("k_anonymity", {"k": K_RULE}, {"k": k})
    return anonymity_verdict(find_classes(frame, quasi), k)


def anonymity_verdict(classes: Classes, k: int | None) -> Verdict:
    """The verdict on classes already found."""
    value = int(classes.sizes.min())
    below = classes.sizes < (2 if k is None else k)
    return Verdict(
        model="k-anonymity",
        quasi=classes.names,
        sensitive=None,
        value=value,
        limit=k,
        holds=None if k is None else value >= k,
        n_records=classes.n_records,
        n_classes=classes.n_classes,
        worst=classes.worst(classes.sizes, lowest=True),
        records_at_risk=int(classes.sizes[below].sum()),
        missing=classes.missing(),
        missing_records=classes.missing_records(),
        labels=classes.labels,
        classes_at_risk=below,
    )
