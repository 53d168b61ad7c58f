"""Regressions and logits given as formulas, by statsmodels (extra `stat`)."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from shoal.errors import InputError, MissingExtraError
from shoal.schema import Indicator
from shoal.utility._estimates import Estimate

_NAME = re.compile(r"`([^`]+)`|([^\W\d]\w*)(\s*\()?")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORDS = {"C", "I", "Q", "np", "log", "log1p", "exp", "sqrt", "scale", "center", "poly", "bs"}


def columns_of(formula: str) -> list[str]:
    """The columns that a formula names; raises a sentence if it is not a formula.

    Examples
    --------
    >>> from shoal.utility import columns_of
    >>> columns_of("income ~ age + C(region) + np.log(rent)")
    ['income', 'age', 'region', 'rent']
    """
    sides = formula.split("~")
    if len(sides) != 2 or not all(side.strip() for side in sides) or formula.count("(") != formula.count(")"):
        raise InputError(f"A formula must be like 'income ~ age + C(region)'. Got {formula!r}.")
    found: list[str] = []
    for quoted, plain, called in _NAME.findall(_TEXT.sub("''", formula)):
        name = quoted or plain
        if not called and name not in _WORDS and name not in found:
            found.append(name)
    return found


def whole(cells: pl.Series) -> pl.Series:
    """Numbers without decimals as whole numbers: a code stays the same level where missing cells made it 2.0.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.utility._formulas import whole
    >>> whole(pl.Series([1.0, None, 2.0])).to_list(), whole(pl.Series([1.5, 2.0])).to_list()
    ([1, None, 2], [1.5, 2.0])
    """
    if not cells.dtype.is_float():
        return cells
    known = cells.drop_nulls()
    fits = bool((known.is_finite() & (known == known.round()) & (known.abs() < 2**53)).all())
    return cells.cast(pl.Int64) if fits else cells


def check_formula(indicator: Indicator, table: pl.DataFrame) -> None:
    """Raise a sentence, before anything is done, if a formula does not work on these rows.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.schema import Indicator
    >>> from shoal.utility import check_formula
    >>> check_formula(Indicator("regression", formula="x ~ log(y)"), pl.DataFrame({"x": [1.0], "y": [2.0]}))
    Traceback (most recent call last):
    ...
    shoal.errors.InputError: The formula 'x ~ log(y)' cannot be computed: name 'log' is not defined.
    """
    try:
        import patsy
        import statsmodels  # noqa: F401 - only whether it is there
    except ImportError:
        raise MissingExtraError("statsmodels", "stat") from None
    formula, frame, _ = _laid_out(indicator, table, np.ones(table.height))
    if len(frame):
        with _in_words(indicator):
            patsy.dmatrices(formula, frame)


def coefficients(indicator: Indicator, table: pl.DataFrame, w: np.ndarray) -> dict[str, Estimate]:
    """The coefficients of a model on the records of a domain, with intervals that allow for unequal variances."""
    try:
        import statsmodels.api as sm
        import statsmodels.formula.api as smf
    except ImportError:
        raise MissingExtraError("statsmodels", "stat") from None
    formula, frame, weight = _laid_out(indicator, table, w)
    if len(frame) == 0:
        return {}
    weight = weight / weight.mean()
    with warnings.catch_warnings(), _in_words(indicator):
        warnings.simplefilter("ignore")  # separation and singular designs show in the intervals
        model: Any
        if indicator.kind == "logit":
            model = smf.glm(formula, frame, family=sm.families.Binomial(), freq_weights=weight)
        else:
            model = smf.wls(formula, frame, weights=weight)
        fitted = model.fit(cov_type="HC1") if indicator.kind == "regression" else model.fit(cov_type="HC0")
    return {
        str(name): Estimate.within(float(value), float(deviation))
        for name, value, deviation in zip(fitted.params.index, fitted.params, fitted.bse, strict=True)
    }


def _laid_out(indicator: Indicator, table: pl.DataFrame, w: np.ndarray) -> tuple[str, Any, np.ndarray]:
    """The formula as it is computed, the complete rows of its columns, and their weights."""
    import pandas as pd

    assert indicator.formula is not None
    names = columns_of(indicator.formula)
    known = table.select(
        pl.col(name).fill_nan(None) if table[name].dtype.is_float() else name for name in names
    )
    kept = ~known.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy() & (w > 0)
    known = known.filter(pl.Series(kept))
    formula = indicator.formula if indicator.kind == "regression" else _zero_or_one(indicator.formula, table)
    return formula, pd.DataFrame({name: whole(known[name]).to_list() for name in names}), w[kept]


@contextlib.contextmanager
def _in_words(indicator: Indicator) -> Iterator[None]:
    """Each of the libraries behind a formula has errors of its own: all are one sentence here."""
    try:
        yield
    except Exception as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        why = why.removeprefix("Error evaluating factor: NameError: ")
        raise InputError(f"The formula {indicator.formula!r} cannot be computed: {why}.") from None


def _zero_or_one(formula: str, table: pl.DataFrame) -> str:
    """A logit's formula with a left side of 0 and 1: a condition alone would be counted by its failures."""
    left, _, right = formula.partition("~")
    name = left.strip().strip("`")
    if name in table.columns and table[name].dtype == pl.String:
        raise InputError(
            f"The left side of a logit must be 0 or 1, or a condition such as I({name} == 'yes'). Got {formula!r}."
        )
    return f"I(1 * ({left.strip()})) ~ {right}"
