"""The one error handler: status and sentence from the error, as JSON or as a page."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from shoal import errors
from shoal.errors import ShoalError
from shoal.server import pages
from shoal.server.auth import SignInError
from shoal.server.refusals import sentence_of

log = logging.getLogger("shoal.server")


def problem(request: Request, error: Exception) -> Response:
    """The one error handler: status and sentence from the error, as JSON or as a page.

    A sentence quotes what was typed or the public schema. Of what breaks inside, only that it broke is said.
    """
    status, sentence = _told(error)
    other = _other_methods(request) if status == 404 else ""
    if other:
        status, sentence = 405, "This cannot be done here."
    known = [each.__name__ for each in type(error).__mro__ if each.__module__ == errors.__name__]
    if status >= 500:
        facts = {"event": "error", "id": request.state.request_id, "error": type(error).__name__}
        log.error(json.dumps(facts | where(error)))
    if request.url.path.startswith(("/api/", "/health")):
        headers = {"www-authenticate": "Bearer"} if status == 401 else {}
        headers |= {"retry-after": "10"} if status in (429, 503) else {}
        headers |= {"allow": other} if other else {}
        facts = {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase if status in set(HTTPStatus) else "Refused",
            "status": status,
            "detail": sentence,
            "error": sentence,
            "kind": known[0] if known else "Error",
        }
        return JSONResponse(facts, status, headers, media_type="application/problem+json")
    if isinstance(error, SignInError) and request.method == "GET":
        return RedirectResponse(f"/sign-in?next={quote(request.url.path)}", 303)
    return pages.render(request, "problem.html.j2", status=status, sentence=sentence, code=status)


def _other_methods(request: Request) -> str:
    """The methods that a path takes, where it does not take this one.

    The id of a data set may hold a slash, so that such a path is also that of a data set which is not there.
    """
    if getattr(request.scope.get("route"), "path", "") != "/api/v1/datasets/{dataset:path}":
        return ""
    found = [
        each.methods or set() for each in request.app.routes
        if isinstance(each, Route) and each.matches(request.scope)[0] is Match.PARTIAL
    ]  # fmt: skip
    return ", ".join(sorted(set().union(*found)))


def _told(error: Exception) -> tuple[int, str]:
    if isinstance(error, ShoalError):
        return error.status, sentence_of(error)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        if first.get("type") == "json_invalid":
            at = first.get("loc", ("body", 0))[-1]
            why = first.get("ctx", {}).get("error", "malformed")
            return 422, f"The body must be JSON. At character {at} it is not: {why}."
        where = ".".join(str(each) for each in first.get("loc", ())[1:]) or "the body"
        return 422, f"{where[:80]!r} is not as expected: {first.get('msg', 'malformed')}."
    if isinstance(error, HTTPException):
        known = {404: "There is no such page.", 405: "This cannot be done here."}
        return error.status_code, known.get(error.status_code, "The request cannot be read.")
    return 500, "Something broke inside; it was noted, and nothing was answered."


def where(error: Exception) -> dict[str, str]:
    """The place in the code, without any value."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return {"place": place}
