"""What a small table needs is loaded, and nothing else: that is most of the time it takes."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import shoal
from common.sources import ROOT, trees

HEAVY = ("sklearn", "scipy.spatial", "scipy.stats", "pandas", "highspy", "matplotlib")


def test_forming_groups_loads_no_heavy_library():
    code = (
        "import sys, numpy as np, polars as pl; import shoal.publish; from shoal.measures import propensity;"
        "from shoal.microaggregation import Anneal;"
        "X = np.random.default_rng(0).normal(size=(40, 2));"
        "Anneal(k=3, max_proposals=1000, random_state=0).partition(X); propensity(X, X[::-1].copy());"
        f"print(*[m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_recoding_loads_no_heavy_library_but_the_solver():
    code = (
        "import sys, polars as pl; from shoal.generalization import Generalize;"
        "Generalize(k=2).fit_transform(pl.DataFrame({'a': ['x', 'x', 'y', 'x']}));"
        f"print(*[m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"highspy"}


def test_work_on_an_uploaded_table_loads_no_web_framework():
    """Each upload, run and map is a process of its own, which waits for all that it imports."""
    heavy = ("fastapi", "sqlalchemy", "opendp", "httpx", "jinja2")
    code = f"import sys, shoal.server.worker; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_no_package_imports_a_private_module_of_another():
    """What two packages share has a public name in the lower one."""
    root = Path(shoal.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        own = path.relative_to(root).parts[0]
        for line in path.read_text(encoding="utf-8").splitlines():
            match = re.match(r"\s*from shoal\.(\w+)[\w.]*\._\w+ import", line)
            if match and match[1] != own:
                found.append(f"{path.relative_to(root)}: {line.strip()}")
    assert found == []


def test_private_names_stay_in_their_file():
    found = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shoal."):
                private = [each.name for each in node.names if each.name.startswith("_")]
                modules = ROOT.joinpath(*node.module.split(".")[1:])
                private = [
                    name
                    for name in private
                    if not (modules / f"{name}.py").exists() and name != "__version__"
                ]
                found += [f"{path.relative_to(ROOT)}: {name} of {node.module}" for name in private]
    assert found == []


FIRST = """
import contextlib, gc, importlib, os, sys
asked = [line.split() for line in sys.stdin]

def scout():
    for module, name in asked:
        getattr(importlib.import_module(module), name)
    told.write("\\n".join(each for each in sys.modules if each.partition(".")[0] != "shoal"))

def first(module, name):
    getattr(importlib.import_module(module), name)

def in_child(work, *words):
    child = os.fork()
    if not child:
        try:
            work(*words)
            told.close()
        except BaseException as error:
            print(*words, error, flush=True)
        os._exit(0)
    return child

# What is not ours is imported once, before the children are forked.
back, there = os.pipe()
told = os.fdopen(there, "w")
child = in_child(scout)
told.close()
libraries = os.fdopen(back).read().split()
os.waitpid(child, 0)
assert "numpy" in libraries
for each in libraries:
    with contextlib.suppress(ImportError):
        importlib.import_module(each)
assert not any(each.partition(".")[0] == "shoal" for each in sys.modules)
gc.disable()
for module, name in asked:
    os.waitpid(in_child(first, module, name), 0)
"""


def test_any_public_name_can_be_the_first_one_imported():
    """Modules that load when named must not lean on another that happened to be loaded before them."""
    asked = []
    for path in sorted(Path(shoal.__file__).parent.rglob("__init__.py")):
        package = ".".join(["shoal", *path.parent.relative_to(Path(shoal.__file__).parent).parts])
        names = getattr(importlib.import_module(package), "__all__", ())
        if hasattr(sys.modules[package], "__getattr__"):  # each module behind a name, once
            values = {name: getattr(sys.modules[package], name) for name in names}
            homes = {getattr(value, "__module__", name): name for name, value in values.items()}
            asked += [(package, name) for name in homes.values()]
        else:
            asked += [(package, name) for name in names[:1]]
    assert len(asked) > 60
    text = "\n".join(" ".join(each) for each in asked)
    done = subprocess.run(
        [sys.executable, "-c", FIRST], input=text, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
