"""Suppression, generalisation and steps on a file taken in parts give what they give in memory."""

import polars as pl
import pytest

import shoal
from shoal.errors import GuaranteeError, InputError, ParameterError
from shoal.publish import ProtectionRequest, protect_file
from shoal.publish.executors.spark import Spark
from shoal.publish.pipeline import protect as run
from surveys import schema, survey

KEYS = {"columns": ["region", "roof", "sex", "relat"], "weights": "w", "sensitive": ["ill"]}


def files(tmp_path, frame, ending="parquet"):
    source, output = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    frame.write_parquet(source) if ending == "parquet" else frame.write_csv(source)
    return source, output


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Many batches of a small table."""
    from shoal.publish.executors.parts import source

    whole = source.BatchFiles.numbered

    def numbered(self, columns=None, rows=61):
        return whole(self, columns, rows)

    monkeypatch.setattr(source.BatchFiles, "numbered", numbered)


@pytest.mark.parametrize("method", ["suppress", "generalize"])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_in_parts_as_in_memory(tmp_path, method, ending):
    frame = survey().drop("home", "wage", "pension", "income")
    source, output = files(tmp_path, frame, ending)
    here = shoal.protect(frame, k=3, method=method, **KEYS)
    parts = protect_file(
        source, output, k=3, method=method, n_jobs=1, labels=str(tmp_path / "labels.csv"), **KEYS
    )
    assert parts.labels.tolist() == here.labels.tolist()
    assert parts.figures.cpu_seconds > 0
    out = pl.read_parquet(output) if ending == "parquet" else pl.read_csv(output)
    texts = [pl.all().cast(pl.String)]
    if ending == "parquet":
        assert out.equals(here.frame)
    assert out.drop("w").select(texts).equals(here.frame.drop("w").select(texts))
    assert parts.status == here.status
    assert parts.figures.at_risk == here.figures.at_risk
    assert parts.figures.information_loss == here.figures.information_loss
    assert [v.value for v in parts.verdicts] == [v.value for v in here.verdicts]
    assert parts.published.height == frame.height


@pytest.mark.parametrize("reading", ["strict", "own"])
def test_verdicts_tell_the_same_in_parts(tmp_path, reading):
    """Missing cells by column, and who is at risk where k is not demanded."""
    frame = survey().drop("home", "wage", "pension", "income")
    source, output = files(tmp_path, frame)
    asked = {"k": 3, "method": "suppress", "reading": reading, "accept_risk": True, **KEYS}
    told = []
    for found in (shoal.protect(frame, **asked), protect_file(source, output, n_jobs=1, **asked)):
        verdicts = [each.to_dict() for each in found.verdicts]
        told.append([{**each, "worst": (), "notes": ()} for each in verdicts])
    assert told[0] == told[1]
    cells = pl.read_parquet(output).select(KEYS["columns"]).null_count().row(0, named=True)
    assert told[0][0]["missing"] == {name: count for name, count in cells.items() if count}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"method": "generalize", "suppress_at_most": 0.1}, "for global recoding"),
        ({"method": "generalize", "strata": "sex"}, "'strata'"),
        ({"method": "suppress", "subsets": 2}, "for the reading 'own'"),
    ],
)
def test_options_that_exclude_each_other_are_refused_before_the_table_is_opened(tmp_path, asked, said):
    with pytest.raises(ParameterError, match=said):
        protect_file(tmp_path / "absent.parquet", tmp_path / "out.parquet", k=3, n_jobs=1, **asked)


def test_steps_in_parts_as_in_memory(tmp_path):
    frame = survey()
    source, output = files(tmp_path, frame)
    here = shoal.protect(frame, k=3, schema=schema())
    parts = protect_file(source, output, k=3, schema=schema(), n_jobs=1)
    assert pl.read_parquet(output).equals(here.frame)
    assert parts.figures.rules == here.figures.rules
    assert parts.figures.identification == here.figures.identification
    assert parts.status == here.status


def test_what_is_dropped_in_memory_is_dropped_in_parts(tmp_path):
    frame = survey().with_columns(
        wage=pl.when(pl.arange(0, pl.len()) % 9 == 0).then(None).otherwise(pl.col("wage"))
    )
    facts = schema(rules=[], wage={"on_missing": "drop"})
    source, output = files(tmp_path, frame)
    here = shoal.protect(frame, k=3, schema=facts)
    protect_file(source, output, k=3, schema=facts, n_jobs=1)
    assert pl.read_parquet(output).equals(here.frame)
    assert here.frame.height == frame["wage"].drop_nulls().len()


def test_red_writes_nothing_and_the_rest_is_refused_by_name(tmp_path):
    source, output = files(tmp_path, survey())
    asked = {"k": 3, "method": "suppress", "columns": ["roof", "sex"], "n_jobs": 1}
    with pytest.raises(GuaranteeError, match="Status red"):
        protect_file(source, output, **asked)
    assert not output.exists()
    with pytest.raises(ParameterError, match="'order'"):
        protect_file(source, output, order="shuffle", **asked)
    with pytest.raises(ParameterError, match="'labels'"):
        run(ProtectionRequest(k=3, method="suppress", labels="l.csv"), Spark(source, output))
    with pytest.raises(InputError, match="GB allowed"):
        protect_file(source, output, memory=1000, **asked)
    assert not output.exists()


@pytest.mark.parametrize("method", ["generalize", "suppress"])
def test_missing_cells_follow_the_policy_of_truthful_methods(method):
    cells = [None, *"aabb", *"aabb" * 4, None, None]
    frame = pl.DataFrame({"town": cells})
    asked = {"method": method, "k": 2}
    for policy in (None, "category"):
        found = shoal.protect(frame, **asked, on_missing=policy)
        assert found.frame["town"].null_count() >= 3
        assert "count as a value of their own: 'town' (3)" in " ".join(found.notes)
    dropped = shoal.protect(frame, **asked, on_missing="drop")
    assert dropped.frame.height == frame.height - 3
    assert "Rows with missing cells that were dropped: 3." in dropped.notes
    with pytest.raises(InputError, match=r"No cell may be missing .* 'town' \(3\)"):
        shoal.protect(frame, **asked, on_missing="error")
    with pytest.raises(ParameterError, match="makes up no cells"):
        shoal.protect(frame, **asked, on_missing="impute")
