"""Releases under differential privacy: whole tables by microaggregation and noise, and graphs.

- `release_marginals`: residuals of marginals with optimal noise, and rows drawn from them
- `release_table`: insensitive microaggregation, or individual ranking, with noise once per centroid
- `release_graph`: noisy quadtree over the adjacency matrix of a graph
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import loaded_when_used

if TYPE_CHECKING:
    from shoal.release._audit import audit_releases
    from shoal.release._graph import Graph, read_graph
    from shoal.release._graph_utility import GraphErrors, GraphFigures, graph_figures, graph_page, spy_plot
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
    "GraphErrors",
    "GraphFigures",
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

_LAZY = {
    "audit_releases": "shoal.release._audit",
    "Graph": "shoal.release._graph",
    "read_graph": "shoal.release._graph",
    "GraphErrors": "shoal.release._graph_utility",
    "GraphFigures": "shoal.release._graph_utility",
    "graph_figures": "shoal.release._graph_utility",
    "graph_page": "shoal.release._graph_utility",
    "spy_plot": "shoal.release._graph_utility",
    "GRAPH_GUARANTEE": "shoal.release._network",
    "GraphRelease": "shoal.release._network",
    "release_graph": "shoal.release._network",
    "ASSOCIATIONS": "shoal.release._table",
    "METHODS": "shoal.release._table",
    "TABLE_GUARANTEE": "shoal.release._table",
    "SmallGroupsWarning": "shoal.release._table",
    "TableRelease": "shoal.release._table",
    "release_table": "shoal.release._table",
    "utility_picture": "shoal.release._utility",
    "HouseholdRelease": "shoal.release.marginals",
    "KeptRelease": "shoal.release.marginals",
    "KeptReleases": "shoal.release.marginals",
    "MarginalAxis": "shoal.release.marginals",
    "MarginalRelease": "shoal.release.marginals",
    "Membership": "shoal.release.marginals",
    "RiskUtility": "shoal.release.marginals",
    "Utility": "shoal.release.marginals",
    "coded_rows": "shoal.release.marginals",
    "load_release": "shoal.release.marginals",
    "membership": "shoal.release.marginals",
    "release_households": "shoal.release.marginals",
    "release_marginals": "shoal.release.marginals",
    "risk_utility": "shoal.release.marginals",
    "utility": "shoal.release.marginals",
    "utility_page": "shoal.release.marginals",
}

# A server that sells tables need not wait for the auditor, nor for what draws pictures.
__getattr__ = loaded_when_used(__name__, _LAZY)
