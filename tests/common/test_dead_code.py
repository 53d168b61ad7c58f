"""Nothing in the package serves its tests alone: every public function and class is used or offered."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from common.sources import ROOT, trees

# Called by name from outside of the package.
CALLED_ELSEWHERE = {
    "from_environment",  # the server's workers name it in a string
    "JsonLine",  # the configuration of the log names it in a string
}

# Decorators that register nothing.
PLAIN = ("kernel", "dataclass", "cache", "lru_cache", "functools", "contextmanager")


def defined(tree: ast.Module) -> Iterator[str]:
    """Public functions and classes of a module, without those that a decorator registers."""
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        decorators = [ast.unparse(each) for each in node.decorator_list]
        if node.name.startswith("_") or any(not each.startswith(PLAIN) for each in decorators):
            continue
        yield node.name


def used(tree: ast.Module) -> Iterator[str]:
    """Names that a module uses or lists; a name that it only imports is not used by that."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def test_every_public_name_is_used_or_offered():
    found = Counter(name for tree in trees().values() for name in used(tree))
    # A package offers what its __init__ imports under the same name.
    offered = {
        each.name
        for path, tree in trees().items()
        if path.name == "__init__.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
    dead = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees().items()
        for name in defined(tree)
        if not found[name] and name not in offered | CALLED_ELSEWHERE
    }
    assert dead == set()
