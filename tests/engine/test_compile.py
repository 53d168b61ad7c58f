"""Kernels on disk are those of the source: also where only a called kernel, or a constant, was changed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numba
import numpy as np

from shoal.engine.compile import kernel

INNER = """
from shoal.engine.compile import kernel

@kernel()
def inner(x):
    return x + {added}

@kernel()
def {other}(x):
    return x
"""
OUTER = """
from inner_file import inner, {other}
from limits import LIMIT
from shoal.engine.compile import kernel, prange

@kernel(parallel=True)
def outer(values):
    total = 0.0
    for i in prange(values.shape[0]):
        total += inner(values[i]) + LIMIT
    return total + {other}(0.0)
"""
RUN = """
import numpy as np, sys
assert "numba" not in sys.modules
from outer_file import outer
from shoal.engine.compile import tell_compiling
told = []
assert "numba" not in sys.modules, "loaded before a kernel is called"
with tell_compiling(lambda: told.append(1)):
    print(outer(np.ones(4)), bool(told))
"""

TWO = """
import numpy as np
from outer_file import outer
assert outer(np.ones(4)) == 8.0
print(sum(outer.build().stats.cache_misses.values()))
"""


def run(folder, added, limit, other="same"):
    write(folder, added, limit, other)
    done = subprocess.run(**python(folder, RUN), capture_output=True, check=True)
    total, compiled = done.stdout.split()
    return float(total), compiled == "True"


def write(folder, added, limit, other):
    (folder / "inner_file.py").write_text(INNER.format(added=added, other=other))
    (folder / "outer_file.py").write_text(OUTER.format(other=other))
    (folder / "limits.py").write_text(f"LIMIT = {limit}\n")


def python(folder, code):
    path = os.pathsep.join([str(folder), *(each for each in sys.path if each)])
    env = os.environ | {"PYTHONPATH": path, "NUMBA_DISABLE_JIT": "0"}
    return {"args": [sys.executable, "-B", "-c", code], "env": env, "cwd": folder, "text": True}


def files(folder):
    return {each.name.split("-")[0] for each in (folder / "__pycache__").glob("*.nb?")}


def test_a_changed_kernel_in_another_file_is_compiled_anew(tmp_path):
    assert run(tmp_path, 1.0, 0.0) == (8.0, True)
    assert run(tmp_path, 1.0, 0.0) == (8.0, False)
    assert run(tmp_path, 2.0, 0.0) == (12.0, True)
    assert run(tmp_path, 2.0, 5.0) == (32.0, True)
    assert files(tmp_path) == {"inner_file.inner", "inner_file.same", "outer_file.outer"}
    for index in (tmp_path / "__pycache__").glob("*.nbi"):  # as where it names a type that is no more
        index.write_bytes(pickle.dumps(numba.__version__, protocol=-1) + b"cgone\nType\n.")
    assert run(tmp_path, 2.0, 5.0) == (32.0, True)
    assert run(tmp_path, 2.0, 5.0) == (32.0, False)
    assert run(tmp_path, 2.0, 5.0, other="renamed") == (32.0, True)
    assert files(tmp_path) == {"inner_file.inner", "inner_file.renamed", "outer_file.outer"}


def test_what_another_process_compiles_is_waited_for(tmp_path):
    write(tmp_path, 1.0, 0.0, "same")
    both = [subprocess.Popen(**python(tmp_path, TWO), stdout=subprocess.PIPE) for _ in range(2)]
    assert sorted(each.communicate(timeout=300)[0].strip() for each in both) == ["0", "1"]
    assert not list((tmp_path / "__pycache__").glob("*.lock"))


@kernel()
def entry(values, place):
    return values[place]


@kernel()
def entries(values, places):
    return entry(values, places[0]) + entry(values, 1) + entry(values, places.size)


def test_kernels_called_with_small_or_constant_whole_numbers_are_compiled_once():
    values, types = np.array([1.0, 20.0, 300.0]), numba.types
    compiled = entry.build()
    for place in (types.int8, types.int16, types.int32, types.int64, types.literal(1)):
        compiled.get_call_template((types.float64[::1], place), {})  # as when another kernel calls it
    assert compiled.signatures == [(types.float64[::1], types.int64)]
    assert entries(values, np.array([2], np.int32)) == 340.0
    assert entries(values, np.array([0, 0], np.int16)) == 321.0
