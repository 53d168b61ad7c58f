"""The application: its route table with who may go where, and its one error handler."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from fastapi import Depends, FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from shoal import __version__
from shoal.errors import ShoalError
from shoal.server import (
    access,
    api,
    ask,
    metrics,
    models,
    oidc,
    owner_datasets,
    pages,
    publish,
    publish_api,
    streams,
    tables,
    users,
    workloads,
)
from shoal.server import log as log_views
from shoal.server.accounts import Accounts
from shoal.server.auth import ANYONE, require
from shoal.server.budget_requests import BudgetRequests
from shoal.server.config import Config
from shoal.server.jobs import Jobs
from shoal.server.limits import Buckets
from shoal.server.middleware import HttpMiddleware
from shoal.server.names import Names
from shoal.server.once import IdempotencyKeys, once, stated
from shoal.server.problems import problem
from shoal.server.service import Service
from shoal.server.strict import StrictHttp
from shoal.typing import Keywords

THREADS = 160
BEARER = HTTPBearer(auto_error=False, description="The token that the owner gave; `require` proves it.")
HASHING = 2  # tokens that are hashed at a time: each takes 16 MB and a core for a while
log = logging.getLogger("shoal.server")
_SIGNED_IN = frozenset({"owner", "analyst", "auditor"})
_ASKING = frozenset({"owner", "analyst"})
_ANALYST, _OWNER, _AUDITOR = frozenset({"analyst"}), frozenset({"owner"}), frozenset({"auditor"})


@dataclass(frozen=True)
class Way:
    """One line of the route table.

    Parameters
    ----------
    method, path : str
    view : callable
        Its name is the operation's id in the description of the API, which stays.
    roles : frozenset of str, optional
    gives : type, optional
        What the API answers with.
    again : callable, optional
        Whether a request with an idempotency key may be done again after it was broken off (`once`).
    described : dict
        What else the description says.
    """

    method: str
    path: str
    view: Callable[..., Any]
    roles: frozenset[str] | None = None
    gives: Any = None
    again: Callable[..., bool] | None = None
    described: Keywords = field(default_factory=dict)

    @property
    def is_api(self) -> bool:
        """Whether it is part of the API."""
        return self.path.startswith(("/api/", "/health"))

    @property
    def changes(self) -> bool:
        """Whether it does something that must not be done twice by mistake."""
        return self.is_api and self.method == "POST" and self.view not in _FREE


_FREE = (
    api.cost,
    workloads.workload_cost,
    publish_api.publish_plan,
    tables.ask_table,
)  # asking twice does nothing


# The longer of two that fit comes first.
WAYS = (
    Way("GET", "/health", api.health, ANYONE, models.Health),
    Way("GET", "/health/live", api.live, ANYONE, models.Health),
    Way("GET", "/health/ready", api.ready, ANYONE, models.Health),
    Way("GET", "/metrics", metrics.page, ANYONE),
    Way("GET", "/api/v1/me", api.me, _SIGNED_IN, models.Me),
    Way("GET", "/api/v1/datasets", api.datasets, _SIGNED_IN, list[models.DatasetFacts]),
    Way("GET", "/api/v1/datasets/{dataset}/budget", api.budget, _ANALYST, models.BudgetFacts),
    Way(
        "POST",
        "/api/v1/datasets/{dataset}/workload/cost",
        workloads.workload_cost,
        _ANALYST,
        models.WorkloadFacts,
    ),
    Way(
        "POST",
        "/api/v1/datasets/{dataset}/releases/jobs",
        tables.start_release,
        _ANALYST,
        models.ReleaseJobFacts,
    ),
    Way(
        "GET",
        "/api/v1/datasets/{dataset}/releases/jobs/{job}",
        tables.release_job,
        _ANALYST,
        models.ReleaseJobFacts,
    ),
    Way(
        "POST",
        "/api/v1/datasets/{dataset}/releases/jobs/{job}/cancel",
        tables.release_cancel,
        _ANALYST,
        models.ReleaseJobFacts,
    ),
    Way(
        "GET",
        "/api/v1/datasets/{dataset}/releases/{entry}/rows",
        tables.release_rows,
        _ANALYST,
        described={"responses": api.PROBLEMS | tables.CSV, "response_class": Response},
    ),
    Way(
        "POST",
        "/api/v1/datasets/{dataset}/releases/{entry}/ask",
        tables.ask_table,
        _ANALYST,
        models.AnswerFacts,
    ),
    Way("POST", "/api/v1/datasets/{dataset}/cost", api.cost, _ANALYST, models.CostFacts),
    Way("POST", "/api/v1/datasets/{dataset}/ask", api.ask, _ANALYST, models.AnswerFacts, api.is_unspent),
    Way("POST", "/api/v1/datasets/{dataset}/workload", workloads.workload, _ANALYST, models.WorkloadFacts),
    Way("POST", "/api/v1/datasets/{dataset}/releases", api.release, _ANALYST, models.ReleaseFacts),
    Way("GET", "/api/v1/datasets/{dataset}/releases", api.releases, _ANALYST, list[models.HeldRelease]),
    Way(
        "POST",
        "/api/v1/datasets/{dataset}/streams/{stream}/periods",
        streams.stream_period,
        _OWNER,
        models.StreamFacts,
    ),
    Way("POST", "/api/v1/datasets/{dataset}/streams", streams.new_stream, _ANALYST, models.StreamFacts),
    Way("GET", "/api/v1/datasets/{dataset}/streams", streams.streams, _ASKING, list[models.StreamFacts]),
    Way("GET", "/api/v1/datasets/{dataset}/answers", api.answers, _ANALYST, list[models.PastAnswer]),
    Way("GET", "/api/v1/datasets/{dataset}/spending", api.spending, _OWNER, models.SpendingFacts),
    Way("GET", "/api/v1/datasets/{dataset}/access", access.access, _OWNER, models.AccessFacts),
    Way("PUT", "/api/v1/datasets/{dataset}/access", access.set_access, _OWNER, models.AccessFacts),
    Way("POST", "/api/v1/datasets/{dataset}/requests", access.wish, _ANALYST, models.RequestFacts),
    Way("GET", "/api/v1/requests", access.wishes, _ASKING, list[models.RequestFacts]),
    Way("POST", "/api/v1/requests/{identity}", access.decide, _OWNER, models.RequestFacts),
    Way("GET", "/api/v1/datasets/{dataset}", api.dataset, _SIGNED_IN, models.DatasetFacts),
    Way("GET", "/api/v1/log", api.entries, _AUDITOR, list[models.EntryFacts]),
    Way("GET", "/api/v1/log/questions", log_views.questions, _AUDITOR, models.QuestionPage),
    Way("GET", "/api/v1/log/check", api.check, _AUDITOR, models.CheckFacts),
    Way("GET", "/api/v1/log/head", log_views.head, _AUDITOR, models.SignedHeadFacts),
    Way("GET", "/api/v1/users", users.list_users, _OWNER, list[models.UserFacts]),
    Way("POST", "/api/v1/users", users.create_user, _OWNER, models.NewToken),
    Way("POST", "/api/v1/users/{name}/rotate", users.rotate_token, _OWNER, models.NewToken),
    Way("DELETE", "/api/v1/users/{name}", users.disable_user, _OWNER, models.UserFacts),
    Way("GET", "/api/v1/publish", publish_api.publish_jobs, _OWNER, list[models.JobFacts]),
    Way(
        "POST",
        "/api/v1/publish",
        publish_api.publish_upload,
        _OWNER,
        models.JobFacts,
        described={"openapi_extra": publish_api.UPLOAD},
    ),
    Way("GET", "/api/v1/publish/{job}", publish_api.publish_job, _OWNER, models.JobFacts),
    Way("DELETE", "/api/v1/publish/{job}", publish_api.publish_remove, _OWNER, models.JobGone),
    Way("POST", "/api/v1/publish/{job}/plan", publish_api.publish_plan, _OWNER, models.PlanFacts),
    Way("POST", "/api/v1/publish/{job}/run", publish_api.publish_run, _OWNER, models.JobFacts),
    Way("POST", "/api/v1/publish/{job}/compare", publish_api.publish_compare, _OWNER, models.JobFacts),
    Way("POST", "/api/v1/publish/{job}/confirm", publish_api.publish_confirm, _OWNER, models.JobFacts),
    Way("POST", "/api/v1/publish/{job}/cancel", publish_api.publish_cancel, _OWNER, models.JobFacts),
    Way(
        "GET",
        "/api/v1/publish/{job}/files/{name}",
        publish_api.publish_file,
        _OWNER,
        described={"responses": api.PROBLEMS | publish_api.FILE, "response_class": Response},
    ),
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
    Way("GET", "/ask/{dataset}/tables/events/{job}", tables.events, _ANALYST),
    Way("POST", "/ask/{dataset}/tables/cancel/{job}", tables.cancel_form, _ANALYST),
    Way("GET", "/ask/{dataset}/tables/{name}", tables.table_page, _ANALYST),
    Way("POST", "/ask/{dataset}/tables/{name}", tables.ask_form, _ANALYST),
    Way("GET", "/ask/{dataset}/tables", tables.tables_page, _ANALYST),
    Way("POST", "/ask/{dataset}/tables", tables.buy_form, _ANALYST),
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
    Way("GET", "/owner/users/token", users.token_page, _OWNER),
    Way("POST", "/owner/users", users.add_form, _OWNER),
    Way("POST", "/owner/users/rotate", users.rotate_form, _OWNER),
    Way("POST", "/owner/users/revoke", users.revoke_form, _OWNER),
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


def make_app(config: Config, jobs: Path | None = None, loaded: Path | None = None) -> FastAPI:
    """The application for a configuration.

    Parameters
    ----------
    config : Config
    jobs : Path, optional
        Private folder for files being published; one of its own, removed at the end, if left open.
    loaded : Path, optional
        The same for loaded tables.

    Returns
    -------
    FastAPI
    """
    service = Service(config, tables=loaded)
    accounts = Accounts(config.accounts, config.idle_minutes * 60)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        log.info(json.dumps({"event": "start", "version": __version__, "datasets": len(config.datasets)}))
        # What is loaded now stays, so that no answer waits while it is looked through for garbage.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        # Most of them wait for the end of a slot.
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        sweeping = asyncio.create_task(app.state.jobs.sweep_always(service.files.sweep))
        yield
        sweeping.cancel()
        await asyncio.to_thread(app.state.tables.close)
        app.state.jobs.close()
        service.close()
        accounts.close()
        log.info(json.dumps({"event": "stop"}))

    app = FastAPI(
        title="Shoal",
        version=__version__,
        description="Private answers about data sets that stay on the server.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        separate_input_output_schemas=False,
    )
    app.state.service, app.state.accounts, app.state.config = service, accounts, config
    app.state.signing = config.signing()
    app.state.rate, app.state.failures = (
        Buckets(config.requests_per_minute),
        Buckets(config.guesses_per_minute),
    )
    per_hour = config.sign_ins_per_hour
    app.state.sign_ins = Buckets(per_hour / 60, max(1, per_hour // 3))
    app.state.hashing = anyio.CapacityLimiter(HASHING)
    app.state.jobs, app.state.metrics = Jobs(jobs), metrics.Metrics()
    app.state.tables = tables.TableMaker()
    app.state.oidc = None if config.oidc is None else oidc.SignIn(config.oidc)
    app.state.names, app.state.keys = Names(accounts.engine), IdempotencyKeys(accounts.engine)
    app.state.requests = BudgetRequests(accounts.engine, service.ledger)
    for way in WAYS:
        _add_route(app, way)
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


def _add_route(app: FastAPI, way: Way) -> None:
    checks = [Depends(require(way.roles))]
    facts: Keywords = {"response_class": Response, "response_model": None, "include_in_schema": False}
    view = way.view
    if way.is_api:
        facts = {
            "response_model": way.gives, "response_model_exclude_unset": True, "responses": api.PROBLEMS,
            "operation_id": view.__name__,
        }  # fmt: skip
        checks += [Security(BEARER)] if way.roles else []
    if way.changes:
        view = once(view, way.again)
        checks.append(Depends(stated))
    app.add_api_route(
        way.path.replace("{dataset}", "{dataset:path}"),  # an id may hold a slash
        view,
        methods=[way.method],
        dependencies=checks,
        **facts | way.described,
    )


def from_environment() -> FastAPI:
    """The application of a worker process: configuration and private folders as the command left them."""
    folders = (Path(os.environ[name]) for name in ("SHOAL_JOBS", "SHOAL_TABLES"))
    return make_app(Config.from_toml(os.environ["SHOAL_CONFIG"]), *folders)


async def _handle(request: Request, error: Exception) -> Response:
    return problem(request, error)
