"""A table release: plan, charge, group, noise, settle, print."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.dp import budget as micros
from shoal.dp.ledger.claims import Amount, Caps, Claim
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.loading.sources import whole_table
from shoal.dp.unit import ENDED, NO_GUARANTEE, ReplaceRecord
from shoal.errors import ParameterError, SchemaError
from shoal.params import AnyOf, Constraint, Interval, Options, Unset, check_params
from shoal.release._columns import Coded, coded_table
from shoal.release._copula import copula_ranks, noisy_concordances
from shoal.release._groups import best_size, noisy_groups, printed, total_order
from shoal.release._utility import owner_figures
from shoal.schema import Schema

METHODS = ("insensitive", "individual-ranking")
ORDERS = ("curve", "corner")
ASSOCIATIONS = ("none", "copula", "as-printed")
TABLE_GUARANTEE = ReplaceRecord().guarantee
_MISSING = "A missing cell counts as the middle of the declared range, or as the first level of its category."
_OWNER = "Information loss and linkage are computed from the private table: for the owner only."


class SmallGroupsWarning(UserWarning):
    """Groups so small that plain noise on every record would disturb the table less."""


@dataclass(frozen=True)
class TableRelease:
    """A table that may be given out, and what is known about it.

    Parameters
    ----------
    frame : polars.DataFrame
        As many rows as the original, tied to no record of it (association `as-printed` excepted).
    guarantee : str
        What is promised, word for word.
    epsilon : float or None
        What was charged; None where nothing is promised.
    remaining : float or None
        What the budget still allows.
    notes : tuple of str
        For whoever reads the guarantee.
    figures : dict
        Of the owner: information_loss (per cent), dld (share); computed from the private table.
    plan : TablePlan
        How it was made.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.release import release_table
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110), step=1)}, id="survey", budget=1.0)
    >>> out = release_table(pl.DataFrame({"age": [30, 31, 60, 61]}), schema, 4, 0.5)
    >>> out.guarantee
    'guarantee: epsilon-DP, replace one record, number of records public'
    >>> out.frame.height, sorted(out.figures)
    (4, ['dld', 'information_loss'])
    """

    frame: pl.DataFrame
    guarantee: str
    epsilon: float | None
    remaining: float | None
    notes: tuple[str, ...]
    figures: dict[str, float | None]
    plan: TablePlan = field(repr=False)


@dataclass(frozen=True)
class TablePlan:
    """What is released with how much budget: fixed by the schema, n, k and epsilon alone."""

    method: str
    association: str
    k: int
    n: int
    codes: tuple[Coded, ...]
    micros: tuple[int, ...]
    pair_micros: tuple[int, ...]
    order: str = "curve"

    @property
    def ranked(self) -> bool:
        """Whether each column is sorted by itself."""
        return self.method == "individual-ranking"

    @property
    def micro(self) -> int:
        """Everything it costs."""
        return sum(self.micros) + sum(self.pair_micros)


def release_table(
    frame: Any,
    schema: Schema | str | Path,
    k: int | None,
    epsilon: float,
    *,
    method: str = "insensitive",
    association: str = "none",
    order: str = "curve",
    columns: Sequence[str] | None = None,
    shares: Mapping[str, int] | None = None,
    budget: float | None = None,
    analyst: str = "me",
    ledger: Ledger | str | Path | None = None,
    data_version: str | None = None,
) -> TableRelease:
    """Release a whole table under differential privacy, by microaggregation and noise once per centroid.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table, path or address
        A table, or where it is, as `shoal.dp.Session` takes it: a file, a folder of Parquet files, a database, a
        Spark table.
    schema : Schema or path
        Declares the bounds or levels of every released column.
    k : int or None
        Records per group, at least 2. None: chosen from the public number of records and columns and from epsilon.
    epsilon : float
    method : {"insensitive", "individual-ranking"}
        Groups of whole records in a public total order, or of each column by itself.
    association : {"none", "copula", "as-printed"}
        Of individual ranking: columns shuffled apart; joined by a Gaussian copula from bought Kendall
        coefficients (half the budget); or joined as the paper prints it, which promises nothing.
    order : {"curve", "corner"}
        Of insensitive groups: along a Hilbert curve through the declared ranges; or by the distance to the corner of
        declared minima, as in [1].
    columns : sequence of str, optional
        Those to release; all quasi-identifying and sensitive ones if left open.
    shares : mapping of str to int, optional
        Whole weights by which the columns share the budget; equal if left open.
    budget : float, optional
        Total epsilon of the data set; the schema's if left open.
    analyst : str, default "me"
        Who is charged.
    ledger : Ledger, path or database URL, optional
        In memory if left open.
    data_version : str, optional
        The owner's word for this state of the table; the schema's if left open, else drawn at random.

    Returns
    -------
    TableRelease

    Notes
    -----
    Reading taken: the number of records is public and neighbours differ by the replacement of one record. The
    total order is a public line through the declared ranges, then all attributes. One replaced record changes
    each of the floor(n/k) groups by at most one record, so that the sums of an attribute move by at most
    floor(n/k) * range in L1; a column sorted by itself moves by at most its range. Noise is drawn once per
    centroid, rows come in group order, and ranges are the declared ones. Nominal columns get one level per
    group by the exponential mechanism on the counts; rank groups of a nominal column hold levels in their declared
    order. Proofs: docs/theory/releases.md.

    References
    ----------
    .. [1] J. Soria-Comas, J. Domingo-Ferrer, D. Sanchez, S. Martinez (2014). Enhancing data utility in
       differential privacy via microaggregation-based k-anonymity. VLDB Journal 23(5), 771-794.
    .. [2] D. Sanchez, J. Domingo-Ferrer, S. Martinez, J. Soria-Comas (2016). Utility-preserving differentially
       private data releases via individual ranking microaggregation. Information Fusion 30, 1-14.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.release import release_table
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110), step=1)}, id="survey", budget=1.0)
    >>> out = release_table(pl.DataFrame({"age": [30, 31, 60, 61]}), schema, 4, 0.5)
    >>> out.frame.height, out.epsilon, out.remaining
    (4, 0.5, 0.5)
    """
    schema = Schema.of(schema)
    frame = whole_table(frame, schema)
    _check(schema, k, method, association, order)
    codes, table, _ = coded_table(frame, schema, columns)
    plan = make_plan(codes, len(table), k, epsilon, method, association, shares, order)
    who = _named(analyst)
    caps = _caps(schema, budget)
    kept = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        if association == "as-printed":
            kept.end_total(schema.id, "release as printed", who)
            drawn, spent, left, guarantee = draw(plan, table), None, None, NO_GUARANTEE + ENDED
        else:
            _, limit = kept.declare(schema.id, *caps)
            claim = _claim(schema, plan, data_version, who, limit)
            receipt = kept.once(claim, lambda: draw(plan, table).to_json())
            drawn = DrawnTable(**json.loads(receipt.body))
            spent, left = micros.epsilon(receipt.charged), micros.epsilon(receipt.remaining)
            guarantee = TABLE_GUARANTEE + (ENDED if receipt.ended else "")
    finally:
        if kept is not ledger:
            kept.close()
    numbers = numbers_of(plan, drawn, table)
    out = pl.DataFrame([each.cells(column) for each, column in zip(codes, numbers.T, strict=True)])
    return TableRelease(out, guarantee, spent, left, _notes(plan), owner_figures(plan, table, numbers), plan)


def make_plan(
    codes: Sequence[Coded],
    n: int,
    k: int | None,
    epsilon: float,
    method: str,
    association: str = "none",
    shares: Mapping[str, int] | None = None,
    order: str = "curve",
) -> TablePlan:
    """Split the budget and choose k where it is left open; warn where k is not well above the square root of n."""
    if n < (2 if k is None else k):
        raise ParameterError(f"'k' must be at most the number of records, {n}. Got {2 if k is None else k}.")
    micro = micros.micro(epsilon)
    weights = _weights(codes, shares)
    pair_micros: tuple[int, ...] = ()
    if association == "copula" and len(codes) > 1:
        pairs = len(list(combinations(codes, 2)))
        micro, for_pairs = micros.split(micro, (1, 1))
        pair_micros = micros.split(for_pairs, (1,) * pairs)
    if k is None:
        each = micros.epsilon(micro) / len(codes)
        k = best_size(n, len(codes), each, ranked=method == "individual-ranking")
    plan = TablePlan(
        method, association, k, n, tuple(codes), micros.split(micro, weights), pair_micros, order
    )
    if method == "insensitive" and k * k < 4 * n:
        warnings.warn(
            f"k = {k} is not well above the square root of n = {n}: the noise per value is {n // k / k:.3g} times "
            "that of plain noise on every record.",
            SmallGroupsWarning,
            stacklevel=3,
        )
    return plan


@dataclass(frozen=True)
class DrawnTable:
    """All that is drawn from the private table.

    Parameters
    ----------
    groups : list of list of int
        For each column, one noisy number per group: a sum, or the level that is printed.
    pairs : list of int
        The noisy concordance of each pair of columns, where a copula needs it.
    seed : int
        Of the post-processing.
    """

    groups: list[list[int]]
    pairs: list[int]
    seed: int

    def to_json(self) -> str:
        """As the ledger keeps it."""
        return json.dumps(vars(self))


def draw(plan: TablePlan, table: np.ndarray) -> DrawnTable:
    """Draw what a plan asks for. The private table is looked at here."""
    order = None if plan.ranked else total_order(table, list(plan.codes), plan.order)
    noisy = []
    for position, (each, micro) in enumerate(zip(plan.codes, plan.micros, strict=True)):
        values = np.sort(table[:, position]) if order is None else table[order, position]
        noisy.append(noisy_groups(values, each, plan.k, micro, ranked=plan.ranked).tolist())
    pairs = noisy_concordances(table, plan.pair_micros).tolist() if plan.pair_micros else []
    return DrawnTable(noisy, pairs, secrets.randbits(128))


def numbers_of(plan: TablePlan, drawn: DrawnTable, table: np.ndarray) -> np.ndarray:
    """The printed numbers, records in rows; only `as-printed` looks at the private table again."""
    sorted_columns = [
        printed(np.array(noisy, dtype=np.int64), each, plan.n, plan.k, ranked=plan.ranked)
        for noisy, each in zip(drawn.groups, plan.codes, strict=True)
    ]
    if not plan.ranked:
        return np.column_stack(sorted_columns)
    if plan.association == "as-printed":
        ranks = np.argsort(np.argsort(table, axis=0, kind="stable"), axis=0, kind="stable")
    elif plan.association == "copula" and len(plan.codes) > 1:
        ranks = copula_ranks(np.array(drawn.pairs), plan.n, len(plan.codes), drawn.seed)
    else:
        rng = np.random.default_rng(drawn.seed)  # touches no data
        ranks = np.column_stack([rng.permutation(plan.n) for _ in plan.codes])
    return np.column_stack([column[ranks[:, at]] for at, column in enumerate(sorted_columns)])


def _check(schema: Schema, k: int | None, method: str, association: str, order: str) -> None:
    rules: dict[str, Constraint] = {
        "k": AnyOf((Unset(), Interval(Integral, 2))),
        "method": Options(METHODS),
        "association": Options(ASSOCIATIONS),
        "order": Options(ORDERS),
    }
    values = {"k": k, "method": method, "association": association, "order": order}
    check_params("release", rules, values)
    if method == "insensitive" and association != "none":
        raise ParameterError(
            f"Only method 'individual-ranking' has an association to choose. Got {association!r} with 'insensitive'."
        )
    if schema.unit.column is not None:
        raise SchemaError(
            f"A release protects one record; the schema's unit is {schema.unit.column!r}, which it would not cover."
        )


def _weights(codes: Sequence[Coded], shares: Mapping[str, int] | None) -> tuple[int, ...]:
    if shares is None:
        return (1,) * len(codes)
    names = [each.name for each in codes]
    for name, share in shares.items():
        if name not in names or isinstance(share, bool) or not isinstance(share, int) or share < 1:
            raise ParameterError(
                f"'shares' must give released columns whole weights of at least 1. Got {name!r}: {share!r}."
            )
    return tuple(shares.get(name, 1) for name in names)


def _caps(schema: Schema, total: float | None) -> tuple[int | None, int | None]:
    total = schema.budget if total is None else total
    own = schema.per_analyst
    return (
        None if total is None else micros.micro(total, "budget"),
        None if own is None else micros.micro(own, "per_analyst"),
    )


def _claim(schema: Schema, plan: TablePlan, data: str | None, analyst: str, limit: Caps | None) -> Claim:
    text = (
        f"RELEASE {plan.method} association={plan.association} order={plan.order} k={plan.k} "
        f"columns={','.join(each.name for each in plan.codes)} micros={plan.micros}{plan.pair_micros}"
    )
    facts = replace(schema, budget=None, per_analyst=None).to_toml()
    version = data or schema.version or secrets.token_hex(16)
    state = json.dumps([facts, version, plan.n])
    return Claim(schema.id, analyst, text, state, Amount(plan.micro), ReplaceRecord(), limit)


def _notes(plan: TablePlan) -> tuple[str, ...]:
    notes = [_MISSING, _OWNER]
    if plan.association == "as-printed":
        notes.insert(
            0, "Joined rows publish the joint table of the rank groups without noise: no finite epsilon."
        )
    elif plan.association == "copula":
        notes.append("Rows are drawn from a copula, so no row belongs to a record.")
    elif plan.ranked:
        notes.append("Columns are shuffled apart: each holds as a list, and rows mean nothing.")
    return tuple(notes)


def _named(analyst: str) -> str:
    if not isinstance(analyst, str) or not analyst.strip() or len(analyst) > 200:
        raise ParameterError(f"'analyst' must be a non-empty text. Got {analyst!r}.")
    return analyst
