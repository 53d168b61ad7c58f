"""No option is ignored: for every treatment each one changes the result or is refused by its name."""

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.errors import ShoalError
from shoal.publish.request import options

pytestmark = pytest.mark.filterwarnings("ignore")

N = 60
TREATMENTS = {
    "groups": {"method": "mdav"},
    "search": {"method": "anneal", "effort": 0.01},
    "generalize": {"method": "generalize"},
    "suppress": {"method": "suppress"},
    "steps": {
        "steps": "[{method = 'generalize', columns = ['town', 'job', 'paid']}, {method = 'mdav', columns = ['age']}]"
    },
}
BASE = {
    "k": 3,
    "columns": ("age", "town", "job", "paid"),
    "sensitive": ("ill",),
    "leave": ("home", "w", "region", "who"),
}
# What a field is given to try it, and what else it takes to matter.
TRIED = {
    "k": {"k": 5},
    "columns": {"columns": ("age", "town", "job"), "leave": ("home", "w", "region", "who", "paid")},
    "leave": {"leave": ("home", "w", "region")},
    "sensitive": {"sensitive": (), "leave": ("home", "w", "region", "who", "ill")},
    "strata": {"strata": ("region",), "leave": ("home", "w", "who")},
    "weights": {"weights": "w", "leave": ("home", "region", "who")},
    "households": {"households": "home", "leave": ("w", "region", "who")},
    "l": {"l": 3},
    "t": {"t": 0.3},
    "entropy_l": {"entropy_l": 1.9},
    "alpha": {"alpha": 0.5},
    "beta": {"beta": 0.5},
    "enhanced_beta": {"enhanced_beta": 0.5},
    "delta_disclosure": {"delta_disclosure": 0.9},
    "on_missing": {"on_missing": "drop"},
    "small_strata": {"small_strata": "refuse"},
    "integers": {"integers": "round"},
    "identifiers": {"identifiers": "hash", "leave": ("home", "w", "region")},
    "recoding": {"recoding": "global"},
    "suppress_at_most": {"suppress_at_most": 0.5},
    "objective": {"objective": "cells"},
    "classes": {"classes": "sets"},
    "reading": {"reading": "wildcard"},
    "subsets": {"subsets": 1},
    "count": {"count": "household"},
    "time_limit": {"time_limit": 0.5},
    "max_proposals": {"max_proposals": 500},
    "search_plan": {"search_plan": 1},
    "effort": {"effort": 0.5},
    "random_state": {"random_state": 9},
    "certify": {"certify": "cheap"},
    "keep_best": {"keep_best": True},
    "accept_risk": {"accept_risk": False},
    "release_type": {"release_type": "public"},
    "order": {"order": "shuffle"},
}
# What a field takes beside it to matter, by treatment.
BESIDE = {
    ("suppress", "subsets"): {"reading": "own"},
    ("search", "time_limit"): {"effort": None},
    ("search", "max_proposals"): {"effort": None},
    ("search", "search_plan"): {"effort": None, "max_proposals": 500},
    **{
        (treatment, "count"): {"households": "home", "leave": ("w", "region", "who")}
        for treatment in ("generalize", "suppress", "steps")
    },
    **{
        (treatment, "small_strata"): {"strata": ("lone",), "leave": ("home", "w", "region", "who")}
        for treatment in ("groups", "search")
    },
}
# Where a field rightly changes nothing.
SAME = {
    **dict.fromkeys(
        [("groups", "random_state"), ("suppress", "random_state"), ("steps", "random_state")], "no chance"
    ),
    **{
        (treatment, "certify"): "a table this small is certified without being asked"
        for treatment in ("generalize", "suppress", "steps")
    },
    ("search", "keep_best"): "nothing is interrupted",
}
# Fields that other tests try: they name the treatment, or files that a frame does not concern.
ELSEWHERE = {
    "method", "schema", "steps", "key", "hierarchies", "earlier", "labels", "report", "public_report", "save_run",
    "engine", "memory", "resume", "n_jobs",
}  # fmt: skip


def table(*, missing: bool = False) -> pl.DataFrame:
    """Two persons a household, a column of every role."""
    rng = np.random.default_rng(3)
    age = rng.integers(18, 80, N).astype(float)
    age[::15] = np.nan if missing else 40
    return pl.DataFrame(
        {
            "who": [f"p{i}" for i in range(N)],
            "home": np.arange(N) // 2,
            "age": pl.Series(age).fill_nan(None).cast(pl.Int64),
            "town": rng.choice(["ash", "birch", "cedar", "elm"], N),
            "job": rng.choice(["cook", "smith", "nurse"], N, p=[0.6, 0.3, 0.1]),
            "paid": rng.choice([True, False], N),
            "region": rng.choice(["north", "south"], N),
            "lone": ["isle"] * 2 + ["main"] * (N - 2),
            "w": rng.integers(1, 5, N).astype(float),
            "ill": rng.choice(["flu", "cold", "gout"], N),
        }
    )


def image(found) -> dict:
    """All that a result tells, without how long it took and without what was asked for."""
    figures = found.figures.to_dict()
    for name in ("seconds", "identification"):
        figures.pop(name, None)
    if "certificate" in figures:
        figures["certificate"].pop("seconds")
    for step in figures.get("steps", []):
        step.pop("seconds")
    return {
        "frame": found.frame.write_csv(),
        "verdicts": [(each.model, each.limit, each.value) for each in found.verdicts],
        "status": (found.status, found.reasons),
        "figures": figures,
        "notes": found.notes,
    }


def tried(treatment: str, field: str, *, given: bool) -> dict | str:
    """What a run with or without a field tells; the sentence where it is refused."""
    asked = BASE | {"accept_risk": True} | TREATMENTS[treatment] | BESIDE.get((treatment, field), {})
    frame = table(missing=field == "on_missing")
    try:
        return image(shoal.protect(frame, **(asked | TRIED[field] if given else asked)))
    except ShoalError as refused:
        return str(refused)


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_every_option_matters_or_is_refused_by_name(treatment):
    usual = tried(treatment, "k", given=False)
    for field in TRIED:
        found = tried(treatment, field, given=True)
        special = (treatment, field) in BESIDE or field == "on_missing"
        before = tried(treatment, field, given=False) if special else usual
        assert (found == before) == ((treatment, field) in SAME), (treatment, field)
        if isinstance(found, str) and field not in ("accept_risk", "release_type"):
            named = {"columns": "paid", "strata": "strat", "small_strata": "strat"}.get(field, field)
            assert named in found, (treatment, field, found)


def test_every_option_is_tried():
    assert set(TRIED) | ELSEWHERE == set(options())
    assert not set(TRIED) & ELSEWHERE
