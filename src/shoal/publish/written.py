"""A request as the command and as the Python that ask for the same."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.publish.fields import joined, options_of

if TYPE_CHECKING:
    from shoal.publish.request import ProtectionRequest

SCHEMA = "schema.toml"
"""What the file of a schema is called that came as an object."""
_PLAIN = (bool, int, float, type(None))


def command(request: ProtectionRequest, source: str, output: str) -> str:
    """The command that asks for the same."""
    words = ["shoal", "protect", str(source), "-k", str(request.k), "-o", str(output)]
    words += ["--method", request.method_name]
    for name, value in request.given().items():
        option = options_of(request)[name]
        if name in ("k", "method", "random_state") or not option.flag:
            continue
        if option.kind == "flag":
            words.append(option.flag)
            continue
        text = joined(value) if option.kind == "names" else str(value)
        words += [option.flag, (request.schema_file or SCHEMA) if name == "schema" else text]
    if request.random_state is not None:
        words += ["--seed", str(request.random_state)]
    return shlex.join(words)


def python(request: ProtectionRequest, source: str) -> str:
    """Python that asks for the same; a text file is read as the schema declares."""
    arguments = {"k": _code(request.k), "method": _method_code(request.method, request.k)}
    schema = _code(request.schema_file or SCHEMA)
    for name, value in request.given().items():
        if name in ("k", "method", "key") or not options_of(request)[name].python:
            continue
        given = "schema" if request.file is not None else schema
        arguments[name] = given if name == "schema" else _code(plain(value))
    from shoal.io import STATISTICAL  # here, so that asking for help loads no polars

    labelled = Path(source).suffix.lower() in STATISTICAL
    if labelled:
        arguments["labelled"] = "source.labelled()"
    lines = [
        "import shoal",
        f"from shoal.io import {'read_source' if labelled else 'read_table'}",
        "",
        *([f"schema = shoal.Schema.from_toml({schema})"] if request.file is not None else []),
        f"source = read_source({_read_by(request, source)})"
        if labelled
        else f"frame = read_table({_read_by(request, source)})",
        "protection = shoal.protect(",
        "    source.frame," if labelled else "    frame,",
        *(f"    {name}={code}," for name, code in arguments.items()),
        ")",
    ]
    return "\n".join(lines)


def _read_by(request: ProtectionRequest, source: str) -> str:
    """The arguments by which a file is read as the command reads it."""
    from shoal.io import STATISTICAL, TEXT

    ending = Path(source).suffix.lower()
    told = [_code(str(source))] + ([] if request.file is None else ["schema.file"])
    if ending in STATISTICAL and request.untouched:
        told.append(f"coded={_code(sorted(request.untouched))}")
    if ending in TEXT and request.as_written:
        told.append(f"exact={_code(list(request.as_written))}")
    return ", ".join(told)


def plain(value: Any) -> Any:
    """A field's value as a text, a number, a truth value or a list of them."""
    if type(value).__name__ == "Steps":
        return str(value)
    if type(value).__module__ == "numpy":
        return value.item()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, (str, *_PLAIN)):
        return value
    return str(value) if isinstance(value, Path) else str(getattr(value, "name", value))


def _method_code(method: Any, k: int) -> str:
    if isinstance(method, str):
        return _code(method)
    told = {"k": k} | {
        name: value
        for name, value in method.get_params(deep=False).items()
        if name not in ("k", "progress") and value is not None
    }
    inner = ", ".join(f"{name}={_code(value)}" for name, value in told.items())
    return f"shoal.methods()[{_code(method.name)}]({inner})"


def _code(value: Any) -> str:
    """A value as Python code, texts in double quotes; what is no plain value is left to the reader."""
    if type(value).__module__ == "numpy":
        value = value.item()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_code(each) for each in value) + "]"
    return repr(value) if isinstance(value, _PLAIN) else "..."
