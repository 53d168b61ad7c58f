"""Hierarchies: what they are made from, what is refused, and common ancestors against sets of leaves."""

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InputError, SchemaError
from shoal.generalization import Hierarchy, from_breaks, from_dates, intervals, read_hierarchies


def leaves_below(tree, node):
    """The leaves under a node, by looking at every level."""
    return {leaf for leaf in range(len(tree.leaves)) if node in tree.up[:, leaf]}


def check_tree(tree):
    """Ancestors are the smallest nodes that hold both, and levels nest."""
    joined = tree.common_ancestors()
    below = [leaves_below(tree, node) for node in range(tree.n_nodes)]
    for a in range(tree.n_nodes):
        for b in range(tree.n_nodes):
            both = below[a] | below[b]
            smallest = min((len(set_) for set_ in below if both <= set_), default=None)
            assert len(below[joined[a, b]]) == smallest
            assert both <= below[joined[a, b]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), min_size=1, max_size=8))
def test_common_ancestors_are_the_smallest_sets(parents):
    rows = [(f"v{at}", f"{top}-{mid}", top) for at, (mid, top) in enumerate(parents)]
    tree = Hierarchy.from_rows("c", rows)
    check_tree(tree)
    check_tree(tree.with_missing())
    kept = tree.restricted(np.arange(0, len(rows), 2))
    assert kept.leaves == tuple(tree.leaves[::2])
    check_tree(kept)


def test_breaks_dates_and_intervals_read_well():
    tree = from_breaks("age", [-3, 17, 18, 35, 64, 99], [0, 18, 35, 65])
    assert [tree.labels[node] for node in tree.up[1]] == ["-3", "17", "18", "35-64", "35-64", "99"]
    assert from_breaks("x", [0.5, 1.5, 1.75], [1.0, 2.0]).labels[-2:] == ("1 to <2", "*")
    two = from_breaks("age", [1, 5, 12, 30], [[0, 5, 10, 20], [0, 10]])
    assert [two.labels[node] for node in two.up[2]] == ["0-9", "0-9", "10+", "10+"]
    dates = from_dates(
        "d", [datetime.date(1980, 5, 17), datetime.date(1980, 5, 18), datetime.date(1993, 1, 1)]
    )
    assert dates.labels[3:] == ("1980-05", "*")
    assert "20-24" in intervals("age", list(range(18, 90))).labels
    assert intervals("c", [4.0]).n_levels == 1


def test_loss_of_an_interval_is_its_width():
    tree = from_breaks("age", [20, 30, 40, 69], [0, 35])
    assert tree.domain == 50
    assert tree.covered[tree.up[1][0]] == 11


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", "x"), ("b",)], "same number of levels"),
        ([("a", "x"), ("b", "")], "no gap"),
        ([("a", "x"), ("a", "y")], "each value once"),
        ([("a", "x", "p"), ("b", "x", "q")], "one parent"),
        ([], "must hold values"),
    ],
)
def test_rows_that_are_no_hierarchy(rows, words):
    with pytest.raises(SchemaError, match=words):
        Hierarchy.from_rows("c", rows)


def test_parents_of_unequal_depth_keep_every_set():
    parents = {"nurse": "health", "cook": "service", "judge": "law", "clerk": "law", "law": "service"}
    tree = Hierarchy.from_parents("job", parents)
    sets = {
        label: {tree.leaves[at] for level in tree.up for at in np.flatnonzero(level == node)}
        for node, label in enumerate(tree.labels)
    }
    assert sets["service"] == {"cook", "judge", "clerk"}
    assert sets["law"] == {"judge", "clerk"}
    assert len(set(tree.labels)) == len(tree.labels)


def test_parents_with_a_cycle_are_refused():
    with pytest.raises(SchemaError, match="cycle"):
        Hierarchy.from_parents("c", {"a": "b", "b": "c", "c": "b"})
    with pytest.raises(SchemaError, match="cycle"):
        Hierarchy.from_parents("c", {"a": "b", "b": "a"})


@pytest.mark.parametrize(
    ("breaks", "words"),
    [([5, 5], "rise"), ([[0, 10], [0, 3]], "among those"), (["x"], "numbers"), ([], "rise")],
)
def test_breaks_that_cannot_cut(breaks, words):
    with pytest.raises(SchemaError, match=words):
        from_breaks("age", [1, 2], breaks)


def test_a_folder_as_arx_keeps_it(tmp_path):
    (tmp_path / "survey_hierarchy_job.csv").write_text("nurse;health;*\ncook;food;*\n", encoding="utf-8")
    (tmp_path / "survey.csv").write_text("job\nnurse\n", encoding="utf-8")
    found = read_hierarchies(tmp_path)
    assert list(found) == ["job"]
    assert found["job"].labels == ("nurse", "cook", "*")
    with pytest.raises(InputError, match="CSV files"):
        read_hierarchies(tmp_path / "none")


def test_a_file_as_spreadsheet_programs_write_it(tmp_path):
    (tmp_path / "town.csv").write_text("sep=;\nA, North;n\nB;n\nC;s\n;\n;\n")
    found = Hierarchy.from_csv(tmp_path / "town.csv")
    assert (found.name, found.leaves) == ("town", ("A, North", "B", "C"))
