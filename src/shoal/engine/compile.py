"""The one switch for compiled kernels.

Kernels take float64 C-contiguous arrays and trust them. numba is loaded and a kernel compiled when one is first
called, so that commands without kernels start fast. What was compiled is kept on disk (`shoal.engine.kept`):
beside the package, or in the user's cache folder where the package cannot be written. Where neither can be
written, kernels compile anew in each process; `NUMBA_CACHE_DIR` names another folder.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Any

__all__ = ["Kernel", "kernel", "prange", "tell_compiling"]

_lock = threading.RLock()
_listeners: list[Callable[[], None]] = []
_by_module: dict[str, list[Kernel]] = {}


class _ParallelRange:
    """Stands for numba's `prange` in the source of kernels until numba is loaded."""

    def __call__(self, *bounds: int) -> range:
        return range(*bounds)


prange = _ParallelRange()


def kernel(*, parallel: bool = False, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function over arrays at its first call, kept on disk, without the interpreter lock.

    Floating-point arithmetic stays exactly as written (no `fastmath`), so a seed gives the same
    result on every run and for every number of threads.
    """
    return lambda function: Kernel(function, parallel=parallel, inline=inline)


class Kernel:
    """A function that numba compiles when it is first called, and with it the kernels that it calls.

    Examples
    --------
    >>> from shoal.engine.compile import kernel
    >>> @kernel()
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42
    """

    def __init__(self, function: Callable[..., Any], *, parallel: bool, inline: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func: Any = function
        self.parallel = parallel
        self.inline = inline
        self._built: Any = None
        _by_module.setdefault(function.__module__, []).append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function."""
        return (self._built or self.build())(*arguments)

    def build(self) -> Any:
        """What numba makes of the function; the names of kernels in its source are bound to theirs."""
        with _lock:
            if self._built is not None:
                return self._built
            import numba

            built: Any = numba.njit(
                nogil=True,
                parallel=self.parallel,
                error_model="numpy",
                inline="always" if self.inline else "never",
            )(self.py_func)
            self._built = built  # before those that it calls, since kernels may call each other
            if hasattr(built, "_cache"):  # not where compiling is switched off
                from shoal.engine.kept import KeptCode

                built._cache = KeptCode(self, _said)  # noqa: SLF001 - numba has no public way to name a cache
                built.get_call_template = _with_wide_whole_numbers(built)
            for names, name, value in _named(self.py_func):
                if isinstance(value, Kernel):
                    names[name] = value.build()
                elif value is prange:
                    names[name] = numba.prange
            return built

    def digest(self) -> str:
        """A digest of the source of this kernel and of all that it calls, with the constants they use.

        numba itself looks at the file of a kernel alone, and would run old machine code where only a called kernel
        in another file was changed.
        """
        import numpy

        parts = [numpy.__version__]
        parts += sorted("\n".join(each.source()) for each in self._reached())
        return hashlib.sha256("\n\n".join(parts).encode()).hexdigest()

    def _reached(self) -> list[Kernel]:
        """The kernel itself and every one that it calls, directly or not."""
        found: dict[int, Kernel] = {}
        ahead = [self]
        while ahead:
            each = ahead.pop()
            if id(each) in found:
                continue
            found[id(each)] = each
            values = (_kernel_of(value) for _, _, value in _named(each.py_func))
            ahead += [value for value in values if value is not None]
        return list(found.values())

    def source(self) -> Iterator[str]:
        """What decides the machine code of this kernel alone."""
        function = self.py_func
        yield f"{function.__module__}.{function.__qualname__} {self.parallel} {self.inline} {function.__defaults__}"
        yield from _instructions(function.__code__)
        for _, name, value in _named(function):
            if isinstance(value, bool | int | float | complex | str | bytes | tuple | None):
                yield f"{name} = {value!r}"
            elif hasattr(value, "tobytes"):
                yield f"{name} = {value.dtype} {value.shape} {value.tobytes().hex()}"
            elif hasattr(value, "_fields"):
                yield f"{name} = {value._fields}"
        cells = function.__closure__ or ()
        yield from (repr(cell.cell_contents) for cell in cells if not callable(cell.cell_contents))


def _with_wide_whole_numbers(built: Any) -> Callable[..., Any]:
    """How other kernels call a kernel: with int64 where they have a smaller whole number, and never with a constant.

    numba would compile a kernel anew for each of them, and with it all that it calls. numba itself widens whole
    numbers in arithmetic, so the results are the same.
    """
    from numba import types

    kept = built.get_call_template

    def template(arguments: Any, named: Any) -> Any:
        wide = tuple(_widened(each, types) for each in arguments)
        return kept(wide, named)

    return template


def _widened(given: Any, types: Any) -> Any:
    plain = (
        types.unliteral(given) if isinstance(given, types.IntegerLiteral | types.BooleanLiteral) else given
    )
    return types.int64 if plain in (types.int8, types.int16, types.int32) else plain


def siblings(module: str) -> list[Kernel]:
    """The kernels of a module."""
    return _by_module.get(module, [])


@contextmanager
def tell_compiling(listener: Callable[[], None]) -> Iterator[None]:
    """Call a function whenever kernels must be compiled, which makes a first run wait."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _said() -> None:
    for listener in _listeners:
        listener()


def _kernel_of(value: Any) -> Kernel | None:
    """The kernel itself or the one of which numba made a value."""
    if isinstance(value, Kernel):
        return value
    cache = getattr(value, "_cache", None)
    made = getattr(cache, "kernel", None)
    return made if isinstance(made, Kernel) else None


def _named(function: Any) -> Iterator[tuple[MutableMapping[str, Any], str, Any]]:
    """The global names in a function's source: where each is bound, the name, its value."""
    names = function.__globals__
    words = list(_words(function.__code__))
    for word in words:
        if word not in names:
            continue
        value = names[word]
        yield names, word, value
        if isinstance(value, ModuleType) and value.__name__.startswith("shoal."):
            inside = vars(value)
            yield from ((inside, each, inside[each]) for each in words if each in inside)


def _words(code: CodeType) -> Iterator[str]:
    """The names in a function's code and in what is defined inside it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _words(each)


def _instructions(code: CodeType) -> Iterator[str]:
    """A function's code as text, without line numbers."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_exceptiontable))
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _instructions(each)
        else:
            yield repr(sorted(map(repr, each)) if isinstance(each, frozenset) else each)
