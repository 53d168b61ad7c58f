"""Graphs as pairs of vertex numbers: read from an edge list, networkx or a sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from shoal.errors import InputError


@dataclass(frozen=True)
class Graph:
    """An undirected graph without loops: names of the vertices, and edges as pairs of their numbers.

    Parameters
    ----------
    names : array
        Sorted; the vertex set is public.
    edges : int64 array of shape (m, 2)
        First number below the second, in rising order.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release import read_graph
    >>> graph = read_graph(np.array([[3, 1], [1, 2]]))
    >>> graph.names.tolist(), graph.edges.tolist()
    ([1, 2, 3], [[0, 1], [0, 2]])
    """

    names: np.ndarray
    edges: np.ndarray

    @property
    def n(self) -> int:
        """Number of vertices."""
        return len(self.names)

    def degrees(self) -> np.ndarray:
        """Edges at each vertex."""
        return np.bincount(self.edges.ravel(), minlength=self.n)


def read_graph(data: Any, vertices: Any = None) -> Graph:
    """Read a graph.

    Parameters
    ----------
    data : frame of two columns, array of pairs, networkx.Graph or scipy.sparse matrix
        Each undirected edge once (a symmetric sparse matrix holds it twice).
    vertices : sequence, optional
        All vertices, isolated ones included; those that the data name if left open.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release._graph import read_graph
    >>> read_graph(np.array([[7, 3], [7, 9]])).edges.tolist()
    [[0, 1], [1, 2]]
    """
    ends, named = _ends(data)
    if vertices is not None:
        named = np.asarray(vertices)
        if len(np.unique(named)) < len(named):
            raise InputError("The list of vertices must name each vertex once.")
    names = np.unique(ends if named is None else named)
    if len(names) < 2:
        raise InputError(f"A graph must have at least two vertices. Got {len(names)}.")
    places = np.searchsorted(names, ends)
    known = (places < len(names)) & (names[np.minimum(places, len(names) - 1)] == ends)
    if not known.all():
        raise InputError(f"The list of vertices lacks {ends[~known].ravel()[0]!s}, which an edge names.")
    loops = places[:, 0] == places[:, 1]
    if loops.any():
        raise InputError(
            f"An edge must join two different vertices. {int(loops.sum())} join a vertex to itself, "
            f"first {names[places[loops][0, 0]]!s}."
        )
    pairs = np.sort(places, axis=1).astype(np.int64)
    edges, counts = np.unique(pairs, axis=0, return_counts=True)
    if len(edges) < len(pairs):
        first = names[edges[counts > 1][0]]
        raise InputError(
            f"Each edge must be given once, in one direction. {len(pairs) - len(edges)} come again, "
            f"first {first[0]!s} - {first[1]!s}."
        )
    return Graph(names, edges.reshape(-1, 2))


def _ends(data: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Ends of the edges as named, and the vertices where the data list them."""
    if hasattr(data, "tocoo"):
        return _sparse(data)
    if hasattr(data, "edges") and hasattr(data, "nodes"):
        if data.is_directed() or data.is_multigraph():
            raise InputError("The graph must be undirected and without repeated edges.")
        listed = list(data.edges())
        return np.array(listed).reshape(-1, 2) if listed else np.empty((0, 2), dtype=int), np.array(
            list(data.nodes())
        )
    if isinstance(data, pl.DataFrame):
        if data.width != 2:
            raise InputError(f"An edge list must have two columns, an edge a row. Got {data.width}.")
        if data.null_count().sum_horizontal()[0]:
            raise InputError("An edge list must name both ends of every edge. Some are missing.")
        first, second = (data[name] for name in data.columns)
        if first.dtype != second.dtype:
            first, second = first.cast(pl.String), second.cast(pl.String)
        return np.column_stack([first.to_numpy(), second.to_numpy()]), None
    pairs = np.asarray(data)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"Edges must be pairs. Got an array of shape {pairs.shape}.")
    return pairs, None


def _sparse(data: Any) -> tuple[np.ndarray, np.ndarray]:
    matrix = data.tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"An adjacency matrix must be square. Got {matrix.shape}.")
    kept = matrix.data != 0
    rows, columns = matrix.row[kept], matrix.col[kept]
    if (abs(data - data.T)).nnz:
        raise InputError("An adjacency matrix must be symmetric.")
    upper = rows <= columns
    return np.column_stack([rows[upper], columns[upper]]), np.arange(matrix.shape[0])
