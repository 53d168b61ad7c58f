"""Risk figures beside numerical integration, and beside what sdcMicro computes record by record."""

import json
import math
import os
import sys
from pathlib import Path

import mpmath
import numpy as np
import polars as pl
import pytest

import shoal
from shoal import measures, risk

KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def test_individual_risk_is_the_integral_at_every_size():
    """Of p t^(f-1) / (p + (1-p) t), in pieces that follow where its mass lies."""
    mpmath.mp.dps = 30
    ends = [0, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 1]
    for f in (1, 2, 3, 4, 7, 15, 16, 17, 40, 100, 1_000, 100_000, 1_000_000):
        for p in (1e-6, 1e-4, 0.01, 0.3, 0.4999, 0.5, 0.9, 1 - 1e-9, 1.0):
            expected = float(mpmath.quad(lambda t: p * t ** (f - 1) / (p + (1 - p) * t), ends))
            found = risk.posterior_risk(np.array([f]), np.array([f / p]))[0]
            assert found == pytest.approx(expected, rel=1e-9), (f, p)


def test_weights_below_one_are_taken_and_said():
    table = pl.DataFrame({"zip": ["a", "a", "b"], "w": [0.25, 0.5, 8.0]})
    found = risk.measure(table, "zip", weights="w")
    assert found.light_weights == 2
    assert found.individual[:2].tolist() == [0.5, 0.5]  # nobody else is known to be there
    assert 0 < found.individual[2] < 0.5
    assert all(math.isfinite(v) for v in found.to_dict().values() if not isinstance(v, str))


@pytest.fixture(scope="module")
def survey():
    table = pl.read_csv(_shared("sdc_survey.csv"))
    edges = [-1, 9, 19, 29, 39, 49, 59, 69, 100]
    table = table.with_columns(age_class=np.digitize(table["age"].to_numpy(), edges, right=True))
    return table, pl.read_csv(_shared("sdc_survey_risk.csv")), pl.read_csv(_shared("sdc_survey_suda.csv"))


def _shared(name):
    for folder in (os.environ.get("SHOAL_DATA"), Path(__file__).parents[3] / "shared" / "data"):
        if folder and (Path(folder) / name).exists():
            return Path(folder) / name
    pytest.skip(f"the benchmark table {name} is not here")


def test_individual_and_household_risk_equal_sdcmicro_record_by_record(survey):
    table, theirs, _ = survey
    options = {"weights": "sampling_weight", "households": "ori_hid"}
    found = risk.measure(table, KEYS, **options, formula="sdcmicro")
    np.testing.assert_allclose(found.individual, theirs["risk"].to_numpy(), rtol=1e-10)
    np.testing.assert_allclose(found.household, theirs["hier_risk"].to_numpy(), rtol=1e-10)
    assert round(found.expected_reidentifications, 2) == 10.78
    assert round(found.expected_with_households, 2) == 51.81
    exact = risk.measure(table, KEYS, **options)
    np.testing.assert_allclose(exact.individual, theirs["risk"].to_numpy(), rtol=5e-3)


@pytest.mark.parametrize(
    ("more", "below", "expected"),
    [
        ([], (157, 281, 458), 10.78),
        (["age"], (1650, 2528, 3524), 91.34),
        (["age_class"], (413, 683, 1079), 26.19),
    ],
)
def test_small_classes_and_expected_reidentifications_equal_sdcmicro(survey, more, below, expected):
    found = risk.measure(survey[0], [*KEYS, *more], weights="sampling_weight", formula="sdcmicro")
    assert tuple(found.below.values()) == below
    assert found.expected_reidentifications == pytest.approx(expected, abs=0.005)


def test_suda_and_dis_suda_equal_sdcmicro_record_by_record(survey):
    table, _, theirs = survey
    found = risk.suda(table, KEYS, sampling_fraction=0.01)
    assert found.scores.tolist() == theirs["score"].to_list()
    np.testing.assert_allclose(
        found.dis_scores, theirs["dis"].to_numpy(), rtol=2e-6
    )  # theirs in single precision
    assert round(found.dis_scores.max(), 3) == 0.678


def population(seed):
    """Class sizes of long tail, and a simple random sample."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.zipf(1.5, 60_000), 10**6)
    return codes, rng


@pytest.mark.parametrize(("fraction", "model"), [(0.05, "pitman"), (0.4, None)])
def test_population_uniqueness_comes_near_the_truth(fraction, model):
    codes, rng = population(4)
    truth = (np.unique(codes, return_counts=True)[1] == 1).sum()
    sample = codes[rng.random(codes.size) < fraction]
    found = risk.population_uniqueness(pl.DataFrame({"c": sample}), "c", sampling_fraction=fraction)
    assert model is None or found.model == model
    assert truth / 2.5 < found.uniques < 2.5 * truth


def test_population_uniqueness_of_everyone_is_known():
    codes, _ = population(5)
    truth = (np.unique(codes, return_counts=True)[1] == 1).sum()
    found = risk.population_uniqueness(pl.DataFrame({"c": codes}), "c", sampling_fraction=1.0)
    assert found.zayatz == pytest.approx(truth)
    assert found.snb == truth
    alone = risk.population_uniqueness(pl.DataFrame({"c": [1, 2, 3]}), "c", sampling_fraction=0.5)
    assert alone.pitman is None
    json.dumps(alone.to_dict(), allow_nan=False)


def test_log_linear_risk_comes_near_the_truth_where_its_model_holds():
    rng = np.random.default_rng(1)
    people = {name: np.minimum(rng.zipf(1.7, 200_000), 40) for name in "abc"}  # independent keys
    everyone = pl.DataFrame(people)
    kept = rng.random(200_000) < 0.05
    sample = everyone.filter(pl.Series(kept)).with_columns(w=pl.lit(20.0))
    sizes = everyone.group_by("a", "b", "c").len()
    inside = sample.group_by("a", "b", "c").len("f").filter(pl.col("f") == 1).join(sizes, on=["a", "b", "c"])
    found = risk.log_linear_risk(sample, ["a", "b", "c"], weights="w", order=1)
    assert found.correct_matches == pytest.approx((1 / inside["len"]).sum(), rel=0.15)
    assert found.population_uniques == pytest.approx((inside["len"] == 1).sum(), rel=0.3)
    pairs = risk.log_linear_risk(sample, ["a", "b", "c"], weights="w", order=2)
    assert pairs.correct_matches < 1.2 * found.correct_matches


def test_drisk_counts_records_and_interval_disclosure_cells():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    Y = X + rng.normal(size=X.shape) * 0.05
    near = np.abs(X - Y) <= 0.05 * Y.std(axis=0, ddof=1)
    assert measures.drisk(X, Y) == (near.sum(axis=1) >= 2).mean()
    assert measures.drisk(X, Y, outside=0) == near.all(axis=1).mean()
    assert measures.interval_disclosure(X, Y, width=0.05, kind="deviation") != measures.drisk(X, Y)


def test_check_tells_weighted_risk_and_the_table_of_small_classes(monkeypatch, capsys, tmp_path):
    table = pl.DataFrame({"a": [1, 1, 2, 3, 3, 3], "h": [1, 1, 2, 2, 3, 3], "w": [2.0, 3, 4, 1, 1, 0.5]})
    table.write_csv(tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)

    def run(*more):
        from shoal.cli import main

        words = ["shoal", "check", "t.csv", "--quasi", "a", "--weights", "w", "--households", "h", *more]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        return capsys.readouterr().out

    facts = json.loads(run("--json"))
    expected = risk.measure(table, "a", weights="w", households="h")
    assert facts["expected_reidentifications"] == pytest.approx(expected.expected_reidentifications)
    assert (facts["risk"]["below_2"], facts["risk"]["below_3"], facts["risk"]["below_5"]) == (1, 3, 6)
    said = run()
    assert "below 2: 1, 3: 3, 5: 6" in said
    assert "with households" in said


def test_a_run_gives_the_figures_of_sdcmicro_before_and_after(survey):
    options = {"weights": "sampling_weight", "households": "ori_hid", "columns": KEYS}
    table = survey[0].select(*KEYS, "sampling_weight", "ori_hid")
    found = shoal.protect(table, k=3, method="suppress", **options).figures.identification
    assert [found.before[f"below_{size}"] for size in (2, 3, 5)] == [157, 281, 458]
    assert found.after["below_3"] == 0
    assert found.before["expected_reidentifications"] == pytest.approx(10.78, abs=0.005)
    assert found.before["dis_suda_largest"] == pytest.approx(0.678, abs=5e-4)
    assert found.after["dis_suda_largest"] == 0
