"""Expressions as trees: their parts, a walk over all of them, and parts exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shoal.dp.sql.expressions import (
    And,
    Call,
    Case,
    Compare,
    Expr,
    In,
    IsNull,
    Not,
    Or,
    Test,
    as_predicate,
    compared,
    plain_name,
    subject,
)


def children(node: Expr) -> tuple[Expr, ...]:
    """The expressions that one is made of."""
    if isinstance(node, Call):
        return node.arguments
    if isinstance(node, Case):
        inner = tuple(each for pair in node.branches for each in pair)
        return inner if node.otherwise is None else (*inner, node.otherwise)
    if isinstance(node, (And, Or)):
        return node.parts
    if isinstance(node, Not):
        return (node.part,)
    if isinstance(node, Test):
        return (node.value,)
    if isinstance(node, Compare):
        return (subject(node.column), *((node.value,) if isinstance(node.value, Expr) else ()))
    if isinstance(node, (In, IsNull)):
        return (subject(node.column),)
    return ()


def walk(node: Expr) -> Iterator[Expr]:
    """An expression and all that it is made of, without recursion."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += children(each)


def mapped(node: Any, change: Callable[[Expr], Expr | None]) -> Any:  # noqa: PLR0911 - a return for each kind
    """An expression with parts exchanged: `change` gives what stands in place of one, or None to look inside it."""
    found = change(node)
    if found is not None:
        return found
    if isinstance(node, Call):
        return Call(node.function, tuple(mapped(each, change) for each in node.arguments))
    if isinstance(node, Case):
        branches = tuple((mapped(test, change), mapped(value, change)) for test, value in node.branches)
        return Case(branches, None if node.otherwise is None else mapped(node.otherwise, change))
    if isinstance(node, (And, Or)):
        return type(node)(tuple(as_predicate(mapped(each, change)) for each in node.parts))
    if isinstance(node, Not):
        return Not(as_predicate(mapped(node.part, change)))
    if isinstance(node, Test):
        return as_predicate(mapped(node.value, change))
    if isinstance(node, Compare):
        value = mapped(node.value, change) if isinstance(node.value, Expr) else node.value
        return compared(mapped(subject(node.column), change), node.operator, value)
    if isinstance(node, In):
        return In(plain_name(mapped(subject(node.column), change)), node.values)
    if isinstance(node, IsNull):
        return IsNull(plain_name(mapped(subject(node.column), change)))
    return node
