"""Releases under differential privacy: whole tables by microaggregation and noise, and graphs.

- `release_table`: insensitive microaggregation, or individual ranking, with noise once per centroid
- `release_graph`: noisy quadtree over the adjacency matrix of a graph
"""

from __future__ import annotations

from shoal.release._table import (
    ASSOCIATIONS,
    METHODS,
    SmallGroupsWarning,
    TableRelease,
    release_table,
)
from shoal.release._utility import utility_picture

__all__ = [
    "ASSOCIATIONS",
    "METHODS",
    "SmallGroupsWarning",
    "TableRelease",
    "release_table",
    "utility_picture",
]
