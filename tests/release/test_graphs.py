"""Releases of graphs: what one edge can move, exact arrangement, both readings of k, and odd input."""

import json
from fractions import Fraction
from math import comb

import numpy as np
import polars as pl
import pytest
from scipy.sparse import coo_matrix
from typer.testing import CliRunner

from shoal.cli import app
from shoal.datasets import load_graph, make_graph
from shoal.dp import Ledger
from shoal.errors import BudgetError, InputError, ParameterError
from shoal.release import graph_figures, read_graph, release_graph
from shoal.release._network import GRAPH_GUARANTEE, label_vertices, tree_height
from shoal.release._quadtree import Region, _ways, arrange, explore, leaves_of, quarter

RING = np.array([[i, (i + 1) % 60] for i in range(60)])


def test_every_pair_lies_in_one_region_of_each_level():
    n = 11
    pairs = np.array([(a, b) for a in range(n) for b in range(a + 1, n)])
    level = [Region(0, 0, 16, pairs, 0)]
    while level[0].side > 1:
        level = [part for each in level for part in quarter(each, 1, n)]
        assert sum(each.cells(n) for each in level) == len(pairs)
        assert all(len(each.edges) == each.cells(n) for each in level)


def test_leaves_are_consistent_and_keep_the_total():
    edges = read_graph(load_graph()).edges
    leaves = explore(edges, 2000, 5, Fraction(3), 6500.0)
    assert sum(each.count for each in leaves) == pytest.approx(6500, abs=1e-3)
    assert all(0 <= each.count <= each.cells(2000) for each in leaves)
    assert sum(each.cells(2000) for each in leaves) == 2000 * 1999 // 2
    assert sum(len(each.edges) for each in leaves) == len(edges)
    assert all(not each.children for each in leaves_of(leaves[0]))


def test_an_arrangement_is_drawn_by_the_exponential_mechanism_exactly():
    # Three vertices against three: 9 pairs, 2 edges, sets of 2. The overlap has a known distribution.
    region = Region(0, 4, 4, np.array([[0, 4], [1, 5]]), 1)
    n, rate, runs = 7, Fraction(1), 3000
    assert region.cells(n) == 12
    ways = [comb(2, j) * comb(10, 2 - j) * np.exp(float(rate) * j) for j in range(3)]
    seen = np.zeros(3)
    for _ in range(runs):
        drawn = arrange(region, 2, n, rate)
        assert len({tuple(pair) for pair in drawn.tolist()}) == 2
        seen[sum(tuple(pair) in {(0, 4), (1, 5)} for pair in drawn.tolist())] += 1
    expected = np.array(ways) / sum(ways)
    assert np.abs(seen / runs - expected).max() < 5 * np.sqrt(0.25 / runs)


def test_sets_are_counted_one_from_the_other():
    for cells, true, count in ((12, 3, 5), (10, 8, 6), (9, 9, 4), (50, 0, 7)):
        least, most = max(0, count - (cells - true)), min(count, true)
        found = [comb(true, j) * comb(cells - true, count - j) for j in range(least, most + 1)]
        assert _ways(cells, true, count, least, most) == found


def test_one_edge_moves_an_arrangement_by_no_more_than_the_rate():
    # All sets of 2 among 6 pairs, with and without one edge: the utility only grows, so the whole rate is due.
    from itertools import combinations

    rate = 0.7
    sets = list(combinations(range(6), 2))
    for true in ({0}, {0, 1}, {0, 1, 2}):
        less = true - {0}
        weigh = [np.exp([rate * len(set(each) & edges) for each in sets]) for edges in (less, true)]
        ratio = np.log(weigh[1] / weigh[1].sum()) - np.log(weigh[0] / weigh[0].sum())
        assert np.abs(ratio).max() <= rate + 1e-12


def test_labels_follow_degrees_when_the_budget_is_large():
    star = read_graph(np.array([[5, each] for each in range(20) if each != 5]))
    assert label_vertices(star, Fraction(1000))[5] == 0


def test_a_large_budget_gives_the_graph_back():
    out = release_graph(RING, 1, 400.0)
    kept = len(set(map(tuple, out.graph.edges.tolist())) & set(map(tuple, out.original.edges.tolist())))
    assert kept >= 58
    assert out.guarantee == GRAPH_GUARANTEE
    assert out.guarantee == "guarantee: epsilon-DP for any k edges jointly, vertices public"
    assert any("single edges" in note for note in out.notes)


def test_the_reading_by_vertex_caps_degrees():
    out = release_graph(load_graph(), 4, 30.0, reading="vertex")
    assert out.graph.degrees().max() <= 4
    assert any("hidden jointly" in note for note in out.notes)
    assert len(out.graph.edges) > 1000


def test_charges_and_stored_releases():
    ledger = Ledger()
    first = release_graph(RING, 2, 3.0, dataset="ring", ledger=ledger, data_version="1")
    again = release_graph(RING, 2, 3.0, dataset="ring", ledger=ledger, data_version="1")
    assert (first.epsilon, again.epsilon, ledger.spent("ring")) == (3.0, 0.0, 3_000_000)
    assert np.array_equal(first.graph.edges, again.graph.edges)
    with pytest.raises(BudgetError, match="does not allow"):
        release_graph(RING, 2, 2.0, dataset="ring", ledger=ledger)
    with pytest.raises(BudgetError, match="only its owner raises"):
        release_graph(RING, 2, 2.0, dataset="ring", ledger=ledger, budget=9.0)
    ledger.set_caps("ring", 9_000_000)
    with pytest.raises(BudgetError, match="for life"):
        release_graph(RING, 1, 2.0, dataset="ring", ledger=ledger)


def test_doors_for_networkx_and_sparse_matrices():
    nx = pytest.importorskip("networkx", reason="networkx is an extra")
    graph = nx.Graph([("a", "b"), ("b", "c")])
    graph.add_node("alone")
    read = read_graph(graph)
    assert read.n == 4
    assert read.degrees().tolist() == [1, 0, 2, 1]
    ends = np.array([[0, 1], [1, 2]])
    matrix = coo_matrix((np.ones(4), (ends.ravel(), ends[:, ::-1].ravel())), shape=(5, 5)).tocsr()
    assert read_graph(matrix).n == 5
    out = release_graph(matrix, 1, 5.0)
    assert out.to_sparse().shape == (5, 5)
    assert set(release_graph(graph, 1, 5.0).to_networkx().nodes) == {"a", "b", "c", "alone"}


@pytest.mark.parametrize(
    ("data", "options", "error", "words"),
    [
        ([[1, 1], [1, 2]], {}, InputError, "join a vertex to itself, first 1"),
        ([[1, 2], [2, 1], [2, 3]], {}, InputError, "1 come again, first 1 - 2"),
        ([[1, 2, 3]], {}, InputError, "must be pairs"),
        ([[1, 2]], {"vertices": [1, 3]}, InputError, "lacks 2"),
        ([[1, 2]], {"vertices": [1, 1, 2]}, InputError, "each vertex once"),
        (pl.DataFrame({"a": [1, None], "b": [2, 3]}), {}, InputError, "both ends"),
        (pl.DataFrame({"a": [1]}), {}, InputError, "two columns"),
        (RING, {"k": 0}, ParameterError, "'k' of release_graph must be an int in"),
        (RING, {"epsilon": 0.0001}, ParameterError, "too small to explore one level"),
        (RING, {"epsilon": 0.000001}, ParameterError, "to be split over 3 parts"),
        (RING, {"reading": "both"}, ParameterError, "must be one of 'edges', 'vertex'"),
    ],
)
def test_bad_input_is_one_sentence(data, options, error, words):
    settings = {"k": 2, "epsilon": 1.0} | options
    with pytest.raises(error, match=words):
        release_graph(data if isinstance(data, pl.DataFrame) else np.array(data), **settings)


def test_isolated_vertices_stay_in_the_graph():
    out = release_graph(np.array([[1, 2]]), 1, 50.0, vertices=np.arange(10))
    assert out.graph.n == 10


def test_height_grows_with_the_budget():
    heights = [tree_height(2000, 6500.0, Fraction(each)) for each in ("1/1000", "1/5", "5")]
    assert heights == sorted(heights)
    assert heights[0] == 1


def test_twenty_thousand_vertices_need_no_matrix():
    import resource

    edges = make_graph(20_000, 200, random_state=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out = release_graph(edges, 3, 2.0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert abs(len(out.graph.edges) / len(out.original.edges) - 1) < 0.05
    assert grown < 250_000  # kilobytes: a matrix of single bytes would take 390,000


def test_the_command_on_the_bundled_graph(tmp_path):
    load_graph().write_csv(tmp_path / "edges.csv")
    answer = CliRunner().invoke(
        app,
        [
            "release-graph",
            str(tmp_path / "edges.csv"),
            "--epsilon",
            "2",
            "--k",
            "3",
            "--json",
            "-o",
            str(tmp_path / "out.csv"),
            "--pictures",
            str(tmp_path / "p.html"),
        ],
    )
    assert answer.exit_code == 0, answer.output
    facts = json.loads(answer.stdout)
    assert facts["stamp"] == GRAPH_GUARANTEE
    assert facts["epsilon"] == 2.0
    assert facts["released_cut_error"] < facts["naive_cut_error"]
    assert pl.read_csv(tmp_path / "out.csv").height == facts["released_edges"]
    assert (tmp_path / "p.html").read_text().count("<svg") == 2
    assert Ledger(tmp_path / "edges.ledger.db").spent("edges") == 2_000_000


def test_a_released_graph_beats_the_rounded_noisy_matrix():
    out = release_graph(load_graph(), 3, 2.0)
    figures = graph_figures(out, cuts=40)
    for what in ("degree_distance", "cut_error", "near_cut_error"):
        assert getattr(figures.released, what) < getattr(figures.naive, what)


def test_exchanges_gain_what_their_definition_says():
    from shoal.release._chen import _gain, _neighbours

    rng = np.random.default_rng(1)
    pairs = {tuple(sorted(each)) for each in rng.integers(0, 20, (60, 2)).tolist() if each[0] != each[1]}
    graph = read_graph(np.array(sorted(pairs)))
    starts, others = _neighbours(graph)

    def inside(labels):
        return int((labels[graph.edges[:, 0]] // 5 == labels[graph.edges[:, 1]] // 5).sum())

    for _ in range(100):
        labels = rng.permutation(graph.n)
        a, b = rng.integers(0, graph.n, 2).tolist()
        after = labels.copy()
        after[[a, b]] = after[[b, a]]
        assert _gain(labels // 5, a, b, starts, others) == inside(after) - inside(labels)


def test_drawn_cuts_keep_every_pair_in_one_leaf():
    from shoal.release._chen import explore_exponentially

    edges = read_graph(load_graph()).edges
    leaves = explore_exponentially(edges, 2000, 4, Fraction(3), 6500.0)
    assert sum(each.cells(2000) for each in leaves) == 2000 * 1999 // 2
    assert sum(len(each.edges) for each in leaves) == len(edges)
    assert sum(each.count for each in leaves) == pytest.approx(6500, abs=1e-3)


def test_greedy_labels_gather_edges_where_the_budget_is_large():
    from shoal.release._chen import label_greedily

    edges = np.array([(16 * b + i, 16 * b + j) for b in range(8) for i in range(16) for j in range(i)])
    graph = read_graph(edges)

    def inside(labels):
        return (labels[graph.edges[:, 0]] // 16 == labels[graph.edges[:, 1]] // 16).mean()

    gathered = np.mean([inside(label_greedily(graph, Fraction(10_000), 200)) for _ in range(3)])
    scattered = np.mean([inside(label_greedily(graph, Fraction(1, 10_000), 200)) for _ in range(3)])
    assert gathered > scattered + 0.1  # a hundred exchanges of many standard deviations each


@pytest.mark.parametrize(("labelling", "quadtree"), [("greedy", "noisy"), ("degree", "exponential")])
def test_the_authors_steps_are_options(labelling, quadtree):
    out = release_graph(RING, k=2, epsilon=8.0, labelling=labelling, quadtree=quadtree)
    assert out.guarantee == GRAPH_GUARANTEE
    assert out.graph.n == 60
    with pytest.raises(ParameterError, match="labelling"):
        release_graph(RING, k=2, epsilon=8.0, labelling="best")
