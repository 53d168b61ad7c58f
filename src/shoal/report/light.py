"""The traffic light of a report: three colours by one stated rule."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.report.words import counted, listed, percent

# A linkage of a fifth is what groups of five allow, the smallest cell many offices publish.
LINKAGE_LIMIT = 0.2
# Columns left as they are that single out this share of the records work like a name.
ALONE_LIMIT = 0.9


@dataclass(frozen=True)
class Light:
    """The colour, the word for it, why it is that colour, and the rule."""

    colour: str
    word: str
    reasons: tuple[str, ...]
    rule: str


@dataclass(frozen=True)
class Left:
    """A column published as it is: its role, its different values, and the records alone with theirs."""

    name: str
    role: str
    distinct: int
    alone: int
    meaning: str


def traffic_light(
    failed: tuple[str, ...],
    anonymous: bool,
    covered: frozenset[str],
    left: tuple[Left, ...],
    alone_share: float,
    linkage: float | None,
) -> Light:
    """Decide the colour.

    Parameters
    ----------
    failed : tuple of str
        Models that were demanded and do not hold.
    anonymous : bool
        Whether a demand of k-anonymity holds.
    covered : frozenset of str
        Sensitive columns with a demand of l-diversity or t-closeness that holds.
    left : tuple of Left
    alone_share : float
        Share of records singled out by the columns left as they are, together.
    linkage : float or None
        DLD; None in a public report, where it may not be told.
    """
    red = [f"{model} does not hold" for model in failed]
    if not anonymous:
        red.append("no demand of k-anonymity was checked and found to hold")
    as_is = [each.name for each in left if each.role == "leave"]
    if as_is and alone_share >= ALONE_LIMIT:
        red.append(f"{listed(as_is)} single out {percent(100 * alone_share)} of the records, like a name")
    amber = []
    if linkage is not None and linkage > LINKAGE_LIMIT:
        amber.append(f"linkage is {percent(100 * linkage)}, more than {percent(100 * LINKAGE_LIMIT)}")
    plain = [each.name for each in left if each.role != "sensitive"]
    if plain:
        amber.append(
            f"{counted(len(plain), 'column is', 'columns are')} published unprotected ({listed(plain)})"
        )
    bare = [each.name for each in left if each.role == "sensitive" and each.name not in covered]
    if bare:
        amber.append(f"no demanded l-diversity or t-closeness covers the sensitive {listed(bare)}")
    if red:
        return Light("red", "Do not publish", tuple(red + amber), _rule(linkage is not None))
    if amber:
        return Light(
            "amber", "Publish after a look at what follows", tuple(amber), _rule(linkage is not None)
        )
    return Light("green", "All conditions met", (), _rule(linkage is not None))


def _rule(with_linkage: bool) -> str:
    link = f"linkage (DLD) is at most {percent(100 * LINKAGE_LIMIT)}, " if with_linkage else ""
    return (
        f"Green: every demanded model holds, {link}and every published column is aggregated, a checked stratum, "
        "or sensitive under a demanded l-diversity or t-closeness. Amber: every demanded model holds, but another of "
        "these conditions does not. Red: a demanded model does not hold, or columns left as they are single out "
        f"{percent(100 * ALONE_LIMIT)} of the records or more."
    )
