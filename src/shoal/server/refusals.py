"""What the server says no to, where that has a status of its own."""

from __future__ import annotations

from shoal.errors import InputError


class UnknownError(InputError):
    """There is nothing of that name here."""

    status = 404
