"""What the server says no to, where that has a status of its own, and what it may say of an error."""

from __future__ import annotations

from shoal.errors import InputError, ShoalError


class UnknownError(InputError):
    """There is nothing of that name here."""

    status = 404


class TableError(ShoalError):
    """The rows of a data set cannot be read; where they lie is for its owner."""

    status = 503

    def __init__(self) -> None:
        super().__init__("The table of this data set cannot be read at the moment, so nothing was answered.")


def sentence_of(error: ShoalError) -> str:
    """What may be said of an error: of the machine, only which part of it failed."""
    if error.status < 500 or isinstance(error, TableError):
        return str(error)
    return "The ledger cannot be reached at the moment, so nothing was answered."
