"""Membership: whether a person was in the table at all."""

from __future__ import annotations

import numpy as np

from shoal.attacks._tables import PublishedRows, Tables


def guesses(tables: Tables, members: np.ndarray, others: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whether each guess about people, half of them members, was right.

    A person is taken for a member where the published rows are near, or nearer than people of the control group are.
    The score and its mark are chosen on one half of the people and tried on the other.
    """
    size = min(members.shape[0], others.shape[0] // 2)
    if size < 4:
        return np.empty(0)
    names = [axis.name for axis in tables.axes]
    space = tables.space(names)
    weights = space.weights()
    shuffled = rng.permutation(others.shape[0])
    asked, reference = others[shuffled[:size]], others[shuffled[size : 2 * size]]
    people = np.ascontiguousarray(np.vstack([members[:size], asked]))
    is_member = np.repeat([True, False], size)
    near = space.nearest(people, weights)[0]
    beside = _from_people(tables, reference, people, weights)
    scores = (-near, np.log((beside + 1e-9) / (near + 1e-9)))
    learned = np.zeros(2 * size, bool)
    learned[rng.permutation(size)[: size // 2]] = True
    learned[size + rng.permutation(size)[: size // 2]] = True
    score, mark = max(
        ((score, _mark(score[learned], is_member[learned])) for score in scores),
        key=lambda pair: float(((pair[0][learned] >= pair[1]) == is_member[learned]).mean()),
    )
    return ((score >= mark) == is_member)[~learned].astype(np.float64)


def _from_people(
    tables: Tables, reference: np.ndarray, people: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Least distances from a group of people, in the same measure."""
    from dataclasses import replace

    axes = []
    for axis, cells in zip(tables.axes, reference.T, strict=True):
        if axis.numeric:
            low = np.where(np.isnan(cells), -np.inf, cells)
            axes.append(replace(axis, low=low, high=np.where(np.isnan(cells), np.inf, cells)))
        else:
            width = axis.fits.shape[1]
            codes = np.where(np.isnan(cells), width, cells)
            axes.append(
                replace(
                    axis,
                    low=codes,
                    high=codes,
                    fits=np.vstack([np.eye(width), np.ones(width)]).astype(np.uint8),
                )
            )
    return PublishedRows.of(axes).nearest(people, weights)[0]


def _mark(score: np.ndarray, is_member: np.ndarray) -> float:
    """The score from which on people are taken for members: the one that is right most often."""
    order = np.argsort(-score, kind="stable")
    right = np.cumsum(np.where(is_member[order], 1, -1))
    ends = np.r_[np.flatnonzero(np.diff(score[order]) < 0), score.size - 1]  # equal scores go together
    best = ends[int(right[ends].argmax())]
    return float(score[order][best]) if right[best] > 0 else np.inf


def allowed(epsilon: float) -> float:
    """How often a guess can be right at most under epsilon-DP, with as many members as others: e^eps/(1+e^eps).

    Examples
    --------
    >>> from shoal.attacks import allowed
    >>> round(allowed(1.0), 3)
    0.731
    """
    return float(1.0 / (1.0 + np.exp(-epsilon)))
