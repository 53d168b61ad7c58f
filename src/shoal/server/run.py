"""Running the application: workers, their logs, and a quiet end."""

from __future__ import annotations

import datetime
import inspect
import json
import logging
import os
import secrets
import signal
import sys
from pathlib import Path

from shoal.errors import MissingExtraError
from shoal.server.config import Config
from shoal.server.folders import JOBS, TABLES, PrivateFolder
from shoal.server.http_limits import LimitedProtocol
from shoal.server.jobs import Jobs
from shoal.typing import Json, Keywords

try:
    import uvicorn
except ImportError:
    raise MissingExtraError("uvicorn", "server") from None

GRACE_SECONDS = 10
START_SECONDS = 120  # a worker may take to load before it is given up
_LOGS: Json = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "shoal.server.run.JsonLine"}},
    "handlers": {
        "err": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}
    },
    "loggers": {
        "shoal.server": {"handlers": ["err"], "level": "INFO", "propagate": False},
        "shoal.dp": {"handlers": ["err"], "level": "WARNING", "propagate": False},
        # Its tracebacks and addresses could quote what people typed; ours say what is needed.
        "uvicorn": {"handlers": ["err"], "level": "WARNING", "propagate": False},
        "uvicorn.error": {"level": "CRITICAL"},
    },
}


class JsonLine(logging.Formatter):
    """A record as one JSON object: when, how grave, and the facts that were noted."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said = record.getMessage()
        if record.name != "shoal.server":  # which notes facts as a JSON object; others say sentences
            said = json.dumps({"event": "note", "text": said})
        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(
            timespec="milliseconds"
        )
        return f'{{"time": "{when}", "level": "{record.levelname.lower()}", {said[1:]}'


def run(path: Path, config: Config, *, workers: int = 1, behind_proxy: bool = False) -> None:
    """Serve until told to stop; what is being answered then is still answered, for a while."""
    # Once it has ended quietly uvicorn passes the signal on, which would end this process before it tidies up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _limit_memory(config.memory_megabytes)
    with PrivateFolder(JOBS) as folder, PrivateFolder(TABLES, config.tables_folder) as tables:
        os.environ["SHOAL_CONFIG"], os.environ["SHOAL_JOBS"] = str(path.absolute()), str(folder.path)
        os.environ["SHOAL_TABLES"] = str(tables.path)
        os.environ["SHOAL_RUN"] = secrets.token_hex(16)
        try:
            uvicorn.run(
                "shoal.server.app:from_environment",
                factory=True,
                host=config.host,
                port=config.port,
                workers=workers,
                ssl_certfile=config.certificate,
                ssl_keyfile=config.certificate_key,
                proxy_headers=behind_proxy or bool(config.trusted_proxies),
                forwarded_allow_ips=list(config.trusted_proxies) or ["127.0.0.1"],
                access_log=False,
                log_config=_LOGS,
                server_header=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=GRACE_SECONDS,
                http=LimitedProtocol,
                ws="none",
                backlog=512,
                **_patience(),
            )
        finally:
            jobs = Jobs(folder.path)
            for job in list(jobs.folder.iterdir()):
                jobs.forget(job)
            logging.getLogger("shoal.server").info('{"event": "end"}')
            sys.stderr.flush()


def _patience() -> Keywords:
    """How long a worker may be silent: it says nothing until it is loaded, and on a busy machine that takes a while.

    By itself uvicorn ends such a worker after 5 seconds and starts another, without end.
    """
    known = "timeout_worker_healthcheck" in inspect.signature(uvicorn.Config.__init__).parameters
    return {"timeout_worker_healthcheck": START_SECONDS} if known else {}


def _limit_memory(megabytes: int | None) -> None:
    """Hold this process, and the workers that it starts, to an address space: what needs more fails by itself."""
    if megabytes is not None:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = megabytes << 20
        resource.setrlimit(
            resource.RLIMIT_AS, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most)
        )
