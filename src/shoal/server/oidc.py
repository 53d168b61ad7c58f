"""Sign-in by OpenID Connect beside tokens: the code flow with PKCE, state and nonce, and a verified id token."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from shoal.errors import MissingExtraError, ShoalError
from shoal.server import pages
from shoal.server.accounts import NAME, Accounts
from shoal.server.auth import address_of, cookie_name, is_secure, network_of
from shoal.server.config import Oidc
from shoal.server.limits import TooOftenError
from shoal.typing import Json

try:
    import httpx
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet
except ImportError:
    raise MissingExtraError("joserfc", "server") from None

COOKIE = "shoal_oidc"
KEPT = ("state", "nonce", "verifier")  # what the browser brings back as it was given
SECONDS = 600  # that a sign-in at the provider may take
FRESH = 600.0  # seconds after which the provider's keys are asked for again
LEEWAY = 60  # seconds that clocks may differ
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]


@dataclass
class Provider:
    """What is known of the provider: its endpoints and keys."""

    facts: Json
    keys: KeySet
    at: float


class SignIn:
    """Signs people in at a provider.

    Parameters
    ----------
    settings : Oidc
    transport : httpx.AsyncBaseTransport, optional
        For tests.
    """

    def __init__(self, settings: Oidc, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.settings, self._transport = settings, transport
        self._provider: Provider | None = None
        self._lock = asyncio.Lock()

    async def start(self) -> tuple[str, dict[str, str]]:
        """The address to send the browser to, and what it has to bring back."""
        kept = {name: secrets.token_urlsafe(48) for name in KEPT}
        endpoint = str((await self.provider()).facts["authorization_endpoint"])
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_url,
            "scope": " ".join(self.settings.scopes),
            "state": kept["state"],
            "nonce": kept["nonce"],
            "code_challenge": _base64(hashlib.sha256(kept["verifier"].encode()).digest()),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}", kept

    async def finish(self, code: str, kept: dict[str, str]) -> Json:
        """Exchange a code for verified claims."""
        provider = await self.provider()
        try:
            async with self._client() as client:
                token = await self._token(client, provider, code, kept["verifier"])
                claims = await self._verified(str(token.get("id_token", "")), kept["nonce"])
                return await self._completed(client, provider, claims, str(token.get("access_token", "")))
        except ShoalError:  # is a ValueError too, and says what is wrong
            raise
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            raise RefusedError(
                f"The provider did not confirm the sign-in ({type(error).__name__})."
            ) from None

    async def _token(self, client: httpx.AsyncClient, provider: Provider, code: str, verifier: str) -> Json:
        """What the provider gives for a code (RFC 6749, section 4.1.3; the verifier is of RFC 7636)."""
        settings, secret = self.settings, self.settings.secret()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": settings.redirect_url}
        form |= {"client_id": settings.client_id, "code_verifier": verifier}
        known = provider.facts.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        headers = {}
        if secret and "client_secret_basic" in known:
            words = f"{quote_plus(settings.client_id)}:{quote_plus(secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(words.encode()).decode()}"
        elif secret:
            form["client_secret"] = secret
        told = await client.post(provider.facts["token_endpoint"], data=form, headers=headers)
        found: Json = told.raise_for_status().json()
        return found

    async def provider(self, *, anew: bool = False) -> Provider:
        """The provider's endpoints and keys, some minutes old at most."""
        async with self._lock:
            if self._provider is None or anew or time.monotonic() - self._provider.at > FRESH:
                self._provider = await self._discover()
            return self._provider

    async def _discover(self) -> Provider:
        issuer = self.settings.issuer.rstrip("/")
        try:
            async with self._client() as client:
                told = await client.get(f"{issuer}/.well-known/openid-configuration")
                facts = told.raise_for_status().json()
                if str(facts.get("issuer", "")).rstrip("/") != issuer:
                    raise RefusedError(
                        "The provider calls itself by another name than 'issuer' in the settings."
                    )
                if not {"authorization_endpoint", "token_endpoint"} <= set(facts):
                    raise RefusedError("The provider does not say where to sign in.")
                keys = (await client.get(facts["jwks_uri"])).raise_for_status().json()
                return Provider(facts, KeySet.import_key_set(keys), time.monotonic())
        except RefusedError:
            raise
        except (httpx.HTTPError, ValueError, KeyError, JoseError):
            raise ProviderError("The sign-in provider cannot be reached at the moment.") from None

    async def _verified(self, token: str, nonce: str) -> Json:
        """The claims of an id token: signature, issuer, audience, time and nonce are as they must be."""
        for anew in (False, True):  # a key may have been changed since the keys were read
            try:
                found = jwt.decode(token, (await self.provider(anew=anew)).keys, algorithms=ALGORITHMS)
                break
            except (JoseError, ValueError):
                if anew:
                    raise RefusedError(
                        "The provider's id token is not signed with one of its keys."
                    ) from None
        claims, now = dict(found.claims), time.time()
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else list(audience or ())
        checks = {
            "issuer": str(claims.get("iss", "")).rstrip("/") == self.settings.issuer.rstrip("/"),
            "audience": self.settings.client_id in audiences,
            "authorized party": len(audiences) == 1 or claims.get("azp") == self.settings.client_id,
            "expiry": _number(claims.get("exp")) > now - LEEWAY,
            "time": _number(claims.get("iat")) < now + LEEWAY,
            "nonce": hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()),
            "subject": bool(claims.get("sub")),
        }
        for what, holds in checks.items():
            if not holds:
                raise RefusedError(f"The {what} of the provider's id token is not as it must be.")
        return claims

    async def _completed(
        self, client: httpx.AsyncClient, provider: Provider, claims: Json, access_token: str
    ) -> Json:
        """With what the provider tells of the user elsewhere, where the id token lacks it."""
        wanted = {self.settings.name_claim, self.settings.groups_claim}
        if wanted <= set(claims) or "userinfo_endpoint" not in provider.facts:
            return claims
        headers = {"authorization": f"Bearer {access_token}"}
        told = (await client.get(provider.facts["userinfo_endpoint"], headers=headers)).raise_for_status()
        user: Json = told.json()
        if user.get("sub") != claims["sub"]:
            raise RefusedError("The provider describes another user than the one who signed in.")
        return {**user, **claims}

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=self._transport, timeout=10)


class RefusedError(ShoalError):
    """A sign-in that is not confirmed, or not allowed here."""

    status = 403


class ProviderError(ShoalError):
    """The provider cannot be reached."""

    status = 424


def role_of(settings: Oidc, claims: Json) -> str:
    """The role that the user's groups give: the first of the settings' table that fits."""
    groups = claims.get(settings.groups_claim) or []
    held = {groups} if isinstance(groups, str) else {str(each) for each in groups}
    for group, role in settings.roles.items():
        if group in held:
            return role
    if settings.default_role is not None:
        return settings.default_role
    raise RefusedError("None of your groups has a role here; ask the owner.")


def name_of(settings: Oidc, claims: Json) -> str:
    """The name of the account: a claim, which the provider must have verified where it is an address."""
    name = str(claims.get(settings.name_claim, "")).lower()
    if settings.name_claim == "email" and claims.get("email_verified") is not True:
        raise RefusedError("The provider has not verified your address.")
    if not NAME.fullmatch(name):
        raise RefusedError(f"The provider's claim {settings.name_claim!r} is no name of an account.")
    return name


async def start(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name in the address
    """Send the browser to the provider."""
    url, kept = await _sign_in(request).start()
    response = RedirectResponse(url, 303)
    # Lax: the provider's redirect back is a navigation from another site.
    response.set_cookie(
        cookie_name(request, COOKIE), _packed(kept | {"next": pages.local(next)}), max_age=SECONDS, path="/",
        httponly=True, samesite="lax", secure=is_secure(request),
    )  # fmt: skip
    return response


async def back(request: Request, state: str = "", code: str = "", error: str = "") -> Response:
    """The browser comes back from the provider."""
    network = network_of(address_of(request))
    if not request.app.state.failures.take(network):
        raise TooOftenError("Too many sign-ins from here; wait a minute and try again.")
    try:
        kept = json.loads(base64.urlsafe_b64decode(request.cookies.get(cookie_name(request, COOKIE), "e30=")))
        fits = all(isinstance(kept[name], str) for name in KEPT)
        fits = fits and hmac.compare_digest(kept["state"].encode(), state.encode())
    except (ValueError, KeyError, TypeError):
        fits = False
    if not fits:
        raise RefusedError("This sign-in was not begun here, or took too long: begin again.")
    if error or not code:
        raise RefusedError("The provider refused the sign-in.")
    sign_in, accounts = _sign_in(request), request.app.state.accounts
    claims = await sign_in.finish(code, kept)
    account = await run_in_threadpool(_account, sign_in.settings, accounts, claims)
    request.app.state.failures.give_back(network)
    # A page in between: a cookie for this site alone is not sent along with a redirect that began elsewhere.
    page = pages.render(request, "signed_in.html.j2", target=pages.local(str(kept.get("next", "/"))))
    response = await pages.enter(request, account, page, "by OpenID Connect")
    response.delete_cookie(cookie_name(request, COOKIE), path="/", secure=is_secure(request))
    return response


def _account(settings: Oidc, accounts: Accounts, claims: Json) -> Any:
    subject = f"{settings.issuer}|{claims['sub']}"
    return accounts.of_subject(subject, name_of(settings, claims), role_of(settings, claims))


def _sign_in(request: Request) -> SignIn:
    found: SignIn | None = request.app.state.oidc
    if found is None:
        raise RefusedError("Sign-in by a provider is not set up here: use a token.")
    return found


def _packed(facts: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(facts).encode()).decode()


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
