"""An earlier release of the same rows, and households by their composition."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal import risk
from shoal.errors import GuaranteeError, InputError
from shoal.publish import protect_file

COLUMNS = {"columns": ["age", "income"], "method": "mdav"}


def people(n=120):
    rng = np.random.default_rng(2)
    return pl.DataFrame({"age": rng.integers(18, 80, n), "income": rng.lognormal(3, 1, n).round(1)})


def test_two_independent_versions_are_refused_and_a_coarsened_one_is_not(tmp_path):
    frame = people()
    made = shoal.protect(frame, k=3, **COLUMNS)
    first = made.frame
    first.write_parquet(tmp_path / "first.parquet")
    with pytest.raises(GuaranteeError, match="together with the earlier release"):
        shoal.protect(frame, k=4, earlier=tmp_path / "first.parquet", **COLUMNS)
    # Made from the first release with its groups kept whole, classes only join.
    whole = first.with_columns(group=pl.Series(made.labels))
    coarse = shoal.protect(whole, k=3, households="group", earlier=tmp_path / "first.parquet", **COLUMNS)
    assert coarse.status == "green"
    assert coarse.figures.smallest_group >= 9
    assert "adds nothing" in " ".join(coarse.notes)
    again = shoal.protect(frame, k=3, earlier=tmp_path / "first.parquet", **COLUMNS)
    assert again.status == "green"
    with pytest.raises(InputError, match="must have the rows"):
        shoal.protect(
            frame.head(50), k=3, earlier=tmp_path / "first.parquet", **(COLUMNS | {"method": "suppress"})
        )


@pytest.mark.parametrize("method", ["mdav", "suppress"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_an_earlier_release_in_parts_is_judged_as_in_memory(method, kind, tmp_path):
    frame = people(300).with_columns(age=pl.col("age") // 20, income=pl.col("income") // 20)
    frame[5, "age"] = None
    getattr(frame, f"write_{kind}")(tmp_path / f"in.{kind}")
    asked = {
        "k": 3,
        "columns": ["age", "income"],
        "method": method,
        "on_missing": "drop",
        "accept_risk": True,
    }
    made = shoal.protect(frame, **(asked | {"k": 4}))
    getattr(made.frame, f"write_{kind}")(tmp_path / f"first.{kind}")
    # The same rows in another order: an independent version, as far as the check can tell.
    made.frame.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "mixed.parquet")
    for earlier in (f"first.{kind}", "mixed.parquet"):
        whole = shoal.protect(frame, earlier=tmp_path / earlier, **asked)
        for order in ["keep", "shuffle"] if method == "mdav" else ["keep"]:
            parts = protect_file(
                tmp_path / f"in.{kind}",
                tmp_path / "o.parquet",
                earlier=tmp_path / earlier,
                n_jobs=1,
                order=order,
                **asked,
            )
            said = [[note for note in each.notes if "earlier" in note] for each in (whole, parts)]
            assert said[0] == said[1]
            assert len(said[0]) == 1
            assert whole.reasons == parts.reasons
            assert whole.status == parts.status
    assert "share all that both say with fewer" in said[0][0]
    pl.DataFrame({"other": [1, 2]}).write_csv(tmp_path / "other.csv")
    with pytest.raises(InputError, match="must have a published column"):
        protect_file(
            tmp_path / f"in.{kind}",
            tmp_path / "no.parquet",
            earlier=tmp_path / "other.csv",
            n_jobs=1,
            **asked,
        )
    frame.head(50).write_parquet(tmp_path / "few.parquet")
    with pytest.raises(InputError, match="must have the rows"):
        protect_file(
            tmp_path / f"in.{kind}",
            tmp_path / "no.parquet",
            earlier=tmp_path / "few.parquet",
            n_jobs=1,
            **asked,
        )
    assert not list(tmp_path.glob("*no.parquet*"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12), st.integers(2, 4))
def test_intersection_equals_counting_by_hand(rows, k):
    old = pl.DataFrame({"a": [str(a) for a, _ in rows]})
    new = pl.DataFrame({"a": [str(b) for _, b in rows]})
    found = risk.intersection(old, new, k, columns="a", earlier_columns="a")
    counts = [rows.count(row) for row in rows]
    assert found.k == min(counts)
    assert found.below == sum(count < k for count in counts)
    maps = {b: {x for x, y in rows if y == b} for _, b in rows}
    finer_new = all(len(each) == 1 for each in maps.values())
    assert finer_new == (found.nested in ("new in earlier", "equal"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("fm")), min_size=1, max_size=14))
def test_composition_equals_counting_by_hand(rows):
    table = pl.DataFrame({"home": [a for a, _ in rows], "sex": [b for _, b in rows]})
    homes = {}
    for home, sex in rows:
        homes.setdefault(home, []).append(sex)
    kinds = [tuple(sorted(members)) for members in homes.values()]
    found = risk.composition(table, "sex", "home")
    assert found.households == len(kinds)
    assert found.compositions == len(set(kinds))
    assert found.below == {size: sum(kinds.count(kind) < size for kind in kinds) for size in (2, 3, 5)}
    lengths = [len(kind) for kind in kinds]
    assert found.by_size == {size: sum(lengths.count(each) < size for each in lengths) for size in (2, 3, 5)}
