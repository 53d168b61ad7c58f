"""Truthful protection: keys coarsened or suppressed instead of averaged, by the stages of the pipeline.

Roles, decoding, check, status and giving out are those of every run; only the stage that makes the new cells is
another one, so that every released cell is true.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl

from shoal import privacy, rules
from shoal.errors import InputError, InternalError, ParameterError
from shoal.generalization import Generalize, Hierarchy, Recoder, Suppress, read_hierarchies
from shoal.publish.executors import Replacement
from shoal.publish.recoding import refuse_for
from shoal.publish.request import ProtectionRequest, refuse_fields
from shoal.publish.stages import check
from shoal.publish.stages.distances import distances_of
from shoal.publish.stages.identification import identification
from shoal.publish.stages.measure import Figures, LossCertificate
from shoal.publish.stages.release import class_weights
from shoal.publish.stages.roles import Roles
from shoal.publish.treatments import Made, PublishRun
from shoal.schema import Column
from shoal.schema.steps import CONDITIONS

# Records up to which the loss of recoding is bounded without being asked.
CERTIFIED = 50_000
_CANNOT = {
    **dict.fromkeys(("max_proposals", "search_plan", "effort"), "it counts work by records"),
    "keep_best": "an interrupted run of it gives nothing out",
    "integers": "it averages nothing",
    **dict.fromkeys(("strata", "small_strata"), "it takes no strata"),
}


@dataclass(frozen=True)
class DecidedChange:
    """What is decided before cells are changed.

    Attributes
    ----------
    request : ProtectionRequest
    roles : Roles
    """

    request: ProtectionRequest
    roles: Roles


@dataclass(frozen=True)
class TruthfulTreatment:
    """Generalisation or suppression: cells coarsened or left out until every combination of keys has k."""

    @classmethod
    def of(cls, request: ProtectionRequest) -> Self:
        """By the request's method; refuses what it cannot have."""
        where = f"by the method {request.method_name!r}"
        refuse_fields(request, refuse_for(request.method_name) | _CANNOT, where)
        if request.on_missing == "impute":
            raise ParameterError(
                f"The method {request.method_name!r} makes up no cells: 'on_missing' must be category (missing is a value "
                "of its own), drop or error. Got 'impute'."
            )
        _refuse_together(request)
        return cls()

    def make(self, run: PublishRun) -> Made:
        """Change cells until the conditions hold; the changed columns take the place of those that came."""
        request, roles = run.request, run.roles
        if roles.strata:
            raise InputError(
                f"The method {request.method_name!r} takes no strata. Got {', '.join(roles.strata)}."
            )
        table = run.columns({*roles.needed, *(name for edit in run.edits for name in edit.columns)})
        decided = DecidedChange(request, roles)
        missing = missing_notes(table, roles.quasi_names, request)
        counted = "" if request.count == "record" else " households"
        run.tell(f"changing cells until every combination has {request.k}{counted}", 0, 0)
        recoder = recoder_for(decided, table).fit(_keys(table, decided))
        run.tell("checking", 0, 0)
        new = _changed(table, roles, recoder)
        changed = table.with_columns(new.values())
        # Nothing is repaired: a repaired cell would no longer be true.
        kept = rules.repair(changed, table, run.edits, ())
        rules.refuse_unkept(kept)
        homes = None if roles.household is None else table[roles.household]
        draft = run.rows.replaced(decided, Replacement(table, new, recoder.labels_, homes), run.key)
        return Made(
            decided,
            draft.classes,
            _verdicts(changed, draft.classes, decided),
            lambda: replace(_figures(table, changed, decided, recoder), rules=tuple(kept.kept) or None),
            _sizes(recoder),
            draft.original,
            draft.published,
            roles.quasi_names,
            (*missing, *_notes(decided, recoder)),
            red=_exposed(recoder),
            parameters=_parameters(recoder),
        )


def _refuse_together(request: ProtectionRequest) -> None:
    """Raise a sentence where two options exclude each other."""
    if request.method_name == "suppress":
        apart = "household" if request.count == "household" else None
        Suppress(
            k=request.k, reading=request.reading or "strict", subsets=request.subsets, apart=apart
        ).check()
        return
    Generalize(
        k=request.k, recoding=request.recoding or "local", suppress_at_most=request.suppress_at_most or 0.0,
        objective=request.objective or "loss", classes=request.classes or "ancestors",
    ).check()  # fmt: skip


def recoder_for(decided: DecidedChange, table: pl.DataFrame) -> Recoder:
    """The configured method."""
    request, roles = decided.request, decided.roles
    importance = {fact.name: fact.importance for fact in roles.quasi if fact.importance != 1.0}
    seed = 0 if request.random_state is None else request.random_state
    if request.method_name == "suppress":
        return Suppress(
            k=request.k, reading=request.reading or "strict", importance=importance, columns=roles.quasi_names,
            subsets=request.subsets, apart=_apart(decided), time_limit=request.time_limit, random_state=seed,
            certify="full" if request.certify else True,
        )  # fmt: skip
    given = given_hierarchies(request, table.columns)
    found = {fact.name: hierarchy_for(fact, given, table[fact.name]) for fact in roles.quasi}
    return Generalize(
        k=request.k, hierarchies={name: tree for name, tree in found.items() if tree is not None},
        breaks={fact.name: fact.breaks for fact in roles.quasi if fact.breaks and fact.name not in given},
        recoding=request.recoding or "local", suppress_at_most=request.suppress_at_most or 0.0,
        objective=request.objective or "loss", classes=request.classes or "ancestors", importance=importance,
        sensitive=roles.modelled, l=request.l, entropy_l=request.entropy_l, t=request.t, alpha=request.alpha,
        beta=request.beta, enhanced_beta=request.enhanced_beta, delta=request.delta_disclosure, apart=_apart(decided),
        columns=[*roles.quasi_names, *roles.modelled], time_limit=request.time_limit, random_state=seed,
        certify="full" if request.certify else table.height <= CERTIFIED,
    ).check()  # fmt: skip


def given_hierarchies(request: ProtectionRequest, names: Collection[str]) -> dict[str, Hierarchy]:
    """The hierarchies of the request's folder by column; raises a sentence where none is of a column of the table."""
    if request.hierarchies is None:
        return {}
    given = read_hierarchies(request.hierarchies)
    if not set(given) & set(names):
        raise InputError(
            "A hierarchy must be named like its column (age.csv, or data_hierarchy_age.csv). The folder "
            f"{str(request.hierarchies)!r} has {', '.join(sorted(given)[:8])}, the table no such column."
        )
    return given


def hierarchy_for(fact: Column, given: dict[str, Hierarchy], cells: pl.Series) -> Hierarchy | None:
    """A column's hierarchy: of the folder, of the schema, or by its kind; None where its values make one."""
    if fact.name in given:
        return given[fact.name]
    if fact.hierarchy:
        return Hierarchy.nested(fact.name, fact.hierarchy)
    if fact.breaks or fact.kind in ("number", "date"):
        return None
    return Hierarchy.flat(fact.name, cells.drop_nulls().unique().sort().cast(pl.String).to_list() or [""])


def _apart(decided: DecidedChange) -> str | None:
    """The column that k counts instead of records."""
    return decided.roles.household if decided.request.count == "household" else None


def _parameters(recoder: Recoder) -> dict[str, object]:
    """The plain ones of a method's parameters."""
    return {
        name: value
        for name, value in recoder.get_params(deep=False).items()
        if value is None or isinstance(value, (bool, int, float, str))
    }


def _keys(table: pl.DataFrame, decided: DecidedChange) -> pl.DataFrame:
    """The columns a method works on, texts of dates as dates."""
    roles, counted = decided.roles, _apart(decided)
    dates = [
        fact.name for fact in roles.quasi if fact.kind == "date" and table.schema[fact.name] == pl.String
    ]
    chosen = table.select([*roles.quasi_names, *roles.modelled, *([] if counted is None else [counted])])
    return chosen.with_columns(pl.col(name).str.to_date(strict=False) for name in dates)


def _changed(table: pl.DataFrame, roles: Roles, recoder: Recoder) -> dict[str, pl.Series]:
    """The columns that are published otherwise than they came."""
    new = {name: recoder.released_[name] for name in roles.quasi_names}
    if roles.weight is not None:
        new[roles.weight] = class_weights(table, roles.weight, recoder.labels_ - int(recoder.labels_.min()))
    return new


def _verdicts(
    changed: pl.DataFrame, classes: pl.DataFrame, decided: DecidedChange
) -> tuple[privacy.Verdict, ...]:
    """The models on what would be published; k is demanded where a missing cell is a value of its own."""
    request, roles = decided.request, decided.roles
    strict = request.method_name == "generalize" or request.reading in (None, "strict")
    distances, levels = distances_of(roles)
    if set(roles.sensitive) <= set(changed.columns):
        found = privacy.check(
            changed, roles.known, list(roles.sensitive), k=request.k if strict else None,
            **{name: getattr(request, name) for name in CONDITIONS}, distance=distances, levels=levels,
        )  # fmt: skip
    else:
        bare = classes.drop(check.HOME) if check.HOME in classes.columns else classes
        found = check.verdicts_of_classes(bare, decided, demanded=strict)
    homes = check.of_households(classes, decided)
    if request.count != "household":
        # Classes hold k records; how many households share them is told, not demanded.
        homes = tuple(replace(each, limit=None, holds=None) for each in homes)
    return (*found, *homes)


def _exposed(recoder: Recoder) -> tuple[str, ...]:
    """Why it is red: a reading leaves persons who agree with fewer than k released records, or they were not counted."""
    if not isinstance(recoder, Suppress) or recoder.reading == "strict" or recoder.exposed_ == 0:
        return ()
    who = "an unknown number of" if recoder.exposed_ is None else f"{recoder.exposed_:,}"
    return (f"read as {recoder.reading!r}, {who} persons agree with fewer than {recoder.k} released records",)


def _sizes(recoder: Recoder) -> np.ndarray:
    """Records of each class, the suppressed ones as one."""
    return np.unique(recoder.labels_, return_counts=True)[1].astype(np.int64)


def _figures(
    before: pl.DataFrame,
    after: pl.DataFrame,
    decided: DecidedChange,
    recoder: Recoder,
) -> Figures:
    """What was lost, in cells; per cent of a cell's mean loss."""
    names, sizes = decided.roles.quasi_names, _sizes(recoder)
    old, new = before.select(names), after.select(names)
    same = [old[name].cast(pl.String).eq_missing(new[name].cast(pl.String)) for name in names]
    blank = [old[name].is_not_null() & new[name].is_null() for name in names]
    gone = recoder.labels_ < 0
    if isinstance(recoder, Generalize):
        losses = recoder.losses_
    elif isinstance(recoder, Suppress):
        losses = {name: count / before.height for name, count in recoder.suppressed_.items()}
    else:
        raise InternalError(f"{type(recoder).__name__} tells no losses.")
    proof = None
    if recoder.bound_ is not None and recoder.gap_ is not None:
        method = "recoding programme"
        proof = LossCertificate(
            100.0 * recoder.bound_,
            100.0 * recoder.gap_,
            recoder.gap_ < 1e-9,
            method,
            recoder.bound_seconds_,
            "",
        )
    return Figures(
        n_records=before.height,
        n_groups=int(sizes.size),
        smallest_group=int(sizes.min()),
        largest_group=int(sizes.max()),
        information_loss=100.0 * recoder.loss_,
        loss_per_column={name: 100.0 * share for name, share in losses.items()},
        suppressed_cells=int(sum(int((each.to_numpy() & ~gone).sum()) for each in blank)),
        suppressed_records=int(gone.sum()),
        unchanged=float(np.logical_and.reduce([each.to_numpy() for each in same]).mean()),
        measured_records=before.height,
        identification=identification(before, after, decided),
        certificate=proof,
    )


def missing_notes(table: pl.DataFrame, names: Collection[str], request: ProtectionRequest) -> list[str]:
    """A sentence on missing cells of columns that are coarsened; raises where none may be missing."""
    counts = {name: table[name].null_count() for name in names}
    listed = ", ".join(f"{name!r} ({count:,})" for name, count in counts.items() if count)
    if listed and request.on_missing == "error":
        raise InputError(f"No cell may be missing ('on_missing' is error). Got missing cells in {listed}.")
    return [f"Missing cells stay missing and count as a value of their own: {listed}."] if listed else []


def _notes(decided: DecidedChange, recoder: Recoder) -> list[str]:
    """What to know about the result as a whole."""
    roles, said = (
        decided.roles,
        ["Every released key is true: values were only coarsened or left out."],
    )
    if isinstance(recoder, Suppress):
        cells = ", ".join(f"{name} {count:,}" for name, count in recoder.suppressed_.items() if count)
        said.append(f"Cells made missing: {cells or 'none'}; a missing cell is read as {recoder.reading!r}.")
        if recoder.reading != "strict" and recoder.exposed_ is not None:
            said.append(
                f"Under this reading {recoder.exposed_:,} persons agree with fewer than {recoder.k} released records and "
                "can be found by someone who knows their keys. With the reading 'strict' there is nobody like that."
            )
    if isinstance(recoder, Generalize) and recoder.classes == "sets":
        said.append("Cells are the values present in their class, or sets of them.")
    if isinstance(recoder, Generalize) and recoder.objective != "loss":
        said.append(f"The loss is counted as {recoder.objective!r}.")
    if isinstance(recoder, Generalize) and recoder.node_ is not None:
        levels = zip(roles.quasi_names, recoder.node_, strict=True)
        said.append(f"Levels: {', '.join(f'{name} {level}' for name, level in levels)}.")
    if roles.household is not None and decided.request.count == "record":
        said.append(
            "Classes hold k persons, not k households: members of one household may share a class. --count household "
            "counts households."
        )
    return said
