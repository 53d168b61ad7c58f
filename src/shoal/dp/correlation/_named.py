"""Models by name, as the command line and `shoal.toml` write them: ``dbscan:eps=0.4,min_points=2``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.dp.correlation._dbscan import DBSCANModel
from shoal.dp.correlation._gaussian import GaussianMixtureModel, SelectedMixture
from shoal.dp.correlation._saved import load_model
from shoal.dp.correlation._similarity import Pearson, Spearman
from shoal.errors import ParameterError
from shoal.schema import Schema


@dataclass(frozen=True)
class _Named:
    """What stands behind a name: how it is made, and how each of its options is read."""

    make: Callable[..., Any]
    options: dict[str, Callable[[str], Any]]
    needs: tuple[str, ...] = ()


def _components(text: str) -> int | tuple[int, ...]:
    """``12``, ``1-100`` (every number) or ``8|16|32``."""
    low, dash, high = text.partition("-")
    if dash:
        return tuple(range(int(low), int(high) + 1))
    numbers = tuple(int(each) for each in text.split("|"))
    return numbers[0] if len(numbers) == 1 else numbers


def _columns(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split("|"))


_COMMON: dict[str, Callable[[str], Any]] = {"preprocessing": str, "columns": _columns, "missing": str}
_MIXTURE: dict[str, Callable[[str], Any]] = {
    "components": _components,
    "covariance": str,
    "sample": int,
    "seed": int,
}
NAMED: dict[str, _Named] = {
    "dbscan": _Named(DBSCANModel, {"eps": float, "min_points": int, **_COMMON}, ("eps",)),
    "gmm": _Named(GaussianMixtureModel, {**_MIXTURE, **_COMMON}),
    "rfe-gmm": _Named(
        SelectedMixture,
        {"target": str, "keep": int, "estimator": str, "step": float, **_MIXTURE, **_COMMON},
        ("target", "keep"),
    ),
    "spearman": _Named(Spearman, {"threshold": float, **_COMMON}),
    "pearson": _Named(Pearson, {"threshold": float, **_COMMON}),
}
_OTHERWISE = {"components": "n_components", "seed": "random_state"}


def named_model(text: str, schema: Schema) -> Any:
    """A correlation model from its name and parameters, or from a file.

    Parameters
    ----------
    text : str
        ``dbscan:eps=0.4,min_points=2``, ``gmm:components=1-100``, ``rfe-gmm:target=income,keep=8``,
        ``spearman:threshold=0.2``, ``pearson``, or the path of a model that `save_model` wrote. Lists within a
        parameter are joined by ``|``. The names are the algorithm of the dissertation's Algorithm 1 with its
        parameters.
    schema : Schema

    Returns
    -------
    Model

    Examples
    --------
    >>> from shoal.dp.correlation import named_model
    >>> from shoal.schema import Schema
    >>> named_model("dbscan:eps=0.4,min_points=2", Schema({})).name
    'dbscan(eps 0.4, min_points 2, min-max)'
    """
    name, _, rest = text.partition(":")
    if name not in NAMED:
        if Path(text).is_file():
            return load_model(text, schema)
        raise ParameterError(
            f"A model must be {', '.join(NAMED)}, each with its parameters (dbscan:eps=0.4), or a model file. "
            f"Got {text!r}."
        )
    entry, options = NAMED[name], {}
    for pair in rest.split(",") if rest else ():
        key, equals, value = (each.strip() for each in pair.partition("="))
        if key not in entry.options or not equals:
            raise ParameterError(
                f"The model {name} takes {', '.join(f'{each}=' for each in entry.options)}. Got {pair!r}."
            )
        try:
            options[_OTHERWISE.get(key, key)] = entry.options[key](value)
        except ValueError:
            raise ParameterError(f"'{key}' of the model {name} must be a number. Got {value!r}.") from None
    lacking = [each for each in entry.needs if each not in options]
    if lacking:
        raise ParameterError(f"The model {name} needs {', '.join(f'{each}=' for each in lacking)}.")
    return entry.make(**options)
