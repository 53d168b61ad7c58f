"""`shoal.toml`: what the server needs to know, declared once and checked before anything is opened."""

from __future__ import annotations

import dataclasses
import ipaddress
import tomllib
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from shoal.dp.ledger.anchor import Anchor
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.signing import SignedHead, SigningKey, kept_head, key_beside
from shoal.dp.opening import LEAST
from shoal.errors import MissingExtraError, ParameterError
from shoal.server.served import ServedDataset, datasets_of
from shoal.server.settings import RULES, Count, Number, Switch, Text, made, require_table

try:
    from pydantic import Field, InstanceOf
    from pydantic.dataclasses import dataclass
except ImportError:
    raise MissingExtraError("pydantic", "server") from None


@dataclass(frozen=True, config=RULES)
class Oidc:
    """Sign-in by an OpenID Connect provider, beside tokens: the table `[oidc]`."""

    issuer: Text = Field(description="address of the provider, as it names itself")
    client_id: Text = Field(description="what the provider calls this server")
    redirect_url: Text = Field(
        description="address of this server that ends in `/oidc/back`, as the provider knows it"
    )
    client_secret_file: Text | None = Field(
        default=None, description="file with the secret that the provider gave, if any"
    )
    name_claim: Text = Field(
        default="preferred_username", description="claim that names the account; `email` only if verified"
    )
    groups_claim: Text = Field(default="groups", description="claim with the user's groups")
    roles: dict[str, Text] = Field(
        default_factory=dict, description="group to role; the first that fits counts"
    )
    default_role: Text | None = Field(
        default=None, description="role of who is in none of the groups; nobody if left open"
    )
    scopes: tuple[Text, ...] = Field(default=("openid", "profile", "email"), description="what is asked for")
    label: Text = Field(default="Sign in with your organisation", description="words of the link")

    def secret(self) -> str | None:
        """The client's secret."""
        return None if self.client_secret_file is None else Path(self.client_secret_file).read_text().strip()

    def check(self) -> None:
        """Raise a sentence about the first thing that cannot be right."""
        for name in ("issuer", "redirect_url"):
            parts = urlsplit(getattr(self, name))
            if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
                raise ParameterError(
                    f"{name!r} in [oidc] must be an https address. Got {getattr(self, name)!r}."
                )
        if not self.redirect_url.endswith("/oidc/back"):
            raise ParameterError(
                f"'redirect_url' in [oidc] must end in /oidc/back. Got {self.redirect_url!r}."
            )
        for role in (*self.roles.values(), *([self.default_role] if self.default_role else ())):
            if role not in ("owner", "analyst", "auditor"):
                raise ParameterError(f"A role in [oidc] must be owner, analyst or auditor. Got {role!r}.")
        if self.client_secret_file is not None and not Path(self.client_secret_file).is_file():
            raise ParameterError(f"No file {self.client_secret_file!r} of the provider's secret.")


@dataclass(frozen=True, config=RULES)
class Config:
    """Everything the server goes by.

    Each setting is declared here once: its type, its limits, its default, and what it is for. Paths are files beside
    the configuration or absolute; `datasets` are kept by the id that their schemas give them.
    """

    datasets: dict[str, InstanceOf[ServedDataset]] = Field(default_factory=dict)
    oidc: InstanceOf[Oidc] | None = None
    ledger: Text = Field(
        default="ledger.db",
        description="SQLite file or database URL; several servers may share one PostgreSQL",
    )
    accounts: Text = Field(
        default="accounts.db", description="the same for accounts; beside the ledger by default"
    )
    host: Text = Field(default="127.0.0.1", description="address to listen on")
    port: Annotated[int, Field(strict=True, ge=1, le=65535)] = Field(
        default=8471, description="port to listen on"
    )
    certificate: Text | None = Field(default=None, description="PEM file; with its key the server speaks TLS")
    certificate_key: Text | None = Field(default=None, description="PEM file of the certificate's key")
    secret: Text | None = Field(
        default=None,
        description="file of the key of the ledger's store, made where there is none; never beside its backups",
    )
    anchor: Text | None = Field(
        default=None,
        description="file, best on another machine, to which the ledger's head is added; asked for at the start",
    )
    anchor_command: tuple[Text, ...] = Field(
        default=(), description="words of a command that is given the ledger's head on its standard input"
    )
    expects: Text | None = Field(
        default=None,
        description="a head kept elsewhere, which the ledger must hold: its hash, or a signed line",
    )
    signing_key: Text | None = Field(
        default=None,
        description="file of the key that signs the ledger's head, made where there is none; beside the ledger by default",
    )
    slot_seconds: Annotated[float, Field(strict=True, ge=0, le=3600)] = Field(
        default=0.1, description="answers and refusals leave at multiples of this; 0 turns it off"
    )
    least_epsilon: Number = Field(default=LEAST, description="least epsilon of each figure")
    agent_epsilon: Number = Field(
        default=0.5,
        description="epsilon that each agent may spend on a data set, within the cap of each analyst",
    )
    requests_per_minute: Count = Field(default=600, description="requests of one account")
    guesses_per_minute: Count = Field(default=20, description="wrong tokens from one address")
    refusals_per_hour: Count = Field(
        default=60,
        description="refusals by the budget that one account may add to the ledger; more are not looked at",
    )
    sign_ins_per_hour: Count = Field(
        default=60,
        description="sign-ins that one account may add to the ledger, a third of them at once; more are refused",
    )
    most_figures: Count = Field(
        default=20_000,
        description="numbers in one answer: figures times groups; larger questions are refused",
    )
    large_figures: Count = Field(
        default=1_000, description="questions with more numbers wait for one another"
    )
    large_at_once: Count = Field(
        default=1, description="such questions that are answered at a time by each worker"
    )
    large_waiting: Count = Field(default=8, description="such questions that may wait, one of each account")
    memory_megabytes: Count | None = Field(
        default=None, description="address space of each worker; a question that needs more fails by itself"
    )
    tables_folder: Text | None = Field(
        default=None,
        description="folder in which loaded tables lie while the server runs, one copy for all workers; the system's for temporary files by default, `/dev/shm` keeps them off the disk",
    )
    idle_minutes: Number = Field(default=60, description="after which a session that is not used ends")
    datasets_folder: Text = Field(
        default="datasets", description="folder of the data sets that owners add on their page"
    )
    data_folders: tuple[Text, ...] = Field(
        default=(), description="folders from which owners may take tables by their path"
    )
    trusted_proxies: tuple[Text, ...] = Field(
        default=(),
        description="addresses or networks of proxies whose word on the client and on TLS is taken; 127.0.0.1 with --behind-proxy",
    )
    metrics: Switch = Field(default=False, description="whether `/metrics` tells counts to owners")
    metrics_token: Annotated[str, Field(strict=True, min_length=20)] | None = Field(
        default=None,
        description="a token of at least 20 characters that may read `/metrics` and nothing else",
    )
    publish: Switch = Field(default=True, description="whether owners have the page for publishing")
    streams: Text | None = Field(
        default=None,
        description="file of the streams' exact figures and noise, for the owner alone; beside the ledger's file by default",
    )
    upload_megabytes: Annotated[int, Field(strict=True, ge=1, le=65535)] = Field(
        default=50, description="largest file that is uploaded"
    )

    @property
    def tls(self) -> bool:
        """Whether the server itself speaks TLS."""
        return self.certificate is not None

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:  # noqa: C901 - one sentence for each mistake
        """Read and check a configuration; paths in it are relative to its folder."""
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ParameterError(f"No configuration file {str(path)!r}.") from None
        except OSError as error:
            raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
        except (ValueError, RecursionError) as error:
            raise ParameterError(f"{str(path)!r} must be a TOML file: {error}.") from None
        unknown = sorted(set(data) - {"server", "datasets", "oidc"})
        if unknown:
            raise ParameterError(f"{path} may have datasets, oidc, server. Got {unknown[0]!r}.")
        server, where = data.get("server", {}), f"[server] of {path}"
        require_table(server, where)
        for name in ("datasets", "oidc"):
            if name in server:
                raise ParameterError(f"{where} must not say {name!r}, which has a table of its own.")
        made(cls, server, where)  # types first: what follows takes paths for texts
        for name, shared in (("ledger", "ledger.db"), ("accounts", "accounts.db")):
            given = server.get("ledger", "") if "://" in server.get("ledger", "") else shared
            server[name] = _located(server.get(name, given), path.parent)
        if "://" in server["ledger"]:
            server.setdefault("secret", "ledger.secret")
            server.setdefault("signing_key", "ledger.signing-key")
            server.setdefault("streams", "streams.db")
        for name in (
            "certificate",
            "certificate_key",
            "secret",
            "anchor",
            "signing_key",
            "streams",
            "tables_folder",
        ):
            if name in server:
                server[name] = str(path.parent / server[name])
        server["datasets_folder"] = str(path.parent / server.get("datasets_folder", "datasets"))
        server["data_folders"] = tuple(str(path.parent / each) for each in server.get("data_folders", ()))
        if "oidc" in data:
            require_table(data["oidc"], f"[oidc] of {path}")
            facts = data["oidc"]
            if isinstance(facts.get("client_secret_file"), str):
                facts["client_secret_file"] = str(path.parent / facts["client_secret_file"])
            server["oidc"] = made(Oidc, facts, f"[oidc] of {path}")
            server["oidc"].check()
        config = made(cls, {**server, "datasets": datasets_of(data.get("datasets", {}), path)}, where)
        config.check()
        return config

    def changed(self, **settings: Any) -> Self:
        """With other settings, checked as if they had been in the file; None changes nothing."""
        facts = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        given = {name: value for name, value in settings.items() if value is not None}
        config = made(type(self), facts | given, "the settings")
        config.check()
        return config

    def check(self) -> None:
        """Raise a sentence about settings that do not go together, or files that are not there."""
        if (self.certificate is None) != (self.certificate_key is None):
            raise ParameterError("'certificate' and 'certificate_key' must be given together.")
        for each in self.trusted_proxies:
            try:
                ipaddress.ip_network(each, strict=False)
            except ValueError:
                raise ParameterError(
                    f"'trusted_proxies' must hold addresses such as 10.0.0.7 or 10.0.0.0/8. Got {each!r}."
                ) from None
        if self.tables_folder is not None and not Path(self.tables_folder).is_dir():
            raise ParameterError(
                f"'tables_folder' must be a folder that is there. Got {self.tables_folder!r}."
            )
        for file in (self.certificate, self.certificate_key):
            if file is not None and not Path(file).is_file():
                raise ParameterError(f"No certificate file {file!r}.")

    def open_ledger(self, expects: str | None = None) -> Ledger:
        """The ledger, with its secret, slots and anchor; it must hold the head expected."""
        anchor, kept = None, expects or self.expects
        if self.anchor or self.anchor_command:
            file = None if self.anchor is None else Path(self.anchor)
            key = self.signing()
            anchor = Anchor(
                file,
                self.anchor_command,
                lambda head: key.sign(head).line,
                lambda line: SignedHead.from_line(line).required(key.public_key),
            )
        return Ledger(
            self.ledger,
            secret=self.secret,
            expects=None if kept is None else kept_head(kept),
            anchor=anchor,
            slot_seconds=self.slot_seconds,
        )

    def signing(self) -> SigningKey:
        """The key that signs heads, made where there is none; for this opening alone where the ledger is in memory."""
        return SigningKey(Path(self.signing_key) if self.signing_key else key_beside(self.ledger))

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


def _located(where: str, folder: Path) -> str:
    return where if "://" in where else str(folder / where)
