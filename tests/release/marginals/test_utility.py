"""What a release keeps, measured: nothing lost on a perfect one, figures of an independent count, the owner's page."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from shoal.release import release_marginals, risk_utility, utility, utility_page
from shoal.schema import Column, Schema

SCHEMA = Schema(
    {
        "age": Column("age", bounds=(0, 99), step=1, breaks=(20, 40, 60)),
        "sex": Column("sex", role="quasi", kind="category", levels=("f", "m")),
        "<b>": Column("<b>", role="sensitive", kind="boolean"),
    },
    id="t",
    budget=500.0,
)


def table(n=300):
    rng = np.random.default_rng(5)
    sex = rng.integers(0, 2, n)
    return pl.DataFrame(
        {
            "age": rng.integers(0, 50, n) + 40 * sex,
            "sex": np.array(["f", "m"])[sex],
            "<b>": rng.random(n) < 0.2 + 0.6 * sex,
        }
    )


def test_the_private_table_itself_loses_nothing():
    out = dataclasses.replace(release_marginals(table(), SCHEMA, 1.0), frame=table())
    kept = utility(out, table(), target="<b>", within="sex")
    assert kept.total_variation == (0.0, 0.0, 0.0)
    assert kept.worst == kept.ranges == kept.information_loss == 0.0
    assert kept.subgroups == (("f", 0.0), ("m", 0.0))
    assert kept.accuracy[0] >= kept.accuracy[1] > kept.accuracy[2]


def test_total_variation_is_that_of_a_plain_count():
    out = release_marginals(table(), SCHEMA, 2.0)
    true, ours = (
        each["sex"].value_counts(normalize=True).sort("sex")["proportion"] for each in (table(), out.frame)
    )
    apart = (true - ours).abs().sum() / 2
    single = utility(dataclasses.replace(out, frame=out.frame), table(), within="sex")
    assert 0 < single.total_variation[0] < single.total_variation[1] < single.total_variation[2]
    assert apart <= 3 * single.total_variation[0] + 1e-9


def test_the_page_is_for_the_owner_and_escapes_names():
    against = risk_utility(table(), SCHEMA, (0.5, 5.0))
    assert [each.epsilon for each in against] == [0.5, 5.0]
    assert all(each.attack.advantage <= each.attack.most + 0.2 for each in against)
    out = release_marginals(table(), SCHEMA, 2.0)
    page = utility_page(out, utility(out, table()), against)
    assert "custodian only" in page
    assert out.guarantee in page
    assert "<b>" not in page
    assert "<svg" in page


def test_a_classifier_needs_rows():
    out = release_marginals(table(3), SCHEMA, 2.0)
    with pytest.raises(Exception, match="four records"):
        utility(out, table(3), target="sex")
