"""Releases under differential privacy: whole tables by microaggregation and noise, and graphs.

- `release_marginals`: residuals of marginals with optimal noise, and rows drawn from them
- `release_table`: insensitive microaggregation, or individual ranking, with noise once per centroid
- `release_graph`: noisy quadtree over the adjacency matrix of a graph
"""

from __future__ import annotations

from shoal.release._audit import audit_releases
from shoal.release._graph import Graph, read_graph
from shoal.release._graph_utility import graph_figures, graph_page, spy_plot
from shoal.release._network import GRAPH_GUARANTEE, GraphRelease, release_graph
from shoal.release._table import (
    ASSOCIATIONS,
    METHODS,
    TABLE_GUARANTEE,
    SmallGroupsWarning,
    TableRelease,
    release_table,
)
from shoal.release._utility import utility_picture
from shoal.release.marginals import (
    HouseholdRelease,
    KeptRelease,
    KeptReleases,
    MarginalAxis,
    MarginalRelease,
    Membership,
    RiskUtility,
    Utility,
    coded_rows,
    load_release,
    membership,
    release_households,
    release_marginals,
    risk_utility,
    utility,
    utility_page,
)

__all__ = [
    "ASSOCIATIONS",
    "GRAPH_GUARANTEE",
    "METHODS",
    "TABLE_GUARANTEE",
    "Graph",
    "GraphRelease",
    "HouseholdRelease",
    "KeptRelease",
    "KeptReleases",
    "MarginalAxis",
    "MarginalRelease",
    "Membership",
    "RiskUtility",
    "SmallGroupsWarning",
    "TableRelease",
    "Utility",
    "audit_releases",
    "coded_rows",
    "graph_figures",
    "graph_page",
    "load_release",
    "membership",
    "read_graph",
    "release_graph",
    "release_households",
    "release_marginals",
    "release_table",
    "risk_utility",
    "spy_plot",
    "utility",
    "utility_page",
    "utility_picture",
]
