"""Edit rules in every kind of run: one method in memory, in parts, truthful methods."""

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.errors import GuaranteeError, SchemaError
from shoal.publish import protect_file
from shoal.publish.executors import parts
from shoal.rules import KeptRule, added

RULES = [
    {"equal": "income = wage + pension"},
    {"zero": "pension"},
    {"integer": "children"},
    {"impossible": "age < 15 and status = 'married'"},
    {"range": "0 <= age <= 100"},
]
SCHEMA = {
    "columns": {
        "age": {"kind": "number"},
        "status": {"kind": "category"},
        "children": {"kind": "number"},
        "wage": {"kind": "number"},
        "pension": {"kind": "number"},
        "income": {"kind": "number"},
    },
    "rules": RULES,
}


def people(n=300, seed=1):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, n)
    wage = rng.lognormal(3, 1, n).round(1)
    pension = np.where(rng.random(n) < 0.5, 0.0, rng.lognormal(2, 1, n).round(1))
    return pl.DataFrame(
        {
            "age": age, "status": np.where(age < 15, "single", rng.choice(["single", "married"], n)),
            "children": rng.integers(0, 5, n), "wage": wage, "pension": pension, "income": wage + pension,
        }
    )  # fmt: skip


def holds(out, frame=None):
    assert (out["income"] - out["wage"] - out["pension"]).abs().max() < 1e-6
    assert (out["children"] == out["children"].round()).all()
    assert out.filter((pl.col("age") < 15) & (pl.col("status") == "married")).height == 0
    if frame is not None:
        assert (out["pension"].filter(frame["pension"] == 0) == 0).all()


def test_rules_of_a_plain_run(tmp_path):
    frame = people()
    done = shoal.protect(frame, k=4, method="mdav", schema=SCHEMA)
    holds(done.frame, frame)
    assert done.frame.group_by(frame.columns).len()["len"].min() >= 4
    told = {each.kind: each.to_dict() for each in done.figures.rules}
    assert all(each["broken_after"] == 0 for each in told.values())
    assert told["integer"]["how"] == "repair"
    assert told["range"]["how"] == "construction"
    # Records with and without a zero are grouped apart, so that nobody's pension becomes zero.
    assert told["zero"]["how"] == "held"
    assert done.frame["pension"].sum() == pytest.approx(frame["pension"].sum())
    done.report(tmp_path / "r.html")
    assert "by construction" in (tmp_path / "r.html").read_text(encoding="utf-8")
    frame.write_parquet(tmp_path / "in.parquet")
    filed = protect_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", k=4, method="mdav", schema=SCHEMA, n_jobs=1
    )
    out = pl.read_parquet(tmp_path / "out.parquet")
    holds(out, frame)
    assert out.equals(done.frame)
    assert filed.figures.rules == done.figures.rules
    assert filed.notes == done.notes


def test_rules_hold_over_several_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "part_rows", lambda *_: 100)
    frame = people(400)
    frame.write_parquet(tmp_path / "in.parquet")
    wanted = {"schema": SCHEMA | {"rules": [*RULES, {"order": "wage <= 0.8 * income + 1"}]}, "method": "mdav"}
    done = protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", k=4, n_jobs=1, **wanted)
    assert done.parts > 2
    out = pl.read_parquet(tmp_path / "out.parquet")
    holds(out, frame)
    assert (out["pension"] == 0).sum() == (frame["pension"] == 0).sum()
    assert (out["wage"] <= 0.8 * out["income"] + 1 + 1e-6).all()
    assert out.group_by(out.columns).len()["len"].min() >= 4
    wanted["schema"] |= {"rules": [{"zero": "pension"}, {"range": "pension >= 1"}]}
    with pytest.raises(GuaranteeError, match="'pension >= 1' cannot be kept"):
        protect_file(tmp_path / "in.parquet", tmp_path / "none.parquet", k=4, n_jobs=1, **wanted)
    assert not (tmp_path / "none.parquet").exists()


def test_truthful_methods_repair_nothing():
    frame = people().select("age", "status")
    schema = {"columns": {"age": {}, "status": {"kind": "category"}}, "rules": RULES[3:]}
    done = shoal.protect(frame, k=4, method="generalize", schema=schema)
    assert [each.how for each in done.figures.rules] == ["held", "held"]
    wrong = frame.with_columns(pl.lit("married").alias("status"))
    with pytest.raises(GuaranteeError, match="cannot be kept"):
        shoal.protect(
            wrong, k=4, method="suppress", schema=schema | {"rules": [{"impossible": "status = 'married'"}]}
        )


def test_contradictions_are_refused_before_the_work():
    rules = [{"range": "age <= 5"}, {"range": "age >= 6"}]
    with pytest.raises(SchemaError, match="No record can keep the rules 'age <= 5' and 'age >= 6' together"):
        shoal.protect(people(), k=4, schema=SCHEMA | {"rules": rules})


def test_a_zero_that_stays_is_not_moved_by_another_rule():
    frame = people().with_columns(income=pl.col("wage"))
    schema = SCHEMA | {"rules": [{"zero": "pension"}, {"range": "pension >= 1"}]}
    with pytest.raises(GuaranteeError, match="'pension >= 1' cannot be kept"):
        shoal.protect(frame, k=4, method="mdav", schema=schema)
    schema = SCHEMA | {"rules": [{"zero": "pension"}, {"order": "wage <= pension + 5"}]}
    done = shoal.protect(frame, k=4, method="mdav", schema=schema)
    assert (done.frame["pension"].filter(frame["pension"] == 0) == 0).all()
    assert (done.frame["wage"] <= done.frame["pension"] + 5 + 1e-6).all()
    assert done.frame.group_by(frame.columns).len()["len"].min() >= 4
    assert "records of the input broke it" in " ".join(done.notes)


def test_repair_of_a_step_keeps_groups_with_a_zero_alike():
    frame = people()
    steps = [
        {"method": "mdav", "columns": frame.columns[2:]},
        {"method": "suppress", "columns": ["age", "status"], "within": []},
    ]
    rules = [*RULES, {"order": "wage <= 0.8 * income + 1"}]
    schema = SCHEMA | {"rules": rules}
    done = shoal.protect(frame, k=4, schema=schema, steps=steps, accept_risk=True)
    holds(done.frame, frame)
    assert done.frame.group_by(frame.columns[2:]).len()["len"].min() >= 4


def test_a_rule_across_steps_that_group_apart_says_what_to_do():
    frame = people()
    steps = [
        {"method": "suppress", "columns": ["age", "status"]},
        {"method": "mdav", "columns": ["wage", "children"]},
        {"method": "mdav", "columns": ["pension", "income"]},
    ]
    with pytest.raises(
        GuaranteeError, match=r"grouped in different steps \(wage; pension, income\).*in one step"
    ):
        shoal.protect(frame, k=4, schema=SCHEMA, steps=steps, accept_risk=True)


@pytest.mark.parametrize("role", ["leave", "sensitive"])
def test_rules_on_columns_that_stay_are_kept_and_counted_in_several_parts(tmp_path, monkeypatch, role):
    from shoal.publish.executors import parts

    monkeypatch.setattr(parts, "part_rows", lambda *_: 100)
    rng = np.random.default_rng(0)
    wage, pension = rng.integers(10, 90, 400), rng.choice([0, 20, 40], 400)
    frame = pl.DataFrame({"wage": wage, "pension": pension, "income": wage + pension, "cap": wage + 200})
    frame.write_parquet(tmp_path / "in.parquet")
    rules = [{"equal": "income = wage + pension"}, {"order": "wage <= cap"}, {"integer": "wage"}]
    asked = {"columns": {"cap": {"role": role}}, "rules": rules}
    done = protect_file(
        tmp_path / "in.parquet",
        tmp_path / "out.parquet",
        k=3,
        method="mdav",
        schema=asked,
        accept_risk=True,
        n_jobs=1,
    )
    assert done.parts > 1
    assert [each.how for each in done.figures.rules] == ["repair", "held", "repair"]
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert (out["income"] - out["wage"] - out["pension"]).abs().max() < 1e-9
    assert (out["wage"] == out["wage"].round()).all()
    assert sum(rule.repaired for rule in done.figures.rules) > 0


def test_rules_of_parts_are_added():
    one = KeptRule("a = b", "equal", 1, 0, 0, "construction")
    other = KeptRule("a = b", "equal", 2, 3, 0, "repair")
    assert added([(one,), (other,)]) == (KeptRule("a = b", "equal", 3, 3, 0, "repair"),)
    assert added([(one,), (one,)])[0].how == "construction"
    assert added([]) == added([(), ()]) == ()
