"""The first spine: a table of individuals becomes a table in which everyone hides in a group.

Read the function from top to bottom: read, encode, partition, aggregate, check, measure. Each stage is a
file beside this one. Nothing is returned unless the check of what would be published holds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from shoal.engine.aggregate import aggregate
from shoal.engine.frame import Frame
from shoal.engine.roles import listed, prepare
from shoal.microaggregation import Microaggregator, resolve_method
from shoal.protect.choices import Progress, check_choices
from shoal.protect.figures import certificate, measure
from shoal.protect.ground import Ground
from shoal.protect.groups import form_groups, reach_models
from shoal.protect.identification import identification
from shoal.protect.result import Protection, notes_of, settings_of
from shoal.protect.steps import apply_steps, publish
from shoal.protect.strata import settle_strata
from shoal.protect.verdicts import check_or_refuse
from shoal.schema import Schema


def protect(
    frame: Any,
    k: int = 5,
    columns: str | Sequence[str] | None = None,
    method: str | Microaggregator = "anneal",
    strata: str | Sequence[str] | None = None,
    weights: str | None = None,
    schema: Schema | str | Path | None = None,
    *,
    households: str | None = None,
    l: int | None = None,
    t: float | None = None,
    missing: str | None = None,
    small_strata: str = "merge",
    integers: str = "float",
    identifiers: str = "drop",
    key: bytes | None = None,
    time_limit: float | None = None,
    max_proposals: int | None = None,
    random_state: int | None = 0,
    certify: bool | str | float = False,
    labelled: Collection[str] = (),
    progress: Progress | None = None,
) -> Protection:
    """Protect a table: replace each record by the centre of a group of at least `k`.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    k : int, default 5
        Smallest group.
    columns : str or list of str, optional
        The columns to aggregate. Left open: the schema's quasi-identifiers, else the numeric columns.
    method : str or Microaggregator, default "anneal"
        A name from `shoal.methods()`, or a configured method (its `k` is overruled).
    strata : str or list of str, optional
        Groups never cross these columns' values.
    weights : str, optional
        Survey weights: means and modes are weighted, so that weighted totals are kept.
    schema : Schema or path, optional
        Roles and kinds of columns; what it leaves open is guessed, and said.
    households : str, optional
        Rows that share this column's value stay together; a group then holds at least `k` households.
    l, t : optional
        Also reach l-diversity and t-closeness of the sensitive columns, by merging groups.
    missing : {"error", "impute", "category", "drop"}, optional
        Overrules the schema's policy for missing cells.
    small_strata : {"merge", "refuse"}, default "merge"
        A stratum with fewer than `k` rows joins the stratum nearest to it and takes its value, or is an error.
    integers : {"float", "round"}, default "float"
        Whether integer columns become floats or are rounded.
    identifiers : {"drop", "hash"}, default "drop"
        Drop identifiers, or replace them by a keyed hash (`key`; a random one is forgotten after the run).
    time_limit, max_proposals, random_state : optional
        Handed to the method where it takes them.
    certify : bool, or an effort of `shoal.bounds.information_loss_bound`, default False
        Also bound from below what any partition would lose, as `figures["certificate"]`.
    labelled : list of str, optional
        Columns whose numbers are codes with labels (SPSS, Stata, SAS): categories where no schema says otherwise.
    progress : callable, optional
        Called with a sentence at each stage.

    Returns
    -------
    Protection

    Notes
    -----
    The guarantee is k-anonymity of the aggregated columns (and strata) taken as quasi-identifiers, and
    nothing about columns left as they are; `Protection.notes` names those.

    Examples
    --------
    >>> import polars as pl, shoal
    >>> frame = pl.DataFrame({"age": [20, 21, 22, 60, 61, 62], "city": list("AAABBB")})
    >>> shoal.protect(frame, k=3, method="mdav").frame["age"].to_list()
    [21.0, 21.0, 21.0, 61.0, 61.0, 61.0]
    """
    started = time.perf_counter()
    say = progress or (lambda _: None)
    choices = {
        "l": l, "t": t, "missing": missing, "small_strata": small_strata, "integers": integers,
        "identifiers": identifiers,
    }  # fmt: skip
    check_choices(choices)

    say("reading the schema")
    given, steps = apply_steps(Frame(frame), schema)
    job = prepare(given, schema, listed(columns), listed(strata), weights, households, missing, labelled)
    say("encoding")
    ground = Ground.of(job)
    estimator = resolve_method(method, k, time_limit, max_proposals, random_state)
    within = settle_strata(ground, k, small_strata)
    labels, parts = form_groups(ground, estimator, within.codes, progress)
    labels, reached = reach_models(ground, labels, within.codes, l, t)
    say("aggregating")
    new = aggregate(ground.filled, labels, ground.Z, job.weights, integers == "round") | within.published
    protected = publish(job, new, identifiers, key)
    say("checking")
    verdicts = check_or_refuse(protected, job, list(new), k, l, t)
    say("measuring")
    published = Frame(protected).to_polars()
    figures = measure(ground, ground.reread(published), labels)
    figures["identification"] = identification(job, published)
    figures["seconds"] = time.perf_counter() - started
    if certify is not False:
        say("certifying: bounding what any partition would lose")
        figures["certificate"] = certificate(ground.Z, k, labels, "default" if certify is True else certify)
    settings = settings_of(parts, job, choices)
    notes = (*steps, *job.notes, *within.notes, *reached, *notes_of(parts, job, identifiers))
    return Protection(protected, labels, verdicts, figures, settings, job.schema, notes, job.table)
