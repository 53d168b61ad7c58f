"""A private release or answer as an entry of the registry of deployments, in its three tiers."""

from __future__ import annotations

from shoal.evidence._private import promise
from shoal.evidence._run import Run
from shoal.typing import Json

BLANK = "to be filled in by the owner"


def registry_tiers(run: Run) -> Json:
    """The entry at tier 1 (what and how much), 2 (model and accounting too) and 3 (implementation too).

    Only what is public is told: the schema, the request and the guarantee. What only a person knows is left blank and
    says so.

    References
    ----------
    .. [1] OpenDP deployments registry. https://github.com/opendp/deployments-registry-data

    Examples
    --------
    >>> from shoal.evidence import registry_tiers, run_of_release
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> facts = {"stamp": "guarantee: epsilon-DP, add or remove one record", "epsilon": 1.0}
    >>> tiers = registry_tiers(run_of_release(facts, schema, {"method": "marginals"}, "in.csv", "out.csv"))
    >>> list(tiers)
    ['tier_1', 'tier_2', 'tier_3']
    """
    first = {"product": _product(run), "dp_flavor": _flavour(run), "privacy_loss": _loss(run)}
    second = first | {"model": _model(run), "accounting": _accounting(run)}
    third = second | {
        "implementation": _implementation(run),
        "resources": {"sources": BLANK, "registry_authors": []},
    }
    return {
        f"tier_{tier}": {
            "url_slug": run.schema.id, "status": "Draft", "tier": tier, "deployment": part,
        }
        for tier, part in ((1, first), (2, second), (3, third))
    }  # fmt: skip


def _product(run: Run) -> Json:
    kind = "Synthetic data" if run.job == "release" else "Summary statistics"
    return {
        "name": run.schema.id, "data_curators": [BLANK], "intended_use": BLANK, "data_product_type": kind,
        "data_product_region": BLANK, "description": BLANK, "publication_date": run.written[:10],
        "data_product_sector": BLANK,
    }  # fmt: skip


def _flavour(run: Run) -> Json:
    counted = run.request.get("neighbours") == "replace" or "number of records public" in promise(run)
    return {
        "name": _name(run),
        "data_domain": f"rows of {', '.join(run.schema.columns) or 'the table'}, bounds and levels declared",
        "unprotected_quantities": "the number of records" if counted
        else "none: bounds, levels and limits are declared or bought",
    }  # fmt: skip


def _name(run: Run) -> str:
    """The kind of guarantee, as the answer itself words it: nothing is called DP that does not say so."""
    words = promise(run)
    if "Pufferfish" in words:
        return "Pufferfish privacy"
    if "DP" not in words:
        return f"other: {words or 'none stated'}"
    return "Zero-concentrated DP" if run.facts.get("delta") else "Pure DP"


def _loss(run: Run) -> Json:
    parameters = {"epsilon": run.facts.get("epsilon")}
    if run.facts.get("delta"):
        parameters["delta"] = run.facts["delta"]
    return {
        "privacy_unit": str(run.schema.unit),
        "privacy_unit_description": promise(run),
        "privacy_parameters": parameters,
    }


def _model(run: Run) -> Json:
    return {
        "model_name": "Central",
        "actors": "the owner holds the table and runs the software; whoever receives the result need not be trusted",
        "release_type": "One release" if run.job == "release" else "Many releases",
        "data_source_type": "Static",
        "access_type": "Non-interactive" if run.job == "release" else "Interactive",
    }


def _accounting(run: Run) -> Json:
    zcdp = bool(run.facts.get("delta"))
    return {
        "composition": (
            "zero-concentrated DP: rho adds up under a cap" if zcdp else "basic composition: epsilon adds up"
        )
        + ", in a ledger that decides before the table is read",
        "post_processing": "rows are drawn from what was bought"
        if run.job == "release"
        else "none but rounding",
    }


def _implementation(run: Run) -> Json:
    noise = "discrete Gaussian" if run.facts.get("delta") else "discrete Laplace"
    method = run.facts.get("method") or run.request.get("mode") or "dp"
    return {
        "pre_processing_eda_hyperparameter_tuning": "cells are read row by row by the declared schema; nothing is tuned "
        "on the table for free",
        "mechanisms": f"{method}: exact {noise} noise on whole numbers, from the system's randomness",
        "justification": BLANK,
        "software": dict(run.versions),
    }
