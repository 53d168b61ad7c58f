"""What a release through marginals will measure and for whom: fixed by the schema and the request alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from shoal.dp import budget as micros
from shoal.dp.accounting import rho_of_epsilon
from shoal.dp.budget import rounded_up_text
from shoal.dp.correlation import Grid
from shoal.dp.correlation import Model as Cells
from shoal.dp.ledger.claims import DELTA, Caps
from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.meaning.check import has_codes, levels, plain_query
from shoal.dp.mechanisms.currency import ZCDP, Currency
from shoal.dp.sql.expressions import Predicate
from shoal.dp.sql.parse import parse
from shoal.dp.unit import Protected, ReplaceRecord, resolve
from shoal.errors import ParameterError, SchemaError
from shoal.release.marginals._axes import Bins, MarginalAxis, axes_of, quantiles_of
from shoal.release.marginals._choice import MOST_CELLS as MOST_OF_A_SET
from shoal.release.marginals._choice import lone_noise
from shoal.release.marginals._haar import MOST_CELLS, MOST_COLUMNS, MOST_VALUES, fits
from shoal.release.marginals._measure import MOST_SETS
from shoal.release.marginals._refine import leaves, meet
from shoal.release.marginals._residuals import Key, keys_of
from shoal.release.marginals._rules import edits_within
from shoal.release.marginals._spend import Purse
from shoal.rules import Edit, refuse_contradiction, refuse_texts, within_bounds
from shoal.schema import Schema, Unit

NEIGHBOURS = ("add-remove", "replace")
WORKLOADS = ("auto", "tables", "ranges")
MOST_NOISE = 100_000  # records: the mean noise on a cell of one marginal alone
MODES = ("dp", "group", "correlated")
CHOSEN = "chosen"
MOST_WAYS = 3
MOST_POSITIONS = 8_192  # of all columns: the fit holds a number for each two of them
Marginals = str | int | Sequence[Sequence[str]]


@dataclass(frozen=True)
class MarginalPlan:
    """What is released for whom: fixed by the schema and the request alone.

    Parameters
    ----------
    axes : tuple of MarginalAxis
    unit : Protected
    neighbours, workload, currency : str
    millionths : int
        What is charged.
    epsilon : float
    delta : float or None
    zeros : tuple of Predicate
        Combinations that no record can have.
    quantiles : tuple of (str, int)
        Columns whose bins are drawn by rank, and their number.
    sets : tuple of column positions, or None
        The marginals asked for; None where they are chosen for the data.
    edits : tuple of Edit
        Rules that drawn rows keep.
    """

    axes: tuple[MarginalAxis, ...]
    unit: Protected
    neighbours: str
    workload: str
    currency: str
    millionths: int
    epsilon: float
    delta: float | None
    zeros: tuple[Predicate, ...] = ()
    quantiles: tuple[tuple[str, int], ...] = ()
    sets: tuple[Key, ...] | None = None
    edits: tuple[Edit, ...] = ()

    @property
    def purse(self) -> Purse:
        """What may be spent."""
        amount = Fraction(self.millionths, micros.MICRO)
        return Purse(self.currency, amount, self.unit.rows, isinstance(self.unit, ReplaceRecord))

    def guarantee(self, caps: Caps) -> str:
        """What is promised, word for word."""
        if self.delta is None:
            return self.unit.guarantee
        whole = Currency(ZCDP, self.delta, caps.keys / DELTA).whole(caps.total)
        said = self.unit.guarantee.replace(
            "epsilon-DP", f"({rounded_up_text(self.epsilon)}, {self.delta:g})-DP", 1
        )
        return f"{said}; all answers about this data set together {whole}"


def make_plan(
    schema: Schema,
    epsilon: float,
    delta: float | None = None,
    columns: Sequence[str] | None = None,
    bins: Mapping[str, Bins] | Bins | None = None,
    mode: str = "dp",
    neighbours: str = "add-remove",
    workload: str = "auto",
    group: Unit | int | None = None,
    cells: Cells | None = None,
    tau: int | None = None,
    marginals: Marginals = CHOSEN,
) -> MarginalPlan:
    """Check the request against the schema; no data is looked at."""
    if mode not in MODES:
        raise ParameterError(f"'mode' must be one of {', '.join(MODES)}. Got {mode!r}.")
    if neighbours not in NEIGHBOURS:
        raise ParameterError(f"'neighbours' must be one of {', '.join(NEIGHBOURS)}. Got {neighbours!r}.")
    if workload not in WORKLOADS:
        raise ParameterError(f"'workload' must be one of {', '.join(WORKLOADS)}. Got {workload!r}.")
    if mode == "correlated" and cells is None and schema.cells is not None:
        cells, tau = Grid.of_schema(schema), schema.cells.tau if tau is None else tau
    unit = resolve(mode, schema, group, cells, tau)
    if neighbours == "replace" and unit.kind != "record":
        raise ParameterError(
            "'neighbours' may be 'replace' for single records only: a unit is added or removed."
        )
    if neighbours == "replace":
        unit = ReplaceRecord()
    delta = _delta(schema, delta)
    millionths = micros.micro(epsilon) if delta is None else rho_of_epsilon(epsilon, delta)
    spent = micros.epsilon(micros.micro(epsilon))
    axes, chosen = _axes(schema, columns, bins, workload if marginals == CHOSEN else _tables(workload))
    currency = "pure" if delta is None else "zcdp"
    zeros = zeros_of(schema, {each.name for each in axes})
    sets, ranks = _sets(marginals, axes), quantiles_of(axes, bins)
    edits = edits_within(schema, [each.name for each in axes])
    check_possible(axes, edits, zeros)
    plan = MarginalPlan(
        axes, unit, neighbours, chosen, currency, millionths, spent, delta, zeros, ranks, sets, edits
    )
    check_worth(plan, MOST_NOISE)
    return plan


def check_possible(axes: Sequence[MarginalAxis], edits: Sequence[Edit], zeros: Sequence[Predicate]) -> None:
    """Refuse rules that no row of the declared columns could keep, before anything is charged."""
    for each in axes:
        if has_codes(each.column):
            refuse_texts(
                edits, pl.DataFrame({each.name: [str(level) for level in levels(each.column) or ()]})
            )
    numbers = [each for each in axes if each.edges and each.column.kind == "number"]
    declared = [within_bounds(each.name, *finite_bounds(each.column)) for each in numbers]
    refuse_contradiction([*edits, *declared])
    for zero in zeros:
        if meet(zero, axes).surely.all():
            raise SchemaError(
                f"A rule calls every row impossible: every value of {_columns_of(zero)} meets it."
            )


def _columns_of(condition: Predicate) -> str:
    return ", ".join(dict.fromkeys(str(leaf.column) for leaf in leaves(condition)))


def check_worth(plan: MarginalPlan, most: int) -> None:
    """Refuse an epsilon that is too small for one marginal, by public numbers alone."""
    noise = lone_noise(plan.purse)
    if noise > most:
        raise ParameterError(
            f"'epsilon' is too small for one marginal: with all of it the noise on each cell is about {noise:,.0f} records, and at "
            f"most {most:,} are of use. Got {plan.epsilon:g}."
        )


def _tables(workload: str) -> str:
    if workload == "ranges":
        raise ParameterError("'marginals' are for the workload 'tables'. Got 'ranges'.")
    return "tables"


def _sets(marginals: Marginals, axes: Sequence[MarginalAxis]) -> tuple[Key, ...] | None:
    """The marginals asked for by number of columns or by name; None where they are chosen for the data."""
    names = [each.name for each in axes]
    if isinstance(marginals, str):
        if marginals == CHOSEN:
            return None
        raise ParameterError(
            f"'marginals' must be 'chosen', a number of columns, or lists of columns. Got {marginals!r}."
        )
    if isinstance(marginals, int):
        most = min(MOST_WAYS, len(axes))
        if isinstance(marginals, bool) or not 1 <= marginals <= most:
            raise ParameterError(
                f"'marginals' of all columns may join 1 to {most} of these {len(axes)} columns. Got {marginals!r}."
            )
        if math.comb(len(axes), marginals) > MOST_SETS:
            raise ParameterError(
                f"'marginals' of {marginals} of {len(axes)} columns are {math.comb(len(axes), marginals)} tables; at most "
                f"{MOST_SETS} are measured. Ask for fewer columns, or leave the choice to the release."
            )
        found = keys_of(len(axes), range(2, marginals + 1))
    else:
        found = [_named_set(each, names) for each in marginals]
    for key in found:
        if math.prod(axes[at].size for at in key) > MOST_OF_A_SET:
            told = ", ".join(names[at] for at in key)
            raise ParameterError(
                f"A marginal may have at most {MOST_OF_A_SET} cells. Got {math.prod(axes[at].size for at in key)} of "
                f"{told}: declare wider bins or fewer columns."
            )
    return tuple(dict.fromkeys(found))


def _named_set(given: Sequence[str], names: Sequence[str]) -> Key:
    for name in [given] if isinstance(given, str) else given:
        if name not in names:
            raise ParameterError(f"'marginals' must name released columns. Got {name!r}.")
    key = tuple(sorted({names.index(name) for name in given}))
    if not 2 <= len(key) <= MOST_WAYS:
        raise ParameterError(
            f"A marginal joins 2 to {MOST_WAYS} columns. Got {len(key)}: {', '.join(given)}."
        )
    return key


def zeros_of(schema: Schema, released: set[str]) -> tuple[Predicate, ...]:
    """Combinations of released columns that the schema's rules exclude."""
    found: list[Predicate] = []
    for rule in schema.rules:
        if rule.kind in ("structural_zero", "impossible"):
            text = f"SELECT COUNT(*) FROM t WHERE {rule.text}"  # noqa: S608 - parsed here, never run as SQL
            query = plain_query(parse(text, "t"), schema)
            if query.condition is not None and {each.column for each in leaves(query.condition)} <= released:
                found.append(query.condition)
    return tuple(found)


def _delta(schema: Schema, given: float | None) -> float | None:
    """The delta of a release in zCDP: the one given, else that of a schema which counts in zCDP."""
    declared = schema.delta if schema.currency == "zcdp" else None
    if schema.currency == "zcdp" and given is None and declared is None:
        raise ParameterError("'delta' must be given, or declared in the schema, to count in zCDP.")
    if None not in (given, schema.delta) and given != schema.delta:
        raise ParameterError(f"'delta' must be the schema's, {schema.delta!r}. Got {given!r}.")
    return declared if given is None else given


def _axes(
    schema: Schema, columns: Sequence[str] | None, bins: Mapping[str, Bins] | Bins | None, workload: str
) -> tuple[tuple[MarginalAxis, ...], str]:
    """The axes and the workload: ranges need a fine grid, and few columns with an order."""
    coarse = axes_of(schema, columns, bins)
    if workload == "tables" or len(coarse) > MOST_COLUMNS or quantiles_of(coarse, bins):
        fine: tuple[MarginalAxis, ...] = ()
    else:
        fine = axes_of(schema, columns, bins, MOST_VALUES)
    if fine and fits([each.size for each in fine]) and all(each.ordered for each in fine):
        return fine, "ranges"
    together = sum(each.size for each in coarse)
    if together > MOST_POSITIONS:
        raise ParameterError(
            f"The columns of a release may have at most {MOST_POSITIONS} levels and bins together. Got {together}: declare "
            "wider bins or release fewer columns."
        )
    if workload == "ranges":
        raise ParameterError(
            f"A release of ranges takes up to {MOST_COLUMNS} columns with an order, of at most {MOST_VALUES} values "
            f"each and {MOST_CELLS} cells together. Got {', '.join(each.name for each in coarse)}."
        )
    return coarse, "tables"
