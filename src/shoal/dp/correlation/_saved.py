"""Models in files: a frozen mixture, groups by a column, or the owner's degrees."""

from __future__ import annotations

import json
from pathlib import Path

from shoal.dp.correlation._frozen import FORMAT as MIXTURE
from shoal.dp.correlation._frozen import FrozenMixture, read_facts
from shoal.dp.correlation._given import GivenDegrees
from shoal.dp.correlation._groups import Groups
from shoal.errors import ParameterError
from shoal.io import write_text
from shoal.schema import Schema

GROUPS, DEGREES = "shoal-groups-1", "shoal-degrees-1"


def save_model(model: FrozenMixture | Groups | GivenDegrees, path: str | Path) -> None:
    """Write a model to a JSON file that `load_model` and ``shoal ask --model`` read.

    Parameters
    ----------
    model : FrozenMixture, Groups or GivenDegrees
        Whatever else reads the private table, so that a file of it would be a copy of private facts.
    path : str or Path

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from shoal.dp.correlation import GivenDegrees, load_model, save_model
    >>> from shoal.schema import Schema
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "degrees.json"
    >>> save_model(GivenDegrees(matrix=[[1, 0.9], [0.9, 1]]), file)
    >>> load_model(file, Schema({})).name
    'given degrees'
    """
    if isinstance(model, FrozenMixture):
        facts = model.to_dict()
    elif isinstance(model, Groups):
        facts = {"format": GROUPS, **model.to_dict()}
    elif isinstance(model, GivenDegrees):
        facts = {"format": DEGREES, **model.to_dict()}
    else:
        raise ParameterError(
            f"Frozen mixtures, groups and given degrees can be saved. Got {type(model).__name__}."
        )
    write_text(json.dumps(facts, separators=(",", ":")) + "\n", path)


def load_model(path: str | Path, schema: Schema) -> FrozenMixture | Groups | GivenDegrees:
    """Read a model that `save_model` wrote, or that the owner wrote by hand.

    Parameters
    ----------
    path : str or Path
        JSON with a "format": ``shoal-frozen-mixture-1``; ``shoal-groups-1`` with "column" and, where the column
        has no declared levels, "cells"; or ``shoal-degrees-1`` with "matrix" or "factor".
    schema : Schema

    Returns
    -------
    FrozenMixture, Groups or GivenDegrees
    """
    facts = read_facts(path)
    kind = facts.get("format") if isinstance(facts, dict) else None
    if kind == MIXTURE:
        return FrozenMixture.from_dict(facts)
    if kind == GROUPS:
        return Groups(schema, str(facts.get("column")), facts.get("cells"))
    if kind == DEGREES:
        try:
            return GivenDegrees(facts.get("matrix"), facts.get("factor"))
        except (TypeError, ValueError):
            raise ParameterError("The degrees in a model file must be a table of numbers.") from None
    raise ParameterError(
        f"The 'format' of a model file must be {MIXTURE}, {GROUPS} or {DEGREES}. Got {kind!r}."
    )
