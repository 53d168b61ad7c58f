"""`shoal.toml`: what the server needs to know, declared once and checked before anything is opened."""

from __future__ import annotations

import dataclasses
import ipaddress
import tomllib
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import urlsplit

from shoal.dp.ledger.anchor import Anchor
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.signing import SignedHead, SigningKey, kept_head, key_beside
from shoal.dp.loading.sources import located_table
from shoal.dp.opening import LEAST
from shoal.dp.unit import MODES as SOUND
from shoal.dp.unit import STATED
from shoal.errors import MissingExtraError, ParameterError
from shoal.schema import Schema
from shoal.typing import Json

try:
    from pydantic import ConfigDict, Field, InstanceOf, ValidationError
    from pydantic.dataclasses import dataclass
except ImportError:
    raise MissingExtraError("pydantic", "server") from None

MODES = (*SOUND, *STATED, "heuristic")
_RULES = ConfigDict(extra="forbid")
_MOST = 1_000_000_000
Count = Annotated[int, Field(strict=True, ge=1, le=_MOST)]
Number = Annotated[float, Field(strict=True, gt=0, le=_MOST, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True)]
Switch = Annotated[bool, Field(strict=True)]
T = TypeVar("T")


@dataclass(frozen=True, config=_RULES)
class LinkedTable:
    """A further table of a data set, under the name that `[links]` of its schema and queries use."""

    file: InstanceOf[Path] | Text = Field(description="the table, as `file` of the data set")
    schema: InstanceOf[Schema] = Field(description="path of its own schema")


@dataclass(frozen=True, config=_RULES)
class ServedDataset:
    """One table that may be asked: where it lies, its public facts, and what is allowed on it."""

    file: InstanceOf[Path] | Text = Field(
        description="the table: a file, a folder of Parquet files, `duckdb:///FILE?table=NAME` or `postgresql://...?table=NAME`"
    )
    schema: InstanceOf[Schema] = Field(description="path of its schema")
    modes: tuple[Text, ...] = Field(default=("dp",), description="modes in which it is answered")
    budget: Number | None = Field(
        default=None,
        description="epsilon of the data set, against everyone together; of one counted in zCDP, with its delta",
    )
    per_analyst: Number | None = Field(default=None, description="epsilon of each analyst")
    tau: Count | None = Field(default=None, description="rows of a cell that count, in mode `correlated`")
    model: Text | None = Field(
        default=None,
        description="model of mode `heuristic` (`dbscan:eps=0.4`), or the file of a declared model",
    )
    version: Text | None = Field(default=None, description="the owner's word for this state of the table")
    about: Text = Field(default="", description="a sentence for analysts")
    tables: dict[str, InstanceOf[LinkedTable]] | None = Field(
        default=None,
        description="further tables, each `[datasets.NAME.tables.TABLE]` with `file` and `schema`, that the schema's `[links]` name",
    )


@dataclass(frozen=True, config=_RULES)
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


@dataclass(frozen=True, config=_RULES)
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
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ParameterError(f"{str(path)!r} must be a TOML file: {error}.") from None
        unknown = sorted(set(data) - {"server", "datasets", "oidc"})
        if unknown:
            raise ParameterError(f"{path} may have datasets, oidc, server. Got {unknown[0]!r}.")
        server, where = data.get("server", {}), f"[server] of {path}"
        _table(server, where)
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
            _table(data["oidc"], f"[oidc] of {path}")
            facts = data["oidc"]
            if isinstance(facts.get("client_secret_file"), str):
                facts["client_secret_file"] = str(path.parent / facts["client_secret_file"])
            server["oidc"] = made(Oidc, facts, f"[oidc] of {path}")
            server["oidc"].check()
        config = made(cls, {**server, "datasets": _datasets(data.get("datasets", {}), path)}, where)
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


def made(kind: type[T], facts: Json, where: str) -> T:
    """A table of settings as its dataclass, or one sentence about the first that is wrong."""
    try:
        return kind(**facts)
    except ValidationError as error:
        first = error.errors()[0]
    name, got = str(first["loc"][0]) if first["loc"] else "", first.get("input")
    if first["type"] == "unexpected_keyword_argument":
        allowed = ", ".join(sorted(each.name for each in dataclasses.fields(kind)))  # type: ignore[arg-type]
        raise ParameterError(f"{where} may have {allowed}. Got {name!r}.")
    if first["type"] in ("missing", "missing_argument"):
        raise ParameterError(f"{where} must say {name!r}.")
    said = first["msg"].replace("Input should be", "must be", 1)
    raise ParameterError(f"{name!r} in {where} {said[0].lower()}{said[1:]}. Got {got!r}.")


def _table(found: Any, where: str) -> None:
    if not isinstance(found, dict):
        raise ParameterError(f"{where} must be a table of settings. Got {found!r}.")


def _datasets(found: Any, path: Path) -> dict[str, ServedDataset]:
    if not isinstance(found, dict) or not found:
        raise ParameterError(
            f"{str(path)!r} must have at least one [datasets.NAME] with 'file' and 'schema'."
        )
    datasets: dict[str, ServedDataset] = {}
    for name, facts in found.items():
        where = f"[datasets.{name}] of {path}"
        _table(facts, where)
        made_one = dataset_of(facts, path.parent, where)
        if made_one.schema.id in datasets:
            raise ParameterError(f"{where}: another data set has the id {made_one.schema.id!r} already.")
        datasets[made_one.schema.id] = made_one
    return datasets


def dataset_of(facts: Json, folder: Path, where: str) -> ServedDataset:
    """A data set from its settings: its files are there, and its modes make sense."""
    for needed in ("file", "schema"):
        if not isinstance(facts.get(needed), str):
            given = f" as a text. Got {facts[needed]!r}" if needed in facts else ""
            raise ParameterError(f"{where} must say {needed!r}{given}.")
    file, schema = located_table(facts["file"], folder), Schema.from_toml(folder / facts["schema"])
    if isinstance(file, Path) and not file.exists():
        raise ParameterError(f"{where}: no file {str(file)!r}.")
    tables = _tables(facts.get("tables"), folder, where)
    found = made(ServedDataset, {**facts, "file": file, "schema": schema, "tables": tables}, where)
    modes = _modes(found, where)
    model = None if found.model is None else _model(found, folder, where)
    if schema.budget is None and found.budget is None and modes != ("heuristic",):
        raise ParameterError(f"{where} must say 'budget', here or in the schema: it has no default.")
    return dataclasses.replace(found, modes=modes, model=model)


def _tables(found: Any, folder: Path, where: str) -> dict[str, LinkedTable] | None:
    """The further tables of a data set, whose files are there."""
    if found is None:
        return None
    _table(found, f"'tables' in {where}")
    tables = {}
    for name, facts in found.items():
        place = f"table {name!r} of {where}"
        _table(facts, place)
        for needed in ("file", "schema"):
            if not isinstance(facts.get(needed), str):
                raise ParameterError(f"{place} must say {needed!r} as a text.")
        file = located_table(facts["file"], folder)
        if isinstance(file, Path) and not file.exists():
            raise ParameterError(f"{place}: no file {str(file)!r}.")
        schema = Schema.from_toml(folder / facts["schema"])
        tables[name] = made(LinkedTable, {**facts, "file": file, "schema": schema}, place)
    return tables or None


def _model(found: ServedDataset, folder: Path, where: str) -> str:
    """The model as it will be read: its name and parameters, or its file's path; refused here if it makes no sense."""
    from shoal.dp.correlation import named_model

    text, stated = found.model or "", [mode for mode in found.modes if mode in STATED]
    if "heuristic" not in found.modes and not stated:
        raise ParameterError(
            f"{where}: 'model' is for modes 'heuristic', 'pufferfish' and 'dependent', none of which is among its modes."
        )
    located = str(folder / text) if (folder / text).is_file() else text
    if stated:
        from shoal.dp.stated import read_stated

        model = read_stated(located)
        if model.mode != stated[0]:
            raise ParameterError(f"{where}: 'model' is one of mode {model.mode!r}, not {stated[0]!r}.")
    else:
        named_model(located, found.schema)
    return located


def _modes(found: ServedDataset, where: str) -> tuple[str, ...]:
    modes, schema = found.modes, found.schema
    for mode in modes:
        if mode not in MODES:
            raise ParameterError(f"{where}: 'modes' may hold {', '.join(MODES)}. Got {mode!r}.")
    if not modes:
        raise ParameterError(f"{where}: 'modes' must name at least one mode.")
    if found.tables and any(mode not in ("dp", "group") for mode in modes):
        raise ParameterError(f"{where}: several tables are asked in modes 'dp' and 'group'. Got {modes!r}.")
    if "heuristic" in modes and schema.private:
        raise ParameterError(
            f"{where}: mode 'heuristic' guarantees nothing, so it is refused on a data set marked private."
        )
    stated = [mode for mode in modes if mode in STATED]
    if stated and (len(modes) > 1 or found.model is None):
        raise ParameterError(
            f"{where}: mode {stated[0]!r} gives one answer under a declared 'model', and stands alone among the modes."
        )
    if "correlated" in modes and (schema.cells is None or (schema.cells.tau or found.tau) is None):
        raise ParameterError(
            f"{where}: mode 'correlated' needs cells in the schema, and a tau here or there."
        )
    if "group" in modes and schema.group is None:
        raise ParameterError(f"{where}: mode 'group' needs a group in the schema.")
    return tuple(dict.fromkeys(modes))


def _located(where: str, folder: Path) -> str:
    return where if "://" in where else str(folder / where)
