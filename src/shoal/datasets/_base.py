"""Tables to try things on: bundled ones, and the field's benchmark files where they are at hand."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from shoal.errors import InputError
from shoal.io import copy_files
from shoal.schema import Schema
from shoal.typing import Json

BUNDLED = Path(__file__).parent / "data"
EIA_COLUMNS = (
    "UTILITYID", "RESREVENUE", "RESSALES", "COMREVENUE", "COMSALES", "INDREVENUE", "INDSALES",
    "OTHREVENUE", "OTHRSALES", "TOTREVENUE", "TOTSALES",
)  # fmt: skip


@dataclass(frozen=True)
class Dataset:
    """A table that `shoal.datasets` can load: where it is, what it is, where it comes from.

    Examples
    --------
    >>> from shoal.datasets import DATASETS
    >>> DATASETS["census"].shape
    (1080, 13)
    """

    name: str
    file: str
    shape: tuple[int, int]
    about: str
    source: str

    @property
    def path(self) -> Path | None:
        """Where the file lies, or None if it is not at hand."""
        return next((folder / self.file for folder in _folders() if (folder / self.file).is_file()), None)


DATASETS = {
    each.name: each
    for each in (
        Dataset(
            "survey",
            "survey.csv",
            (1012, 10),
            "household survey, synthetic, clean",
            "bundled; made by make_survey",
        ),
        Dataset(
            "survey-messy",
            "survey-messy.csv",
            (1012, 10),
            "the same with 3 % missing codes",
            "bundled; made by make_survey",
        ),
        Dataset(
            "graph",
            "graph.csv",
            (6516, 2),
            "friendship graph, 2,000 vertices, synthetic",
            "bundled; made by make_graph",
        ),
        Dataset(
            "census",
            "census.csv",
            (1080, 13),
            "CASC reference microdata 'Census'",
            "CASC project; R package sdcMicro, CASCrefmicrodata",
        ),
        Dataset(
            "tarragona",
            "tarragona.csv",
            (834, 13),
            "CASC company figures 'Tarragona'",
            "CASC project; R package sdcMicro, Tarragona",
        ),
        Dataset(
            "eia",
            "eia.csv",
            (4092, 15),
            "CASC electric utilities 'EIA'",
            "CASC project; R package sdcMicro, EIA",
        ),
        Dataset(
            "adult",
            "adult_complete.csv",
            (30162, 15),
            "UCI Adult, complete training rows",
            "UCI machine learning repository",
        ),
        Dataset(
            "ccc",
            "ccc.csv",
            (30000, 24),
            "UCI Default of Credit Card Clients",
            "UCI machine learning repository",
        ),
        Dataset(
            "hapt",
            "hapt.parquet",
            (10929, 565),
            "UCI HAPT signals, features recomputed",
            "UCI machine learning repository, no. 341",
        ),
    )
}


def _folders() -> list[Path]:
    """Where tables are looked for: bundled, named by SHOAL_DATA, beside the project, the user's cache."""
    folders = [BUNDLED]
    if os.environ.get("SHOAL_DATA"):
        folders.append(Path(os.environ["SHOAL_DATA"]))
    here = Path.cwd()
    folders += [here.parent / "shared" / "data", Path(__file__).parents[4] / "shared" / "data"]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return [*folders, Path(cache) / "shoal"]


def load(name: str) -> pl.DataFrame:
    """Load a table by its name in `DATASETS`.

    Examples
    --------
    >>> from shoal.datasets import load
    >>> load("survey").width
    10
    """
    if name not in DATASETS:
        raise InputError(f"The data set must be one of {', '.join(DATASETS)}. Got {name!r}.")
    dataset = DATASETS[name]
    path = dataset.path
    if path is None:
        raise InputError(
            f"The table {dataset.file!r} is not at hand. Get it from: {dataset.source}. Then set SHOAL_DATA to its folder."
        )
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=None)


def copy_bundled(folder: str | Path) -> list[Path]:
    """Copy the bundled tables and their schema to a folder, to try the commands on; give the new files.

    A file that is already there is never overwritten.

    Examples
    --------
    >>> import tempfile
    >>> from shoal.datasets import copy_bundled
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in copy_bundled(folder)]
    ['graph.csv', 'survey-messy.csv', 'survey.csv', 'survey.toml']
    """
    sources = sorted(path for path in BUNDLED.iterdir() if path.suffix in (".csv", ".toml"))
    there = [str(Path(folder) / path.name) for path in sources if (Path(folder) / path.name).exists()]
    if there:
        raise InputError(f"Bundled files are copied to where none of them lies yet. Got {', '.join(there)}.")
    return copy_files(sources, folder)


def load_survey(*, messy: bool = False) -> pl.DataFrame:
    """Load the bundled household survey (synthetic), clean or with missing codes.

    Examples
    --------
    >>> from shoal.datasets import load_survey
    >>> load_survey().shape
    (1012, 10)
    """
    return load("survey-messy" if messy else "survey")


def load_survey_schema() -> Schema:
    """Load the schema of the bundled survey: roles, kinds, bounds, levels and missing codes.

    Examples
    --------
    >>> from shoal.datasets import load_survey_schema
    >>> load_survey_schema().columns["age"].bounds
    (0, 110)
    """
    return Schema.from_toml(BUNDLED / "survey.toml")


def load_survey_mixture() -> Json:
    """Load the public mixture of the survey's records, 400 cells, for `shoal.dp.correlation.FrozenMixture`.

    Fitted on a survey made with another seed, so that nothing of it comes from the bundled table.

    Examples
    --------
    >>> from shoal.datasets import load_survey_mixture
    >>> len(load_survey_mixture()["weights"])
    400
    """
    return json.loads((BUNDLED / "survey-mixture.json").read_text(encoding="utf-8"))


def load_graph() -> pl.DataFrame:
    """Load the bundled friendship graph (synthetic), one edge a row.

    Examples
    --------
    >>> from shoal.datasets import load_graph
    >>> load_graph().columns
    ['source', 'target']
    """
    return load("graph")


def load_census() -> pl.DataFrame:
    """Load the benchmark table Census (1,080 x 13)."""
    return load("census")


def load_tarragona() -> pl.DataFrame:
    """Load the benchmark table Tarragona (834 x 13)."""
    return load("tarragona")


def load_eia(*, benchmark: bool = True) -> pl.DataFrame:
    """Load the benchmark table EIA (4,092 rows): the 11 columns of the literature, or all 15."""
    frame = load("eia")
    return frame.select(EIA_COLUMNS) if benchmark else frame


def load_adult() -> pl.DataFrame:
    """Load UCI Adult, complete rows (30,162 x 15)."""
    return load("adult")


def load_ccc() -> pl.DataFrame:
    """Load UCI Default of Credit Card Clients (30,000 x 24)."""
    return load("ccc")


def load_hapt() -> pl.DataFrame:
    """Load UCI HAPT with recomputed features (10,929 x 565)."""
    return load("hapt")
