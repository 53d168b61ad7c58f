"""Every function says what it takes and gives, kernels apart: there numba finds the types of the arguments."""

from __future__ import annotations

import ast

from common.sources import ROOT, trees


def _is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return any(isinstance(each, ast.Name) and each.id == "kernel" for each in names)


def _untyped(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    bare = [each for each in taken if each.annotation is None and each.arg not in ("self", "cls")]
    return bool(bare) or node.returns is None


def test_functions_are_typed():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and not _is_kernel(node)
        and _untyped(node)
    ]
    assert found == []
