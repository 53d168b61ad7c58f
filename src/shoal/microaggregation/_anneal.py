"""Simulated annealing: the default method, which loses the least information for a given amount of work."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from shoal.engine.compile import tell_compiling
from shoal.errors import InputError, ParameterError
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._global import REFINING, GlobalSearch, start_in_blocks
from shoal.microaggregation._mixed import Mixed
from shoal.microaggregation._pairs import PairSearch
from shoal.microaggregation._path_exchange import along_path
from shoal.microaggregation._refine import refine
from shoal.microaggregation._regions import Block, Crowding
from shoal.microaggregation._repair import repair
from shoal.microaggregation._search import Search
from shoal.microaggregation._starts import first_partition
from shoal.microaggregation._task import SearchTask
from shoal.microaggregation._univariate import Univariate
from shoal.microaggregation._work import PLANS, Progress, SearchWork, Shape, Work
from shoal.microaggregation.fixed_size.plain import plain_mdav
from shoal.params import AnyOf, Constraint, Instance, Interval, Unset

FEWEST_FOR_REGIONS = 0.1
"""Parts of the default work from which an uneven table of more than 6,144 records is searched by regions: with 0.03 they
lose up to 0.9 % more, with 0.1 up to 2 % less."""


class Anneal(Microaggregator):
    """Search for the partition with the least information loss, with a given amount of work.

    Single records, pairs of records or whole groups move whenever this lowers the SSE. Sometimes they also move when it
    does not, less and less often as the temperature falls. Then small regions are heated and cooled again, many times, and
    the result is kept where it is better.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    time_limit : float, optional
        Seconds for the whole run, instead of the default work. This does not count the compiling of kernels at the first
        use on a machine. The run returns the best partition when the seconds are over, or earlier if nothing has improved
        for a long time (see Notes).
    max_proposals : int, optional
        Number of proposed moves, instead of the default work; it goes before a time limit. If neither is given, the number
        depends only on the table (see Notes): about ten seconds on two cores for a thousand records. A seed then gives the
        same partition on every run, with any number of threads, on a busy machine or an idle one.
    search_plan : int, optional
        The plan that the proposals follow: `search_plan_` of an earlier run. Together with its `n_proposals_` as
        `max_proposals` and its seed, it repeats that run, even if a time limit ended it. By default a plan is chosen for the
        table and the work.
    effort : float, optional
        Multiplies the default work: 6 is about a minute on two cores for a thousand records.
    start : str or array of int, default "mdav"
        Name of the method that makes the first partition, or a group label for each record.
    random_state : int, optional
        Seed. None draws one from the system and keeps it as `seed_`.
    n_threads : int, optional
        Threads to use; all processors by default.
    progress : callable, optional
        Called from time to time with `(stage, done, of)`: the stage, with the information loss so far and a forecast of the
        seconds left; how much is done; and how much there is, in proposals, or in seconds under a time limit.

    Attributes
    ----------
    work_ : SearchWork
        The number of proposals and the number of their plan, also as `n_proposals_` and `search_plan_`.
    seed_ : int
        The seed that was used.
    interrupted_ : bool
        Whether Ctrl-C ended the run early. The partition is then the best one so far.
    start_loss_ : float
        Information loss of the first partition. The result is never worse.

    Notes
    -----
    The size, the mean and the members of each group are kept, so a proposal costs O(n_columns): about ten million
    proposals per second and core. Memory is O(n k). Group sizes are k..2k-1.

    The temperature at a record is proportional to the root of the squared distance to its k-1 nearest records. (On large
    tables it is proportional to the square itself, unless there are 4,500 sweeps or more, and to its power of 0.75 if
    records are about equally far apart.) This suits skewed tables without tuning. If records spread in more than twelve
    directions, the temperature is lower: all records are about equally far apart, and exchanges cost little. In few
    directions, the search begins hotter and ends colder: groups are packed tightly there, and change only through worse ones.

    A table of more than 6,144 records is annealed once, as a whole, at low temperature and from a good start: MDAV
    within blocks or, up to about 30,000 records, MDAV or CBFS without blocks where that loses less, each with
    exchanges between neighbouring groups; where many records are alike, after groups of these. For each record its
    nearest records are listed, nearly all of them, in O(n) time. A proposal then tries all exchanges of a record with
    the members of a neighbouring group at once; where records lie about equally far apart, only groups that are the
    nearer the colder it is are tried. From 8,000 records on, the groups are dealt out to jobs by random cuts, other
    ones every five sweeps. About 200 bytes a record, and 8 to 60 microseconds a record and core for each 50
    proposals.

    A table of one column of numbers needs no search: its best partition is found in O(n log n).

    Where k is 10 or more, a small table is annealed in the same way, twice side by side, and with work enough several
    times from the first partition; then the best partition is annealed again and again, less hot, and what has become
    better is kept part by part. Up to 2,048 records all squared distances are kept (16 MB), and with them an exchange costs
    the same for any number of columns. The partition of `PathExchange` is taken up where it is better: orders find
    what goes together in tables of clusters.

    On other small tables, on skewed ones of more than 2,048 records whatever k, on flat ones, and on tables of up to
    16,000 records that are flat, that are skewed where k is below 10, or of more than 2,048 where most records have
    copies, two annealings run side by side and the better is kept; then random regions of 10 to 100 groups are
    reheated, disjoint ones at the same time. With time enough and small k, several such runs are made.

    On tables of up to 5,000 records, where k is small for the time there is (for a thousand records k = 3
    in ten seconds, k = 5 in a minute), column generation then finds prices of the records that no group
    undercuts, and regions of 150 to 1,200 records are solved by an integer programme over groups close to
    their price [2]_: the prices show where something may still be saved. This holds all squared distances
    in memory (200 MB for 5,000 records) and counts as proposals in proportion to its work.

    Once as many proposals as `100000 * n_records + 1000000` have brought nothing, the best partition is
    annealed again, less hot; after four such rounds in vain the run ends early.

    References
    ----------
    .. [1] S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi (1983). Optimization by simulated annealing.
       Science 220(4598), 671-680. doi:10.1126/science.220.4598.671
    .. [2] P. Shaw (1998). Using constraint programming and local search methods to solve vehicle routing
       problems. CP98, LNCS 1520, 417-431. doi:10.1007/3-540-49481-2_30

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import Anneal
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> Anneal(k=3, max_proposals=10_000, random_state=0).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "anneal"
    deterministic: ClassVar = False
    keeps_best: ClassVar = True
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "time_limit": AnyOf((Interval(Real, 0), Unset())),
        "max_proposals": AnyOf((Interval(Integral, 0), Unset())),
        "search_plan": AnyOf((Interval(Integral, 0, 2 * PLANS - 1), Unset())),
        "effort": AnyOf((Interval(Real, 0, 1e6), Unset())),
        "start": Instance((str, np.ndarray, list, tuple)),
        "random_state": AnyOf((Interval(Integral, 0), Unset())),
        "n_threads": AnyOf((Interval(Integral, 1), Unset())),
    }

    def __init__(
        self,
        k: int = 5,
        time_limit: float | None = None,
        max_proposals: int | None = None,
        start: Any = "mdav",
        random_state: int | None = None,
        n_threads: int | None = None,
        progress: Progress | None = None,
        search_plan: int | None = None,
        effort: float | None = None,
    ) -> None:
        self.k = k
        self.time_limit = time_limit
        self.max_proposals = max_proposals
        self.start = start
        self.random_state = random_state
        self.n_threads = n_threads
        self.progress = progress
        self.search_plan = search_plan
        self.effort = effort

    def check(self) -> Self:
        """Raise a sentence for parameters outside their rules, or that say different things of the work."""
        super().check()
        if self.search_plan is not None and self.max_proposals is None:
            raise ParameterError(
                "'search_plan' of Anneal repeats a run together with 'max_proposals'. Got it alone."
            )
        if self.effort is not None and (self.max_proposals is not None or self.time_limit is not None):
            raise ParameterError(
                "'effort' of Anneal is the default work times some; 'max_proposals' and 'time_limit' stand instead of "
                "the default. Got both."
            )
        return self

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        self.seed_ = (
            int(np.random.SeedSequence().generate_state(1)[0])
            if self.random_state is None
            else self.random_state
        )
        self.interrupted_ = False
        if Z.shape[1] == 1 and not self._categories and isinstance(self.start, str) and self.start == "mdav":
            return self._optimum(Z)
        shape = Shape.of(Z.shape[0], self.k, Z.shape[1], self._categories)
        if shape.depends and self._enough_for_regions(shape):
            lie = _crowding(Z, self.k, small=shape.small)
            shape = replace(shape, uneven=lie.uneven, flat=lie.flat, copied=lie.copied)
        whole = shape.one_block
        with tell_compiling(lambda: self._tell_compiling(40 if shape.paths else 20)):
            _compile(whole, shape.by_pairs, shape.paths)
        given, Z = Z, Z - Z.mean(axis=0)  # the kernels' float32 is finest around zero
        work = self._work(shape)
        mixed = Mixed.of(Z, self._categories)
        total = float(np.einsum("ij,ij->", Z, Z))
        report = _Report(self.progress, work, total)
        rng = np.random.default_rng(self.seed_)
        with ThreadPoolExecutor(self.n_threads or os.cpu_count() or 1) as workers:
            labels, scale = self._first(given, workers, mixed)  # ties fall as in the methods themselves
            lost = mixed.loss(labels)
            self.start_loss_ = 100.0 * lost / total if total > 0 else 0.0
            if total > 0 and Z.shape[0] >= 2 * self.k:
                task = SearchTask(Z, self.k, labels, work, workers, rng, report, given)
                if shape.small:
                    labels, lost = self._exchanged(given, labels, mixed)
                search: Search | PairSearch | GlobalSearch | None = None
                try:
                    if shape.by_pairs:
                        search = PairSearch(task)
                    else:
                        search = Search(task) if whole else GlobalSearch(task, mixed, scale)
                    search.run()
                except KeyboardInterrupt:
                    self.interrupted_ = True
                    work.end()
                    workers.shutdown(cancel_futures=True)
                if search is not None:
                    found = search.labels
                    left = mixed.loss(found)
                    if left <= lost:  # rounding may have hidden that the first is better
                        labels, lost = found, left
                report(lambda: lost, last=True)
        self.work_ = work.made()
        return labels

    @property
    def n_proposals_(self) -> int:
        """Proposals made."""
        return self.work_.proposals

    @property
    def search_plan_(self) -> int:
        """The plan they followed."""
        return self.work_.plan

    def _enough_for_regions(self, shape: Shape) -> bool:
        """Whether there is work enough for regions of more than a small table: they take a while to begin.

        A plan of 0 is that of a counted run without regions, which it repeats.
        """
        if shape.small or (self.max_proposals is None and self.effort is None):
            return True
        if self.search_plan is not None:
            return self.search_plan > 0
        return self._usual_share(shape) >= FEWEST_FOR_REGIONS

    def _usual_share(self, shape: Shape) -> float:
        """The work that was asked for, in parts of the default."""
        if self.max_proposals is not None:
            return self.max_proposals / shape.usual_proposals()
        return 1.0 if self.effort is None else float(self.effort)

    def _exchanged(self, Z: np.ndarray, first: np.ndarray, mixed: Mixed) -> tuple[np.ndarray, float]:
        """The first partition after exchanges where these pay, and its loss: what a search with little work may not reach.

        The search itself begins at the first, whose loss its temperatures go by.
        """
        found = refine(Z, first, REFINING)
        return min(((each, mixed.loss(each)) for each in (first, found)), key=lambda pair: pair[1])

    def _optimum(self, Z: np.ndarray) -> np.ndarray:
        """The best partition of one column, which needs no search."""
        labels = Univariate(k=self.k)._partition(Z)
        total, mixed = float(np.einsum("ij,ij->", Z, Z)), Mixed.of(Z - Z.mean(axis=0))
        self.start_loss_ = 100.0 * mixed.loss(labels) / total if total > 0 else 0.0
        self.work_ = SearchWork(1, 0)
        return labels

    def _tell_compiling(self, seconds: int) -> None:
        if self.progress is not None:
            self.progress(f"compiling, once after the installation: about {seconds} s", 0.0, 1.0)

    def _work(self, shape: Shape) -> Work:
        if self.max_proposals is None and self.time_limit is None:
            effort = 1.0 if self.effort is None else self.effort
            return Work(None, None, core_seconds=effort * shape.seconds())
        return Work(self.time_limit, self.max_proposals, self.search_plan)

    def for_part(self, n: int, of: int, p: int, categories: Sequence[tuple[int, int]] = ()) -> Self:
        """The same search with its part of the budget, for n of so many records in p coordinates."""
        part = self.copy()
        if n == of:
            return part
        if self.max_proposals is None and self.time_limit is not None:
            return part.set_params(time_limit=self.time_limit * n / of)
        shape = Shape.of(of, self.k, p, categories)
        usual = shape.usual_proposals(1.0 if self.effort is None else self.effort)
        whole = usual if self.max_proposals is None else self.max_proposals
        # A plan for the whole is none for a part.
        return part.set_params(max_proposals=shape.part(n, whole), search_plan=None, effort=None)

    def _first(
        self, Z: np.ndarray, workers: ThreadPoolExecutor, mixed: Mixed
    ) -> tuple[np.ndarray, float | None]:
        """The first partition, labelled 0..c-1, group sizes k..2k-1, and the loss that temperatures go by."""
        from shoal.microaggregation import methods

        n = Z.shape[0]
        if n < 2 * self.k:
            return np.zeros(n, np.int64), None
        if not isinstance(self.start, str):
            labels = np.asarray(self.start)
            if labels.shape != (n,) or labels.dtype.kind not in "iu":
                raise InputError(
                    f"'start' of Anneal must hold {n} group numbers. Got shape {labels.shape}, {labels.dtype}."
                )
            return repair(Z, labels.astype(np.int64), self.k), None
        if self.start == "mdav" and not Shape.of(n, self.k, Z.shape[1], self._categories).one_block:
            return first_partition(Z, self.k, workers, mixed.loss)
        known = methods()
        if self.start not in known or self.start == self.name:
            names = ", ".join(name for name in known if name != self.name)
            raise ParameterError(f"'start' of Anneal must be one of {names}, or labels. Got {self.start!r}.")
        if self.start == "mdav":
            return plain_mdav(Z, self.k), None
        return repair(Z, known[self.start](k=self.k)._partition(Z), self.k), None


def _crowding(Z: np.ndarray, k: int, *, small: bool) -> Crowding:
    """How the records of a table lie: of all of a small one, of a selection of others."""
    if not small:
        return Crowding.of(Z, k)
    block = Block.of(Z, k)
    return Crowding(not block.even, block.flat, block.copied)


@cache
def _compile(whole: bool, by_pairs: bool, paths: bool) -> None:
    """Run every kernel once on a small table, so that the clock starts with all of them at hand."""
    Z = np.random.default_rng(0).normal(size=(24, 2))
    if paths:
        along_path(Z, 2)
    with ThreadPoolExecutor(1) as workers:
        labels = plain_mdav(Z, 2) if whole or by_pairs else start_in_blocks(Z, 2, workers)
        refine(Z, labels)
        search = PairSearch if by_pairs else Search if whole else GlobalSearch
        rng, work = np.random.default_rng(0), Work(None, 2_000)
        search(SearchTask(Z, 2, labels, work, workers, rng, lambda _: None)).run()


class _Report:
    """Passes how far the search is to the user's function, at most five times a second."""

    def __init__(self, progress: Progress | None, work: Work, total: float) -> None:
        self.progress, self.work, self.total = progress, work, total
        self.told = -1.0

    def __call__(self, sse: Callable[[], float], *, last: bool = False) -> None:
        now = self.work.elapsed()
        if self.progress is not None and (last or now - self.told >= 0.2):
            self.told = now
            left = self.work.seconds_left()
            forecast = f", about {left:.0f} s left" if math.isfinite(left) and now >= 1.0 and not last else ""
            self.progress(f"searching: {100.0 * sse() / self.total:.4f} % lost{forecast}", *self.work.done())
