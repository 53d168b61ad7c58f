"""The intruder pack: what the tester gets, what not, and how answers are scored."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.errors import InputError
from shoal.evidence import score_pack, write_pack
from shoal.schema import Column, Schema


@pytest.fixture
def pack(tmp_path):
    rng = np.random.default_rng(0)
    people, others = (
        pl.DataFrame(
            {
                "age": rng.integers(18, 90, 120), "income": np.round(rng.lognormal(7, 0.6, 120), 2),
                "region": rng.choice(["n", "s"], 120), "disease": rng.choice(["flu", "none"], 120),
            }
        )
        for _ in range(2)
    )  # fmt: skip
    safe = shoal.protect(people, k=4, method="mdav", sensitive="disease").frame
    write_pack(safe, people, tmp_path, control=others, sensitive="disease", people=30)
    return tmp_path, people


def test_the_tester_gets_true_but_partial_facts_and_no_secret(pack):
    folder, people = pack
    asked = pl.read_csv(folder / "tester" / "people.csv", infer_schema=False)
    key = pl.read_csv(folder / "officer" / "key.csv")
    assert asked.columns == ["person", "age", "income", "region"]
    assert (key["row"] == 0).sum() == 6
    assert key["row"].filter(key["row"] > 0).n_unique() == 24
    for told, row in zip(asked.to_dicts(), key["row"], strict=True):
        known = {name: value for name, value in told.items() if name != "person" and value is not None}
        assert len(known) == 2
        if row:
            true = people.row(row - 1, named=True)
            assert all(str(true[name]) == value for name, value in known.items())
    tester = {path.name for path in (folder / "tester").iterdir()}
    assert tester == {"protected.csv", "codebook.xml", "people.csv", "answers.csv", "READ ME.txt"}


def test_a_perfect_a_blank_and_a_wrong_tester(pack, tmp_path):
    folder, _ = pack
    key = pl.read_csv(folder / "officer" / "key.csv")
    key.select("person", "row", pl.lit(0.9).alias("confidence")).write_csv(tmp_path / "perfect.csv")
    best = score_pack(folder / "officer" / "key.csv", tmp_path / "perfect.csv")
    assert (best.right.value, best.found, best.absent_right, best.sure) == (1.0, 1.0, 6, pytest.approx(0.9))
    none = score_pack(folder / "officer" / "key.csv", folder / "tester" / "answers.csv")
    assert (none.claims, none.found) == (0, 0.0)
    key.select("person", pl.col("row") + 1).write_csv(tmp_path / "wrong.csv")
    assert score_pack(folder / "officer" / "key.csv", tmp_path / "wrong.csv").right.value == 0.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("person,row\nP001,x\n", "must be a whole number"),
        ("person,row\nP999,1\n", "people of the key. Got 'P999'"),
        ("person,row\nP001,1\nP001,2\n", "claimed once"),
        ("name,row\nP001,1\n", "lacks 'person'"),
    ],
)
def test_odd_answers_are_refused_in_one_sentence(pack, tmp_path, text, words):
    folder, _ = pack
    (tmp_path / "odd.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        score_pack(folder / "officer" / "key.csv", tmp_path / "odd.csv")


def test_nobody_can_draw_the_key_again(tmp_path):
    """Row count, number of people and the tool are known to the tester; a fixed seed would give the key away."""
    people = pl.DataFrame({"a": np.arange(300), "b": np.arange(300)[::-1].copy()})
    keys = []
    for name in ("one", "two"):
        write_pack(people, people, tmp_path / name)
        keys.append(pl.read_csv(tmp_path / name / "officer" / "key.csv")["row"].to_list())
    assert keys[0] != keys[1]


@pytest.mark.parametrize("kind", [pl.Float64, pl.String])
def test_decoys_are_written_like_everyone_else(tmp_path, kind):
    """A control file that was read with decimals must not tell who is not in the table."""
    people = pl.DataFrame({"a": np.arange(300), "b": np.arange(300)[::-1].copy()})
    others = people.with_columns((pl.col("a") + 1000).cast(kind), pl.col("b"))
    schema = Schema({"a": Column("a", kind="number"), "b": Column("b", kind="number")})
    write_pack(people, people, tmp_path, control=others, schema=schema)
    told = pl.read_csv(tmp_path / "tester" / "people.csv", infer_schema=False)
    key = pl.read_csv(tmp_path / "officer" / "key.csv")
    assert (key["row"] == 0).sum() == 10
    assert not told["a"].drop_nulls().str.contains(".", literal=True).any()


def test_a_control_group_needs_only_the_published_columns(tmp_path):
    people = pl.DataFrame(
        {"a": np.arange(60), "b": np.arange(60)[::-1].copy(), "name": [f"n{i}" for i in range(60)]}
    )
    others = pl.DataFrame({"a": np.arange(60) + 500, "b": np.arange(60)})
    write_pack(people.drop("name"), people, tmp_path, control=others, people=20)
    assert pl.read_csv(tmp_path / "tester" / "people.csv").columns == ["person", "a", "b"]


def test_a_pack_that_is_out_is_not_drawn_again(pack):
    folder, people = pack
    key = (folder / "officer" / "key.csv").read_bytes()
    with pytest.raises(InputError, match="must not hold a pack already"):
        write_pack(people, people, folder)
    assert (folder / "officer" / "key.csv").read_bytes() == key
