"""The names of the package are the objects themselves: they can be pickled, documented and never shadowed."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import shoal

NAMES = [name for name in shoal.__all__ if name != "__version__"]


def test_the_names_a_user_imports():
    from shoal import Client, Schema, Session, compare, methods, protect, reproduce

    assert all(inspect.isclass(each) for each in (Client, Schema, Session))
    assert all(inspect.isfunction(each) for each in (compare, methods, protect, reproduce))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_survives_pickling(name):
    assert pickle.loads(pickle.dumps(getattr(shoal, name))) is getattr(shoal, name)


@pytest.mark.parametrize("name", NAMES)
def test_no_module_can_shadow_a_name(name):
    modules = {module.name for module in pkgutil.iter_modules(shoal.__path__)}
    assert name not in modules


def test_help_shows_the_function():
    text = pydoc.plain(pydoc.render_doc(shoal.protect))
    assert "function protect in module shoal.publish.calls" in text
    assert "on_missing" in text
    assert "function compare in module shoal.comparison" in pydoc.plain(pydoc.render_doc(shoal.compare))


def test_names_are_loaded_when_first_used():
    """The package alone loads none of the libraries behind its names."""
    code = (
        "import sys, shoal; assert {'protect', 'Schema'} <= set(dir(shoal));"
        "heavy = [m for m in ('numpy', 'polars', 'numba', 'shoal.publish') if m in sys.modules];"
        "import shoal.comparison, shoal.research; kind = type(lambda: 0);"
        "print(heavy, isinstance(shoal.compare, kind), isinstance(shoal.reproduce, kind))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split("\n")[0] == "[] True True"


def test_one_version_everywhere():
    root = Path(__file__).parents[1]
    cited = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), flags=re.M)
    newest = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    assert cited is not None
    assert newest is not None
    assert cited[1] == newest[1] == shoal.__version__
