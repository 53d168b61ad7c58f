"""The methods `suppress` and `generalize` of `protect`: from Python, from the command line, with files of SPSS."""

import json
import pickle
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.errors import GuaranteeError, InputError, ParameterError, SchemaError
from shoal.io import read_source, write_table
from shoal.schema import Schema


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "job": rng.choice(["nurse", "doctor", "cook", "baker"], n, p=[0.5, 0.2, 0.2, 0.1]),
            "sex": rng.choice(["f", "m"], n),
            "w": rng.uniform(1, 50, n),
            "ill": rng.choice(["flu", "cold", "gout"], n),
        }
    )


def smallest(frame, names):
    return int(frame.group_by(names).len()["len"].min())


def test_suppress_keeps_k_and_totals():
    frame = people()
    done = shoal.protect(
        frame, k=3, method="suppress", columns=["job", "sex", "age"], weights="w", sensitive=["ill"]
    )
    out = done.frame
    assert smallest(out, ["age", "job", "sex"]) >= 3
    assert done.figures.suppressed_cells == sum(out[name].null_count() for name in ("age", "job", "sex")) > 0
    assert out["w"].sum() == pytest.approx(frame["w"].sum())
    assert done.status != "red"
    assert done.figures.certificate.bound <= done.figures.information_loss + 1e-9
    assert 0 < done.figures.certificate.seconds <= done.figures.seconds
    kept = pl.DataFrame({"a": frame["job"], "b": out["job"]}).drop_nulls()
    assert (kept["a"] == kept["b"]).all()
    assert "strict" in " ".join(done.notes)


def test_other_readings_need_consent_and_say_who_is_exposed():
    frame = people().select("job", "sex", "age")
    with pytest.raises(GuaranteeError, match="Status red"):
        shoal.protect(frame, k=3, method="suppress", columns=["job", "sex", "age"], reading="wildcard")
    done = shoal.protect(
        frame, k=3, method="suppress", columns=["job", "sex", "age"], reading="wildcard", accept_risk=True
    )
    assert "persons agree with fewer than 3" in " ".join(done.notes)


@pytest.mark.parametrize("recoding", ["local", "global"])
def test_generalize_by_the_schema(recoding, tmp_path):
    frame = people().select("age", "job", "sex", "ill")
    schema = tmp_path / "s.toml"
    schema.write_text(
        '[columns.age]\nrole = "quasi"\nkind = "number"\nbreaks = [0, 35, 65]\n'
        '[columns.job]\nrole = "quasi"\nkind = "category"\nhierarchy = [["nurse", "doctor"], ["cook", "baker"]]\n'
        '[columns.sex]\nrole = "quasi"\nkind = "category"\n[columns.ill]\nrole = "sensitive"\nkind = "category"\n',
        encoding="utf-8",
    )
    done = shoal.protect(frame, k=5, method="generalize", recoding=recoding, schema=schema, l=2)
    assert smallest(done.frame, ["age", "job", "sex"]) >= 5
    assert set(done.frame["age"].cast(pl.String)) & {"0-34", "35-64", "65+", "*"}
    assert all(verdict.holds is not False for verdict in done.verdicts)
    done.report(tmp_path / "r.html")
    assert "generalize" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_numbers_that_are_codes_get_no_intervals():
    frame = pl.DataFrame({"roof": [1, 1, 2, 2, 5, 5, 9, 9], "sex": [1, 2] * 4})
    done = shoal.protect(frame, k=4, method="generalize", columns=["roof", "sex"], labelled=["roof", "sex"])
    assert set(done.frame["roof"].cast(pl.String).drop_nulls()) <= {"1", "2", "5", "9", "*"}


def test_what_is_refused():
    frame = people()
    with pytest.raises(ParameterError, match="suppress_at_most"):
        shoal.protect(frame, method="suppress", suppress_at_most=0.1)
    with pytest.raises(ParameterError, match="reading"):
        shoal.protect(frame, method="generalize", reading="own")
    with pytest.raises(ParameterError, match="recoding"):
        shoal.protect(frame, method="mdav", recoding="local")
    with pytest.raises(InputError, match="at least that many"):
        shoal.protect(frame[:3], k=5, method="suppress")
    with pytest.raises(ParameterError, match="strata"):
        shoal.protect(frame, method="generalize", strata=["sex"])


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "shoal", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_a_command_from_spss_to_spss(tmp_path):
    frame = people().select("age", "job", "sex", "ill").with_columns(sex=pl.Series([1, 2] * 100))
    labels = {
        "variable_value_labels": {"sex": {1: "f", 2: "m"}},
        "column_labels": {"sex": "sex of the person"},
    }
    source = tmp_path / "in.sav"
    from shoal.io import ReadTable

    write_table(frame, source, ReadTable(frame, ".sav", (), labels))
    folder = tmp_path / "hierarchies"
    folder.mkdir()
    (folder / "job.csv").write_text("nurse;health\ndoctor;health\ncook;food\nbaker;food\n", encoding="utf-8")
    out = tmp_path / "out.sav"
    done = run(
        "protect", source, "-k", 5, "-o", out, "--method", "generalize", "--hierarchies", folder, "--sensitive",
        "ill", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["method"] == "generalize"
    assert facts["smallest_group"] >= 5
    assert facts["suppressed_records"] == 0
    again = read_source(out)
    assert smallest(again.frame, ["age", "job", "sex"]) >= 5
    assert again.labels["column_labels"]["sex"] == "sex of the person"
    refused = run(
        "protect", source, "-k", 5, "-o", tmp_path / "x.sav", "--method", "suppress", "--recoding", "local"
    )
    assert refused.returncode == 2
    assert "recoding" in refused.stderr


def enhanced(p, q):
    """The least beta for which a class holds the enhanced form."""
    gains = (p - q) / q
    return gains.max() if (gains <= -np.log(q) + 1e-12).all() else np.inf


@pytest.mark.parametrize("recoding", ["local", "global"])
@pytest.mark.parametrize(
    ("asked", "model", "figure"),
    [
        ({"alpha": 0.6}, "(alpha", lambda p, q: p.max()),
        ({"beta": 0.9}, "beta", lambda p, q: ((p - q) / q).max()),
        ({"enhanced_beta": 2.0}, "enhanced", enhanced),
        ({"delta_disclosure": 1.0}, "delta-disclosure", lambda p, q: np.abs(np.log(p / q)).max()),
        ({"entropy_l": 2.4}, "entropy", lambda p, q: -np.exp(-(p[p > 0] * np.log(p[p > 0])).sum())),
    ],
)
def test_conditions_on_values_hold_on_what_is_published(asked, model, figure, recoding):
    frame = people().drop("w")
    done = shoal.protect(frame, k=3, method="generalize", recoding=recoding, sensitive=["ill"], **asked)
    verdict = next(each for each in done.verdicts if each.model.startswith(model))
    assert verdict.holds
    values = sorted(frame["ill"].unique())
    q = np.array([(frame["ill"] == value).mean() for value in values])
    worst = -np.inf
    for _, rows in done.frame.group_by(["age", "job", "sex"]):
        p = np.array([(rows["ill"] == value).mean() for value in values])
        with np.errstate(divide="ignore"):
            worst = max(worst, figure(p, q))
    assert abs(worst) == pytest.approx(verdict.value)
    assert verdict.value <= verdict.limit + 1e-9 or model == "entropy"
    assert type(done.request).from_dict(done.request.to_dict()) == done.request
    with pytest.raises(ParameterError, match="only the method generalize takes it"):
        shoal.protect(frame, k=3, sensitive=["ill"], **asked)
    with pytest.raises(ParameterError, match="only the method generalize takes it"):
        shoal.protect(frame, k=3, method="suppress", sensitive=["ill"], **asked)
    with pytest.raises(InputError, match="need a sensitive column"):
        shoal.protect(frame.drop("ill"), k=3, method="generalize", **asked)


def test_objectives_sets_and_subsets_are_reached():
    frame = people(90).drop("w", "ill")
    whole = {
        name: shoal.protect(
            frame, k=3, method="generalize", recoding="global", suppress_at_most=0.1, objective=name
        )
        for name in ("loss", "arx-loss", "precision", "cells")
    }
    assert whole["cells"].parameters["objective"] == "cells"
    assert len({round(each.figures.information_loss, 6) for each in whole.values()}) == 4
    sets = shoal.protect(frame, k=20, method="generalize", classes="sets")
    assert smallest(sets.frame, frame.columns) >= 20
    shown = sets.frame["job"].cast(pl.String).to_list()
    assert all(own in cell for own, cell in zip(frame["job"].to_list(), shown, strict=True))
    assert any("|" in cell for cell in shown)
    few = {"k": 3, "method": "suppress", "reading": "own", "accept_risk": True}
    two = shoal.protect(frame, subsets=2, **few)
    assert two.figures.suppressed_cells <= shoal.protect(frame, **few).figures.suppressed_cells
    with pytest.raises(ParameterError, match="reading 'own'"):
        shoal.protect(frame, k=3, method="suppress", subsets=2)
    with pytest.raises(ParameterError, match="local recoding only"):
        shoal.protect(frame, k=3, method="generalize", recoding="global", classes="sets")


@pytest.mark.parametrize("method", ["suppress", "generalize"])
def test_k_can_count_households(method):
    frame = people().drop("w", "ill").with_columns(home=pl.arange(0, 200) // 4)
    frame = frame.with_columns(pl.col("job", "sex").first().over("home"))
    done = shoal.protect(frame, k=3, method=method, households="home", count="household")
    assert smallest(done.frame.with_columns(frame["home"]).unique(), frame.columns[:3]) >= 3
    assert [each.holds for each in done.verdicts if "households" in each.model] == [True]
    plain = shoal.protect(frame, k=3, method=method, households="home")
    assert plain.figures.information_loss < done.figures.information_loss
    assert "--count household" in " ".join(plain.notes)
    with pytest.raises(InputError, match="needs their column"):
        shoal.protect(frame.drop("home"), k=3, method=method, count="household")
    with pytest.raises(InputError, match="k = 60 different values"):
        shoal.protect(frame, k=60, method=method, households="home", count="household")
    with pytest.raises(ParameterError, match="whole households"):
        shoal.protect(frame, k=3, households="home", count="household")


def test_check_demands_shares(tmp_path):
    people().drop("w").write_csv(tmp_path / "t.csv")
    line = [sys.executable, "-m", "shoal", "check", "t.csv", "--quasi", "sex", "--sensitive", "ill", "--json"]
    asked = [
        "--alpha",
        "0.9",
        "--beta",
        "0.001",
        "--enhanced-beta",
        "0.5",
        "--delta-disclosure",
        "2",
        "--entropy-l",
        "1.5",
    ]
    done = subprocess.run([*line, *asked], cwd=tmp_path, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["alpha"] < 0.9
    assert told["beta"] > 0.001
    assert told["delta_disclosure"] < 2
    assert told["enhanced_beta"] == told["beta"]
    held = {each["model"]: each["holds"] for each in told["verdicts"] if each["limit"]}
    assert [name for name, holds in held.items() if not holds] == ["beta-likeness"]
    assert len(held) == 5


def test_parents_in_a_schema_name_what_is_published(tmp_path):
    rng = np.random.default_rng(5)
    table = pl.DataFrame(
        {"job": rng.choice(["nurse", "doctor", "cook", "judge"], 60), "code": rng.choice([1, 2, 3], 60)}
    )
    (tmp_path / "s.toml").write_text(
        """[columns.job]
kind = "category"
[columns.job.hierarchy]
nurse = "health"
doctor = "health"
health = "care"
cook = "care"
judge = "law"
[columns.code]
kind = "category"
hierarchy = {1 = "low", 2 = "low", 3 = "high"}
""",
        encoding="utf-8",
    )
    schema = Schema.from_toml(tmp_path / "s.toml")
    assert Schema.from_dict(schema.to_dict()) == schema
    assert '"low"' in schema.to_toml()
    done = shoal.protect(
        table, k=20, method="generalize", schema=schema, recoding="global", suppress_at_most=0.0
    )
    assert set(done.frame["job"]) | set(done.frame["code"]) <= {
        "nurse", "doctor", "cook", "judge", "health", "care", "law", "1", "2", "3", "low", "high", "*"
    }  # fmt: skip
    up = {"columns": {"job": {"kind": "category", "hierarchy": schema.columns["job"].hierarchy, "recode": 1}}}
    recoded = shoal.protect(table.select("job"), k=2, method="mdav", schema=up).frame["job"]
    assert set(recoded) <= {"health", "care", "law"}
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ({"a": "b", "b": "a"}, "no cycle"),
        ({f"n{i}": f"n{i + 1}" for i in range(3_000)}, "at most 100 sets"),
        ({}, "parent of each"),
        ({"a": ["b"]}, "parent of each"),
    ],
)
def test_parents_that_are_no_hierarchy(parents, words):
    with pytest.raises(SchemaError, match=words):
        Schema.from_dict({"columns": {"job": {"kind": "category", "hierarchy": parents}}})
