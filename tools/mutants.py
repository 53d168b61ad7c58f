"""The changes that `mutate.py` makes to a module, one at a time."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, what it says, and the tree with it."""

    line: int
    what: str
    tree: ast.Module
    function: str = ""
    """The qualified name of the function that holds the change; empty outside of functions."""
    lines: range = range(0)
    """The lines of the statement, without those of statements inside it."""


def mutants(tree: ast.Module) -> Iterator[Mutant]:
    """Every change of one node that may change what the module does."""
    skipped = set(_words(tree))
    homes, places = dict(_homes(tree)), dict(_places(tree))
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for what in changes(node):
            changed = copy.deepcopy(tree)
            twin = next(each for at, each in enumerate(ast.walk(changed)) if at == number)
            apply(twin, what)
            yield Mutant(
                getattr(node, "lineno", 0),
                f"{ast.unparse(node)[:70]}  ->  {ast.unparse(twin)[:70]}",
                changed,
                homes.get(id(node), ""),
                places.get(id(node), range(0)),
            )


def _homes(tree: ast.AST, name: str = "") -> Iterator[tuple[int, str]]:
    """The outermost function, by its qualified name, of each node in the body of one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _homes(node, f"{name}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = (each for part in node.body for each in ast.walk(part))
            yield from ((id(each), f"{name}{node.name}") for each in inside)


def _places(tree: ast.Module) -> Iterator[tuple[int, range]]:
    """The lines of the innermost statement around each node: of one with a body those before its body."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            inner = getattr(node, "body", None)
            end = inner[0].lineno if inner else (node.end_lineno or node.lineno) + 1
            lines = range(node.lineno, max(end, node.lineno + 1))
            yield from (
                (id(each), lines) for each in ast.walk(node)
            )  # a statement inside comes later, and counts


def _words(tree: ast.Module) -> Iterator[int]:
    """The ids of all nodes that say something to people or to the type checker only."""
    for node in ast.walk(tree):
        left_out: list[ast.AST] = []
        if isinstance(node, ast.Raise | ast.JoinedStr):
            left_out.append(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            left_out.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left_out += [each for each in (node.returns, *(arg.annotation for arg in node.args.args)) if each]
            left_out += [arg.annotation for arg in node.args.kwonlyargs if arg.annotation]
            left_out += node.decorator_list
        if isinstance(node, ast.ClassDef):
            left_out += node.decorator_list  # as frozen=True, which only a mistake would notice
        if isinstance(node, ast.keyword) and node.arg == "strict":
            left_out.append(node)  # of zip: only a mistake would notice
        if isinstance(node, ast.AnnAssign):
            left_out.append(node.annotation)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.append(node)
        for top in left_out:
            yield from (id(each) for each in ast.walk(top))


def changes(node: ast.AST) -> list[str]:
    """The names of the changes that `apply` can make to a node."""
    match node:
        case ast.Compare(ops=[op]):
            fits = type(op) in COMPARISONS
        case ast.BinOp(op=op):
            fits = type(op) in OPERATORS
        case ast.UnaryOp(op=op):
            fits = isinstance(op, ast.Not | ast.USub)
        case ast.Constant(value=value):
            fits = isinstance(value, int | float)
        case ast.Return(value=value):
            fits = value is not None and ast.unparse(value) not in ("None", "False")
        case ast.Expr(value=value):
            fits = isinstance(value, ast.Call)
        case _:
            fits = isinstance(node, ast.BoolOp | ast.If | ast.IfExp)
    if not fits:
        return []
    return ["always", "never"] if isinstance(node, ast.If | ast.IfExp) else ["changed"]


def apply(node: ast.AST, what: str) -> None:
    """Make the change named `what`, in place."""
    match node, what:
        case ast.Compare(), _:
            node.ops = [COMPARISONS[type(node.ops[0])]()]
        case ast.BinOp(), _:
            node.op = OPERATORS[type(node.op)]()
        case ast.BoolOp(), _:
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp(), _:
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.Constant(value=bool() as value), _:
            node.value = not value
        case ast.Constant(value=int() | float() as value), _:
            node.value = value + 1
        case ((ast.If() | ast.IfExp()), _):
            node.test = ast.Constant(what == "always")
        case ast.Return(), _:
            node.value = ast.Constant(None)
        case ast.Expr(), _:
            node.value = ast.Constant(None)
    ast.fix_missing_locations(node)
