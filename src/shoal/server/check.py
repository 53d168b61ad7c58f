"""`shoal serve --check`: everything that a start needs is looked at, and nothing is changed."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from shoal.dp.ledger.ledger import Ledger
from shoal.dp.loading.shared import SharedTables
from shoal.errors import ParameterError, ShoalError
from shoal.server.config import Config
from shoal.server.folders import TABLES, PrivateFolder
from shoal.server.opening import further_tables, kept_quality, open_sessions, table_of
from shoal.server.served import ServedDataset


def look_through(config: Config) -> list[str]:
    """Read every file, key and column; sentences for the owner about cells, or the first thing that is wrong.

    Raises
    ------
    ParameterError
        With the data set and the reason.
    """
    check_tls(config)
    said = []
    try:
        check_port(config)
    except ParameterError as error:  # the server to be checked may be running
        said.append(f"{error}")
    if config.anchor is not None and not Path(config.anchor).parent.is_dir():
        said.append(f"The ledger's head cannot be added to {config.anchor!r}: its folder is not there.")
    for name, facts in config.datasets.items():
        try:
            said += [f"{name}: {each}" for each in _look_at(facts, config)]
        except ShoalError as error:
            raise ParameterError(f"Data set {name!r}: {error}") from None
    _check_ledger(config)
    return said


def check_tls(config: Config) -> None:
    """Raise a sentence unless the certificate and its key are readable and belong together."""
    if config.certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(config.certificate, config.certificate_key)
    except OSError as error:  # an SSLError is one too
        reason = getattr(error, "reason", None) or error.strerror or "no PEM file"
        raise ParameterError(
            f"'certificate' {config.certificate!r} and 'certificate_key' {config.certificate_key!r} must be PEM files "
            f"that belong together. Got: {str(reason).lower().replace('_', ' ')}."
        ) from None


def check_port(config: Config) -> None:
    """Raise a sentence unless the address and port are free to listen on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        reason = error.strerror or "the address is not known"
        raise ParameterError(
            f"The server cannot listen on {config.host}:{config.port}: {reason.lower()}. Give another --port or --host."
        ) from None


def _look_at(facts: ServedDataset, config: Config) -> list[str]:
    with (
        PrivateFolder(TABLES, config.tables_folder) as folder,
        SharedTables(folder.path).opening("check", "") as kept,
        Ledger() as ledger,
    ):
        frame, further = table_of(facts, kept), further_tables(facts, kept)
        open_sessions(facts, frame, ledger, "check", config.least_epsilon, further)
        return [each.sentence() for each in kept_quality(facts, frame, further, kept) if not each.fine]


def _check_ledger(config: Config) -> None:
    """An existing ledger must be whole; none is made."""
    if "://" not in config.ledger and not Path(config.ledger).exists():
        return
    ledger = config.open_ledger()
    try:
        ledger.ready()
    finally:
        ledger.close()
