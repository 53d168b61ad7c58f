"""The request: checked once, written as a command and as Python, and read back the same."""

from __future__ import annotations

import inspect
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.errors import InputError, ParameterError, SchemaError
from shoal.publish import ProtectionRequest, protect, protect_file
from shoal.publish.executors.memory import Memory
from shoal.publish.executors.parts import Parts
from shoal.publish.fields import joined, split
from shoal.publish.request import options
from shoal.schema import Column, Schema

NAMES = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    min_size=1,
    max_size=4,
    unique=True,
)


@given(NAMES)
def test_names_read_back_as_written(names):
    assert list(split(joined(names))) == names


@given(
    k=st.integers(2, 50),
    l=st.none() | st.integers(2, 9),
    t=st.none() | st.floats(0, 1),
    leave=NAMES,
    order=st.sampled_from(["keep", "shuffle"]),
    accept_risk=st.booleans(),
    seed=st.integers(0, 9),
)
def test_a_request_is_read_back_from_its_dict_and_its_command(k, l, t, leave, order, accept_risk, seed):
    asked = ProtectionRequest(
        k=k, l=l, t=t, leave=leave, order=order, accept_risk=accept_risk, random_state=seed, method="mdav"
    )
    assert ProtectionRequest.from_dict(asked.to_dict()) == asked
    words = shlex.split(asked.to_command("in.csv", "out.csv"))
    assert words[:7] == ["shoal", "protect", "in.csv", "-k", str(k), "-o", "out.csv"]
    flags = {option.flag: name for name, option in options().items()}
    told: dict[str, str] = {}
    rest = iter(words[7:])
    for word in rest:
        name = flags[word]
        told[name] = "on" if options()[name].kind == "flag" else next(rest)
    assert ProtectionRequest.from_texts(told | {"k": str(k)}) == asked


def test_a_schema_goes_along(tmp_path):
    schema = Schema({"age": Column("age", "quasi", bounds=(0, 110))}, id="survey")
    asked = ProtectionRequest(schema=schema)
    assert ProtectionRequest.from_dict(asked.to_dict()).schema == schema
    path = tmp_path / "s.toml"
    path.write_text(schema.to_toml())
    named = ProtectionRequest(schema=path)
    assert named.schema == schema
    assert f"--schema {path}" in named.to_command()
    assert ProtectionRequest(schema={"columns": {"age": {"role": "quasi"}}}).schema.names("quasi") == ["age"]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"k": 1}, ParameterError, "'k' of protect must be an int in"),
        ({"k": True}, ParameterError, "'k' of protect"),
        ({"t": 2.0}, ParameterError, "'t' of protect"),
        ({"order": "any"}, ParameterError, "'order' of protect must be one of 'keep', 'shuffle'"),
        ({"leave": 3.5}, ParameterError, "'leave' of protect must be names"),
        ({"leave": ["a", "a"]}, ParameterError, "names of columns, each once"),
        (
            {"leave": "a", "columns": "a"},
            InputError,
            "A column has one role. 'a' was asked for as quasi and as leave",
        ),
        ({"memory": "lots"}, ParameterError, "'memory' must be a size"),
        ({"accept_risk": "yes"}, ParameterError, "'accept_risk' of protect"),
        ({"schema": 3}, SchemaError, "schema"),
        ({"schema": "absent.toml"}, SchemaError, "No schema file"),
        ({"suppress_at_most": 7}, ParameterError, "'suppress_at_most' of protect"),
    ],
)
def test_what_is_not_allowed_is_one_sentence(fields, error, message):
    with pytest.raises(error, match=message) as caught:
        ProtectionRequest(**fields)
    assert "\n" not in str(caught.value)


def test_unknown_fields_are_named():
    with pytest.raises(ParameterError, match="Got 'colour'"):
        ProtectionRequest.from_dict({"colour": "red"})
    with pytest.raises(ParameterError, match="'k' of protect must be a whole number. Got 'five'"):
        ProtectionRequest.from_texts({"k": "five"})


def test_every_field_is_an_argument_and_an_option():
    help_text = CliRunner().invoke(app, ["protect", "--help"], env={"COLUMNS": "200"}).stdout
    arguments = inspect.signature(protect).parameters
    for name, option in options().items():
        assert (name in arguments) == option.python or name == "k"
        assert not option.flag or option.flag in help_text, name
        assert option.help
    assert set(options()) <= set(inspect.signature(protect_file).parameters)
    assert [
        each for each in arguments if arguments[each].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ] == ["frame", "k"]
    assert "leave" in protect.__doc__


@pytest.mark.parametrize(
    ("executor", "fields", "named"),
    [
        (Memory(None), {"memory": "1GB"}, "'memory'"),
        (Memory(None), {"resume": True}, "'resume'"),
        (Memory(None), {"engine": "local"}, "'engine'"),
        (Parts("in.parquet", shoal.io._files.Path("out.parquet")), {"certify": True}, "'certify'"),
        (Parts("in.parquet", shoal.io._files.Path("out.parquet")), {"keep_best": True}, "'keep_best'"),
    ],
)
def test_an_executor_refuses_by_name_what_it_cannot_honour(executor, fields, named):
    with pytest.raises(ParameterError, match=named):
        executor.refuse(ProtectionRequest(**fields))


@pytest.mark.parametrize(
    "fields",
    [{"recoding": "local"}, {"suppress_at_most": 0.1}, {"reading": "own"}, {"hierarchies": "levels"}],
)
def test_fields_of_other_methods_are_refused_by_name(fields):
    import polars as pl

    name = next(iter(fields))
    with pytest.raises(ParameterError, match=name):
        protect(pl.DataFrame({"x": [1, 2, 3, 4]}), 2, **({"method": "mdav"} | fields))
