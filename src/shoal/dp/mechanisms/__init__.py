"""Exact discrete noise and private choices: every random number of an answer is drawn here.

- `laplace`, `Laplace`, `laplace_radius`: discrete Laplace noise, for pure differential privacy
- `gaussian`, `Gaussian`, `gaussian_radius`: discrete Gaussian noise, for concentrated differential privacy
"""

from shoal.dp.mechanisms.discrete_gaussian import Gaussian, gaussian, gaussian_radius
from shoal.dp.mechanisms.discrete_laplace import Laplace, laplace, laplace_radius

__all__ = ["Gaussian", "Laplace", "gaussian", "gaussian_radius", "laplace", "laplace_radius"]
