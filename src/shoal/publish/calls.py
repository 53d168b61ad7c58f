"""The functions that users call. Their arguments are made from the fields of the request."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from shoal import io
from shoal.errors import ParameterError, UnknownOptionError
from shoal.publish.executors import Executor, Progress, in_parts
from shoal.publish.executors.memory import Memory
from shoal.publish.pipeline import protect as run
from shoal.publish.request import ProtectionRequest, options
from shoal.publish.result import Protection
from shoal.typing import Keywords


def protect(frame: Any, k: int = 5, *, progress: Progress | None = None, **fields: Any) -> Protection:
    """Protect a table: replace each record by the centre of a group of at least `k`.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    progress : callable, optional
        Called with a stage, how much of it is done, and of how much (0 of 0 where that is not known).

    Returns
    -------
    Protection

    Raises
    ------
    GuaranteeError
        If a privacy model that was asked for does not hold, or if the status is red and `accept_risk` is not set.

    Notes
    -----
    The guarantee is k-anonymity of the aggregated columns (and strata) taken as quasi-identifiers. It says nothing about
    columns left as they are; `Protection.notes` names them. The same table, request and seed give the same result on any
    machine, unless `time_limit` is set. The index of a pandas frame is published only if it just numbers the rows. If there
    is a ledger of private answers beside the file of `schema`, its total ends, because a protected copy reveals something
    about the table that no epsilon counts.

    Examples
    --------
    >>> import polars as pl, shoal
    >>> frame = pl.DataFrame({"age": [20, 21, 22, 60, 61, 62], "city": list("AAABBB")})
    >>> protection = shoal.protect(frame, k=3, method="mdav")
    >>> protection.status, protection.frame["age"].to_list()
    ('green', [21.0, 21.0, 21.0, 61.0, 61.0, 61.0])
    """
    labelled = fields.pop("labelled", ())
    request = _request(protect, k, fields)
    result = run(request, Memory(frame, labelled), progress, functools.partial(end_total, request))
    return replace(result, notes=(*result.notes, *_total_unknown(request)))


def protect_file(
    path: str | Path, output: str | Path, k: int = 5, *, progress: Progress | None = None, **fields: Any
) -> Protection:
    """Protect a file of any size, part by part, without holding it in memory.

    Parameters
    ----------
    path, output : str or Path
        Parquet, Arrow or CSV; the input may be a folder of files of one kind. On Spark: Parquet.
    progress : callable, optional
        Called with a stage, how much of it is done, and of how much (0 of 0 where that is not known).

    Returns
    -------
    Protection
        Without a frame: the table is in the file.

    Notes
    -----
    The stages are those of `protect`. The classes of all rows are counted as they are written. If k does not hold, or if
    the status is red, the output file does not appear. A table that fits into one part gives the same result as
    `protect`. Groups do not cross parts; within a part, records are exchanged over the borders of blocks. Missing cells
    are imputed from records of the same part, and linkage looks for the nearest record within it.

    Examples
    --------
    >>> import polars as pl, tempfile, pathlib
    >>> from shoal.publish import protect_file
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> pl.DataFrame({"age": [20, 21, 22, 60, 61, 62]}).write_parquet(folder / "in.parquet")
    >>> done = protect_file(folder / "in.parquet", folder / "out.parquet", k=3, method="mdav", n_jobs=1)
    >>> done.figures.n_groups, pl.read_parquet(folder / "out.parquet")["age"].to_list()
    (2, [21.0, 21.0, 21.0, 61.0, 61.0, 61.0])
    """
    request = _request(protect_file, k, fields)
    if request.save_run is not None:
        raise ParameterError(
            "'save_run' is of the command alone: shoal.evidence.run_of_protection(result).save(path) does the same here."
        )
    io.check_apart(
        {
            "output": output,
            "labels": request.labels,
            "report": request.report,
            "public_report": request.public_report,
        },
        [path, request.schema_file, request.earlier, request.hierarchies],
    )
    check_beside(request)
    with io.together():
        noted = functools.partial(end_total, request)
        result = run(request, executor_for(path, output, request), progress, noted)
        result = result.placed(str(path), str(output), _total_unknown(request))
        write_beside(result)
    return result


def end_total(request: ProtectionRequest) -> None:
    """End the total of the ledger beside the schema's file: no epsilon counts what a protected copy reveals."""
    if request.schema is None or request.schema.path is None:
        return
    beside = Path(request.schema.path).with_suffix(".ledger.db")
    if not beside.exists():
        return
    from shoal.dp.ledger.ledger import Ledger

    ledger = Ledger(beside)
    try:
        ledger.end_total(request.schema.id, "protected copy")
    finally:
        ledger.close()


def _total_unknown(request: ProtectionRequest) -> tuple[str, ...]:
    """A note on a schema for private answers that was given without its file, so that its ledger is not known."""
    schema = request.schema
    if schema is None or schema.budget is None or (schema.path is not None and Path(schema.path).exists()):
        return ()
    where = "came without its file" if schema.path is None else f"its file {schema.path!r} is not there"
    return (
        f"The schema has a budget for private answers and {where}: if {schema.id!r} has a ledger, its total was not ended.",
    )


def check_beside(request: ProtectionRequest) -> None:
    """Raise a sentence, before any work is done, if a file beside the table cannot be written."""
    if request.labels is not None:
        io.check_writable(request.labels)
    for page in (request.report, request.public_report):
        if page is not None:
            io.check_page(page)
    if request.save_run is not None:
        io.check_folder(request.save_run)


def write_beside(result: Protection) -> None:
    """Write the labels and the reports that were asked for."""
    request = result.request
    if request.labels is not None and result.labels is not None:
        io.write_table(pl.DataFrame({"group": result.labels}), request.labels)
    if request.report is not None:
        result.report(request.report)
    if request.public_report is not None:
        result.report(request.public_report, public=True)


def _request(function: Callable[..., Protection], k: int, fields: Keywords) -> ProtectionRequest:
    """The request that the arguments make; raises a sentence if the name of an argument is not known."""
    known = [each for each in inspect.signature(function).parameters if each != "fields"]
    for name in fields:
        if name not in known:
            raise UnknownOptionError(function.__name__, name, known)
    return ProtectionRequest(k=k, **fields)


def executor_for(path: str | Path, output: str | Path, request: ProtectionRequest) -> Executor:
    """The executor of a file that is protected in parts."""
    if request.engine == "spark":
        from shoal.publish.executors.spark import Spark

        return Spark(path, output)
    from shoal.publish.executors.parts import Parts

    return Parts(Path(path), Path(output))


def _with_fields(function: Callable[..., Protection], *, files: bool) -> None:
    """Give a function the signature and the documentation of the request's fields."""
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    blank = ProtectionRequest()
    chosen = {name: option for name, option in options().items() if name != "k" and (files or option.python)}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(blank, name))
        for name in chosen
    ]
    if not files:
        added.append(inspect.Parameter("labelled", inspect.Parameter.KEYWORD_ONLY, default=()))
    vars(function)["__signature__"] = signature.replace(parameters=[*own[:-1], *added, own[-1]])
    words = [f"    k : int, default 5\n        {options()['k'].help}"]
    for name, option in chosen.items():
        default = getattr(blank, name)
        shown = "optional" if default in (None, ()) else f"default {default!r}"
        words.append(f"    {name} : {_type(option.kind)}, {shown}\n        {option.help}")
    if not files:
        words.append(
            "    labelled : collection of str, optional\n        Columns whose numbers are codes with labels (SPSS, "
            "Stata, SAS): categories unless a schema says otherwise."
        )
    before, mark, after = (function.__doc__ or "").partition("    progress : callable")
    function.__doc__ = before + "\n".join(words) + "\n" + mark + after


def _type(kind: str) -> str:
    return {
        "whole": "int", "number": "float", "text": "str", "names": "str or list of str", "flag": "bool",
        "path": "str or Path", "value": "bytes",
    }[kind]  # fmt: skip


_with_fields(protect, files=False)
_with_fields(protect_file, files=True)

__all__ = ["executor_for", "in_parts", "protect", "protect_file"]
