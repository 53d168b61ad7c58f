"""The functions users call, their arguments made from the fields of the request."""

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
        Where a model that was asked for does not hold, or the status is red and `accept_risk` is not set.

    Notes
    -----
    The guarantee is k-anonymity of the aggregated columns (and strata) taken as quasi-identifiers, and
    nothing about columns left as they are; `Protection.notes` names those. The same table, request and seed give the
    same result on any machine, unless `time_limit` asks for the clock. The index of a pandas frame is not published unless it
    only numbers the rows. Where the file of `schema` has a ledger of private answers beside it, the ledger's total ends:
    a protected copy tells of the table without any epsilon.

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
    The stages are those of `protect`. The classes of all rows are counted as they are written; a file that does not
    keep its promise, or whose status is red, is never given its name. A table that fits into one part gives what
    `protect` gives. Groups do not cross parts; within a part the blocks' borders are refined by exchanging records.
    Imputed cells are filled from records of the same part, and linkage looks for the nearest record within it.

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
    """Note a protected copy, which tells of the table without any epsilon, in the ledger beside the schema's file."""
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
    """What is said of a schema for private answers that came without its file, beside which its ledger would lie."""
    schema = request.schema
    if schema is None or schema.budget is None or (schema.path is not None and Path(schema.path).exists()):
        return ()
    where = "came without its file" if schema.path is None else f"its file {schema.path!r} is not there"
    return (
        f"The schema has a budget for private answers and {where}: if {schema.id!r} has a ledger, its total was not ended.",
    )


def check_beside(request: ProtectionRequest) -> None:
    """Raise a sentence where a file that is wanted beside the table cannot be written, before any work is done."""
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
    """What the arguments ask for; raises a sentence where one has a name that is not known."""
    known = [each for each in inspect.signature(function).parameters if each != "fields"]
    for name in fields:
        if name not in known:
            raise UnknownOptionError(function.__name__, name, known)
    return ProtectionRequest(k=k, **fields)


def executor_for(path: str | Path, output: str | Path, request: ProtectionRequest) -> Executor:
    """Where the rows of a file are worked on when it is taken in parts."""
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
