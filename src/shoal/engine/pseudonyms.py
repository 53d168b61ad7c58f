"""Identifiers replaced by keyed hashes."""

from __future__ import annotations

import hashlib
import hmac

import polars as pl

from shoal.errors import InputError


def pseudonyms(identifiers: pl.Series, key: bytes) -> pl.Series:
    """The same text for the same identifier, which only the holder of the key can tell.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.engine.pseudonyms import pseudonyms
    >>> hashed = pseudonyms(pl.Series("id", ["a", "b", "a", None]), b"key")
    >>> hashed[0] == hashed[2], hashed[0] == hashed[1], hashed[3]
    (True, False, None)
    """
    try:
        texts = identifiers.cast(pl.String)
    except pl.exceptions.PolarsError:
        raise InputError(
            f"An identifier must be a text or a number to be hashed. Column {identifiers.name!r} holds {identifiers.dtype}."
        ) from None
    distinct = texts.drop_nulls().unique()
    digests = [hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32] for text in distinct]
    return texts.replace_strict(
        distinct, pl.Series(digests, dtype=pl.String), default=None, return_dtype=pl.String
    )
