"""`shoal mcp`: data sets for software agents, over the model context protocol.

An agent is an account of its own with a small cap. It gets what an analyst gets, charged to the same ledger: public facts,
costs, answers with their guarantee and interval, and the entry of the ledger by which a quoted figure can be verified.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from shoal import __version__
from shoal.errors import MissingExtraError, ParameterError, QueryError, ShoalError
from shoal.server.accounts import Account, Accounts
from shoal.server.accuracy import Forecast
from shoal.server.config import Config
from shoal.server.limits import Buckets
from shoal.server.refusals import sentence_of
from shoal.server.service import Service
from shoal.typing import Json

try:
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.provider import AccessToken
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:
    raise MissingExtraError("mcp", "agents") from None

ROLE = "agent"
HASHING = 2  # tokens that are hashed at a time
INSTRUCTIONS = """Answers about private tables, each with differential privacy.
First list the data sets and read the columns. A question is SQL with aggregates such as COUNT, SUM, AVG, MEDIAN, with WHERE and
GROUP BY. Each answer spends epsilon (or rho, as the data set is counted) from a budget that never comes back: ask for the cost first, ask once, and keep the
answer; the same question again is free. A small epsilon gives a wide interval. When you quote a figure, quote its
interval and its entry too: with the entry the data owner can verify the figure."""
T = TypeVar("T")


class Agents:
    """The tools of an agent's server.

    Parameters
    ----------
    config : Config
    token : str, optional
        Of the one account that is served, over standard input and output. None where each request brings its own.
    """

    def __init__(self, config: Config, token: str | None = None) -> None:
        self.config, self.accounts = config, Accounts(config.accounts)
        self._guesses, self._hashing = Buckets(config.guesses_per_minute), anyio.CapacityLimiter(HASHING)
        self._rate = Buckets(config.requests_per_minute)
        self._own = None if token is None else self._prove(token)
        self.service = Service(config, most=config.agent_epsilon)

    def _prove(self, token: str) -> Account:
        account = self.accounts.find(token)
        if account is None or account.role != ROLE:
            raise ParameterError(
                "'SHOAL_TOKEN' must be the token of an active account with the role agent "
                "(shoal users add shoal.toml NAME --role agent)."
            )
        return account

    async def verify_token(self, token: str) -> AccessToken | None:
        """The account of a bearer token, as the protocol's HTTP side asks for it; guesses are limited."""
        known = self.accounts.recall(token)
        if known is None:
            if not self.accounts.is_proven(token) and not self._guesses.take("all"):
                return None
            known = await anyio.to_thread.run_sync(self.accounts.find, token, limiter=self._hashing)
            if known is not None:
                self._guesses.give_back("all")
        if known is None or known.role != ROLE:
            return None
        return AccessToken(token=token, client_id=known.name, scopes=[], expires_at=math.floor(known.expires))

    def who(self) -> str:
        """The account that asks; one that was revoked meanwhile, or asks too often, is refused."""
        name = self._name()
        if not self._rate.take(name):
            raise ToolError("Too many requests; wait a moment and try again.")
        return name

    def _name(self) -> str:
        if self._own is None:
            access = get_access_token()
            if access is None:
                raise ToolError("Send a token as 'Authorization: Bearer ...'.")
            return access.client_id
        account = self.accounts.get(self._own.id)
        if account is None or not account.active:
            raise ToolError("The token was revoked, or has expired.")
        return account.name

    async def list_datasets(self) -> list[Json]:
        """The data sets that can be asked, each with its columns, levels, bounds, modes and example questions."""
        who = self.who()
        return await self._told(lambda: [self.service.public(name) for name in self.service.open_to(who)])

    async def schema(self, dataset: str) -> Json:
        """The public facts of one data set: columns, kinds, bounds, levels, who is protected, example questions."""
        who = self.who()

        def look() -> Json:
            self.service.require(dataset, who)
            return self.service.public(dataset)

        return await self._told(look)

    async def budget(self, dataset: str) -> Json:
        """What you have spent on a data set and can still spend."""
        who = self.who()
        return await self._told(lambda: self.service.budget(dataset, who).to_dict())

    async def cost(
        self,
        dataset: str,
        sql: str,
        epsilon: float | None = None,
        mode: str | None = None,
        error: float | None = None,
        rho: float | None = None,
    ) -> Json:
        """What an answer would cost, how exact each figure would be, and how many such are left; free.

        Give epsilon (rho where the data set is counted in it) or the error wanted: every figure lies within it with 95 %. `sentence` says it in words.
        """
        who = self.who()
        found = await self._told(lambda: self._forecast(dataset, sql, epsilon, mode, who, error, rho))
        return found.to_dict()

    async def ask(
        self,
        dataset: str,
        sql: str,
        epsilon: float | None = None,
        mode: str | None = None,
        error: float | None = None,
        rho: float | None = None,
    ) -> Json:
        """One private answer: value, interval, guarantee, what it cost, what is left, and its entry in the ledger.

        Give epsilon (rho where the data set is counted in it) or the error wanted: then what that error takes is spent. `expected` has the error of each
        figure as it was forecast.
        """
        who = self.who()

        def answer() -> Json:
            forecast = (
                None if mode == "heuristic" else self._forecast(dataset, sql, epsilon, mode, who, error, rho)
            )
            told = self.service.ask(dataset, sql, epsilon, mode, who, error, rho=rho).to_dict()
            return told | ({} if forecast is None else {"expected": forecast.to_dict()["expected"]})

        return await self._told(answer)

    def _forecast(
        self,
        dataset: str,
        sql: str,
        epsilon: float | None,
        mode: str | None,
        who: str,
        error: float | None,
        rho: float | None,
    ) -> Forecast:
        if sum(each is not None for each in (epsilon, error, rho)) != 1:
            raise QueryError("Give one of 'epsilon', 'rho' and 'error'.")
        found = self.service.cost(dataset, sql, epsilon, mode, who, error, rho=rho)
        return Forecast(found, self.service.currency(dataset))

    async def _told(self, work: Callable[[], T]) -> T:
        """Run in a thread, on the data sets as owners have them now.

        An error is told as its sentence, or as nothing where it is about the machine.
        """

        def current() -> T:
            if self.service.is_stale():
                self.service.reload()
            return work()

        try:
            return await anyio.to_thread.run_sync(current)
        except ShoalError as error:
            raise ToolError(sentence_of(error)) from None
        except Exception:  # what breaks inside may quote a cell, and even its kind may depend on one
            raise ToolError("Something broke inside, and nothing was answered.") from None

    def server(self, **settings: Any) -> MCPServer[Any]:
        """The tools as a server of the protocol."""
        made: MCPServer[Any] = MCPServer(
            "shoal",
            title="Shoal",
            instructions=INSTRUCTIONS,
            version=__version__,
            log_level="WARNING",
            **settings,
        )
        for tool in (self.list_datasets, self.schema, self.budget, self.cost, self.ask):
            made.tool()(tool)
        return made

    def close(self) -> None:
        """Let go of the ledger and the accounts."""
        self.service.close()
        self.accounts.close()


def run_stdio(config: Config, token: str) -> None:
    """Serve one agent over standard input and output until it hangs up."""
    agents = Agents(config, token)
    try:
        agents.server().run("stdio")
    finally:
        agents.close()


def run_http(config: Config, host: str, port: int) -> None:
    """Serve agents over HTTP, each with its own token."""
    import uvicorn

    agents = Agents(config)
    url = f"{'https' if config.tls else 'http'}://{host}:{port}"
    auth = AuthSettings.model_validate({"issuer_url": url, "resource_server_url": None})
    try:
        app = agents.server(auth=auth, token_verifier=agents).streamable_http_app(host=host)
        uvicorn.run(
            app,
            host=host,
            port=port,
            ssl_certfile=config.certificate,
            ssl_keyfile=config.certificate_key,
            access_log=False,
            log_level="critical",
            server_header=False,
        )
    finally:
        agents.close()
