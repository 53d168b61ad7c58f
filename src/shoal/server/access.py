"""Who may ask what: the owner's page and API of rights and caps, and requests for more budget."""

from __future__ import annotations

import re
from typing import TypeVar

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from shoal.dp.budget import epsilon, micro
from shoal.dp.ledger.rights import Rights, Team
from shoal.errors import ParameterError
from shoal.server import api, pages
from shoal.server.accounts import NAME
from shoal.server.budget_requests import OPEN, REASON, BudgetRequest, BudgetRequests
from shoal.server.budgets import CurrencyWords, amount_named, number_of
from shoal.typing import Json

_TEAM = re.compile(r"\s*([a-z0-9][a-z0-9._@-]{0,63})\s+([0-9.]+)\s*:\s*(.+)")


class TeamFacts(BaseModel):
    """A budget that people share."""

    model_config = ConfigDict(extra="forbid")
    cap: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    members: list[str] = Field(max_length=1000)


class RightsFacts(BaseModel):
    """Who may ask a data set, up to which amount of what it is counted in (epsilon, or rho)."""

    model_config = ConfigDict(extra="forbid")
    everyone: bool = True
    people: dict[str, float | None] = Field(default_factory=dict, max_length=10_000)
    teams: dict[str, TeamFacts] = Field(default_factory=dict, max_length=1000)
    why: str = Field("", max_length=REASON)


class Wish(BaseModel):
    """More budget, and what for."""

    model_config = ConfigDict(extra="forbid")
    epsilon: float | None = Field(None, gt=0, le=1_000_000, allow_inf_nan=False)
    rho: float | None = Field(
        None,
        gt=0,
        le=1_000_000,
        allow_inf_nan=False,
        description="In place of epsilon, where rho is counted.",
    )
    reason: str = Field(min_length=1, max_length=REASON)


class Decision(BaseModel):
    """How much of a request is granted; 0 refuses it."""

    model_config = ConfigDict(extra="forbid")
    epsilon: float | None = Field(None, ge=0, le=1_000_000, allow_inf_nan=False)
    rho: float | None = Field(
        None,
        ge=0,
        le=1_000_000,
        allow_inf_nan=False,
        description="In place of epsilon, where rho is counted.",
    )
    note: str = Field("", max_length=REASON)


_Form = TypeVar("_Form", Wish, Decision)


def requests_of(request: Request) -> BudgetRequests:
    """The book of requests of the application that serves this request."""
    book: BudgetRequests = request.app.state.requests
    return book


def access(request: Request, dataset: str) -> Json:
    """For owners: who may ask a data set, up to which amount."""
    service = api.service_of(request)
    return shown(service.ledger.rights(dataset), service.currency(dataset).word)


def set_access(request: Request, dataset: str, facts: RightsFacts) -> Json:
    """For owners: state who may ask a data set from now on; an entry of the ledger."""
    people = {name: None if cap is None else _cap(cap) for name, cap in facts.people.items()}
    teams = {name: Team(_cap(each.cap), tuple(each.members)) for name, each in facts.teams.items()}
    word = api.service_of(request).currency(dataset).word
    return shown(_state(request, dataset, Rights(facts.everyone, people, teams), facts.why), word)


def wishes(request: Request) -> list[Json]:
    """Requests for more budget: yours, or everybody's for an owner; open ones first."""
    who = request.state.visitor
    return _told(request, requests_of(request).list(None if who.role == "owner" else who.name))


def wish(request: Request, dataset: str, wanted: Wish) -> Json:
    """Ask for more budget on a data set."""
    return _wish(request, dataset, wanted)


def decide(request: Request, identity: str, decision: Decision) -> Json:
    """For owners: grant a request, in part or in full, or refuse it; the decision is an entry of the ledger."""
    return _decide(request, identity, decision)


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
        rows=_told(request, found),
        owner=owner,
        left=left,
        budgets=budgets,
    )


async def wish_form(request: Request) -> Response:
    """Ask for more budget from the page."""
    form = await request.form()
    dataset, service = str(form.get("dataset", "")), api.service_of(request)
    await run_in_threadpool(service.require, dataset, request.state.visitor.name)
    word = service.currency(dataset).word
    facts = {word: number_of(str(form.get("amount", "")), word), "reason": str(form.get("reason", ""))}
    await run_in_threadpool(_wish, request, dataset, _read(Wish, facts))
    return RedirectResponse("/requests", 303)


async def decide_form(request: Request, identity: str) -> Response:
    """Decide a request from the page."""
    form = await request.form()
    refused = str(form.get("decision", "")) == "refuse"
    asked = await run_in_threadpool(requests_of(request).open_one, identity)
    word = CurrencyWords(api.service_of(request).ledger).of(asked.dataset)
    granted = 0.0 if refused else number_of(str(form.get("amount", "")), word)
    decision = _read(Decision, {word: granted, "note": str(form.get("note", ""))[:REASON]})
    await run_in_threadpool(_decide, request, identity, decision)
    return RedirectResponse("/requests", 303)


def access_page(request: Request, dataset: str) -> Response:
    """The owner's page of rights and caps."""
    service = api.service_of(request)
    spending = service.spending(dataset)
    rights = service.ledger.rights(dataset)
    return pages.render(
        request, "access.html.j2", name=dataset, spending=spending, rights=rights, people=_people(rights),
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
    total, own = (micro(number_of(str(form.get(name, "")), name), name) for name in ("budget", "per_analyst"))
    service, by = api.service_of(request), request.state.visitor.name
    service.session(dataset)
    await run_in_threadpool(service.ledger.set_caps, dataset, total, own, by)
    return RedirectResponse(f"/owner/access/{pages.quoted(dataset)}", 303)


def shown(rights: Rights, word: str) -> Json:
    """Rights as JSON tells them; caps in what the data set is counted in."""
    people = {name: None if cap is None else epsilon(cap) for name, cap in rights.people.items()}
    teams = {
        name: {"cap": epsilon(each.cap), "members": list(each.members)} for name, each in rights.teams.items()
    }
    return {"counted_in": word, "everyone": rights.everyone, "people": people, "teams": teams}


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
        found[_named(name)] = _cap(number_of(cap, name)) if cap.strip() else None
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
        found[parts[1]] = Team(_cap(number_of(parts[2], parts[1])), members)
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


def _wish(request: Request, dataset: str, wanted: Wish) -> Json:
    who, service = request.state.visitor.name, api.service_of(request)
    service.require(dataset, who)
    word = service.currency(dataset).word
    more = amount_named(word, wanted.epsilon, wanted.rho)
    return requests_of(request).add(dataset, who, more, wanted.reason).to_dict(word)


def _decide(request: Request, identity: str, decision: Decision) -> Json:
    book, by = requests_of(request), request.state.visitor.name
    word = CurrencyWords(api.service_of(request).ledger).of(book.open_one(identity).dataset)
    granted = amount_named(word, decision.epsilon, decision.rho)
    return book.decide(identity, by, granted, decision.note).to_dict(word)


def _told(request: Request, found: list[BudgetRequest]) -> list[Json]:
    words = CurrencyWords(api.service_of(request).ledger)
    return [each.to_dict(words.of(each.dataset)) for each in found]


def _read(kind: type[_Form], facts: Json) -> _Form:
    """What a form says, held to the same rules as JSON."""
    try:
        return kind(**facts)
    except ValidationError as error:
        first = error.errors()[0]
        raise ParameterError(f"{first['loc'][0]!r} is not as expected: {first['msg']}.") from None


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


def _named(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ParameterError(f"{name[:80]!r} is no name of an account: 1 to 64 of a-z, 0-9 and . _ @ -.")
    return name
