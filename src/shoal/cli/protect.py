"""`shoal protect`: a table in, a protected table out. The options are made from the fields of the request."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli._console import print_json, stages
from shoal.cli._options import AsJson
from shoal.typing import Keywords

if TYPE_CHECKING:
    from shoal.publish import Protection, ProtectionRequest

_TYPES: Keywords = {"whole": int, "number": float, "flag": bool}


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(_with_options(protect))


def protect(
    file: Annotated[
        str,
        typer.Argument(
            help="The table to protect (CSV, Parquet, Arrow, Excel, SPSS, Stata, SAS; - for a pipe)."
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="File for the protected table; its ending decides the format."),
    ],
    json: AsJson = False,
    **given: Any,
) -> None:
    """Protect a table: put everyone into a group of at least k.

    The first line is the status: green, amber or red. A red table is written only with --accept-risk.

    Example: shoal protect survey.csv -k 5 -o protected.csv --report report.html
    """
    from shoal import io
    from shoal.publish.executors import in_parts

    io.check_apart(
        {
            "--output": output, "--labels": given["labels"], "--report": given["report"],
            "--public-report": given["public_report"], "--save-run": given["save_run"],
        },
        [file, given["schema"], given["earlier"], given["hierarchies"]],
    )  # fmt: skip
    request = _request(given)
    with stages() as tell:
        if in_parts(request, file):
            result = _in_parts(file, output, request, tell)
        else:
            result = in_memory(file, output, request, tell)
    tell_result(result, json=json)


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of the request."""
    from shoal.publish.request import ProtectionRequest, options

    blank = ProtectionRequest()
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    added = []
    for name, option in options().items():
        if not option.flag:
            continue
        # A method that is not named leaves the choice to the schema.
        default = None if name == "method" else getattr(blank, name)
        flags = [option.flag] if option.flag.startswith("--") else [option.flag, f"-{option.flag}"]
        kind = _TYPES.get(option.kind, str)
        if kind is not bool and default in (None, ()):
            kind, default = kind | None, None
        added.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default,
                annotation=Annotated[kind, typer.Option(*flags, help=option.help)],
            )
        )  # fmt: skip

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        command(**given)

    everything = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own[:2]] + added + own[2:]
    everything = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in everything]
    vars(wrapped)["__signature__"] = signature.replace(parameters=everything)
    wrapped.__annotations__ = {each.name: each.annotation for each in everything}
    del vars(wrapped)["__wrapped__"]
    return wrapped


def _request(given: Keywords) -> ProtectionRequest:
    """What the options ask for."""
    from shoal.publish import ProtectionRequest
    from shoal.publish.fields import split
    from shoal.publish.request import options

    told = {name: value for name, value in given.items() if value is not None}
    for name, value in told.items():
        if options()[name].kind == "names":
            told[name] = split(value)
    return ProtectionRequest(**told)


def _in_parts(
    file: str, output: str, request: ProtectionRequest, tell: Callable[[str, float, float], None]
) -> Protection:
    """The table part by part; it is written by the run itself."""
    from shoal import io
    from shoal.errors import StoppedError
    from shoal.publish.calls import check_beside, end_total, executor_for
    from shoal.publish.pipeline import protect as run

    check_beside(request)
    try:
        with io.together():
            result = run(
                request, executor_for(file, output, request), tell, functools.partial(end_total, request)
            ).placed(file, output)
            _write_beside(result)
    except KeyboardInterrupt:
        waits = Path(output).with_name(f".{Path(output).name}.parts").exists()
        kept = "; the parts already solved are kept for --resume" if waits else ""
        raise StoppedError(f"Interrupted; nothing was written{kept}.") from None
    return result


def in_memory(
    file: str, output: str, request: ProtectionRequest, tell: Callable[[str, float, float], None]
) -> Protection:
    """The table as a whole: read, protected, and all files of the run written together."""
    from shoal import io
    from shoal.engine.frame import Frame
    from shoal.publish.calls import check_beside
    from shoal.publish.executors.memory import Memory
    from shoal.publish.pipeline import protect as run

    io.check_writable(output)
    check_beside(request)
    tell(f"reading {file}", 0, 0)
    source = io.read_source(file, request.file, request.untouched, request.as_written)
    result = run(request, Memory(source.frame, source.labelled()), tell)
    lost = io.lost_in_writing(Frame(result.frame).to_polars(), output, source) if output != "-" else ()
    result = result.placed(file, output, (*source.notes, *lost))
    tell("writing", 0, 0)
    _write(result, source)
    return result


def _write(result: Protection, source: Any) -> None:
    """Everything that goes to disk, all or nothing; what is given out is noted in the ledger."""
    from shoal import io
    from shoal.publish.calls import end_total

    assert result.output is not None
    with io.together():
        _write_beside(result)
        io.write_table(result.frame, result.output, source)
        end_total(result.request)


def _write_beside(result: Protection) -> None:
    """The files that were asked for beside the table."""
    from shoal.publish.calls import write_beside

    write_beside(result)
    if result.request.save_run is not None:
        from shoal.evidence import run_of_protection

        run_of_protection(result).save(result.request.save_run)


def tell_result(result: Protection, *, json: bool) -> None:
    """The status first, then what was made, the verdicts, the loss, the notes and how to repeat it."""
    request = result.request
    paths = (result.output, request.labels, request.report, request.public_report, request.save_run)
    written = [str(path) for path in paths if path is not None]
    piped = written[0] == "-"  # a pipe gets the table alone
    if json:
        # Keys that stay, also where a treatment has no such figure.
        print_json({"il2": None, "dld": None} | result.to_dict() | {"files": written}, err=piped)
        return
    say = functools.partial(typer.echo, err=piped)
    for line in result.lines():
        say(line)
    say(f"written: {', '.join('the standard output' if each == '-' else each for each in written)}")
    say(f"repeat: {result.command()}")
