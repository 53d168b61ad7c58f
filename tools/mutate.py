"""Mutation testing of modules: change one thing at a time and see whether the tests notice.

    .venv/bin/python -m tools.mutate src/shoal/dp/ledger/chain.py tests/dp/test_ledger.py tests/dp/test_log.py

What lies below `src` is changed, the rest are its tests. A first run without a change notes which tests reach which
statement; a mutant is shown to those only, the quickest first, so many files of tests can be named. Each mutant runs in a
child that is forked after the tests were collected: a change inside a function is put into the function that is there;
others import the package anew. Survivors are printed with their lines; the exit code is 1 where there are any. Messages,
annotations and docstrings are left alone: their words are no behaviour. A change in a compiled kernel is seen with
NUMBA_DISABLE_JIT=1 only.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.abc
import importlib.machinery
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest

from tools.mutants import Mutant, mutants

Tracer = Callable[[FrameType, str, object], Any]
BEFORE = ("numpy", "numba", "polars", "pyarrow", "opendp.prelude", "scipy.stats")
"""Imported once, before the children are forked."""


@dataclass(eq=False)
class Reached:
    """A plugin that notes what each test takes and which lines below a folder it reaches."""

    folder: str
    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, set[int]]] = field(default_factory=dict)
    """The lines of each file, by test and by fixture."""
    fixtures: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The fixtures of each test: what one of them reaches when it is made counts for all its tests."""
    failed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._now: list[dict[str, set[int]]] = []
        self._all: dict[CodeType, set[int]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch a test."""
        self.fixtures[item.nodeid] = tuple(getattr(item, "fixturenames", ()))
        self._now, begun = [self.lines.setdefault(item.nodeid, {})], time.monotonic()
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.seconds[item.nodeid] = time.monotonic() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Watch the making of a fixture."""
        self._now.append(self.lines.setdefault(fixturedef.argname, {}))
        try:
            return (yield)
        finally:
            self._now.pop()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a test that fails as it is."""
        if report.failed:
            self.failed.add(report.nodeid)

    def _call(self, frame: FrameType, event: str, argument: object) -> Tracer | None:
        code = frame.f_code
        if not code.co_filename.startswith(self.folder):
            return None
        there = self._all.get(code) or self._all.setdefault(code, {at for *_, at in code.co_lines() if at})
        reached = self._now[-1].setdefault(code.co_filename, set())
        reached.add(code.co_firstlineno)
        if reached >= there:
            return None

        def line(frame: FrameType, event: str, argument: object) -> Tracer:
            reached.add(frame.f_lineno)
            return line

        return line

    def tests(self, path: Path, lines: range) -> list[str]:
        """The tests that reach one of these lines of a file, the quickest first; all tests for no lines."""
        there = {
            name for name, files in self.lines.items() if not files.get(str(path), set()).isdisjoint(lines)
        }
        fits = (
            test
            for test, made in self.fixtures.items()
            if test not in self.failed and (not lines or not there.isdisjoint((test, *made)))
        )
        return sorted(fits, key=lambda test: self.seconds[test])


@dataclass(frozen=True)
class Collected:
    """A plugin that hands collected tests over to some work, instead of running them."""

    work: Callable[[pytest.Session], None]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work."""
        for each in session.items:
            _leave_unshrunk(getattr(each, "obj", None))
        self.work(session)
        return True


def _leave_unshrunk(test: Any) -> None:
    """A property test ends at its first counterexample, whatever its size."""
    if hasattr(test, _SETTINGS):
        from hypothesis import Phase, settings

        setattr(test, _SETTINGS, settings(getattr(test, _SETTINGS), phases=(Phase.explicit, Phase.generate)))


_SETTINGS = "_hypothesis_internal_use_settings"


def run(session: pytest.Session, tests: Sequence[str], *, until_one_fails: bool = True) -> bool:
    """Run some tests of a session in this order; whether all hold."""
    there = {each.nodeid: each for each in session.items}
    items = [there[each] for each in tests]
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed and until_one_fails:
            break
    session._setupstate.teardown_exact(None)  # noqa: SLF001  # else servers that fixtures started go on
    return not session.testsfailed


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Hands out the mutant when its module is imported."""

    def __init__(self, module: str, path: Path, tree: ast.Module) -> None:
        self._module, self._path, self._tree = module, path, tree

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the one module here, no other."""
        if name != self._module:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=str(self._path))
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutant's code as the module."""
        exec(compile(self._tree, str(self._path), "exec"), vars(module))


def watch(session: pytest.Session, folder: str, kept: Path) -> Reached:
    """Run the tests without a change, in a child, and keep what was noted."""
    if not kept.exists() or not kept.stat().st_size:
        seen = Reached(folder)

        def note() -> int:
            session.config.pluginmanager.register(seen)
            run(session, [each.nodeid for each in session.items], until_one_fails=False)
            kept.write_bytes(pickle.dumps((seen.seconds, seen.lines, seen.fixtures, seen.failed)))
            return 0

        in_child(note, 3600)
    return Reached(folder, *pickle.loads(kept.read_bytes()))


def in_child(work: Callable[[], int], seconds: float) -> int:
    """Do some work in a child and give the number it ends with; 1 where it does not end in time."""
    child = os.fork()
    if child == 0:
        os.setsid()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os._exit(work())
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1


@dataclass(frozen=True)
class Module:
    """A module to change."""

    path: Path

    @property
    def name(self) -> str:
        """As it is imported."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[len(parts) - parts[::-1].index("src") :]).removesuffix(".__init__")

    @property
    def folder(self) -> str:
        """The `src` that it lies in."""
        return "".join(str(self.path).rpartition(f"{os.sep}src{os.sep}")[:2])


_NOT_PUT = 3


def try_in_place(session: pytest.Session, mutant: Mutant, module: Module, tests: list[str]) -> int:
    """Put a change into the function that is there, and run the tests: 0 if they hold."""
    if not mutant.function or not _put(mutant, module.name, module.path):
        return _NOT_PUT
    return 0 if run(session, tests) else 1


def try_anew(mutant: Mutant, module: Module, tests: list[str]) -> int:
    """Import the package with a change anew, and run the tests: 0 if they hold."""
    _forget(module.path)
    sys.meta_path.insert(0, Changed(module.name, module.path, mutant.tree))
    files = list(dict.fromkeys(each.partition("::")[0] for each in tests))
    held: list[bool] = []
    _pytest(files, Collected(lambda session: held.append(run(session, tests))))
    return 0 if held == [True] else 1


def _forget(path: Path) -> None:
    """Let the package and its tests be imported anew."""
    root = str(path).partition(f"{os.sep}src{os.sep}")[0]
    ours = (f"{root}{os.sep}src{os.sep}", f"{root}{os.sep}tests{os.sep}")
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(ours):
            del sys.modules[name]


def _put(mutant: Mutant, module: str, path: Path) -> bool:
    """Give the function that is there the code of the mutant; false where it is wrapped and cannot be reached."""
    code = compile(mutant.tree, str(path), "exec")
    there: object = sys.modules[module]
    for name in mutant.function.split("."):
        inside = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name]
        there = vars(there).get(name)
        if len(inside) != 1 or there is None:
            return False
        code = inside[0]
    for wrapper in ("__func__", "fget", "func", "__wrapped__"):
        there = getattr(there, wrapper, there)
    if not isinstance(there, FunctionType) or there.__code__.co_freevars != code.co_freevars:
        return False
    there.__code__ = code
    return True


def _pytest(tests: Sequence[str], plugin: Collected) -> None:
    flags = [
        "-q",
        "-s",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--hypothesis-seed=0",
    ]
    pytest.main([*flags, *tests], plugins=[plugin])


def try_all(session: pytest.Session, module: Module, options: argparse.Namespace, reached: Reached) -> bool:
    """Try all mutants of a module, and print those that survive; whether none does."""
    importlib.import_module(module.name)
    lines = {int(each) for each in options.lines.split(",") if each}
    every = mutants(ast.parse(module.path.read_text()))
    chosen = [each for each in every if not lines or each.line in lines][:: options.every]
    left, shown = 0, module.path.relative_to(Path(module.folder).parent)
    for mutant in chosen:
        all_tests = reached.tests(module.path, mutant.lines if mutant.function else range(0))
        tests = [each for each in all_tests if reached.seconds[each] <= options.longest]
        seconds = 20 + 4 * sum(reached.seconds[each] for each in tests)
        ended = in_child(partial(try_in_place, session, mutant, module, tests), seconds) if tests else 0
        if ended == _NOT_PUT:
            ended = in_child(partial(try_anew, mutant, module, tests), seconds)
        if not ended:
            left += 1
            print(
                f"{shown}:{mutant.line}: {mutant.what}{'' if all_tests else '  (no test comes here)'}",
                flush=True,
            )
    print(f"{shown}: {len(chosen) - left} of {len(chosen)} mutants found, {left} survive", flush=True)
    return not left


def main() -> int:
    """Try all mutants of the modules that the command line names."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("paths", nargs="+", type=Path, help="modules below src, and tests")
    asked.add_argument("--every", type=int, default=1, help="only each so many mutant")
    asked.add_argument("--lines", default="", help="only changes on these lines, such as 12,40")
    asked.add_argument("--longest", type=float, default=60, help="leave out tests of more seconds than this")
    asked.add_argument(
        "--notes", type=Path, help="keep the notes of the first run here, for other modules too"
    )
    options = asked.parse_args()
    modules = [Module(each.resolve()) for each in options.paths if "src" in each.parts]
    for name in BEFORE:
        importlib.import_module(name)
    held: list[bool] = []

    def work(session: pytest.Session) -> None:
        gc.collect()
        gc.freeze()  # else each child looks through, and copies, all that was imported
        with tempfile.NamedTemporaryFile() as kept:
            reached = watch(session, modules[0].folder, options.notes or Path(kept.name))
        if reached.failed:
            print("Left out, as they fail without a change:", *sorted(reached.failed))
        held.extend(try_all(session, each, options, reached) for each in modules)

    _pytest([str(each) for each in options.paths if "src" not in each.parts], Collected(work))
    return 0 if held and all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
