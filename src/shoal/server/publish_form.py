"""What the fields of a publish form ask for, checked; the page and the API fill the same ones."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from shoal.errors import ParameterError
from shoal.publish.fields import Option
from shoal.publish.request import ProtectionRequest, options
from shoal.schema import KINDS, ROLES
from shoal.server.jobs import read
from shoal.typing import Json

_WHOLE = re.compile("0|[1-9][0-9]{0,8}")


@functools.cache
def method_names() -> tuple[str, ...]:
    """The methods there are; loaded when the first table is published, so that the server starts fast."""
    from shoal.microaggregation import methods
    from shoal.publish.recoding import CHANGING

    return tuple(sorted([*methods(), *CHANGING]))


def texts_of(form: FormData) -> dict[str, str]:
    """The texts of a form, without its files."""
    return {name: value for name, value in form.items() if isinstance(value, str)}


def page_options() -> dict[str, Option]:
    """The fields of a request that can be asked for here; a red table is accepted by its typed word."""
    return {name: option for name, option in options().items() if option.page and name != "accept_risk"}


async def wanted_of(folder: Path, form: Mapping[str, str]) -> Json:
    """What the fields of a form ask for, checked."""
    look, columns = read(folder / "look.json"), {}
    for place, column in enumerate(look["columns"]):
        columns[column["name"]] = _column(form, place, column)
    texts = {name: form[name] for name in page_options() if name in form}
    for name, text in texts.items():
        if options()[name].kind == "whole" and text.strip() and not _WHOLE.fullmatch(text.strip()):
            raise ParameterError(
                f"{name!r} must be a whole number of at most nine digits. Got {text[:40]!r}."
            )
    request = await run_in_threadpool(ProtectionRequest.from_texts, texts)
    if request.method_name not in await run_in_threadpool(method_names):
        raise ParameterError(f"The method must be one of {', '.join(method_names())}.")
    if request.k > look["rows"]:
        raise ParameterError(f"'k' must be at most the {look['rows']:,} rows of the table. Got {request.k}.")
    # A method that was chosen is kept as chosen, whatever the schema says.
    kept = {"method": request.method_name} if texts.get("method", "").strip() else {}
    return {"columns": columns, "request": request.to_dict() | kept, "escape": "escape" in form}


def _column(form: Mapping[str, str], place: int, column: Json) -> Json:
    """What the form says of one column, where it says something new."""
    role, kind = (
        str(form.get(f"role-{place}", column["role"])),
        str(form.get(f"kind-{place}", column["kind"])),
    )
    if role not in ROLES:
        raise ParameterError(f"A role must be one of {', '.join(ROLES)}. Got {role[:40]!r}.")
    if kind not in KINDS:
        raise ParameterError(f"A kind must be one of {', '.join(KINDS)}. Got {kind[:40]!r}.")
    facts: Json = {"role": role}
    if kind != column["kind"]:
        facts["kind"] = kind
    low, high = (str(form.get(f"{end}-{place}", "")).strip() for end in ("low", "high"))
    if (low or high) and [low, high] != column["bounds"]:
        try:
            facts["bounds"] = (float(low), float(high))
        except ValueError:
            raise ParameterError(
                f"The bounds of {column['name']!r} must be two numbers. Got {low[:20]!r} and {high[:20]!r}."
            ) from None
    return facts


def form_fields(asked: Json, missing: int) -> list[Json]:
    """The fields of a request that the page asks for, with what was asked for before."""
    blank = ProtectionRequest()
    start = {"on_missing": "impute"} if missing else {}
    made = []
    for name, option in page_options().items():
        if name != "method":
            value = asked.get(name, start.get(name, getattr(blank, name)))
            made.append(
                {
                    "name": name, "kind": option.kind, "help": option.help, "choices": option.choices,
                    "value": "" if value is None else value, "open": getattr(blank, name) is None,
                }
            )  # fmt: skip
    return made
