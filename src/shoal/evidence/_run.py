"""A run written down: the request, what came out, the status and the versions. For the custodian: it holds the seed."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shoal import __version__
from shoal.errors import InputError
from shoal.io import write_text
from shoal.schema import Schema
from shoal.typing import Json

if TYPE_CHECKING:
    from shoal.publish import Protection, ProtectionRequest

LAYOUT = 1
JOBS = ("protect", "release", "ask")
_PACKAGES = ("numpy", "polars", "scikit-learn", "numba", "opendp")


@dataclass(frozen=True)
class Run:
    """A run as it is kept.

    Attributes
    ----------
    job : {"protect", "release", "ask"}
    request : mapping
        What was asked for: the fields of a `ProtectionRequest`, or the options of a release or question.
    facts : mapping
        What came out, as `--json` prints it.
    schema : Schema
        The facts the run went by, guessed ones included.
    source, output : str or None
        Where the table came from and went to, as they were given.
    sizes : mapping of int to int
        How many groups there are of each size.
    command, python : str
        What repeats the run, and what repeats it without the owner's names.
    rule : str
        The rule behind the status.
    versions : mapping of str to str
    written : str
        When.
    folder : Path
        Where the file lies; paths are looked for there too.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl, shoal
    >>> from shoal.evidence import read_run, run_of_protection
    >>> table = pl.DataFrame({"age": [20, 21, 22, 60, 61, 62]})
    >>> run = run_of_protection(shoal.protect(table, k=3, method="mdav"))
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
    >>> run.save(path)
    >>> read_run(path).k, read_run(path).protection_request().method
    (3, 'mdav')
    """

    job: str
    request: Mapping[str, Any]
    facts: Mapping[str, Any]
    schema: Schema
    source: str | None = None
    output: str | None = None
    sizes: Mapping[int, int] = field(default_factory=dict)
    command: str = ""
    python: str = ""
    rule: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    written: str = ""
    folder: Path = Path()

    def to_dict(self) -> Json:
        """As plain values, which `read_run` reads back."""
        return {
            "layout": LAYOUT,
            "job": self.job,
            "written": self.written,
            "versions": dict(self.versions),
            "source": self.source,
            "output": self.output,
            "request": dict(self.request),
            "facts": dict(self.facts),
            "sizes": {str(size): count for size, count in self.sizes.items()},
            "command": self.command,
            "python": self.python,
            "rule": self.rule,
            "schema": self.schema.to_toml(),
        }

    def save(self, path: str | Path) -> None:
        """Write the run as JSON that only its owner can read."""
        text = json.dumps(self.to_dict(), indent=2, default=_plain, allow_nan=False)
        write_text(text + "\n", path, mode=0o600)

    def protection_request(self) -> ProtectionRequest:
        """What `protect` was asked for."""
        from shoal.publish import ProtectionRequest

        if self.job != "protect":
            raise InputError(f"Only a run of protect has a request of its own. Got a run of {self.job}.")
        return ProtectionRequest.from_dict(self.request)

    def path(self, which: str, given: str | Path | None = None) -> Path:
        """The file of the table that went in ("source") or came out ("output"): as given, or beside the run."""
        named = str(given) if given is not None else getattr(self, which)
        if named is None or named == "-":
            raise InputError(f"The run does not say where its {which} is: give the file by name.")
        places = [Path(named), self.folder / named, self.folder / Path(named).name]
        found = next((place for place in places if place.exists()), None)
        if found is None:
            raise InputError(f"The file {named!r}, the {which} of the run, is not there.")
        return found

    @property
    def k(self) -> int:
        """The k that was asked for; 5 where there was none."""
        return int(self.request.get("k") or self.facts.get("k") or 5)

    @property
    def epsilon(self) -> float | None:
        """What a private release or answer spent."""
        value = self.facts.get("epsilon")
        return None if value is None else float(value)

    @classmethod
    def now(cls, job: str, **fields: Any) -> Self:
        """A run that has just been made."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(job, versions=_versions(), written=now, **fields)


def run_of_protection(protection: Protection) -> Run:
    """A protection as a run that can be saved.

    Examples
    --------
    >>> import polars as pl, shoal
    >>> from shoal.evidence import run_of_protection
    >>> done = shoal.protect(pl.DataFrame({"age": [20, 21, 22, 60, 61, 62]}), k=3, method="mdav")
    >>> run = run_of_protection(done)
    >>> run.job, run.facts["status"], dict(run.sizes)
    ('protect', 'green', {3: 2})
    """
    sizes, counts = np.unique(protection.sizes, return_counts=True)
    request = {"k": protection.request.k, "method": protection.method} | protection.request.to_dict()
    return Run.now(
        "protect",
        request=request,
        facts=protection.to_dict(),
        schema=protection.schema,
        source=protection.source,
        output=protection.output,
        sizes=dict(zip(sizes.tolist(), counts.tolist(), strict=True)),
        command=protection.command(),
        python=protection.python(public=True),
        rule=protection.rule,
    )


def run_of_release(
    facts: Mapping[str, Any], schema: Schema, request: Mapping[str, Any], source: str, output: str
) -> Run:
    """A release under differential privacy as a run that can be saved.

    Examples
    --------
    >>> from shoal.evidence import run_of_release
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> facts = {"stamp": "guarantee: epsilon-DP, add or remove one record", "epsilon": 1.0}
    >>> run = run_of_release(facts, schema, {"method": "marginals"}, "survey.csv", "public.csv")
    >>> run.job, run.epsilon, run.output
    ('release', 1.0, 'public.csv')
    """
    return Run.now("release", request=request, facts=facts, schema=schema, source=source, output=output)


def run_of_answer(facts: Mapping[str, Any], schema: Schema, request: Mapping[str, Any], source: str) -> Run:
    """A private answer as a run that can be saved.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Session
    >>> from shoal.evidence import run_of_answer
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> with Session(pl.DataFrame({"age": [31, 45, 62]}), schema, budget=2.0) as s:
    ...     answer = s.ask("SELECT COUNT(*) FROM t", epsilon=0.5)
    >>> run = run_of_answer(answer.to_dict(), schema, {"query": "SELECT COUNT(*) FROM t"}, "survey.csv")
    >>> run.job, run.epsilon
    ('ask', 0.5)
    """
    return Run.now("ask", request=request, facts=facts, schema=schema, source=source)


def read_run(path: str | Path | Run) -> Run:
    """Read a saved run; raises a sentence if the file is not one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import shoal
    >>> from shoal import datasets
    >>> from shoal.evidence import read_run, run_of_protection
    >>> protection = shoal.protect(datasets.load_survey().select("age", "income"), k=5, method="mdav")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
    >>> run_of_protection(protection).save(path)
    >>> read_run(path).job
    'protect'
    """
    if isinstance(path, Run):
        return path
    path = Path(path)
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"No file {str(path)!r}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The run {str(path)!r} cannot be read: {error}.") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"The run {str(path)!r} must be JSON, as --save-run writes it. Line {error.lineno} is not."
        ) from None
    wanted = ("layout", "job", "request", "facts", "schema")
    absent = [name for name in wanted if not isinstance(told, dict) or name not in told]
    if absent or told["layout"] != LAYOUT or told["job"] not in JOBS:
        what = f"it lacks {absent[0]!r}" if absent else f"layout {told['layout']!r}, job {told['job']!r}"
        raise InputError(f"A run must be a file that --save-run wrote. Got {path.name!r}: {what}.")
    run = Run(
        told["job"], told["request"], told["facts"], Schema.from_toml_text(told["schema"]), told.get("source"),
        told.get("output"), {int(size): int(count) for size, count in told.get("sizes", {}).items()},
        told.get("command", ""), told.get("python", ""), told.get("rule", ""), told.get("versions", {}),
        told.get("written", ""),
    )  # fmt: skip
    return replace(run, folder=path.parent)


def _versions() -> dict[str, str]:
    found = {"shoal": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return (
        value.item() if hasattr(value, "item") else value.tolist() if hasattr(value, "tolist") else str(value)
    )
