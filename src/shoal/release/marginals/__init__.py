"""Private tables through marginals: residuals with optimal noise, a mixture of products, rows drawn from it."""

from __future__ import annotations

from shoal.release.marginals._attack import Membership, membership
from shoal.release.marginals._axes import MarginalAxis, released_columns
from shoal.release.marginals._households import HouseholdRelease, release_households
from shoal.release.marginals._kept import KeptRelease, KeptReleases, load_release
from shoal.release.marginals._model import BoughtModel
from shoal.release.marginals._page import utility_page
from shoal.release.marginals._plan import MarginalPlan, make_plan
from shoal.release.marginals._release import MEASURING, MarginalRelease, release_marginals
from shoal.release.marginals._utility import RiskUtility, Utility, coded_rows, risk_utility, utility

__all__ = [
    "MEASURING",
    "BoughtModel",
    "HouseholdRelease",
    "KeptRelease",
    "KeptReleases",
    "MarginalAxis",
    "MarginalPlan",
    "MarginalRelease",
    "Membership",
    "RiskUtility",
    "Utility",
    "coded_rows",
    "load_release",
    "make_plan",
    "membership",
    "release_households",
    "release_marginals",
    "released_columns",
    "risk_utility",
    "utility",
    "utility_page",
]
