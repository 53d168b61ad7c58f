"""The intruder pack: what the tester gets, what not, and how answers are scored."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.errors import InputError
from shoal.evidence import score_pack, write_pack


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
