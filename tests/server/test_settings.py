"""Every setting is declared once, and the page of settings says what the declaration says."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from shoal.datasets import DATASETS
from shoal.errors import ParameterError
from shoal.server.config import Config, Oidc
from shoal.server.served import ServedDataset
from shoal.server.settings import made

PAGE = Path(__file__).parents[2] / "docs" / "server-settings.md"


def table(kind: type) -> str:
    """The rows of a table of settings."""
    rows = ["| Setting | Default | What it is |", "|---|---|---|"]
    for each in dataclasses.fields(kind):
        field = kind.__pydantic_fields__[each.name]
        assert isinstance(field, FieldInfo)
        if each.name not in ("datasets", "oidc"):
            default = field.get_default(call_default_factory=True)
            given = "" if field.is_required() or default is None else f"`{in_toml(default)}`"
            rows.append(f"| `{each.name}` | {given} | {field.description} |")
    return "\n".join(rows)


def in_toml(default: object) -> str:
    """A default as it would be written in the file."""
    return json.dumps(default)


@pytest.mark.parametrize("kind", [Config, Oidc, ServedDataset])
def test_the_page_of_settings_is_the_declaration(kind):
    assert table(kind) in PAGE.read_text(), table(kind)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"port": 0}, "'port' in x must be greater than or equal to 1. Got 0."),
        ({"port": True}, "'port' in x must be a valid integer. Got True."),
        ({"publish": 1}, "'publish' in x must be a valid boolean. Got 1."),
        ({"slot_seconds": float("nan")}, "'slot_seconds' in x must be"),
        ({"anchor_command": "sh"}, "'anchor_command' in x must be a valid tuple. Got 'sh'."),
        ({"no": 1}, "x may have accounts, "),
    ],
)
def test_a_wrong_setting_is_one_sentence(facts, says):
    with pytest.raises(ParameterError) as caught:
        made(Config, facts, "x")
    assert str(caught.value).startswith(says)


def test_settings_that_are_changed_are_checked():
    assert Config().changed(port=1234, host=None).port == 1234
    with pytest.raises(ParameterError, match="'port'"):
        Config().changed(port=-1)


def test_the_settings_on_the_page_of_operation_are_ones_that_work(tmp_path):
    page = PAGE.with_name("server-operations.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert ["[server]" in blocks[0], "[oidc]" in blocks[1]] == [True, True]
    source = DATASETS["survey"].path
    for file in (source, source.with_suffix(".toml")):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "oidc.secret").write_text("x")
    data = '[datasets.survey]\nfile = "survey.csv"\nschema = "survey.toml"\nbudget = 1.0\n'
    (tmp_path / "shoal.toml").write_text("\n".join([*blocks, data]))
    config = Config.from_toml(tmp_path / "shoal.toml")
    assert config.trusted_proxies == ("10.0.0.7", "10.1.0.0/16")
    assert config.oidc.secret() == "x"
    assert set(config.oidc.roles.values()) == {"owner", "analyst", "auditor"}
