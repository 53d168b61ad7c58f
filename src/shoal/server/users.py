"""Accounts as owners see them: by page and over the API, every change an entry of the ledger."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from shoal.errors import ParameterError
from shoal.server import api, pages
from shoal.server.accounts import Account, Accounts
from shoal.server.models import NewToken, UserFacts
from shoal.server.once import IdempotencyKeys
from shoal.server.refusals import UnknownError
from shoal.typing import Json


class NewUser(BaseModel):
    """An account to be made."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._@-]{0,63}$")
    role: str = Field(examples=["analyst"], description="owner, analyst, auditor or agent.")
    days: float = Field(90, gt=0, le=3650, allow_inf_nan=False, description="After which its token expires.")


class Rotation(BaseModel):
    """How long a new token lasts."""

    model_config = ConfigDict(extra="forbid")
    days: float = Field(90, gt=0, le=3650, allow_inf_nan=False)


def list_users(request: Request) -> list[UserFacts]:
    """For owners: all accounts, revoked and expired ones included."""
    return [UserFacts(**_facts(each)) for each in accounts_of(request).list()]


def create_user(request: Request, user: NewUser) -> NewToken:
    """For owners: make an account; its token is in this answer and nowhere else."""
    token = _add(request, user.name, user.role, user.days)
    return NewToken(**_facts(_newest(request, user.name)), token=token)


def rotate_token(request: Request, name: str, rotation: Rotation) -> NewToken:
    """For owners: give an account a new token; the one before stops working at once, and its sessions end."""
    _known(request, name)
    token = _rotate(request, name, rotation.days)
    return NewToken(**_facts(_newest(request, name)), token=token)


def disable_user(request: Request, name: str) -> UserFacts:
    """For owners: close an account; what it has spent stays spent. The last owner is not locked out."""
    _known(request, name)
    _revoke(request, name)
    return UserFacts(**_facts(_newest(request, name)))


async def add_form(request: Request) -> Response:
    """Make an account from the page; its token is shown on the page that follows, once."""
    form = await request.form()
    name, role = str(form.get("name", "")).strip(), str(form.get("role", ""))
    try:
        days = float(str(form.get("days", "90")))
    except ValueError:
        raise ParameterError(f"'days' must be a number. Got {str(form.get('days'))[:40]!r}.") from None
    token = await run_in_threadpool(_add, request, name, role, days)
    return await run_in_threadpool(_hand_over, request, name, token)


async def revoke_form(request: Request) -> Response:
    """Close an account, once that was confirmed."""
    form = await request.form()
    name = str(form.get("name", ""))
    if form.get("sure") != "yes":
        return pages.render(request, "revoke.html.j2", name=name)
    await run_in_threadpool(_revoke, request, name)
    return RedirectResponse("/owner#users", 303)


async def rotate_form(request: Request) -> Response:
    """Give an account a new token, once that was confirmed."""
    form = await request.form()
    name = str(form.get("name", ""))
    if form.get("sure") != "yes":
        return pages.render(request, "rotate.html.j2", name=name)
    token = await run_in_threadpool(_rotate, request, name, 90.0)
    return await run_in_threadpool(_hand_over, request, name, token)


def token_page(request: Request, once: str = "") -> Response:
    """The token of a new account: whoever loads the page again is told that it was shown."""
    keys: IdempotencyKeys = request.app.state.keys
    found = keys.take(request.state.visitor.name, once) if len(once) <= 100 else None
    name, _, token = (b"" if found is None else found).decode().partition("\n")
    return pages.render(request, "token.html.j2", name=name, token=token)


def accounts_of(request: Request) -> Accounts:
    """The book of accounts of the application that serves this request."""
    book: Accounts = request.app.state.accounts
    return book


def _hand_over(request: Request, name: str, token: str) -> Response:
    keys: IdempotencyKeys = request.app.state.keys
    once = keys.put(request.state.visitor.name, f"{name}\n{token}".encode())
    return RedirectResponse(f"/owner/users/token?once={once}", 303)


def _facts(account: Account) -> Json:
    facts = {name: getattr(account, name) for name in ("name", "role", "created", "expires", "revoked")}
    return facts | {"active": account.active}


def _add(request: Request, name: str, role: str, days: float) -> str:
    token = accounts_of(request).add(name, role, days)
    _note(request, "account added", f"{name}, {role}, {days:g} days")
    return token


def _rotate(request: Request, name: str, days: float) -> str:
    token = accounts_of(request).rotate(name, days)
    _note(request, "token renewed", f"{name}, {days:g} days")
    return token


def _revoke(request: Request, name: str) -> None:
    accounts_of(request).revoke(name)
    _note(request, "account revoked", name)


def _note(request: Request, event: str, text: str) -> None:
    api.service_of(request).ledger.note(event, request.state.visitor.name, text)


def _known(request: Request, name: str) -> None:
    if not any(each.name == name and each.active for each in accounts_of(request).list()):
        raise UnknownError("There is no active account of this name.")


def _newest(request: Request, name: str) -> Account:
    return max(
        (each for each in accounts_of(request).list() if each.name == name), key=lambda each: each.created
    )
