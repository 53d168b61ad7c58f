"""A collection of queries from public documentation, with the data they are asked of.

``python -m tests.dp.queries`` prints how many are accepted, by source, and why the others are refused.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from shoal.schema import Column, Link, Schema, Unit

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Asked:
    """One query of the collection."""

    source: str
    data: str
    sql: str
    refused: str | None = None


def collection() -> list[Asked]:
    """All queries."""
    return [Asked(**each) for each in tomllib.loads((HERE / "collection.toml").read_text())["query"]]


PUMS = Schema(
    {
        "age": Column("age", bounds=(0, 110), step=1),
        "income": Column("income", bounds=(0, 100_000)),
        "educ": Column("educ", bounds=(1, 16), step=1),
        "sex": Column("sex", kind="category", levels=("f", "m")),
        "region": Column("region", kind="category", levels=("north", "south", "east")),
        "married": Column("married", kind="boolean"),
        "born": Column("born", kind="date", bounds=("1990-01-01", "2020-12-31")),
    },
    id="PUMS",
)
MEMBERS = Schema(
    {
        "age": Column("age", bounds=(0, 110), step=1),
        "sex": Column("sex", kind="category", levels=("f", "m")),
        "region": Column("region", kind="category", levels=("north", "south", "east")),
    },
    id="members",
    unit=Unit("member_id", 20),
    links=(
        Link("claims of members", "claims", "members", ("member_id",)),
        Link("regions", "members", "regions", ("region",), public=True),
    ),
)
CLAIMS = Schema(
    {
        "amount": Column("amount", bounds=(0, 200), step=1),
        "kind": Column("kind", kind="category", levels=("visit", "drug", "test")),
        "day": Column("day", kind="date", bounds=("2020-01-01", "2021-12-31")),
    },
    id="claims",
)
REGIONS = Schema(
    {
        "region": Column("region", kind="category", levels=("north", "south", "east")),
        "country": Column("country", kind="category", levels=("A", "B")),
    },
    id="regions",
)


def pums(rows: int = 300, seed: int = 1) -> pl.DataFrame:
    """A table of persons with missing cells."""
    rng = np.random.default_rng(seed)
    days = 7305 + rng.integers(0, 11_000, rows)
    return _with_nulls(
        pl.DataFrame(
            {
                "age": rng.integers(0, 100, rows),
                "income": rng.integers(0, 100_000, rows),
                "educ": rng.integers(1, 17, rows),
                "sex": rng.choice(["f", "m"], rows),
                "region": rng.choice(["north", "south", "east"], rows),
                "married": rng.random(rows) < 0.5,
                "born": pl.Series(days, dtype=pl.Int32).cast(pl.Date),
            }
        ),
        rng,
    )


def clinic(members: int = 120, seed: int = 1) -> dict[str, pl.DataFrame]:
    """Members, what they claimed, and a public table of regions."""
    rng = np.random.default_rng(seed)
    n = 4 * members
    who = pl.DataFrame(
        {
            "member_id": np.arange(members),
            "age": rng.integers(0, 100, members),
            "sex": rng.choice(["f", "m"], members),
            "region": rng.choice(["north", "south", "east"], members),
        }
    )
    claims = pl.DataFrame(
        {
            "member_id": rng.integers(0, members, n),
            "amount": rng.integers(0, 200, n),
            "kind": rng.choice(["visit", "drug", "test"], n),
            "day": pl.Series(18_262 + rng.integers(0, 700, n), dtype=pl.Int32).cast(pl.Date),
        }
    )
    regions = pl.DataFrame({"region": ["north", "south", "east"], "country": ["A", "A", "B"]})
    return {
        "members": _with_nulls(who, rng, "member_id"),
        "claims": _with_nulls(claims, rng, "member_id"),
        "regions": regions,
    }


def _with_nulls(frame: pl.DataFrame, rng: np.random.Generator, *whole: str) -> pl.DataFrame:
    """One cell in twenty missing, but in columns that have to be whole."""
    return frame.with_columns(
        pl.when(pl.Series(rng.random(frame.height) >= 0.05)).then(pl.col(name)).alias(name)
        for name in frame.columns
        if name not in whole
    )
