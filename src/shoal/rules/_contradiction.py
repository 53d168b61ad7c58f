"""Rules that no record can keep together, found before any work."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from shoal.errors import SchemaError
from shoal.rules._edits import Edit, Linear, linear_of

# Columns below a line whose signs are tried in all combinations.
MOST_SIGNS = 4
# Seconds in which whole numbers are looked for; what is not settled by then is left to the run.
SECONDS = 2.0


def refuse_contradiction(edits: Sequence[Edit]) -> None:
    """Raise `SchemaError` naming a smallest set of rules that no record can keep together.

    Sums, orders, ranges and integers are taken together, ratios where the column below the line is not 0, and
    impossible values of one column with its range.

    Examples
    --------
    >>> from shoal.rules import edits_of, refuse_contradiction
    >>> from shoal.schema import Rule
    >>> edits = edits_of([Rule(range="5 <= a <= 9"), Rule(order="a <= b"), Rule(range="b <= 4")], ["a", "b"])
    >>> refuse_contradiction(edits)
    Traceback (most recent call last):
    shoal.errors.SchemaError: No record can keep the rules '5 <= a <= 9', 'a <= b' and 'b <= 4' together.
    """
    sums = [edit for edit in edits if edit.linear or edit.kind == "integer"]
    _refuse(sums, _feasible)
    ratios = [edit for edit in edits if edit.ratio]
    # Where other rules leave 0 alone below a line, a ratio says nothing.
    if ratios and len(_below(ratios)) <= MOST_SIGNS and _with_signs(sums, _below(ratios)):
        _refuse([*sums, *ratios], _feasible_ratios)
    for name in {name for edit in edits if edit.conditions for name in edit.columns}:
        _refuse([edit for edit in edits if _about(edit, name)], _some_value)


def _refuse(edits: list[Edit], feasible: Callable[[Sequence[Edit]], bool]) -> None:
    """Raise a sentence with those rules without which the others could be kept."""
    left = edits
    if not left or feasible(left):
        return
    for edit in edits:
        without = [each for each in left if each is not edit]
        if without and not feasible(without):
            left = without
    texts = [repr(edit.text) for edit in left]
    named = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    raise SchemaError(f"No record can keep the rule{'s' if len(texts) > 1 else ''} {named} together.")


def _feasible(edits: Sequence[Edit]) -> bool:
    whole = {edit.columns[0] for edit in edits if edit.kind == "integer"}
    return _solvable([each for edit in edits for each in edit.linear], whole)


def _below(edits: Sequence[Edit]) -> list[str]:
    return list(dict.fromkeys(edit.ratio[2] for edit in edits if edit.ratio))


def _feasible_ratios(edits: Sequence[Edit]) -> bool:
    names = _below(edits)
    return _with_signs(edits, names) if names else _feasible(edits)


def _with_signs(edits: Sequence[Edit], names: Sequence[str]) -> bool:
    """Whether a record can keep the rules with these columns above or below 0, none of them 0."""
    whole = {edit.columns[0] for edit in edits if edit.kind == "integer"}
    for signs in itertools.product((1.0, -1.0), repeat=len(names)):
        sign = dict(zip(names, signs, strict=True))
        linear = [Linear(((name, -sign[name]),), 0.0, strict=True) for name in names]
        for edit in edits:
            turn = sign[edit.ratio[2]] if edit.ratio else 1.0
            linear += [
                Linear(tuple((name, turn * factor) for name, factor in each.factors), turn * each.constant, each.equality, each.strict)
                for each in linear_of(edit)
            ]  # fmt: skip
        if _solvable(linear, whole):
            return True
    return False


def _solvable(linear: Sequence[Linear], whole: set[str]) -> bool:
    """Whether some values, whole ones where asked for, keep all sums; True where that is not settled in time."""
    from scipy.optimize import linprog

    names = sorted({name for each in linear for name, _ in each.factors})
    if not names:
        return True
    place = {name: at for at, name in enumerate(names)}
    # Strict comparisons by a margin that is itself made as large as possible.
    rows, limits, equal, totals = [], [], [], []
    for each in linear:
        row = np.zeros(len(names) + 1)
        for name, factor in each.factors:
            row[place[name]] += factor
        if each.equality:
            equal.append(row)
            totals.append(-each.constant)
        else:
            row[-1] = 1.0 if each.strict else 0.0
            rows.append(row)
            limits.append(-each.constant)
    goal = np.zeros(len(names) + 1)
    goal[-1] = -1.0
    found = linprog(
        goal, A_ub=np.array(rows) if rows else None, b_ub=limits or None,
        A_eq=np.array(equal) if equal else None, b_eq=totals or None,
        bounds=[(None, None)] * len(names) + [(0.0, 1.0)], method="highs",
        integrality=[int(name in whole) for name in names] + [0], options={"time_limit": SECONDS},
    )  # fmt: skip
    if found.status == 2:
        return False
    strict = any(each.strict for each in linear)
    return found.status != 0 or not strict or -found.fun > 1e-12


def _about(edit: Edit, name: str) -> bool:
    """Whether a rule is about the values of one column alone."""
    if edit.columns != (name,) or edit.kind == "zero":
        return False
    return all(each.other is None and not each.is_missing for each in edit.conditions)


def _some_value(edits: Sequence[Edit]) -> bool:
    """Whether some value of their one column breaks none of the rules: those they name are tried, and those between."""
    if not any(edit.conditions for edit in edits):
        return True
    name = edits[0].columns[0]
    values = [each.value for edit in edits for each in edit.conditions]
    texts = {value for value in values if isinstance(value, str)}
    edges = {float(value) for value in values if not isinstance(value, str)}
    edges |= {
        -each.constant / each.factors[0][1] for edit in edits for each in edit.linear if each.factors[0][1]
    }
    tried: list[pl.Series] = []
    if texts:
        tried.append(pl.Series(name, [*texts, "".join(texts) + "-"]))
    if edges:
        ends = sorted(edges)
        between = [(a + b) / 2 for a, b in itertools.pairwise(ends)]
        whole = [np.floor(edge) + step for edge in ends for step in (-1.0, 0.0, 1.0, 2.0)]
        tried.append(pl.Series(name, [*ends, *between, *whole, ends[0] - 1, ends[-1] + 1]))
    for cells in tried:
        broken = np.zeros(cells.len(), bool)
        for edit in edits:
            broken |= edit.broken(cells.to_frame())
        if not broken.all():
            return True
    return False
