"""Accounts: who may do what, known by a token that is shown once and kept only as a salted scrypt hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import LedgerError, MissingExtraError, ParameterError
from shoal.typing import Record

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "server") from None

ROLES = ("owner", "analyst", "auditor", "agent")
VISIT_SECONDS = 8 * 3600
IDLE_SECONDS = 3600
SEEN_SECONDS = 30.0  # the last use of a session is noted so often
# How long this process may go on before it sees what another process revoked.
FRESH_SECONDS = 1.0
MOST_AT_ONCE = 200  # accounts that are read together
NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_NOBODY = "0" * 12
_METADATA = sa.MetaData()
_ACCOUNTS = sa.Table(
    "shoal_accounts",
    _METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("salt", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
    sa.Column("revoked", sa.Float, nullable=False),
)
_SESSIONS = sa.Table(
    "shoal_sessions",
    _METADATA,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("csrf", sa.Text, nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("seen", sa.Float, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
)


_SUBJECTS = sa.Table(
    "shoal_subjects",
    _METADATA,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)


@dataclass(frozen=True)
class Account:
    """A person with a role; the name is what the ledger charges."""

    id: str
    name: str
    role: str
    created: float
    expires: float
    revoked: float

    @property
    def active(self) -> bool:
        """Whether its token is still accepted."""
        return not self.revoked and time.time() < self.expires


@dataclass(frozen=True)
class SignedIn:
    """A session of an account, as its owner sees it."""

    id: str
    created: float
    seen: float
    address: str
    agent: str
    current: bool


class Accounts:
    """The book of accounts and of signed-in sessions.

    Parameters
    ----------
    where : str or Path, optional
        A SQLite file or a database URL; None keeps it in memory.
    idle_seconds : float, default 3600
        After which a session that was not used ends.

    Examples
    --------
    >>> from shoal.server.accounts import Accounts
    >>> book = Accounts()
    >>> token = book.add("ann", "analyst")
    >>> book.find(token).name, book.find(token[:-1] + "x") is None
    ('ann', True)
    >>> book.revoke("ann")
    >>> book.find(token) is None
    True
    """

    def __init__(self, where: str | Path | None = None, idle_seconds: float = IDLE_SECONDS) -> None:
        self.engine = self._engine = _engine(where)
        self._idle = idle_seconds
        self._secret, self._lock = secrets.token_bytes(32), threading.Lock()
        self._proven: dict[bytes, str] = {}
        self._rows: dict[str, tuple[float, Account | None]] = {}
        self._wanted, self._refreshing = set[str](), threading.Lock()
        self._visits: dict[str, tuple[float, str, str]] = {}
        try:
            with self._engine.begin() as connection:
                _METADATA.create_all(connection)
        except sa.exc.SQLAlchemyError:
            raise LedgerError("The accounts cannot be opened: is their file or database there?") from None

    def add(self, name: str, role: str, days: float = 90) -> str:
        """Make an account and give its token, which is not kept and cannot be shown again."""
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ParameterError(
                f"'name' must be 1 to 64 of a-z, 0-9 and . _ @ -, starting with one of the first two. Got {name!r}."
            )
        if role not in ROLES:
            raise ParameterError(f"'role' must be one of {', '.join(ROLES)}. Got {role!r}.")
        _check_days(days)
        if any(each.name == name and each.active for each in self.list()):
            raise ParameterError(f"There is an account {name!r} already: revoke it first.")
        row, token = _new_row(name, role, days)
        with self._engine.begin() as connection:
            connection.execute(_ACCOUNTS.insert(), row)
        return token

    def rotate(self, name: str, days: float = 90) -> str:
        """Give an account a new token in place of the one before, whose sessions end; there is never none."""
        _check_days(days)
        active = [each for each in self.list() if each.active and each.name == name]
        if not active:
            raise ParameterError(f"There is no active account {name!r}.")
        row, token = _new_row(name, active[-1].role, days)
        old = [each.id for each in active]
        with self._engine.begin() as connection:
            connection.execute(_ACCOUNTS.update().where(_ACCOUNTS.c.id.in_(old)).values(revoked=time.time()))
            connection.execute(_SESSIONS.delete().where(_SESSIONS.c.account.in_(old)))
            connection.execute(_ACCOUNTS.insert(), row)
        self._forget()
        return token

    def list(self) -> list[Account]:
        """All accounts, revoked and expired ones included, in the order they were made."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(_ACCOUNTS).order_by(_ACCOUNTS.c.created)).all()
        return [_account(row) for row in rows]

    def of_subject(self, subject: str, name: str, role: str) -> Account:
        """The account of somebody whom a provider vouches for, made when they first come.

        A subject keeps its first name. A name that somebody else has is not given to it, and who was revoked stays so.
        """
        with self._engine.begin() as connection:
            row = connection.execute(sa.select(_SUBJECTS).where(_SUBJECTS.c.subject == subject)).first()
            if row is None:
                taken = sa.select(_ACCOUNTS.c.id).where(_ACCOUNTS.c.name == name).limit(1)
                if connection.execute(taken).first() is not None:
                    raise ParameterError(f"The name {name!r} belongs to another account here: ask the owner.")
                connection.execute(_SUBJECTS.insert(), {"subject": subject, "name": name})
        name = name if row is None else str(row.name)
        mine = [each for each in self.list() if each.name == name]
        if not mine:
            self.add(name, role, VISIT_SECONDS / 86400)  # its token is shown to nobody
        elif mine[-1].revoked:
            raise ParameterError(f"The account {name!r} was revoked: ask the owner.")
        else:
            until = max(mine[-1].expires, time.time() + VISIT_SECONDS)
            with self._engine.begin() as connection:
                connection.execute(
                    _ACCOUNTS.update().where(_ACCOUNTS.c.id == mine[-1].id).values(role=role, expires=until)
                )
            with self._refreshing, self._lock:
                self._rows.clear()
        return next(each for each in reversed(self.list()) if each.name == name)

    def revoke(self, name: str, *, last_owner: bool = False) -> None:
        """Close every active account of this name, and end its sessions; the last owner only if that is said."""
        active = [each for each in self.list() if each.active]
        found = [each.id for each in active if each.name == name]
        if not found:
            raise ParameterError(f"There is no active account {name!r}.")
        owners = {each.name for each in active if each.role == "owner"}
        if owners == {name} and not last_owner:
            raise ParameterError(
                f"{name!r} is the last owner, who is not locked out: add another owner first."
            )
        with self._engine.begin() as connection:
            connection.execute(
                _ACCOUNTS.update().where(_ACCOUNTS.c.id.in_(found)).values(revoked=time.time())
            )
            connection.execute(_SESSIONS.delete().where(_SESSIONS.c.account.in_(found)))
        self._forget()

    def find(self, token: str) -> Account | None:
        """The account of a token, or None; takes the same steps whether or not there is such an account."""
        parts = token.split("-", 2)
        shaped = len(parts) == 3 and parts[0] == "shoal" and len(token) < 200
        identity, secret = (parts[1], parts[2]) if shaped else (_NOBODY, token[:200])
        digest = self._key(token)
        known = self._proven.get(digest)
        if known is None:
            row = self._row(identity)
            salt, kept = (bytes.fromhex(row.salt), row.hash) if row else (bytes(16), _NOBODY)
            if not hmac.compare_digest(_scrypt(secret, salt).hex(), kept):
                return None
            with self._lock:
                if len(self._proven) > 10_000:
                    self._proven.clear()
                self._proven[digest] = known = identity
        account = self.get(known)
        return account if account is not None and account.active else None

    def is_proven(self, token: str) -> bool:
        """Whether this process has already proven this very token, so that asking again costs nothing."""
        return self._key(token) in self._proven

    def recall(self, token: str) -> Account | None:
        """The account of a token proven before and looked up within the last second; else None, for `find`.

        It waits for nothing. What this process revokes it forgets at once.
        """
        identity = self._proven.get(self._key(token), "")
        at, account = self._rows.get(identity, (0.0, None))
        fresh = account is not None and account.active and time.monotonic() - at <= FRESH_SECONDS
        if fresh:
            self._wanted.add(identity)
        return account if fresh else None

    def get(self, identity: str) -> Account | None:
        """An account by its id, at most a second old."""
        at, account = self._rows.get(identity, (0.0, None))
        self._wanted.add(identity)
        if time.monotonic() - at <= FRESH_SECONDS:
            return account
        with self._refreshing:
            at, account = self._rows.get(identity, (0.0, None))
            return account if time.monotonic() - at <= FRESH_SECONDS else self._refresh(identity)

    def _refresh(self, identity: str) -> Account | None:
        """Read an account, and with it those that were asked for since the last time: one statement for all of them."""
        wanted, self._wanted = list({identity, *list(self._wanted)[:MOST_AT_ONCE]}), set()
        at = time.monotonic()
        with self._engine.connect() as connection:
            found = connection.execute(sa.select(_ACCOUNTS).where(_ACCOUNTS.c.id.in_(wanted))).all()
        accounts = {row.id: _account(row) for row in found}
        with self._lock:
            self._rows |= {each: (at, accounts.get(each)) for each in wanted}
        return accounts.get(identity)

    def enter(self, account: Account, address: str = "", agent: str = "") -> str:
        """Open a session and give its cookie."""
        cookie, now = secrets.token_urlsafe(32), time.time()
        row: Record = {
            "digest": _digest(cookie),
            "account": account.id,
            "csrf": secrets.token_urlsafe(24),
        }
        row |= {"id": secrets.token_hex(8), "created": now, "seen": now, "address": address[:100]}
        row["agent"] = agent[:200]
        with self._engine.begin() as connection:
            connection.execute(_SESSIONS.delete().where(_SESSIONS.c.expires < now))
            connection.execute(_SESSIONS.insert(), {**row, "expires": now + VISIT_SECONDS})
        return cookie

    def visit(self, cookie: str) -> tuple[Account, str] | None:
        """The account of a visit and the token its forms must carry."""
        digest = _digest(cookie[:200])
        at, identity, csrf = self._visits.get(digest, (0.0, "", ""))
        if time.monotonic() - at > FRESH_SECONDS:
            with self._engine.connect() as connection:
                row = connection.execute(sa.select(_SESSIONS).where(_SESSIONS.c.digest == digest)).first()
            now = time.time()
            if row is None or row.expires < now or row.seen + self._idle < now:
                return None
            if row.seen + SEEN_SECONDS < now:
                with self._engine.begin() as connection:
                    seen = _SESSIONS.update().where(_SESSIONS.c.digest == digest).values(seen=now)
                    connection.execute(seen)
            identity, csrf = row.account, row.csrf
            with self._lock:
                if len(self._visits) > 10_000:
                    self._visits.clear()
                self._visits[digest] = (time.monotonic(), identity, csrf)
        account = self.get(identity)
        return (account, csrf) if account is not None and account.active else None

    def is_open(self, account: Account, cookie: str | None) -> bool:
        """Whether who came by a token, or by the cookie of a session, would be let in now; it is not taken for a visit."""
        now, known = time.time(), self.get(account.id)
        if known is None or not known.active or known.role != account.role:
            return False
        if cookie is None:
            return True
        select = sa.select(_SESSIONS).where(_SESSIONS.c.digest == _digest(cookie[:200]))
        with self._engine.connect() as connection:
            row = connection.execute(select).first()
        return row is not None and row.expires >= now and row.seen + self._idle >= now

    def signed_in(self, account: Account, cookie: str = "") -> tuple[SignedIn, ...]:
        """The sessions of an account, the newest first; `cookie` tells which is the current one."""
        now, digest = time.time(), _digest(cookie[:200])
        select = (
            sa.select(_SESSIONS)
            .where(
                _SESSIONS.c.account == account.id,
                _SESSIONS.c.expires >= now,
                _SESSIONS.c.seen >= now - self._idle,
            )
            .order_by(_SESSIONS.c.created.desc())
            .limit(100)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(select).all()
        return tuple(
            SignedIn(row.id, row.created, row.seen, row.address, row.agent, row.digest == digest)
            for row in rows
        )

    def end(self, account: Account, session: str | None = None) -> None:
        """End one session of an account, or all of them."""
        ended = _SESSIONS.delete().where(_SESSIONS.c.account == account.id)
        with self._engine.begin() as connection:
            connection.execute(ended if session is None else ended.where(_SESSIONS.c.id == session))
        with self._lock:
            self._visits.clear()

    def leave(self, cookie: str) -> None:
        """End a session."""
        digest = _digest(cookie[:200])
        with self._engine.begin() as connection:
            connection.execute(_SESSIONS.delete().where(_SESSIONS.c.digest == digest))
        with self._lock:
            self._visits.pop(digest, None)

    def close(self) -> None:
        """Let go of the file or server."""
        self._engine.dispose()

    def _forget(self) -> None:
        # Whoever read the accounts before the change has noted them by then.
        with self._refreshing, self._lock:
            self._rows.clear()
            self._visits.clear()

    def _key(self, token: str) -> bytes:
        return hmac.digest(self._secret, token[:200].encode("utf-8", "replace"), "sha256")

    def _row(self, identity: str) -> Any:
        with self._engine.connect() as connection:
            return connection.execute(sa.select(_ACCOUNTS).where(_ACCOUNTS.c.id == identity)).first()


def _new_row(name: str, role: str, days: float) -> tuple[Record, str]:
    """A row of the book and its token, of which only a hash is in the row."""
    identity, secret, salt = secrets.token_hex(6), secrets.token_urlsafe(32), secrets.token_bytes(16)
    now = time.time()
    row = {
        "id": identity, "name": name, "role": role, "salt": salt.hex(), "hash": _scrypt(secret, salt).hex(),
        "created": now, "expires": now + days * 86400, "revoked": 0.0,
    }  # fmt: skip
    return row, f"shoal-{identity}-{secret}"


def _check_days(days: float) -> None:
    if not 0 < days <= 3650:
        raise ParameterError(f"'days' must be a number above 0 and at most 3650. Got {days!r}.")


def _account(row: Any) -> Account:
    return Account(row.id, row.name, row.role, row.created, row.expires, row.revoked)


def _scrypt(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode("utf-8", "replace"), salt=salt, n=1 << 14, r=8, p=1)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()


def _engine(where: str | Path | None) -> sa.Engine:
    if where is None:
        return sa.create_engine(
            "sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False}
        )
    text = str(where)
    if "://" not in text:
        Path(text).touch(mode=0o600, exist_ok=True) if Path(text).parent.is_dir() else None
        return sa.create_engine(f"sqlite:///{Path(text).absolute()}", connect_args={"timeout": 30})
    if text.startswith(("postgresql://", "postgres://")):
        text = "postgresql+psycopg://" + text.split("://", 1)[1]
    return sa.create_engine(text, pool_pre_ping=True)
