"""Private tables through marginals: residuals with optimal noise, a mixture of products, rows drawn from it."""

from __future__ import annotations

from shoal.release.marginals._model import Model
from shoal.release.marginals._release import MarginalRelease, release_marginals

__all__ = ["MarginalRelease", "Model", "release_marginals"]
