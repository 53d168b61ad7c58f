"""All models at once, on equivalence classes found in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal.engine.frame import Frame
from shoal.errors import ParameterError
from shoal.params import check_params
from shoal.privacy._anonymity import K_RULE, anonymity_verdict
from shoal.privacy._closeness import T_RULE, closeness_verdict, distance_for, distance_of
from shoal.privacy._diversity import C_RULE, L_RULE, diversity_verdict
from shoal.privacy._profile import profile_of
from shoal.privacy._shares import ALPHA_RULE, GAIN_RULE, KINDS, share_verdict
from shoal.privacy._verdict import Verdict
from shoal.privacy.cells import cells_of, names_of, opened
from shoal.privacy.classes import Classes, classes_of, refuse_overlap


def check(
    frame: Any,
    quasi: Sequence[str] | str,
    sensitive: Sequence[str] | str = (),
    *,
    k: int | None = None,
    l: float | None = None,
    t: float | None = None,
    c: float | None = None,
    entropy_l: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    enhanced_beta: float | None = None,
    delta_disclosure: float | None = None,
    distance: str | Mapping[str, str] = "auto",
    levels: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Verdict, ...]:
    """Check k-anonymity, l-diversity and t-closeness in one pass over the table.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
        The columns an intruder is taken to know.
    sensitive : str or sequence of str, default none
        The columns whose values are to stay uncertain.
    k, l, t : number, optional
        The demands. `l` holds for the distinct kind; the entropy kind is reported beside it.
    c : float, optional
        With it, recursive (c, l)-diversity is checked too.
    entropy_l : float, optional
        A demand on the entropy kind.
    alpha, beta, enhanced_beta, delta_disclosure : float, optional
        With them, (alpha, k)-anonymity, beta-likeness, its enhanced form and delta-disclosure privacy are checked too; see
        `share_limits`.
    distance : {"auto", "equal", "ordered", "hierarchical"} or mapping of column name to it, default "auto"
        See `t_closeness`.
    levels : mapping of column name to levels, optional
        See `t_closeness`.

    Returns
    -------
    tuple of Verdict
        k-anonymity, then for each sensitive column distinct and entropy l-diversity, recursive
        (c, l)-diversity where `c` is given, t-closeness, and the models on shares that were asked for.

    Notes
    -----
    With several sensitive columns each is checked alone, on classes of the quasi-identifiers. An intruder
    who knows one of them for a person can use it to narrow the class down for the next, so each verdict
    also notes what it would be if the other sensitive columns were quasi-identifiers as well (the demand
    of [1], section 4.4, which few tables meet).

    References
    ----------
    .. [1] A. Machanavajjhala, D. Kifer, J. Gehrke, M. Venkitasubramaniam (2007). l-diversity: privacy beyond
       k-anonymity. ACM TKDD 1(1), 3. doi:10.1145/1217299.1217302

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import privacy
    >>> table = pl.DataFrame({"zip": ["a", "a", "a", "b", "b", "b"],
    ...                       "disease": ["flu", "ulcer", "cold", "flu", "flu", "cold"]})
    >>> for verdict in privacy.check(table, "zip", "disease", k=3, l=2, t=0.2):
    ...     print(verdict.model, round(verdict.value, 3), verdict.holds)
    k-anonymity 3 True
    distinct l-diversity 2 True
    entropy l-diversity 1.89 None
    t-closeness (equal distance) 0.167 True
    """
    check_params(
        "check",
        {"k": K_RULE, "l": L_RULE, "t": T_RULE, "c": C_RULE, "entropy_l": L_RULE, "alpha": ALPHA_RULE,
         "beta": GAIN_RULE, "enhanced_beta": GAIN_RULE, "delta_disclosure": GAIN_RULE},
        {"k": k, "l": l, "t": t, "c": c, "entropy_l": entropy_l, "alpha": alpha, "beta": beta,
         "enhanced_beta": enhanced_beta, "delta_disclosure": delta_disclosure},
    )  # fmt: skip
    names = names_of(quasi, "quasi")
    others = names_of(sensitive, "sensitive") if sensitive else []
    demands = {
        "l": l, "t": t, "c": c, "entropy_l": entropy_l, "alpha": alpha, "beta": beta, "enhanced_beta": enhanced_beta,
        "delta_disclosure": delta_disclosure,
    }  # fmt: skip
    unmet = [name for name, demand in demands.items() if demand is not None and not others]
    if unmet:
        raise ParameterError(f"The demand {unmet[0]!r} of check is on sensitive columns. Got none.")
    refuse_overlap(names, others)
    table = opened(frame, [*names, *others])
    classes = classes_of(cells_of(table, names))
    verdicts = [anonymity_verdict(classes, k)]
    for name in others:
        column_levels = (levels or {}).get(name)
        chosen = distance_for(distance, name)
        alone = _on(table, classes, name, demands, chosen, column_levels)
        rest = [each for each in others if each != name]
        if rest:
            narrowed = classes_of(cells_of(table, [*names, *rest]))
            joint = _on(table, narrowed, name, demands, chosen, column_levels)
            alone = [_with_note(one, other, rest) for one, other in zip(alone, joint, strict=True)]
        verdicts += alone
    return tuple(verdicts)


def _on(
    table: Frame,
    classes: Classes,
    name: str,
    demands: Mapping[str, float | None],
    distance: str,
    levels: Sequence[Any] | None,
) -> list[Verdict]:
    """The verdicts on one sensitive column."""
    l, t, c = (demands[name] for name in ("l", "t", "c"))
    cells, scale = distance_of(table, name, distance, levels)
    profile = profile_of(classes, cells)
    verdicts = [
        diversity_verdict(classes, profile, "distinct", l),
        diversity_verdict(classes, profile, "entropy", demands["entropy_l"]),
    ]
    if c is not None:
        verdicts.append(diversity_verdict(classes, profile, "recursive", l, c))
    verdicts.append(closeness_verdict(classes, profile, scale, t))
    for kind, asked in zip(KINDS, ("alpha", "beta", "delta_disclosure", "enhanced_beta"), strict=True):
        if demands[asked] is not None:
            verdicts.append(share_verdict(classes, profile, kind, demands[asked]))
    return verdicts


def _with_note(alone: Verdict, joint: Verdict, rest: list[str]) -> Verdict:
    value = "not bounded" if joint.value is None else joint.value
    value = round(value, 4) if isinstance(value, float) else value
    note = f"Checked alone; with {', '.join(rest)} known to the intruder as well, the value is {value}."
    return replace(alone, notes=(*alone.notes, note))
