"""The first spine: a table of individuals becomes a table in which everyone hides in a group.

Read the function `protect` from top to bottom: prepare, encode, partition, aggregate, check, measure.
Nothing is returned unless the check of what would be published holds.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import clone

from shoal import bounds, privacy
from shoal.engine.aggregate import aggregate_column, medoids_of
from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.compile import needs_compiling
from shoal.engine.encode import Encoder, sum_of_squares
from shoal.engine.frame import Frame
from shoal.engine.missing import impute
from shoal.engine.pseudonyms import pseudonyms
from shoal.engine.roles import Prepared, prepare, row_codes
from shoal.errors import GuaranteeError, InputError, ParameterError, SchemaError
from shoal.masking import code_ends, recode
from shoal.measures import evaluate
from shoal.measures._risk import linked_share
from shoal.microaggregation import Microaggregator, join_small_strata, methods, partition_within
from shoal.params import AnyOf, Interval, Nothing, Options, Rule, check_params
from shoal.rooms import callable_as
from shoal.schema import Schema

# Above this many records, linkage is measured on an even selection of them.
MEASURED_RECORDS = 20_000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Protection:
    """A protected table and everything there is to say about it.

    Attributes
    ----------
    frame : the same kind of table as came in
        What may be published.
    labels : array of int64
        The group of each row of `frame`.
    verdicts : tuple of Verdict
        The models checked on `frame`, all of them holding.
    figures : dict
        Loss and risk. Computed from the original: for the custodian only.
    settings : dict
        Method, parameters and roles: what is needed to repeat the run.
    schema : Schema
        The facts the run went by, guessed ones included.
    notes : tuple of str
        What was guessed, merged, dropped or left alone, one sentence each.
    original : polars.DataFrame
        The rows as they came, for the custodian's report.
    """

    frame: Any
    labels: np.ndarray
    verdicts: tuple[privacy.Verdict, ...]
    figures: dict[str, Any]
    settings: dict[str, Any]
    schema: Schema
    notes: tuple[str, ...]
    original: pl.DataFrame

    def report(self, path: str | Path, *, public: bool = False) -> None:
        """Write the report as one HTML file; the public one leaves out what tells about the original."""
        from shoal.report import write_report

        write_report(self, path, public=public)


def protect(
    frame: Any,
    k: int = 5,
    columns: Sequence[str] | None = None,
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
    progress: Progress | None = None,
) -> Protection:
    """Protect a table: replace each record by the centre of a group of at least `k`.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    k : int, default 5
        Smallest group.
    columns : list of str, optional
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
    _check_choices(
        l=l, t=t, missing=missing, small_strata=small_strata, integers=integers, identifiers=identifiers
    )
    say("reading the schema")
    given = Frame(frame)
    given, coarser = apply_steps(given, schema)
    job = prepare(given, schema, columns, _listed(strata), weights, households, missing)
    say("encoding")
    filled = impute(job.quasi)
    encoder = Encoder.fit(filled)
    Z = encoder.transform(filled)
    estimator = resolve_method(method, k, time_limit, max_proposals, random_state)
    strata_codes, strata_new, merged = settle_strata(job, Z, k, small_strata)
    compiling = " (first use: compiling, once)" if needs_compiling(type(estimator).__module__) else ""
    doing = f"forming groups of at least {k} with {estimator.name}"
    say(f"{doing}{compiling}")
    if progress is not None and estimator.takes("progress"):
        estimator.set_params(
            progress=lambda seconds, _, loss: say(f"{doing}: {loss:.4f} % lost after {seconds:.0f} s")
        )
    labels, parts = partition_within(Z, estimator, strata_codes, row_codes(job.table, job.household))
    labels, reached = _reach_models(labels, Z, job, l, t, strata_codes)
    say("aggregating")
    new = aggregate(filled, labels, Z, job.weights, integers == "round") | strata_new
    kept, pseudonyms = _identifiers(job, identifiers, key)
    protected = kept.replaced(new | pseudonyms)
    say("checking")
    ground, levels = _grounds(job)
    quasi = [*new, *_unchanged(job.strata, new)]
    verdicts = privacy.check(protected, quasi, job.sensitive, k=k, l=l, t=t, ground=ground, levels=levels)
    for verdict in verdicts:
        if verdict.holds is False:
            raise GuaranteeError(
                f"The protected table does not keep its promise, so it is not given out: {verdict}"
            )
    say("measuring")
    published = Frame(protected).to_polars()
    after = [
        read_column(
            published[column.name], replace(column.facts, missing=(), policy="category"), column.levels
        )
        for column in filled
    ]
    figures = measure(filled, after, encoder, Z, labels)
    figures["seconds"] = time.perf_counter() - started
    if certify is not False:
        say("certifying: bounding what any partition would lose")
        figures["certificate"] = _certificate(Z, k, labels, "default" if certify is True else certify)
    settings = _settings(
        parts,
        job,
        identifiers=identifiers,
        integers=integers,
        missing=missing,
        small_strata=small_strata,
        l=l,
        t=t,
    )
    if any(getattr(part, "interrupted_", False) for part in parts):
        coarser.append("The search was interrupted: this is the best partition it had found.")
    notes = (*coarser, *job.notes, *merged, *reached, *_unprotected(job, identifiers))
    return Protection(protected, labels, tuple(verdicts), figures, settings, job.schema, notes, job.table)


def resolve_method(
    method: str | Microaggregator,
    k: int,
    time_limit: float | None,
    max_proposals: int | None,
    random_state: int | None,
) -> Microaggregator:
    """A configured method from its name."""
    options = {"time_limit": time_limit, "max_proposals": max_proposals, "random_state": random_state}
    if isinstance(method, Microaggregator):
        return clone(method).set_params(k=k)
    known = methods()
    if method not in known:
        raise ParameterError(f"'method' must be one of {', '.join(known)}. Got {method!r}.")
    chosen = known[method]
    for name in ("time_limit", "max_proposals"):
        if options[name] is not None and not chosen.takes(name):
            raise ParameterError(f"The method {method!r} takes no {name!r}: it stops by itself.")
    return chosen(
        k=k, **{name: value for name, value in options.items() if value is not None and chosen.takes(name)}
    )


def settle_strata(
    job: Prepared, Z: np.ndarray, k: int, small: str
) -> tuple[np.ndarray, dict[str, pl.Series], list[str]]:
    """Codes of the strata after the small ones joined others, the columns as published, and what to say."""
    codes = row_codes(job.table, job.strata)
    if codes is None:
        return np.zeros(Z.shape[0], np.int64), {}, []
    sizes = np.bincount(codes)
    if sizes.min() >= k:
        return codes, {}, []
    first = np.unique(codes, return_index=True)[1]
    shown = [", ".join(str(value) for value in job.table[job.strata].row(int(row))) for row in first]
    little = np.flatnonzero(sizes < k)
    if small == "refuse":
        raise InputError(
            f"Each stratum must have at least k = {k} rows. Stratum {shown[little[0]]!r} has {sizes[little[0]]}."
        )
    joins = join_small_strata(Z, codes, k)
    notes = [
        f"Stratum {shown[each]!r} has {sizes[each]} rows, fewer than k: they joined the nearest stratum, "
        f"{shown[joins[each]]!r}, and are published with that value."
        for each in little
    ]
    joined = joins[codes]
    changed = {name: job.table[name].gather(pl.Series(first[joined])) for name in job.strata}
    return np.unique(joined, return_inverse=True)[1].reshape(-1), changed, notes


def _reach_models(
    labels: np.ndarray, Z: np.ndarray, job: Prepared, l: int | None, t: float | None, strata: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Merge groups and swap records until the sensitive columns are l-diverse and t-close."""
    if l is None and t is None:
        return labels, []
    if not job.sensitive:
        raise InputError(
            "l-diversity and t-closeness need a column with the role 'sensitive'. The schema has none."
        )
    before = int(labels.max()) + 1
    ground, levels = _grounds(job)
    # Households stay together, so their records are not swapped.
    labels = privacy.reach(
        labels,
        Z,
        job.table.select(job.sensitive),
        l=l,
        t=t,
        ground=ground,
        levels=levels,
        swap=job.household is None,
        strata=strata,
    )
    after = int(labels.max()) + 1
    return labels, [
        f"{before} groups became {after} to protect the sensitive columns."
    ] if after < before else []


def _grounds(job: Prepared) -> tuple[dict[str, str], dict[str, Any]]:
    """The distance between values of each sensitive column, as the schema declares it."""
    facts = {name: job.schema.columns[name] for name in job.sensitive}
    ground = {name: "hierarchical" for name, each in facts.items() if each.hierarchy}
    levels = {
        name: each.hierarchy or each.levels
        for name, each in facts.items()
        if each.hierarchy or (each.kind == "ordered" and each.levels)
    }
    return ground, levels


def aggregate(
    columns: list[TypedColumn], labels: np.ndarray, Z: np.ndarray, weights: np.ndarray, round_integers: bool
) -> dict[str, pl.Series]:
    """The columns as they will be published, in original units."""
    mass = weights.copy()
    # A group without any weight counts each record alike.
    mass[np.bincount(labels, weights)[labels] == 0] = 1.0
    medoids = medoids_of(Z, labels)
    new = {}
    for column in columns:
        values, gone = aggregate_column(column, labels, mass, medoids)
        new[column.name] = column.native(values[labels], gone[labels], round_integers=round_integers)
    return new


def _identifiers(job: Prepared, how: str, key: bytes | None) -> tuple[Frame, dict[str, pl.Series]]:
    """The frame without its identifiers, or with keyed hashes in their place."""
    if how == "drop":
        return job.given.without(job.identifiers), {}
    secret = key if key is not None else secrets.token_bytes(32)
    return job.given, {name: pseudonyms(job.table[name], secret) for name in job.identifiers}


def apply_steps(given: Frame, schema: Schema | str | Path | None) -> tuple[Frame, list[str]]:
    """The table with its ends coded and its levels recoded, where the schema asks for it."""
    if isinstance(schema, (str, Path)):
        schema = Schema.from_toml(schema)
    new: dict[str, pl.Series] = {}
    notes = []
    for name, column in (schema.columns if schema is not None else {}).items():
        if name not in given.columns:
            continue
        if column.bottom is not None or column.top is not None:
            values = read_column(given.narwhals[name].to_polars(), column)
            series = values.native(values.values, values.missing, round_integers=True)
            new[name] = code_ends(series, column.bottom, column.top)
            ends = (("bottom", column.bottom), ("top", column.top))
            notes += [f"Column {name!r} was {word} coded at {end}." for word, end in ends if end is not None]
        if column.recode:
            if column.hierarchy is None:
                raise SchemaError(f"'recode' of column {name!r} needs a hierarchy. The schema has none.")
            new[name] = recode(given.narwhals[name].to_polars(), column.hierarchy, column.recode)
            notes.append(f"Column {name!r} was recoded {column.recode} up its hierarchy.")
    return (Frame(given.replaced(new)) if new else given), notes


def measure(
    filled: list[TypedColumn], after: list[TypedColumn], encoder: Encoder, Z: np.ndarray, labels: np.ndarray
) -> dict[str, Any]:
    """Loss and risk of columns as they will be published, beside the original ones."""
    Y = encoder.transform(after)
    gone, total = (Z - Y) ** 2, float((Z**2).sum())
    ends = np.cumsum(encoder.widths())
    per_column = {
        column.name: 100.0
        * float(gone[:, end - width : end].sum())
        / max(float((Z[:, end - width : end] ** 2).sum()), 1e-300)
        for column, end, width in zip(filled, ends, encoder.widths(), strict=True)
    }
    numbers = [j for j, column in enumerate(filled) if column.facts.kind == "number"]
    figures: dict[str, Any] = {"measured_records": min(MEASURED_RECORDS, Z.shape[0])}
    if numbers:
        rows = (
            slice(None)
            if Z.shape[0] <= MEASURED_RECORDS
            else slice(None, None, Z.shape[0] // MEASURED_RECORDS)
        )
        X, X_after = (np.stack([each[j].values for j in numbers], axis=1) for each in (filled, after))
        figures |= evaluate(X[rows], X_after[rows])
    sizes = np.bincount(labels)
    return figures | {
        "n_records": int(Z.shape[0]),
        "n_groups": int(sizes.size),
        "smallest_group": int(sizes.min()),
        "largest_group": int(sizes.max()),
        "information_loss": 100.0 * float(gone.sum()) / total if total > 0 else 0.0,
        "dld": linked_share(Z, Y, max_records=MEASURED_RECORDS),
        "loss_per_column": per_column,
    }


def _certificate(Z: np.ndarray, k: int, labels: np.ndarray, effort: str | float) -> dict[str, Any]:
    """How much of the loss could be saved at most; strata and households only forbid partitions, so it holds."""
    found = bounds.information_loss_bound(Z, k, effort, labels=labels, scaled=True)
    loss = 100.0 * sum_of_squares(Z, labels) / max(float(((Z - Z.mean(axis=0)) ** 2).sum()), 1e-300)
    return {
        "bound": found.bound,
        "gap": found.gap_of(loss),
        "proven": found.proven,
        "method": found.method,
        "seconds": found.seconds,
        "note": found.note,
    }


def _settings(parts: list[Microaggregator], job: Prepared, **choices: Any) -> dict[str, Any]:
    """What is needed to repeat the run."""
    estimator = parts[0]
    params = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in ("k", "progress")
    }
    return {
        "method": estimator.name,
        "k": estimator.k,
        "parameters": params,
        "columns": [column.name for column in job.quasi],
        "strata": job.strata,
        "weights": job.weight_name,
        "households": job.household,
        "sensitive": job.sensitive,
        "untouched": job.untouched,
        "identifiers": dict.fromkeys(job.identifiers, choices.pop("identifiers")),
        **choices,
        # A search cut short by the clock is repeated by the number of proposals it made.
        "max_proposals": getattr(estimator, "n_proposals_", None) if len(parts) == 1 else None,
    }


def _unprotected(job: Prepared, identifiers: str) -> list[str]:
    left = [
        *job.sensitive,
        *job.untouched,
        *([job.weight_name] if job.weight_name else []),
        *([job.household] if job.household else []),
    ]
    notes = []
    if left:
        notes.append(f"Not protected, published as they are: {', '.join(left)}.")
    if job.identifiers:
        what = "dropped" if identifiers == "drop" else "replaced by keyed hashes"
        notes.append(f"Identifiers {what}: {', '.join(job.identifiers)}.")
    return notes


def _unchanged(strata: list[str], new: Mapping[str, Any]) -> list[str]:
    return [name for name in strata if name not in new]


def _listed(value: str | Sequence[str] | None) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _check_choices(**choices: Any) -> None:
    rules: dict[str, Rule] = {
        "l": AnyOf((Nothing(), Interval(Integral, 2))),
        "t": AnyOf((Nothing(), Interval(Real, 0, 1))),
        "missing": AnyOf((Nothing(), Options(("error", "impute", "category", "drop")))),
        "small_strata": Options(("merge", "refuse")),
        "integers": Options(("float", "round")),
        "identifiers": Options(("drop", "hash")),
    }
    check_params("protect", rules, choices)


callable_as(__name__, protect)
