"""What is refused before the application sees it: heads that do not end, and requests that are none."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from shoal.server import http_limits

from .conftest import free_port

GOOD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(scope, receive, send) -> None:
    if scope["path"] == "/large":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(400):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        await send({"type": "http.response.body", "body": b"end"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@pytest.fixture
def port(monkeypatch) -> Iterator[int]:
    for name, seconds in (("HEAD_SECONDS", 0.5), ("REST_SECONDS", 0.5), ("READ_SECONDS", 1.0)):
        monkeypatch.setattr(http_limits, name, seconds)
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(
            hello,
            port=port,
            http=http_limits.LimitedProtocol,
            lifespan="off",
            log_level="critical",
            timeout_keep_alive=30,
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield port
    server.should_exit = True
    thread.join()


def said(port: int, *words: bytes, wait: float = 20.0) -> tuple[bytes, float]:
    """What comes back until the connection is closed, and how long that took."""
    started, heard = time.monotonic(), b""
    line = socket.create_connection(("127.0.0.1", port), timeout=wait)
    with line, contextlib.suppress(OSError):
        for each in words:
            line.sendall(each)
        while got := line.recv(65536):
            heard += got
    return heard, time.monotonic() - started


def test_a_head_that_stops_or_never_begins_is_shown_out(port):
    for words in ((), (GOOD[:20],), (b"\r\n",)):
        heard, seconds = said(port, *words)
        assert heard == b""
        assert seconds < 15


def test_a_second_head_on_the_same_line_has_its_own_deadline(port):
    heard, seconds = said(port, GOOD, GOOD, GOOD[:20])
    assert heard.count(b"200 OK") == 2
    assert seconds < 15


def test_an_endless_head_is_cut_off(port):
    heard, _ = said(port, GOOD[:-2], *[b"X-Y: " + b"z" * 1000 + b"\r\n"] * 200)
    assert not heard or heard.startswith(b"HTTP/1.1 400")


def test_what_is_no_http_is_refused(port):
    heard, _ = said(port, b"\x16\x03\x01\x02\x00\x01\x00 not http\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 400")


def test_a_quiet_moment_between_two_requests_is_allowed(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        for _ in range(2):
            line.sendall(GOOD)
            assert line.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.7)  # longer than a head may take


def test_a_body_that_trickles_on_after_its_answer_is_cut_off(port):
    line = socket.create_connection(("127.0.0.1", port), timeout=20)
    started = time.monotonic()
    with line:
        line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        assert line.recv(65536).startswith(b"HTTP/1.1 200")
        with pytest.raises(OSError, match=r"reset|pipe"):
            while time.monotonic() - started < 15:
                line.sendall(b" ")
                time.sleep(0.1)


def test_the_next_request_after_an_early_answer_is_served(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
        assert line.recv(65536).startswith(b"HTTP/1.1 200")
        line.sendall(b"abc")
        time.sleep(0.7)  # longer than the rest of a body may take
        line.sendall(GOOD)
        assert line.recv(65536).startswith(b"HTTP/1.1 200")


def test_who_does_not_read_is_cut_off_and_who_reads_slowly_is_not(port):
    large = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as silent:
        silent.sendall(large)
        time.sleep(1.5)
        heard = 0
        with contextlib.suppress(ConnectionResetError):
            while got := silent.recv(1 << 20):
                heard += len(got)
        assert heard < 40_000_000
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(large)
        heard = b""
        while not heard.endswith(b"end\r\n0\r\n\r\n"):
            got = slow.recv(4 << 20)
            assert got
            heard = (heard + got)[-20:]
            time.sleep(0.05)
