"""The outermost ring: limits on bodies, headers on every answer, one log line each, and no traceback outside."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import secrets
import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.errors import ShoalError
from shoal.typing import Json

BODY_BYTES = 256 * 1024
BODY_SECONDS = 60.0
UPLOADS = ("/publish", "/api/v1/publish", "/owner/datasets")  # where files are taken in
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
log = logging.getLogger("shoal.server")


class TooLargeError(ShoalError):
    """A body is larger than this place takes."""

    status = 413


class TooSlowError(ShoalError):
    """A body did not arrive in time."""

    status = 408


class HttpMiddleware:
    """Wraps the application.

    Parameters
    ----------
    app : ASGI application
    problem : callable
        The one error handler.
    upload_bytes : int
        Largest body where files are uploaded.
    tls : bool
        Whether browsers may be told to come by TLS only.
    slot : float, default 0
        Times in the log are whole slots.
    count : callable, optional
        Told method, route and status of each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        problem: Callable[[Request, Exception], Response],
        upload_bytes: int,
        tls: bool,
        slot: float = 0.0,
        count: Callable[[str, str, int], None] = lambda *_: None,
    ) -> None:
        self.app, self.problem, self.upload_bytes, self.slot = app, problem, upload_bytes, slot
        self.tls, self.count = tls, count
        self.headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, request_id = time.perf_counter(), secrets.token_hex(6)
        scope.setdefault("state", {})["request_id"] = request_id
        told = {"status": 0}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                secure = self.tls or scope.get("scheme") == "https"  # so says the proxy that is trusted
                message["headers"] = self._headers(message.get("headers", []), request_id, secure=secure)
            await send(message)

        try:
            await self._limited(scope, receive, sending)
        except Exception as error:  # the last line of defence: nothing of it reaches the client
            if told["status"]:  # the answer had begun, so it can only be broken off
                log.error(json.dumps({"event": "broken", "id": request_id, "error": type(error).__name__}))
                raise ConnectionError("broken off") from None
            await self.problem(Request(scope), error)(scope, receive, sending)
        finally:
            self._tell(scope, request_id, told["status"], time.perf_counter() - started)

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        uploads = scope["path"] in UPLOADS or scope["path"].endswith("/periods")
        most = self.upload_bytes if uploads else BODY_BYTES
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        if not stated.isdigit() or int(stated) > most:
            raise TooLargeError(f"The body must have at most {most} bytes.")
        deadline, seen, complete = asyncio.get_running_loop().time() + BODY_SECONDS, 0, False

        refused: list[ShoalError] = []

        def refuse(error: ShoalError) -> ShoalError:
            refused.append(error)
            return error

        async def receiving() -> Message:
            nonlocal seen, complete
            if complete:
                return await receive()  # only the end of the connection is left to hear of
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise refuse(TooSlowError("The body did not arrive in time.")) from None
            seen += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if seen > most:
                raise refuse(TooLargeError(f"The body must have at most {most} bytes."))
            return message

        async def sending(message: Message) -> None:
            if refused:  # whoever read the body took the refusal for a broken body and would say so
                raise refused[0]
            await send(message)

        try:
            await self.app(scope, receiving, sending)
        except Exception:
            if refused:
                raise refused[0] from None
            raise

    def _headers(
        self, given: list[tuple[bytes, bytes]], request_id: str, *, secure: bool
    ) -> list[tuple[bytes, bytes]]:
        named = {name.lower() for name, _ in given}
        own = [each for each in self.headers if each[0] not in named]
        if secure:
            own.append((b"strict-transport-security", b"max-age=31536000"))
        return [*given, *own, (b"x-request-id", request_id.encode())]

    def _tell(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        # The route's pattern, not the path: what people type stays out of the log.
        route = getattr(scope.get("route"), "path", "-")
        account = scope.get("state", {}).get("account")
        facts: Json = {
            "event": "request",
            "id": request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(1000 * (math.ceil(seconds / self.slot) * self.slot if self.slot else seconds), 1),
            "account": account,
            "address": (scope.get("client") or ("-",))[0],
        }
        self.count(scope["method"], route, status)
        log.info(json.dumps(facts))
