"""Every row of the pages for people who come from sdcMicro and ARX, run one by one.

The rows are read from the pages, so that a row without a run here fails, and so does a run without a row.
"""

import functools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import datasets, masking, measures, microaggregation, privacy, risk
from shoal.io import read_table
from shoal.schema import Schema

DOCS = Path(__file__).parents[1] / "docs" / "howto"


@functools.cache
def survey():
    return datasets.load_survey().head(150)


def numbers(n=60, columns=3):
    return np.random.default_rng(0).normal(size=(n, columns))


def keys():
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "job": rng.choice(list("abc"), 90, p=[0.6, 0.3, 0.1]),
            "sex": rng.choice(["f", "m"], 90),
            "age": rng.integers(0, 5, 90) * 10,
            "w": rng.uniform(2, 9, 90),
            "home": np.arange(90) // 3,
            "ill": rng.choice(["flu", "cold", "gout"], 90),
        }
    )


def published(**fields):
    """A small protected table."""
    asked = {
        "k": 3,
        "columns": ["job", "sex", "age"],
        "leave": ["w", "home"],
        "sensitive": ["ill"],
        "accept_risk": True,
    }
    return shoal.protect(keys(), **(asked | fields))


def groups(done):
    return int(np.bincount(done.labels).min())


def command(*words, cwd):
    done = subprocess.run(
        [sys.executable, "-m", "shoal", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def coarser(**fields):
    done = published(method="generalize", **fields)
    assert int(done.frame.group_by("job", "sex", "age").len()["len"].min()) >= 3
    return done


def mdav(_):
    X = numbers()
    theirs, papers = microaggregation.MDAVGeneric(k=3).fit(X), microaggregation.MDAV(k=3).fit(X)
    assert np.bincount(theirs.labels_).min() >= 3 <= np.bincount(papers.labels_).min()
    assert theirs.fit_transform(X).shape == X.shape


def one_column(method):
    fitted = method(k=3).fit(numbers(columns=1))
    assert np.bincount(fitted.labels_).min() >= 3


def strata(_):
    done = shoal.protect(keys().select("age", "w", "sex"), k=3, method="mdav", strata="sex")
    labels = pl.DataFrame({"g": done.labels, "s": keys()["sex"]})
    assert labels.group_by("g").agg(pl.col("s").n_unique())["s"].max() == 1


def gower(_):
    schema = {"columns": {"age": {"kind": "ordered"}, "job": {"kind": "category"}}}
    assert groups(shoal.protect(keys().select("job", "age"), k=3, method="mdav", schema=schema)) >= 3


def roles(*names):
    def run(_):
        columns = {f"c{j}": {"role": name} for j, name in enumerate(names)}
        assert {each.role for each in Schema.of({"columns": columns}).columns.values()} == set(names)

    return run


def households(_):
    done = shoal.protect(
        keys().drop("ill", "w", "sex"), k=3, method="mdav", households="home", accept_risk=True
    )
    assert "home" not in done.frame.columns


def k_anonymity(tmp_path):
    assert privacy.k_anonymity(keys(), ["sex"]).value > 3
    keys().write_csv(tmp_path / "t.csv")
    assert "k-anonymity" in command("check", "t.csv", "--quasi", "sex", cwd=tmp_path)


def individual(_):
    exact = risk.measure(keys(), ["job", "sex", "age"], weights="w")
    theirs = risk.measure(keys(), ["job", "sex", "age"], weights="w", formula="sdcmicro")
    assert exact.expected_reidentifications > 0
    assert theirs.expected_reidentifications != exact.expected_reidentifications


def log_linear(_):
    # Theirs leaves the division by the sampling fraction out, so the two differ.
    assert risk.log_linear_risk(keys(), ["job", "sex"], weights="w") is not None


def suppress(_):
    strict = published(method="suppress")
    wild = published(method="suppress", reading="wildcard")
    assert wild.figures.suppressed_cells <= strict.figures.suppressed_cells
    assert strict.figures.certificate.proven


def recoded(_):
    assert masking.recode(pl.Series(["a", "b", "c"]), (("a", "b"), ("c",)), 1).to_list() == [
        "a|b",
        "a|b",
        "c",
    ]
    columns = {
        "job": {"kind": "category", "hierarchy": [["a", "b"], ["c"]], "recode": 1},
        "sex": {"kind": "category"},
    }
    done = shoal.protect(keys().select("job", "sex"), k=3, method="mdav", schema={"columns": columns})
    assert set(done.frame["job"]) <= {"a|b", "c"}


def ends(_):
    assert masking.code_ends(pl.Series([1, 9]), None, 5).to_list() == [1, 5]
    step = [
        {"method": "code-ends", "columns": ["age"], "top": 20},
        {"method": "mdav", "columns": ["job", "sex", "age"]},
    ]
    assert published(steps=step).frame["age"].max() <= 20


def pram(_):
    cells = keys()["job"]
    assert set(masking.pram(cells, 0.5, 0)) <= set(cells)
    matrix = ((0.8, 0.1, 0.1),) * 3
    assert set(masking.pram(cells, None, 0, matrix=matrix, levels=("a", "b", "c"), invariant=True)) <= set(
        cells
    )


def noise(_):
    for correlated in (False, True):
        assert masking.add_noise(numbers(), 0.1, 0, correlated=correlated).shape == numbers().shape


def drisk(_):
    X = numbers()
    Y = microaggregation.MDAV(k=3).fit_transform(X)
    assert 0 <= measures.drisk(X, Y) <= 1
    assert 0 <= measures.interval_disclosure(X, Y) <= 1


def loss(_):
    X = numbers()
    Y = microaggregation.MDAV(k=3).fit_transform(X)
    assert measures.il1(X, Y) > 0 < measures.il2(X, Y)


def reading(tmp_path):
    keys().write_csv(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv").shape == keys().shape


def writing(tmp_path):
    keys().select("age", "sex").write_csv(tmp_path / "t.csv")
    command("protect", "t.csv", "-k", "3", "-o", "o.csv", "--method", "mdav", cwd=tmp_path)
    assert read_table(tmp_path / "o.csv").height == 90


def identification(_):
    told = published(method="mdav").figures.identification
    assert told.before["below_3"] >= told.after["below_3"] == 0


def several_strata(_):
    assert (
        groups(shoal.protect(keys().select("age", "job", "sex"), k=3, method="mdav", strata=["job", "sex"]))
        >= 3
    )


def kinds(_):
    assert Schema.of({"columns": {"age": {"kind": "category"}}}).columns["age"].kind == "category"


def undo(_):
    before = keys()
    published(method="mdav")
    assert before.equals(keys())


def report(tmp_path):
    published(method="mdav").report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


def app(tmp_path):
    assert "serve" in command("--help", cwd=tmp_path)


def compare(_):
    found = shoal.compare(keys().select("age", "w"), [3], methods=["mdav", "md"])
    assert len(found.cells) == 2


def not_offered(*names):
    def run(_):
        assert not {*names} & {*shoal.methods()}

    return run


def moved(_):
    assert sorted(masking.shuffle(numbers(), None, 0)[:, 0]) == pytest.approx(sorted(numbers()[:, 0]))
    assert masking.swap_records(keys(), ["job"], ["sex", "age"], k=3).frame.height == 90


def steps(_):
    asked = [{"method": "suppress", "columns": ["job", "sex"]}, {"method": "mdav", "columns": ["age"]}]
    assert [each.method for each in published(steps=asked).figures.steps] == ["suppress", "mdav"]


def suda(_):
    found = risk.suda(keys(), ["job", "sex", "age"], sampling_fraction=0.1)
    assert found.scores.shape == found.dis_scores.shape == (90,)


def diversity(_):
    assert privacy.l_diversity(keys(), ["sex"], "ill").value == 3


SDCMICRO = {
    'microaggregation(x, method = "mdav", aggr = 3)': mdav,
    'microaggregation(..., method = "onedims")': lambda _: one_column(microaggregation.Univariate),
    'microaggregation(..., method = "onedims", measure = "median")': lambda _: one_column(
        microaggregation.UnivariateMedian
    ),
    'microaggregation(..., strata_variables = "s")': strata,
    "microaggrGower(...)": gower,
    "createSdcObj(..., keyVars, weightVar, sensibleVar)": roles("quasi", "weight", "sensitive"),
    "createSdcObj(..., strataVar, hhId)": roles("stratum", "household"),
    "freq(obj)": k_anonymity,
    "measure_risk(obj)": individual,
    "suda2(obj)": suda,
    "modRisk(obj, ...)": log_linear,
    "ldiversity(obj)": diversity,
    "globalRecode(obj, ...)": recoded,
    "topBotCoding(...)": ends,
    "localSuppression(obj, k = 3)": suppress,
    "pram(...)": pram,
    'addNoise(..., method = "additive")': noise,
    "rankSwap(...)": lambda _: masking.rank_swap(numbers(), 0.05, 0),
    "dRisk(obj)": drisk,
    'dUtility(obj, method = "IL1")': loss,
    "readMicrodata(...)": reading,
    "extractManipData(obj)": writing,
    "freqCalc(...)": identification,
    "selectHouseholdData": households,
    "generateStrata(df, ...)": several_strata,
    "varToFactor": kinds,
    "undolast(obj)": undo,
    "report(obj)": report,
    "sdcApp()": app,
    'microaggregation(..., method = "pca")': not_offered("pca", "rmd", "clustpppca", "influence", "simple"),
    "shuffle(...)": moved,
    "LocalRecProg(...)": lambda _: coarser(),
    "several methods on one object, one after the other": steps,
    "mvTopCoding(...)": not_offered("mv-top-coding"),
}


def attribute_types(_):
    roles("identifier", "quasi", "sensitive", "leave")(None)


def hierarchies(tmp_path):
    (tmp_path / "job.csv").write_text("a;ab;*\nb;ab;*\nc;c;*\n", encoding="utf-8")
    done = coarser(hierarchies=tmp_path, recoding="global")
    assert set(done.frame["job"].cast(pl.String)) <= {"a", "b", "c", "ab", "*"}


def k_map(_):
    assert risk.measure(keys(), ["job", "sex"], weights="w").k_map >= 1


def close(_):
    done = shoal.protect(keys().select("age", "ill"), k=3, method="mdav", sensitive="ill", t=0.4)
    assert next(each for each in done.verdicts if each.model.startswith("t-")).holds
    for distance in ("equal", "ordered"):
        assert privacy.t_closeness(keys(), ["sex"], "age", distance=distance).value >= 0


def presence(_):
    assert privacy.delta_presence(keys().head(40), keys(), ["sex"]).value[1] <= 1


def diverse(_):
    done = shoal.protect(keys().select("age", "ill"), k=3, method="mdav", sensitive="ill", l=2)
    assert next(each for each in done.verdicts if each.model.startswith("distinct")).holds


def demanded(model, **fields):
    def run(_):
        assert next(each for each in coarser(**fields).verdicts if each.model.startswith(model)).holds

    return run


def released(tmp_path):
    keys().select("sex", "job").write_csv(tmp_path / "t.csv")
    (tmp_path / "s.toml").write_text(
        '[table]\nid = "t"\nbudget = 2.0\n[columns.sex]\nkind = "category"\nlevels = ["f", "m"]\n'
        '[columns.job]\nkind = "category"\nlevels = ["a", "b", "c"]\n',
        encoding="utf-8",
    )
    command("release", "t.csv", "--epsilon", "1", "--schema", "s.toml", "-o", "o.csv", cwd=tmp_path)
    assert (tmp_path / "o.csv").exists()


def limit(_):
    done = coarser(recoding="global", suppress_at_most=0.05)
    assert done.figures.suppressed_records <= 0.05 * 90
    assert coarser().figures.suppressed_records == 0


def quality(_):
    assert coarser(objective="arx-loss", recoding="global").parameters["objective"] == "arx-loss"
    assert coarser(objective="precision").parameters["objective"] == "precision"


def estimator(_):
    found = risk.measure(keys(), ["job", "sex"], population=keys().vstack(keys()))
    assert found.prosecutor > 0 < found.marketer


ARX = {
    'Data.create("table.csv", ...)': reading,
    "setAttributeType(...)": attribute_types,
    "Hierarchy.create(...)": hierarchies,
    "new KAnonymity(5)": k_anonymity,
    "new KMap(...)": k_map,
    'new DistinctLDiversity("disease", 2)': diverse,
    'new EntropyLDiversity("disease", 2)': demanded("entropy", sensitive=["ill"], entropy_l=2.0),
    "new RecursiveCLDiversity(...)": lambda _: privacy.l_diversity(
        keys(), ["sex"], "ill", kind="recursive", c=3
    ),
    'new BasicBLikeness("disease", 1)': demanded("beta", sensitive=["ill"], beta=1.0),
    'new DDisclosurePrivacy("disease", 1)': demanded("delta", sensitive=["ill"], delta_disclosure=1.0),
    'new EqualDistanceTCloseness("disease", 0.2)': close,
    "new DPresence(...)": presence,
    "new EDDifferentialPrivacy(...)": released,
    "MicroAggregationFunction.createArithmeticMean()": mdav,
    "setSuppressionLimit(...)": limit,
    "setQualityModel(Metric.createLossMetric())": quality,
    "anonymizer.anonymize(data, config)": lambda _: published(method="mdav"),
    "result.getOutput()": lambda _: published(method="mdav").frame.height,
    "getRiskEstimator(...)": estimator,
    "utility analysis, solution space": compare,
}


def rows(page):
    """The first words of each row of a page's first table, which translates calls, and the whole row."""
    table = (DOCS / page).read_text(encoding="utf-8").partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    found = {}
    for line in lines[2:]:
        first = line.split(" | ")[0].strip("| ")
        code = re.match(r"`(.+?)`", first)
        found[code.group(1) if code else first] = line
    return found


@pytest.mark.parametrize(("page", "runs"), [("from-sdcmicro.md", SDCMICRO), ("from-arx.md", ARX)])
def test_every_row_has_a_run(page, runs):
    assert set(rows(page)) == set(runs)


@pytest.mark.parametrize("row", SDCMICRO)
def test_a_row_of_sdcmicro(row, tmp_path):
    SDCMICRO[row](tmp_path)


@pytest.mark.parametrize("row", ARX)
def test_a_row_of_arx(row, tmp_path):
    ARX[row](tmp_path)


@pytest.mark.parametrize("page", ["from-sdcmicro.md", "from-arx.md"])
def test_every_name_of_a_row_is_there(page):
    """Names such as `shoal.risk.suda` exist, options such as `--l` are the command's, methods are registered."""
    from shoal.publish.request import options

    flags = {option.flag for option in options().values()}
    for line in rows(page).values():
        ours = line.split(" | ", 1)[1]
        for name in re.findall(r"shoal\.([a-z0-9_.]+[a-z0-9])", ours):
            target = shoal
            for part in name.split("."):
                target = getattr(target, part)
        for flag in re.findall(r"`(--[a-z-]+)", ours):
            assert flag in flags or flag in ("--population",), flag
        for name in re.findall(r"`([A-Z][A-Za-z]+)\(k=", ours):
            assert hasattr(microaggregation, name)
