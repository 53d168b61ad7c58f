"""Idempotency keys: a request that is sent again under the same key gets the same answer, and is not done again.

Beside the accounts a row is kept for each key: a hash of the key, a keyed hash of what was asked, and the answer,
encrypted under the key itself, which only the client has. So the answer can be given again for a day, and nobody who
reads the database reads it, not even the token of a new account.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import hmac
import inspect
import json
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Header, Request
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from shoal.errors import MissingExtraError, ShoalError
from shoal.server.auth import MOST_FILES
from shoal.server.limits import TooOftenError
from shoal.server.problems import problem

try:
    import sqlalchemy as sa
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:
    raise MissingExtraError("cryptography", "server") from None

HEADER = "idempotency-key"
KEEP_SECONDS = 86_400
LEASE_SECONDS = (
    30.0  # who is at work says so every BEAT_SECONDS; one that falls silent so long was broken off
)
BEAT_SECONDS = 5.0
SWEEP_SECONDS = 600.0
NOTE_SECONDS = 600.0
NOTE = 1  # no status of an answer: something left to be taken once
KEY = re.compile("[!-~]{16,200}")
View = Callable[..., Any]
Again = Callable[..., bool]
_METADATA = sa.MetaData()
_KEYS = sa.Table(
    "shoal_idempotency",
    _METADATA,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("asked", sa.Text, nullable=False),
    sa.Column("begun", sa.Float, nullable=False),
    sa.Column("until", sa.Float, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("media", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)


class KeyFormError(ShoalError):
    """An idempotency key that cannot be one."""

    status = 400


class KeyReuseError(ShoalError):
    """The key was used for something else."""

    status = 422


class BrokenOffError(ShoalError):
    """The first request with this key was broken off, and what it did is not known."""

    status = 409


async def stated(
    key: str | None = Header(
        None,
        alias="Idempotency-Key",
        description="16 to 200 visible characters, best a UUID. A request sent again under its key gets the same answer "
        "for a day, and is not done again.",
    ),
) -> None:
    """What the description of the API says of the header; a plain function would be given a thread for each request."""


@dataclass(frozen=True)
class Kept:
    """An answer that was given under a key."""

    status: int
    media: str
    body: bytes


@dataclass(frozen=True)
class Turn:
    """The right to do what a key asks for; `begun` is when that was first tried, where it was broken off."""

    begun: float | None = None


class IdempotencyKeys:
    """The book of idempotency keys.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        That of the accounts, which all workers share.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine, self._swept = engine, 0.0
        with engine.begin() as connection:
            _METADATA.create_all(connection)

    def begin(self, account: str, key: str, asked: bytes) -> Turn | Kept | None:
        """The turn of who comes first, the answer where there is one, or None while somebody else is at it."""
        self._sweep()
        now, name, said = time.time(), _name(key), hmac.digest(key.encode(), asked, "sha256").hex()
        row = {
            "account": account, "key": name, "asked": said, "begun": now, "until": now + LEASE_SECONDS, "status": 0,
            "media": "", "body": b"",
        }  # fmt: skip
        try:
            with self._engine.begin() as connection:
                connection.execute(_KEYS.insert(), row)
            return Turn()
        except sa.exc.IntegrityError:
            pass  # there already, or another was quicker
        with self._engine.begin() as connection:
            found = connection.execute(sa.select(_KEYS).where(_is(account, key))).first()
            if found is None:
                return None
            if not hmac.compare_digest(found.asked, said):
                raise KeyReuseError("This 'Idempotency-Key' was used for another request: take a new one.")
            if found.status:
                return Kept(found.status, found.media, _open(key, found.body))
            if found.until > now:
                return None
            taken = (
                _KEYS.update()
                .where(_is(account, key), _KEYS.c.until == found.until)
                .values(until=now + LEASE_SECONDS)
            )
            return Turn(found.begun) if connection.execute(taken).rowcount else None

    def renew(self, account: str, key: str) -> None:
        """Say that the work goes on."""
        self._set(account, key, until=time.time() + LEASE_SECONDS)

    def keep(self, account: str, key: str, kept: Kept) -> None:
        """Keep an answer, encrypted under its key."""
        self._set(account, key, status=kept.status, media=kept.media, body=_sealed(key, kept.body))

    def break_off(self, account: str, key: str) -> None:
        """Say that the work ended without an answer."""
        self._set(account, key, until=0.0)

    def drop(self, account: str, key: str) -> None:
        """Forget a key under which nothing was done."""
        with self._engine.begin() as connection:
            connection.execute(_KEYS.delete().where(_is(account, key)))

    def put(self, account: str, body: bytes) -> str:
        """Leave something for an account to take once within ten minutes; gives the word that opens it."""
        word = secrets.token_urlsafe(32)
        row = {
            "account": account, "key": _name(word), "asked": "", "begun": time.time() - KEEP_SECONDS + NOTE_SECONDS,
            "until": 0.0, "status": NOTE, "media": "", "body": _sealed(word, body),
        }  # fmt: skip
        with self._engine.begin() as connection:
            connection.execute(_KEYS.insert(), row)
        return word

    def take(self, account: str, word: str) -> bytes | None:
        """What was left under a word; the second who asks gets nothing."""
        with self._engine.begin() as connection:
            found = connection.execute(
                sa.select(_KEYS).where(_is(account, word), _KEYS.c.status == NOTE)
            ).first()
            gone = connection.execute(
                _KEYS.delete().where(_is(account, word), _KEYS.c.status == NOTE)
            ).rowcount
        if found is None or not gone or found.begun < time.time() - KEEP_SECONDS:
            return None
        return _open(word, found.body)

    def _set(self, account: str, key: str, **facts: Any) -> None:
        with self._engine.begin() as connection:
            connection.execute(_KEYS.update().where(_is(account, key)).values(facts))

    def _sweep(self) -> None:
        if time.monotonic() - self._swept > SWEEP_SECONDS or not self._swept:
            self._swept = time.monotonic()
            with self._engine.begin() as connection:
                connection.execute(_KEYS.delete().where(_KEYS.c.begun < time.time() - KEEP_SECONDS))


def once(view: View, again: Again | None = None) -> View:
    """A view that does a request with an idempotency key at most once.

    Parameters
    ----------
    view : callable
    again : callable, optional
        Given what the view is given and when the first try began, whether it may be done again after it was broken
        off: because it did nothing, or because doing it again gives the same. Without it that is never assumed.
    """

    async def work(**given: Any) -> Any:
        if inspect.iscoroutinefunction(view):
            return await view(**given)
        return await run_in_threadpool(view, **given)

    @functools.wraps(view)
    async def turn(**given: Any) -> Any:
        request: Request = given["request"]
        key = request.headers.get(HEADER)
        if key is None:
            return await work(**given)
        if not KEY.fullmatch(key):
            raise KeyFormError("'Idempotency-Key' must be 16 to 200 visible characters, best a UUID.")
        account, asked = request.state.visitor.name, await _asked(request)
        keys: IdempotencyKeys = request.app.state.keys
        found = await _turn_of(keys, account, key, asked)
        if isinstance(found, Kept):
            headers = {"idempotency-replayed": "true"}
            return Response(found.body, found.status, headers, found.media)
        try:
            if found.begun is not None and (
                again is None or not await run_in_threadpool(again, found.begun, **given)
            ):
                raise BrokenOffError(
                    "The first request with this 'Idempotency-Key' was broken off: what it was charged stays charged. Look "
                    "at what it did, then ask under a new key."
                )
            return await _done(keys, account, key, request, work(**given))
        except (BrokenOffError, asyncio.CancelledError):
            await asyncio.shield(run_in_threadpool(keys.break_off, account, key))
            raise

    return turn


async def _turn_of(keys: IdempotencyKeys, account: str, key: str, asked: bytes) -> Turn | Kept:
    pause = 0.02
    while True:
        found = await run_in_threadpool(keys.begin, account, key, asked)
        if found is not None:
            return found
        await asyncio.sleep(pause)
        pause = min(0.5, 1.5 * pause)


async def _done(
    keys: IdempotencyKeys, account: str, key: str, request: Request, work: Awaitable[Any]
) -> Response:
    beating = asyncio.create_task(_beat(keys, account, key))
    try:
        made = await work
        response = made if isinstance(made, Response) else JSONResponse(jsonable_encoder(made))
        await run_in_threadpool(keys.keep, account, key, _kept(response))
        return response
    except TooOftenError:  # nothing was done
        await run_in_threadpool(keys.drop, account, key)
        raise
    except ShoalError as error:
        if error.status < 500:
            await run_in_threadpool(keys.keep, account, key, _kept(problem(request, error)))
        else:
            await run_in_threadpool(keys.break_off, account, key)
        raise
    except Exception:
        await run_in_threadpool(keys.break_off, account, key)
        raise
    finally:
        beating.cancel()


async def _beat(keys: IdempotencyKeys, account: str, key: str) -> None:
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            await run_in_threadpool(keys.renew, account, key)


async def _asked(request: Request) -> bytes:
    """What tells one request from another: its method, its path and its body."""
    told = hashlib.sha256(f"{request.method} {request.url.path}\n".encode())
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        form = await request.form(max_files=MOST_FILES, max_fields=20_000)
        for name, value in form.multi_items():
            told.update(json.dumps([name, await _value(value)]).encode())
    else:
        told.update(await request.body())
    return told.digest()


async def _value(value: UploadFile | str) -> list[str | None]:
    if isinstance(value, str):
        return [value]
    digest = hashlib.sha256()
    while piece := await value.read(1 << 20):
        digest.update(piece)
    await value.seek(0)
    return [value.filename, digest.hexdigest()]


def _kept(response: Response) -> Kept:
    return Kept(
        response.status_code, response.headers.get("content-type", "application/json"), bytes(response.body)
    )


def _is(account: str, key: str) -> Any:
    return sa.and_(_KEYS.c.account == account, _KEYS.c.key == _name(key))


def _name(key: str) -> str:
    return hashlib.sha256(b"name\n" + key.encode()).hexdigest()


def _sealed(key: str, body: bytes) -> bytes:
    nonce = os.urandom(12)
    return nonce + _cipher(key).encrypt(nonce, body, None)


def _open(key: str, body: bytes) -> bytes:
    return _cipher(key).decrypt(body[:12], body[12:], None)


def _cipher(key: str) -> AESGCM:
    return AESGCM(hashlib.sha256(b"body\n" + key.encode()).digest())
