"""What the figures and verdicts mean, in one sentence each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FigureFact:
    """A figure for reading: its name, its value with unit, and what it says."""

    key: str
    name: str
    value: str
    meaning: str


# Key of the figure, its name, its unit, what it means.
COUNTS = (
    (
        "false_cells",
        "False cells",
        "Cells of categories that have another value than the record’s own: the most frequent one of its group.",
    ),
    ("suppressed_cells", "Suppressed cells", "Cells that had a value and have none now; they count as lost."),
    ("suppressed_records", "Records left out", "Records that were dropped for a missing cell."),
)
LOSS = (
    (
        "information_loss",
        "Information loss",
        "percent",
        "Share of the variation between records that is lost, over all protected columns (100 · SSE / SST). It includes "
        "recoding, coded ends and suppression. 0 % is the original; 100 % means that everyone got the overall mean.",
    ),
    (
        "il1",
        "Information loss of numbers (IL1)",
        "percent",
        "The same share over the number columns alone.",
    ),
    (
        "il2",
        "Mean change of a cell (IL2)",
        "percent",
        "How far a number moved on average, in per cent of √2 standard deviations of its column.",
    ),
    (
        "propensity",
        "Propensity score",
        "share",
        "How well a logistic model tells protected rows from original ones: 0 not at all, 1 perfectly.",
    ),
    (
        "change_of_mean",
        "Change of means",
        "number",
        "Mean over the columns of how far the mean moved, in standard deviations; 0 is no change.",
    ),
    (
        "change_of_variance",
        "Change of variances",
        "number",
        "Mean over the columns of how much the variance moved, as a share of the original one; 0 is no change.",
    ),
    (
        "change_of_covariance",
        "Change of covariances",
        "number",
        "Mean over pairs of columns, in products of their standard deviations; 0 is no change.",
    ),
    (
        "change_of_correlation",
        "Change of correlations",
        "number",
        "Mean absolute difference over pairs of columns; 0 is no change.",
    ),
    (
        "change_of_eigenvalue",
        "Change of eigenvalues",
        "number",
        "How much the variances along the principal axes moved, as a share of their sum; 0 is no change.",
    ),
)
RISK = (
    (
        "at_risk",
        "Records at risk",
        "share",
        "Share of records whose published values, without the sensitive ones, occur in fewer than k records.",
    ),
    (
        "linkage",
        "Linkage",
        "share",
        "Share of published records whose nearest original is their own, for an intruder who holds the original "
        "values of all protected columns and also knows the columns left as they are{sample}.",
    ),
    (
        "dld",
        "Linkage by the protected columns (DLD)",
        "share",
        "The same for an intruder who holds the original values of the protected columns alone{ceiling}.",
    ),
    (
        "interval_disclosure",
        "Interval disclosure",
        "share",
        "Share of number cells whose original lies within a tenth of the ranks around the published value: "
        "high if a protected value still shows the region of the original.",
    ),
)

# key, name, unit, meaning; the risk of being found, before protection and after.
IDENTIFICATION = (
    (
        "expected_reidentifications",
        "Re-identifications expected",
        "number",
        "Records expected to be found by someone who tries them all: the sum of their risks{source}.",
    ),
    (
        "expected_with_households",
        "The same with households",
        "number",
        "The same if finding one member reveals the others.",
    ),
    ("below_2", "Classes below 2", "count", "Records in classes smaller than 2."),
    ("below_3", "Classes below 3", "count", "Records in classes smaller than 3."),
    ("below_5", "Classes below 5", "count", "Records in classes smaller than 5."),
    ("unique", "Unique records", "count", "Records alone with their combination of quasi-identifiers."),
    (
        "prosecutor",
        "Prosecutor risk",
        "share",
        "The weakest record’s chance of being picked out by someone who knows that the person is in the table.",
    ),
    ("journalist", "Journalist risk", "share", "The same without that knowledge{source}."),
    ("k_map", "k-map", "number", "How many people look like the weakest record{source}."),
    (
        "marketer",
        "Marketer risk",
        "share",
        "Records expected to be matched rightly when all are matched with the population{source}.",
    ),
    ("individual_mean", "Individual risk, mean", "share", "Each record’s own risk, averaged{source}."),
    (
        "above_threshold",
        "Records above {threshold}",
        "count",
        "Records whose individual risk exceeds {threshold}.",
    ),
    (
        "household_mean",
        "Household risk, mean",
        "share",
        "The chance that anyone of a record’s household is found, averaged over the records.",
    ),
    (
        "household_largest",
        "Household risk, largest",
        "share",
        "The same for the weakest household.",
    ),
    *(
        (
            f"households_below_{size}",
            f"Households below {size}",
            "count",
            f"Households whose size and members, taken together, occur in fewer than {size} households. Anyone who knows "
            "which rows are one household can find them.",
        )
        for size in (2, 3, 5)
    ),
    (
        "special_uniques",
        "Special uniques (SUDA)",
        "count",
        "Records that are already unique by {size} or fewer columns.",
    ),
    (
        "dis_suda_largest",
        "DIS-SUDA, largest",
        "share",
        "The score of the most special record, between 0 and 1, as sdcMicro computes it.",
    ),
)


@dataclass(frozen=True)
class BeforeAfter:
    """A figure of the original and of the published table, for reading."""

    name: str
    before: str
    after: str
    meaning: str


def identification_facts(figures: Mapping[str, Any]) -> tuple[BeforeAfter, ...]:
    """The risk of being found, before and after; nothing where it was not measured."""
    given = figures.get("identification")
    if not given:
        return ()
    before, after = given["before"], given["after"]
    fill = {
        "source": ", estimated from the weights"
        if given["source"] == "weights"
        else ", the table standing for all",
        "threshold": percent(100 * before["threshold"]),
        "size": str(given["suda_size"]),
    }
    return tuple(
        BeforeAfter(
            name.format(**fill), _shown(before[key], unit), _shown(after[key], unit), words.format(**fill)
        )
        for key, name, unit, words in IDENTIFICATION
        if key in before and key in after
    )


def riskiest_column(figures: Mapping[str, Any]) -> str:
    """A sentence on the column that brings most of the risk before protection."""
    gains = figures.get("identification", {}).get("per_column", {})
    name, gain = next(iter(gains.items()), ("", 0.0))
    if gain <= 0:
        return ""
    lower = f"{number(100 * gain)} percentage points lower"
    return f"Before protection, {name} brought most of the risk: without it the mean risk would have been {lower}."


def _shown(value: float, unit: str) -> str:
    return percent(100 * value) if unit == "share" else number(value)


def loss_facts(figures: Mapping[str, Any]) -> tuple[FigureFact, ...]:
    """The figures of loss that are there; IL1 only where it differs from the loss over all columns."""
    same = abs(figures.get("il1", 0.0) - figures.get("information_loss", -1.0)) < 1e-6
    counts = tuple(
        FigureFact(key, name, counted(figures[key], "cell" if "cells" in key else "record"), meaning)
        for key, name, meaning in COUNTS
        if figures.get(key)
    )
    found = (_fact(row, figures) for row in LOSS if row[0] in figures and not (row[0] == "il1" and same))
    return (*found, *counts)


def risk_facts(figures: Mapping[str, Any], ceiling: float | None) -> tuple[FigureFact, ...]:
    """The figures of risk that are there; `ceiling` is what linkage cannot exceed with these groups."""
    words = (
        ""
        if ceiling is None or ceiling > 0.5  # in a run of steps groups on all columns may be single records
        else f"; all members of a group look alike, so with these groups it cannot exceed {percent(100 * ceiling)}, "
        "one in k at most"
    )
    words += sample_words(figures)
    alike = figures.get("linkage") == figures.get("dld")
    return tuple(
        _fact(row, figures, ceiling=words, sample=sample_words(figures))
        for row in RISK
        if row[0] in figures and not (row[0] == "linkage" and alike)
    )


def sample_words(figures: Mapping[str, Any]) -> str:
    """Said of linkage where it was sought for some of the records only."""
    sought, n = figures.get("linked_records"), figures.get("n_records", 0)
    if sought is None or sought >= n:
        return ""
    return f"; measured on a sample of {sought:,} of {n:,} records, so the share of all may be a little higher or lower"


def _fact(row: tuple[str, str, str, str], figures: Mapping[str, Any], **fill: str) -> FigureFact:
    key, name, unit, meaning = row
    value = float(figures[key])
    shown = {
        "percent": percent(value),
        "share": percent(100 * value),
        "number": number(value),
    }[unit]
    if key == "propensity":
        shown = number(value)
    return FigureFact(key, name, shown, meaning.format(**fill) if fill else meaning)


def percent(value: float) -> str:
    """Per cent for reading: three digits, and never more than needed.

    Examples
    --------
    >>> from shoal.report.words import percent
    >>> percent(9.08843), percent(0.0), percent(100.0)
    ('9.09 %', '0 %', '100 %')
    """
    return f"{number(value)} %"


def number(value: Any) -> str:
    """Three significant digits; what rounding leaves of nothing is 0."""
    if value is None:
        return "not bounded"
    if isinstance(value, (tuple, list)):
        return " to ".join(number(each) for each in value)
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) < 5e-7:
        return "0"
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return digits.replace("-", "−")


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: 1 record, 1,080 records."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Any, limit: int = 12) -> str:
    """Names in a sentence: a, b and c; the rest is counted where there are many."""
    names = [str(name) for name in names]
    if len(names) > limit:
        return f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"


def verdict_meaning(model: str, sensitive: str | None, value: Any) -> str:  # noqa: C901, PLR0911 - a sentence a model
    """What a verdict of this model says about the published table."""
    column = f"“{sensitive}”" if sensitive else "the sensitive column"
    reached = number(value)
    if model.startswith("k-anonymity"):
        one, many = ("household", "households") if model.endswith("of households") else ("record", "records")
        if value == 1:
            return f"At least one {one} is alone with its combination of quasi-identifiers."
        return (
            f"The rarest combination of quasi-identifiers is shared by {reached} {many}: on these columns "
            f"{'no household' if one == 'household' else 'nobody'} can be distinguished from {number(value - 1)} others."
        )
    if "diversity" in model and value == 1:
        return f"In some group all records have one value of {column}, so anyone who finds a person's group knows it."
    if model.startswith("distinct"):
        return f"Within every group of alike records, {column} takes at least {reached} different values."
    if model.startswith("entropy"):
        return (
            f"Within every group, the values of {column} are spread at least as evenly as {reached} equally "
            "frequent ones (entropy)."
        )
    if "diversity" in model:
        return f"Within every group, the most frequent values of {column} do not outweigh the rest: l is {reached}."
    if model.startswith("t-closeness"):
        return (
            f"In no group are the values of {column} distributed farther than {reached} from the whole table "
            "(0: alike, 1: as different as can be)."
        )
    if model.startswith("(alpha"):
        return f"In no group does one value of {column} belong to more than {percent(100 * value)} of the records."
    if model.startswith("beta"):
        return (
            f"In no group is the share of a value of {column} more than {percent(100 * value)} above its share in the whole "
            "table."
        )
    if model.startswith("enhanced beta"):
        return (
            f"In some group the share of a frequent value of {column} is far above its share in the whole table."
            if value is None
            else f"In no group is the share of a value of {column} more than {percent(100 * value)} above its share in the "
            "whole table, and less so for frequent values."
        )
    if model.startswith("delta-disclosure"):
        return (
            f"In some group a value of {column} does not occur, though it does in the table, and anyone who finds the group sees it."
            if value is None
            else f"In every group the share of each value of {column} is within a factor of {number(math.exp(value))} of its "
            "share in the whole table."
        )
    if model.startswith("delta-presence"):
        return (
            f"Someone who knows a person's quasi-identifiers can say that the person is in the table with a probability of "
            f"{reached}."
        )
    return f"The table reaches {reached}."
