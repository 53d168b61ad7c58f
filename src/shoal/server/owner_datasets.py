"""The owner's pages to add and change data sets while the server runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from shoal.errors import InputError, ParameterError, ShoalError
from shoal.io import FORMATS, write_text
from shoal.schema import KINDS, ROLES, Schema
from shoal.server import api, pages
from shoal.server.dataset_files import CODEBOOKS, SCHEMA, DatasetFiles
from shoal.server.schema_form import SOURCES, fields_of, schema_of, typed_fields
from shoal.server.served import MODES
from shoal.typing import Json

EXPLAINED = {
    "dp": "protects one record, or one person where the schema names the unit",
    "group": "protects all rows of one declared group jointly; needs a group in the schema",
    "correlated": "protects all rows of one cell of look-alikes; needs cells and a tau in the schema",
    "heuristic": "guarantees nothing; refused on private data",
}

MEANINGS = {
    "identifier": "names a person",
    "quasi": "others may know it",
    "sensitive": "is to be kept secret",
    "weight": "survey weight",
    "stratum": "stratum of the sample",
    "household": "names a household",
    "leave": "of no concern",
}


def files_of(request: Request) -> DatasetFiles:
    """The folder of data sets of the application that serves this request."""
    files: DatasetFiles = request.app.state.service.files
    return files


def new_page(request: Request) -> Response:
    """Choose the table of a new data set."""
    config = request.app.state.config
    return pages.render(
        request,
        "dataset_new.html.j2",
        megabytes=config.upload_megabytes,
        formats=FORMATS,
        folders=config.data_folders,
    )


async def upload(request: Request) -> Response:
    """Take a table, uploaded or from a folder that the configuration allows; a codebook may come along."""
    form = await request.form(max_files=2)
    given, path, codebook = form.get("table"), str(form.get("path", "")).strip(), form.get("codebook")
    book = None
    if isinstance(codebook, UploadFile) and codebook.filename:
        ending = _ending(codebook)
        if ending not in CODEBOOKS:
            raise InputError(f"A codebook must end in {' or '.join(CODEBOOKS)}. Got {ending[:20]!r}.")
        book = (ending, await codebook.read())
    if isinstance(given, UploadFile) and given.filename:
        draft = await run_in_threadpool(files_of(request).draft, given.file, _ending(given), book)
    elif path:
        found = allowed_path(Path(path), request.app.state.config.data_folders)
        draft = await run_in_threadpool(files_of(request).draft, found, found.suffix.lower(), book)
    else:
        raise InputError("A file was expected, uploaded or by its path.")
    return RedirectResponse(f"/owner/drafts/{draft}", 303)


def _ending(given: UploadFile) -> str:
    """The ending of an uploaded file's name, which is all that is used of it."""
    return Path((given.filename or "").replace("\\", "/")).suffix.lower()


def change(request: Request, dataset: str) -> Response:
    """Begin a new version of a data set."""
    return RedirectResponse(f"/owner/drafts/{files_of(request).draft_of(dataset)}", 303)


def draft_page(request: Request, draft: str, written: bool = False) -> Response:
    """The editor of a draft: fields for each column, or the schema as it is written down."""
    files = files_of(request)
    settings = files.facts(draft).settings
    typed = {name: str(value) for name, value in settings.items() if name != "modes"}
    shown = EditorForm(typed, settings.get("modes", ["dp"]), files.schema(draft))
    return _editor(request, draft, shown, written=written)


async def save(request: Request, draft: str) -> Response:
    """Look at a draft, or make it a data set that every worker answers."""
    form = await request.form(max_files=0, max_fields=20_000)
    modes = [str(each) for each in form.getlist("modes")]
    texts = {name: value for name, value in form.items() if isinstance(value, str)}
    return await run_in_threadpool(_save, request, draft, texts, modes)


async def take_out(request: Request, dataset: str) -> Response:
    """No longer answer a data set, once its name was typed."""
    form = await request.form()
    if str(form.get("sure", "")).strip() != dataset:
        raise ParameterError(f"Type the name of the data set, {dataset!r}, to take it out.")
    service, by = api.service_of(request), request.state.visitor.name
    await run_in_threadpool(files_of(request).take_out, dataset)
    await run_in_threadpool(service.ledger.note, "data set taken out", by, dataset, dataset)
    await run_in_threadpool(service.reload)
    return RedirectResponse("/owner", 303)


@dataclass(frozen=True)
class EditorForm:
    """What the editor shows: settings, modes, the schema that the draft begins with, and fields typed since."""

    settings: Mapping[str, str]
    modes: list[str]
    schema: Schema
    fields: Mapping[str, str] | None = None


def _save(request: Request, draft: str, form: dict[str, str], modes: list[str]) -> Response:
    service, files, base = api.service_of(request), files_of(request), files_of(request).schema(draft)
    names = [each.name for each in files.samples(draft)]
    written = "schema" in form
    shown = EditorForm(form, modes, base, form)
    try:
        facts = _facts(form, modes)
        text = form["schema"] if written else schema_of(form, base, names).to_toml()
        looked = files.look(draft, text, facts, service.config.least_epsilon)
        if form.get("decision") != "save":
            return _editor(request, draft, shown, looked=looked, written=written)
        codebook = files.table(draft).parent / SCHEMA
        service.check_free(codebook, facts.get("budget"), facts.get("per_analyst"))
        made = files.save(draft, text, facts)
    except ShoalError as error:
        said = str(error).replace(str(files.folder / "drafts" / draft / SCHEMA), "The schema")
        _restore(files, draft, base)
        return _editor(request, draft, shown, error=said, status=error.status, written=written)
    except Exception:
        _restore(files, draft, base)
        raise
    text = f"{made.schema.id}, version {made.version}, modes {', '.join(made.modes)}"
    service.ledger.note("data set saved", request.state.visitor.name, text, "")
    service.reload()
    return RedirectResponse("/owner", 303)


def _restore(files: DatasetFiles, draft: str, base: Schema) -> None:
    """What is wrong is not what a draft begins with."""
    write_text(base.to_toml(), files.table(draft).parent / SCHEMA)


def _facts(typed: Mapping[str, str], modes: list[str]) -> Json:
    facts: Json = {"modes": modes}
    for name in ("budget", "per_analyst"):
        text = typed.get(name, "").strip()
        if text:
            try:
                facts[name] = float(text)
            except ValueError:
                raise ParameterError(f"{name!r} must be a number. Got {text[:40]!r}.") from None
    for name in ("about", "version"):
        text = typed.get(name, "").strip()
        if text:
            facts[name] = text[:500]
    return facts


def _editor(
    request: Request,
    draft: str,
    shown: EditorForm,
    *,
    looked: Any = (),
    error: str = "",
    status: int = 200,
    written: bool = False,
) -> Response:
    files, schema, form = files_of(request), shown.schema, shown.fields or {}
    samples, dataset = files.samples(draft), files.facts(draft).dataset
    names = [each.name for each in samples]
    typed_here = bool(form) and "schema" not in form
    table = {
        "id": schema.id, "unit": schema.unit.column or "", "rows": str(schema.unit.rows),
        "private": "yes" if schema.private else "no",
    }  # fmt: skip
    if typed_here:
        table = {name: form.get(name, "") for name in table}
    rows = typed_fields(form, names) if typed_here else fields_of(schema, names)
    return pages.render(
        request, "dataset_edit.html.j2", code=status, draft=draft, table=table, modes=shown.modes,
        typed=dict.fromkeys(("budget", "per_analyst", "about", "version"), "") | dict(shown.settings),
        every=[(mode, EXPLAINED[mode]) for mode in MODES if mode in EXPLAINED], looked=looked, error=error,
        rows=list(zip(rows, samples, strict=True)), kinds=KINDS, roles=ROLES, sources=SOURCES, meanings=MEANINGS,
        written=written, text=form.get("schema", "") or schema.to_toml(), dataset=dataset,
        versions=files.versions(dataset) if dataset else [],
    )  # fmt: skip


def allowed_path(path: Path, folders: tuple[str, ...]) -> Path:
    """A path that leads into one of the folders that the configuration allows."""
    found = path.resolve()
    if not any(found.is_relative_to(Path(each).resolve()) for each in folders) or not found.is_file():
        raise ParameterError("'path' must name a file in one of the folders that 'data_folders' allows.")
    return found
