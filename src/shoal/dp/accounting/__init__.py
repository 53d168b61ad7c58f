"""How privacy losses are counted and what they mean in the end.

- `zcdp`: concentrated differential privacy as a number rho, and the (epsilon, delta) that it implies
"""

from __future__ import annotations

from shoal.dp.accounting.zcdp import delta_bound, epsilon_of_rho, rho_of_epsilon

__all__ = ["delta_bound", "epsilon_of_rho", "rho_of_epsilon"]
