"""One command is built where one is asked for, and all of them where that cannot be told."""

from __future__ import annotations

import pytest

from shoal import cli

NAMES = [*map(cli._named, cli.app.registered_commands), *(each.name for each in cli.app.registered_groups)]


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_built_alone(name):
    alone = cli._asked([name, "--help"])
    assert len(alone.registered_commands) + len(alone.registered_groups) == 1
    assert alone.registered_callback is cli.app.registered_callback


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["prot"], ["", "protect"]])
def test_all_are_built_otherwise(words):
    assert cli._asked(words) is cli.app
