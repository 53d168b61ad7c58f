"""Tables to try things on, and makers of synthetic ones."""

from __future__ import annotations

from shoal.datasets._base import (
    DATASETS,
    Dataset,
    copy_bundled,
    load,
    load_adult,
    load_ccc,
    load_census,
    load_eia,
    load_graph,
    load_hapt,
    load_survey,
    load_survey_mixture,
    load_survey_schema,
    load_tarragona,
)
from shoal.datasets._makers import make_clusters, make_graph, make_survey

__all__ = [
    "DATASETS",
    "Dataset",
    "copy_bundled",
    "load",
    "load_adult",
    "load_ccc",
    "load_census",
    "load_eia",
    "load_graph",
    "load_hapt",
    "load_survey",
    "load_survey_mixture",
    "load_survey_schema",
    "load_tarragona",
    "make_clusters",
    "make_graph",
    "make_survey",
]
