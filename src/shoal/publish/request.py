# ruff: noqa: RUF009 (one function makes every field, with its rule, its help and its names)
"""What a run is asked for: one frozen value, checked once, that every way in fills.

Each field carries its rule, its help and where it can be given. Command-line options, the page's form, the keyword
arguments of `protect` and the commands that repeat a run are made from the fields: adding an option is adding a field.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from shoal.errors import InputError, ParameterError
from shoal.params import AnyOf, Instance, Interval, Nothing, Options, Rule
from shoal.scenarios import RELEASE_TYPES, ReleaseType, release_type

if TYPE_CHECKING:
    from shoal.schema import FileFormat, Schema

METADATA = "option"
# Methods that change cells truthfully instead of averaging them.
CHANGING = ("generalize", "suppress")
_PLAIN = (bool, int, float, type(None))


@dataclass(frozen=True)
class Option:
    """What is known of a field: its rule, its help, how it is written, and where it can be given.

    Attributes
    ----------
    rule : Rule
    help : str
    kind : {"whole", "number", "text", "names", "flag", "path", "value"}
        How it is written on a command line or in a form; a "value" only exists in Python.
    flag : str
        Its name on the command line, such as "--on-missing"; empty where it has none.
    python : bool
        Whether `protect` takes it; paths and places do not concern a frame.
    page : bool
        Whether the publish page asks for it; roles are asked for by column there.
    """

    rule: Rule
    help: str
    kind: str
    flag: str
    python: bool
    page: bool

    @property
    def choices(self) -> tuple[str, ...]:
        """The values to choose from, where there are few."""
        rules = self.rule.rules if isinstance(self.rule, AnyOf) else (self.rule,)
        found = [each.values for each in rules if isinstance(each, Options) and self.kind == "text"]
        return tuple(str(value) for values in found for value in values)


@dataclass(frozen=True)
class _Names(Rule):
    """Names of columns, each a text, none twice."""

    def accepts(self, value: Any) -> bool:
        return (
            isinstance(value, tuple)
            and all(isinstance(each, str) and each != "" for each in value)
            and len(set(value)) == len(value)
        )

    def __str__(self) -> str:
        return "names of columns, each once"


@dataclass(frozen=True)
class _Schema(Rule):
    """A schema, which is loaded only where there is one: the command makes its options from these rules."""

    def accepts(self, value: Any) -> bool:
        from shoal.schema import Schema

        return isinstance(value, Schema)

    def __str__(self) -> str:
        return "a Schema"


@dataclass(frozen=True)
class _Steps(Rule):
    """Steps of a run, or none."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, tuple)

    def __str__(self) -> str:
        return "a list of steps"


def _option(
    default: Any,
    rule: Rule,
    words: str,
    kind: str,
    flag: str | None = None,
    *,
    python: bool = True,
    page: bool = False,
) -> Any:
    return field(default=default, metadata={METADATA: Option(rule, words, kind, flag or "", python, page)})


def _open(rule: Rule) -> Rule:
    return AnyOf((Nothing(), rule))


_TEXT = _open(Instance((str,)))
_PATH = _open(Instance((str, Path)))
_FLAG = Options((True, False))


@dataclass(frozen=True)
class ProtectionRequest:
    """Everything a run is asked for.

    The fields are those of `protect` and of `shoal protect`; `shoal.publish.request.options` lists them with their
    rules.

    Examples
    --------
    >>> from shoal.publish import ProtectionRequest
    >>> asked = ProtectionRequest(k=3, method="mdav", leave="note")
    >>> asked.leave, asked.to_command("in.csv", "out.csv")
    (('note',), 'shoal protect in.csv -k 3 -o out.csv --method mdav --leave note --seed 0')
    >>> ProtectionRequest.from_dict(asked.to_dict()) == asked
    True
    """

    k: int = _option(5, Interval(Integral, 2), "Smallest group.", "whole", "-k", page=True)
    method: Any = _option(
        "anneal",
        Instance((object,)),
        "A method by its name in shoal.methods().",
        "text",
        "--method",
        page=True,
    )
    schema: Schema | None = _option(
        None,
        _open(_Schema()),
        "Schema file (TOML): roles and kinds of columns.",
        "path",
        "--schema",
    )
    steps: Any = _option(
        (), _Steps(), "Several treatments in order, as TOML; else the schema's [[steps]].", "text", "--steps"
    )
    columns: tuple[str, ...] = _option(
        (), _Names(), "The only columns to protect, separated by commas; others stay as they are.", "names",
        "--columns",
    )  # fmt: skip
    leave: tuple[str, ...] = _option((), _Names(), "Columns that stay as they are.", "names", "--leave")
    sensitive: tuple[str, ...] = _option(
        (), _Names(), "Columns to be kept secret: left as they are, and checked.", "names", "--sensitive"
    )
    strata: tuple[str, ...] = _option(
        (), _Names(), "Columns whose values groups never cross.", "names", "--strata"
    )
    weights: str | None = _option(None, _TEXT, "Column of survey weights.", "text", "--weights")
    households: str | None = _option(
        None, _TEXT, "Column that says which rows are one household; groups hold k households.", "text",
        "--households",
    )  # fmt: skip
    l: int | None = _option(
        None,
        _open(Interval(Integral, 2)),
        "Also reach l-diversity of the sensitive columns.",
        "whole",
        "--l",
        page=True,
    )
    t: float | None = _option(
        None,
        _open(Interval(Real, 0, 1)),
        "Also reach t-closeness of the sensitive columns.",
        "number",
        "--t",
        page=True,
    )
    on_missing: str | None = _option(
        None, _open(Options(("error", "impute", "category", "drop"))),
        "Missing cells: error, impute, category or drop; overrules the schema.", "text", "--on-missing", page=True,
    )  # fmt: skip
    small_strata: str = _option(
        "merge",
        Options(("merge", "refuse")),
        "Strata below k: merge or refuse.",
        "text",
        "--small-strata",
        page=True,
    )
    integers: str = _option(
        "float",
        Options(("float", "round")),
        "Integer columns: float or round.",
        "text",
        "--integers",
        page=True,
    )
    identifiers: str = _option(
        "drop",
        Options(("drop", "hash")),
        "Identifiers: drop, or hash with a key.",
        "text",
        "--identifiers",
        page=True,
    )
    key: bytes | None = _option(
        None,
        _open(Instance((bytes,))),
        "Key of the hashes; a random one is forgotten after the run.",
        "value",
    )
    hierarchies: str | Path | None = _option(
        None, _PATH, "Folder of hierarchies for the method generalize.", "path", "--hierarchies"
    )
    recoding: str | None = _option(
        None, _open(Options(("local", "global"))), "Recoding of the method generalize: local or global.",
        "text", "--recoding",
    )  # fmt: skip
    suppress_at_most: float | None = _option(
        None, _open(Interval(Real, 0, 1)), "Largest share of records that generalize may suppress.", "number",
        "--suppress-at-most",
    )  # fmt: skip
    reading: str | None = _option(
        None, _open(Options(("strict", "own", "wildcard"))),
        "How a suppressed cell is read: strict, own or wildcard.", "text", "--reading",
    )  # fmt: skip
    time_limit: float | None = _option(
        None, _open(Interval(Real, 0)),
        "Seconds the method may search instead of the default amount of work; the result then depends on the "
        "machine.", "number", "--time-limit", page=True,
    )  # fmt: skip
    max_proposals: int | None = _option(
        None, _open(Interval(Integral, 0)), "Proposals the method may try (repeats exactly).", "whole",
        "--max-proposals",
    )  # fmt: skip
    random_state: int | None = _option(
        0, _open(Interval(Integral, 0)), "Seed of random methods.", "whole", "--seed"
    )
    certify: Any = _option(
        False, AnyOf((_FLAG, Instance((str,)), Interval(Real, 0))),
        "Bound what any partition would lose; up to two minutes more.", "flag", "--certify",
    )  # fmt: skip
    keep_best: bool = _option(
        False, _FLAG, "Where the search is interrupted, take the best it had found.", "flag", "--keep-best"
    )
    accept_risk: bool = _option(
        False,
        _FLAG,
        "Give the table out even if its status is red.",
        "flag",
        "--accept-risk",
        page=True,
    )
    release_type: str | None = _option(
        None, _open(Options(tuple(RELEASE_TYPES))),
        "To whom the table is given: public, scientific or enclave; its thresholds decide the status.", "text",
        "--release-type", page=True,
    )  # fmt: skip
    earlier: str | Path | None = _option(
        None, _PATH, "An earlier release of the same rows, in the same order: what both tell together is checked.",
        "path", "--earlier",
    )  # fmt: skip
    order: str = _option(
        "keep", Options(("keep", "shuffle")),
        "Rows in the order of the input (keep), or in one that tells nothing of it (shuffle).", "text", "--order", page=True,
    )  # fmt: skip
    labels: str | Path | None = _option(
        None, _PATH, "Write the group of each row to this CSV file (custodian only).", "path", "--labels",
        python=False,
    )  # fmt: skip
    report: str | Path | None = _option(
        None, _PATH, "Write the report (custodian only) to this HTML file.", "path", "--report", python=False
    )
    public_report: str | Path | None = _option(
        None, _PATH, "Write a report without figures of the original to this HTML file.", "path",
        "--public-report", python=False,
    )  # fmt: skip
    save_run: str | Path | None = _option(
        None, _PATH, "Write the request, the result and the status (custodian only) to this JSON file: what attack and "
        "dossier read.", "path", "--save-run", python=False,
    )  # fmt: skip
    engine: str | None = _option(
        None, _open(Options(("local", "spark"))),
        "Take the table in parts on this machine (local) or on Spark (spark).", "text", "--engine", python=False,
    )  # fmt: skip
    memory: str | int | None = _option(
        None, _open(Instance((str, int))), "Take the table in parts within this memory, such as 2GB.", "text",
        "--memory", python=False,
    )  # fmt: skip
    resume: bool = _option(
        False, _FLAG, "In parts: go on from an interrupted run of the same request.", "flag", "--resume",
        python=False,
    )  # fmt: skip
    n_jobs: int | None = _option(
        None, _open(Interval(Integral, 1)), "In parts: processes; one for each core if left open.", "whole",
        "--jobs", python=False,
    )  # fmt: skip
    schema_file: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._settle_schema()
        if self.steps is None or self.steps == "" or len(self.steps) == 0:
            object.__setattr__(self, "steps", ())
        else:
            from shoal.schema import Steps

            object.__setattr__(self, "steps", Steps.of(self.steps))
        for name, option in options().items():
            value = getattr(self, name)
            if option.kind == "names":
                value = tuple(_listed(value, name))
                object.__setattr__(self, name, value)
            if not option.rule.accepts(value):
                raise ParameterError(f"{name!r} of protect must be {option.rule}. Got {_short(value)}.")
        self._refuse_two_roles()
        if self.memory is not None:
            bytes_of(self.memory)

    def _settle_schema(self) -> None:
        """A schema given as a path or a dict is read here, once for the run."""
        given: Any = self.schema
        if isinstance(given, (str, Path)):
            object.__setattr__(self, "schema_file", str(given))
        if given is not None:
            from shoal.schema import Schema

            object.__setattr__(self, "schema", Schema.of(given))

    def _refuse_two_roles(self) -> None:
        first: dict[str, str] = {}
        for role, names in self.asked_roles().items():
            for name in names:
                if first.setdefault(name, role) != role:
                    raise InputError(
                        f"A column has one role. {name!r} was asked for as {first[name]} and as {role}."
                    )

    def asked_roles(self) -> dict[str, tuple[str, ...]]:
        """The columns asked for by name, by role."""
        return {
            "quasi": self.columns,
            "leave": self.leave,
            "sensitive": self.sensitive,
            "stratum": self.strata,
            "weight": () if self.weights is None else (self.weights,),
            "household": () if self.households is None else (self.households,),
        }

    @property
    def limits(self) -> ReleaseType | None:
        """The thresholds of the release type, where one was chosen."""
        return None if self.release_type is None else release_type(self.release_type)

    @property
    def method_name(self) -> str:
        """The method's name in the registry."""
        return self.method if isinstance(self.method, str) else str(getattr(self.method, "name", self.method))

    @property
    def file(self) -> FileFormat | None:
        """How the bytes of a text file are read, where the schema declares it."""
        return None if self.schema is None else self.schema.file

    def given(self) -> dict[str, Any]:
        """The fields that differ from their default."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name in options() and getattr(self, each.name) != each.default
        }

    def to_dict(self) -> dict[str, Any]:
        """The fields that differ from their default as plain values, which `from_dict` reads back."""
        told: dict[str, Any] = {}
        for name, value in self.given().items():
            if name == "schema":
                told[name] = self.schema.to_toml() if self.schema is not None else None
            elif name != "key":
                told[name] = _plain(value)
        return told

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """A request from fields as users give them: one name or several, a schema, its dict or its path."""
        return cls(**fields)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """A request from plain values, as `to_dict` gives them."""
        unknown = sorted(set(facts) - set(options()))
        if unknown:
            raise ParameterError(f"A request may have {', '.join(options())}. Got {unknown[0]!r}.")
        told = dict(facts)
        schema = told.get("schema")
        if isinstance(schema, str) and "\n" in schema:
            from shoal.schema import Schema

            told["schema"] = Schema.from_toml_text(schema)
        return cls(**told)

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """A request from the texts of a form: an empty one leaves its field open, and a flag is on if it is there."""
        told = {}
        for name, text in texts.items():
            if name not in options():
                raise ParameterError(f"A request may have {', '.join(options())}. Got {name!r}.")
            if options()[name].kind == "flag" or text.strip():
                told[name] = parsed(name, text)
        return cls(**told)

    def to_command(self, source: str = "FILE", output: str = "OUT") -> str:
        """The command that asks for the same.

        A schema that came as an object is called `schema.toml`; the report holds its text.
        """
        words = ["shoal", "protect", str(source), "-k", str(self.k), "-o", str(output)]
        words += ["--method", self.method_name]
        for name, value in self.given().items():
            option = options()[name]
            if name in ("k", "method", "random_state") or not option.flag:
                continue
            if option.kind == "flag":
                words.append(option.flag)
                continue
            text = joined(value) if option.kind == "names" else str(value)
            words += [option.flag, (self.schema_file or "schema.toml") if name == "schema" else text]
        if self.random_state is not None:
            words += ["--seed", str(self.random_state)]
        return shlex.join(words)

    def to_python(self, source: str = "table.csv") -> str:
        """Python that asks for the same."""
        arguments = {"k": _code(self.k), "method": _method_code(self.method, self.k)}
        for name, value in self.given().items():
            if name in ("k", "method", "key") or not options()[name].python:
                continue
            arguments[name] = (
                _code(self.schema_file or "schema.toml") if name == "schema" else _code(_plain(value))
            )
        lines = [
            "import shoal",
            "from shoal.io import read_table",
            "",
            f"frame = read_table({_code(str(source))})",
            "protection = shoal.protect(",
            "    frame,",
            *(f"    {name}={code}," for name, code in arguments.items()),
            ")",
        ]
        return "\n".join(lines)

    def repeating(self, max_proposals: int | None) -> Self:
        """The request that repeats a run which the clock ended: by the number of proposals it made."""
        if self.time_limit is None or max_proposals is None or not isinstance(self.method, str):
            return self
        return replace(self, time_limit=None, max_proposals=max_proposals)


def options() -> dict[str, Option]:
    """The fields of a request with what is known of each, in order."""
    return {
        each.name: each.metadata[METADATA] for each in fields(ProtectionRequest) if METADATA in each.metadata
    }


def refuse_fields(request: ProtectionRequest, cannot: Mapping[str, str], where: str) -> None:
    """Raise one sentence that names the first field asked for which an executor cannot honour."""
    asked = request.given()
    for name, why in cannot.items():
        if name in asked:
            flag = options()[name].flag.split("/")[-1]
            shown = f"{name!r}" + (f" ({flag})" if flag else "")
            raise ParameterError(f"A table taken {where} cannot have {shown}: {why}.")


def parsed(name: str, text: str) -> Any:
    """A field's value from the text of a command line or form."""
    kind = options()[name].kind
    if kind == "names":
        return split(text)
    if kind == "flag":
        return True
    if kind in ("whole", "number"):
        try:
            return int(text) if kind == "whole" else float(text)
        except ValueError:
            what = "a whole number" if kind == "whole" else "a number"
            raise ParameterError(f"{name!r} of protect must be {what}. Got {text[:40]!r}.") from None
    return text.strip()


def split(text: str) -> tuple[str, ...]:
    """Names separated by commas; one that holds a comma stands in double quotes.

    Examples
    --------
    >>> from shoal.publish.request import joined, split
    >>> split('age, "town, county"')
    ('age', 'town, county')
    >>> joined(("age", "town, county"))
    'age,"town, county"'
    """
    rows = list(csv.reader([text], skipinitialspace=True))
    found = tuple(each.strip() for row in rows for each in row if each.strip())
    if not found:
        raise ParameterError(f"Names separated by commas were expected. Got {text!r}.")
    return found


def joined(names: Iterable[str]) -> str:
    """Names as `split` reads them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def bytes_of(memory: int | str) -> int:
    """A size like '2GB' or '500 MB' in bytes.

    Examples
    --------
    >>> from shoal.publish.request import bytes_of
    >>> bytes_of("2GB"), bytes_of("1.5 M"), bytes_of(4096)
    (2000000000, 1500000, 4096)
    """
    text = str(memory).strip().upper().removesuffix("B").removesuffix("I").strip()
    units = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    unit = units.get(text[-1:], 1)
    try:
        size = float(text if unit == 1 else text[:-1]) * unit
    except ValueError:
        size = 0.0
    if not 1 <= size < 1e18:
        raise ParameterError(f"'memory' must be a size such as 500MB or 2GB. Got {memory!r}.")
    return int(size)


def _listed(value: Any, name: str) -> Iterable[Any]:
    """One name, several or none."""
    if value is None or isinstance(value, str):
        return () if value is None else (value,)
    if not isinstance(value, Iterable):
        raise ParameterError(f"{name!r} of protect must be names of columns. Got {_short(value)}.")
    return value


def _short(value: Any) -> str:
    """A value for a sentence; the type alone where it is long."""
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else type(value).__name__


def _plain(value: Any) -> Any:
    if type(value).__name__ == "Steps":
        return str(value)
    if type(value).__module__ == "numpy":
        return value.item()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, (str, *_PLAIN)):
        return value
    return str(value) if isinstance(value, Path) else str(getattr(value, "name", value))


def _method_code(method: Any, k: int) -> str:
    if isinstance(method, str):
        return _code(method)
    told = {"k": k} | {
        name: value
        for name, value in method.get_params(deep=False).items()
        if name not in ("k", "progress") and value is not None
    }
    inner = ", ".join(f"{name}={_code(value)}" for name, value in told.items())
    return f"shoal.methods()[{_code(method.name)}]({inner})"


def _code(value: Any) -> str:
    """A value as Python code, texts in double quotes; what is no plain value is left to the reader."""
    if type(value).__module__ == "numpy":
        value = value.item()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_code(each) for each in value) + "]"
    return repr(value) if isinstance(value, _PLAIN) else "..."
