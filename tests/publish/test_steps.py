"""One run of many steps: order, households, rules, verdicts, figures, and what is refused."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import shoal
from pages import Page
from shoal.errors import GuaranteeError, InputError, ParameterError, SchemaError, ShoalError
from shoal.io import read_source, write_table
from shoal.publish import ProtectionRequest
from shoal.report.build import gather
from shoal.report.html import render_report
from surveys import STEPS, schema, survey


def smallest(frame, names):
    return int(frame.group_by(names).len()["len"].min())


def test_keys_households_numbers_and_rules_in_one_run(tmp_path):
    frame = survey()
    done = shoal.protect(frame, k=3, schema=schema())
    out = done.frame
    keys, numbers = ["region", "roof", "sex", "relat"], ["wage", "pension", "income"]
    assert "home" not in out.columns
    assert smallest(out, [*keys, *numbers]) >= 3
    homes = out.with_columns(frame["home"]).unique("home")
    assert homes.height == frame["home"].n_unique()
    assert smallest(homes, ["region", "roof"]) >= 3
    for name in ("region", "roof"):  # one value for all members of a household
        assert out.with_columns(frame["home"]).group_by("home").agg(pl.col(name).n_unique())[name].max() == 1
    for name in keys:  # every cell is true or missing
        kept = pl.DataFrame({"a": frame[name], "b": out[name]}).drop_nulls()
        assert (kept["a"] == kept["b"]).all()
    assert (out["income"] - out["wage"] - out["pension"]).abs().max() < 1e-6
    assert out["pension"].filter(frame["pension"] == 0).abs().max() == 0
    assert out["w"].sum() == pytest.approx(frame["w"].sum())
    assert all(verdict.holds for verdict in done.verdicts)
    assert done.figures.at_risk == 0
    told = done.to_dict()
    assert [each["method"] for each in told["steps"]] == ["suppress", "suppress", "mdav"]
    assert [each["broken_after"] for each in told["rules"]] == [0, 0, 0]
    before, after = told["identification"]["before"], told["identification"]["after"]
    assert before["below_3"] > 0 == after["below_3"]
    assert after["expected_reidentifications"] < before["expected_reidentifications"]
    assert "next to each other" in " ".join(done.notes)
    json.dumps(told, allow_nan=False)
    done.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "income = wage + pension" in page
    assert "1. suppress" in page


def test_steps_are_the_same_from_the_request_and_repeat():
    frame = survey()
    one = shoal.protect(frame, k=3, schema=schema(), order="shuffle")
    two = shoal.protect(frame, k=3, schema=schema(steps=[]), steps=STEPS, order="shuffle")
    assert one.frame.equals(two.frame)
    request = ProtectionRequest(k=3, steps=STEPS)
    assert ProtectionRequest.from_dict(request.to_dict()) == request
    assert "--steps" in request.to_command()
    assert 'steps="[{method' in request.to_python()


def test_one_command_from_spss_to_spss(tmp_path):
    from shoal.schema import Schema

    frame = survey(80)
    write_table(frame, tmp_path / "in.sav")
    (tmp_path / "s.toml").write_text(Schema.of(schema()).to_toml(), encoding="utf-8")
    command = [
        sys.executable, "-m", "shoal", "protect", "in.sav", "-k", "3", "-o", "out.sav", "--schema", "s.toml",
        "--order", "shuffle", "--json",
    ]  # fmt: skip
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["method"] == "steps"
    assert told["identification"]["after"]["below_3"] == 0
    out = read_source(str(tmp_path / "out.sav")).frame
    assert out.height == frame.height
    assert smallest(pl.DataFrame(out), ["region", "roof", "sex", "relat", "wage", "pension", "income"]) >= 3


def test_sets_apart_keep_k_each_and_the_status_tells_that_they_do_not_together(tmp_path):
    steps = [
        {"method": "suppress", "columns": ["region", "roof", "sex", "relat"]},
        {"method": "mdav", "columns": ["wage"], "within": []},
        {"method": "mdav", "columns": ["pension", "income"], "k": 5, "within": []},
    ]
    with pytest.raises(GuaranteeError, match="Status red"):
        shoal.protect(survey(), k=3, schema=schema(steps, []))
    done = shoal.protect(survey(), k=3, schema=schema(steps, []), accept_risk=True)
    assert smallest(done.frame, ["wage"]) >= 3
    assert smallest(done.frame, ["pension", "income"]) >= 5
    assert done.status == "red"
    assert done.figures.at_risk > 0.05
    done.report(tmp_path / "r.html")
    page = " ".join((tmp_path / "r.html").read_text(encoding="utf-8").split())
    assert "Each verdict holds on the columns it names and on no others" in page
    for claim in ("looks like at least", "every group has at least", "one in k at most"):
        assert claim not in page


@pytest.mark.parametrize(
    "asked",
    [
        {"l": 2}, {"entropy_l": 1.5}, {"t": 0.3}, {"alpha": 0.8}, {"beta": 1.0}, {"enhanced_beta": 1.0},
        {"delta_disclosure": 1.5},
    ],
)  # fmt: skip
def test_conditions_of_a_step_hold_on_what_is_published(asked):
    roles = {name: {"role": "leave"} for name in ("wage", "pension", "income")} | {
        "sex": {"role": "sensitive"}
    }
    steps = [{"method": "generalize", "columns": ["region", "roof", "relat"], "within": [], **asked}]
    done = shoal.protect(survey(), k=3, schema=schema(steps, [], **roles), accept_risk=True)
    held = [each for each in done.verdicts if each.sensitive == "sex"]
    assert [each.limit for each in held] == list(asked.values())
    assert all(each.holds for each in done.verdicts)
    again = shoal.privacy.check(done.frame, ["region", "roof", "relat"], "sex", k=3, **asked)
    assert [each.value for each in again if each.limit and each.sensitive] == [held[0].value]


def test_conditions_of_a_step_need_what_they_are_on():
    steps = [{"method": "generalize", "columns": ["region", "roof", "relat", "sex"], "l": 2}]
    quiet = {name: {"role": "leave"} for name in ("wage", "pension", "income", "ill")}
    with pytest.raises(InputError, match="no column has that role"):
        shoal.protect(survey(), k=3, schema=schema(steps, [], **quiet))
    after = [
        {"method": "generalize", "columns": ["region"]},
        {"method": "generalize", "columns": ["roof", "relat"], "t": 0.5},
    ]
    with pytest.raises(InputError, match="compares with the whole table"):
        shoal.protect(survey(), k=3, schema=schema(after, [], **quiet, sex={"role": "sensitive"}))
    for step, match in (
        (
            {"method": "generalize", "columns": ["region"], "l": 2, "level": "household"},
            "level of households",
        ),
        ({"method": "suppress", "columns": ["region"], "l": 2}, "may have"),
        ({"method": "generalize", "columns": ["region"], "alpha": 2}, "alpha"),
    ):
        with pytest.raises(SchemaError, match=match):
            ProtectionRequest(k=3, steps=[step])


def test_every_other_step_does_what_it_says():
    quiet = {name: {"role": "sensitive"} for name in ("sex", "relat", "wage", "pension", "income")}
    steps = [
        {
            "method": "swap-records",
            "columns": ["region"],
            "given": ["relat"],
            "similar": ["roof"],
            "share": 0.1,
        },
        {"method": "generalize", "columns": ["region", "roof"], "level": "household"},
        {"method": "pram", "columns": ["sex"], "matrix": [[0.8, 0.2], [0.3, 0.7]], "invariant": True},
        {"method": "pram", "columns": ["relat"], "probability": 0.2},
        {"method": "code-ends", "columns": ["wage"], "top": 60},
        {"method": "rank-swap", "columns": ["wage"], "share": 0.1},
        {"method": "round", "columns": ["wage"], "to": 5},
        {"method": "noise", "columns": ["pension"], "scale": 0.2},
        {"method": "shuffle", "columns": ["income"], "given": ["wage"]},
    ]
    frame = survey()
    done = shoal.protect(
        frame, k=3, schema=schema(steps, [{"zero": "pension"}, {"range": "pension >= 0"}], **quiet)
    )
    out = done.frame
    assert out["wage"].max() <= 60
    assert set((out["wage"] % 5).to_list()) == {0.0}
    assert sorted(out["income"]) == sorted(frame["income"])
    assert not out["income"].equals(frame["income"])
    assert out["pension"].min() == 0
    assert (out["pension"].filter(frame["pension"] == 0) == 0).all()
    assert out["sex"].n_unique() == 2
    assert not out["sex"].equals(frame["sex"])
    assert {each["method"] for each in done.to_dict()["steps"]} == {step["method"] for step in steps}
    assert done.figures.false_cells > 0
    again = shoal.protect(
        frame, k=3, schema=schema(steps, [{"zero": "pension"}, {"range": "pension >= 0"}], **quiet)
    )
    assert again.frame.equals(out)


@pytest.mark.parametrize(
    ("steps", "words", "error"),
    [
        ([{"method": "mdav", "columns": ["wage"]}], "needs a step", InputError),
        ([{"method": "mdav", "columns": ["wage", "no"]}], "No column 'no'", InputError),
        ([{"method": "mdav", "columns": ["w"]}], "cannot treat 'w'", InputError),
        ([{"method": "magic", "columns": ["wage"]}], "must be one of", ParameterError),
        ([*STEPS[:2], STEPS[2] | {"level": "household"}], "one value in each household", InputError),
        ([*STEPS[:2], STEPS[2] | {"k": 10_000}], "at least that many", InputError),
    ],
)
def test_what_cannot_be_done_is_one_sentence(steps, words, error):
    with pytest.raises(error, match=words) as caught:
        shoal.protect(survey(60), k=3, schema=schema(steps))
    assert "\n" not in str(caught.value)


def test_rules_are_refused_before_anything_is_given():
    with pytest.raises(SchemaError, match="No record can keep"):
        shoal.protect(survey(), k=3, schema=schema(rules=[{"range": "wage < 0"}, {"range": "wage >= 0"}]))
    with pytest.raises(GuaranteeError, match="cannot be kept"):
        shoal.protect(survey(), k=3, schema=schema(rules=[{"impossible": "ill = 'a'"}]))
    with pytest.raises(SchemaError, match="table lacks"):
        shoal.protect(survey(), k=3, schema=schema(rules=[{"integer": "rent"}]))


def test_other_readings_and_methods_beside_steps():
    steps = [STEPS[0], STEPS[1] | {"reading": "wildcard"}, STEPS[2] | {"within": []}]
    with pytest.raises(GuaranteeError, match="Status red"):
        shoal.protect(survey(), k=3, schema=schema(steps))
    with pytest.raises(ParameterError, match="one method or several steps"):
        shoal.protect(survey(), k=3, method="mdav", schema=schema(), steps=STEPS)
    with pytest.raises(ParameterError, match="needs steps"):
        shoal.protect(survey(), k=3, method="steps", schema=schema(steps=[]))
    with pytest.raises(ParameterError, match="several steps cannot have 'l'"):
        shoal.protect(survey(), k=3, schema=schema(), l=2)


def test_a_method_that_is_named_is_run_and_the_steps_left_out_are_said():
    for method, work in (("anneal", 2_000), ("mdav", None)):
        done = shoal.protect(
            survey(), k=3, schema=schema(rules=[]), method=method, max_proposals=work, accept_risk=True
        )
        assert done.method == method
        assert "steps were not run" in " ".join(done.notes)
    asked = ProtectionRequest(k=3, schema=schema())
    assert asked.method == "steps"
    assert "method" not in asked.given()
    assert ProtectionRequest.from_dict(asked.to_dict()).method == "steps"
    named = ProtectionRequest(k=3, schema=schema(), method="anneal")
    assert ProtectionRequest.from_dict(named.to_dict()).method == "anneal"
    with pytest.raises(ParameterError, match="one method or several steps"):
        shoal.protect(survey(), k=3, method="anneal", schema=schema(), steps=STEPS)


def test_k_counts_households_at_the_level_of_records():
    frame = survey()
    steps = [
        {"method": "suppress", "columns": ["region", "roof", "sex", "relat"], "count": "household"},
        {"method": "mdav", "columns": ["wage", "pension", "income"], "within": [], "count": "household"},
    ]
    done = shoal.protect(frame, k=4, schema=schema(steps), accept_risk=True)
    whole = done.frame.with_columns(frame["home"])
    for names in (["region", "roof", "sex", "relat"], ["wage", "pension", "income"]):
        assert whole.group_by(names).agg(pl.col("home").n_unique())["home"].min() >= 4
    assert [each.model for each in done.verdicts].count("k-anonymity of households") == 2
    asked = [{name: fact for name, fact in step.items() if name != "count"} for step in steps]
    again = shoal.protect(frame, k=4, schema=schema(asked), count="household", accept_risk=True)
    assert again.frame.equals(done.frame)
    plain = shoal.protect(frame, k=4, schema=schema(asked), accept_risk=True)
    assert plain.figures.suppressed_cells <= done.figures.suppressed_cells
    with pytest.raises(InputError, match="counts households"):
        shoal.protect(frame, k=4, schema=schema(steps, home={"role": "identifier"}), accept_risk=True)
    with pytest.raises(SchemaError, match="at the level of records"):
        ProtectionRequest(schema=schema([steps[0] | {"level": "household"}]))


def test_missing_cells_follow_their_policy():
    frame = survey().with_columns(
        wage=pl.when(pl.arange(0, pl.len()) % 7 == 0).then(None).otherwise(pl.col("wage"))
    )
    with pytest.raises(InputError, match="need a policy"):
        shoal.protect(frame, k=3, schema=schema(rules=[]))
    done = shoal.protect(frame, k=3, schema=schema(rules=[], wage={"on_missing": "category"}))
    assert done.frame["wage"].filter(frame["wage"].is_null()).null_count() == frame["wage"].null_count()
    assert smallest(done.frame, ["region", "roof", "sex", "relat", "wage", "pension", "income"]) >= 3
    done = shoal.protect(frame, k=3, schema=schema(rules=[], wage={"on_missing": "impute"}))
    assert f"take the value of their group: wage {frame['wage'].null_count()}." in " ".join(done.notes)
    assert "wage" in done.verdicts[-1].quasi
    assert "region" in done.verdicts[-1].quasi


def test_odd_cells_are_one_sentence():
    frame = survey(60)
    with pytest.raises(InputError, match="must hold numbers"):
        shoal.protect(frame.with_columns(wage=pl.lit("x")), k=3, schema=schema(rules=[]))
    with pytest.raises(InputError, match="must be above 0"):
        shoal.protect(frame.with_columns(w=pl.lit(0.0)), k=3, schema=schema())
    with pytest.raises(InputError, match="must be above 0"):
        shoal.protect(frame.with_columns(w=pl.lit(-1.0)), k=3, schema=schema())
    with pytest.raises(InputError, match="must have a household"):
        shoal.protect(frame.with_columns(home=pl.lit(None, dtype=pl.Int64)), k=3, schema=schema())


def test_the_report_says_what_became_of_each_column(tmp_path):
    shoal.protect(survey(60), k=3, schema=schema()).report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "treated by step 1, suppress" in page
    assert "mode of its group" not in page
    assert "at least 3 households" not in page


def test_the_report_tells_what_holds_on_all_columns_together():
    done = shoal.protect(survey(), k=3, schema=schema())
    assert done.verdicts[0].value > 3  # households, on two columns
    assert done.figures.smallest_group == 3
    assert "everyone looks like at least 2 others" in Page(render_report(gather(done))).text


def test_linkage_is_among_records_whose_keys_are_released_alike():
    frame = survey()
    done = shoal.protect(frame, k=3, schema=schema())
    numbers = ["wage", "pension", "income"]
    old, new = (
        np.stack([(each[n] - frame[n].mean()) / frame[n].std(ddof=0) for n in numbers], axis=1)
        for each in (frame, done.frame)
    )
    keys = done.frame.select(pl.struct("region", "roof", "sex", "relat").rank("dense")).to_series().to_numpy()
    right = 0.0
    for row in range(frame.height):
        among = np.flatnonzero(keys == keys[row])
        far = np.linalg.norm(old[among] - new[row], axis=1)
        nearest = among[far <= far.min() + 1e-9]
        right += (row in nearest) / nearest.size
    assert done.figures.dld == pytest.approx(right / frame.height)
    assert any(
        "wage, pension, income, among records whose region, roof, sex, relat are" in n for n in done.notes
    )


def test_no_limit_of_linkage_is_told_for_numbers_outside_the_groups():
    steps = [
        {"method": "suppress", "columns": ["region", "roof", "sex", "relat"]},
        {"method": "rank-swap", "columns": ["wage", "pension", "income"], "share": 0.1},
    ]
    numbers = {name: {"role": "sensitive"} for name in ("wage", "pension", "income")}
    done = shoal.protect(survey(), k=3, schema=schema(steps, [], **numbers), accept_risk=True)
    assert not any("allow at most" in line for line in done.lines())
    assert any("allow at most" in line for line in shoal.protect(survey(), k=3, schema=schema()).lines())


SUPPRESSED = '[{method = "suppress", columns = ["sex", "age"]}]'


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"leave": ["sex"]}, "'sex' cannot stay as it is"),
        ({"certify": True, "steps": '[{method = "mdav", columns = ["sex", "age"]}]'}, "Got neither"),
        ({"keep_best": True}, "gives nothing out"),
        ({"columns": ["sex"]}, "treats 'age', which 'columns' does not name"),
        ({"hierarchies": "nowhere"}, "'hierarchies' is for generalize"),
        ({"integers": "round", "steps": SUPPRESSED}, "'integers' is for a method of groups"),
        ({"on_missing": "impute", "steps": SUPPRESSED}, "'on_missing' impute is for a method of groups"),
        ({"on_missing": "error", "steps": SUPPRESSED}, r"No cell may be missing .* 'age' \(1\)"),
        ({"time_limit": 1, "steps": '[{method = "mdav", columns = ["sex", "age"]}]'}, "'time_limit' is for"),
    ],
)
def test_what_no_step_would_do_is_refused(asked, said):
    frame = pl.DataFrame({"sex": list("fm") * 6, "age": [None, *range(0, 55, 5)]})
    steps = '[{method = "suppress", columns = ["sex"]}, {method = "mdav", columns = ["age"]}]'
    with pytest.raises(ShoalError, match=said):
        shoal.protect(frame, 3, **{"steps": steps, "accept_risk": True, **asked})


@pytest.mark.parametrize("method", ["generalize", "suppress"])
def test_methods_that_keep_nothing_when_stopped_say_so(method):
    with pytest.raises(ShoalError, match="gives nothing out"):
        shoal.protect(pl.DataFrame({"sex": list("fm") * 6}), 3, method=method, keep_best=True)
