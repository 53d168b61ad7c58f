"""Sessions under a declared model, Pufferfish or dependent differential privacy: one answer per data set.

The noise follows from what was declared and from the query's text, never from the table. Such answers do not add up, so
that a data set gives one of them and nothing else.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.dp import budget as millionths
from shoal.dp.answering.answer import Answer
from shoal.dp.answering.cost import Cost, cost_part
from shoal.dp.answering.exact import expression
from shoal.dp.ledger.claims import Amount, Claim
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.secret import random_word
from shoal.dp.loading.cells import cells_of
from shoal.dp.loading.load import ids_of, load
from shoal.dp.loading.shared import shared_rows
from shoal.dp.loading.sources import whole_table
from shoal.dp.meaning.check import Keys, plain_query
from shoal.dp.meaning.reading import read_query
from shoal.dp.mechanisms.currency import Currency
from shoal.dp.mechanisms.discrete_laplace import laplace, laplace_radius
from shoal.dp.opening import LEAST, named
from shoal.dp.pufferfish import StatedModel, stated_model
from shoal.dp.pufferfish._answer import check_range, spend
from shoal.dp.pufferfish._contributions import stored_entries
from shoal.dp.session import Session
from shoal.dp.sql.query import Query
from shoal.dp.unit import ENDED, Protected, Stated
from shoal.errors import ParameterError, SchemaError
from shoal.schema import Column, Schema

KEY = "shoal:key"


def read_stated(path: str | Path) -> StatedModel:
    """A declared model from its TOML file.

    Parameters
    ----------
    path : str or path
        With one part, ``[pufferfish]`` or ``[dependent]``, see `shoal.dp.pufferfish.stated_model`.
    """
    try:
        facts = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParameterError(f"No model file {str(path)!r}.") from None
    except OSError as error:
        raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{str(path)!r} must be a TOML file: {error}.") from None
    return stated_model(facts, str(path))


class StatedSession(Session):
    """One private answer about a table under a declared model; `Session` makes it in modes `pufferfish` and `dependent`.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    schema : Schema or path
    mode : {"pufferfish", "dependent"}
    budget : float, optional
        Total epsilon of the data set; what the answer costs if left open everywhere.
    model : GroupScenarios, TimeChain, Coefficients, or the path of their file
    per_analyst, analyst, ledger, data_version, minimum
        As of `Session`.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Session
    >>> from shoal.dp.pufferfish import GroupScenarios, Scenario
    >>> from shoal.schema import Column, Schema
    >>> couple = Scenario({("yes", "yes"): "1/8", ("no", "no"): "5/8", ("yes", "no"): "1/8", ("no", "yes"): "1/8"})
    >>> model = GroupScenarios("household", "ill", (couple,))
    >>> schema = Schema({"ill": Column("ill", kind="category", levels=("no", "yes"))}, id="couples")
    >>> table = pl.DataFrame({"household": [1, 1, 2, 2], "ill": ["yes", "no", "no", "no"]})
    >>> with Session(table, schema, "pufferfish", model=model) as s:
    ...     answer = s.ask("SELECT COUNT(*) FROM t WHERE ill = 'yes'", epsilon=0.5)
    >>> answer.guarantee
    'guarantee: epsilon-Pufferfish for the stated secrets and scenarios; this one release, nothing else from this data set'
    """

    def __init__(
        self,
        frame: Any,
        schema: Schema | str | Path,
        mode: str = "pufferfish",
        budget: float | None = None,
        *,
        model: StatedModel | str | Path | None = None,
        unit: Protected | None = None,
        per_analyst: float | None = None,
        analyst: str = "me",
        ledger: Ledger | str | Path | None = None,
        tau: int | None = None,
        data_version: str | None = None,
        minimum: float = LEAST,
        tables: Mapping[str, Any] | None = None,
        releases: Sequence[Any] = (),
        _hook: Callable[[str], None] | None = None,
    ) -> None:
        if model is None:
            raise ParameterError(f"Mode {mode!r} needs a declared model: scenarios, chains or coefficients.")
        if unit is not None or tau is not None:
            raise ParameterError(
                f"Mode {mode!r} takes its unit from the declared model, no other unit or tau."
            )
        if releases:
            raise ParameterError(f"Mode {mode!r} gives one answer of its own: 'releases' must be left open.")
        if tables:
            raise ParameterError(f"Mode {mode!r} answers about one table: 'tables' must be left open.")
        self.stated = read_stated(model) if isinstance(model, (str, Path)) else model
        if getattr(self.stated, "mode", None) != mode:
            raise ParameterError(f"Mode {mode!r} needs a model of its own kind. Got {self.stated!r}.")
        self.schema, self.mode, self.model = Schema.of(schema), mode, None
        self.currency = Currency.of(self.schema)
        if not self.currency.pure:
            raise ParameterError(
                f"Mode {mode!r} is counted in epsilon. Got a schema whose currency is 'zcdp'."
            )
        self.analyst, self._hook = named(analyst), _hook or (lambda step: None)
        self._least, self.releases = millionths.micro(minimum, "minimum"), ()
        self.protected = Stated(f"{mode}:{self.stated.fingerprint()}", self.stated.guarantee)
        self._version = data_version or self.schema.version or random_word()
        self._frame = shared_rows(
            whole_table(frame, self.schema),
            f"rows by {self.protected.key}",
            lambda cells: _rows(cells, self.schema, self.stated),
        )
        self._own = not isinstance(ledger, Ledger)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger, _hook=_hook)
        total = self.schema.budget if budget is None else budget
        share = self.schema.per_analyst if per_analyst is None else per_analyst
        self.limit = None
        if total is not None:
            own = None if share is None else millionths.micro(share, "per_analyst")
            self.caps, self.limit = self.ledger.declare(
                self.schema.id, millionths.micro(total, "budget"), own, self.schema.currency
            )

    def ask(
        self,
        query: str | Query,
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        error: float | None = None,
        analyst: str | None = None,
    ) -> Answer:
        """Answer one COUNT or SUM, and nothing else about this data set afterwards.

        Parameters
        ----------
        query : str or Query
        epsilon : float
        rho, error : None
            Refused: such answers are counted in epsilon.
        analyst : str, optional
        """
        asked, micro = self._read(query, self._amount(epsilon, rho, error))
        quantum, noise = self.stated.noise(asked, self.schema, Fraction(micro, millionths.MICRO))
        scale = noise / quantum
        check_range(scale, Fraction(0), quantum)

        def draw() -> str:
            steps = exact_steps(asked, self._frame, self.schema, self.stated, quantum)
            self._hook("computed")
            noisy = int(laplace(np.array([steps]), scale)[0])
            self._hook("noised")
            return json.dumps(noisy)

        receipt = spend(self.ledger, self._stated_claim(asked, micro, self._who(analyst)), draw)
        noisy, radius = int(json.loads(receipt.body)), laplace_radius(scale)
        value, *ends = (_shown((noisy + more) * quantum) for more in (0, -radius, radius))
        guarantee = self.stated.guarantee + (ENDED if receipt.ended else "")
        spent, left = millionths.epsilon(receipt.charged), millionths.epsilon(receipt.remaining)
        return Answer(
            value, guarantee, spent, left, (ends[0], ends[1]), self._notes(), entry=receipt.entry or None
        )

    def cost(
        self,
        query: str | Query | Sequence[str | Query],
        epsilon: float | None = None,
        *,
        rho: float | None = None,
        error: float | None = None,
        analyst: str | None = None,
    ) -> Cost:
        """What the one answer would cost, and its noise scale. Free."""
        if not isinstance(query, (str, Query)):
            if len(query) != 1:
                raise ParameterError(f"Mode {self.mode!r} gives one answer. Got {len(query)} queries.")
            query = query[0]
        asked, micro = self._read(
            query, self._amount(1 if epsilon is rho is error is None else epsilon, rho, error)
        )
        noise = self.stated.noise(asked, self.schema, Fraction(micro, millionths.MICRO))[1]
        who = self._who(analyst)
        held = self.ledger.has_received(self._stated_claim(asked, micro, who))
        one = asked.aggregates[0]
        part = cost_part(str(asked), one.name, one.kind, "epsilon", micro, 1.0)
        part["noise_scale"] = float(noise)
        left = self.remaining(who) if self.ledger.caps(self.schema.id) else millionths.epsilon(micro)
        return Cost(0.0 if held else millionths.epsilon(micro), left, (part,))

    def append(self, rows: Any, *, data_version: str | None = None) -> Any:
        """Refused: a data set under a declared model gives one answer."""
        raise ParameterError(f"Mode {self.mode!r} gives one answer about a table that stays as it is.")

    def _plan(self, query: Query, micro: int, keys: Keys | None = None) -> Any:
        raise ParameterError(f"Mode {self.mode!r} has no plan of releases.")

    def _read(self, query: str | Query, micro: int) -> tuple[Query, int]:
        asked = plain_query(read_query(query, self.schema), self.schema)
        return asked, self._least_of(micro)

    def _stated_claim(self, query: Query, micro: int, analyst: str) -> Claim:
        assert self.protected is not None  # set when it was made
        state = json.dumps([self.mode, self.schema.to_toml(), self._version])
        unit = self.protected
        return Claim(self.schema.id, analyst, str(query), state, Amount(micro), unit, self.limit)

    def _notes(self) -> tuple[str, ...]:
        keys = " and ".join(self.stated.keys)
        said = [f"at most {self.stated.most} rows that share {keys} are counted"]
        if self.mode == "dependent" and self.stated.most > 2:
            said.append("coefficients of pairs do not see dependence among three or more records")
        if self.stated.secret is not None:
            said.append(f"every other column than {self.stated.secret} is taken as known to the observer")
        return tuple(said)


def _rows(data: Any, schema: Schema, model: StatedModel) -> pl.DataFrame:
    """The loaded rows that count: with a key, at most so many of one, those first in time or by a public hash of the row.

    Which rows count must not depend on the secret column, so that its cells are neither hashed nor looked at before.
    """
    needed = [*model.keys, *(each for each in (model.ordered_by, model.secret) if each is not None)]
    native = cells_of(data, needed)
    for name in needed:
        if name not in native.columns:
            raise SchemaError(
                f"The declared model names column {name!r}, which the table does not have (of a file, the columns that "
                "the schema declares are read)."
            )
    if model.secret is not None and model.secret not in schema.columns:
        raise SchemaError(f"The schema must declare {model.secret!r}, the secret column of the model.")
    loaded = load(data, schema)
    ids = [
        ids_of(native[name], schema.columns.get(name, Column(name, kind="category"))) for name in model.keys
    ]
    key = ids[0] if len(ids) == 1 else _pair(*ids)
    time = key
    if model.ordered_by is not None:  # as the schema reads it, where it declares it
        time = (loaded if model.ordered_by in schema.columns else native)[model.ordered_by]
    order = pl.lit(0) if model.ordered_by is None else pl.col("shoal:time")
    public = loaded if model.secret is None else loaded.drop(model.secret)
    hashed = public.hash_rows(seed=1) if public.width else pl.Series(np.zeros(loaded.height, dtype=np.uint64))
    whole = loaded.with_columns(
        key.alias(KEY), time.alias("shoal:time"), hashed.alias("shoal:hash")
    ).drop_nulls(KEY)
    place = pl.struct(order, pl.col("shoal:hash")).rank("ordinal").over(KEY)
    counted = whole.filter(place <= model.most).drop("shoal:time", "shoal:hash")
    if model.secret is None:
        return counted
    return counted.filter(pl.col(model.secret).is_in(stored_entries(schema, model.secret, model.entries)))


def _pair(one: pl.Series, other: pl.Series) -> pl.Series:
    """The two ids of a row in order, so that a row and its partner's have one key."""
    both = pl.DataFrame({"a": one.rename("a"), "b": other.rename("b")})
    ends = pl.concat_str(pl.min_horizontal("a", "b"), pl.lit("\x1f"), pl.max_horizontal("a", "b"))
    known = pl.col("a").is_not_null() & pl.col("b").is_not_null()
    return both.select(pl.when(known).then(ends).otherwise(pl.col("a"))).to_series()


def exact_steps(
    query: Query, frame: pl.DataFrame, schema: Schema, model: StatedModel, quantum: Fraction
) -> int:
    """The exact answer in quanta."""
    aggregate = query.aggregates[0]
    tests = [pl.lit(True)] if query.condition is None else [expression(query.condition, schema)]
    if aggregate.column is not None:
        tests.append(pl.col(aggregate.column).is_not_null())
    answers = frame.filter(pl.all_horizontal(tests).fill_null(False))
    if aggregate.kind == "count":
        return answers.height
    column = answers[aggregate.column or ""]
    if model.secret is not None:  # few entries: add each as often as it is there
        known = stored_entries(schema, model.secret, model.entries)
        counts = dict(column.alias("cells").value_counts().iter_rows())
        from shoal.dp.pufferfish._scenario import exact

        gains = zip(model.entries, known, strict=True)
        total = sum((counts.get(kept, 0) * exact(entry, "An entry") for entry, kept in gains), Fraction(0))
        return int(total / quantum)
    from shoal.dp.answering.plan import from_zero
    from shoal.dp.meaning.bounds import finite_bounds

    fixed = from_zero(finite_bounds(schema.columns[aggregate.column or ""]))
    whole = (column.cast(pl.Float64).clip(*fixed.bounds) / float(quantum)).round().cast(pl.Int64)
    return int(whole.clip(fixed.least, fixed.most).sum() or 0)


def _shown(value: Fraction) -> float | int:
    return int(value) if value.denominator == 1 else float(value)
