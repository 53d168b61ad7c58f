"""Attacks on Adult, Census and the survey of sdcMicro, masked in several ways, with baseline and control.

Half of the records are protected, the other half is the control group. Searches get 4,000,000 proposals (the small profile
400,000), which is less than the default; recoding gets a minute (two seconds). The full profile takes all records and looks
for 2,000 drawn people, the small one takes 1,000 records of Adult for each half and looks for 300. CPU seconds of the attacks
are told apart from those of the mask. A million records of clusters, protected in parts, are attacked where they are named
("clusters"), and stand beside the others from then on.

Figures of a mask are kept in build/benchmarks as soon as they are there, so that a run that was stopped goes on where it
was; they are made anew when the code has changed. One mask of one table:

    python -m benchmarks attacks
    BENCH=full python -m benchmarks.attacks "Adult" "k = 3"
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import shoal
from shoal.datasets import DATASETS, load
from shoal.errors import ShoalError
from shoal.io import read_table
from shoal.schema import Column, Schema

PARTS = Path(__file__).parents[1] / "build" / "benchmarks" / "attacks"
MILLION = "clusters, a million"
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


@dataclass(frozen=True)
class Subject:
    """A table to be masked and attacked: who is in it, who is not, what is secret, which columns are keys."""

    name: str
    inside: pl.DataFrame
    outside: pl.DataFrame
    sensitive: list[str]
    keys: list[str]
    schema: Schema

    @classmethod
    def of(cls, name: str, frame: pl.DataFrame, sensitive: list[str], keys: list[str]) -> Subject:
        """One half inside, the other the control group."""
        order = np.random.default_rng(0).permutation(frame.height)
        half = frame.height // 2
        inside, outside = (frame[np.sort(part).tolist()] for part in (order[:half], order[half : 2 * half]))
        return cls(name, inside, outside, sensitive, keys, declared(frame))


def masked(subject: Subject, mask: dict | str | None, full: bool) -> pl.DataFrame:
    """What is published."""
    frame = subject.inside
    if mask is None:
        return frame
    if mask == "private":
        from shoal.release import release_marginals

        return release_marginals(frame, subject.schema, 1.0, rows=frame.height).frame
    asked = dict(mask)
    if asked.get("method"):
        others = [name for name in frame.columns if name not in [*subject.keys, *subject.sensitive]]
        asked |= {"columns": subject.keys, "leave": others} | {"time_limit": 60.0 if full else 2.0}
    else:
        asked |= {"max_proposals": 4_000_000 if full else 400_000}
    return shoal.protect(frame, sensitive=subject.sensitive, **asked).frame


def attacked(
    subject: Subject, title: str, make: Callable[[], pl.DataFrame], *, private: bool, targets: int
) -> list[dict]:
    """A row for each attack on what is made."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = make()
    except ShoalError as error:
        print(f"{subject.name}, {title}: {error}")
        return []
    mid = time.process_time()
    found = shoal.attack(
        made, subject.inside, control=subject.outside, sensitive=subject.sensitive,
        rows="unrelated" if private else "same", epsilon=1.0 if private else None, targets=targets,
    )  # fmt: skip
    seconds = time.process_time() - mid
    rows = []
    for each in found.results:
        told = each.to_dict()
        rows.append(
            {
                "table": subject.name, "mask": title, "attack": each.name, "rate": told["rate"],
                "low": each.rate.low, "high": each.rate.high, "attempts": each.rate.attempts,
                "baseline": told["baseline"], "control": told["control"], "excess": told["excess"],
                "status": each.colour, "records": subject.inside.height, "mask CPU s": round(mid - start, 1),
                "attack CPU s": round(seconds, 1),
                "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
            }
        )  # fmt: skip
    return rows


def kept(
    subject: Subject, title: str, make: Callable[[], pl.DataFrame], *, full: bool, private: bool = False
) -> list[dict]:
    """The figures of one mask, as they were kept by the same code, or made now."""
    path, stamp = part(subject.name, title, full), code()
    if path.exists() and (told := json.loads(path.read_text(encoding="utf-8")))["code"] == stamp:
        rows = told["rows"]
    else:
        rows = attacked(subject, title, make, private=private, targets=2_000 if full else 300)
        PARTS.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"code": stamp, "rows": rows}, default=float), encoding="utf-8")
    worst = max((each["status"] for each in rows), key=["green", "amber", "red"].index, default="none")
    took = (rows[0]["mask CPU s"], rows[0]["attack CPU s"]) if rows else (0, 0)
    print(f"{subject.name}, {title}: status {worst}, mask {took[0]} s, attacks {took[1]} s", flush=True)
    return rows


def part(name: str, title: str, full: bool) -> Path:
    """Where the figures of a mask are kept."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{name} {title} {'full' if full else 'small'}".lower())
    return PARTS / f"{words}.json"


def code() -> str:
    """A digest of the code that is measured."""
    digest = hashlib.sha256()
    for path in sorted(Path(shoal.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def million(n: int = 1_000_000) -> tuple[Subject, Callable[[], pl.DataFrame]]:
    """Clusters in ten columns, a million records protected in parts, beside a control group of 100,000."""
    g = np.random.default_rng(7)
    centres = g.normal(size=(40, 10)) * 3
    total = n + n // 10
    X = centres[g.integers(0, 40, total)] + g.normal(size=(total, 10)) @ np.diag(np.linspace(0.2, 2, 10))
    frame = pl.DataFrame(X, schema=[f"x{at}" for at in range(10)])
    subject = Subject(MILLION, frame[:n], frame[n:], ["x9"], [], Schema({}))

    def make() -> pl.DataFrame:
        from shoal.publish import protect_file

        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "in.parquet", Path(folder) / "out.parquet"
            subject.inside.write_parquet(source)
            protect_file(source, target, k=5, method="mdav", sensitive=["x9"], memory="2GB")
            return pl.read_parquet(target)

    return subject, make


def run(full: bool = False, chosen: tuple[str, ...] = ()) -> list[dict]:
    """All tables under all masks, or those that are named."""
    rows: list[dict] = []
    for name, (frame, sensitive, keys) in tables(full).items():
        subject = Subject.of(name, frame, sensitive, keys)
        for title, mask in MASKS.items():
            if not chosen or (name in chosen and title in chosen):
                rows += kept(
                    subject,
                    title,
                    lambda s=subject, m=mask: masked(s, m, full),
                    full=full,
                    private=mask == "private",
                )
    if full and ("clusters" in chosen or (not chosen and part(MILLION, "k = 5 in parts", full).exists())):
        subject, make = million()
        rows += kept(subject, "k = 5 in parts", make, full=full)
    return rows


if __name__ == "__main__":
    run(os.environ.get("BENCH") == "full", tuple(sys.argv[1:]))
