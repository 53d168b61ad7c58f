"""The views that give pages, and how a page is made: sign-in and the owner's."""

from __future__ import annotations

import datetime
import functools
import hmac
import secrets
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool

from shoal import __version__
from shoal.dp.answering.answer import Answer
from shoal.dp.budget import rounded_up_text
from shoal.dp.workload import WorkloadAnswer
from shoal.server import api, pictures
from shoal.server.accounts import ROLES, VISIT_SECONDS, Account
from shoal.server.auth import (
    COOKIE,
    FORM_COOKIE,
    ForbiddenError,
    address_of,
    cookie_name,
    is_secure,
    prove,
    same_origin,
)
from shoal.server.limits import TooOftenError
from shoal.server.shown import number

_HOMES = {"owner": "/owner", "analyst": "/ask", "auditor": "/audit"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def home(request: Request) -> Response:
    """Where this role works."""
    return RedirectResponse(_HOMES[request.state.visitor.role], 303)


def sign_in_page(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name in the address
    """The page that takes a token."""
    return _sign_in_page(request, local(next))


async def sign_in(request: Request) -> Response:
    """Check a token and open a visit."""
    form = await request.form(max_files=0, max_fields=10)
    form_key, cookie = (
        str(form.get("form_key", "")),
        request.cookies.get(cookie_name(request, FORM_COOKIE), ""),
    )
    if not cookie or not hmac.compare_digest(form_key.encode(), cookie.encode()) or not same_origin(request):
        raise ForbiddenError("The form is out of date; go back, load the page again and repeat.")
    target = local(str(form.get("next", "/")))
    account = await prove(request, str(form.get("token", "")).strip())
    if account is None:
        return _sign_in_page(request, target, "That token is not known, or was revoked, or has expired.", 401)
    return await enter(request, account, RedirectResponse(target, 303), "by token")


async def enter(request: Request, account: Account, response: Response, how: str) -> Response:
    """Open a session for an account that proved itself; the sign-in is in the ledger's log."""
    address, agent = address_of(request), request.headers.get("user-agent", "")
    request.state.account = account.name
    if not request.app.state.sign_ins.take(account.id):  # each is an entry of the ledger
        raise TooOftenError("You signed in too often; wait a few minutes and try again.")
    await run_in_threadpool(api.service_of(request).ledger.note, "sign-in", account.name, how)
    cookie = await run_in_threadpool(request.app.state.accounts.enter, account, address, agent)
    _set_cookie(request, response, COOKIE, cookie, VISIT_SECONDS)
    return response


def account_page(request: Request) -> Response:
    """Where somebody is signed in."""
    found = request.app.state.accounts.signed_in(
        request.state.visitor, request.cookies.get(cookie_name(request, COOKIE), "")
    )
    idle = request.app.state.config.idle_minutes
    return render(request, "account.html.j2", sessions=found, idle=f"{idle:g}")


async def end_sessions(request: Request) -> Response:
    """Sign out one session of one's own, or all."""
    form = await request.form()
    session = str(form.get("session", "")) or None
    await run_in_threadpool(request.app.state.accounts.end, request.state.visitor, session)
    return RedirectResponse("/account" if session else "/sign-in", 303)


def sign_out(request: Request) -> Response:
    """End the visit."""
    request.app.state.accounts.leave(request.cookies.get(cookie_name(request, COOKIE), ""))
    response = RedirectResponse("/sign-in", 303)
    response.delete_cookie(cookie_name(request, COOKIE), path="/", secure=is_secure(request))
    return response


def render(request: Request, template: str, code: int = 200, **facts: Any) -> HTMLResponse:
    """A page from its template."""
    visitor = getattr(request.state, "visitor", None)
    text = (
        _environment()
        .get_template(template)
        .render(
            visitor=visitor,
            csrf=getattr(request.state, "csrf", None) or "",
            publishing=request.app.state.config.publish,
            version=__version__,
            path=request.url.path,
            **facts,
        )
    )
    return HTMLResponse(text, code)


def quoted(name: str) -> str:
    """A name as part of an address."""
    return quote(name, safe="")


def escape_cell(text: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA) else text


def owner(request: Request) -> Response:
    """The owner's page."""
    service = api.service_of(request)
    rows = []
    for each, facts in list(service.datasets.items()):
        spending = service.spending(each)
        rows.append((each, facts, spending, pictures.spending(spending), service.quality(each)))
    users = request.app.state.accounts.list()
    return render(
        request,
        "owner.html.j2",
        rows=rows,
        users=users,
        roles=ROLES,
        fixed=service.config.datasets,
    )


def _sign_in_page(request: Request, target: str, error: str = "", status: int = 200) -> Response:
    form_key = request.cookies.get(cookie_name(request, FORM_COOKIE)) or secrets.token_urlsafe(24)
    oidc = request.app.state.config.oidc
    provider = None if oidc is None else oidc.label
    response = render(
        request,
        "sign_in.html.j2",
        code=status,
        form_key=form_key,
        next=target,
        error=error,
        provider=provider,
    )
    _set_cookie(request, response, FORM_COOKIE, form_key, 3600)
    return response


def _set_cookie(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        cookie_name(request, name), value, max_age=seconds, path="/", httponly=True, samesite="strict",
        secure=is_secure(request),
    )  # fmt: skip


def local(target: str) -> str:
    """A path on this site; anything else leads home."""
    plain = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if plain and len(target) < 200 else "/"


def _when(at: float | str) -> str:
    moment = (
        datetime.datetime.fromisoformat(at)
        if isinstance(at, str)
        else datetime.datetime.fromtimestamp(at, datetime.UTC)
    )
    return moment.strftime("%Y-%m-%d %H:%M")


def _address(name: str) -> str:
    """A name as part of an address: whatever it holds."""
    return quote(name, safe="")


def _charged(answer: Answer | WorkloadAnswer) -> str:
    """What an answer cost, in what its data set is counted in."""
    if answer.rho is None or answer.delta is None:
        return f"epsilon {answer.epsilon:g}"
    return f"rho {answer.rho:g} (alone ({rounded_up_text(answer.epsilon)}, {answer.delta:g})-DP)"


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("shoal.server"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"when": _when, "number": number, "address": _address, "charged": _charged}
    return environment
