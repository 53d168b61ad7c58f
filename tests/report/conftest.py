"""Protections to report on: a plain one, and one with columns of every kind and role."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.schema import Column, Schema

EVIL = "debts<script>alert('x')</script> \"quoted\" & {{ 7 * 7 }} " + "very_long_" * 30
ODD = "$x^2$ 年收入"


def mixed_frame(n: int = 90) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    age = rng.integers(0, 95, n)
    return pl.DataFrame(
        {
            "person": [f"person-{i}" for i in range(n)],
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["north", "south"], n),
            "education": rng.choice(["none", "primary", "tertiary"], n),
            "job": rng.choice([f"<b>job & {i}</b>\x1b" for i in range(15)], n),
            "born": [datetime.date(2020, 1, 1) - datetime.timedelta(days=int(365 * each)) for each in age],
            "seen": [datetime.datetime(2020, 1, 1, each % 24) for each in range(n)],
            EVIL: np.where(rng.random(n) < 0.6, 0.0, np.exp(rng.normal(8, 2, n))),
            ODD: rng.normal(size=n),
            "gaps": [None if i % 10 == 0 else float(i) for i in range(n)],
            "disease": rng.choice(["flu", "cold", "cancer"], n),
            "weight": rng.uniform(0.5, 3, n).round(1),
            "comment": rng.choice(["a", "b", "c"], n),
        }
    )


def mixed_schema() -> Schema:
    kinds = {"sex": "category", "education": "ordered", "job": "category", "born": "date", "seen": "date"}
    columns = {
        name: Column(name, role="quasi", kind=kinds.get(name, "number"))
        for name in ("age", "sex", "education", "job", "born", "seen", EVIL, ODD)
    }
    columns["education"] = Column(
        "education", role="quasi", kind="ordered", levels=("none", "primary", "tertiary")
    )
    columns["gaps"] = Column("gaps", role="quasi", on_missing="category")
    others = {"person": "identifier", "region": "stratum", "disease": "sensitive", "comment": "leave"}
    columns |= {name: Column(name, role=role, kind="category") for name, role in others.items()}
    return Schema(columns | {"weight": Column("weight", role="weight")}, id="survey <i>2020</i>")


@pytest.fixture(scope="session")
def mixed():
    return shoal.protect(mixed_frame(), k=3, method="mdav", schema=mixed_schema(), accept_risk=True)


@pytest.fixture(scope="session")
def plain():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"age": rng.integers(18, 90, 60), "income": rng.lognormal(10, 1, 60)})
    return shoal.protect(frame, k=5, method="mdav")
