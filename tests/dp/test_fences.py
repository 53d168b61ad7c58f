"""Who may import what inside the package of private answers, and what a missing package says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal.schema import Cells, Schema, Unit

SOURCE = Path(shoal.__file__).parent
FENCES = {
    "opendp": {"dp/mechanisms/discrete_laplace.py", "dp/mechanisms/discrete_gaussian.py"},
    "sqlalchemy": {
        "dp/past.py",
        *(
            f"dp/ledger/{each}.py"
            for each in (
                "backup",
                "database",
                "entries",
                "layout",
                "log",
                "periods",
                "spending",
                "statements",
                "store",
                "writer",
            )
        ),
    },
    "secrets": {"dp/mechanisms/selection.py", "dp/ledger/secret.py", "dp/ledger/signing.py"},
}


@pytest.mark.parametrize("library", FENCES)
def test_a_fenced_library_is_imported_where_it_belongs(library):
    found = set()
    for path in (*(SOURCE / "dp").rglob("*.py"), *(SOURCE / "audit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == library for name in names):
                found.add(str(path.relative_to(SOURCE)))
    assert found == FENCES[library]


def test_only_the_heuristic_draws_floating_point_noise():
    for path in (SOURCE / "dp").rglob("*.py"):
        text = path.read_text()
        # Fitting a model of correlation may draw a sample; nothing drawn there is ever released as noise.
        if path.parent.name == "correlation":
            continue
        assert ("default_rng" in text or "np.random" in text) == (path.name == "heuristic.py"), path


def _refused(before: str) -> str:
    """What is said when private answers are wanted after these statements."""
    code = f"{before}\nfrom shoal import dp\ndp.Session"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "MissingExtraError" in done.stderr
    assert "pip install 'shoal[dp]'" in done.stderr
    return done.stderr


@pytest.mark.parametrize("package", ["opendp", "sqlalchemy"])
def test_a_missing_package_is_one_sentence(package):
    assert repr(package) in _refused(f"import sys; sys.modules[{package!r}] = None").lower()


def test_an_opendp_with_wrong_noise_is_refused():
    old = "import importlib.metadata; importlib.metadata.version = lambda name: '0.14.1'"
    assert "'opendp>=0.14.2'" in _refused(old)


def test_groups_and_cells_are_read_and_written():
    text = '[table]\nid = "s"\ngroup = {column = "house", rows = 3}\ncells = {columns = ["a"], bins = [4], tau = 2}\n[columns.a]\nbounds = [0, 1]\n'
    schema = Schema.from_toml_text(text)
    assert (schema.group, schema.cells) == (Unit("house", 3), Cells(("a",), (4,), 2))
    assert Schema.from_toml_text(schema.to_toml()) == schema
    assert Schema.from_toml_text("[table]\ngroup = 4\n").group == 4
    for bad in (
        'group = "x"',
        "group = 0",
        "cells = 3",
        "cells = {bins = 3}",
        'cells = {columns = ["a"], bins = 0}',
        'cells = {columns = ["a"], tau = 0}',
        'cells = {columns = ["a"], bins = [1, 2]}',
    ):
        with pytest.raises(shoal.errors.SchemaError):
            Schema.from_toml_text(f"[table]\n{bad}\n")
