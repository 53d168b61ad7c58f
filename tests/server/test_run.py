"""How the server's processes are started."""

from __future__ import annotations

import signal
import tempfile
from types import SimpleNamespace

import uvicorn

from shoal.server import run as running


def test_a_worker_may_take_its_time_to_load(monkeypatch, tmp_path):
    """On a busy machine workers that took more than 5 seconds were ended and started again without end."""
    given = {}
    monkeypatch.setattr(uvicorn, "run", lambda app, **words: given.update(words))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("SHOAL_CONFIG", "SHOAL_JOBS", "SHOAL_TABLES", "SHOAL_RUN"):
        monkeypatch.setenv(name, "")
    config = SimpleNamespace(
        host="127.0.0.1",
        port=1,
        certificate=None,
        certificate_key=None,
        memory_megabytes=None,
        tables_folder=None,
        trusted_proxies=(),
    )
    running.run(tmp_path / "shoal.toml", config, workers=2)
    assert given["timeout_worker_healthcheck"] == running.START_SECONDS >= 60
    uvicorn.Config(**{name: given[name] for name in ("timeout_worker_healthcheck",)}, app="x:y")
