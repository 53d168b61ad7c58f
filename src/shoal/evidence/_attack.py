"""Attack a published table: read what belongs together, hold records out for comparison, try everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.attacks import Attacks, Tables, read_tables, run_attacks
from shoal.engine.frame import Frame
from shoal.engine.roles import listed
from shoal.errors import InputError, ShoalError
from shoal.evidence._run import Run, read_run
from shoal.params import AnyOf, Interval, Options, Unset, check_params
from shoal.publish import ProtectionRequest
from shoal.publish import protect as protect_frame
from shoal.scenarios import RELEASE_TYPES, release_type
from shoal.schema import Schema

# Records of each half where some are held out; more would only make the intervals narrower.
HALF = 5_000
Tell = Callable[[str, float, float], None]


def attack(
    protected: Any,
    original: Any,
    *,
    control: Any = None,
    run: Run | str | Path | None = None,
    request: ProtectionRequest | None = None,
    schema: Schema | str | Path | None = None,
    sensitive: str | Sequence[str] | None = None,
    rows: str = "same",
    release: str | None = None,
    targets: int = 2_000,
    epsilon: float | None = None,
    random_state: int = 0,
    progress: Tell | None = None,
) -> Attacks:
    """Attack a published table with the attacks of the literature, and report what they find.

    For the custodian: it reads the original.

    Parameters
    ----------
    protected, original : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        What is published, and the table it was made from.
    control : frame, optional
        People from the same population who are not in the published table.
    run : Run or path, optional
        The run that made the table, as `--save-run` writes it: its schema, k, release type and epsilon are used, and
        where no control group is given one is made: half of the records (at most 5,000) are held out, as many are
        protected in the same way, and both are attacked.
    request : ProtectionRequest, optional
        The same from a request.
    schema : Schema or path, optional
        Kinds and roles of the columns.
    sensitive : str or list of str, optional
        Columns to be inferred; the schema's if left open.
    rows : {"same", "unrelated"}, default "same"
        Whether published rows are the original's, in its order; rows of synthetic tables are nobody's. A run that
        shuffled its rows or drew them says so by itself.
    release : {"public", "scientific", "enclave"}, optional
        The release type: its thresholds decide the status.
    targets : int, default 2000
        People that the intruder looks for.
    epsilon : float, optional
        Of a release under differential privacy: the most that membership may reveal is told beside what it does.
    random_state : int, default 0
    progress : callable, optional

    Returns
    -------
    Attacks

    Notes
    -----
    An attack can only show that a table fails: that none succeeded here proves nothing about others. Each person is
    compared with the different published rows, so the time is of the order of their number times `targets`; nothing of
    the size of their product is held.

    References
    ----------
    .. [1] Article 29 Data Protection Working Party (2014). Opinion 05/2014 on anonymisation techniques. WP216.
    .. [2] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnadi (2023). A unified framework for quantifying privacy risk in
       synthetic data. Proceedings on Privacy Enhancing Technologies 2023(2), 312-328. doi:10.56553/popets-2023-0055
    .. [3] J. Domingo-Ferrer, V. Torra (2001). A quantitative comparison of disclosure control methods for microdata.
       In: Confidentiality, Disclosure and Data Access, Elsevier, 111-133.

    Examples
    --------
    >>> import polars as pl, shoal
    >>> table = pl.DataFrame({"age": list(range(20, 60)), "town": list("ABCD") * 10})
    >>> shoal.attack(table, table)["linkage-nearest"].rate.value
    1.0
    >>> safe = shoal.protect(table, k=5, method="mdav").frame
    >>> shoal.attack(safe, table)["linkage-nearest"].rate.value <= 1 / 5
    True
    """
    check_params(
        "attack",
        {
            "rows": Options(("same", "unrelated")),
            "release": AnyOf((Unset(), Options(tuple(RELEASE_TYPES)))),
            "targets": Interval(Integral, 10),
            "epsilon": AnyOf((Unset(), Interval(Real, 0))),
            "random_state": Interval(Integral, 0),
        },
        {
            "rows": rows,
            "release": release,
            "targets": targets,
            "epsilon": epsilon,
            "random_state": random_state,
        },
    )
    tell = progress or (lambda _stage, _done, _of: None)
    kept = None if run is None else read_run(run)
    facts = Schema.of(schema) if schema is not None else None if kept is None else kept.schema
    if facts is None and request is not None:
        facts = request.schema
    if kept is not None:
        request = request or (kept.protection_request() if kept.job == "protect" else None)
        epsilon = epsilon if epsilon is not None else kept.epsilon
        rows = "unrelated" if kept.job == "release" else rows
    if request is not None:
        release = release or getattr(request, "release_type", None)
        rows = "unrelated" if request.order == "shuffle" else rows
        sensitive = sensitive or request.sensitive
    names = listed(sensitive)
    before = Frame(original).to_polars()
    present = None if facts is None else _present(facts, before.columns)
    tables = read_tables(protected, before, control, schema=present, sensitive=names, rows=rows)
    split: Tables | None = None
    notes: tuple[str, ...] = ()
    if control is None and (request is not None or (kept is not None and kept.job == "release")):
        tell("holding records out", 0, 0)
        split, notes = _held_out(before, request, kept, present, names, random_state)
    limits = release_type(release, 5 if request is None else request.k)
    return run_attacks(
        tables, limits, split=split, targets=targets, epsilon=epsilon, random_state=random_state,
        progress=progress, notes=notes,
    )  # fmt: skip


def _present(schema: Schema, columns: Sequence[str]) -> Schema:
    """The schema restricted to the columns of a table."""
    return replace(schema, columns={name: fact for name, fact in schema.columns.items() if name in columns})


def _held_out(
    before: pl.DataFrame,
    request: ProtectionRequest | None,
    run: Run | None,
    schema: Schema | None,
    sensitive: Sequence[str],
    random_state: int,
) -> tuple[Tables | None, tuple[str, ...]]:
    """One half of the records protected in the same way, the other half as the control group."""
    order = np.random.default_rng([random_state, 99]).permutation(before.height)
    half = min(HALF, before.height // 2)
    inside, outside = (before[np.sort(part).tolist()] for part in (order[:half], order[half : 2 * half]))
    try:
        made = _protected(inside, request) if request is not None else _released(inside, run)
        same = request is not None and Frame(made).to_polars().height == inside.height
        split = read_tables(
            made, inside, outside, schema=schema, sensitive=sensitive, rows="same" if same else "unrelated"
        )
    except ShoalError as error:
        return None, (f"No control group could be made by holding records out: {str(error).rstrip('.')}.",)
    note = (
        f"The control group was made by holding records out: {half:,} records protected in the same way, and {half:,} "
        "others who are not in that table."
    )
    return split, (note,)


def _protected(inside: pl.DataFrame, request: ProtectionRequest) -> Any:
    """One half protected as the whole was; whatever its status, nothing of it is published."""
    asked = request.given()
    for name in (
        "labels",
        "report",
        "public_report",
        "save_run",
        "engine",
        "memory",
        "resume",
        "n_jobs",
        "k",
    ):
        asked.pop(name, None)
    asked |= {"accept_risk": True, "certify": False, "order": "keep"}
    if request.schema is not None:
        asked["schema"] = replace(
            request.schema, path=None
        )  # no copy is given out: it ends no ledger's total
    return protect_frame(inside, request.k, **asked).frame


def _released(inside: pl.DataFrame, run: Run | None) -> Any:
    """One half released as the whole was, in a ledger of its own that is thrown away."""
    if run is None or run.facts.get("method") != "marginals":
        raise InputError("only releases by the method 'marginals' can be repeated on a part")
    from shoal.release import release_marginals

    epsilon = run.epsilon or 1.0
    asked = {
        name: run.request[name] for name in ("delta", "columns", "bins") if run.request.get(name) is not None
    }
    return release_marginals(inside, run.schema, epsilon, budget=epsilon, **asked).frame
