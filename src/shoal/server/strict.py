"""What HTTP asks for and the framework leaves out: HEAD is GET without its body, and one Host header is enough."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.errors import ShoalError


class BadRequestError(ShoalError):
    """A request that can mean two things."""

    status = 400


class StrictHttp:
    """Wraps the application.

    Parameters
    ----------
    app : ASGI application
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            if sum(name == b"host" for name, _ in scope["headers"]) > 1:
                raise BadRequestError("A request must have one Host header. Got several.")
            if scope["method"] == "HEAD":
                scope = {**scope, "method": "GET"}  # the server below sends no body
        await self.app(scope, receive, send)
