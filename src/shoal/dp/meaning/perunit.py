"""Aggregates of each unit below the noise: a sum per person, then a mean over persons.

They are exact whole numbers of a grid, added up within a unit, so that one unit's figures depend on no other's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import polars as pl

from shoal.dp.meaning.kinds import Day, Number, Truth, Typed, gcd, stepped, wanted
from shoal.dp.meaning.relation import (
    KEY,
    UNIT,
    Catalog,
    Frames,
    Known,
    Relation,
    check_names,
    known_as,
    stored,
)
from shoal.dp.meaning.rowwise import compiled, condition, truth_number
from shoal.dp.sql.aliases import check_shadowed
from shoal.dp.sql.expressions import Expr, FigureOf, as_predicate, col, subject
from shoal.dp.sql.query import Aggregate
from shoal.dp.sql.statement import SubSelect
from shoal.dp.sql.tree import mapped
from shoal.errors import QueryError

_BITS = 40  # of a row's whole number: 2^22 rows of a unit add up within int64
_KINDS = ("count", "sum", "avg", "min", "max", "distinct")


def per_unit(source: SubSelect, inner: Relation, catalog: Catalog, alias: str) -> Relation:
    """One row for each unit, or for each group of rows within a unit.

    Parameters
    ----------
    source : SubSelect
    inner : Relation
        Its rows.
    catalog : Catalog
    alias : str

    Returns
    -------
    Relation
    """
    groups = list(source.groups) or (
        [each.value for each in source.items if each.value is not None] if source.distinct else []
    )
    check_shadowed(source.by_name, {each.name for each in inner.columns})
    known = [inner.find(each) if isinstance(each, col) else None for each in groups]
    if inner.private and not any(each is not None and each.origin for each in known):
        raise QueryError(
            "A sub-query that aggregates must group by the unit, or by the key of a declared link: its figures would mix people. "
            "Add it to GROUP BY, or ask the inner query by itself."
        )
    keys: dict[str, pl.Expr] = {}
    names: dict[str, Typed] = {}
    origins: dict[str, Known] = {}
    for at, (group, each) in enumerate(zip(groups, known, strict=True)):
        found = compiled(group, inner.scope)
        keys[f"shoal:group{at}"] = stored(found)
        if each is not None and each.key:
            keys[f"shoal:group{at}{KEY}"] = pl.col(each.key)
            origins[str(group)] = each
        names[str(group)] = replace(
            found,
            value=pl.col(f"shoal:group{at}").cast(pl.Boolean)
            if isinstance(found.kind, Truth)
            else pl.col(f"shoal:group{at}"),
        )
    work = _Figures(inner, catalog.rows)
    items = [(work.lowered(each.value), each) for each in source.items if each.value is not None]
    if len(items) < len(source.items):
        raise QueryError("SELECT * does not go with GROUP BY: list the columns.")
    having = None if source.having is None else work.lowered(source.having)

    def scope(node: col) -> Typed:
        if node.table == "shoal:figure":
            return work.found[node.name]
        for group, typed in names.items():
            if group == str(node) or (not node.quoted and group.lower() == str(node).lower()):
                return typed
        raise QueryError(
            f"Column {node.name!r} of the sub-query stands beside figures, so it must be in its GROUP BY."
        )

    columns, made = [], []
    for node, item in items:
        typed = names.get(str(item.value)) or compiled(node, scope)
        name = item.alias or (
            item.value.name if isinstance(item.value, col) else str(item.value).replace('"', "")
        )
        one = known_as(typed, alias, name)
        place = f"{alias}.{name}"
        origin = origins.get(str(item.value))
        if origin is not None:
            at = [str(each) for each in groups].index(str(item.value))
            made.append(pl.col(f"shoal:group{at}{KEY}").alias(f"{place}{KEY}"))
            one = replace(one, key=f"{place}{KEY}", origin=origin.origin)
        columns.append(one)
        made.append(stored(typed).alias(place))
    check_names([each.name for each in columns])
    test = None if having is None else condition(as_predicate(having), scope)

    def make(frames: Frames) -> pl.LazyFrame:
        rows = inner.make(frames).with_columns(
            each.alias(name) for name, each in (keys | work.inputs).items()
        )
        by = [UNIT, *keys] if inner.private else list(keys)
        found = rows.group_by(by).agg(each.alias(name) for name, each in work.sums.items())
        found = found.with_columns(each.alias(name) for name, each in work.finals.items())
        kept = found if test is None else found.filter(test)
        return kept.select(*([UNIT] if inner.private else []), *made)

    alone = inner.private and len(groups) == 1 and known[0] is not None and known[0].origin == "unit"
    return Relation(tuple(columns), make, inner.private, 1 if alone else inner.rows, inner.said)


class _Figures:
    """The figures of a sub-query: what is added up within a unit, and what is made of it."""

    def __init__(self, inner: Relation, rows: int) -> None:
        self.inner, self.rows = inner, rows
        self.inputs: dict[str, pl.Expr] = {}
        self.sums: dict[str, pl.Expr] = {}
        self.finals: dict[str, pl.Expr] = {}
        self.found: dict[str, Typed] = {}

    def lowered(self, node: Expr) -> Expr:
        """An expression with its figures as columns."""

        def change(each: Expr) -> Expr | None:
            return col(self._figure(each.aggregate), "shoal:figure") if isinstance(each, FigureOf) else None

        found: Expr = mapped(node, change)
        return found

    def _figure(self, one: Aggregate) -> str:
        name = str(one)
        if name in self.found:
            return name
        if one.kind not in _KINDS:
            raise QueryError(
                f"A sub-query per unit may ask for COUNT, SUM, AVG, MIN, MAX and COUNT(DISTINCT x). Got {name}."
            )
        counted = stepped(0.0, float(self.rows), Fraction(0), Fraction(1))
        if one.column is None:
            self._keep(name, pl.len().cast(pl.Float64), counted)
            return name
        typed = compiled(subject(one.column), self.inner.scope)
        if isinstance(typed.kind, Truth) and one.kind in ("sum", "avg"):
            typed = truth_number(typed, typed.text)
        self.inputs[f"{name} (x)"] = typed.value
        x = pl.col(f"{name} (x)")
        if one.kind == "count":
            self._keep(name, x.count().cast(pl.Float64), counted)
        elif one.kind == "distinct":
            self._keep(name, x.drop_nulls().n_unique().cast(pl.Float64), counted)
        elif one.kind in ("min", "max"):
            if not isinstance(typed.kind, (Number, Day)):
                raise QueryError(
                    f"{one.kind.upper()} in a sub-query needs a number or a date. Got {typed.text}."
                )
            self._keep(name, x.min() if one.kind == "min" else x.max(), typed.kind)
        else:
            self._sum(name, one.kind, x, wanted(typed, Number, one.kind.upper()))
        return name

    def _sum(self, name: str, kind: str, x: pl.Expr, known: Number) -> None:
        """Sums of whole numbers: of the declared step, or of a power of two far below the bounds."""
        if not known.bounded:
            raise QueryError(
                f"{name[:80]} in a sub-query needs declared bounds: declare them, or write CLAMP(x, low, high)."
            )
        size = max(abs(known.low), abs(known.high), 1e-300)
        quantum = Fraction(2) ** (math.frexp(size)[1] - _BITS)
        if known.base is not None and known.step:
            unit = math.lcm(known.base.denominator, known.step.denominator)
            if size * unit < 2**_BITS:
                quantum = Fraction(1, unit)
        low, high = known.low, known.high
        whole = (x.clip(low, high) / float(quantum)).round().cast(pl.Int64, strict=False)
        self.sums[f"{name} (sum)"] = whole.sum()
        self.sums[f"{name} (n)"] = x.count()
        total = pl.col(f"{name} (sum)").cast(pl.Float64) * float(quantum)
        some = pl.col(f"{name} (n)") > 0  # a sum of nothing is NULL
        if kind == "avg":
            self.finals[name] = pl.when(some).then(total / pl.col(f"{name} (n)"))
            kept = Number(low, high)
        else:
            self.finals[name] = pl.when(some).then(total)
            base = None if known.base is None or not known.step else Fraction(0)
            step = None if base is None or known.base is None or known.step is None else _step(known)
            kept = stepped(
                min(low, 0.0) * self.rows if low < 0 else low,
                max(high, 0.0) * self.rows if high > 0 else high,
                base,
                step,
            )
        self.found[name] = Typed(kept, pl.col(name), name)

    def _keep(self, name: str, value: pl.Expr, kind: Any) -> None:
        self.sums[name] = value
        self.found[name] = Typed(kind, pl.col(name), name)


def _step(known: Number) -> Fraction:
    assert known.base is not None  # the caller has seen to it
    assert known.step is not None
    return gcd(known.base, known.step)
