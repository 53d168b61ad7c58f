"""The pictures: drawn for any values, in the page's colours, the same in every run and thread."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

from shoal.report.canvas import clean, short
from shoal.report.figures import (
    MapPoint,
    Series,
    compare_levels,
    compare_numbers,
    group_sizes,
    lines,
    pareto_front,
    scatter_map,
)
from shoal.report.places import Box, place_labels

RNG = np.random.default_rng(3)
POINTS = [
    MapPoint(method, k, loss * (1 + 0.1 * j), risk * (1 - 0.05 * j))
    for k, loss, risk in ((3, 5.0, 0.3), (5, 9.0, 0.2), (10, 14.0, 0.1))
    for j, method in enumerate(("mdav", "cbfs", "<script>", "anneal"))
]


def texts(picture) -> list[str]:
    root = ElementTree.fromstring(picture)
    assert root.tag == "svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"]
    return [each.text for each in root.iter("text")]


@pytest.mark.parametrize(
    ("before", "compressed"),
    [
        (RNG.normal(size=500), False),
        (RNG.integers(0, 4, 200).astype(float), False),
        (RNG.integers(-(10**6), 10**6, 200).astype(float), False),
        (RNG.lognormal(8, 3, 500), True),
        (-RNG.lognormal(8, 3, 500), True),
        (np.append(RNG.normal(size=300), 1e6), True),
        (np.full(9, 7.0), False),
        (np.zeros(9), False),
        (np.array([1e15, 1e15 + 4]), False),
        (np.array([1e-300, 3e-300]), False),
        (RNG.lognormal(0, 3, 99) * 1e-200, True),
        (RNG.lognormal(0, 3, 99) * 1e200, True),
        (np.array([]), False),
    ],
    ids=range(13),
)
def test_numbers_of_any_shape_are_drawn(before, compressed):
    after = np.full_like(before, before.mean()) if before.size else before
    picture, said = compare_numbers("income", before, after)
    assert said == compressed
    assert any("%" in each for each in texts(picture))


def test_every_record_is_in_some_bar():
    """Heights of the two histograms each add up to all records."""
    from shoal.report.figures import _bars

    for values in (RNG.lognormal(8, 3, 999), RNG.integers(0, 300, 999).astype(float), RNG.normal(size=999)):
        after = np.round(values, 1)
        edges, _ = _bars(np.concatenate([values, after]), values, compressible=True)
        assert np.all(np.diff(edges) > 0)
        assert np.histogram(values, edges)[0].sum() == np.histogram(after, edges)[0].sum() == 999


def test_dates_show_years():
    days = np.arange(0.0, 9000.0, 30.0)
    picture, _ = compare_numbers("born", days, days, dates=True)
    assert any(re.fullmatch(r"(19|20)\d\d", each) for each in texts(picture))


def test_levels_are_shortened_escaped_and_spoken():
    levels = ["a", "<b>&'\"", "x" * 200, "年", "$\\alpha$", "zero\x00"]
    picture = compare_levels("job", levels, np.linspace(0, 0.4, 6), np.linspace(0.4, 0, 6))
    shown = texts(picture)
    assert {"a", "<b>&'\"", "年", "$\\alpha$"} <= set(shown)
    assert max(len(each) for each in shown) <= 17
    assert "a 0 % and 40 %" in picture
    assert "<b>" not in picture


def test_group_sizes_of_any_range():
    assert "k = 3" in texts(group_sizes(np.array([3, 3, 4, 5]), 3))
    assert texts(group_sizes(np.array([2, 700, 90_000]), 3))
    assert "1 groups of 5 records each" in group_sizes(np.array([5]), 5)


def test_map_names_the_front_and_tells_every_mark():
    picture = scatter_map(POINTS)
    front = pareto_front(POINTS)
    assert sum(front) == 12
    shown = texts(picture)
    assert shown.count("anneal") == 3
    assert "&lt;script&gt;" in picture
    titles = [each.text for each in ElementTree.fromstring(picture).iter("title")]
    assert len(titles) == len(POINTS)
    assert "anneal, k = 3: loss 6.5 %, linkage 25.5 %, on the Pareto front" in titles
    assert {"k = 3", "k = 5", "k = 10"} <= set(shown)


def test_map_of_one_point_and_of_many():
    assert "mdav" in texts(scatter_map([MapPoint("mdav", 3, 0.0, 0.0)]))
    many = [MapPoint(f"method-{j}", 2 + j % 9, *RNG.random(2)) for j in range(150)]
    shown = texts(scatter_map(many))
    assert all(point.method in shown for point, best in zip(many, pareto_front(many), strict=True) if best)


def test_pareto_front_keeps_equals():
    twins = [MapPoint("a", 3, 1.0, 0.1), MapPoint("b", 3, 1.0, 0.1), MapPoint("c", 3, 1.0, 0.2)]
    assert pareto_front(twins) == [True, True, False]


def test_names_do_not_cover_each_other():
    marks = [tuple(each) for each in RNG.uniform(0, 400, (60, 2))]
    names = ["name"] * 60
    places = [each.box for each in place_labels(marks, names, [False] * 60, Box(0, 0, 400, 400)) if each]
    assert len(places) > 20
    assert all(a.overlap(b) == 0 for i, a in enumerate(places) for b in places[:i])
    assert all(a.overlap(Box(x - 4, y - 4, x + 4, y + 4)) == 0 for a in places for x, y in marks)


def test_lines_on_both_scales():
    series = [
        Series("ours", [10, 100, 1000], [1, 2, 3], [0.5, 1, 2], [2, 3, 4]),
        Series("theirs & co", [10, 1000], [5, 500]),
    ]
    picture = lines(series, x_label="rows", y_label="seconds", log_x=True, log_y=True)
    assert {"rows", "seconds", "ours", "theirs & co", "10", "100", "1k"} <= set(texts(picture))
    assert "ours" in texts(lines(series[:1], x_label="rows", y_label="seconds"))


def test_colours_are_the_pages():
    for picture in (scatter_map(POINTS), compare_numbers("a", RNG.normal(size=50), np.zeros(50))[0]):
        assert "var(--ink)" in picture or "var(--after)" in picture
        assert not re.search(r"(fill|stroke): ?#", picture)
        assert "font-family" not in picture


def test_settings_of_the_process_neither_change_nor_matter():
    expected = scatter_map(POINTS)
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "axes.grid": True}):
        inside = dict(mpl.rcParams)
        assert scatter_map(POINTS) == expected
        assert dict(mpl.rcParams) == inside


def test_threads_take_turns():
    expected = [str(group_sizes(np.array([3, 4, 5 + j]), 3)) for j in range(8)]
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda j: str(group_sizes(np.array([3, 4, 5 + j]), 3)), range(8)))
    assert drawn == expected


def test_pyplot_is_not_loaded():
    code = (
        "import sys, numpy, shoal.report.figures as f; f.group_sizes(numpy.array([3, 4]), 3); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (1500, "1.5k"), (2e7, "20M"), (-3, "−3"), (0.25, "0.25"), (4e9, "4G"), (1e20, "1e+20")],
)
def test_numbers_on_an_axis(value, words):
    assert short(value) == words


def test_clean_words():
    assert clean("a\nb\tc") == "a b c"
    assert clean("\x00\ud800") == "\N{REPLACEMENT CHARACTER}" * 2
    assert len(clean("x" * 99, 10)) == 10
