"""Private tables through marginals: residuals with optimal noise, a mixture of products, rows drawn from it."""

from __future__ import annotations

from shoal.release.marginals._attack import Membership, membership
from shoal.release.marginals._model import Model
from shoal.release.marginals._page import utility_page
from shoal.release.marginals._release import MarginalRelease, release_marginals
from shoal.release.marginals._utility import RiskUtility, Utility, risk_utility, utility

__all__ = [
    "MarginalRelease",
    "Membership",
    "Model",
    "RiskUtility",
    "Utility",
    "membership",
    "release_marginals",
    "risk_utility",
    "utility",
    "utility_page",
]
