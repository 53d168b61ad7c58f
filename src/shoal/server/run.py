"""Running the application: workers, their logs, and a quiet end."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from shoal.errors import MissingExtraError
from shoal.server.config import Config
from shoal.server.publish import Room

try:
    import uvicorn
except ImportError:
    raise MissingExtraError("uvicorn", "server") from None

GRACE_SECONDS = 10
_LOGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {
        "err": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}
    },
    "loggers": {
        "shoal.server": {"handlers": ["err"], "level": "INFO", "propagate": False},
        # Its tracebacks and addresses could quote what people typed; ours say what is needed.
        "uvicorn": {"handlers": ["err"], "level": "WARNING", "propagate": False},
        "uvicorn.error": {"level": "CRITICAL"},
    },
}


def run(path: Path, config: Config, *, workers: int = 1, behind_proxy: bool = False) -> None:
    """Serve until told to stop; what is being answered then is still answered, for a while."""
    with tempfile.TemporaryDirectory(prefix="shoal-room-") as folder:
        os.environ["SHOAL_CONFIG"], os.environ["SHOAL_ROOM"] = str(path.absolute()), folder
        try:
            uvicorn.run(
                "shoal.server.app:from_environment",
                factory=True,
                host=config.host,
                port=config.port,
                workers=workers,
                ssl_certfile=config.certificate,
                ssl_keyfile=config.certificate_key,
                proxy_headers=behind_proxy,
                access_log=False,
                log_config=_LOGS,
                server_header=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=GRACE_SECONDS,
                h11_max_incomplete_event_size=64 * 1024,
                backlog=512,
            )
        finally:
            room = Room(Path(folder))
            for job in list(room.folder.iterdir()):
                room.forget(job)
            logging.getLogger("shoal.server").info('{"event": "end"}')
            sys.stderr.flush()
