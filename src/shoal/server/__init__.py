"""The server: data sets that stay on one machine, asked over HTTP by people who have an account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import loaded_when_used

if TYPE_CHECKING:
    from shoal.server.accounts import Accounts
    from shoal.server.app import make_app
    from shoal.server.config import Config

__all__ = ["Accounts", "Config", "make_app"]

__getattr__ = loaded_when_used(
    __name__,
    {
        "Accounts": "shoal.server.accounts",
        "Config": "shoal.server.config",
        "make_app": "shoal.server.app",
    },
)
