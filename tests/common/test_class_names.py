"""One name for one thing: a public class name stands for one class in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict

from common.sources import ROOT, trees


def classes() -> dict[str, list[str]]:
    """Public class names with the files that define them."""
    found = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_a_public_class_name_means_one_class():
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}
