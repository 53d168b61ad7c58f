"""The fields of a request that suppression and generalisation take, and how they are told apart."""

from __future__ import annotations

from numbers import Integral, Real

from shoal.params import Interval, Options
from shoal.publish.fields import PATH, maybe, option
from shoal.typing import Keywords

# Methods that change cells truthfully instead of averaging them.
CHANGING = ("generalize", "suppress")
# The conditions that classes can hold and groups of records cannot.
OF_CLASSES = ("entropy_l", "alpha", "beta", "enhanced_beta", "delta_disclosure")
OF_GENERALIZE = ("hierarchies", "recoding", "suppress_at_most", "objective", "classes")
OF_SUPPRESS = ("reading", "subsets")

FIELDS: Keywords = {
    "l": option(
        None, maybe(Interval(Integral, 2)), "Also reach l-diversity of the sensitive columns.", "whole", "--l", page=True
    ),
    "t": option(
        None, maybe(Interval(Real, 0, 1)), "Also reach t-closeness of the sensitive columns.", "number", "--t", page=True
    ),
    "entropy_l": option(
        None, maybe(Interval(Real, 1)), "Of generalize: also reach entropy l-diversity.", "number", "--entropy-l",
        page=True,
    ),
    "alpha": option(
        None, maybe(Interval(Real, 0, 1)), "Of generalize: largest share of a sensitive value in a class.", "number",
        "--alpha", page=True,
    ),
    "beta": option(
        None, maybe(Interval(Real, 0)),
        "Of generalize: largest gain of a sensitive value's share over its share in the table (beta-likeness).",
        "number", "--beta", page=True,
    ),
    "enhanced_beta": option(
        None, maybe(Interval(Real, 0)),
        "Of generalize: the same, and at most -log of the value's share in the table (enhanced beta-likeness).",
        "number", "--enhanced-beta", page=True,
    ),
    "delta_disclosure": option(
        None, maybe(Interval(Real, 0)),
        "Of generalize: largest absolute logarithm of the ratio of these shares (delta-disclosure).", "number",
        "--delta-disclosure", page=True,
    ),
    "hierarchies": option(
        None, PATH, "Folder of hierarchies for the method generalize.", "path", "--hierarchies"
    ),
    "recoding": option(
        None, maybe(Options(("local", "global"))), "Recoding of the method generalize: local or global.", "text",
        "--recoding", page=True,
    ),
    "suppress_at_most": option(
        None, maybe(Interval(Real, 0, 1)), "Largest share of records that generalize may suppress.", "number",
        "--suppress-at-most", page=True,
    ),
    "objective": option(
        None, maybe(Options(("loss", "arx-loss", "precision", "cells"))),
        "What generalize keeps small: loss, arx-loss (global), precision or cells.", "text", "--objective", page=True,
    ),
    "classes": option(
        None, maybe(Options(("ancestors", "sets"))),
        "How generalize releases a class: its common ancestors, or sets of the values present.", "text", "--classes",
        page=True,
    ),
    "reading": option(
        None, maybe(Options(("strict", "own", "wildcard"))),
        "How a suppressed cell is read: strict, own or wildcard.", "text", "--reading", page=True,
    ),
    "subsets": option(
        None, maybe(Interval(Integral, 1)),
        "Of suppress with the reading own: only combinations of up to so many keys must occur k times.", "whole",
        "--subsets", page=True,
    ),
    "count": option(
        "record", Options(("record", "household")),
        "What the k of suppress, generalize and steps counts: record or household.", "text", "--count", page=True,
    ),
}  # fmt: skip


def refuse_for_groups() -> dict[str, str]:
    """The fields that groups of records cannot have, with why."""
    only = dict.fromkeys((*OF_GENERALIZE, *OF_CLASSES), "only the method generalize takes it")
    return only | {
        "reading": "only methods that suppress cells take it",
        "subsets": "only methods that suppress cells take it",
        "count": "groups hold whole households where a column has that role",
    }


def refuse_for(method: str) -> dict[str, str]:
    """The fields that suppression or generalisation cannot have, with why."""
    if method == "suppress":
        from shoal.schema.steps import CONDITIONS  # here, so that asking for help loads no polars

        only = dict.fromkeys((*OF_GENERALIZE, *CONDITIONS), "only the method generalize takes it")
        return only | dict.fromkeys(
            ("l", "t"), "suppressing cells does not reach it, groups and generalize do"
        )
    return dict.fromkeys(OF_SUPPRESS, "only the method suppress takes it")
