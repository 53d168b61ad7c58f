"""Everything that can go wrong, each with the exit code and the HTTP status it means.

A message is one sentence: what is wrong, what was expected, what came.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ShoalError(ValueError):
    """A mistake the user can put right; base of all errors raised on purpose."""

    exit_code = 2
    status = 400


class InputError(ShoalError):
    """A file, table or column is not what was expected."""


class ParameterError(ShoalError):
    """A parameter lies outside its allowed set."""


class UnknownOptionError(ParameterError, TypeError):
    """A keyword argument has a name that the function does not take."""

    def __init__(self, function: str, name: str, known: Iterable[str]) -> None:
        near = get_close_matches(name, list(known), 1)
        hint = f"Did you mean {near[0]!r}?" if near else f"help({function}) lists those it takes."
        super().__init__(f"{function} has no argument {name!r}. {hint}")


class SchemaError(ShoalError):
    """A schema is malformed or does not fit its table."""


class MissingExtraError(ShoalError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"This needs the package {package!r}, which is not installed. "
            f"Install it with: pip install 'shoal[{extra}]'."
        )


class ImportFailedError(ShoalError, ImportError):
    """A package is installed but cannot be loaded."""

    def __init__(self, package: str, error: ImportError, hint: str = "") -> None:
        why = (str(error).strip().splitlines() or ["no reason given"])[0].rstrip(".")
        super().__init__(f"The package {package!r} cannot be loaded: {why}.{' ' if hint else ''}{hint}")


class StoppedError(ShoalError):
    """The user has stopped the run."""

    exit_code = 130
    status = 499


class GuaranteeError(ShoalError):
    """A promised guarantee does not hold for what would have been written."""

    exit_code = 1
    status = 409


class QueryError(ShoalError):
    """A query is not one of those that can be answered; depends on its text and the schema alone."""


class BudgetError(ShoalError):
    """The privacy budget, or the unit the ledger keeps, does not allow this answer."""

    exit_code = 1
    status = 403


class LedgerError(ShoalError):
    """The ledger cannot be read, or its chain is broken."""

    exit_code = 1
    status = 503


class InternalError(RuntimeError):
    """A broken invariant of our own: please report it."""
