"""Wrong answers that users of other tools met; each test is named after what it prevents."""

import numpy as np
import pandas as pd
import pytest

from shoal import privacy

from . import oracles


def random_frame(seed, n=60):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 4, n),
            "zip": rng.choice(list("abc"), n),
            "disease": rng.choice(["flu", "cold", "ulcer", "gout"], n, p=[0.6, 0.2, 0.1, 0.1]),
            "salary": rng.integers(1, 9, n),
        }
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_shuffled_or_filtered_frame_gives_the_same_l_and_t_as_a_fresh_one(seed):
    """pyCANON takes index labels for positions: wrong l and t in 195 of 200 shuffled frames."""
    frame = random_frame(seed)
    shuffled = frame.sample(frac=1, random_state=seed)
    filtered = frame[frame["salary"] > 3]
    for odd in (shuffled, filtered, filtered.sample(frac=1, random_state=seed)):
        fresh = odd.reset_index(drop=True)
        first = privacy.check(odd, ["age", "zip"], ["disease", "salary"], c=2.0)
        second = privacy.check(fresh, ["age", "zip"], ["disease", "salary"], c=2.0)
        assert [v.value for v in first] == [v.value for v in second]
        rows = fresh.to_dict("records")
        assert first[0].value == oracles.k(rows, ["age", "zip"])
        assert first[1].value == oracles.l_distinct(rows, ["age", "zip"], "disease")
        # An index with repeated labels says nothing either.
        repeated = odd.set_index(np.zeros(len(odd), int))
        assert [v.value for v in privacy.check(repeated, ["age", "zip"], "disease", c=2.0)] == [
            v.value for v in first[:5]
        ]


def test_records_with_a_missing_quasi_identifier_are_not_dropped():
    """pyCANON drops them silently, and so calls a table 2-anonymous that holds a unique record."""
    frame = pd.DataFrame({"age": [30, 30, np.nan], "zip": ["a", "a", "a"], "s": ["x", "y", "z"]})
    verdict = privacy.k_anonymity(frame, ["age", "zip"], k=2)
    assert verdict.value == 1
    assert not verdict.holds
    assert verdict.missing == {"age": 1}
    assert verdict.missing_records == 1
    assert verdict.n_records == 3
    assert "1 record with a missing quasi-identifier" in str(verdict)


def test_recursive_diversity_sorts_the_counts_from_the_most_frequent_down():
    """pyCANON sorts them the wrong way: counts 8, 1, 1 with c = 3 are not (3, 2)-diverse, as 8 >= 3 * 2."""
    frame = pd.DataFrame({"zip": ["a"] * 10, "s": ["x"] * 8 + ["y", "z"]})
    assert privacy.l_diversity(frame, "zip", "s", kind="recursive", c=3.0).value == 1
    assert not privacy.l_diversity(frame, "zip", "s", kind="recursive", c=3.0, l=2).holds
    assert privacy.l_diversity(frame, "zip", "s", kind="recursive", c=5.0).value == 2
    assert privacy.l_diversity(frame, "zip", "s", kind="recursive", c=9.0).value == 3
    assert privacy.l_diversity(frame, "zip", "s", kind="recursive", c=0.5).value == 0


def test_an_unused_category_level_is_no_class():
    """pyCANON answers k = 0 where a category has a level that no record takes."""
    frame = random_frame(3)
    plain = privacy.check(frame, ["age", "zip"], "disease")
    frame["zip"] = pd.Categorical(frame["zip"], categories=list("abcdef"))
    frame["disease"] = pd.Categorical(frame["disease"], categories=["flu", "cold", "ulcer", "gout", "no"])
    levelled = privacy.check(frame, ["age", "zip"], "disease")
    assert [v.value for v in levelled] == [v.value for v in plain]
    assert levelled[0].value > 0


def test_minus_999_is_a_value():
    """sdcMicro takes it for a missing cell."""
    frame = pd.DataFrame({"age": [-999, -999, 30, 30]})
    verdict = privacy.k_anonymity(frame, "age")
    assert verdict.missing_records == 0
    assert verdict.worst[0].values == {"age": -999}
