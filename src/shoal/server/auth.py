"""Before every view: who is it, may they, and did they mean it."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from shoal.errors import ShoalError
from shoal.server.accounts import Account
from shoal.server.limits import TooOftenError

ANYONE: frozenset[str] | None = None
COOKIE, FORM_COOKIE = "shoal_visit", "shoal_form"
_SAFE = ("GET", "HEAD")
MOST_FILES = 60  # of one form: a table, its codebook, and a hierarchy for each of its columns


class SignInError(ShoalError):
    """Nobody is signed in, or the token is not known, revoked or expired."""

    status = 401


class ForbiddenError(ShoalError):
    """The role of this account may not do that."""

    status = 403


def require(roles: frozenset[str] | None) -> Callable[[Request], Awaitable[None]]:
    """A dependency that lets only these roles through, and puts the account on the request."""

    async def check(request: Request) -> None:
        request.state.account = request.state.visitor = request.state.csrf = None
        if roles is ANYONE:
            return
        account, csrf = await _who(request)
        if request.app.state.service.is_stale():
            await run_in_threadpool(request.app.state.service.reload)
        request.state.visitor, request.state.csrf, request.state.account = account, csrf, account.name
        if not request.app.state.rate.take(account.id):
            raise TooOftenError("Too many requests; wait a moment and try again.")
        if roles is not None and account.role not in roles:
            raise ForbiddenError(f"This is not for the role {account.role!r}.")
        if csrf is not None and request.method not in _SAFE:
            await _meant(request, csrf)
        dataset = request.path_params.get("dataset")
        if dataset is not None and account.role not in ("owner", "auditor"):
            service = request.app.state.service
            if not service.lets_in(dataset, account.name):
                await run_in_threadpool(service.require, dataset, account.name)

    return check


async def _who(request: Request) -> tuple[Account, str | None]:
    header = request.headers.get("authorization", "")
    if header:
        scheme, _, token = header.partition(" ")
        account = await prove(request, token.strip()) if scheme.lower() == "bearer" else None
        if account is None:
            raise SignInError("The token is not known, or was revoked, or has expired.")
        return account, None
    cookie = request.cookies.get(cookie_name(request, COOKIE))
    found: Any = await run_in_threadpool(request.app.state.accounts.visit, cookie) if cookie else None
    if found is None:
        raise SignInError("Sign in first, or send a token as 'Authorization: Bearer ...'.")
    account, csrf = found
    return account, csrf


async def identify(request: Request) -> Account:
    """The account of a request outside the route table's roles."""
    return (await _who(request))[0]


async def is_still_in(request: Request) -> bool:
    """Whether who asked would still be let in, for an answer that goes on for minutes."""
    token = request.headers.get("authorization", "")
    cookie = None if token else request.cookies.get(cookie_name(request, COOKIE), "")
    found: bool = await run_in_threadpool(request.app.state.accounts.is_open, request.state.visitor, cookie)
    return found


def is_secure(request: Request) -> bool:
    """Whether the browser came by TLS, to this server or to a proxy that is trusted."""
    return bool(request.app.state.config.tls) or request.url.scheme == "https"


def cookie_name(request: Request, name: str) -> str:
    """Under TLS a name that only this very host can set a cookie under."""
    return f"__Host-{name}" if is_secure(request) else name


async def prove(request: Request, token: str) -> Account | None:
    """The account of a token; guesses from one address are limited before any work is done for them.

    Hashing takes memory and a core, so at most two run at a time. Whose turn it is uses up a guess before the work and
    gets it back if right, so that many guesses sent at once are no more than many sent one by one, and many people who
    come at once only wait.
    """
    accounts, failures = request.app.state.accounts, request.app.state.failures
    known: Account | None = accounts.recall(token)
    if known is not None:
        return known
    if accounts.is_proven(token):
        found: Account | None = await run_in_threadpool(accounts.find, token)
        return found
    address = network_of(address_of(request))
    async with request.app.state.hashing:
        if not failures.take(address):
            raise TooOftenError("Too many tokens that were not known; wait a minute and try again.")
        account: Account | None = await run_in_threadpool(accounts.find, token)
        if account is not None:
            failures.give_back(address)
        return account


def address_of(request: Request) -> str:
    """Where a request comes from: the client that trusted proxies name, or who is connected."""
    return request.client.host if request.client else "?"


def network_of(address: str) -> str:
    """Whose guesses are counted together: an address, or of version 6 the network that one household has.

    Examples
    --------
    >>> from shoal.server.auth import network_of
    >>> network_of("10.0.0.7"), network_of("2001:db8::1:2:3:4"), network_of("?")
    ('10.0.0.7', '2001:db8::/64', '?')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    mapped = found.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))


async def _meant(request: Request, csrf: str) -> None:
    """A browser sends its cookie by itself, so a change needs the visit's own token as well."""
    given = request.headers.get("x-csrf-token")
    if given is None and request.headers.get("content-type", "").startswith(
        ("application/x-www-form-urlencoded", "multipart/form-data")
    ):
        form = await request.form(max_files=MOST_FILES, max_fields=20_000)
        given = str(form.get("csrf", ""))
    if not same_origin(request) or not hmac.compare_digest((given or "").encode(), csrf.encode()):
        raise ForbiddenError("The form is out of date; go back, load the page again and repeat.")


def same_origin(request: Request) -> bool:
    """Whether the browser says the request comes from this site; those that say nothing are not browsers."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    return site in ("same-origin", "none") and (
        origin is None or origin == "null" or urlsplit(origin).netloc == host
    )
