"""Members of households: which members correspond when households are alike, and who shares a group.

Two households are alike if their own values are alike, and also their first members, their second members, and so on.
A household is therefore described by its members one after the other, so households of the same composition come into
one set. Inside a set, members of a household change their groups as long as this lowers the loss.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.encode import group_means

# Members that describe a household: those places that so large a share of the households fill, and in so many
# coordinates at most.
FILLED, MOST_PLACES, MOST_COORDINATES = 0.1, 6, 96
# Rounds of changes inside the sets; they end when nothing is gained.
ROUNDS = 20


def main_axis(Z: np.ndarray) -> np.ndarray:
    """The direction in which records differ most."""
    centred = Z - Z.mean(axis=0)
    axis: np.ndarray = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return axis if axis[np.argmax(np.abs(axis))] > 0 else -axis


def places_of(Z: np.ndarray, households: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """The place of each member in its household, along a direction."""
    order = np.lexsort((np.arange(households.size), -(Z @ axis), households))
    starts = np.flatnonzero(np.r_[True, np.diff(households[order]) != 0])
    places = np.empty(households.size, np.int64)
    places[order] = np.arange(households.size) - np.repeat(starts, np.diff(np.r_[starts, households.size]))
    return places


def profiles(Z: np.ndarray, households: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Coordinates of households 0..h-1 in which distances say how much is lost where they share a set.

    Parameters
    ----------
    Z : array of float64, (n_records, n_coordinates)
    households : array of int64
        Household 0..h-1 of each record.
    own : array of bool, (n_coordinates,)
        Coordinates that all members of a household share.
    """
    means = group_means(Z, households)
    if own.all():
        return means
    between = np.ascontiguousarray(Z[:, ~own])
    places = places_of(between, households, main_axis(between))
    size = np.bincount(households)
    filled = np.array([(size > place).mean() for place in range(MOST_PLACES)])
    kept = min(int((filled >= FILLED).sum()), max(1, MOST_COORDINATES // between.shape[1]))
    if kept < 2:
        return means
    described = [means[:, own] * np.sqrt(size.mean())]
    before = np.empty((size.size, between.shape[1]))
    for place in range(kept):
        rows = np.flatnonzero(places == place)
        before[households[rows]] = between[rows]  # who lacks this place is described by the one before
        described.append(before * np.sqrt(filled[place]))
    return np.ascontiguousarray(np.concatenate(described, axis=1))


def exchanged(Z: np.ndarray, labels: np.ndarray, households: np.ndarray, k: int) -> np.ndarray:
    """Labels after members of one household have changed places, or have moved to another group of the household.

    Every group keeps members of at least k households, and no group gets members of a household that had none in its
    set: a member only goes where another member of its household is.
    """
    order = np.argsort(households, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(households[order]) != 0, True])
    new = labels.copy()
    centred = np.ascontiguousarray(Z - Z.mean(axis=0))
    for _ in range(ROUNDS):
        if not _exchange(centred, new, order, starts, int(labels.max()) + 1, k):
            break
    return new


# Kernels


@kernel()
def _exchange(Z, labels, order, starts, n_groups, k):  # noqa: C901, PLR0912 - one step of a compiled search, case by case
    """One round over all households; how many changes it made. Sums are taken anew in each round."""
    p = Z.shape[1]
    sums, counts, homes = np.zeros((n_groups, p)), np.zeros(n_groups), np.zeros(n_groups, np.int64)
    for h in range(starts.size - 1):
        for a in range(starts[h], starts[h + 1]):
            group = labels[order[a]]
            counts[group] += 1
            seen = False
            for b in range(starts[h], a):
                seen |= labels[order[b]] == group
            if not seen:
                homes[group] += 1
            for c in range(p):
                sums[group, c] += Z[order[a], c]
    changes = 0
    for h in range(starts.size - 1):
        for a in range(starts[h], starts[h + 1]):
            for b in range(starts[h], starts[h + 1]):
                i, j = order[a], order[b]
                left, right = labels[i], labels[j]
                if left == right:
                    continue
                # i and j change places.
                fall, size = 0.0, 0.0
                for c in range(p):
                    step = Z[j, c] - Z[i, c]
                    fall += (2.0 * sums[left, c] * step + step * step) / counts[left]
                    fall += (-2.0 * sums[right, c] * step + step * step) / counts[right]
                    size += step * step
                if a < b and fall > 1e-9 * size:
                    for c in range(p):
                        step = Z[j, c] - Z[i, c]
                        sums[left, c] += step
                        sums[right, c] -= step
                    labels[i], labels[j] = right, left
                    changes += 1
                    continue
                # i joins j, where its group can spare it.
                alone = True
                for other in range(starts[h], starts[h + 1]):
                    alone &= other == a or labels[order[other]] != left
                if counts[left] <= k or (alone and homes[left] <= k):
                    continue
                fall, size = 0.0, 0.0
                for c in range(p):
                    x = Z[i, c]
                    fall += (sums[left, c] - x) ** 2 / (counts[left] - 1.0) - sums[left, c] ** 2 / counts[
                        left
                    ]
                    fall += (sums[right, c] + x) ** 2 / (counts[right] + 1.0) - sums[right, c] ** 2 / counts[
                        right
                    ]
                    size += x * x
                if fall > 1e-9 * size:
                    for c in range(p):
                        sums[left, c] -= Z[i, c]
                        sums[right, c] += Z[i, c]
                    counts[left] -= 1
                    counts[right] += 1
                    if alone:
                        homes[left] -= 1
                    labels[i] = right
                    changes += 1
    return changes
