"""The one switch for compiled kernels.

Kernels take float64 C-contiguous arrays and trust them. They compile on first use and are cached on
disk: beside the package, or in the user's cache folder where the package cannot be written (numba's
own fall-back). Where neither can be written they compile anew in each process; `NUMBA_CACHE_DIR` names
another folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import prange

__all__ = ["kernel", "needs_compiling", "prange"]

_kernels: dict[str, list[Any]] = {}


def kernel(*, parallel: bool = False, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function over arrays, cached on disk, without the interpreter lock.

    Floating-point arithmetic stays exactly as written (no `fastmath`), so a seed gives the same
    result on every run and for every number of threads.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = numba.njit(
            nogil=True,
            parallel=parallel,
            error_model="numpy",
            inline="always" if inline else "never",
        )(function)
        with contextlib.suppress(
            RuntimeError, AttributeError
        ):  # no folder to write to; compiling switched off
            compiled.enable_caching()
        _kernels.setdefault(function.__module__, []).append(compiled)
        return compiled

    return decorate


def needs_compiling(module: str) -> bool:
    """Whether a module's kernels have never been compiled on this machine."""
    for each in _kernels.get(module, []):
        if getattr(each, "signatures", True):
            continue
        cache = getattr(getattr(each, "_cache", None), "_cache_file", None)
        index = getattr(cache, "_index_path", None)
        if index is not None and not Path(index).exists():
            return True
    return False
