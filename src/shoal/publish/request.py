# ruff: noqa: RUF009 (one function makes every field, with its rule, its help and its names)
"""The request: one frozen value with all options of a run, checked once.

Each field has its rule, its help, and the places where it can be given. The options of the command, the form of the
web page, the keyword arguments of `protect` and the command that repeats a run are made from these fields. So a new
option is a new field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from shoal.errors import InputError, ParameterError
from shoal.params import AnyOf, Instance, Interval, Options
from shoal.publish import written
from shoal.publish.fields import (
    FLAG,
    PATH,
    TEXT,
    ColumnNames,
    IsSchema,
    IsSteps,
    Option,
    bytes_of,
    is_number_name,
    listed,
    maybe,
    option,
    options_of,
    short,
    split,
)
from shoal.publish.recoding import FIELDS
from shoal.scenarios import RELEASE_TYPES, ReleaseType, release_type
from shoal.typing import Json, Keywords

if TYPE_CHECKING:
    from shoal.microaggregation import SearchWork
    from shoal.schema import Column, FileFormat, Schema


SCHEMA_FILE = "schema_file"
"""The file of the schema. The ledger of private answers is beside it, and a protected copy ends that ledger's total."""


@dataclass(frozen=True)
class ProtectionRequest:
    """All options of a run.

    The fields are the options of `protect` and of `shoal protect`. `shoal.publish.request.options` lists them with their
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

    k: int = option(5, Interval(Integral, 2), "Smallest group.", "whole", "-k", page=True)
    method: Any = option(
        None, maybe(Instance((object,))),
        "A method by its name in shoal.methods(), generalize or suppress; left open, the schema's steps or anneal.",
        "text", "--method", page=True,
    )  # fmt: skip
    schema: Schema | None = option(
        None,
        maybe(IsSchema()),
        "Schema file (TOML): roles and kinds of columns.",
        "path",
        "--schema",
    )
    steps: Any = option(
        (), IsSteps(), "Several treatments in order, as TOML; else the schema's [[steps]].", "text", "--steps"
    )
    columns: tuple[str, ...] = option(
        (), ColumnNames(), "The only columns to protect, separated by commas; others stay as they are.", "names",
        "--columns",
    )  # fmt: skip
    leave: tuple[str, ...] = option((), ColumnNames(), "Columns that stay as they are.", "names", "--leave")
    sensitive: tuple[str, ...] = option(
        (), ColumnNames(), "Columns to be kept secret: left as they are, and checked.", "names", "--sensitive"
    )
    strata: tuple[str, ...] = option(
        (), ColumnNames(), "Columns whose values groups never cross.", "names", "--strata"
    )
    weights: str | None = option(None, TEXT, "Column of survey weights.", "text", "--weights")
    households: str | None = option(
        None, TEXT, "Column that says which rows are one household; groups hold k households.", "text",
        "--households",
    )  # fmt: skip
    l: int | None = FIELDS["l"]
    t: float | None = FIELDS["t"]
    entropy_l: float | None = FIELDS["entropy_l"]
    alpha: float | None = FIELDS["alpha"]
    beta: float | None = FIELDS["beta"]
    enhanced_beta: float | None = FIELDS["enhanced_beta"]
    delta_disclosure: float | None = FIELDS["delta_disclosure"]
    on_missing: str | None = option(
        None, maybe(Options(("error", "impute", "category", "drop"))),
        "Missing cells: error, impute, category or drop; overrides the schema.", "text", "--on-missing", page=True,
    )  # fmt: skip
    small_strata: str = option(
        "merge",
        Options(("merge", "refuse")),
        "Strata below k: merge or refuse.",
        "text",
        "--small-strata",
        page=True,
    )
    integers: str = option(
        "float",
        Options(("float", "round")),
        "Integer columns: float or round.",
        "text",
        "--integers",
        page=True,
    )
    identifiers: str = option(
        "drop",
        Options(("drop", "hash")),
        "Identifiers: drop, or hash with a key.",
        "text",
        "--identifiers",
        page=True,
    )
    key: bytes | None = option(
        None,
        maybe(Instance((bytes,))),
        "Key of the hashes; a random one is forgotten after the run.",
        "value",
    )
    hierarchies: str | Path | None = FIELDS["hierarchies"]
    recoding: str | None = FIELDS["recoding"]
    suppress_at_most: float | None = FIELDS["suppress_at_most"]
    objective: str | None = FIELDS["objective"]
    classes: str | None = FIELDS["classes"]
    reading: str | None = FIELDS["reading"]
    subsets: int | None = FIELDS["subsets"]
    count: str = FIELDS["count"]
    time_limit: float | None = option(
        None, maybe(Interval(Real, 0)),
        "Seconds the method may search instead of the default amount of work; the result then depends on the "
        "machine.", "number", "--time-limit", page=True,
    )  # fmt: skip
    max_proposals: int | None = option(
        None, maybe(Interval(Integral, 0)), "Proposals the method may try (repeats exactly).", "whole",
        "--max-proposals",
    )  # fmt: skip
    search_plan: int | None = option(
        None, maybe(Interval(Integral, 0, 99)),
        "The plan that these proposals follow, from a run that the clock ended; by default one is chosen.", "whole",
        "--search-plan",
    )  # fmt: skip
    effort: float | None = option(
        None, maybe(Interval(Real, 0, 1e6)),
        "The default amount of work times this; the same result on any machine.", "number", "--effort",
    )  # fmt: skip
    random_state: int | None = option(
        0, maybe(Interval(Integral, 0)), "Seed of random methods.", "whole", "--seed"
    )
    certify: Any = option(
        False, AnyOf((FLAG, Instance((str,)), Interval(Real, 0))),
        "Bound what any partition would lose; a terminal shows first how long that takes.", "flag", "--certify",
    )  # fmt: skip
    keep_best: bool = option(
        False, FLAG, "Where the search is interrupted, take the best it had found.", "flag", "--keep-best"
    )
    accept_risk: bool = option(
        False,
        FLAG,
        "Give the table out even if its status is red.",
        "flag",
        "--accept-risk",
        page=True,
    )
    release_type: str | None = option(
        None, maybe(Options(tuple(RELEASE_TYPES))),
        "Who gets the table: public, scientific or enclave; sets the limits of the status.", "text",
        "--release-type", page=True,
    )  # fmt: skip
    earlier: str | Path | None = option(
        None, PATH, "An earlier release of the same rows, in the same order: what both tell together is checked.",
        "path", "--earlier",
    )  # fmt: skip
    order: str = option(
        "keep", Options(("keep", "shuffle")),
        "Rows in the order of the input (keep), or in one that tells nothing of it (shuffle).", "text", "--order", page=True,
    )  # fmt: skip
    labels: str | Path | None = option(
        None, PATH, "Write the group of each row to this CSV file (custodian only).", "path", "--labels",
        python=False,
    )  # fmt: skip
    report: str | Path | None = option(
        None, PATH, "Write the report (custodian only) to this HTML file.", "path", "--report", python=False
    )
    public_report: str | Path | None = option(
        None, PATH, "Write a report without figures of the original to this HTML file.", "path",
        "--public-report", python=False,
    )  # fmt: skip
    save_run: str | Path | None = option(
        None, PATH, "Write the request, the result and the status (custodian only) to this JSON file: what attack and "
        "dossier read.", "path", "--save-run", python=False,
    )  # fmt: skip
    engine: str | None = option(
        None, maybe(Options(("local", "spark"))),
        "Take the table in parts on this machine (local) or on Spark (spark).", "text", "--engine", python=False,
    )  # fmt: skip
    memory: str | int | None = option(
        None, maybe(Instance((str, int))), "Take the table in parts within this memory, such as 2GB.", "text",
        "--memory", python=False,
    )  # fmt: skip
    resume: bool = option(
        False, FLAG, "In parts: go on from an interrupted run of the same request.", "flag", "--resume",
        python=False,
    )  # fmt: skip
    n_jobs: int | None = option(
        None, maybe(Interval(Integral, 1)), "In parts: processes; one for each core if left open.", "whole",
        "--jobs", python=False,
    )  # fmt: skip
    schema_file: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._settle_schema()
        self._settle_steps()
        if self.method is None:
            object.__setattr__(self, "method", self.default_method)
        for name, known in options().items():
            value = getattr(self, name)
            if known.kind == "names":
                value = tuple(listed(value, name))
                object.__setattr__(self, name, value)
            elif name in ("weights", "households") and is_number_name(value):
                value = str(value)
                object.__setattr__(self, name, value)
            if not known.rule.accepts(value):
                raise ParameterError(f"{name!r} of protect must be {known.rule}. Got {short(value)}.")
        self._refuse_two_roles()
        if self.memory is not None:
            bytes_of(self.memory)

    def _settle_schema(self) -> None:
        """Read a schema that is given as a path or a dict, once for the run."""
        given: Any = self.schema
        if isinstance(given, (str, Path)):
            object.__setattr__(self, "schema_file", str(given))
        if given is not None:
            from shoal.schema import Schema

            object.__setattr__(self, "schema", Schema.of(given))

    def _settle_steps(self) -> None:
        if not self.steps:
            object.__setattr__(self, "steps", ())
            return
        from shoal.schema import Steps

        object.__setattr__(self, "steps", Steps.of(self.steps))

    @property
    def default_method(self) -> str:
        """The method if none is named: the steps that were asked for or declared, else the search."""
        declared = self.schema is not None and bool(self.schema.steps)
        return "steps" if self.steps or declared else "anneal"

    def _refuse_two_roles(self) -> None:
        first: dict[str, str] = {}
        for role, names in self.asked_roles().items():
            for name in names:
                if first.setdefault(name, role) != role:
                    raise InputError(
                        f"A column has one role. {name!r} was asked for as {first[name]} and as {role}."
                    )

    def asked_roles(self) -> dict[str, tuple[str, ...]]:
        """The columns named in the request, by role."""
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
        """The thresholds of the release type, if one was chosen."""
        return None if self.release_type is None else release_type(self.release_type)

    @property
    def method_name(self) -> str:
        """The method's name in the registry."""
        return self.method if isinstance(self.method, str) else str(getattr(self.method, "name", self.method))

    @property
    def file(self) -> FileFormat | None:
        """How the bytes of a text file are read, if the schema declares it."""
        return None if self.schema is None else self.schema.file

    @property
    def untouched(self) -> tuple[str, ...]:
        """The columns that stay as they are, by the request or by the schema."""
        stated = () if self.schema is None else self.schema.columns.values()
        return tuple({*self.leave, *(each.name for each in stated if each.role == "leave")})

    @property
    def as_written(self) -> tuple[str, ...]:
        """The columns whose cells are read from a text file as they are written, so that 250.10 stays 250.10.

        These are categories, unless their levels are numbers, and columns that stay as they are, unless a rule, an
        indicator or a step may compute with them.
        """
        schema = self.schema
        stated = () if schema is None else schema.columns.values()
        found = {each.name for each in stated if each.kind == "category" and not _has_numbers(each)}
        computed = self.steps or (schema is not None and (schema.steps or schema.rules or schema.indicators))
        return tuple(sorted(found if computed else found.union(self.untouched)))

    def given(self) -> Keywords:
        """The fields that differ from their default."""
        usual = {each.name: each.default for each in fields(self)} | {"method": self.default_method}
        return {name: getattr(self, name) for name in options() if getattr(self, name) != usual[name]}

    def to_dict(self) -> Json:
        """The fields that differ from their default, as plain values that `from_dict` reads."""
        told: Json = {}
        for name, value in self.given().items():
            if name == "schema":
                told[name] = self.schema.to_toml() if self.schema is not None else None
                told |= (
                    {SCHEMA_FILE: self.schema.path} if self.schema is not None and self.schema.path else {}
                )
            elif name != "key":
                told[name] = written.plain(value)
        return told

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """A request from fields as users give them: one name or several, a schema, its dict or its path."""
        return cls(**fields)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """A request from plain values, as `to_dict` gives them."""
        unknown = sorted(set(facts) - {*options(), SCHEMA_FILE})
        if unknown:
            raise ParameterError(f"A request may have {', '.join(options())}. Got {unknown[0]!r}.")
        told = dict(facts)
        schema = told.get("schema")
        if isinstance(schema, str) and "\n" in schema:
            from shoal.schema import Schema

            file = told.get(SCHEMA_FILE)
            told["schema"] = replace(
                Schema.from_toml_text(schema), path=None if file is None else str(Path(file).absolute())
            )
        return cls(**told)

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """A request from the texts of a form. An empty text keeps the default, and a flag is on if it is there."""
        told = {}
        for name, text in texts.items():
            if name not in options():
                raise ParameterError(f"A request may have {', '.join(options())}. Got {name!r}.")
            if options()[name].kind == "flag" or text.strip():
                told[name] = parsed(name, text)
        return cls(**told)

    def to_command(self, source: str = "FILE", output: str = "OUT") -> str:
        """The command with the same options.

        A schema that was given as an object is called `schema.toml` there; the report contains its text.
        """
        return written.command(self, source, output)

    def to_python(self, source: str = "table.csv") -> str:
        """Python code with the same options."""
        return written.python(self, source)

    def repeating(self, work: SearchWork | None) -> Self:
        """The request that repeats a run which a time limit ended, by its number of proposals and their plan."""
        if self.time_limit is None or work is None or not isinstance(self.method, str):
            return self
        return replace(self, time_limit=None, max_proposals=work.proposals, search_plan=work.plan)


def _has_numbers(column: Column) -> bool:
    """Whether a category's declared levels are numbers."""
    return any(isinstance(level, Real) for level in column.levels or ())


def options() -> dict[str, Option]:
    """The fields of a request in order, each with its rule, its help and its names."""
    return options_of(ProtectionRequest)


def refuse_fields(request: ProtectionRequest, cannot: Mapping[str, str], where: str) -> None:
    """Raise one sentence that names the first given field that an executor cannot use."""
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
