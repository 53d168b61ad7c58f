"""What the fields of a publish form ask for, checked; the page and the API fill the same ones."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from shoal.errors import ParameterError
from shoal.publish.fields import Option
from shoal.publish.request import ProtectionRequest, options
from shoal.schema import KINDS, ROLES
from shoal.server.job_files import ColumnWish, TableLook, WantedRun
from shoal.server.models import ColumnLook
from shoal.typing import Json

FIRST = ("k", "l", "t", "on_missing", "release_type", "identifiers")
_WHOLE = re.compile("0|[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class FormField:
    """A setting of a run as the form asks for it, with what was asked for before.

    `open` if it may be left empty, `set` if it is not as it comes, `first` if most tables need it.
    """

    name: str
    kind: str
    help: str
    choices: tuple[str, ...]
    value: Any
    open: bool
    set: bool

    @property
    def first(self) -> bool:
        """Whether it stands among the few that are always shown."""
        return self.name in FIRST

    @property
    def label(self) -> str:
        """Its help, as a label has it."""
        return self.help.removesuffix(".")


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


async def wanted_of(folder: Path, form: Mapping[str, str]) -> WantedRun:
    """What the fields of a form ask for, checked."""
    look = TableLook.read(folder)
    columns = {column.name: _column(form, place, column) for place, column in enumerate(look.columns)}
    texts = {name: form[name] for name in page_options() if name in form}
    for name, text in texts.items():
        if options()[name].kind == "whole" and text.strip() and not _WHOLE.fullmatch(text.strip()):
            raise ParameterError(
                f"{name!r} must be a whole number of at most nine digits. Got {text[:40]!r}."
            )
    request = await run_in_threadpool(ProtectionRequest.from_texts, texts)
    if request.method_name not in await run_in_threadpool(method_names):
        raise ParameterError(f"The method must be one of {', '.join(method_names())}.")
    if request.k > look.rows:
        raise ParameterError(f"'k' must be at most the {look.rows:,} rows of the table. Got {request.k}.")
    # A method that was chosen is kept as chosen, whatever the schema says.
    kept = {"method": request.method_name} if texts.get("method", "").strip() else {}
    return WantedRun(columns=columns, request=request.to_dict() | kept, escape="escape" in form)


def _column(form: Mapping[str, str], place: int, column: ColumnLook) -> ColumnWish:
    """What the form says of one column, where it says something new."""
    role, kind = (form.get(f"role-{place}", column.role), form.get(f"kind-{place}", column.kind))
    if role not in ROLES:
        raise ParameterError(f"A role must be one of {', '.join(ROLES)}. Got {role[:40]!r}.")
    if kind not in KINDS:
        raise ParameterError(f"A kind must be one of {', '.join(KINDS)}. Got {kind[:40]!r}.")
    low, high = (form.get(f"{end}-{place}", "").strip() for end in ("low", "high"))
    bounds = None
    if (low or high) and [low, high] != column.bounds:
        try:
            bounds = (float(low), float(high))
        except ValueError:
            raise ParameterError(
                f"The bounds of {column.name!r} must be two numbers. Got {low[:20]!r} and {high[:20]!r}."
            ) from None
    return ColumnWish(role=role, kind=None if kind == column.kind else kind, bounds=bounds)


def form_fields(asked: Json, missing: int) -> list[FormField]:
    """The fields of a request that the page asks for, with what was asked for before."""
    blank = ProtectionRequest()
    start = {"on_missing": "impute"} if missing else {}
    made = []
    for name, option in page_options().items():
        if name != "method":
            value = asked.get(name, start.get(name, getattr(blank, name)))
            made.append(
                FormField(
                    name, option.kind, option.help, tuple(option.choices), "" if value is None else value,
                    getattr(blank, name) is None, name in asked,
                )
            )  # fmt: skip
    return made
