"""What analysts call their answers: kept beside the accounts, seen by nobody else, no part of the ledger."""

from __future__ import annotations

from shoal.errors import MissingExtraError, ParameterError

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "server") from None

LONGEST = 80
_METADATA = sa.MetaData()
_NAMES = sa.Table(
    "shoal_answer_names",
    _METADATA,
    sa.Column("analyst", sa.Text, primary_key=True),
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("entry", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
)


class Names:
    """Names of answers.

    Parameters
    ----------
    engine : sqlalchemy.Engine, optional
        That of the accounts; None keeps them in memory.

    Examples
    --------
    >>> from shoal.server.names import Names
    >>> names = Names()
    >>> names.call("ann", "survey", "3f1a09c2d4e5b687", "adults")
    >>> names.of("ann", "survey"), names.of("bob", "survey")
    ({'3f1a09c2d4e5b687': 'adults'}, {})
    """

    def __init__(self, engine: sa.Engine | None = None) -> None:
        in_memory = {"poolclass": sa.StaticPool, "connect_args": {"check_same_thread": False}}
        self._engine = sa.create_engine("sqlite://", **in_memory) if engine is None else engine
        with self._engine.begin() as connection:
            _METADATA.create_all(connection)

    def call(self, analyst: str, dataset: str, entry: str, name: str) -> None:
        """Name an answer; an empty name takes it away."""
        name = " ".join(name.split())
        if len(name) > LONGEST or not (name.isprintable() or not name):
            raise ParameterError(f"A name must have at most {LONGEST} printable characters.")
        of_this = sa.and_(_NAMES.c.analyst == analyst, _NAMES.c.dataset == dataset, _NAMES.c.entry == entry)
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_NAMES).where(of_this))
            if name:
                row = {"analyst": analyst, "dataset": dataset, "entry": entry, "name": name}
                connection.execute(sa.insert(_NAMES).values(row))

    def of(self, analyst: str, dataset: str) -> dict[str, str]:
        """Names by entry."""
        select = sa.select(_NAMES.c.entry, _NAMES.c.name).where(
            _NAMES.c.analyst == analyst, _NAMES.c.dataset == dataset
        )
        with self._engine.connect() as connection:
            return {row.entry: row.name for row in connection.execute(select)}
