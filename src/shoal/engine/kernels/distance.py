"""Distances to many records at once: records held column by column, so that vector instructions apply."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel


@kernel()
def squares_to(columns, point, ds):
    """Squared distances of the first `ds.size` records to a point, summed in the order of the columns.

    Four columns at a time spare three of four trips of the sums to memory; their order, and so the result to
    the last digit, is that of one column after the other. The loops run over array sizes, not constants: a
    loop of known length is unrolled before it can be turned into vector instructions.
    """
    n, p = ds.size, point.size
    whole = p - p % 4
    for j in range(n):
        ds[j] = 0.0
    for a in range(0, whole, 4):
        y0, y1, y2, y3 = point[a], point[a + 1], point[a + 2], point[a + 3]
        c0, c1, c2, c3 = columns[a], columns[a + 1], columns[a + 2], columns[a + 3]
        for j in range(n):
            t0, t1, t2, t3 = c0[j] - y0, c1[j] - y1, c2[j] - y2, c3[j] - y3
            ds[j] = (((ds[j] + t0 * t0) + t1 * t1) + t2 * t2) + t3 * t3
    for a in range(whole, p):
        y, row = point[a], columns[a]
        for j in range(n):
            t = row[j] - y
            ds[j] += t * t


@kernel()
def squared_distance(X, i, Y, j):
    """Squared distance of two rows of float32, padded with zeros to a multiple of eight columns.

    Eight running sums become one vector register.
    """
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0.0)
    for b in range(0, X.shape[1], 8):
        d0 = X[i, b] - Y[j, b]
        d1 = X[i, b + 1] - Y[j, b + 1]
        d2 = X[i, b + 2] - Y[j, b + 2]
        d3 = X[i, b + 3] - Y[j, b + 3]
        d4 = X[i, b + 4] - Y[j, b + 4]
        d5 = X[i, b + 5] - Y[j, b + 5]
        d6 = X[i, b + 6] - Y[j, b + 6]
        d7 = X[i, b + 7] - Y[j, b + 7]
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
        s4 += d4 * d4
        s5 += d5 * d5
        s6 += d6 * d6
        s7 += d7 * d7
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@kernel()
def squared_between(x, y):
    """Squared distance of two points, summed in the order of the columns."""
    total = 0.0
    for a in range(x.size):
        t = x[a] - y[a]
        total += t * t
    return total


@kernel()
def squared_rows(X, i, Y, j):
    """Squared distance of row i to row j, in order; no views of rows, which would slow the compiling."""
    total = 0.0
    for a in range(X.shape[1]):
        t = X[i, a] - Y[j, a]
        total += t * t
    return total


@kernel(inline=True)
def squared_rows_by_four(A, i, B, j):
    """Squared distance of row i to row j by four running sums, inlined: for the innermost loops."""
    p = A.shape[1]
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for q in range(p // 4):
        c = 4 * q
        t0, t1, t2, t3 = (
            A[i, c] - B[j, c],
            A[i, c + 1] - B[j, c + 1],
            A[i, c + 2] - B[j, c + 2],
            A[i, c + 3] - B[j, c + 3],
        )
        s0 += t0 * t0
        s1 += t1 * t1
        s2 += t2 * t2
        s3 += t3 * t3
    for c in range(p - p % 4, p):
        t = A[i, c] - B[j, c]
        s0 += t * t
    return (s0 + s1) + (s2 + s3)
