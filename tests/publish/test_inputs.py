"""Tables as users have them: every kind works, or is refused in one sentence; the schema file is read once."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import shoal
from shoal import risk
from shoal.cli import app
from shoal.errors import InputError
from shoal.publish.stages.roles import RESERVED
from shoal.schema import Schema

RNG = np.random.default_rng(0)
BASE = {"a": RNG.normal(size=40), "b": RNG.choice(["x", "y"], 40)}


class Capsule:
    """A table that gives itself as Arrow columns and is nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (pd.DataFrame({0: BASE["a"], 1: BASE["b"]}), pd.DataFrame),
        (pd.DataFrame(BASE).convert_dtypes(), pd.DataFrame),
        (pd.DataFrame(BASE).astype({"b": "category"}), pd.DataFrame),
        (pl.DataFrame(BASE), pl.DataFrame),
        (pl.LazyFrame(BASE), pl.LazyFrame),
        (pl.DataFrame(BASE, schema_overrides={"b": pl.Enum(["x", "y"])}), pl.DataFrame),
        (pl.DataFrame(BASE).with_columns(pl.col("a").cast(pl.Decimal(12, 4))), pl.DataFrame),
        (pa.table(BASE), pa.Table),
        (Capsule(pa.table(BASE)), pa.Table),
    ],
)
def test_every_kind_of_table_gives_the_same(frame, kind):
    expected = shoal.protect(pl.DataFrame(BASE), 4, method="mdav").frame.to_numpy()
    made = shoal.protect(frame, 4, method="mdav").frame
    assert isinstance(made, kind)
    table = made.collect() if isinstance(made, pl.LazyFrame) else made
    rows = pl.DataFrame(table.rename(columns=str) if kind is pd.DataFrame else table)
    np.testing.assert_allclose(rows[:, 0].to_numpy(), expected[:, 0].astype(float), atol=1e-3)
    assert rows[:, 1].cast(pl.String).to_list() == expected[:, 1].tolist()
    if kind is pd.DataFrame:
        assert list(table.columns) == list(frame.columns)
        assert str(table.dtypes.iloc[1]) == str(frame.dtypes.iloc[1])
    elif isinstance(frame, pl.DataFrame):
        assert made["b"].dtype == frame["b"].dtype


def test_integer_names_name_columns():
    frame = pd.DataFrame({0: BASE["a"], 1: ["same"] * 40, 2: BASE["a"] ** 2, 3: [2.0] * 40})
    made = shoal.protect(frame, 4, method="mdav", leave=[1], weights=3)
    assert (made.roles.left, made.roles.weight) == (("1",), "3")
    assert list(made.frame.columns) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "frame", [np.ones((9, 2)), {"a": [1, 2]}, [[1, 2]], None, "t.csv", pl.Series([1, 2])]
)
def test_what_is_no_table_is_one_sentence(frame):
    with pytest.raises(InputError, match="must be a pandas, polars or pyarrow table") as caught:
        shoal.protect(frame, 2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "cells",
    [
        pl.Series([[1]] * 40),
        pl.Series([b"x"] * 40),
        pl.Series(range(40)).cast(pl.Duration("us")),
        pl.Series(range(40)).cast(pl.Time),
        pl.Series([{"q": 1}] * 40),
    ],
)
def test_cells_that_cannot_be_aggregated_are_left_only_if_named(cells):
    frame = pl.DataFrame(BASE).with_columns(cells.alias("odd"))
    with pytest.raises(InputError, match="Column 'odd' holds cells of type .*, which cannot be aggregated"):
        shoal.protect(frame, 4, method="mdav")
    made = shoal.protect(frame, 4, method="mdav", leave="odd", accept_risk=True)
    assert made.frame["odd"].equals(frame["odd"])


def test_a_weight_of_zero_is_refused_everywhere():
    frame = pl.DataFrame({"a": BASE["a"], "w": [0.0] + [2.0] * 39})
    with pytest.raises(InputError, match=r"'w' must be above 0, .*Got 0 as the least"):
        shoal.protect(frame, 4, method="mdav", weights="w")
    with pytest.raises(InputError, match=r"'w' must be above 0, .*Got 0 as the least"):
        risk.measure(frame, "a", weights="w")
    light = frame.with_columns(w=pl.Series([0.01] + [2.0] * 39))
    assert shoal.protect(light, 4, method="mdav", weights="w").frame["w"].sum() == pytest.approx(78.01)


def test_results_are_values_that_show_themselves_and_can_be_sent():
    made = shoal.protect(pl.DataFrame(BASE), 4, method="mdav")
    again = pickle.loads(pickle.dumps(made))
    assert again.to_dict() == made.to_dict()
    assert json.loads(json.dumps(made.to_dict()))["status"] == "green"
    assert "status green" in made._repr_html_()
    compared = shoal.compare(pl.DataFrame(BASE), k=[3], methods=["mdav"])
    assert pickle.loads(pickle.dumps(compared)).to_dict() == compared.to_dict()
    shown = compared._repr_html_()
    assert "mdav" in shown
    assert "<table" in shown


@pytest.mark.parametrize(
    "words",
    [
        ["protect", "t.csv", "-k", "4", "-o", "o.csv", "--method", "mdav"],
        ["protect", "t.csv", "-k", "4", "-o", "o.csv", "--method", "mdav", "--memory", "1GB", "--jobs", "1"],
        ["compare", "t.csv", "-k", "4", "--methods", "mdav"],
        ["check", "t.csv", "--original", "t.csv"],
    ],
)
def test_the_schema_file_is_read_once(words, tmp_path, monkeypatch):
    pl.DataFrame(BASE).write_csv(tmp_path / "t.csv")
    (tmp_path / "s.toml").write_text(
        '[file]\nseparator = ","\n[columns.a]\nrole = "quasi"\n[columns.b]\nrole = "quasi"\nkind = "category"\n'
    )
    monkeypatch.chdir(tmp_path)
    opened = []
    read = Schema.from_toml.__func__
    monkeypatch.setattr(
        Schema, "from_toml", classmethod(lambda cls, path: opened.append(path) or read(cls, path))
    )
    done = CliRunner().invoke(app, [*words, "--schema", "s.toml"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert len(opened) == 1


@pytest.mark.parametrize("name", ["rows", "len", "count", "value", "literal", "k", "group"])
def test_a_column_may_have_any_name_that_is_not_our_own(name):
    """A sensitive column called `rows` or a stratum called `len` ended in a traceback, as did an attack on a `count`."""
    frame = pl.DataFrame(
        {"a": BASE["a"], "b": RNG.choice([1.0, 2.0], 40), name: RNG.choice(["x", "y", "z"], 40)}
    )
    for asked in ({"sensitive": name, "l": 2, "t": 0.9}, {"strata": name}, {"leave": name}, {}):
        done = shoal.protect(frame, k=3, method="mdav", accept_risk=True, **asked)
        assert done.frame.columns == frame.columns
        assert set(done.frame[name]) <= {"x", "y", "z"}
        shoal.attack(done.frame, frame, control=frame.head(10).with_columns(pl.col("a") + 9), targets=10)
        assert "<table" in done._repr_html_()


def test_names_of_the_stages_own_columns_are_refused():
    """A column called `__row__` was published as the numbers of the rows, and nothing said so."""
    frame = pl.DataFrame(BASE)
    for name in ("__row__", "__raw__a", "__index__"):
        with pytest.raises(InputError, match=f"Column names that begin like '{name}' are the program's own"):
            shoal.protect(frame.rename({"b": name}), k=3, method="mdav")
    with pytest.raises(InputError, match=r"Every column must have a name. Column 2 has none."):
        shoal.protect(frame.rename({"b": ""}), k=3, method="mdav")
    assert shoal.protect(frame.rename({"b": "__index_level_0__"}), k=3, method="mdav").status == "green"


def test_all_names_of_the_stages_own_columns_are_known():
    root = Path(shoal.__file__).parent
    text = "".join(
        path.read_text() for room in ("publish", "masking") for path in (root / room).rglob("*.py")
    )
    assert set(re.findall(r'"__([a-z]+)__"', text)) - {"signature"} <= set(RESERVED)


def test_days_beyond_the_calendar_of_python_are_days():
    """The check of what is published showed its smallest classes, whose days Python cannot print, as a traceback."""
    days = pl.Series("day", [2_932_897 + i for i in range(12)], dtype=pl.Int32).cast(pl.Date)
    done = shoal.protect(days.to_frame(), k=3, method="mdav")
    assert done.status == "green"
    assert done.frame["day"].n_unique() == 4


def test_weights_whose_sum_is_infinite_are_refused():
    frame = pl.DataFrame(BASE).with_columns(w=pl.lit(1e308))
    with pytest.raises(
        InputError, match=r"must be numbers whose sum can be told. Got 1e\+308 as the largest"
    ):
        shoal.protect(frame, k=3, method="mdav", weights="w")
