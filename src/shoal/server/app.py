"""The application: its route table with who may go where, and its one error handler."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
from fastapi import Depends, FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from shoal import __version__, errors
from shoal.errors import ShoalError
from shoal.server import access, api, ask, metrics, oidc, owner_datasets, pages, publish, streams, workloads
from shoal.server import log as log_views
from shoal.server.accounts import Accounts
from shoal.server.auth import ANYONE, SignInError, require
from shoal.server.budget_requests import BudgetRequests
from shoal.server.config import Config
from shoal.server.jobs import Jobs
from shoal.server.limits import Buckets
from shoal.server.middleware import HttpMiddleware
from shoal.server.names import Names
from shoal.server.service import Service
from shoal.server.strict import StrictHttp

THREADS = 160
BEARER = HTTPBearer(auto_error=False, description="The token that the owner gave; `require` proves it.")
HASHING = 2  # tokens that are hashed at a time: each takes 16 MB and a core for a while
log = logging.getLogger("shoal.server")
_SIGNED_IN = frozenset({"owner", "analyst", "auditor"})
_ASKING = frozenset({"owner", "analyst"})
_ANALYST, _OWNER, _AUDITOR = frozenset({"analyst"}), frozenset({"owner"}), frozenset({"auditor"})


@dataclass(frozen=True)
class Way:
    """One line of the route table."""

    method: str
    path: str
    view: Callable[..., Any]
    roles: frozenset[str] | None = None


# The longer of two that fit comes first.
WAYS = (
    Way("GET", "/health", api.health, ANYONE),
    Way("GET", "/health/live", api.live, ANYONE),
    Way("GET", "/health/ready", api.ready, ANYONE),
    Way("GET", "/metrics", metrics.page, ANYONE),
    Way("GET", "/api/v1/me", api.me, _SIGNED_IN),
    Way("GET", "/api/v1/datasets", api.datasets, _SIGNED_IN),
    Way("GET", "/api/v1/datasets/{dataset}/budget", api.budget, _ANALYST),
    Way("POST", "/api/v1/datasets/{dataset}/workload/cost", workloads.workload_cost, _ANALYST),
    Way("POST", "/api/v1/datasets/{dataset}/cost", api.cost, _ANALYST),
    Way("POST", "/api/v1/datasets/{dataset}/ask", api.ask, _ANALYST),
    Way("POST", "/api/v1/datasets/{dataset}/workload", workloads.workload, _ANALYST),
    Way("POST", "/api/v1/datasets/{dataset}/releases", api.release, _ANALYST),
    Way("GET", "/api/v1/datasets/{dataset}/releases", api.releases, _ANALYST),
    Way("POST", "/api/v1/datasets/{dataset}/streams/{stream}/periods", streams.stream_period, _OWNER),
    Way("POST", "/api/v1/datasets/{dataset}/streams", streams.new_stream, _ANALYST),
    Way("GET", "/api/v1/datasets/{dataset}/streams", streams.streams, _ASKING),
    Way("GET", "/api/v1/datasets/{dataset}/answers", api.answers, _ANALYST),
    Way("GET", "/api/v1/datasets/{dataset}/spending", api.spending, _OWNER),
    Way("GET", "/api/v1/datasets/{dataset}/access", access.access, _OWNER),
    Way("PUT", "/api/v1/datasets/{dataset}/access", access.set_access, _OWNER),
    Way("POST", "/api/v1/datasets/{dataset}/requests", access.wish, _ANALYST),
    Way("GET", "/api/v1/requests", access.wishes, _ASKING),
    Way("POST", "/api/v1/requests/{identity}", access.decide, _OWNER),
    Way("GET", "/api/v1/datasets/{dataset}", api.dataset, _SIGNED_IN),
    Way("GET", "/api/v1/log", api.entries, _AUDITOR),
    Way("GET", "/api/v1/log/questions", log_views.questions, _AUDITOR),
    Way("GET", "/api/v1/log/check", api.check, _AUDITOR),
    Way("GET", "/", pages.home, _SIGNED_IN),
    Way("GET", "/sign-in", pages.sign_in_page, ANYONE),
    Way("POST", "/sign-in", pages.sign_in, ANYONE),
    Way("GET", "/oidc/start", oidc.start, ANYONE),
    Way("GET", "/oidc/back", oidc.back, ANYONE),
    Way("POST", "/sign-out", pages.sign_out, _SIGNED_IN),
    Way("GET", "/ask", ask.choose, _ANALYST),
    Way("GET", "/ask/{dataset}/words", ask.words, _ANALYST),
    Way("GET", "/ask/{dataset}/streams", streams.analyst_page, _ANALYST),
    Way("POST", "/ask/{dataset}/streams", streams.open_form, _ANALYST),
    Way("GET", "/ask/{dataset}/answers/{name}", ask.answer, _ANALYST),
    Way("POST", "/ask/{dataset}/answers/{name}", ask.call, _ANALYST),
    Way("GET", "/ask/{dataset}", ask.ask_page, _ANALYST),
    Way("POST", "/ask/{dataset}", ask.ask, _ANALYST),
    Way("GET", "/owner", pages.owner, _OWNER),
    Way("GET", "/owner/datasets/new", owner_datasets.new_page, _OWNER),
    Way("POST", "/owner/datasets", owner_datasets.upload, _OWNER),
    Way("GET", "/owner/datasets/{dataset}", owner_datasets.change, _OWNER),
    Way("POST", "/owner/datasets/{dataset}/take-out", owner_datasets.take_out, _OWNER),
    Way("GET", "/owner/drafts/{draft}", owner_datasets.draft_page, _OWNER),
    Way("POST", "/owner/drafts/{draft}", owner_datasets.save, _OWNER),
    Way("POST", "/owner/access/{dataset}/caps", access.set_caps_form, _OWNER),
    Way("GET", "/owner/access/{dataset}", access.access_page, _OWNER),
    Way("POST", "/owner/access/{dataset}", access.set_access_form, _OWNER),
    Way("POST", "/owner/streams/{dataset}/{stream}/periods", streams.period_form, _OWNER),
    Way("GET", "/owner/streams/{dataset}", streams.owner_page, _OWNER),
    Way("GET", "/requests", access.requests_page, _ASKING),
    Way("POST", "/requests", access.wish_form, _ANALYST),
    Way("POST", "/requests/{identity}", access.decide_form, _OWNER),
    Way("GET", "/account", pages.account_page, _SIGNED_IN),
    Way("POST", "/account/sessions", pages.end_sessions, _SIGNED_IN),
    Way("POST", "/owner/users", pages.add_user, _OWNER),
    Way("POST", "/owner/users/revoke", pages.revoke_user, _OWNER),
    Way("GET", "/audit", log_views.page, _AUDITOR),
    Way("GET", "/audit/{name}", log_views.export, _AUDITOR),
    Way("GET", "/publish", publish.upload_page, _OWNER),
    Way("POST", "/publish", publish.upload, _OWNER),
    Way("GET", "/publish/{job}", publish.job_page, _OWNER),
    Way("POST", "/publish/{job}/run", publish.run, _OWNER),
    Way("POST", "/publish/{job}/compare", publish.compare, _OWNER),
    Way("POST", "/publish/{job}/confirm", publish.confirm, _OWNER),
    Way("POST", "/publish/{job}/cancel", publish.cancel, _OWNER),
    Way("POST", "/publish/{job}/forget", publish.forget, _OWNER),
    Way("GET", "/publish/{job}/events", publish.events, _OWNER),
    Way("GET", "/publish/{job}/files/{name}", publish.file, _OWNER),
)


def make_app(config: Config, jobs: Path | None = None) -> FastAPI:
    """The application for a configuration.

    Parameters
    ----------
    config : Config
    jobs : Path, optional
        Private folder for files being published; one of its own, removed at the end, if left open.

    Returns
    -------
    FastAPI
    """
    service, accounts = Service(config), Accounts(config.accounts, config.idle_minutes * 60)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        log.info(json.dumps({"event": "start", "version": __version__, "datasets": len(config.datasets)}))
        # What is loaded now stays, so that no answer waits while it is looked through for garbage.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        # Most of them wait for the end of a slot.
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        sweeping = asyncio.create_task(app.state.jobs.sweep_always())
        yield
        sweeping.cancel()
        app.state.jobs.close()
        service.close()
        accounts.close()
        log.info(json.dumps({"event": "stop"}))

    app = FastAPI(
        title="Shoal",
        version=__version__,
        description="Private answers about data sets that stay in the house.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        separate_input_output_schemas=False,
    )
    app.state.service, app.state.accounts, app.state.config = service, accounts, config
    app.state.rate, app.state.failures = (
        Buckets(config.requests_per_minute),
        Buckets(config.guesses_per_minute),
    )
    app.state.hashing = anyio.CapacityLimiter(HASHING)
    app.state.jobs, app.state.metrics = Jobs(jobs), metrics.Metrics()
    app.state.oidc = None if config.oidc is None else oidc.SignIn(config.oidc)
    app.state.names = Names(accounts.engine)
    app.state.requests = BudgetRequests(accounts.engine, service.ledger)
    for way in WAYS:
        is_api = way.path.startswith(("/api/", "/health"))
        answering: dict[str, Any] = {} if is_api else {"response_class": Response, "response_model": None}
        app.add_api_route(
            way.path.replace("{dataset}", "{dataset:path}"),  # an id may hold a slash
            way.view,
            methods=[way.method],
            include_in_schema=is_api,
            responses=api.PROBLEMS if is_api else None,
            operation_id=way.view.__name__ if is_api else None,
            dependencies=[Depends(require(way.roles)), *([Security(BEARER)] if is_api and way.roles else [])],
            **answering,
        )
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    for kind in (ShoalError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _handle)
    app.add_middleware(StrictHttp)
    app.add_middleware(
        HttpMiddleware,
        problem=problem,
        upload_bytes=config.upload_megabytes << 20,
        tls=config.tls,
        slot=config.slot_seconds,
        count=app.state.metrics.count,
    )
    return app


def from_environment() -> FastAPI:
    """The application of a worker process: configuration and private folder as the command left them."""
    return make_app(Config.from_toml(os.environ["SHOAL_CONFIG"]), Path(os.environ["SHOAL_JOBS"]))


async def _handle(request: Request, error: Exception) -> Response:
    return problem(request, error)


def problem(request: Request, error: Exception) -> Response:
    """The one error handler: status and sentence from the error, as JSON or as a page.

    A sentence quotes what was typed or the public schema. Of what breaks inside, only that it broke is said.
    """
    status, sentence = _told(error)
    known = [each.__name__ for each in type(error).__mro__ if each.__module__ == errors.__name__]
    if status >= 500:
        facts = {"event": "error", "id": request.state.request_id, "error": type(error).__name__}
        log.error(json.dumps(facts | _where(error)))
    if request.url.path.startswith(("/api/", "/health")):
        headers = {"www-authenticate": "Bearer"} if status == 401 else {}
        headers |= {"retry-after": "10"} if status in (429, 503) else {}
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


def _told(error: Exception) -> tuple[int, str]:
    if isinstance(error, ShoalError) and error.status < 500:
        return error.status, str(error)
    if isinstance(error, ShoalError):
        return error.status, "The ledger cannot be reached at the moment, so nothing was answered."
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


def _where(error: Exception) -> dict[str, Any]:
    """The place in the code, without any value."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return {"place": place}
