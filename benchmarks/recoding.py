"""What recoding of ARX's Adult example keeps: loss, exact cells, pairs of columns, salary told from the rest.

A coarse cell counts in equal shares for all values of its hierarchy that it may stand for, a suppressed one for all
values; ages of a set are those from the youngest to the oldest. Salary is told by a logistic model trained on the released
table and tested on original records that it has not seen, in five folds.

    SHOAL_DATA=data python -m benchmarks recoding     with the files of ARX's example in data/arx_adult
"""

from __future__ import annotations

import itertools
import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression

from benchmarks._record import Pieces, Row
from shoal.generalization import Generalize

K, FOLDS, SALARY = 5, 5, "salary-class"
ASKED = {
    "global": {"recoding": "global", "objective": "arx-loss", "suppress_at_most": 1.0},
    "local": {},
    "sets": {"classes": "sets", "certify": False},
}


def pieces(full: bool) -> Pieces:
    """The original, and each way of recoding; none where the example is not at hand."""
    del full
    folder = Path(os.environ.get("SHOAL_DATA", "data")) / "arx_adult"
    if not folder.exists():
        return {}
    return {name: partial(measured, folder, name) for name in ("original", *ASKED)}


def measured(folder: Path, name: str) -> list[Row]:
    """The figures of one way."""
    table = pl.read_csv(folder / "adult.csv", separator=";")
    domains = {each: _domain(folder, each) for each in table.columns}
    before = {each: _shares(table[each], domains[each]) for each in table.columns}
    row: Row = {"recoding": name}
    after = before
    if name in ASKED:
        recoder = Generalize(k=K, hierarchies=folder, **ASKED[name]).fit(table)
        released = recoder.transform(table)
        after = {each: _shares(released[each], domains[each]) for each in table.columns}
        row |= {
            "loss": round(recoder.loss_, 4),
            "plain_loss": round(float(np.mean(list(recoder.losses_.values()))), 4),
            "suppressed": round(recoder.suppressed_ / table.height, 4),
            "exact_cells": round(recoder.exact_, 4),
        }
    row |= {"pairs": round(_variation(before, after), 4), "salary": round(_told(before, after), 4)}
    print(", ".join(f"{what} {value}" for what, value in row.items()), flush=True)
    return [row]


def _domain(folder: Path, name: str) -> pl.DataFrame:
    return pl.read_csv(
        folder / f"adult_hierarchy_{name}.csv", separator=";", has_header=False, infer_schema=False
    )


def _shares(cells: pl.Series, domain: pl.DataFrame) -> np.ndarray:
    """Each cell as shares of the values it may stand for."""
    values = domain[:, 0].to_list()
    texts = cells.cast(pl.String)
    found = {text: _stands_for(text, values, domain) for text in texts.unique().to_list()}
    return np.stack([found[text] for text in texts.to_list()])


def _stands_for(text: str | None, values: list[str], domain: pl.DataFrame) -> np.ndarray:
    inside = np.zeros(len(values), bool)
    ages = re.fullmatch(r"(\d+)-(\d+)", text or "")
    if text is None:
        inside[:] = True
    elif any(text in domain[:, c] for c in range(domain.width)):
        for c in range(domain.width):
            inside |= (domain[:, c] == text).to_numpy()
    elif ages:
        inside = np.array([int(ages[1]) <= int(value) <= int(ages[2]) for value in values])
    else:
        inside = np.isin(values, text.split("|"))
    if not inside.any():
        raise ValueError(f"A released cell must stand for values of its hierarchy. Got {text!r}.")
    return inside / inside.sum()


def _variation(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> float:
    """The mean total variation between all tables of two columns."""
    n = next(iter(before.values())).shape[0]
    pairs = itertools.combinations(before, 2)
    return float(
        np.mean([0.5 * np.abs(before[a].T @ before[b] - after[a].T @ after[b]).sum() / n for a, b in pairs])
    )


def _told(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> float:
    """The share of unseen original records whose salary is told right."""
    names = [name for name in before if name != SALARY]
    asked = np.concatenate([before[name] for name in names], axis=1)
    known = np.concatenate([after[name] for name in names], axis=1)
    truth, share = before[SALARY].argmax(axis=1), after[SALARY]
    fold = np.random.default_rng(0).permutation(truth.size) % FOLDS
    right = 0
    for each in range(FOLDS):
        seen = fold != each
        # A salary that is not told counts for each by its share.
        rows, weights = np.tile(known[seen], (2, 1)), share[seen].T.ravel()
        classes, used = np.repeat([0, 1], int(seen.sum())), share[seen].T.ravel() > 0
        model = LogisticRegression(max_iter=500).fit(rows[used], classes[used], weights[used])
        right += int((model.predict(asked[~seen]) == truth[~seen]).sum())
    return right / truth.size
