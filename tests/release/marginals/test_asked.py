"""Marginals that are asked for: measured whatever the data say, within the purse, with known variances."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import polars as pl
import pytest

from shoal.errors import ParameterError, SchemaError
from shoal.release import release_marginals
from shoal.release.marginals._measure import measure_asked
from shoal.release.marginals._residuals import cost_of, count_table, reconstruct
from shoal.release.marginals._spend import Purse, residuals_of
from shoal.schema import Column, Schema

NAMES = ("a", "b", "c", "d")


def table(n=500):
    rng = np.random.default_rng(1)
    return pl.DataFrame({name: rng.integers(0, 3, n) for name in NAMES})


def schema(**facts):
    columns = {name: Column(name, bounds=(0, 2), step=1) for name in NAMES}
    return Schema({**columns, **facts}, id="t", budget=10_000.0)


@pytest.mark.parametrize("delta", [None, 1e-9])
@pytest.mark.parametrize("ways", [1, 2, 3])
def test_all_sets_of_so_many_columns_are_measured(ways, delta):
    out = release_marginals(table(), schema(), 2.0, marginals=ways, delta=delta)
    for count in range(1, ways + 1):
        for key in combinations(range(4), count):
            assert out.model.measured(key)
            assert out.model.deviation(key) > 0
    assert ways == 3 or not out.model.measured(tuple(range(ways + 1)))


def test_named_triples_come_back_with_much_budget():
    out = release_marginals(table(), schema(), 5_000.0, marginals=[("c", "a", "b")], delta=1e-6)
    counts = out.marginal("a", "b", "c")["count"].to_numpy()
    codes = table().to_numpy()
    assert counts == pytest.approx(count_table(codes, (0, 1, 2), (3,) * 4).ravel(), abs=1.5)
    assert not out.model.measured((0, 3))


@pytest.mark.parametrize("replaced", [False, True])
def test_what_is_asked_for_costs_no_more_than_the_purse(replaced):
    sizes, codes = (3, 3, 3, 3), table().to_numpy()
    found = measure_asked(codes, [(0, 1), (1, 2, 3)], sizes, Purse("zcdp", Fraction(1, 7), 2, replaced))
    assert cost_of({each.key: each.scale for each in found}, sizes, 2, replaced) <= Fraction(1, 7)
    pure = measure_asked(codes, [(0, 1), (1, 2, 3)], sizes, Purse("pure", Fraction(1, 7), 2, replaced))
    moves = 2 * (1 + replaced)
    assert sum(Fraction(moves) / Fraction(each.scale) for each in pure if each.scale) <= Fraction(1, 7)


def test_variances_are_those_of_many_runs():
    sizes, codes = (3, 3, 3, 3), table().to_numpy()
    runs = [
        residuals_of(measure_asked(codes, [(0, 1, 2)], sizes, Purse("zcdp", Fraction(1, 50))))
        for _ in range(150)
    ]
    from shoal.release.marginals._residuals import cell_variance

    seen = np.var([reconstruct((0, 1, 2), each, sizes) for each in runs])
    assert seen == pytest.approx(
        cell_variance((0, 1, 2), runs[0], sizes) + np.var(count_table(codes, (0, 1, 2), sizes)), rel=0.2
    )


WIDE = {name: Column(name, role="quasi", kind="category", levels=tuple(range(4_000))) for name in ("v", "w")}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"marginals": 4}, "1 to 3 of these 4"),
        ({"marginals": 3, "columns": ["a", "b"]}, "1 to 2 of these 2"),
        ({"marginals": 0}, "1 to 3"),
        ({"marginals": "all"}, "'chosen'"),
        ({"marginals": [["a", "x"]]}, "released columns"),
        ({"marginals": [["a"]]}, "2 to 3 columns"),
        ({"marginals": [["a", "b", "c", "d"]]}, "2 to 3 columns"),
        ({"marginals": 2, "workload": "ranges"}, "workload"),
        ({"epsilon": 1e-6, "delta": 1e-9}, "less than a millionth"),
    ],
)
def test_each_mistake_is_one_sentence(given, sentence):
    given = {"epsilon": 1.0, **given}
    with pytest.raises((ParameterError, SchemaError), match=sentence) as caught:
        release_marginals(table(), schema(), given.pop("epsilon"), **given)
    assert "\n" not in str(caught.value)


def test_a_marginal_of_millions_of_cells_is_refused_before_anything_is_charged():
    from shoal.dp import Ledger

    ledger, frame = Ledger(None), table().with_columns(v=pl.lit(1), w=pl.lit(2))
    with pytest.raises(ParameterError, match="at most 1048576 cells"):
        release_marginals(frame, schema(**WIDE), 1.0, marginals=2, ledger=ledger)
    assert ledger.spent("t") == 0


def test_the_command_takes_the_schema_beside_the_table(tmp_path):
    from typer.testing import CliRunner

    from shoal.cli import app

    table().write_csv(tmp_path / "t.csv")
    asked = ["release", str(tmp_path / "t.csv"), "--epsilon", "1", "-o", str(tmp_path / "o.csv")]
    refused = CliRunner().invoke(app, asked)
    assert isinstance(refused.exception, ParameterError)
    assert not (tmp_path / "o.csv").exists()
    (tmp_path / "t.toml").write_text(schema().to_toml())
    done = CliRunner().invoke(app, [*asked, "--marginals", "a+b+c,c+d", "--bins", "a=2,b=quantiles"])
    assert done.exit_code == 0, done.output
    assert "and 2 sets of columns were measured" in done.output
