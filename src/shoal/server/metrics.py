"""`/metrics` in the OpenMetrics format: what a monitoring system may see, and nothing about rows or questions."""

from __future__ import annotations

import hmac
import os
import threading
from collections import Counter

from fastapi import Request
from fastapi.responses import Response

from shoal import __version__
from shoal.dp.budget import epsilon
from shoal.dp.mechanisms.currency import WORDS
from shoal.server import api
from shoal.server.auth import ForbiddenError, identify
from shoal.server.refusals import UnknownError
from shoal.server.service import Service

KIND = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Metrics:
    """Counts of one worker since it started."""

    def __init__(self) -> None:
        self._lock, self._requests = threading.Lock(), Counter[tuple[str, str, int]]()

    def count(self, method: str, route: str, status: int) -> None:
        """One request more; the route is its pattern, never what was typed."""
        with self._lock:
            self._requests[method, route, status] += 1

    def requests(self) -> dict[tuple[str, str, int], int]:
        """Requests by method, route and status."""
        with self._lock:
            return dict(self._requests)


async def page(request: Request) -> Response:
    """Counts of this worker, and of each data set what was spent and its cap, for owners or the token of the settings."""
    config = request.app.state.config
    if not config.metrics:
        raise UnknownError("There is no such page.")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    wanted = config.metrics_token
    by_token = wanted is not None and hmac.compare_digest(given.strip().encode(), wanted.encode())
    if not (by_token and scheme.lower() == "bearer"):
        account = await identify(request)
        if account.role != "owner":
            raise ForbiddenError(f"This is not for the role {account.role!r}.")
    from starlette.concurrency import run_in_threadpool

    return Response(await run_in_threadpool(_text, request), media_type=KIND)


def _text(request: Request) -> str:
    service, lines = api.service_of(request), []
    worker = f'worker="{os.getpid()}"'
    lines += ["# TYPE shoal_build info", f'shoal_build_info{{version="{__version__}"}} 1']
    lines += ["# TYPE shoal_requests counter", "# HELP shoal_requests Requests answered by this worker."]
    for (method, route, status), number in sorted(request.app.state.metrics.requests().items()):
        labels = f'{worker},method="{_plain(method)}",route="{_plain(route)}",status="{status}"'
        lines.append(f"shoal_requests_total{{{labels}}} {number}")
    gauges = {
        "large_questions": (
            "Large questions answered or waiting in this worker.",
            {worker: service.large.busy},
        ),
        "ledger_entries": ("Entries of the ledger.", {"": service.ledger.head().seq}),
        "open_requests": ("Requests for more budget to be decided.", {"": _open(request)}),
    }
    gauges |= _budgets(service)  # type: ignore[arg-type]
    for name, (about, values) in gauges.items():
        lines += [f"# TYPE shoal_{name} gauge", f"# HELP shoal_{name} {about}"]
        lines += [
            f"shoal_{name}{'{' + label + '}' if label else ''} {value}" for label, value in values.items()
        ]
    return "\n".join([*lines, "# EOF", ""])


def _budgets(service: Service) -> dict[str, tuple[str, dict[str, float]]]:
    """What was spent on each data set and its cap, under the name of what it is counted in."""
    found: dict[str, tuple[str, dict[str, float]]] = {
        f"{word}_{what}": (f"{word.capitalize()} {about} on a data set.", {})
        for word in WORDS.values()
        for what, about in (("spent", "spent"), ("cap", "that may be spent"))
    }
    for name in list(service.datasets):
        label, held, word = (
            f'dataset="{_plain(name)}"',
            service.ledger.caps(name),
            service.currency(name).word,
        )
        found[f"{word}_spent"][1][label] = epsilon(service.ledger.spent(name))
        found[f"{word}_cap"][1][label] = epsilon(held.total) if held else 0.0
    return {name: each for name, each in found.items() if each[1]}


def _open(request: Request) -> int:
    return sum(each.state == "open" for each in request.app.state.requests.list())


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
