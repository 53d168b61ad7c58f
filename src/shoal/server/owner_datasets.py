"""The owner's pages to add and change data sets while the server runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from shoal.errors import InputError, ParameterError, ShoalError
from shoal.io import FORMATS
from shoal.server import api, pages
from shoal.server.config import MODES
from shoal.server.dataset_files import DatasetFiles

EXPLAINED = {
    "dp": "protects one record, or one person where the schema names the unit",
    "group": "protects all rows of one declared group jointly; needs a group in the schema",
    "correlated": "protects all rows of one cell of look-alikes; needs cells and a tau in the schema",
    "heuristic": "guarantees nothing; refused on private data",
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
    """Take a table, uploaded or from a folder that the configuration allows."""
    form = await request.form(max_files=1)
    given, path = form.get("table"), str(form.get("path", "")).strip()
    if isinstance(given, UploadFile) and given.filename:
        ending = Path(given.filename.replace("\\", "/")).suffix.lower()
        draft = await run_in_threadpool(files_of(request).draft, given.file, ending)
    elif path:
        found = allowed_path(Path(path), request.app.state.config.data_folders)
        draft = await run_in_threadpool(files_of(request).draft, found, found.suffix.lower())
    else:
        raise InputError("A file was expected, uploaded or by its path.")
    return RedirectResponse(f"/owner/drafts/{draft}", 303)


def change(request: Request, dataset: str) -> Response:
    """Begin a new version of a data set."""
    draft, schema, facts = files_of(request).draft_of(dataset)
    typed = {name: str(value) for name, value in facts.items() if name != "modes"}
    return _editor(request, draft, {"schema": schema, **typed}, facts.get("modes", ["dp"]))


def draft_page(request: Request, draft: str) -> Response:
    """The editor of a draft, with a guessed schema."""
    schema, _ = files_of(request).guess(draft)
    return _editor(request, draft, {"schema": schema}, ["dp"])


async def save(request: Request, draft: str) -> Response:
    """Look at a draft, or make it a data set that every worker answers."""
    form = await request.form()
    return await run_in_threadpool(_save, request, draft, form)


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


def _save(request: Request, draft: str, form: FormData) -> Response:
    service, files = api.service_of(request), files_of(request)
    typed = {
        name: str(form.get(name, "")) for name in ("schema", "budget", "per_analyst", "about", "version")
    }
    modes = [str(each) for each in form.getlist("modes")]
    try:
        facts = _facts(typed, modes)
        looked = files.look(draft, typed["schema"], facts, service.config.least_epsilon)
        if form.get("decision") != "save":
            return _editor(request, draft, typed, modes, looked=looked)
        codebook = files.table(draft).parent / "schema.toml"
        service.check_free(codebook, facts.get("budget"), facts.get("per_analyst"))
        made = files.save(draft, typed["schema"], facts)
    except ShoalError as error:
        said = str(error).replace(str(files.folder / "drafts" / draft / "schema.toml"), "The schema")
        return _editor(request, draft, typed, modes, error=said, status=error.status)
    text = f"{made.schema.id}, version {made.version}, modes {', '.join(made.modes)}"
    service.ledger.note("data set saved", request.state.visitor.name, text, "")
    service.reload()
    return RedirectResponse("/owner", 303)


def _facts(typed: dict[str, str], modes: list[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {"modes": modes}
    for name in ("budget", "per_analyst"):
        if typed[name].strip():
            try:
                facts[name] = float(typed[name])
            except ValueError:
                raise ParameterError(f"{name!r} must be a number. Got {typed[name][:40]!r}.") from None
    for name in ("about", "version"):
        if typed[name].strip():
            facts[name] = typed[name].strip()[:500]
    return facts


def _editor(
    request: Request,
    draft: str,
    typed: dict[str, str],
    modes: list[str],
    *,
    looked: Any = (),
    error: str = "",
    status: int = 200,
) -> Response:
    files = files_of(request)
    empty = dict.fromkeys(("schema", "budget", "per_analyst", "about", "version"), "")
    return pages.render(
        request, "dataset_edit.html.j2", code=status, draft=draft, typed=empty | typed, modes=modes,
        every=[(mode, EXPLAINED[mode]) for mode in MODES if mode in EXPLAINED], samples=files.samples(draft),
        looked=looked, error=error,
    )  # fmt: skip


def allowed_path(path: Path, folders: tuple[str, ...]) -> Path:
    """A path that leads into one of the folders that the configuration allows."""
    found = path.resolve()
    if not any(found.is_relative_to(Path(each).resolve()) for each in folders) or not found.is_file():
        raise ParameterError("'path' must name a file in one of the folders that 'data_folders' allows.")
    return found
