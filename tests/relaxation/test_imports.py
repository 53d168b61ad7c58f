"""A package that cannot be loaded is one sentence."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

import shoal.cli
from shoal.cli import _commands
from shoal.errors import ImportFailedError, ShoalError
from shoal.relaxation.integer import choose
from shoal.relaxation.master import Master


@pytest.mark.parametrize("call", [lambda: Master(4, 3), lambda: choose(np.array([[0, 1]]), np.ones(1), 2)])
@pytest.mark.parametrize("before", [True, False])
def test_a_solver_that_cannot_be_loaded_is_one_sentence(monkeypatch, call, before):
    monkeypatch.setitem(sys.modules, "highspy", None)  # type: ignore[arg-type]
    if before:
        monkeypatch.setitem(sys.modules, "ortools", ModuleType("ortools"))
    with pytest.raises(ShoalError, match="'highspy' cannot be loaded") as caught:
        call()
    assert isinstance(caught.value, ImportError)
    assert ("before ortools" in str(caught.value)) is before
    assert "\n" not in str(caught.value)


def test_any_import_that_fails_ends_a_command_with_one_sentence(monkeypatch, capsys):
    def broken(*_, **__):
        raise ImportError("libodd.so: undefined symbol\nsecond line", name="odd")

    monkeypatch.setattr(_commands, "_asked", broken)
    with pytest.raises(SystemExit) as caught:
        shoal.cli.main()
    assert caught.value.code == 2
    assert (
        capsys.readouterr().err == "shoal: The package 'odd' cannot be loaded: libodd.so: undefined symbol.\n"
    )
    assert issubclass(ImportFailedError, ImportError)
