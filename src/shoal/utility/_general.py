"""Utility in general, of mixed columns: can the tables be told apart, do pairs of columns and models still agree."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.frame import Frame
from shoal.engine.roles import settled_schema
from shoal.errors import InputError
from shoal.measures import coordinates, propensity
from shoal.schema import Column, Schema, decode_table
from shoal.typing import Json
from shoal.utility._models import guessed

BINS = 10
MOST_PAIRS = 300
MOST_ROWS = 20_000


@dataclass(frozen=True)
class General:
    """Utility in general. Computed from the original: for the custodian only.

    Attributes
    ----------
    propensity : float or None
        How well original and protected rows can be told apart: 0 not at all, 1 perfectly; None where the tables have
        different numbers of rows.
    total_variation : float
        Mean over all pairs of columns of half the sum of differences between their tables of shares.
    worst_pair : tuple of str
    mutual_information : float
        Mean over pairs of the change of their mutual information, as a share of the smaller entropy of the two.
    target : str or None
        The column of train-here-test-there.
    trained_here, trained_there, naive : float or None
        Share of right guesses about a third of the originals by a model trained on the others, by one trained on the
        protected rows (those of the others where both tables have as many rows), and by the most frequent value; a
        number counts as its tenth of the table.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.utility import general
    >>> table = pl.DataFrame({"age": list(range(20, 60)), "town": list("ABCD") * 10})
    >>> found = general(table, table.with_columns(town=pl.lit("A")))
    >>> found.total_variation > 0.5, found.worst_pair
    (True, ('town',))
    """

    propensity: float | None
    total_variation: float
    worst_pair: tuple[str, ...]
    mutual_information: float
    target: str | None = None
    trained_here: float | None = None
    trained_there: float | None = None
    naive: float | None = None

    def to_dict(self) -> Json:
        """As plain values."""
        return asdict(self) | {"worst_pair": list(self.worst_pair)}


def general(
    original: Any,
    protected: Any,
    *,
    schema: Schema | None = None,
    target: str | None = None,
    random_state: int = 0,
) -> General:
    """Measure what is left of a table for uses that nobody has listed.

    Parameters
    ----------
    original, protected : frames
    schema : Schema, optional
        Kinds of the columns; guessed where left open.
    target : str, optional
        The column that models are trained to guess; the first sensitive one if left open, else none.
    random_state : int, default 0

    Returns
    -------
    General

    References
    ----------
    .. [1] J. Snoke, G. M. Raab, B. Nowok, C. Dibben, A. Slavkovic (2018). General and specific utility measures for
       synthetic data. Journal of the Royal Statistical Society A 181(3), 663-688. doi:10.1111/rssa.12358

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.utility import general
    >>> table = pl.DataFrame({"age": list(range(20, 60)), "town": list("ABCD") * 10})
    >>> found = general(table, table)
    >>> found.total_variation, found.mutual_information
    (0.0, 0.0)
    """
    before, after = (decode_table(Frame(each).to_polars(), schema) for each in (original, protected))
    names = [name for name in before.columns if name in after.columns]
    if not names:
        raise InputError("The two tables must share a column. They share none.")
    known = None if schema is None else _present(schema, before.columns)
    settled = settled_schema(before, known, {})[0]
    facts = [
        settled.columns[name]
        for name in names
        if settled.columns[name].role not in ("identifier", "household")
    ]
    alike = before.height == after.height
    rows = np.unique(
        np.linspace(0, before.height - 1, min(MOST_ROWS, before.height)).astype(np.int64)
    ).tolist()
    told = propensity(*coordinates(before[rows], after[rows], facts)) if alike and len(rows) > 1 else None
    first, second = ([_codes(before, after, fact)[side] for fact in facts] for side in (0, 1))
    variation, worst, information = _pairs(first, second, [fact.name for fact in facts])
    named = target or next((name for name in settled.names("sensitive") if name in names), None)
    right = (None, None, None) if named is None else _trained(before, after, facts, named, random_state)
    return General(told, variation, worst, information, named, *right)


def _present(schema: Schema, columns: list[str]) -> Schema:
    from dataclasses import replace

    return replace(schema, columns={name: fact for name, fact in schema.columns.items() if name in columns})


def _codes(before: pl.DataFrame, after: pl.DataFrame, fact: Column) -> tuple[np.ndarray, np.ndarray]:
    """Cells of both tables as codes: bins that hold equally many original numbers, or levels; missing is one more."""
    old, new = before[fact.name], after[fact.name]
    if (
        old.dtype.is_numeric()
        and (new.dtype.is_numeric() or new.dtype == pl.Null)
        and fact.kind != "category"
    ):
        x, y = (each.cast(pl.Float64).fill_null(np.nan).to_numpy() for each in (old, new))
        values = np.unique(x[~np.isnan(x)])
        edges = (
            values[:-1] if values.size <= BINS else np.unique(np.nanquantile(x, np.arange(1, BINS) / BINS))
        )
        return tuple(  # type: ignore[return-value]
            np.where(np.isnan(each), edges.size + 1, np.searchsorted(edges, each, "left")).astype(np.int64)
            for each in (x, y)
        )
    texts = [
        (each.cast(pl.Float64) if each.dtype.is_numeric() else each).cast(pl.String).fill_null("\0")
        for each in (old, new)
    ]
    levels = pl.concat(texts).unique().sort()
    places = pl.Series(np.arange(levels.len()))
    return tuple(each.replace_strict(levels, places, return_dtype=pl.Int64).to_numpy() for each in texts)  # type: ignore[return-value]


def _pairs(
    first: list[np.ndarray], second: list[np.ndarray], names: list[str]
) -> tuple[float, tuple[str, ...], float]:
    """Mean total variation, the worst pair, and the mean change of mutual information."""
    pairs = list(itertools.combinations(range(len(names)), 2))
    if not pairs:
        only = _shares(first[0], second[0], 1, None, None)
        return float(np.abs(only[0] - only[1]).sum() / 2), (names[0],), 0.0
    if len(pairs) > MOST_PAIRS:
        pairs = [pairs[at] for at in np.linspace(0, len(pairs) - 1, MOST_PAIRS).astype(int)]
    variations, informations = [], []
    for a, b in pairs:
        width = int(max(first[b].max(), second[b].max())) + 1
        old, new = _shares(first[a], second[a], width, first[b], second[b])
        variations.append(float(np.abs(old - new).sum() / 2))
        informations.append(abs(_information(old) - _information(new)))
    at = int(np.argmax(variations))
    return (
        float(np.mean(variations)),
        (names[pairs[at][0]], names[pairs[at][1]]),
        float(np.mean(informations)),
    )


def _shares(
    a: np.ndarray, c: np.ndarray, width: int, b: np.ndarray | None, d: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    height = int(max(a.max(), c.max())) + 1
    tables = []
    for rows, columns in ((a, b), (c, d)):
        cells = rows if columns is None else rows * width + columns
        tables.append(np.bincount(cells, minlength=height * width).reshape(height, width) / rows.size)
    return tables[0], tables[1]


def _information(shares: np.ndarray) -> float:
    """Mutual information of a table of shares over the smaller of its two entropies."""
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    h = [float(-(each[each > 0] * np.log(each[each > 0])).sum()) for each in (rows, columns, shares.ravel())]
    least = min(h[0], h[1])
    return max(0.0, h[0] + h[1] - h[2]) / least if least > 1e-12 else 0.0


def _trained(
    before: pl.DataFrame, after: pl.DataFrame, facts: list[Column], target: str, random_state: int
) -> tuple[float, float, float]:
    """Right guesses about a third of the originals: trained on the others, on the protected rows, and by none."""
    if target not in {fact.name for fact in facts}:
        raise InputError(f"The target must be a column of both tables. Got {target!r}.")
    coded = {fact.name: _codes(before, after, fact) for fact in facts}
    rest = [fact.name for fact in facts if fact.name != target]
    if not rest:
        raise InputError("A target needs another column to be guessed from. There is none.")
    old = np.stack([coded[name][0] for name in rest], axis=1).astype(np.float64)
    new = np.stack([coded[name][1] for name in rest], axis=1).astype(np.float64)
    order = np.random.default_rng(random_state).permutation(before.height)
    test, train = order[: before.height // 3], order[before.height // 3 :]
    truth, there = coded[target][0].astype(np.float64), coded[target][1].astype(np.float64)
    here = guessed(old[train], truth[train], [old[test]], numeric=False)[0]
    # Published rows of the people asked about would tell of them, not of what the table is good for.
    seen = train if before.height == after.height else np.arange(after.height)
    other = guessed(new[seen], there[seen], [old[test]], numeric=False)[0]
    naive = float(np.bincount(truth[train].astype(np.int64)).argmax())
    return tuple(
        float((each == truth[test]).mean()) if test.size else 0.0
        for each in (here, other, np.full(test.size, naive))
    )  # type: ignore[return-value]
