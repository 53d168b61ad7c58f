"""Tables larger than memory: the same protection, part by part, on one machine or on Spark."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from shoal.engine.roles import listed
from shoal.errors import InputError, ParameterError
from shoal.io import FORMATS
from shoal.microaggregation import Microaggregator, resolve_method
from shoal.params import AnyOf, Interval, Nothing, Options, Rule, check_params
from shoal.scale.plan import Plan, make_plan
from shoal.scale.roles import Roles, settle_roles
from shoal.scale.routing import Router, route
from shoal.scale.solving import Solved, solve_part
from shoal.schema import Schema

__all__ = [
    "Plan",
    "Roles",
    "Router",
    "Solved",
    "bytes_of",
    "make_plan",
    "protect_file",
    "route",
    "settle_roles",
    "solve_part",
]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def protect_file(
    path: str | Path,
    output: str | Path,
    k: int = 5,
    columns: str | Sequence[str] | None = None,
    method: str | Microaggregator = "mdav",
    strata: str | Sequence[str] | None = None,
    weights: str | None = None,
    schema: Schema | str | Path | None = None,
    *,
    missing: str | None = None,
    small_strata: str = "merge",
    integers: str = "float",
    identifiers: str = "drop",
    key: bytes | None = None,
    time_limit: float | None = None,
    max_proposals: int | None = None,
    random_state: int | None = 0,
    memory: int | str = "2GB",
    resume: bool = False,
    any_order: bool = False,
    engine: str = "local",
    workers: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Protect a file of any size, part by part, without holding it in memory.

    Parameters
    ----------
    path, output : str or Path
        Parquet, Arrow or CSV; the input may be a folder of files of one kind. On Spark: Parquet.
    k, columns, method, strata, weights, schema, missing, small_strata, integers, identifiers, key
        As in `shoal.protect`; `method` here defaults to MDAV. Roles not given are guessed from the first rows.
    time_limit : float, optional
        Of a searching method, for the whole run.
    max_proposals : int, optional
        Of a searching method, for each part.
    memory : int or str, default "2GB"
        What all processes together should stay within, about.
    resume : bool, default False
        Go on from the parts that an interrupted run of the same settings has solved.
    any_order : bool, default False
        Write rows as parts come instead of in the order of the input.
    engine : {"local", "spark"}, default "local"
    workers : int, optional
        Processes; one for each core if left open.
    progress : callable, optional
        Called with a sentence at each stage.

    Returns
    -------
    dict
        Method, k, figures of loss and risk (for the custodian), verdicts, notes, settings, `peak_memory`.

    Notes
    -----
    k-anonymity of the aggregated columns and strata is checked on every batch as it is written; a file that
    does not keep it is never given its name. Groups do not cross parts; within a part the blocks' borders
    are mended by exchanging records. Imputed cells are filled from records of the same part. `dld` looks for
    the nearest record within the part.

    Examples
    --------
    >>> import polars as pl, tempfile, pathlib
    >>> from shoal.scale import protect_file
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> pl.DataFrame({"age": [20, 21, 22, 60, 61, 62]}).write_parquet(folder / "in.parquet")
    >>> facts = protect_file(folder / "in.parquet", folder / "out.parquet", k=3, workers=1)
    >>> facts["n_groups"], pl.read_parquet(folder / "out.parquet")["age"].to_list()
    (2, [21.0, 21.0, 21.0, 61.0, 61.0, 61.0])
    """
    rules: dict[str, Rule] = {
        "missing": AnyOf((Nothing(), Options(("error", "impute", "category", "drop")))),
        "small_strata": Options(("merge", "refuse")),
        "integers": Options(("float", "round")),
        "identifiers": Options(("drop", "hash")),
        "engine": Options(("local", "spark")),
        "workers": AnyOf((Nothing(), Interval(Integral, 1))),
    }
    given = {
        "missing": missing, "small_strata": small_strata, "integers": integers, "identifiers": identifiers,
        "engine": engine, "workers": workers,
    }  # fmt: skip
    check_params("protect_file", rules, given)
    estimator = resolve_method(method, k, None, max_proposals, random_state)
    if time_limit is not None and not estimator.takes("time_limit"):
        raise ParameterError(f"The method {estimator.name!r} takes no 'time_limit': it stops by itself.")
    secret = None if identifiers == "drop" else key if key is not None else secrets.token_bytes(32)
    asked = {
        "columns": listed(columns) or None, "strata": listed(strata), "weights": weights, "schema": schema,
        "missing": missing, "small": small_strata, "round": integers == "round", "secret": secret,
        "time_limit": time_limit, "memory": bytes_of(memory), "any_order": any_order,
    }  # fmt: skip
    say = progress or (lambda _: None)
    started = time.perf_counter()
    if engine == "spark":
        if Path(path).suffix in set(FORMATS) - {".parquet"}:
            raise InputError(f"Spark reads Parquet, a file or a folder of files. Got {str(path)!r}.")
        from shoal.scale.spark import run_spark

        facts = run_spark(path, output, estimator, asked, say)
    else:
        from shoal.scale.local import run_local

        facts = run_local(Path(path), Path(output), estimator, asked, workers, resume, say)
    facts["seconds"] = time.perf_counter() - started
    facts["settings"] |= {
        "engine": engine, "memory": bytes_of(memory), "any_order": any_order, "integers": integers,
        "identifiers": dict.fromkeys(facts["settings"]["identifiers"], identifiers),
    }  # fmt: skip
    return {"method": estimator.name, "k": k} | facts


def bytes_of(memory: int | str) -> int:
    """A size like '2GB' or '500 MB' in bytes.

    Examples
    --------
    >>> from shoal.scale import bytes_of
    >>> bytes_of("2GB"), bytes_of("1.5 M"), bytes_of(4096)
    (2000000000, 1500000, 4096)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", str(memory).upper())
    size = float(found[1]) * _UNITS[found[2]] if found else 0
    if size < 1:
        raise ParameterError(f"'memory' must be a size such as 500MB or 2GB. Got {memory!r}.")
    return int(size)
