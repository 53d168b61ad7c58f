"""One command is built where one is asked for, and all of them where that cannot be told."""

from __future__ import annotations

import pytest

from shoal.cli import _commands

app = _commands.app
NAMES = [*map(_commands._named, app.registered_commands), *(each.name for each in app.registered_groups)]


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_built_alone(name):
    alone = _commands._asked([name, "--help"])
    assert len(alone.registered_commands) + len(alone.registered_groups) == 1
    assert alone.registered_callback is app.registered_callback


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["prot"], ["", "protect"]])
def test_all_are_built_otherwise(words):
    assert _commands._asked(words) is app
