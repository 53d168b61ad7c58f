"""The package's source, parsed once for all tests that look at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import shoal

ROOT = Path(shoal.__file__).parent


@cache
def trees() -> dict[Path, ast.Module]:
    """Every file of the package with its syntax tree."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
