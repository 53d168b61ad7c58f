"""Who may ask what: the owner's page and API of rights and caps, and requests for more budget."""

from __future__ import annotations

import re
from typing import Any

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from shoal.dp.budget import epsilon, micro
from shoal.dp.ledger.rights import Rights, Team
from shoal.errors import ParameterError
from shoal.server import api, pages
from shoal.server.accounts import NAME
from shoal.server.budget_requests import OPEN, REASON, BudgetRequests

_TEAM = re.compile(r"\s*([a-z0-9][a-z0-9._@-]{0,63})\s+([0-9.]+)\s*:\s*(.+)")


class TeamFacts(BaseModel):
    """A budget that people share."""

    model_config = ConfigDict(extra="forbid")
    cap: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    members: list[str] = Field(max_length=1000)


class RightsFacts(BaseModel):
    """Who may ask a data set, up to which epsilon."""

    model_config = ConfigDict(extra="forbid")
    everyone: bool = True
    people: dict[str, float | None] = Field(default_factory=dict, max_length=10_000)
    teams: dict[str, TeamFacts] = Field(default_factory=dict, max_length=1000)
    why: str = Field("", max_length=REASON)


class Wish(BaseModel):
    """More budget, and what for."""

    model_config = ConfigDict(extra="forbid")
    epsilon: float = Field(gt=0, le=1_000_000, allow_inf_nan=False)
    reason: str = Field(min_length=1, max_length=REASON)


class Decision(BaseModel):
    """How much of a request is granted; 0 refuses it."""

    model_config = ConfigDict(extra="forbid")
    epsilon: float = Field(ge=0, le=1_000_000, allow_inf_nan=False)
    note: str = Field("", max_length=REASON)


def requests_of(request: Request) -> BudgetRequests:
    """The book of requests of the application that serves this request."""
    book: BudgetRequests = request.app.state.requests
    return book


def access(request: Request, dataset: str) -> dict[str, Any]:
    """For owners: who may ask a data set, up to which epsilon."""
    service = api.service_of(request)
    service.session(dataset)
    return shown(service.ledger.rights(dataset))


def set_access(request: Request, dataset: str, facts: RightsFacts) -> dict[str, Any]:
    """For owners: state who may ask a data set from now on; an entry of the ledger."""
    people = {name: None if cap is None else _cap(cap) for name, cap in facts.people.items()}
    teams = {name: Team(_cap(each.cap), tuple(each.members)) for name, each in facts.teams.items()}
    return shown(_state(request, dataset, Rights(facts.everyone, people, teams), facts.why))


def wishes(request: Request) -> list[dict[str, Any]]:
    """Requests for more budget: yours, or everybody's for an owner; open ones first."""
    who = request.state.visitor
    found = requests_of(request).list(None if who.role == "owner" else who.name)
    return [each.to_dict() for each in found]


def wish(request: Request, dataset: str, wanted: Wish) -> dict[str, Any]:
    """Ask for more budget on a data set."""
    return _wish(request, dataset, wanted.epsilon, wanted.reason)


def decide(request: Request, identity: str, decision: Decision) -> dict[str, Any]:
    """For owners: grant a request, in part or in full, or refuse it; the decision is an entry of the ledger."""
    granted = _cap(decision.epsilon)
    by = request.state.visitor.name
    return requests_of(request).decide(identity, by, granted, decision.note).to_dict()


def requests_page(request: Request) -> Response:
    """Requests for more budget, as page."""
    service, who = api.service_of(request), request.state.visitor
    owner = who.role == "owner"
    found = requests_of(request).list(None if owner else who.name)
    left = {}
    for each in found:
        if owner and each.state == OPEN and each.dataset in service.datasets:
            left[each.id] = service.budget_of(each.dataset, each.analyst)
    names = [] if owner else service.names(who)
    budgets = {name: service.budget(name, who.name) for name in names}
    return pages.render(
        request,
        "requests.html.j2",
        rows=[each.to_dict() for each in found],
        owner=owner,
        left=left,
        budgets=budgets,
    )


async def wish_form(request: Request) -> Response:
    """Ask for more budget from the page."""
    form = await request.form()
    facts = (str(form.get("dataset", "")), _number(str(form.get("epsilon", ""))), str(form.get("reason", "")))
    await run_in_threadpool(_wish, request, *facts)
    return RedirectResponse("/requests", 303)


async def decide_form(request: Request, identity: str) -> Response:
    """Decide a request from the page."""
    form = await request.form()
    refused = str(form.get("decision", "")) == "refuse"
    granted = 0 if refused else _cap(_number(str(form.get("epsilon", ""))))
    by, note = request.state.visitor.name, str(form.get("note", ""))
    await run_in_threadpool(requests_of(request).decide, identity, by, granted, note)
    return RedirectResponse("/requests", 303)


def access_page(request: Request, dataset: str) -> Response:
    """The owner's page of rights and caps."""
    service = api.service_of(request)
    spending = service.spending(dataset)
    rights = service.ledger.rights(dataset)
    return pages.render(
        request, "access.html.j2", name=dataset, spending=spending, rights=shown(rights), people=_people(rights),
        teams=_teams(rights),
    )  # fmt: skip


async def set_access_form(request: Request, dataset: str) -> Response:
    """State rights from the page."""
    form = await request.form()
    everyone = str(form.get("everyone", ""))
    if everyone not in ("yes", "no"):  # an empty form must not close a data set to everyone
        raise ParameterError(f"'everyone' must be yes or no. Got {everyone[:20]!r}.")
    rights = Rights(
        everyone == "yes",
        read_people(str(form.get("people", ""))),
        read_teams(str(form.get("teams", ""))),
    )
    await run_in_threadpool(_state, request, dataset, rights, str(form.get("why", "")))
    return RedirectResponse(f"/owner/access/{pages.quoted(dataset)}", 303)


async def set_caps_form(request: Request, dataset: str) -> Response:
    """State caps from the page; what is raised cannot be taken back once it is spent, so the name is typed."""
    form = await request.form()
    if str(form.get("sure", "")).strip() != dataset:
        raise ParameterError(f"Type the name of the data set, {dataset!r}, to state its caps anew.")
    total, own = (micro(_number(str(form.get(name, ""))), name) for name in ("budget", "per_analyst"))
    service, by = api.service_of(request), request.state.visitor.name
    service.session(dataset)
    await run_in_threadpool(service.ledger.set_caps, dataset, total, own, by)
    return RedirectResponse(f"/owner/access/{pages.quoted(dataset)}", 303)


def shown(rights: Rights) -> dict[str, Any]:
    """Rights as JSON tells them."""
    people = {name: None if cap is None else epsilon(cap) for name, cap in rights.people.items()}
    teams = {
        name: {"cap": epsilon(each.cap), "members": list(each.members)} for name, each in rights.teams.items()
    }
    return {"everyone": rights.everyone, "people": people, "teams": teams}


def read_people(text: str) -> dict[str, int | None]:
    r"""One analyst a line, with a cap of their own or without.

    Examples
    --------
    >>> from shoal.server.access import read_people
    >>> read_people("ann 2.5\nben")
    {'ann': 2500000, 'ben': None}
    """
    found: dict[str, int | None] = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, _, cap = line.partition(" ")
        found[_named(name)] = _cap(_number(cap)) if cap.strip() else None
    return found


def read_teams(text: str) -> dict[str, Team]:
    """One team a line: its name, its cap, a colon, its members.

    Examples
    --------
    >>> from shoal.server.access import read_teams
    >>> read_teams("health 5: ann, ben")
    {'health': Team(cap=5000000, members=('ann', 'ben'))}
    """
    found = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        parts = _TEAM.fullmatch(line)
        if parts is None:
            raise ParameterError(f"A team must be a line such as 'health 5: ann, ben'. Got {line[:80]!r}.")
        members = tuple(dict.fromkeys(_named(each.strip()) for each in parts[3].split(",") if each.strip()))
        found[parts[1]] = Team(_cap(_number(parts[2])), members)
    return found


def _state(request: Request, dataset: str, rights: Rights, why: str) -> Rights:
    for name in (
        *rights.people,
        *rights.teams,
        *(each for team in rights.teams.values() for each in team.members),
    ):
        _named(name)
    service, by = api.service_of(request), request.state.visitor.name
    service.session(dataset)
    return service.ledger.set_rights(dataset, lambda _: rights, by, why.strip()[:REASON])


def _wish(request: Request, dataset: str, amount: float, reason: str) -> dict[str, Any]:
    who, service = request.state.visitor.name, api.service_of(request)
    service.require(dataset, who)
    return requests_of(request).add(dataset, who, micro(amount), reason).to_dict()


def _people(rights: Rights) -> str:
    return "\n".join(
        name if cap is None else f"{name} {epsilon(cap):g}" for name, cap in rights.people.items()
    )


def _teams(rights: Rights) -> str:
    return "\n".join(
        f"{name} {epsilon(each.cap):g}: {', '.join(each.members)}" for name, each in rights.teams.items()
    )


def _cap(amount: float) -> int:
    return micro(amount) if amount else 0


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise ParameterError(f"'epsilon' must be a number. Got {text.strip()[:40]!r}.") from None
    if not 0 <= found <= 1_000_000:
        raise ParameterError(f"'epsilon' must be a number from 0 to 1000000. Got {text.strip()[:40]!r}.")
    return found


def _named(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ParameterError(f"{name[:80]!r} is no name of an account: 1 to 64 of a-z, 0-9 and . _ @ -.")
    return name
