"""Attacks on Adult, Census and the survey of sdcMicro, masked in several ways, with baseline and control.

Half of the records are protected, the other half is the control group. The small profile takes 1,000 records of Adult for
each half, 400,000 proposals of the search, two seconds of recoding and 300 targets; the full one takes all of them and the defaults, and
a million records of clusters once; 2,000 targets are drawn from each table. CPU seconds of the attacks are told apart from those of the mask.

    python -m benchmarks attacks
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import polars as pl

import shoal
from shoal.datasets import DATASETS, load
from shoal.errors import ShoalError
from shoal.io import read_table
from shoal.schema import Column, Schema

KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex", "age"]
# name of the mask: fields of protect; None is nothing done, "private" a private table.
MASKS: dict[str, dict | str | None] = {
    "nothing done": None,
    "k = 3": {"k": 3},
    "default, k = 5": {"k": 5},
    "k = 10": {"k": 10},
    "generalisation, k = 5": {"k": 5, "method": "generalize", "accept_risk": True},
    "suppression, k = 5": {"k": 5, "method": "suppress", "accept_risk": True},
    "private table, epsilon 1": "private",
}


def tables(full: bool) -> dict[str, tuple[pl.DataFrame, list[str], list[str]]]:
    """Each table with its sensitive columns and its keys, which truthful masks change."""
    adult = load("adult")
    if not full:
        adult = adult.sample(2_000, seed=1)
    census = load("census")
    survey = read_table(DATASETS["census"].path.with_name("sdc_survey.csv"))
    survey = survey.select([*KEYS, "expend", "income"])
    return {
        "Adult": (
            adult,
            ["income"],
            ["age", "workclass", "education", "marital_status", "occupation", "race", "sex"],
        ),
        "Census": (census, [census.columns[-1]], census.columns[:4]),
        "sdc_survey": (survey, ["income"], KEYS),
    }


def declared(frame: pl.DataFrame) -> Schema:
    """Bounds and levels as a codebook would declare them; here they are taken from the table, for the measurement only."""
    columns = {}
    for name in frame.columns:
        cells = frame[name]
        if cells.dtype == pl.String or cells.n_unique() <= 20:
            columns[name] = Column(name, "quasi", "category", levels=tuple(cells.unique().sort().to_list()))
        else:
            low, high = float(cells.min()), float(cells.max())
            columns[name] = Column(
                name, "quasi", "number", bounds=(low, high), step=max((high - low) / 40, 1e-9)
            )
    return Schema(columns, id="measured", budget=100.0)


def masked(
    frame: pl.DataFrame,
    mask: dict | str | None,
    sensitive: list[str],
    keys: list[str],
    schema: Schema | None,
    full: bool,
):
    if mask is None:
        return frame
    if mask == "private":
        from shoal.release import release_marginals

        return release_marginals(frame, schema, 1.0, rows=frame.height).frame
    asked = dict(mask)
    if asked.get("method"):
        asked |= {
            "columns": keys,
            "leave": [n for n in frame.columns if n not in keys and n not in sensitive],
        }
    if not full:
        asked |= {"time_limit": 2.0} if asked.get("method") else {"max_proposals": 400_000}
    return shoal.protect(frame, sensitive=sensitive, **asked).frame


def attacked(
    name: str, inside: pl.DataFrame, outside: pl.DataFrame, schema: Schema | None, *, title: str,
    mask: dict | str | None, sensitive: list[str], keys: list[str], full: bool,
) -> list[dict]:  # fmt: skip
    """One table under one mask, attacked: a row for each attack."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = masked(inside, mask, sensitive, keys, schema, full)
    except ShoalError as error:
        print(f"{name}, {title}: {error}")
        return []
    mid = time.process_time()
    found = shoal.attack(
        made, inside, control=outside, sensitive=sensitive, rows="unrelated" if mask == "private" else "same",
        epsilon=1.0 if mask == "private" else None, targets=2_000 if full else 300,
    )  # fmt: skip
    seconds = time.process_time() - mid
    print(
        f"{name}, {title}: status {found.status}, mask {mid - start:.0f} s, attacks {seconds:.0f} s",
        flush=True,
    )
    rows = []
    for each in found.results:
        told = each.to_dict()
        rows.append(
            {
                "table": name, "mask": title, "attack": each.name, "rate": told["rate"],
                "baseline": told["baseline"], "control": told["control"], "excess": told["excess"],
                "status": each.colour, "records": inside.height, "attack CPU s": round(seconds, 1),
            }
        )  # fmt: skip
    return rows


def halves(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Who is protected, and the control group."""
    order = np.random.default_rng(0).permutation(frame.height)
    half = frame.height // 2
    return frame[np.sort(order[:half]).tolist()], frame[np.sort(order[half : 2 * half]).tolist()]


def million(n: int = 1_000_000) -> list[dict]:
    """Clusters in ten columns, a million records protected with little search, beside a control group of 100,000."""
    g = np.random.default_rng(7)
    centres = g.normal(size=(40, 10)) * 3
    total = n + n // 10
    X = centres[g.integers(0, 40, total)] + g.normal(size=(total, 10)) @ np.diag(np.linspace(0.2, 2, 10))
    frame = pl.DataFrame(X, schema=[f"x{at}" for at in range(10)])
    return attacked(
        "clusters", frame[:n], frame[n:], None, title="k = 5, one proposal a record",
        mask={"k": 5, "max_proposals": n}, sensitive=["x9"], keys=[], full=True,
    )  # fmt: skip


def run(full: bool = False) -> list[dict]:
    rows: list[dict] = []
    for name, (frame, sensitive, keys) in tables(full).items():
        inside, outside = halves(frame)
        schema = declared(frame)
        for title, mask in MASKS.items():
            rows += attacked(
                name,
                inside,
                outside,
                schema,
                title=title,
                mask=mask,
                sensitive=sensitive,
                keys=keys,
                full=full,
            )
    return rows + (million() if full else [])
