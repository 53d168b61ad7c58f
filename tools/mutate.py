"""Mutation testing of one module: change one thing at a time and see whether its tests notice.

    .venv/bin/python tools/mutate.py src/shoal/dp/ledger/chain.py tests/dp/test_ledger.py tests/dp/test_log.py

Each mutant runs in a child that is forked after everything was imported, so that it costs what its tests cost: a
change inside a function is put into the function that is there; others import the package anew. Survivors are printed with their lines; the exit code is 1 where there are any. Messages, annotations and
docstrings are left alone: their words are no behaviour.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
BEFORE = ("numpy", "numba", "polars", "pyarrow", "opendp.prelude", "scipy.stats")
"""Imported once, before the children are forked."""


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, what it says, and the tree with it."""

    line: int
    what: str
    tree: ast.Module
    function: str = ""
    """The qualified name of the function that holds the change; empty outside of functions."""


def mutants(tree: ast.Module) -> Iterator[Mutant]:
    """Every change of one node that may change what the module does."""
    skipped = set(_words(tree))
    homes = dict(_homes(tree))
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
            )


def _homes(tree: ast.AST, name: str = "") -> Iterator[tuple[int, str]]:
    """The outermost function, by its qualified name, of each node in the body of one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _homes(node, f"{name}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = (each for part in node.body for each in ast.walk(part))
            yield from ((id(each), f"{name}{node.name}") for each in inside)


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
            fits = value is not None and ast.unparse(value) != "None"
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


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Hands out the mutant when its module is imported."""

    def __init__(self, module: str, path: Path, tree: ast.Module) -> None:
        self._module, self._path, self._tree = module, path, tree

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the one module here, no other."""
        if name != self._module:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=str(self._path))
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutant's code as the module."""
        exec(compile(self._tree, str(self._path), "exec"), vars(module))


def survives(mutant: Mutant, module: str, path: Path, tests: list[str], seconds: float) -> bool:
    """Run the tests in a child; a mutant that they do not end on is found too."""
    child = os.fork()
    if child == 0:
        os.setsid()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        if not mutant.function or not _put(mutant, module, path):
            _forget(path)
            sys.meta_path.insert(0, Changed(module, path, mutant.tree))
        os._exit(_run(tests))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _forget(path: Path) -> None:
    """Let the package and its tests be imported anew."""
    root = str(path).partition(f"{os.sep}src{os.sep}")[0]
    ours = (f"{root}{os.sep}src{os.sep}", f"{root}{os.sep}tests{os.sep}")
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(ours):
            del sys.modules[name]


def _put(mutant: Mutant, module: str, path: Path) -> bool:
    """Give the function that is there the code of the mutant; false where it is wrapped and cannot be reached."""
    code = compile(mutant.tree, str(path), "exec")
    there: object = sys.modules[module]
    for name in mutant.function.split("."):
        inside = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name]
        there = vars(there).get(name)
        if len(inside) != 1 or there is None:
            return False
        code = inside[0]
    for wrapper in ("__func__", "fget", "func", "__wrapped__"):
        there = getattr(there, wrapper, there)
    if not isinstance(there, FunctionType) or there.__code__.co_freevars != code.co_freevars:
        return False
    there.__code__ = code
    return True


def _run(tests: list[str], *more: str) -> int:
    import pytest

    flags = [
        "-x",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--hypothesis-seed=0",
    ]
    return int(pytest.main([*flags, *more, *tests]))


def main() -> int:
    """Try all mutants of the module that the command line names."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("module", type=Path)
    asked.add_argument("tests", nargs="+")
    asked.add_argument("--every", type=int, default=1, help="only each so many mutant")
    asked.add_argument(
        "--lines", default="", help="only changes on these lines, such as 12,40: survivors of other tests"
    )
    options = asked.parse_args()
    path = options.module.resolve()
    parts = path.with_suffix("").parts
    module = ".".join(parts[len(parts) - parts[::-1].index("src") :]).removesuffix(".__init__")
    for name in BEFORE:
        importlib.import_module(name)
    _run(options.tests, "--collect-only", "-qq")
    importlib.import_module(module)
    tree = ast.parse(path.read_text())
    begun = time.monotonic()
    if not survives(Mutant(0, "as it is", tree), module, path, options.tests, 600):
        print("The tests fail without a change.")
        return 2
    seconds = 10 + 4 * (time.monotonic() - begun)
    lines = {int(each) for each in options.lines.split(",") if each}
    chosen = [each for each in mutants(tree) if not lines or each.line in lines][:: options.every]
    left = []
    for mutant in chosen:
        if survives(mutant, module, path, options.tests, seconds):
            left.append(mutant)
            print(f"{options.module}:{mutant.line}: {mutant.what}", flush=True)
    print(f"{options.module}: {len(chosen) - len(left)} of {len(chosen)} mutants found, {len(left)} survive")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
