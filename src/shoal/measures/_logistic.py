"""Logistic regression with a ridge penalty, by Newton's method with conjugate gradients."""

from __future__ import annotations

import numpy as np

STEPS, INNER = 100, 200


def probabilities(F: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Fitted probabilities of `which` (0 or 1) given features.

    The weights, not the constant, pay half their squared length: the usual default elsewhere, with one optimum.

    Parameters
    ----------
    F : array of float64, (n_rows, n_features)
    which : array of int64

    Notes
    -----
    O(n p) for each product; about a hundred of them.
    """
    F1 = np.hstack([F, np.ones((F.shape[0], 1))])
    pays = np.append(np.ones(F.shape[1]), 0.0)
    w = np.zeros(F1.shape[1])
    value, score = _loss(F1, which, pays, w)
    for _ in range(STEPS):
        gradient = F1.T @ (score - which) + pays * w
        if np.abs(gradient).max() <= 1e-7 * which.size:
            break
        step = _solve(F1, score * (1.0 - score), pays, gradient)
        length, slope = 1.0, float(gradient @ step)
        while True:  # half as far until it helps: far from the optimum a whole step may overshoot
            new = w - length * step
            new_value, new_score = _loss(F1, which, pays, new)
            if new_value <= value - 1e-4 * length * slope or length < 1e-10:
                break
            length /= 2
        w, value, score = new, new_value, new_score
    return score


def _loss(F: np.ndarray, which: np.ndarray, pays: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray]:
    """The penalised negative log-likelihood, and the probabilities."""
    at = F @ w
    value = float(np.logaddexp(0.0, at).sum() - at @ which + 0.5 * (pays * w) @ w)
    return value, 0.5 * (1.0 + np.tanh(0.5 * at))


def _solve(F: np.ndarray, curve: np.ndarray, pays: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The Newton step by conjugate gradients, scaled by the diagonal."""
    diagonal = (F**2).T @ curve + pays
    diagonal[diagonal <= 0] = 1.0
    x, r = np.zeros_like(gradient), gradient.copy()
    z = r / diagonal
    d, rz = z.copy(), float(r @ z)
    for _ in range(INNER):
        if rz <= 1e-16 * max(float(gradient @ (gradient / diagonal)), 1e-300):
            break
        Hd = F.T @ (curve * (F @ d)) + pays * d
        bend = float(d @ Hd)
        if bend <= 0.0:
            break
        x += (rz / bend) * d
        r -= (rz / bend) * Hd
        z = r / diagonal
        rz, before = float(r @ z), rz
        d = z + (rz / before) * d
    return x
