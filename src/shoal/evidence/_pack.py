"""The intruder pack: what a human tester gets, what stays with the officer, and how the answers are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal import io
from shoal.attacks import Rate, read_tables
from shoal.engine.frame import Frame
from shoal.engine.roles import listed
from shoal.errors import InputError
from shoal.evidence._codebook import variables_of
from shoal.schema import Schema, decode_table
from shoal.typing import Json

PEOPLE = 50
DECOYS = 0.2  # share of the people who are not in the table, where a control group is given
_LETTER = """Intruder test

You get:
- protected.csv: the table as it would be published.
- codebook.xml: what its columns are (DDI-Codebook 2.5).
- people.csv: facts about {people} people, as an acquaintance or a register would have them. Blank cells are not known.
  Some of these people may not be in the table at all.
- answers.csv: a form. For each person whose row you believe to have found, write the number of that row in protected.csv
  (the first row after the header is 1) and how sure you are, from 0 to 1. Write 0 as the row if you believe that the
  person is not in the table. Leave persons out if you have no belief.

You may use anything that you can get lawfully. Please write down what you used, how long it took, and what you found out
about anybody. Do not contact the people, and tell nobody but the officer.
"""
_OFFICER = """For the officer only

key.csv says which row of protected.csv belongs to each person of people.csv (0: not in the table). Do not give it away.
When the tester has handed in answers.csv, score it with:

shoal score key.csv answers.csv
"""


@dataclass(frozen=True)
class Score:
    """How a tester did.

    Attributes
    ----------
    people, claims : int
        Asked about, and answered.
    right : Rate
        Of the claims that name a row.
    naive : float
        The chance of a right claim by drawing a row.
    found : float
        Right claims as a share of the people who are in the table.
    absent_right, absent_claims : int
        Claims that someone is not in the table.
    sure : float or None
        Mean confidence of the claims.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl
    >>> from shoal.evidence import score_pack, write_pack
    >>> people = pl.DataFrame({"age": list(range(20, 50)), "town": list("ABC") * 10})
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "pack"
    >>> files = write_pack(people, people, folder, people=5)
    >>> key = folder / "officer" / "key.csv"
    >>> score = score_pack(key, key)  # a tester who knows the key
    >>> score.claims, score.right.value
    (5, 1.0)
    """

    people: int
    claims: int
    right: Rate
    naive: float
    found: float
    absent_right: int
    absent_claims: int
    sure: float | None

    def lines(self) -> list[str]:
        """What to say."""
        said = [
            f"{self.claims} of {self.people} people were claimed; right: {self.right} of {self.right.attempts} claims of a "
            f"row, {100 * self.found:.3g} % of those in the table; by drawing rows: {100 * self.naive:.3g} %"
        ]
        if self.absent_claims:
            said.append(f"said not to be in the table: {self.absent_claims}, rightly {self.absent_right}")
        if self.sure is not None:
            said.append(f"mean confidence {self.sure:.2f}")
        return said

    def to_dict(self) -> Json:
        """As plain values."""
        return {
            "people": self.people, "claims": self.claims, **self.right.to_dict(), "baseline": self.naive,
            "found": self.found, "absent_claims": self.absent_claims, "absent_right": self.absent_right,
            "confidence": self.sure,
        }  # fmt: skip


def write_pack(
    protected: Any,
    original: Any,
    folder: str | Path,
    *,
    control: Any = None,
    schema: Schema | None = None,
    sensitive: str | Sequence[str] | None = None,
    people: int = PEOPLE,
) -> tuple[str, ...]:
    """Write an intruder pack: `tester/` for the tester, `officer/` for the officer.

    Parameters
    ----------
    protected, original : frames
        Rows in the same order.
    folder : str or Path
    control : frame, optional
        People who are not in the table; some of them are asked about too.
    schema : Schema, optional
    sensitive : str or list of str, optional
        Columns of which the tester is told nothing.
    people : int, default 50
        How many people are asked about.

    Returns
    -------
    tuple of str
        The files.

    Notes
    -----
    Who is asked about is drawn from the system's randomness, so that no tester can draw the key again. Facts about
    people of the table and about others are written alike.

    Examples
    --------
    >>> import tempfile
    >>> import shoal
    >>> from shoal import datasets
    >>> from shoal.evidence import write_pack
    >>> people = datasets.load_survey().select("age", "income", "sex")
    >>> published = shoal.protect(people, k=5, method="mdav").published
    >>> files = write_pack(published, people, tempfile.mkdtemp() + "/pack", people=10)
    >>> sorted({each.split("/")[0] for each in files})
    ['officer', 'tester']
    """
    check_pack(folder)
    tables = read_tables(protected, original, control, schema=schema, sensitive=listed(sensitive))
    after = Frame(protected).to_polars()
    before = decode_table(Frame(original).to_polars(), schema).select(tables.known)
    others = before.head(0) if control is None else decode_table(Frame(control).to_polars(), schema)
    rng = np.random.default_rng()
    drawn, answers = _drawn(before, others.select(tables.known), people, rng)
    order = rng.permutation(len(answers))
    asked = _partial(drawn[order.tolist()], rng)
    names = [f"P{number:03}" for number in range(1, asked.height + 1)]
    target = io.make_folder(folder)
    for part in ("tester", "officer"):
        io.make_folder(target / part)
    files = ["tester/protected.csv", "tester/codebook.xml", "tester/people.csv", "tester/answers.csv",
             "tester/READ ME.txt", "officer/key.csv", "officer/READ ME.txt"]  # fmt: skip
    blank = pl.DataFrame({"person": names, "row": [None] * len(names), "confidence": [None] * len(names)})
    with io.together():
        io.write_table(after, target / files[0])
        variables = variables_of(after, schema or Schema({}))
        io.write_text(io.ddi_codebook("Intruder test", variables, n_records=after.height), target / files[1])
        io.write_table(asked.insert_column(0, pl.Series("person", names)), target / files[2])
        io.write_table(
            blank.with_columns(pl.col("row").cast(pl.String), pl.col("confidence").cast(pl.String)),
            target / files[3],
        )
        io.write_text(_LETTER.format(people=asked.height), target / files[4])
        key = pl.DataFrame(
            {"person": names, "row": [answers[at] for at in order], "of": [after.height] * len(names)}
        )
        io.write_table(key, target / files[5])
        io.write_text(_OFFICER, target / files[6])
    return tuple(files)


def check_pack(folder: str | Path) -> None:
    """Raise a sentence if a folder already has a key: a tester may be working with it, and a new key would differ.

    Examples
    --------
    >>> import tempfile
    >>> from shoal.evidence import check_pack
    >>> check_pack(tempfile.mkdtemp())  # an empty folder may be used
    """
    if (Path(folder) / "officer" / "key.csv").exists():
        raise InputError(
            f"The folder {str(folder)!r} must not hold a pack already, since a new key would be another. Name another folder."
        )


def _drawn(
    before: pl.DataFrame, others: pl.DataFrame, people: int, rng: np.random.Generator
) -> tuple[pl.DataFrame, list[int]]:
    """People of the table and some others as texts written alike, and the number of each one's row."""
    decoys = min(round(DECOYS * people), others.height)
    members = rng.choice(before.height, min(people - decoys, before.height), replace=False)
    strangers = rng.choice(others.height, decoys, replace=False) if decoys else np.empty(0, np.int64)
    inside, outside = before[members.tolist()], others[strangers.tolist()]
    texts = pl.DataFrame([_texts(inside[name], outside[name]) for name in before.columns])
    return texts, [*(members + 1).tolist(), *[0] * decoys]


def _texts(inside: pl.Series, outside: pl.Series) -> pl.Series:
    """Cells of both as texts: a whole number of one file may have decimals in the other, and must not tell by that."""
    if inside.dtype.is_numeric() and outside.dtype.is_numeric() and inside.dtype != outside.dtype:
        inside, outside = inside.cast(pl.Float64), outside.cast(pl.Float64)
    if inside.dtype != outside.dtype:
        inside, outside = inside.cast(pl.String), outside.cast(pl.String)
    cells = pl.concat([inside, outside])
    if cells.dtype.is_float() and (cells.drop_nulls() == cells.drop_nulls().round()).all():
        cells = cells.cast(pl.Int64, strict=False)
    return cells.cast(pl.String)


def _partial(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Half of the facts about each person, at least two where there are two, drawn for each."""
    width = people.width
    told = max(min(2, width), (width + 1) // 2)
    hidden = np.stack(
        [np.isin(np.arange(width), rng.permutation(width)[told:]) for _ in range(people.height)]
    )
    return people.with_columns(
        people[name].set(pl.Series(hidden[:, at]), None).alias(name) for at, name in enumerate(people.columns)
    )


def score_pack(key: str | Path, answers: str | Path) -> Score:
    """Compare a tester's answers with the key.

    Parameters
    ----------
    key, answers : path
        As `write_pack` laid them out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl
    >>> from shoal.evidence import score_pack, write_pack
    >>> people = pl.DataFrame({"age": list(range(20, 50)), "town": list("ABC") * 10})
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "pack"
    >>> files = write_pack(people, people, folder, people=5)
    >>> key = folder / "officer" / "key.csv"
    >>> score_pack(key, key).found  # a tester who knows the key
    1.0
    """
    truth, told = io.read_table(key), io.read_table(answers)
    for table, what, needed in (
        (truth, "key", ("person", "row", "of")),
        (told, "answers", ("person", "row")),
    ):
        absent = [name for name in needed if name not in table.columns]
        if absent:
            raise InputError(f"The {what} must have the columns {', '.join(needed)}. It lacks {absent[0]!r}.")
    claims = told.with_columns(pl.col("row").cast(pl.String).str.strip_chars().replace("", None)).drop_nulls(
        "row"
    )
    odd = claims.filter(pl.col("row").cast(pl.Float64, strict=False).is_null())
    if odd.height:
        raise InputError(f"A row must be a whole number, 0 for nobody. Got {odd['row'][0]!r}.")
    claims = claims.with_columns(
        pl.col("row").cast(pl.Float64).cast(pl.Int64), pl.col("person").cast(pl.String)
    )
    if claims["person"].n_unique() < claims.height:
        raise InputError("Each person must be claimed once. Got some twice.")
    joined = claims.join(
        truth.rename({"row": "true"}).with_columns(pl.col("person").cast(pl.String)), on="person", how="left"
    )
    unknown = joined.filter(pl.col("true").is_null())
    if unknown.height:
        raise InputError(f"Answers must be about people of the key. Got {unknown['person'][0]!r}.")
    named, absent_claims = joined.filter(pl.col("row") > 0), joined.filter(pl.col("row") == 0)
    right = (named["row"] == named["true"]).cast(pl.Float64).to_numpy()
    inside = max(1, truth.filter(pl.col("row") > 0).height)
    sure = None
    if "confidence" in claims.columns:
        known = claims["confidence"].cast(pl.Float64, strict=False).drop_nulls()
        sure = float(known.mean()) if known.len() else None  # type: ignore[arg-type]
    return Score(
        truth.height, claims.height, Rate.of(right), 1 / max(1, int(truth["of"][0])), float(right.sum()) / inside,
        absent_claims.filter(pl.col("true") == 0).height, absent_claims.height, sure,
    )  # fmt: skip
