"""Slow plain versions of the privacy models, straight from the papers, over lists of tuples."""

import math
from collections import Counter, defaultdict
from itertools import product


def classes(rows, quasi):
    """Rows as dicts; quasi-identifiers compared by value, missing (None) as a value."""
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in quasi)].append(row)
    return found


def k(rows, quasi):
    return min(len(each) for each in classes(rows, quasi).values())


def counts(members, sensitive):
    return Counter(row[sensitive] for row in members)


def l_distinct(rows, quasi, sensitive):
    return min(len(counts(each, sensitive)) for each in classes(rows, quasi).values())


def l_entropy(rows, quasi, sensitive):
    def one(members):
        c = counts(members, sensitive)
        n = sum(c.values())
        return math.exp(-sum(v / n * math.log(v / n) for v in c.values()))

    return min(one(each) for each in classes(rows, quasi).values())


def l_recursive(rows, quasi, sensitive, c):
    def one(members):
        r = sorted(counts(members, sensitive).values(), reverse=True)
        best = 0
        for l in range(1, len(r) + 1):
            if r[0] < c * sum(r[l - 1 :]):
                best = l
        return best

    return min(one(each) for each in classes(rows, quasi).values())


def transport(p, q, distance):
    """The earth mover's distance as a linear programme."""
    import numpy as np
    from scipy.optimize import linprog

    m = len(p)
    cost = [distance(i, j) for i, j in product(range(m), range(m))]
    A, b = [], []
    for i in range(m):
        row = np.zeros(m * m)
        row[i * m : (i + 1) * m] = 1
        A.append(row)
        b.append(p[i])
    for j in range(m):
        row = np.zeros(m * m)
        row[j::m] = 1
        A.append(row)
        b.append(q[j])
    return linprog(cost, A_eq=np.array(A), b_eq=b, bounds=(0, None)).fun


def t(rows, quasi, sensitive, values, distance):
    """`values` in the order of the indices that `distance` takes."""
    everyone = counts(rows, sensitive)
    q = [everyone[v] / len(rows) for v in values]
    worst = 0.0
    for members in classes(rows, quasi).values():
        mine = counts(members, sensitive)
        p = [mine[v] / len(members) for v in values]
        worst = max(worst, transport(p, q, distance))
    return worst
