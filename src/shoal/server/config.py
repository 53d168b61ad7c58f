"""`shoal.toml`: what the server needs to know, checked before anything is opened."""

from __future__ import annotations

import ipaddress
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from shoal.dp.anchor import Anchor
from shoal.dp.ledger import Ledger
from shoal.dp.session import LEAST
from shoal.dp.unit import MODES as SOUND
from shoal.dp.unit import STATED
from shoal.errors import ParameterError
from shoal.schema import Schema

MODES = (*SOUND, *STATED, "heuristic")
_SERVER: dict[str, tuple[type | tuple[type, ...], str]] = {
    "ledger": (str, "a file or a database URL"),
    "accounts": (str, "a file or a database URL"),
    "host": (str, "an address such as 127.0.0.1"),
    "port": (int, "a whole number from 1 to 65535"),
    "certificate": (str, "a file in PEM format"),
    "certificate_key": (str, "a file in PEM format"),
    "secret": (str, "the path of a file"),
    "anchor": (str, "the path of a file"),
    "anchor_command": (list, "a list of words"),
    "expects": (str, "a head of the ledger"),
    "slot_seconds": ((int, float), "a number of at least 0"),
    "least_epsilon": ((int, float), "a number above 0"),
    "agent_epsilon": ((int, float), "a number above 0"),
    "requests_per_minute": (int, "a whole number of at least 1"),
    "publish": (bool, "true or false"),
    "upload_megabytes": (int, "a whole number of at least 1"),
}
_DATASET: dict[str, tuple[type | tuple[type, ...], str]] = {
    "file": (str, "the path of a table"),
    "schema": (str, "the path of a schema"),
    "modes": (list, "a list of modes"),
    "budget": ((int, float), "a number above 0"),
    "per_analyst": ((int, float), "a number above 0"),
    "tau": (int, "a whole number of at least 1"),
    "model": (str, "a model of mode heuristic (dbscan:eps=0.4), or the file of a model"),
    "version": (str, "a text"),
    "about": (str, "a text"),
}


@dataclass(frozen=True)
class Dataset:
    """One table that may be asked: where it lies, its public facts, and what is allowed on it."""

    file: Path
    schema: Schema
    modes: tuple[str, ...] = ("dp",)
    budget: float | None = None
    per_analyst: float | None = None
    tau: int | None = None
    model: str | None = None
    version: str | None = None
    about: str = ""


@dataclass(frozen=True)
class Config:
    """Everything the server goes by.

    Parameters
    ----------
    datasets : dict of str to Dataset
        By the id that their schemas give them.
    ledger, accounts : str
        SQLite files, or database URLs; several servers may share one PostgreSQL.
    host, port : where to listen
    certificate, certificate_key : str, optional
        PEM files; with them the server speaks TLS.
    secret : str, optional
        File of the key of the ledger's store, made where there is none. Beside the ledger's file if left open; beside
        the configuration where the ledger is a database.
    anchor : str, optional
        File, best on another machine, to which the ledger's head is added; its last line is asked for at the start.
    anchor_command : tuple of str, default ()
        Command that is given the ledger's head on its standard input.
    expects : str, optional
        A head kept elsewhere, which the ledger must hold.
    slot_seconds : float, default 0.1
        Answers and refusals leave at multiples of this after they were asked for; 0 turns it off.
    least_epsilon : float, default 0.001
        Of each figure.
    agent_epsilon : float, default 0.5
        What each account with the role agent may spend on a data set, within the cap of each analyst.
    requests_per_minute : int, default 600
        Per account.
    publish : bool, default True
        Whether owners have the page for publishing.
    upload_megabytes : int, default 50
    """

    datasets: dict[str, Dataset] = field(default_factory=dict)
    ledger: str = "ledger.db"
    accounts: str = "accounts.db"
    host: str = "127.0.0.1"
    port: int = 8471
    certificate: str | None = None
    certificate_key: str | None = None
    secret: str | None = None
    anchor: str | None = None
    anchor_command: tuple[str, ...] = ()
    expects: str | None = None
    slot_seconds: float = 0.1
    least_epsilon: float = LEAST
    agent_epsilon: float = 0.5
    requests_per_minute: int = 600
    publish: bool = True
    upload_megabytes: int = 50

    @property
    def tls(self) -> bool:
        """Whether the server itself speaks TLS."""
        return self.certificate is not None

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read and check a configuration; paths in it are relative to its folder."""
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ParameterError(f"No configuration file {str(path)!r}.") from None
        except OSError as error:
            raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ParameterError(f"{str(path)!r} must be a TOML file: {error}.") from None
        _only(data, {"server", "datasets"}, str(path))
        server = data.get("server", {})
        _check(server, _SERVER, f"[server] of {path}")
        server["ledger"] = _located(server.get("ledger", "ledger.db"), path.parent)
        shared = server["ledger"] if "://" in server["ledger"] else "accounts.db"
        server["accounts"] = _located(server.get("accounts", shared), path.parent)
        if "://" in server["ledger"]:
            server.setdefault("secret", "ledger.secret")
        server["anchor_command"] = tuple(str(each) for each in server.get("anchor_command", ()))
        for name in ("certificate", "certificate_key", "secret", "anchor"):
            if name in server:
                server[name] = str(path.parent / server[name])
        config = cls(_datasets(data.get("datasets", {}), path), **server)
        config.check()
        return config

    def check(self) -> None:
        """Raise a sentence about the first thing that cannot be right."""
        for name, value, low in (
            ("slot_seconds", self.slot_seconds, 0),
            ("least_epsilon", self.least_epsilon, 0.000001),
            ("agent_epsilon", self.agent_epsilon, 0.000001),
            ("requests_per_minute", self.requests_per_minute, 1),
            ("upload_megabytes", self.upload_megabytes, 1),
            ("port", self.port, 1),
        ):
            if not low <= value <= 65535:
                raise ParameterError(f"{name!r} must be a number from {low} to 65535. Got {value!r}.")
        if (self.certificate is None) != (self.certificate_key is None):
            raise ParameterError("'certificate' and 'certificate_key' must be given together.")
        for file in (self.certificate, self.certificate_key):
            if file is not None and not Path(file).is_file():
                raise ParameterError(f"No certificate file {file!r}.")

    def open_ledger(self, expects: str | None = None) -> Ledger:
        """The ledger, with its secret, slots and anchor; it must hold the head expected."""
        anchor = None
        if self.anchor or self.anchor_command:
            anchor = Anchor(None if self.anchor is None else Path(self.anchor), self.anchor_command)
        return Ledger(
            self.ledger,
            secret=self.secret,
            expects=expects or self.expects,
            anchor=anchor,
            slot_seconds=self.slot_seconds,
        )

    def check_address(self, *, behind_proxy: bool) -> None:
        """Refuse to listen where others can reach it, unless the words between are hidden from third parties."""
        if not (is_loopback(self.host) or self.tls or behind_proxy):
            raise ParameterError(
                f"The address {self.host!r} can be reached by others: give 'certificate' and 'certificate_key', "
                "or say --behind-proxy if a proxy adds TLS."
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _datasets(found: Any, path: Path) -> dict[str, Dataset]:
    if not isinstance(found, dict) or not found:
        raise ParameterError(
            f"{str(path)!r} must have at least one [datasets.NAME] with 'file' and 'schema'."
        )
    datasets = {}
    for name, facts in found.items():
        where = f"[datasets.{name}] of {path}"
        _check(facts, _DATASET, where)
        for needed in ("file", "schema"):
            if needed not in facts:
                raise ParameterError(f"{where} must say {needed!r}.")
        file, schema = path.parent / facts["file"], Schema.from_toml(path.parent / facts["schema"])
        if not file.is_file():
            raise ParameterError(f"{where}: no file {str(file)!r}.")
        if schema.id in datasets:
            raise ParameterError(f"{where}: another data set has the id {schema.id!r} already.")
        rest = {key: value for key, value in facts.items() if key not in ("file", "schema", "modes")}
        if "model" in rest:
            rest["model"] = _model(rest["model"], facts, schema, path.parent, where)
        modes = _modes(facts.get("modes", ["dp"]), schema, facts, where)
        if schema.budget is None and facts.get("budget") is None and modes != ("heuristic",):
            raise ParameterError(f"{where} must say 'budget', here or in the schema: it has no default.")
        datasets[schema.id] = Dataset(file, schema, modes, **rest)
    return datasets


def _model(text: str, facts: dict[str, Any], schema: Schema, folder: Path, where: str) -> str:
    """The model as it will be read: its name and parameters, or its file's path; refused here if it makes no sense."""
    from shoal.dp.correlation import named_model

    stated = [mode for mode in facts.get("modes", []) if mode in STATED]
    if "heuristic" not in facts.get("modes", []) and not stated:
        raise ParameterError(
            f"{where}: 'model' is for modes 'heuristic', 'pufferfish' and 'dependent', none of which is among its modes."
        )
    located = str(folder / text) if (folder / text).is_file() else text
    if stated:
        from shoal.dp.stated import read_stated

        found = read_stated(located)
        if found.mode != stated[0]:
            raise ParameterError(f"{where}: 'model' is one of mode {found.mode!r}, not {stated[0]!r}.")
    else:
        named_model(located, schema)
    return located


def _modes(modes: list[Any], schema: Schema, facts: dict[str, Any], where: str) -> tuple[str, ...]:
    for mode in modes:
        if mode not in MODES:
            raise ParameterError(f"{where}: 'modes' may hold {', '.join(MODES)}. Got {mode!r}.")
    if not modes:
        raise ParameterError(f"{where}: 'modes' must name at least one mode.")
    if "heuristic" in modes and schema.private:
        raise ParameterError(
            f"{where}: mode 'heuristic' guarantees nothing, so it is refused on a data set marked private."
        )
    stated = [mode for mode in modes if mode in STATED]
    if stated and (len(modes) > 1 or "model" not in facts):
        raise ParameterError(
            f"{where}: mode {stated[0]!r} gives one answer under a declared 'model', and stands alone among the modes."
        )
    if "correlated" in modes and (schema.cells is None or (schema.cells.tau or facts.get("tau")) is None):
        raise ParameterError(
            f"{where}: mode 'correlated' needs cells in the schema, and a tau here or there."
        )
    if "group" in modes and schema.group is None:
        raise ParameterError(f"{where}: mode 'group' needs a group in the schema.")
    return tuple(dict.fromkeys(modes))


def _check(found: Any, rules: dict[str, tuple[type | tuple[type, ...], str]], where: str) -> None:
    if not isinstance(found, dict):
        raise ParameterError(f"{where} must be a table of settings. Got {found!r}.")
    _only(found, set(rules), where)
    for name, value in found.items():
        kind, expected = rules[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ParameterError(f"{name!r} in {where} must be {expected}. Got {value!r}.")


def _only(found: dict[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(found) - allowed)
    if unknown:
        raise ParameterError(f"{where} may have {', '.join(sorted(allowed))}. Got {unknown[0]!r}.")


def _located(where: str, folder: Path) -> str:
    return where if "://" in where else str(folder / where)
