"""Kernels of the annealing of classes: linked lists of records, their nodes and what a record costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.generalization._conditions import class_holds

# Beyond so many records a class's nodes are not found anew when one leaves: they stay as they are.
LARGE = 32
# In a class of up to so many records every one is tried for an exchange.
TRIED = 16
# Records are taken from a window of so many that lie side by side, so often: what they need stays at hand.
WINDOW, VISIT = 1024, 4096


class ClassLists(NamedTuple):
    """Classes as linked lists of records: head of a class, after and before of a record.

    `rest` and `left` are the nodes and the price that the class of a record has without it, where the class is `fresh`.
    """

    head: np.ndarray
    after: np.ndarray
    before: np.ndarray
    sizes: np.ndarray
    nodes: np.ndarray
    price: np.ndarray
    labels: np.ndarray
    owner: np.ndarray
    rest: np.ndarray
    left: np.ndarray
    fresh: np.ndarray


class Company(NamedTuple):
    """Who is near: the place of a record's list (or -1), the lists of distinct records, and where their records start."""

    place: np.ndarray
    near: np.ndarray
    starts: np.ndarray


class ClassDemands(NamedTuple):
    """Sensitive values of the records as places in a class's table, the tables, and what they must hold."""

    codes: np.ndarray
    tables: np.ndarray
    spans: np.ndarray
    limits: np.ndarray
    shares: np.ndarray


@kernel()
def fill(rows, groups, classes, joined):
    """Put every record into the list of its class."""
    for r in range(rows.shape[0]):
        _link(r, classes.labels[r], classes)
    for g in range(groups):
        _refresh(g, rows, classes, joined)


@kernel()
def anneal(rows, company, classes, demands, joined, active, k, hot, cold, moves, seed, job):  # noqa: C901, PLR0912, PLR0915 - one step of a compiled search, case by case
    """Propose `moves` changes to the classes of one job, cooling down from hot to cold."""
    q, m = rows.shape[1], company.near.shape[1]
    scratch = np.zeros(q, classes.nodes.dtype)
    labels, sizes, price, owner = classes.labels, classes.sizes, classes.price, classes.owner
    free = np.empty(sizes.shape[0], np.int64)
    spare = 0
    for g in range(sizes.shape[0]):
        if sizes[g] == 0 and owner[g] == job:
            free[spare] = g
            spare += 1
    if active.shape[0] == 0:
        return
    half, low = np.uint64(32), np.uint64(0xFFFF)
    state = seed
    for _ in range(8):
        state = _next(state)
    temperature = hot
    wide = min(WINDOW, active.shape[0])
    base, places = np.int64(0), np.uint64(active.shape[0] - wide + 1)
    for step in range(moves):
        state = _next(state)
        if step % VISIT == 0:
            temperature = hot * np.exp(np.log(cold / hot) * step / moves)
            base = np.int64(((state >> half) * places) >> half)
            state = _next(state)
        r = active[base + np.int64(((state >> half) * np.uint64(wide)) >> half)]
        a = labels[r]
        if price[a] <= 0.0 or company.place[r] < 0:
            continue
        state = _next(state)
        at = np.int64(
            ((((state & low) * ((state >> np.uint64(16)) & low)) >> np.uint64(16)) * np.uint64(m))
            >> np.uint64(16)
        )
        s, b = -1, a
        while b == a or owner[b] != job:  # the first look-alike from there on that is elsewhere
            if at == m or company.near[company.place[r], at] < 0:
                break
            t = company.near[company.place[r], at]
            many = np.uint64(company.starts[t + 1] - company.starts[t])
            s = company.starts[t] + np.int64(((state >> np.uint64(36)) * many) >> np.uint64(28))
            b = labels[s]
            at += 1
        if s < 0:
            continue
        state = _next(state)
        kind = np.int64(state & np.uint64(1023))
        luck = -temperature * np.log((np.float64(state >> np.uint64(11)) + 1.0) / 9007199254740993.0)
        if kind < 12 and sizes[a] == k:
            if _dissolve(a, luck, rows, company, classes, demands, joined, job):
                free[spare] = a
                spare += 1
        elif kind < 40:
            if spare > 0 and _found(
                r, free[spare - 1], luck, k, rows, company, classes, demands, joined, scratch, job
            ):
                spare -= 1
        elif b != a and owner[b] == job:
            other = _choose(r, s, luck, k, rows, classes, joined, scratch)
            if other != -3:
                _exchange(r, s, other, rows, classes, demands, joined)


@kernel()
def _choose(r, s, luck, k, rows, classes, joined, scratch):  # noqa: C901 - one step of a compiled search, case by case
    """The best change between the classes of r and s: -1 r moves, -2 s moves, x r and x swap, -3 none."""
    a, b = classes.labels[r], classes.labels[s]
    many_a, many_b = classes.sizes[a], classes.sizes[b]
    now = many_a * classes.price[a] + many_b * classes.price[b]
    small_a, small_b = _small(a, classes), _small(b, classes)
    best, other = now + luck, -3
    if small_a:
        _freshen(a, rows, classes, joined, scratch)
    if small_b:
        _freshen(b, rows, classes, joined, scratch)
    if many_a > k:
        alone = (many_a - 1) * (classes.left[r] if small_a else classes.price[a])
        alone += (many_b + 1) * _cost_with(classes.nodes, b, rows, r, joined, (best - alone) / (many_b + 1))
        if alone < best:
            best, other = alone, -1
    if many_b > k:
        pulled = (many_b - 1) * (classes.left[s] if small_b else classes.price[b])
        pulled += (many_a + 1) * _cost_with(classes.nodes, a, rows, s, joined, (best - pulled) / (many_a + 1))
        if pulled < best:
            best, other = pulled, -2
    one = many_b > TRIED or not small_b
    x = s if one else classes.head[b]
    while x != -1:
        if small_a:
            there = many_a * _cost_with(classes.rest, r, rows, x, joined, best / many_a)
        else:
            there = many_a * _cost_with(classes.nodes, a, rows, x, joined, best / many_a)
        if there < best:
            if small_b:
                there += many_b * _cost_with(classes.rest, x, rows, r, joined, (best - there) / many_b)
            else:
                there += many_b * _cost_with(classes.nodes, b, rows, r, joined, (best - there) / many_b)
            if there < best:
                best, other = there, x
        if one:
            break
        x = classes.after[x]
    return other


@kernel()
def _exchange(r, s, other, rows, classes, demands, joined):
    """Make a change that `_choose` found, unless a class would no longer hold what it must."""
    a, b = classes.labels[r], classes.labels[s]
    x = s if other == -2 else other
    if other != -2:
        _move(r, a, b, classes, demands)
    if other != -1:
        _move(x, b, a, classes, demands)
    if not (_holds(a, classes, demands) and _holds(b, classes, demands)):
        if other != -1:
            _move(x, a, b, classes, demands)
        if other != -2:
            _move(r, b, a, classes, demands)
        return
    _refresh_small(a, rows, classes, joined)
    _refresh_small(b, rows, classes, joined)


@kernel()
def _dissolve(a, luck, rows, company, classes, demands, joined, job):
    """Every record of class a joins the best class of its look-alikes, if that costs little enough."""
    size = classes.sizes[a]
    members, targets = np.empty(size, np.int64), np.full(size, -1, np.int64)
    s = classes.head[a]
    for at in range(size):
        members[at] = s
        s = classes.after[s]
    spent, done = -size * classes.price[a], 0
    for at in range(size):
        best, chosen = _cheapest(a, members[at], rows, company, classes, joined, job)
        spent += best
        if chosen < 0 or spent >= luck:
            break
        targets[at] = chosen
        _move(members[at], a, chosen, classes, demands)
        _refresh_small(chosen, rows, classes, joined)
        done += 1
    good = done == size
    if good and demands.codes.shape[1] > 0:
        for at in range(size):
            good = good and _holds(targets[at], classes, demands)
    if good:
        classes.price[a] = 0.0
        return True
    for at in range(done - 1, -1, -1):
        _move(members[at], targets[at], a, classes, demands)
    for at in range(done):
        _refresh_small(targets[at], rows, classes, joined)
    _refresh(a, rows, classes, joined)
    return False


@kernel()
def _cheapest(a, r, rows, company, classes, joined, job):
    """The class of a look-alike that record r raises least, and by how much."""
    best, chosen = np.inf, -1
    if company.place[r] < 0:
        return best, chosen
    for x in range(company.near.shape[1]):
        t = company.near[company.place[r], x]
        if t < 0:
            break
        b = classes.labels[company.starts[t]]
        if b == a or classes.owner[b] != job:
            continue
        many = classes.sizes[b]
        limit = (best + many * classes.price[b]) / (many + 1)
        more = (many + 1) * _cost_with(classes.nodes, b, rows, r, joined, limit) - many * classes.price[b]
        if more < best:
            best, chosen = more, b
    return best, chosen


@kernel()
def _found(r, g, luck, k, rows, company, classes, demands, joined, rest, job):
    """Record r and its nearest look-alikes that their classes can spare become class g."""
    members, homes = np.empty(k, np.int64), np.empty(k, np.int64)
    have, change = 0, 0.0
    if classes.sizes[classes.labels[r]] <= k:
        return False
    for x in range(-1, company.near.shape[1]):
        t = company.near[company.place[r], x] if x >= 0 else 0
        if have == k or t < 0:
            break
        first = company.starts[t] if x >= 0 else 0
        last = min(company.starts[t + 1], first + 2 * k) if x >= 0 else 1
        for at in range(first, last):
            s = at if x >= 0 else r
            b = classes.labels[s]
            if have == k or b == g or classes.owner[b] != job or classes.sizes[b] <= k:
                continue
            change -= classes.sizes[b] * classes.price[b]
            classes.price[b] = _without(b, s, rows, classes, joined, rest)
            _move(s, b, g, classes, demands)
            for c in range(rows.shape[1]):
                classes.nodes[b, c] = rest[c]
            change += classes.sizes[b] * classes.price[b]
            members[have], homes[have] = s, b
            have += 1
    good = have == k
    if good:
        _refresh(g, rows, classes, joined)
        good = change + k * classes.price[g] < luck and _holds(g, classes, demands)
        for at in range(k):
            good = good and _holds(homes[at], classes, demands)
    if good:
        return True
    for at in range(have - 1, -1, -1):
        _move(members[at], g, homes[at], classes, demands)
        _refresh_small(homes[at], rows, classes, joined)
    classes.price[g] = 0.0
    return False


# Kernels of a class: who is in it, what it costs.


@kernel(inline=True)
def _next(r):
    r ^= r << np.uint64(13)
    r ^= r >> np.uint64(7)
    r ^= r << np.uint64(17)
    return r


@kernel(inline=True)
def _cost_with(nodes, at, rows, r, joined, limit):
    """What a record costs at the nodes in row `at` if record r joins them; from `limit` on, at least that."""
    total = 0.0
    for c in range(rows.shape[1]):
        total += joined.cost[joined.start[c] + nodes[at, c] * joined.width[c] + rows[r, c]]
        if total >= limit:
            break
    return total


@kernel(inline=True)
def _small(g, classes):
    """Whether the nodes of a class may change when one record leaves it."""
    return classes.sizes[g] <= LARGE and classes.price[g] > 0.0


@kernel()
def _freshen(g, rows, classes, joined, back):
    """Find the nodes and the price of a class without each of its records: those before it joined to those after."""
    if classes.fresh[g]:
        return
    q, rest, last = rows.shape[1], classes.rest, -1
    s = classes.head[g]
    while s != -1:
        for c in range(q):
            if last == -1:
                back[c] = rows[s, c]
            else:
                rest[s, c] = back[c]
                back[c] = joined.node[joined.start[c] + back[c] * joined.width[c] + rows[s, c]]
        last, s = s, classes.after[s]
    s = last
    while s != -1:
        total = 0.0
        for c in range(q):
            here = joined.start[c]
            if s == last:
                back[c] = rows[s, c]
            else:
                first = classes.before[s] == -1
                rest[s, c] = back[c] if first else joined.node[here + rest[s, c] * joined.width[c] + back[c]]
                back[c] = joined.node[here + back[c] * joined.width[c] + rows[s, c]]
            total += joined.cost[here + rest[s, c] * (joined.width[c] + 1)]
        classes.left[s] = total
        s = classes.before[s]
    classes.fresh[g] = True


@kernel()
def _without(g, r, rows, classes, joined, out):
    """The nodes of class g without record r in `out`, and their cost; a large class is taken as unchanged."""
    q = rows.shape[1]
    if not _small(g, classes):
        for c in range(q):
            out[c] = classes.nodes[g, c]
    else:
        first = True
        s = classes.head[g]
        while s != -1:
            if s != r:
                for c in range(q):
                    cell = np.int64(rows[s, c])
                    out[c] = cell if first else joined.node[joined.start[c] + out[c] * joined.width[c] + cell]
                first = False
            s = classes.after[s]
    total = 0.0
    for c in range(q):
        total += joined.cost[joined.start[c] + out[c] * (joined.width[c] + 1)]
    return total


@kernel()
def _refresh(g, rows, classes, joined):
    """Find the nodes and the price of a class anew."""
    first, total = True, 0.0
    s = classes.head[g]
    while s != -1:
        for c in range(rows.shape[1]):
            cell = np.int64(rows[s, c])
            here = joined.start[c] + classes.nodes[g, c] * joined.width[c] + cell
            classes.nodes[g, c] = cell if first else joined.node[here]
        first = False
        s = classes.after[s]
    if not first:
        for c in range(rows.shape[1]):
            total += joined.cost[joined.start[c] + classes.nodes[g, c] * (joined.width[c] + 1)]
    classes.price[g] = total


@kernel()
def _refresh_small(g, rows, classes, joined):
    """As `_refresh`, but a large class only takes its newest record in."""
    if classes.sizes[g] <= LARGE:
        _refresh(g, rows, classes, joined)
        return
    total = 0.0
    for c in range(rows.shape[1]):
        here = joined.start[c] + classes.nodes[g, c] * joined.width[c] + rows[classes.head[g], c]
        classes.nodes[g, c] = joined.node[here]
        total += joined.cost[joined.start[c] + classes.nodes[g, c] * (joined.width[c] + 1)]
    classes.price[g] = total


@kernel()
def _link(r, g, classes):
    classes.after[r] = classes.head[g]
    classes.before[r] = -1
    if classes.head[g] != -1:
        classes.before[classes.head[g]] = r
    classes.head[g] = r
    classes.sizes[g] += 1
    classes.labels[r] = g


@kernel()
def _move(r, a, b, classes, demands):
    """Record r leaves class a for class b."""
    if classes.before[r] == -1:
        classes.head[a] = classes.after[r]
    else:
        classes.after[classes.before[r]] = classes.after[r]
    if classes.after[r] != -1:
        classes.before[classes.after[r]] = classes.before[r]
    classes.sizes[a] -= 1
    classes.fresh[a] = classes.fresh[b] = False
    _link(r, b, classes)
    for at in range(demands.codes.shape[1]):
        demands.tables[a, demands.codes[r, at]] -= 1
        demands.tables[b, demands.codes[r, at]] += 1


@kernel()
def _holds(g, classes, demands):
    if demands.codes.shape[1] == 0:
        return True
    return class_holds(demands.tables[g], classes.sizes[g], demands.spans, demands.limits, demands.shares)
