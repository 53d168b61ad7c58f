"""HTTP limits: connections that never finish saying what they want, or never read what they asked for, are closed."""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.errors import MissingExtraError

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:
    raise MissingExtraError("httptools", "server") from None

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0
REST_SECONDS = 10.0  # for the rest of a body whose request was answered before it had arrived
READ_SECONDS = 60.0  # that somebody may take to read the next piece of an answer


class LimitedProtocol(HttpToolsProtocol):
    """Speaks HTTP, with limits on how long a request's head may be, how long it may take, and how slowly answers are read.

    A body's own deadline is the application's; here ends what comes after its answer, and whoever reads nothing.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self._in_head, self._seen = True, 0
        self._patience: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody came."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """They said something; endless heads are cut off."""
        if self._in_head:
            self._seen += len(data)
            if self._patience is None:
                self._wait()
        super().data_received(data)
        if self._in_head and self._seen > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """A request begins, perhaps in the same breath as the one before."""
        if self._patience is None:
            self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is complete; its body has a deadline of its own."""
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """It is complete; what comes next is another head, or the end."""
        self._in_head, self._seen = True, 0
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It was answered; where its body is still on its way, that may not go on for ever."""
        super().on_response_complete()
        if not self._in_head and self._patience is None:
            self._wait(REST_SECONDS)

    def pause_writing(self) -> None:
        """They do not read as fast as they are answered."""
        super().pause_writing()
        self._reading = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """They read on."""
        super().resume_writing()
        self._stop_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """They went."""
        self._stop_waiting()
        self._stop_reading()
        super().connection_lost(exc)

    def _wait(self, seconds: float | None = None) -> None:
        wanted = HEAD_SECONDS if seconds is None else seconds
        self._patience = self.loop.call_later(wanted, self.transport.close)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
