"""The methods `suppress` and `generalize` of `protect`: from Python, from the command line, with files of SPSS."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.errors import GuaranteeError, InputError, ParameterError
from shoal.io import read_source, write_table


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
    assert done.figures.certificate["bound"] <= done.figures.information_loss + 1e-9
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
    with pytest.raises(InputError, match="strata"):
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
    from shoal.io import Source

    write_table(frame, source, Source(frame, ".sav", (), labels))
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
