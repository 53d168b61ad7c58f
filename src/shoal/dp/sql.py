"""SQL text to `Query`: an allow-list, so that whatever is not named here is refused.

Whether and how a text is refused depends on the text alone; `shoal.dp.query.check` then looks at the schema.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from shoal.dp.query import Aggregate, And, Compare, In, IsNull, Not, Predicate, Query, share
from shoal.errors import MissingExtraError, QueryError

try:
    import sqlglot
    from sqlglot import exp
except ImportError:
    raise MissingExtraError("sqlglot", "dp") from None

LONGEST = 20_000
MOST_BRACKETS = 1_000
_AGGREGATES: dict[Any, str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.VariancePop: "var",
    exp.Min: "min",
    exp.Max: "max",
    exp.Quantile: "quantile",
    exp.Median: "quantile",
}
_COMPARISONS: dict[Any, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SHAPE = (
    "A query must be SELECT of COUNT, SUM, AVG, VAR_POP, MIN, MAX, MEDIAN or QUANTILE(column, q) FROM one table, "
    "with WHERE and GROUP BY where wanted."
)

# sqlglot logs what it cannot parse; the sentence of a QueryError is all that leaves this file.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


@lru_cache(maxsize=1024)
def parse(text: str, table: str = "t", *, canonical: bool = False) -> Query:
    """Read one SELECT statement.

    Parameters
    ----------
    text : str
    table : str, default "t"
        The data set's name; ``t`` and ``data`` are always understood.
    canonical : bool, default False
        The text is one that `str(query)` wrote, which names no table.

    Returns
    -------
    Query

    Examples
    --------
    >>> from shoal.dp.sql import parse
    >>> print(parse("select count(*) from t where 40 <= age and sex in ('f')"))
    SELECT COUNT(*) WHERE ("age" >= 40) AND ("sex" IN ('f'))
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        raise QueryError(f"A query must be a text of at most {LONGEST} characters.")
    # Thousands of nested brackets overflow the stack of a compiled sqlglot, and the process dies. They are
    # counted, not matched: brackets inside quotes must not hide those outside.
    if sum(text.count(bracket) for bracket in "([{") > MOST_BRACKETS:
        raise QueryError("The conditions of a query are nested too deeply.")
    try:
        statements = sqlglot.parse(text)
        if len(statements) != 1 or not isinstance(statements[0], exp.Select):
            raise QueryError(f"{_SHAPE} Got {text[:80]!r}.")
        return _select(statements[0], None if canonical else table)
    except QueryError:
        raise
    except RecursionError:
        raise QueryError("The conditions of a query are nested too deeply.") from None
    except (sqlglot.errors.SqlglotError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        raise QueryError(f"The query cannot be read as SQL. Got {text[:80]!r}.") from None


def _select(select: exp.Select, table: str | None) -> Query:
    parts = {key.rstrip("_"): value for key, value in select.args.items() if value}
    extra = sorted(set(parts) - {"expressions", "from", "where", "group", "kind"})
    if extra:
        raise QueryError(f"{_SHAPE} Got {extra[0].upper()}.")
    if table is not None or "from" in parts:
        _from(parts.get("from"), table or "t")
    groups = tuple(_groups(parts.get("group")))
    aggregates = []
    for item in parts["expressions"]:
        if isinstance(item, exp.Column):
            if _column(item) not in groups:
                raise QueryError(
                    f"Column {_column(item)!r} stands beside figures, so it must be in GROUP BY."
                )
        else:
            aggregates.append(_aggregate(item))
    where = parts.get("where")
    return Query(tuple(aggregates), None if where is None else _predicate(where.this), groups)


def _from(source: Any, table: str) -> None:
    if source is None or not isinstance(source.this, exp.Table):
        raise QueryError(_SHAPE)
    _only(source.this, "this")
    name = source.this.name
    if name.lower() not in ("t", "data", table.lower()):
        allowed = " or ".join(sorted({repr(table), "'t'"}, reverse=True))
        raise QueryError(f"The table of this query must be {allowed}. Got {name!r}.")


def _groups(group: Any) -> list[str]:
    if group is None:
        return []
    _only(group, "expressions")
    return [_column(each) for each in group.expressions]


def _aggregate(item: exp.Expression) -> Aggregate:
    label = ""
    if isinstance(item, exp.Alias):
        _only(item, "this", "alias")
        label, item = item.alias, item.this
    kind = _AGGREGATES.get(type(item))
    if kind is None:
        raise QueryError(f"{_SHAPE} Got {_shown(item)}.")
    _only(item, "this", "big_int", "quantile")
    inner = item.this
    if kind == "count" and (isinstance(inner, exp.Star) or _is_number(inner)):
        _only(inner, "this", "is_string")
        return Aggregate("count", label=label)
    q = None
    if kind == "quantile":
        q = share("0.5" if isinstance(item, exp.Median) else _constant(item.args["quantile"]))
    return Aggregate(kind, _column(inner), q, label)


def _predicate(node: exp.Expression) -> Predicate:
    if isinstance(node, exp.Paren):
        _only(node, "this")
        return _predicate(node.this)
    if isinstance(node, exp.Not):
        _only(node, "this")
        return Not(_predicate(node.this))
    if isinstance(node, (exp.And, exp.Or)):
        _only(node, "this", "expression")
        left, right = _predicate(node.this), _predicate(node.expression)
        return left & right if isinstance(node, exp.And) else left | right
    if isinstance(node, exp.Between):
        _only(node, "this", "low", "high")
        name = _column(node.this)
        return And(
            (
                Compare(name, ">=", _constant(node.args["low"])),
                Compare(name, "<=", _constant(node.args["high"])),
            )
        )
    if isinstance(node, exp.In):
        _only(node, "this", "expressions")
        return In(_column(node.this), tuple(_constant(each) for each in node.expressions))
    if isinstance(node, exp.Is):
        _only(node, "this", "expression")
        return _is(node)
    if type(node) in _COMPARISONS:
        _only(node, "this", "expression")
        return _compare(node, _COMPARISONS[type(node)])
    if isinstance(node, exp.Column):
        raise QueryError(f"A condition must compare column {_column(node)!r} with a constant.")
    raise QueryError(
        "A condition may use =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, AND, OR and NOT between a column and "
        f"constants. Got {_shown(node)}."
    )


def _is(node: exp.Is) -> Predicate:
    name = _column(node.this)
    if isinstance(node.expression, exp.Null):
        return IsNull(name)
    if isinstance(node.expression, exp.Boolean):  # never unknown, unlike a comparison
        return And((Compare(name, "=", bool(node.expression.this)), Not(IsNull(name))))
    raise QueryError(f"IS may be followed by NULL, TRUE or FALSE. Got {_shown(node.expression)}.")


def _compare(node: Any, operator: str) -> Predicate:
    if isinstance(node.this, exp.Column):
        return Compare(_column(node.this), operator, _constant(node.expression))
    if isinstance(node.expression, exp.Column):
        return Compare(_column(node.expression), _MIRRORED[operator], _constant(node.this))
    raise QueryError(f"A comparison must have a column on one side. Got {_shown(node)}.")


def _column(node: Any) -> str:
    if not isinstance(node, exp.Column):
        raise QueryError(f"Here a column's name was expected. Got {_shown(node)}.")
    _only(node, "this")
    if not isinstance(node.this, exp.Identifier):
        raise QueryError(f"Here a column's name was expected. Got {_shown(node)}.")
    return node.name


def _constant(node: Any) -> Any:
    if isinstance(node, exp.Neg):
        inner = _constant(node.this)
        if isinstance(inner, (int, float)) and not isinstance(inner, bool):
            return -inner
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        raise QueryError("A comparison with NULL is never true; write IS NULL.")
    if (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and node.to.this == exp.DataType.Type.DATE
    ):
        return node.this.this
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.this
        try:
            return int(node.this)
        except ValueError:
            value = float(node.this)
        if abs(value) == float("inf"):
            raise QueryError("A number in a query must be below 1e308.")
        return value
    raise QueryError(f"Here a constant was expected. Got {_shown(node)}.")


def _only(node: Any, *allowed: str) -> None:
    """Refuse whatever sqlglot may hang on a node beyond what is understood here."""
    extra = sorted(key for key, value in node.args.items() if value and key not in allowed)
    if extra:
        raise QueryError(f"{_shown(node)} uses {extra[0].upper()}, which is not understood here.")


def _is_number(node: Any) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _shown(node: Any) -> str:
    return repr(node.sql()[:80]) if isinstance(node, exp.Expression) else repr(str(node)[:80])
