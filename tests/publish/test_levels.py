"""What a frame or a file carries beside its cells tells nothing that the cells do not."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import shoal
from shoal.cli import app

N = 40
TOWNS = ["ash", "birch", "cedar", "Farville"]  # one person lives in Farville
ILLS = ["cold", "flu", "rare"]  # one person has the rare one; a row that is dropped
ASKED = {"k": 4, "sensitive": "ill", "on_missing": "drop", "accept_risk": True}


def cells() -> dict:
    """A person with a town of their own, and a row that is dropped with the only cell of its kind."""
    rng = np.random.default_rng(0)
    town, ill = rng.choice(TOWNS[:3], N).tolist(), rng.choice(ILLS[:2], N).tolist()
    town[7], ill[3] = "Farville", "rare"
    pay = rng.integers(1000, 2000, N).astype(float).tolist()
    pay[3] = None
    return {"age": rng.integers(20, 60, N).astype(float), "town": town, "pay": pay, "ill": ill}


def of_pandas(*, ordered: bool) -> pd.DataFrame:
    """Categories with levels, a word beside the table, and a name of its numbers."""
    frame = pd.DataFrame(cells())
    for name, levels in (("town", TOWNS), ("ill", ILLS)):
        frame[name] = pd.Categorical(frame[name], categories=levels, ordered=ordered)
    frame.attrs["source"] = "ward of Dr. Far"
    return frame.rename_axis(index="ward of Dr. Far")


def of_arrow() -> pa.Table:
    """Dictionaries, and words in the schema."""
    table = pa.table({name: pa.array(each, from_pandas=True) for name, each in cells().items()})
    for name in ("town", "ill"):
        at = table.schema.get_field_index(name)
        coded = table.column(name).combine_chunks().dictionary_encode()
        table = table.set_column(at, pa.field(name, coded.type, metadata={"by": "Dr. Far"}), coded)
    return table.replace_schema_metadata({"by": "Dr. Far"})


def of_enum() -> pl.DataFrame:
    """Columns whose type lists all levels."""
    return pl.DataFrame(cells(), schema_overrides={"town": pl.Enum(TOWNS), "ill": pl.Enum(ILLS)})


def beside(frame) -> str:
    """All that a frame tells beside its cells."""
    if isinstance(frame, pd.DataFrame):
        levels = [frame[name].cat.categories.tolist() for name in frame if frame[name].dtype == "category"]
        return f"{frame.attrs} {frame.index.name} {levels}"
    if isinstance(frame, pl.DataFrame):
        frame = frame.to_arrow()
    coded = [each for each in frame.columns if pa.types.is_dictionary(each.type)]
    levels = [chunk.dictionary.to_pylist() for each in coded for chunk in each.chunks]
    return f"{frame.schema.metadata} {[each.metadata for each in frame.schema]} {levels}"


@pytest.mark.parametrize("method", ["mdav", "generalize", "suppress"])
@pytest.mark.parametrize(
    "frame",
    [of_pandas(ordered=False), of_pandas(ordered=True), of_arrow(), of_enum()],
    ids=["pandas", "ordered", "arrow", "enum"],
)
def test_only_levels_that_occur_are_published(frame, method):
    result = shoal.protect(frame, method=method, **ASKED)
    told = beside(result.frame)
    assert "Far" not in told
    assert "rare" not in told


@pytest.mark.parametrize("method", ["mdav", "generalize", "suppress"])
def test_cells_of_ordered_categories_are_those_that_were_checked(method):
    plain = shoal.protect(pl.DataFrame(cells()), method=method, **ASKED).frame
    frame = shoal.protect(of_pandas(ordered=True), method=method, **ASKED).frame
    enum = shoal.protect(of_enum(), method=method, **ASKED).frame
    if method != "mdav":  # groups of ordered categories are others
        wanted = plain["town"].to_list()
        assert [None if pd.isna(each) else each for each in frame["town"]] == wanted
        assert enum["town"].cast(pl.String).to_list() == wanted
    assert frame["ill"].tolist() == plain["ill"].to_list()
    assert frame["ill"].cat.ordered
    assert enum["ill"].dtype == pl.Enum(ILLS[:2])


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("method", ["mdav", "suppress"])
@pytest.mark.parametrize("memory", [[], ["--memory", "100MB"]], ids=["memory", "parts"])
def test_files_list_no_other_levels(tmp_path, ending, method, memory):
    of_enum().write_parquet(tmp_path / "in.parquet")
    out = tmp_path / f"out.{ending}"
    said = CliRunner().invoke(
        app,
        f"protect {tmp_path}/in.parquet -k 4 -o {out} --method {method} --sensitive ill --on-missing drop "
        f"--accept-risk {' '.join(memory)}".split(),
    )
    assert said.exit_code == 0, said.output
    data = out.read_bytes()
    assert b"Farville" not in data
    assert b"rare" not in data


@pytest.mark.parametrize("ending", ["sav", "dta"])
@pytest.mark.parametrize("method", ["mdav", "suppress"])
def test_labels_of_values_that_are_gone_are_not_written(tmp_path, ending, method):
    """Stata's `encode` makes a label of every text that occurs."""
    pyreadstat = pytest.importorskip("pyreadstat")
    codes = {
        name: pd.Categorical(cells()[name], categories=levels).codes
        for name, levels in (("town", TOWNS), ("ill", ILLS))
    }
    frame = pd.DataFrame(cells()).assign(**codes)
    labels = {name: dict(enumerate(levels)) for name, levels in (("town", TOWNS), ("ill", ILLS))}
    write = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta}[ending]
    write(frame, str(tmp_path / f"in.{ending}"), variable_value_labels=labels)
    out = tmp_path / f"out.{ending}"
    words = f"protect {tmp_path}/in.{ending} -k 4 -o {out} --method {method} --sensitive ill --on-missing drop --accept-risk"
    said = CliRunner().invoke(app, words.split())
    assert said.exit_code == 0, said.output
    read = {"sav": pyreadstat.read_sav, "dta": pyreadstat.read_dta}[ending]
    found, meta = read(str(out))
    assert meta.variable_value_labels["ill"] == {0: "cold", 1: "flu"}
    assert set(meta.variable_value_labels["town"]) == set(found["town"].dropna())
    assert "Labels of values that occur in no row are not written" in said.output
    assert b"Farville" not in out.read_bytes()
