"""Saved runs, dossiers and the commands: what they hold, and what the public part never holds."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html import unescape
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import cli
from shoal.errors import InputError
from shoal.evidence import dossier, read_run, registry_tiers, run_of_protection, run_of_release
from shoal.evidence._saved import mismatches
from shoal.io import Variable, ddi_codebook
from shoal.schema import Column, Indicator, Schema

SEED = 987654321
DDI = "{ddi:codebook:2_5}"


def survey(n=240, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": np.round(rng.lognormal(7, 0.6, n), 2),
            "region": rng.choice(["north", "south", "east"], n),
            "disease": rng.choice(["none", "flu"], n),
        }
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run on files, saved."""
    folder = tmp_path_factory.mktemp("run")
    frame = survey()
    frame.write_csv(folder / "in.csv")
    schema = Schema(
        {"disease": Column("disease", role="sensitive", kind="category")}, id="health",
        indicators=(Indicator("mean", column="income", by="region"),),
    )  # fmt: skip
    done = shoal.protect(
        frame, k=5, method="mdav", schema=schema, random_state=SEED, release_type="scientific"
    ).placed("in.csv", "out.csv")
    done.frame.write_csv(folder / "out.csv")
    run_of_protection(done).save(folder / "run.json")
    return folder


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["shoal", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    told = capsys.readouterr()
    return left.value.code, told.out, told.err


def test_a_run_reads_back_as_it_was_saved(saved):
    run = read_run(saved / "run.json")
    assert run.job == "protect"
    assert run.protection_request().k == 5
    assert run.protection_request().release_type == "scientific"
    assert run.facts["settings"]["random_state"] == SEED
    assert run.to_dict() == json.loads((saved / "run.json").read_text())
    assert sum(size * count for size, count in run.sizes.items()) == 240


def test_a_dossier_holds_what_it_lists(saved):
    made = dossier(saved / "run.json", saved / "dossier", targets=60)
    for name in made.files:
        assert (saved / "dossier" / name).stat().st_size > 100, name
    index = (saved / "dossier" / "index.html").read_text()
    for words in ("Singling out", "Linkability", "Inference", "ISO/IEC 27559", "Expert&#39;s statement", "____",
                  "Residual risk", "Fitness for use", "Risk before and after", "Release type scientific",
                  "Re-identifications expected", "Prosecutor risk", "6.2 Threat modelling",
                  "6.3 Transparency and impact assessment", "7.2 Data features", "7.3 Attack modelling",
                  "8.2 Assessing identifiability", "8.3 Mitigation", "9.2 Before data are made available",
                  "9.3 After data are made available", "9.4 Mitigation in case of incident"):  # fmt: skip
        assert words in index, words
    assert "<script" not in index


def test_the_public_part_is_the_same_whatever_the_original_was(saved):
    """Nothing in it may be computed from the original: another original with the same published table changes nothing."""
    other = survey(240, seed=5)
    other.write_csv(saved / "other.csv")
    told = {}
    for name in ("in.csv", "other.csv"):
        run = read_run(saved / "run.json")
        facts = dict(run.facts)
        if name == "other.csv":  # figures of the original are other ones too
            facts |= {"information_loss": 77.7, "notes": ["a note"], "at_risk": 0.5, "dld": 0.9}
        folder = saved / f"public-{name}"
        made = dossier(replace(run, facts=facts, request=dict(run.request) | {"order": "shuffle"}), folder,
                       original=saved / name, targets=20)  # fmt: skip
        texts = {each: (folder / each).read_text() for each in made.files if each.startswith("public/")}
        told[name] = {
            each: re.sub(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}( UTC)?", "", text) for each, text in texts.items()
        }
    assert told["in.csv"] == told["other.csv"]
    assert set(told["in.csv"]) == {
        f"public/{name}" for name in ("index.html", "report.html", "codebook.xml", "methods.json")
    }


def test_a_table_that_spark_wrote_has_a_dossier_and_can_be_attacked(saved, monkeypatch, capsys):
    """Spark gives a folder of Parquet files, with a mark beside them."""
    frame, out = pl.read_csv(saved / "in.csv"), pl.read_csv(saved / "out.csv")
    for name, table in (("in", frame), ("out", out)):
        (saved / name).mkdir()
        table[:100].write_parquet(saved / name / "part-0.parquet")
        table[100:].write_parquet(saved / name / "part-1.parquet")
        (saved / name / "_SUCCESS").touch()
    run = replace(read_run(saved / "run.json"), source=str(saved / "in"), output=str(saved / "out"))
    made = dossier(run, saved / "of-spark", targets=20)
    text = (made.folder / "index.html").read_text()
    assert text.count("SHA-256") == 2
    code, told, _ = command(
        monkeypatch, capsys, "attack", saved / "out", "--original", saved / "in", "--sensitive", "disease", "--targets", "40",
        "--json",
    )  # fmt: skip
    assert code in (0, 1)
    assert "linkage-nearest" in json.loads(told)["attacks"] or "linkage" in told


@pytest.mark.parametrize("method", ["mdav", "suppress"])
def test_a_run_of_the_page_has_a_dossier(tmp_path, method):
    """The server's worker leaves the run beside its tables; downloaded, it is all that attack and dossier need."""
    from shoal.server import worker

    survey().select("age", "region", "disease").write_csv(tmp_path / "table.csv")
    (tmp_path / "job.json").write_text(json.dumps({"ending": ".csv", "state": "running"}))
    roles = {"age": "quasi", "region": "quasi", "disease": "sensitive"}
    columns = {name: {"role": role} for name, role in roles.items()}
    wanted = {"columns": columns, "request": {"k": 4, "method": method}, "escape": False}
    (tmp_path / "wanted.json").write_text(json.dumps(wanted))
    worker.run(tmp_path)
    made = dossier(tmp_path / "run.json", tmp_path / "dossier", targets=20)
    assert "public/codebook.xml" in made.files
    assert json.loads((tmp_path / "result.json").read_text())["status"] in ("green", "amber")


def test_the_seed_is_in_no_public_file(saved):
    made = dossier(saved / "run.json", saved / "seedless", targets=20)
    texts = {name: (saved / "seedless" / name).read_text() for name in made.files}
    assert all(str(SEED) not in text for name, text in texts.items() if name.startswith("public/"))
    assert str(SEED) in texts["internal/run.json"]


def test_what_is_allowed_is_told_in_public(saved):
    dossier(saved / "run.json", saved / "open", targets=20, allow=("attacks", "indicators"))
    text = (saved / "open" / "public" / "index.html").read_text()
    assert "Linking two halves" in text
    assert "mean of income" in text
    with pytest.raises(InputError, match="may be allowed in public is attacks, indicators, loss. Got 'all'"):
        dossier(saved / "run.json", saved / "open", allow=("all",))


def test_the_codebook_is_ddi(saved):
    dossier(saved / "run.json", saved / "book", targets=20)
    root = ElementTree.parse(saved / "book" / "public" / "codebook.xml").getroot()
    assert root.tag == f"{DDI}codeBook"
    variables = root.findall(f".//{DDI}var")
    assert [each.get("name") for each in variables] == ["age", "income", "region", "disease"]
    regions = [each.findtext(f"{DDI}catValu") for each in variables[2].findall(f"{DDI}catgry")]
    assert regions == ["east", "north", "south"]
    assert root.findtext(f".//{DDI}caseQnty") == "240"


# What DDI-Codebook 2.5 allows in each element that is written, in this order: its children, and its attributes.
CHILDREN = {
    "codeBook": ("docDscr", "stdyDscr", "fileDscr", "dataDscr", "otherMat"),
    "docDscr": ("citation", "guide", "docStatus", "docSrc", "controlledVocabUsed", "notes"),
    "stdyDscr": ("citation", "studyAuthorization", "stdyInfo", "studyDevelopment", "method", "dataAccs", "othrStdyMat", "notes"),
    "citation": ("titlStmt", "rspStmt", "prodStmt", "distStmt", "serStmt", "verStmt", "biblCit", "holdings", "notes"),
    "titlStmt": ("titl", "subTitl", "altTitl", "parTitl", "IDNo"),
    "prodStmt": ("producer", "copyright", "prodDate", "prodPlac", "software", "fundAg", "grantNo"),
    "stdyInfo": ("studyBudget", "subject", "abstract", "sumDscr", "qualityStatement", "notes", "exPostEvaluation"),
    "fileDscr": ("fileTxt", "locMap", "notes"),
    "fileTxt": ("fileName", "fileCitation", "dataFingerprint", "fileCont", "fileStrc", "dimensns", "fileType", "format"),
    "dimensns": ("caseQnty", "varQnty", "logRecL", "recPrCas", "recNumTot"),
    "dataDscr": ("varGrp", "nCubeGrp", "var", "nCube", "notes"),
    "var": (
        "location", "labl", "imputation", "security", "embargo", "respUnit", "anlysUnit", "qstn", "valrng", "invalrng",
        "undocCod", "universe", "TotlResp", "sumStat", "txt", "stdCatgry", "catgryGrp", "catgry", "codInstr", "verStmt",
        "concept", "derivation", "varFormat", "geoMap", "catLevel", "notes",
    ),
    "valrng": ("item", "range", "key", "notes"),
    "invalrng": ("item", "range", "key", "notes"),
    "catgry": ("catValu", "labl", "txt", "catStat", "mrow"),
}  # fmt: skip
ATTRIBUTES = {
    "codeBook": {"version": None},
    "fileDscr": {"ID": None},
    "var": {
        "ID": None, "name": None, "files": None, "wgt": ("wgt", "not-wgt"), "intrvl": ("contin", "discrete"),
    },
    "range": {"min": None, "max": None},
    "item": {"VALUE": None},
    "sumStat": {"type": ("mean", "medn", "mode", "vald", "invd", "min", "max", "stdev", "other")},
    "catStat": {"type": ("freq", "percent", "crosstab", "other")},
    "varFormat": {"type": ("numeric", "character")},
}  # fmt: skip
ONCE = {"titlStmt", "titl", "prodStmt", "fileTxt", "fileName", "dimensns", "varFormat", "catValu"}


def refuse_ddi(element):
    """Raise where an element, or one within it, is not as the standard's schema says."""
    name = element.tag.removeprefix(DDI)
    allowed = CHILDREN.get(name, ())
    inside = [each.tag.removeprefix(DDI) for each in element]
    places = [allowed.index(each) for each in inside]
    assert places == sorted(places), (name, inside)
    assert all(inside.count(each) == 1 for each in inside if each in ONCE), (name, inside)
    for key, value in element.attrib.items():
        values = ATTRIBUTES.get(name, {})[key]
        assert values is None or value in values, (name, key, value)
    if name in ("valrng", "invalrng"):
        assert inside
    if name in CHILDREN:
        assert not (element.text or "").strip(), name
    for each in element:
        refuse_ddi(each)


def test_the_codebook_keeps_the_order_of_the_standard(saved):
    book = dossier(saved / "run.json", saved / "ordered", targets=20)
    root = ElementTree.parse(book.folder / "public" / "codebook.xml").getroot()
    refuse_ddi(root)
    every = Variable(
        "w", "weight", weight=True, low=1.0, high=2.0, categories=(("1", "one", 3), ("2", "", None)), missing_codes=("-9",),
        valid=3, missing=1, text="words",
    )  # fmt: skip
    text = ddi_codebook("t", [every, Variable("x")], n_records=4, file="f.csv", abstract="a", producer="p")
    whole = ElementTree.fromstring(text)
    refuse_ddi(whole)
    ids = [each.get("ID") for each in whole.iter() if each.get("ID")]
    assert len(ids) == len(set(ids))
    assert {each.get("files") for each in whole.iter(f"{DDI}var")} <= set(ids)
    assert whole.find(f"{DDI}stdyDscr/{DDI}citation/{DDI}titlStmt/{DDI}titl") is not None
    variable = whole.find(f".//{DDI}var")
    variable.append(variable.find(f"{DDI}labl"))  # out of order
    with pytest.raises(AssertionError):
        refuse_ddi(whole)


def test_names_and_texts_of_a_codebook_are_escaped():
    text = ddi_codebook('A & "B" <c>\x00', [Variable("x<y", "l&m", categories=(("a<b", "", 3),))])
    root = ElementTree.fromstring(text)
    assert root.find(f".//{DDI}var").get("name") == "x<y"
    assert root.findtext(f".//{DDI}titl") == 'A & "B" <c>'


def test_the_registry_has_three_tiers_each_with_more():
    schema = Schema({"age": Column("age", bounds=(0, 110))}, id="health")
    facts = {
        "stamp": "guarantee: epsilon-DP, add or remove one record",
        "epsilon": 1.0,
        "method": "marginals",
    }
    tiers = registry_tiers(run_of_release(facts, schema, {"epsilon": 1.0}, "in.csv", "out.csv"))
    parts = [set(tiers[f"tier_{tier}"]["deployment"]) for tier in (1, 2, 3)]
    assert parts[0] < parts[1] < parts[2]
    assert tiers["tier_1"]["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0}
    json.dumps(tiers)


def test_private_answers_and_releases_have_dossiers(tmp_path, monkeypatch, capsys):
    pytest.importorskip("opendp")
    survey(120).select("age", "region").write_csv(tmp_path / "in.csv")
    schema = Schema(
        {
            "age": Column("age", bounds=(0, 110), step=10),
            "region": Column("region", kind="category", levels=("north", "south", "east")),
        },
        id="private", budget=4.0,
    )  # fmt: skip
    (tmp_path / "s.toml").write_text(schema.to_toml())
    for words in (
        ("ask", tmp_path / "in.csv", "SELECT COUNT(*) FROM t", "--schema", tmp_path / "s.toml", "--epsilon", "1",
         "--save-run", tmp_path / "ask.json"),
        ("release", tmp_path / "in.csv", "--epsilon", "1", "--schema", tmp_path / "s.toml", "-o", tmp_path / "out.csv",
         "--save-run", tmp_path / "release.json"),
    ):  # fmt: skip
        assert command(monkeypatch, capsys, *words)[0] == 0
    for name in ("ask", "release"):
        assert (tmp_path / f"{name}.json").stat().st_mode & 0o777 == 0o600
        made = dossier(tmp_path / f"{name}.json", tmp_path / name, targets=20)
        assert "public/registry.json" in made.files
        assert "guarantee: epsilon-DP" in (tmp_path / name / "public" / "index.html").read_text()
    attacks = json.loads((tmp_path / "release" / "internal" / "attacks.json").read_text())
    assert [each["name"] for each in attacks["attacks"]].count("membership") == 1
    assert {each["criterion"] for each in attacks["attacks"]} >= {"singling out", "linkability", "membership"}


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "must be JSON"), ("[]", "lacks 'layout'"), ('{"layout": 9}', "lacks 'job'"), ("", "must be JSON")],
)
def test_files_that_are_no_runs_are_refused_in_one_sentence(tmp_path, text, words):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=words):
        read_run(tmp_path / "run.json")
    with pytest.raises(InputError, match="No file"):
        read_run(tmp_path / "none.json")


def test_a_run_whose_tables_are_gone_is_refused(saved, tmp_path):
    run = replace(read_run(saved / "run.json"), folder=tmp_path)
    with pytest.raises(InputError, match="'out.csv', the output of the run, is not there"):
        dossier(run, tmp_path / "d")


def test_the_attack_command_tells_the_status_first_and_leaves_with_1_on_red(saved, monkeypatch, capsys):
    code, out, _ = command(monkeypatch, capsys, "attack", saved / "in.csv", "--original", saved / "in.csv",
                           "--run", saved / "run.json", "--targets", "50")  # fmt: skip
    assert code == 1
    assert out.startswith("status red")
    code, out, _ = command(monkeypatch, capsys, "attack", saved / "out.csv", "--original", saved / "in.csv",
                           "--schema", saved / "none.toml", "--json")  # fmt: skip
    assert code == 2
    code, out, _ = command(monkeypatch, capsys, "attack", saved / "out.csv", "--original", saved / "in.csv",
                           "--sensitive", "disease", "--targets", "50", "--json", "--report", saved / "a.html")  # fmt: skip
    told = json.loads(out)
    assert code == 0
    assert {"rate", "baseline", "control", "interval"} <= set(told["attacks"][0])
    assert "Custodian only" in (saved / "a.html").read_text()


def test_bad_input_of_the_attack_command_is_one_sentence(saved, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty.csv").write_text("")
    for words in (
        (tmp_path / "empty.csv", "--original", saved / "in.csv"),
        (saved / "out.csv", "--original", tmp_path / "none.csv"),
        (saved / "out.csv", "--original", saved / "in.csv", "--control", saved / "in.csv"),
        (saved / "out.csv", "--original", saved / "in.csv", "--sensitive", "gone"),
        (saved / "out.csv", "--original", saved / "in.csv", "--release-type", "secret"),
    ):
        code, out, err = command(monkeypatch, capsys, "attack", *words)
        assert (code, out) == (2, ""), words
        assert err.startswith("shoal: ")
        assert err.count("\n") == 1


def test_a_release_type_stands_in_the_rule_and_refuses_a_smaller_k():
    from shoal.errors import GuaranteeError

    with pytest.raises(GuaranteeError, match="k = 5 is below the 11 of the release type public"):
        shoal.protect(survey(), k=5, method="mdav", release_type="public")
    done = shoal.protect(survey(), k=11, method="mdav", release_type="public")
    assert "Release type public" in done.rule
    assert "--release-type public" in done.placed("a.csv", "b.csv").command()


def test_the_index_names_every_file_verdict_and_note(saved):
    made = dossier(saved / "run.json", saved / "named", targets=20)
    index = unescape((saved / "named" / "index.html").read_text())
    for name in made.files:
        assert name == "index.html" or f'href="{name}"' in index, name
    run = read_run(saved / "run.json")
    for words in (
        *run.facts["notes"],
        "holding records out",
        "people of 240 were drawn",
        "k-anonymity",
        "records at risk",
    ):
        assert words in index, words
    assert ">hidden<" not in index


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """A private answer and a release, with their dossiers."""
    pytest.importorskip("opendp")
    from shoal.dp import Session
    from shoal.evidence import run_of_answer
    from shoal.release import release_marginals

    folder = tmp_path_factory.mktemp("private")
    frame = survey(150).select("age", "region", "disease")
    frame.write_csv(folder / "in.csv")
    schema = Schema(
        {
            "age": Column("age", role="quasi", bounds=(0, 110), step=10),
            "region": Column("region", kind="category", levels=("north", "south", "east")),
            "disease": Column("disease", role="sensitive", kind="category", levels=("none", "flu")),
        },
        id="private", budget=4.0,
    )  # fmt: skip
    answer = Session(frame, schema).ask("SELECT region, COUNT(*) FROM t GROUP BY region", 1.0)
    asked = {
        "query": "SELECT region, COUNT(*) FROM t GROUP BY region",
        "epsilon": 1.0,
        "mode": "dp",
        "analyst": "carla",
    }
    run_of_answer(answer.to_dict(), schema, asked, str(folder / "in.csv")).save(folder / "ask.json")
    done = release_marginals(frame, schema, 1.0)
    done.frame.write_csv(folder / "out.csv")
    facts = {"stamp": done.guarantee, "epsilon": 1.0, "method": "marginals", "information_loss": 12.34567}
    request = {
        "epsilon": 1.0,
        "method": "marginals",
        "order": "curve",
        "analyst": "carla",
        "neighbours": "add-remove",
    }
    run_of_release(facts, schema, request, str(folder / "in.csv"), str(folder / "out.csv")).save(
        folder / "release.json"
    )
    for name in ("ask", "release"):
        dossier(folder / f"{name}.json", folder / name, targets=20)
    return folder


def test_a_private_release_claims_nothing_that_is_not_so(private):
    """Its cells are nobody's: no group's value, nothing published as it was, no seed, nobody's name."""
    for name in ("public/index.html", "public/codebook.xml", "index.html"):
        text = (private / "release" / name).read_text()
        for words in (
            "Published as it was",
            "value of a group",
            "carla",
            "k-anonymity",
            "seed",
            "look alike",
        ):
            assert words not in text, (name, words)
    assert "no cell is a record" in (private / "release" / "public" / "codebook.xml").read_text()
    assert all("12.34" not in path.read_text() for path in (private / "release" / "public").iterdir())
    index = (private / "release" / "index.html").read_text()
    assert "73.1 % right guesses about membership" in index
    assert "holding records out" in index


def test_a_private_answer_stands_in_its_dossier(private):
    for name in ("index.html", "public/index.html"):
        text = (private / "ask" / name).read_text()
        assert "north" in text
        assert "count, 95 %" in text
        for words in ("Attacks were tried", "k-anonymity", "carla", "seed", "remaining"):
            assert words not in text, (name, words)
    assert "status none" in (private / "ask" / "index.html").read_text()


def test_nothing_more_may_be_told_beside_a_private_release(private):
    with pytest.raises(InputError, match="would lose its guarantee. Got 'loss'"):
        dossier(private / "release.json", private / "told", allow=["loss"], targets=20)
    assert not (private / "told").exists()


@pytest.mark.parametrize(
    ("stamp", "name"),
    [
        ("guarantee: epsilon-DP, add or remove one record", "Pure DP"),
        ("guarantee: (epsilon + iota)-Pufferfish for the stated secrets and scenarios", "Pufferfish privacy"),
        ("guarantee: for the stated coefficients, pairwise dependence only; one release",
         "other: for the stated coefficients, pairwise dependence only; one release"),
        ("guarantee: none (research reproduction)", "other: none (research reproduction)"),
    ],
)  # fmt: skip
def test_the_registry_calls_nothing_dp_that_is_not(stamp, name):
    run = run_of_release(
        {"stamp": stamp, "epsilon": 1.0}, Schema({}, id="t"), {"epsilon": 1.0}, "in.csv", "out.csv"
    )
    told = registry_tiers(run)["tier_1"]["deployment"]
    assert told["dp_flavor"]["name"] == name
    assert told["privacy_loss"]["privacy_unit_description"] == stamp.removeprefix("guarantee: ")


def test_the_codebook_says_what_steps_did(tmp_path):
    """A sensitive column that a step changed is not published as it was."""
    from shoal.evidence._pages import Evidence
    from shoal.scenarios import release_type

    run = replace(
        run_of_release({}, Schema({}, id="t"), {}, "in.csv", "out.csv"), job="protect",
        facts={"steps": [{"method": "pram", "columns": ["disease"]}, {"method": "noise", "columns": ["disease", "age"]}]},
    )  # fmt: skip
    done = Evidence(run, release_type(None)).treatments
    assert done["disease"].startswith("Changed by pram, then noise;")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda f: f.with_columns(pl.col("age") + pl.int_range(pl.len()) / 1e6),
            "it is not the table that was checked",
        ),
        (lambda f: f.head(200), "has 200 rows where the run protected 240"),
        (lambda f: f.drop("income"), "lacks 'income', which the run checked"),
    ],
)
def test_another_file_than_the_run_wrote_turns_the_dossier_red(saved, change, words):
    run = read_run(saved / "run.json")
    published = pl.read_csv(saved / "out.csv")
    assert mismatches(run, published) == ()
    assert words in mismatches(run, change(published))[0]
    if words.startswith("it is"):
        change(published).write_csv(saved / "swapped.csv")
        made = dossier(run, saved / "swapped", protected=saved / "swapped.csv", targets=20)
        assert made.status == "red"
        assert words in made.reasons[0]


def test_a_run_that_was_moved_finds_its_tables_beside_it(saved, tmp_path, monkeypatch):
    for name in ("run.json", "in.csv", "out.csv"):
        (tmp_path / name).write_bytes((saved / name).read_bytes())
    monkeypatch.chdir("/")
    assert dossier(tmp_path / "run.json", tmp_path / "dossier", targets=20).status in ("green", "amber")
