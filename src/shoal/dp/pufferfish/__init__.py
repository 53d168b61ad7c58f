"""Pufferfish privacy: secrets, pairs to be kept apart, and scenarios, all stated as data.

- `Pufferfish`: answers one query by the Wasserstein or the Markov-quilt mechanism
- `Scenario`: a finite distribution over worlds, in exact fractions
- `MarkovChain`: a scenario of a sequence
- `w_infinity`: the exact distance between two distributions on the line
- `dependence`, `over_ledger`: what an ordinary ledger says about dependent records
- `DependentDP`: dependence coefficients given by the user
- `GroupScenarios`, `TimeChain`, `Coefficients`, `stated_model`: models declared about a table, for `Session`
- `dependence_coefficient`: Liu's coefficient of a pair whose distribution is stated
"""

from __future__ import annotations

from shoal.dp.pufferfish._answer import PUFFERFISH_GUARANTEE, Pufferfish
from shoal.dp.pufferfish._chain import MarkovChain
from shoal.dp.pufferfish._coefficients import Coefficients, dependence_coefficient
from shoal.dp.pufferfish._dependent import DEPENDENT_GUARANTEE, DependentDP, PairwiseOnlyWarning
from shoal.dp.pufferfish._scenario import Scenario, dependence, holds, over_ledger
from shoal.dp.pufferfish._stated import GroupScenarios, StatedModel, TimeChain
from shoal.dp.pufferfish._stated_file import stated_model
from shoal.dp.pufferfish._wasserstein import w_infinity

__all__ = [
    "DEPENDENT_GUARANTEE",
    "PUFFERFISH_GUARANTEE",
    "Coefficients",
    "DependentDP",
    "GroupScenarios",
    "MarkovChain",
    "PairwiseOnlyWarning",
    "Pufferfish",
    "Scenario",
    "StatedModel",
    "TimeChain",
    "dependence",
    "dependence_coefficient",
    "holds",
    "over_ledger",
    "stated_model",
    "w_infinity",
]
