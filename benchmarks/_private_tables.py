"""The three tables of the comparison of private tables, with everything declared: nothing is read from the rows."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from shoal.schema import Column, Schema

GAINS = (
    1, 1000, 2000, 3000, 3500, 4000, 4500, 5000, 6000, 7000, 8000, 9000, 10000, 12000, 14000, 15500, 20000,
    30000, 60000,
)  # fmt: skip
LOSSES = (1, *range(400, 4000, 200))
BILLS = (
    0, 1, 500, 1000, 2000, 3000, 5000, 10000, 15000, 20000, 30000, 40000, 50000, 60000, 80000, 100000, 150000,
    200000, 300000,
)  # fmt: skip
PAID = (
    1, 500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 8000, 10000, 15000, 20000, 30000, 50000, 100000,
)  # fmt: skip
LISTED = {
    "workclass": 7, "education": 16, "marital_status": 7, "occupation": 14, "relationship": 6, "race": 5, "sex": 2,
    "native_country": 41, "income": 2,
}  # fmt: skip
SURVEY = {
    "urbrur": (1, 2), "roof": (2, 4, 5, 6, 9), "walls": (2, 3, 9), "water": tuple(range(1, 10)), "electcon": (1, 2, 3, 4),
    "relat": tuple(range(1, 10)), "sex": (1, 2), "hhcivil": (1, 2, 3, 4),
}  # fmt: skip


def tables(folder: Path) -> dict[str, tuple[pl.DataFrame, Schema]]:
    """Frames and schemas by name; a table whose file is not there is left out."""
    made = {"adult": adult, "sdc_survey": survey, "ccc": ccc}
    files = {"adult": "adult_complete.csv", "sdc_survey": "sdc_survey.csv", "ccc": "ccc.csv"}
    return {
        name: each(pl.read_csv(folder / files[name]))
        for name, each in made.items()
        if (folder / files[name]).exists()
    }


def _number(name: str, low: float, high: float, step: float | None = 1, breaks: tuple = ()) -> Column:
    return Column(name, bounds=(low, high), step=step, breaks=breaks or None)


def adult(frame: pl.DataFrame) -> tuple[pl.DataFrame, Schema]:
    """Adult, 15 columns: its codebook's levels, bins of equal width, capital in steps of its own."""
    columns = {
        "age": _number("age", 17, 91, breaks=tuple(range(20, 90, 3))),
        "fnlwgt": _number("fnlwgt", 0, 1_500_000, breaks=tuple(range(50_000, 1_000_000, 50_000))),
        "education_num": _number("education_num", 1, 16),
        "hours_per_week": _number("hours_per_week", 1, 100, breaks=tuple(range(5, 98, 4))),
        "capital_gain": _number("capital_gain", 0, 99_999, breaks=GAINS),
        "capital_loss": _number("capital_loss", 0, 5_000, breaks=LOSSES),
    }
    for name, count in LISTED.items():
        levels = tuple(sorted(frame[name].unique().to_list()))  # those of the published codebook
        assert len(levels) == count
        columns[name] = Column(name, role="quasi", kind="category", levels=levels)
    return frame, _schema("adult", frame, columns)


def ccc(frame: pl.DataFrame) -> tuple[pl.DataFrame, Schema]:
    """Credit card clients, 24 columns."""
    columns = {}
    for name in frame.columns:
        if name == "LIMIT_BAL":
            columns[name] = _number(name, 0, 1_000_000, breaks=tuple(range(40_000, 1_000_000, 40_000)))
        elif name == "AGE":
            columns[name] = _number(name, 20, 80, breaks=tuple(range(23, 79, 3)))
        elif name.startswith("BILL"):
            columns[name] = _number(name, -400_000, 2_000_000, breaks=BILLS)
        elif name.startswith("PAY_AMT"):
            columns[name] = _number(name, 0, 2_000_000, breaks=PAID)
        else:
            low, high = {"SEX": (1, 2), "EDUCATION": (0, 6), "MARRIAGE": (0, 3)}.get(name, (-2, 8))
            low, high = (0, 1) if name.startswith("default") else (low, high)
            levels = tuple(range(low, high + 1))
            columns[name] = Column(name, role="quasi", kind="category", levels=levels)
    return frame, _schema("ccc", frame, columns)


def survey(frame: pl.DataFrame) -> tuple[pl.DataFrame, Schema]:
    """The test survey of sdcMicro, its 12 columns of persons."""
    frame = frame.select(
        "urbrur", "roof", "walls", "water", "electcon", "relat", "sex", "age", "hhcivil", "expend", "income",
        "savings",
    )  # fmt: skip
    columns = {
        name: Column(name, role="quasi", kind="category", levels=levels) for name, levels in SURVEY.items()
    }
    columns["age"] = _number("age", 0, 95, breaks=tuple(range(5, 95, 5)))
    for name in ("expend", "income"):
        columns[name] = _number(
            name, 0, 100_000_000, breaks=tuple(range(10_000_000, 100_000_000, 10_000_000))
        )
    columns["savings"] = _number(
        "savings", 0, 10_000_000, breaks=tuple(range(1_000_000, 10_000_000, 1_000_000))
    )
    return frame, _schema("sdc_survey", frame, columns)


def _schema(name: str, frame: pl.DataFrame, columns: dict[str, Column]) -> Schema:
    kept = {each: columns[each] for each in frame.columns if each in columns}
    return Schema(kept, id=name, budget=1000.0)
