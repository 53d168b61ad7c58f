"""The report: what stands in it, what a public one must not tell, and that it is safe and readable."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pytest

import shoal
from pages import Page
from shoal.errors import InputError
from shoal.privacy import Verdict
from shoal.publish.stages.check import Exposure
from shoal.publish.stages.measure import LossCertificate
from shoal.publish.status import status_of
from shoal.report import write_report
from shoal.report.build import gather
from shoal.report.columns import compare_columns
from shoal.report.html import render_report
from shoal.schema import Column, Schema

NOW = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
CERTIFICATE = LossCertificate(
    method="column generation", seconds=12.3, note="", bound=4.6, gap=1.4, proven=True
)


def page_of(protection, **options) -> Page:
    return Page(render_report(gather(protection, now=NOW, **options)))


@pytest.fixture(scope="module")
def full(mixed) -> Page:
    return page_of(replace(mixed, figures=replace(mixed.figures, certificate=CERTIFICATE)))


def test_sections_in_order(full, plain):
    assert full.headings == [
        "Summary",
        "What was protected, and how",
        "Verdicts",
        "Group sizes",
        "Original and protected, column by column",
        "Loss and risk",
        "What is not protected",
        "Certificate",
        "Settings, and how to repeat the run",
    ]
    assert "Certificate" not in page_of(plain).headings


def test_full_report_is_marked_and_tells_the_figures(full, mixed):
    assert "Custodian only, since its risk figures use the original" in full.text
    assert f"{100 * mixed.figures.dld:.3g} %" in full.text
    assert f"{mixed.figures.information_loss:.3g} %" in full.text
    assert "could save at most 1.4 % of the loss of this one" in full.text
    assert "written 2024-02-29 12:00 UTC" in full.text
    # A picture for the groups and each of the nine aggregated columns, and the logo.
    assert len(full.all("svg")) == 11


def test_guarantee_in_the_standard_words(full, plain):
    words = "taken as quasi-identifiers, and nothing about columns left as they are"
    assert f"{words}: disease and comment." in full.text
    assert f"k-anonymity of the aggregated columns {words}; here there is none." in page_of(plain).text


@pytest.mark.parametrize("public", [True, False])
def test_page_is_self_contained_and_accessible(mixed, public):
    page = page_of(mixed, public=public)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.elements}
    assert "default-src 'none'" in page.source
    for _, attributes in page.elements:
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        assert attributes.get("href", "#").startswith("#")
        assert "url(" not in attributes.get("style", "")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"][1:] for _, attributes in page.elements if "href" in attributes}
    targets |= {attributes["aria-labelledby"] for attributes in page.all("section")}
    assert targets <= set(ids)
    assert len(page.all("h1")) == 1
    assert page.all("html")[0]["lang"] == "en"
    assert all("scope" in attributes for attributes in page.all("th"))
    for attributes in page.all("svg"):
        assert attributes.get("aria-hidden") == "true" or (
            attributes["role"] == "img" and attributes["aria-label"]
        )


def test_hostile_names_and_values_are_only_text(full, mixed):
    evil = next(name for name in mixed.settings()["columns"] if "<script>" in name)
    assert evil in full.text
    assert "<b>job & 0</b>" in full.source.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert "Protection report: survey <i>2020</i>" in full.text
    assert not full.all("script")
    assert "49" not in re.findall(r"quoted\" & (\S+)", full.text)
    assert "\x1b" not in full.source


def test_public_report_reads_nothing_of_the_original(mixed):
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(f"the public report looked at {name!r}")

        __getitem__ = __contains__ = __iter__ = __len__ = __getattr__

    blind = replace(mixed, original=Untouchable(), figures=Untouchable(), notes=Untouchable())
    assert render_report(gather(blind, public=True, now=NOW)) == page_of(mixed, public=True).source


def test_public_report_leaves_out_risk_and_notes(mixed):
    told = replace(
        mixed,
        notes=(*mixed.notes, "Stratum 'x' has 2 rows."),
        source="secret.csv",
        output="out.csv",
        figures=replace(mixed.figures, certificate=CERTIFICATE),
    )
    page = page_of(told, public=True)
    for word in ("DLD", "Custodian", "custodian", "linked", "loss", "Stratum 'x'", "secret.csv", "4.6 %"):
        assert word not in page.text, word
    for word in ("mdav", "k-anonymity", "✓ holds", "disease", "comment", "Group sizes", "stratum"):
        assert word in page.text, word
    full = page_of(told)
    for word in ("DLD", "Stratum 'x'", "shoal protect secret.csv", 'read_table("secret.csv"', "4.6 %"):
        assert word in full.text, word


def test_unprotected_columns_are_counted_in_the_published_table(mixed):
    left = {each.name: each for each in gather(mixed).left}
    frame = mixed.original
    alone = frame["comment"].value_counts().filter(pl.col("count") == 1).height
    assert (left["comment"].distinct, left["comment"].alone) == (frame["comment"].n_unique(), alone)
    assert [each.role for each in left.values()] == ["sensitive", "leave"]


def test_python_of_the_report_repeats_the_run(mixed, plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protection, public in ((plain, False), (plain, True), (mixed, False)):
        protection.original.write_parquet("table.parquet")
        told = replace(protection, source="table.parquet")
        facts = gather(told, public=public)
        (tmp_path / "schema.toml").write_text(facts.schema)
        code = facts.python.replace('"table.csv"', '"table.parquet"')
        ran: dict = {}
        exec(compile(ast.parse(code), "report", "exec"), ran)
        assert ran["protection"].frame.equals(protection.frame)
    assert Schema.from_toml_text(facts.schema) == mixed.schema


def test_parameters_of_the_method_are_in_the_python():
    frame = pl.DataFrame({"age": [20, 21, 22, 60, 61, 62, 63]})
    facts = gather(shoal.protect(frame, k=3, method=shoal.methods()["v-mdav"](gamma=0.5)))
    assert 'method=shoal.methods()["v-mdav"](k=3, gamma=' in facts.python
    assert any(name == "method · gamma" for name, _ in facts.settings)


def test_python_of_a_search_ended_by_the_clock_repeats_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({name: rng.normal(size=120) for name in "ab"})
    frame.write_csv("table.csv")
    protection = shoal.protect(frame, k=3, method="anneal", time_limit=0.2)
    facts = gather(protection, public=True)
    assert f"max_proposals={protection.work.proposals}" in facts.python
    assert f"search_plan={protection.work.plan}" in facts.python
    ran: dict = {}
    exec(compile(ast.parse(facts.python), "report", "exec"), ran)
    assert ran["protection"].frame.equals(protection.frame)


def test_settings_that_are_no_plain_values_are_left_to_the_reader(plain):
    own = {"start": np.zeros(3), "progress": print, "seed": np.int64(4), "gap": None}
    rows = dict(gather(replace(plain, parameters=own)).settings)
    assert (rows["method · start"], rows["method · seed"]) == ("given by the caller", "4")
    assert "method · gap" not in rows
    assert (rows["k"], rows["strata"], rows["random state"]) == ("5", "none", "0")


def test_other_kinds_of_frames():
    frame = pl.DataFrame({"age": [20, 21, 22, 60, 61, 62], "city": list("AABBCC")})
    pages = [
        page_of(shoal.protect(each, k=3, method="mdav"))
        for each in (frame, frame.to_pandas(), frame.to_arrow())
    ]
    texts = [re.sub(r"Time [\d.]+ s", "", page.text) for page in pages]
    assert texts[0] == texts[1] == texts[2]


def test_many_columns_are_capped_and_the_file_stays_small(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"column {j}": rng.normal(size=200) for j in range(30)})
    protection = shoal.protect(frame, k=3, method="mdav")
    page = page_of(protection)
    assert len(page.all("svg")) == 24 + 2
    assert "The first 24 protected columns are drawn; 6 more are left out here." in page.text
    assert len(page.source) < 500_000


def test_report_is_written_whole_or_not_at_all(plain, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    plain.report(path)
    before = path.read_text()
    assert before.startswith("<!doctype html>")
    monkeypatch.setattr("shoal.report.html.render_report", lambda facts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(plain, path)
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="does not exist"):
        plain.report(tmp_path / "nowhere" / "report.html")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((4.6, 0.0, True), "proven to be optimal"),
        ((4.6, 0.5, True), "can lose less than 4.6 %"),
        ((4.6, 0.0, False), "found but not proven"),
        ((None, None, False), "nothing is said about the optimum"),
    ],
)
def test_certificate_says_what_is_proven(plain, given, words):
    facts = gather(
        replace(
            plain,
            figures=replace(plain.figures, certificate=LossCertificate(*given, "linear programme", 1.0, "")),
        )
    )
    assert facts.certificate is not None
    assert words in facts.certificate.sentence
    assert dict(facts.certificate.rows)["Bound proven"] == ("yes" if given[2] else "no")


def test_failed_demand_is_red_and_said(plain):
    bad = replace(plain.verdicts[0], value=1, holds=False, records_at_risk=4)
    status = status_of((bad,), Exposure(0.0, ("age",), {}), 5)
    facts = gather(replace(plain, verdicts=(bad,), status=status.colour, reasons=status.reasons))
    assert facts.status.colour == "red"
    assert facts.status.advice == "do not publish"
    assert "k-anonymity does not hold on age, income" in facts.status.reasons
    assert "someone has unique values" in facts.sentences[0]
    assert facts.verdicts[0].state == "fails"


def test_every_model_has_its_sentence(plain):
    first = plain.verdicts[0]
    told = {
        "distinct l-diversity": (3, "takes at least 3 different values"),
        "entropy l-diversity": (1, "all records have one value of “disease”"),
        "recursive (c, l)-diversity with c = 2": (2, "do not outweigh the rest"),
        "t-closeness (ordered distance)": (0.25, "farther than 0.25 from the whole table"),
        "delta-presence": ((0.1, 0.5), "a probability of 0.1 to 0.5"),
        "something new": (7, "The table reaches 7."),
    }
    verdicts = tuple(
        replace(first, model=model, sensitive="disease", value=each[0]) for model, each in told.items()
    )
    assert all(isinstance(each, Verdict) for each in verdicts)
    facts = gather(replace(plain, verdicts=(first, *verdicts)))
    for verdict, (_, words) in zip(facts.verdicts[1:], told.values(), strict=True):
        assert words in verdict.meaning


@pytest.mark.parametrize("seed", range(4))
def test_linkage_never_exceeds_groups_by_records(seed):
    """The ceiling that the report states."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({name: rng.integers(0, 6, 80) for name in "abc"})
    figures = shoal.protect(frame, k=int(rng.integers(2, 6)), method="mdav").figures
    assert figures.dld <= figures.n_groups / figures.n_records + 1e-12


def test_being_found_is_told_before_and_after_and_never_in_public(tmp_path):
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {
            "age": rng.integers(18, 90, 80),
            "town": rng.choice(list("abc"), 80),
            "home": np.arange(80) // 2,
            "w": rng.uniform(1, 40, 80),
        }
    )
    schema = Schema({"town": Column("town", "quasi", "category"), "age": Column("age", "quasi")})
    result = shoal.protect(
        frame, 4, schema=schema, method="mdav", weights="w", households="home", on_missing="error"
    )
    found = result.figures.identification
    assert found.source == "weights"
    assert found.before["unique"] > 0 == found.after["unique"]
    assert found.after["special_uniques"] == 0
    assert found.after["household_largest"] < found.before["household_largest"]
    assert found.after["k_map"] >= 8
    text = Page(render_report(gather(result))).text
    for words in (
        "Being found",
        "Household risk, mean",
        "k-map",
        "DIS-SUDA",
        "Individual risk",
        "brought most of the risk",
    ):
        assert words in text
    public = Page(render_report(gather(result, public=True))).text
    assert "Being found" not in public
    assert "SUDA" not in public


def test_linkage_of_a_sample_is_said_to_be_one(monkeypatch, tmp_path):
    from shoal.publish.executors import memory

    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.normal(size=1_500), "b": rng.normal(size=1_500)})
    whole = shoal.protect(frame, k=5, method="mdav")
    assert whole.figures.linked_records == 1_500
    assert "sample" not in " ".join(whole.lines())
    monkeypatch.setattr(memory, "MEASURED_RECORDS", 400)
    some = shoal.protect(frame, k=5, method="mdav")
    assert some.figures.linked_records == 400
    assert "linkage is of a sample of 400 records" in " ".join(some.lines())
    some.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "a sample of 400 was tried" in page
    assert "measured on a sample of 400 of 1,500 records" in page


def test_numbers_and_dates_that_became_intervals_are_drawn_as_values():
    born = [date(1950, 1, 1) + timedelta(days=97 * each) for each in range(120)]
    frame = pl.DataFrame({"age": [each % 60 for each in range(120)], "born": born, "job": ["a", "b"] * 60})
    schema = Schema({"age": Column("age", kind="number", breaks=(0, 20, 40))})
    done = shoal.protect(frame, k=4, method="generalize", schema=schema)
    names = ["age", "born", "job"]
    age, days, job = compare_columns(frame, done.frame, done.schema, names, {"age": 3.0})
    for each in (age, days):
        assert each.levels == ()
        assert each.after.size == 120
        assert each.before.min() <= each.after.min() <= each.after.max() <= each.before.max()
        assert "drawn as spread over its intervals" in each.caption
        assert abs(each.after.mean() - each.before.mean()) < 0.2 * np.ptp(each.before)
    assert job.levels


def test_a_number_that_is_suppressed_as_a_whole_is_drawn(tmp_path):
    """A text file tells an empty column's type no more: its cells are read as missing texts."""
    before = pl.DataFrame({"pay": [float(each) for each in range(40)]})
    after = pl.DataFrame({"pay": pl.Series([None] * 40, dtype=pl.String)})
    schema = Schema({"pay": Column("pay", kind="number")})
    (pay,) = compare_columns(before, after, schema, ["pay"], {"pay": 100.0})
    assert pay.before.size == 40
    assert pay.after.size == 0
