"""Every public function and class that users call shows how it is used, in an example that pytest runs."""

from __future__ import annotations

import importlib
import inspect

import pytest

PACKAGES = (
    "shoal",
    "shoal.attacks",
    "shoal.audit",
    "shoal.bounds",
    "shoal.comparison",
    "shoal.datasets",
    "shoal.dp",
    "shoal.evidence",
    "shoal.generalization",
    "shoal.masking",
    "shoal.measures",
    "shoal.microaggregation",
    "shoal.privacy",
    "shoal.publish",
    "shoal.release",
    "shoal.research",
    "shoal.risk",
    "shoal.rules",
    "shoal.schema",
    "shoal.utility",
)
ELSEWHERE = "reads a table that is not part of the package"
MINUTES = "needs tables that are not part of the package, and minutes"
DRAWN = "draws a picture or a page of another result"
WITHOUT = {
    "shoal.datasets.load_adult": ELSEWHERE,
    "shoal.datasets.load_ccc": ELSEWHERE,
    "shoal.datasets.load_census": ELSEWHERE,
    "shoal.datasets.load_eia": ELSEWHERE,
    "shoal.datasets.load_hapt": ELSEWHERE,
    "shoal.datasets.load_tarragona": ELSEWHERE,
    "shoal.masking.mask": "takes the typed columns of a run",
    "shoal.release.graph_page": DRAWN,
    "shoal.release.risk_utility": "makes several releases, which takes seconds",
    "shoal.release.spy_plot": DRAWN,
    "shoal.release.utility_page": DRAWN,
    "shoal.release.utility_picture": DRAWN,
    "shoal.reproduce": MINUTES,
    "shoal.research.Agreement": MINUTES,
    "shoal.research.CorrelatedReproduction": MINUTES,
    "shoal.research.Measured": MINUTES,
    "shoal.research.PaperClaim": MINUTES,
    "shoal.research.brkga_parameters": MINUTES,
    "shoal.research.correlated": MINUTES,
    "shoal.research.derivative_free": MINUTES,
    "shoal.research.reproduce": MINUTES,
    "shoal.research.split": MINUTES,
    "shoal.research.systems_page": MINUTES,
    "shoal.research.table1": MINUTES,
    "shoal.research.table2": MINUTES,
}


def public(package: str) -> dict[str, object]:
    """The functions and classes of a package's `__all__`; errors and warnings are met, not called."""
    module = importlib.import_module(package)
    named = {name: getattr(module, name) for name in module.__all__}
    return {
        f"{package}.{name}": each
        for name, each in named.items()
        if (inspect.isroutine(each) or inspect.isclass(each))
        and not (inspect.isclass(each) and issubclass(each, Exception))
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_an_example(package):
    lacking = {name for name, each in public(package).items() if ">>>" not in (each.__doc__ or "")}
    assert lacking == {name for name in WITHOUT if name.rpartition(".")[0] == package}
