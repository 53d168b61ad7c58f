"""The server: data sets that stay in the house, asked over HTTP by people who have an account."""

from __future__ import annotations

from shoal.server.accounts import Accounts
from shoal.server.app import make_app
from shoal.server.config import Config

__all__ = ["Accounts", "Config", "make_app"]
