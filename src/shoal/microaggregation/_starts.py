"""First partitions for the search on large tables: the best of what is quickly made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from shoal.microaggregation._global import BLOCK, REFINING, start_in_blocks
from shoal.microaggregation._refine import refine
from shoal.microaggregation._repair import repair
from shoal.microaggregation.fixed_size.plain import to_nearest_group
from shoal.microaggregation.fixed_size.tree import fast_cbfs, fast_mdav

EXACT = 2e9
"""Products of distances, n^2 p / k, up to which methods without blocks are tried too: half a second."""

ALIKE = 0.1
"""Share of the records with at least k - 1 like them from which these make groups of their own first."""


def first_partition(
    Z: np.ndarray, k: int, workers: ThreadPoolExecutor, loss: Callable[[np.ndarray], float]
) -> tuple[np.ndarray, float | None]:
    """MDAV in blocks or, where it loses less, MDAV and CBFS without blocks, or after groups of like records.

    Exchanges follow each. Without blocks 2 to 17 % less is lost, most where k is large or records are repeated. The
    second figure is the loss in blocks, which temperatures go by: a better start is no reason to begin colder. None where
    there is no other start.
    """
    found = [start_in_blocks(Z, k, workers)]
    n, p = Z.shape
    if n > BLOCK and n * n * p <= EXACT * k:
        whole = (lambda: fast_mdav(Z, k), lambda: fast_cbfs(Z, k, False))
        found += workers.map(lambda make: refine(Z, make(), REFINING), whole)
    apart = alike_apart(Z, k, workers)
    if apart is not None:
        found.append(apart)
    if len(found) == 1:
        return found[0], None
    losses = [loss(labels) for labels in found]
    return found[int(np.argmin(losses))], losses[0]


def alike_apart(Z: np.ndarray, k: int, workers: ThreadPoolExecutor) -> np.ndarray | None:
    """Groups of like records, which lose nothing, and MDAV of the others; None where few are alike."""
    cell = _cells(Z)
    sizes = np.bincount(cell)
    full = sizes[cell] >= k
    if full.mean() < ALIKE:
        return None
    order = np.argsort(cell, kind="stable")
    place = np.empty(cell.size, np.int64)
    place[order] = np.arange(cell.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    groups = np.where(sizes >= k, sizes // k, 0)
    first = np.cumsum(groups) - groups
    labels = np.where(full, first[cell] + np.minimum(place // k, groups[cell] - 1), -1)
    others = np.flatnonzero(~full)
    if others.size >= k:
        labels[others] = groups.sum() + start_in_blocks(np.ascontiguousarray(Z[others]), k, workers)
    elif others.size:
        to_nearest_group(Z, labels, others, int(groups.sum()))
        labels = repair(Z, labels, k)
    return refine(Z, labels, REFINING, workers.map)


def _cells(Z: np.ndarray) -> np.ndarray:
    """A number for each record, the same for like ones; that others share one is too rare to matter."""
    rng = np.random.default_rng(0)
    odd = rng.integers(0, 2**62, size=(Z.shape[1],)).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    bits = (np.ascontiguousarray(Z) + 0.0).view(np.uint64)  # no negative zeros
    mixed = np.zeros(Z.shape[0], np.uint64)
    for at in range(Z.shape[1]):
        mixed = (mixed ^ bits[:, at]) * odd[at]
        mixed ^= mixed >> np.uint64(29)
    return np.unique(mixed, return_inverse=True)[1].reshape(-1)
