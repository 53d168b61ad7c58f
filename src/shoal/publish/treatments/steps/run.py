"""A run of many steps: different treatment for different columns, in a stated order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl

from shoal import privacy, rules
from shoal.engine.roles import row_codes
from shoal.errors import GuaranteeError, InputError, ParameterError
from shoal.publish.executors import Replacement
from shoal.publish.request import ProtectionRequest, refuse_fields
from shoal.publish.stages import check
from shoal.publish.stages.decode import decoded_facts
from shoal.publish.stages.distances import distances_of
from shoal.publish.stages.release import class_weights, hidden
from shoal.publish.stages.roles import Roles
from shoal.publish.treatments import Made, PublishRun
from shoal.publish.treatments.steps.figures import DecidedSteps, figures_of, linkage_columns
from shoal.publish.treatments.steps.task import StepTask, Treated
from shoal.publish.treatments.steps.treat import check_methods, takes_time, treat
from shoal.publish.treatments.truthful import missing_notes
from shoal.schema import Column, Step
from shoal.schema.steps import CONDITIONS

_CANNOT = {
    **{
        name: f"its columns are treated apart; give {name!r} to a step of the method generalize"
        for name in CONDITIONS
    },
    **dict.fromkeys(
        ("recoding", "suppress_at_most", "objective", "classes", "reading", "subsets"),
        "each step has its own",
    ),
    **dict.fromkeys(("max_proposals", "search_plan", "effort"), "its steps count their own work"),
    **dict.fromkeys(("strata", "small_strata"), "each step says within which columns it stays"),
    "keep_best": "an interrupted run of steps gives nothing out",
}


@dataclass(frozen=True)
class Ran:
    """A step that was run."""

    step: Step
    k: int
    within: tuple[str, ...]
    treated: Treated
    seconds: float


@dataclass(frozen=True)
class StepTreatment:
    """Several steps in their order, each on what those before have left."""

    steps: tuple[Step, ...]

    @classmethod
    def of(cls, request: ProtectionRequest) -> Self:
        """Those of the request, else of its schema; refuses what they cannot have."""
        steps = tuple(request.steps or (() if request.schema is None else request.schema.steps))
        refuse_fields(request, _CANNOT, "through several steps")
        check_methods(steps)
        _refuse_unheard(request, steps)
        return cls(steps)

    def make(self, run: PublishRun) -> Made:
        """Run the steps and keep the rules; the treated columns take the place of those that came."""
        roles, edits = run.roles, run.edits
        refuse_untreated(roles, self.steps)
        table = run.columns(_named(roles, self.steps, edits))
        coarsened = dict.fromkeys(name for step in self.steps if step.is_truthful for name in step.columns)
        missing = missing_notes(table, coarsened, run.request)
        ran = _run(table, run, self.steps)
        new = {name: cells for each in ran for name, cells in each.treated.columns.items()}
        run.tell("keeping the rules", 0, 0)
        decided = DecidedSteps(run.request, roles, tuple(new), _keys(ran), _known(ran))
        treated = decided.treated
        kept = rules.repair(table.with_columns(new.values()), table, edits, treated, _averaged(ran, roles))
        rules.refuse_unkept(kept)
        new = {name: kept.table[name] for name in new}
        labels = row_codes(kept.table, list(decided.known) or list(treated))
        assert labels is not None
        if roles.weight is not None:
            new[roles.weight] = class_weights(table, roles.weight, labels)
        run.tell("checking", 0, 0)
        protected = table.with_columns(new.values())
        verdicts = _verdicts(protected, ran, roles)
        refuse_rules_apart(verdicts, ran, edits, kept.kept)
        check.refuse_broken(verdicts)
        compared = linkage_columns(table, protected, decided, ran)
        draft = run.rows.replaced(decided, Replacement(table, new, labels), run.key)
        return Made(
            decided,
            draft.classes,
            verdicts,
            lambda: figures_of(table, protected, decided, ran, kept.kept, labels, compared),
            np.bincount(labels).astype(np.int64),
            draft.original,
            draft.published,
            treated,
            (*missing, *_notes(ran), *([compared.sentence] if compared.numbers else [])),
            red=_exposed(ran),
        )


def _named(roles: Roles, steps: tuple[Step, ...], edits: tuple[rules.Edit, ...]) -> set[str]:
    """All columns that a run of steps looks at."""
    found = {*roles.needed, *roles.identifiers}
    for step in steps:
        found |= {*step.columns, *(step.within or ()), *step.given, *step.similar}
    return found | {name for edit in edits for name in edit.columns}


def _refuse_unheard(request: ProtectionRequest, steps: tuple[Step, ...]) -> None:
    """Raise a sentence where something is asked for that none of the steps would do, or that one of them undoes."""
    kept = [name for name in request.leave if any(name in step.columns for step in steps)]
    if kept:
        raise InputError(f"The column {kept[0]!r} cannot stay as it is ('leave') and be treated by a step.")
    apart = [name for step in steps for name in step.columns if name not in request.columns]
    if request.columns and apart:
        raise InputError(
            f"A step treats {apart[0]!r}, which 'columns' does not name: it names the only columns to protect."
        )
    if request.certify is not False and not any(step.is_truthful for step in steps):
        raise ParameterError(
            "Of several steps only generalize and suppress are bounded ('certify'). Got neither."
        )
    grouping = any(step.is_grouping for step in steps)
    unheard = {
        "'integers'": ("a method of groups", request.integers != "float" and not grouping),
        "'on_missing' impute": ("a method of groups", request.on_missing == "impute" and not grouping),
        "'hierarchies'": (
            "generalize",
            request.hierarchies is not None and not any(step.method == "generalize" for step in steps),
        ),
        "'time_limit'": (
            "generalize, suppress or a search",
            request.time_limit is not None and not any(map(takes_time, steps)),
        ),
    }
    for asked, (which, is_unheard) in unheard.items():
        if is_unheard:
            raise ParameterError(f"Of several steps {asked} is for {which}. There is no such step.")


def refuse_untreated(roles: Roles, steps: tuple[Step, ...]) -> None:
    """Raise a sentence unless every quasi-identifier is treated and every step names columns that it may treat."""
    treated = {name for step in steps for name in step.columns}
    named = {
        name for step in steps for name in (*step.columns, *(step.within or ()), *step.given, *step.similar)
    }
    odd = sorted(named - set(roles.names))
    if odd:
        raise InputError(f"No column {odd[0]!r} in the table, which a step names.")
    closed = [name for name in treated if name in (*hidden(roles), roles.weight)]
    if closed:
        raise InputError(f"A step cannot treat {closed[0]!r}: it is an identifier, a household or a weight.")
    left = [name for name in roles.quasi_names if name not in treated]
    if left:
        raise InputError(
            f"Every quasi-identifier needs a step. {left[0]!r} has none: name it in a step, or give it the role leave "
            "or sensitive."
        )
    if roles.strata:
        raise InputError(
            f"A run of steps takes no strata: name them in 'within' of a step. Got {', '.join(roles.strata)}."
        )


def refuse_rules_apart(
    verdicts: tuple[privacy.Verdict, ...], ran: list[Ran], edits: tuple[rules.Edit, ...],
    kept: tuple[rules.KeptRule, ...],
) -> None:  # fmt: skip
    """Raise a sentence where a repair cost k because a rule's columns were grouped apart: one step would keep both."""
    if all(verdict.holds is not False for verdict in verdicts):
        return
    for edit, each in zip(edits, kept, strict=True):
        apart = [
            ", ".join(name for name in one.step.columns if name in edit.columns)
            for one in ran
            if one.step.is_grouping and set(one.step.columns) & set(edit.columns)
        ]
        if each.repaired and len(apart) > 1:
            raise GuaranteeError(
                f"The rule {edit.text!r} is about columns that are grouped in different steps ({'; '.join(apart)}), and "
                "its repair takes records out of their groups. Treat these columns in one step."
            )


def _run(table: pl.DataFrame, run: PublishRun, steps: tuple[Step, ...]) -> list[Ran]:
    """All steps, each on what those before have left."""
    roles, request = run.roles, run.request
    facts = {name: decoded_facts(column) for name, column in roles.schema.columns.items()}
    if request.on_missing is not None:
        facts = {name: replace(fact, on_missing=request.on_missing) for name, fact in facts.items()}
    whole = frozenset(edit.columns[0] for edit in run.edits if edit.kind == "integer")
    ran: list[Ran] = []
    if request.count == "household":
        steps = tuple(
            replace(step, count="household") if step.keeps_k and step.level == "record" else step
            for step in steps
        )
    for at, step in enumerate(steps):
        run.tell(f"step {at + 1} of {len(steps)}: {step.method} of {', '.join(step.columns)}", at, len(steps))
        started = time.perf_counter()
        within = _within(step, ran)
        k = step.k or request.k
        seed = int(np.random.SeedSequence([request.random_state or 0, at]).generate_state(1)[0])
        task = StepTask(
            request,
            step,
            k,
            within,
            table,
            _now(facts, table, ran),
            roles.household,
            roles.weight,
            roles.zeros,
            whole,
            seed,
            roles.sensitive,
        )
        if step.count == "household" and roles.household is None:
            raise InputError(f"The step {step.method!r} counts households, and no column has that role.")
        done = _by_household(task) if step.level == "household" else treat(task)
        table = table.with_columns(done.columns.values())
        ran.append(Ran(step, k, within, done, time.perf_counter() - started))
    return ran


def _now(facts: Mapping[str, Column], table: pl.DataFrame, ran: list[Ran]) -> dict[str, Column]:
    """The facts of columns as the steps before left them: a coarsened number is a category."""
    coarse = {name for each in ran if each.step.is_truthful for name in each.step.columns}
    return {
        name: replace(fact, kind="category", bounds=None, breaks=None, step=None, levels=None, aggregate=None)
        if fact.kind == "number" and name in coarse and table.schema[name] == pl.String
        else fact
        for name, fact in facts.items()
    }  # fmt: skip


def _within(step: Step, ran: list[Ran]) -> tuple[str, ...]:
    """The columns a step stays within: as it says, else those that strict steps before it have coarsened."""
    if not (step.is_truthful or step.is_grouping):
        return ()
    if step.within is not None:
        return tuple(name for name in step.within if name not in step.columns)
    earlier = [
        name for each in ran if each.step.is_truthful and each.step.keeps_k for name in each.step.columns
    ]
    return tuple(dict.fromkeys(name for name in earlier if name not in step.columns))


def _by_household(task: StepTask) -> Treated:
    """A step on one row for each household, given to all its members."""
    if task.household is None:
        raise InputError(
            f"The step {task.step.method!r} is at the level of households, and no column has that role."
        )
    homes = row_codes(task.table, task.household)
    assert homes is not None
    if task.table[task.household].null_count():
        raise InputError(f"Each row must have a household. Cells of {task.household!r} are missing.")
    _, first = np.unique(homes, return_index=True)
    own = (*task.step.columns, *task.within, *task.step.given, *task.step.similar)
    for name in dict.fromkeys(own):
        codes = row_codes(task.table, name)
        assert codes is not None
        if not np.array_equal(codes, codes[first][homes]):
            raise InputError(
                f"A step at the level of households needs columns with one value in each household. {name!r} differs "
                "within one."
            )
    done = treat(replace(task, table=task.table[first]))
    return replace(done, columns={name: cells.gather(homes) for name, cells in done.columns.items()})


def _keys(ran: list[Ran]) -> tuple[str, ...]:
    """The categorical keys: what was suppressed or generalised; all treated columns where nothing was."""
    keys = [name for each in ran if each.step.is_truthful for name in each.step.columns]
    return tuple(dict.fromkeys(keys or [name for each in ran for name in each.step.columns]))


def _known(ran: list[Ran]) -> tuple[str, ...]:
    """The columns of all steps that keep a k."""
    return tuple(dict.fromkeys(name for each in ran if each.step.keeps_k for name in each.step.columns))


def _averaged(ran: list[Ran], roles: Roles) -> list[tuple[str, ...]]:
    """Sets of columns that are published as means of the same groups, and by no step after."""
    found = []
    for at, each in enumerate(ran):
        later = {name for other in ran[at + 1 :] for name in other.step.columns}
        if each.step.is_grouping:
            found.append(
                tuple(
                    name
                    for name in each.step.columns
                    if name not in later
                    and roles.schema.columns[name].kind == "number"
                    and roles.schema.columns[name].aggregate in (None, "mean")
                )
            )
    return found


def _verdicts(protected: pl.DataFrame, ran: list[Ran], roles: Roles) -> tuple[privacy.Verdict, ...]:
    """K of each step that keeps one, on its columns as they are published beside those it stays within."""
    found: list[privacy.Verdict] = []
    for at, each in enumerate(ran):
        later = {name for other in ran[at + 1 :] for name in other.step.columns if not other.step.is_truthful}
        names = [name for name in (*each.within, *each.step.columns) if name not in later]
        if not each.step.keeps_k or not set(each.step.columns) <= set(names):
            continue
        inside = [name for name in names if name in each.step.columns] if each.treated.crossed else names
        if each.step.level == "household":
            homes = protected.select(roles.household, *inside).unique(roles.household)
            verdict = privacy.check(homes, inside, k=each.k)[0]
            found.append(replace(verdict, model="k-anonymity of households"))
            continue
        found += _of_step(protected, inside, each, roles)
        if each.step.count == "household":
            found.append(households_verdict(protected, inside, roles.household, each.k))
    return tuple(found)


def _of_step(protected: pl.DataFrame, names: list[str], each: Ran, roles: Roles) -> list[privacy.Verdict]:
    """K of one step, and its conditions on the sensitive columns as they are published."""
    asked = each.step.conditions
    if not asked:
        return [privacy.check(protected, names, k=each.k)[0]]
    distances, levels = distances_of(roles)
    found = privacy.check(
        protected, names, list(roles.sensitive), k=each.k, **asked, distance=distances, levels=levels
    )
    return [verdict for verdict in found if verdict.limit is not None]


def households_verdict(
    protected: pl.DataFrame, names: list[str], household: str | None, k: int
) -> privacy.Verdict:
    """How many households share each combination of some columns."""
    assert household is not None
    pairs = protected.select(*names, household).unique()
    verdict = privacy.check(pairs, names, k=k)[0]
    return replace(verdict, model="k-anonymity of households")


def _exposed(ran: list[Ran]) -> tuple[str, ...]:
    """Why it is red: a reading leaves persons who agree with fewer than k released records, or they were not counted."""
    found = []
    for each in ran:
        if each.treated.exposed != 0:
            who = "an unknown number of" if each.treated.exposed is None else f"{each.treated.exposed:,}"
            found.append(
                f"read as {each.step.reading!r}, {who} persons agree with fewer than {each.k} released records"
            )
    return tuple(found)


def _notes(ran: list[Ran]) -> list[str]:
    """What each step did."""
    said = []
    for at, each in enumerate(ran):
        where = f", within {', '.join(each.within)}" if each.within else ""
        level = ", by household" if each.step.level == "household" else ""
        counted = " households" if each.step.count == "household" else ""
        k = f", k = {each.k}{counted}" if each.step.is_truthful or each.step.is_grouping else ""
        said.append(f"Step {at + 1}: {each.step.method} of {', '.join(each.step.columns)}{k}{level}{where}.")
        said += each.treated.notes
    return said
