"""The pictures of the documentation: drawn from what is there, and in the page's colours."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import shoal

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

import generate  # noqa: E402 - lives beside the pages it makes
from drawings import ALONE, PICTURES, architecture, draw_cover, figures, partitions  # noqa: E402

QUICK = (
    "family-fixed-size",
    "forming",
    "film",
    "il-against-seconds-census",
    "correlated-noise",
    "architecture",
    "answering",
)


def test_the_architecture_is_as_its_contract_says():
    layer = {part: level for level, parts in enumerate(architecture.layers()) for part in parts}
    edges = architecture.uses()
    assert set(edges) == set(layer)
    found = {
        path.stem
        for path in (architecture.ROOT / "src" / "shoal").iterdir()
        if path.suffix == ".py" or path.is_dir()
    }
    assert {each for each in found if not each.startswith("__")} - {"py"} == set(layer)
    for part, others in edges.items():
        for other in others:
            assert layer[other] > layer[part], f"{part} uses {other}, which does not stand below it"
    assert "microaggregation" in edges["publish"]


def test_private_answers_are_as_their_contract_says():
    layer = {part: level for level, parts in enumerate(architecture.layers("shoal.dp")) for part in parts}
    edges = architecture.uses("shoal.dp")
    assert {"sql", "meaning", "mechanisms", "answering", "loading", "ledger"} <= set(edges)
    for part, others in edges.items():
        assert all(layer[other] >= layer[part] for other in others), part
    assert {"answering", "ledger"} <= set(edges["session"])


def test_lines_that_follow_from_others_are_left_out():
    assert architecture.needed({"a": {"b": 1, "c": 1}, "b": {"c": 1}, "c": {}}) == {
        "a": {"b"},
        "b": {"c"},
        "c": set(),
    }


def test_every_method_has_a_picture():
    shown = {method.name for methods in partitions.FAMILIES.values() for method in methods}
    assert shown == set(shoal.methods())


@pytest.mark.parametrize("name", QUICK)
def test_a_picture_takes_its_colours_from_the_page(name):
    text = PICTURES[name]()
    root = ElementTree.fromstring(text)
    assert root.tag == "svg"
    assert len(root.attrib["aria-label"]) > 20
    assert not re.search(r"#[0-9a-f]{6}", text)


def test_the_cover_stands_alone(tmp_path):
    draw_cover(tmp_path / "cover.svg")
    text = (tmp_path / "cover.svg").read_text(encoding="utf-8")
    used = set(re.findall(r"var\((--[\w-]+)\)", text.replace(ALONE, "")))
    assert used <= set(re.findall(r"(--[\w-]+):", ALONE))
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_what_is_measured_has_its_machine():
    assert all({"table", "method", "k", "seconds", "il"} <= set(each) for each in figures.measured())
    facts = json.loads((figures.FOLDER / "methods.json").read_text(encoding="utf-8"))
    assert {"processor", "cores", "date"} <= set(facts["machine"])


def test_the_benchmarks_page_shows_every_file(tmp_path):
    facts = {
        "title": "A title",
        "machine": {"cores": 2},
        "records": [{"method": "mdav", "il": 1.23456, "kept": True}],
    }
    (tmp_path / "one.json").write_text(json.dumps(facts), encoding="utf-8")
    (tmp_path / "two.json").write_text(json.dumps({"title": "Printed", "text": "a line"}), encoding="utf-8")
    page = generate.benchmarks_page(tmp_path)
    assert "| mdav | 1.235 | yes |" in page
    assert "## Printed" in page
    assert "a line" in page


def test_the_benchmarks_page_says_of_which_code_each_piece_is(tmp_path):
    piece = {"name": "a", "commit": "1234567", "cpu_seconds": 3.0}
    facts = {"title": "A title", "pieces": [piece, {**piece, "name": "b"}], "records": [{"n": 1}]}
    (tmp_path / "one.json").write_text(json.dumps(facts), encoding="utf-8")
    assert "Code: commit 1234567. 6 CPU seconds." in generate.benchmarks_page(tmp_path)
    facts["pieces"][1]["commit"] = "7654321"
    (tmp_path / "one.json").write_text(json.dumps(facts), encoding="utf-8")
    assert "commit 1234567 (a); commit 7654321 (b)" in generate.benchmarks_page(tmp_path)


def test_private_tables_stand_beside_their_rivals(tmp_path):
    assert "prints the figures" in generate.private_tables(tmp_path)
    ours = {"table": "adult", "method": "shoal, zCDP", "epsilon": 1.0, "seconds": 6.31}
    rows = [
        ours | {"one": 0.006, "two": 0.0295, "three": 0.0679},
        ours
        | {
            "method": "resampled",
            "epsilon": None,
            "one": 0.005,
            "two": 0.0133,
            "three": 0.0283,
            "seconds": 0.0,
        },
        {"table": "adult", "method": "aim", "epsilon": 1.0, "capped": 1200},
        {"table": "adult", "method": "ranges, pure", "epsilon": 1.0, "ranges": 0.002},
    ]
    (tmp_path / "private_tables.json").write_text(json.dumps({"records": rows}), encoding="utf-8")
    page = generate.private_tables(tmp_path)
    line = "| Adult, 15 columns | 1 | .0060 / .0295 / .0679, 6.31 s |  | not ended in 1,200 s |  |  | .0050 / .0133 / .0283 |"
    assert line in page.splitlines()


def test_seeds_of_a_search_are_shown_by_mean_and_spread(tmp_path):
    rows = [
        {"table": "census", "k": k, "seconds": 10, "seed": seed, "il": 4.0 + seed, "goal": 5.5}
        for k in range(3, 13)
        for seed in range(5)
    ]
    (tmp_path / "one.json").write_text(json.dumps({"title": "Search", "records": rows}), encoding="utf-8")
    page = generate.benchmarks_page(tmp_path)
    assert "| census | 3 | 10 | 5 | 6.0000 | 4.0000 to 8.0000 | 5.5 |" in page
