"""Generalisation: values coarsened along hierarchies until every class holds what it must."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from shoal.errors import GuaranteeError, InputError, InternalError, ParameterError
from shoal.generalization._anneal import MOST_COUNTS
from shoal.generalization._base import Recoder, column_weights
from shoal.generalization._conditions import RULES, Conditions
from shoal.generalization._global import best_node
from shoal.generalization._hierarchy import Hierarchy
from shoal.generalization._lattice import Lattice
from shoal.generalization._local import recode_locally
from shoal.generalization._table import CodedColumn, code_column, hierarchies_of, released, sets_of, table_of
from shoal.params import AnyOf, Constraint, Interval, Options, Unset

OBJECTIVES = ("loss", "arx-loss", "precision", "cells")


class Generalize(Recoder):
    """Coarsen values along hierarchies until every class has `k` records, losing as little as possible.

    Parameters
    ----------
    k : int, default 5
    hierarchies : dict of column to hierarchy, or a folder of CSV files as ARX keeps them, optional
        A hierarchy is a `Hierarchy`, nested lists, named parents (child to parent) or a file. Numbers without
        one get intervals of 5, 10, 20, ... steps, dates months, years and decades; others a value or nothing.
    breaks : dict of column to breaks, optional
        Where intervals of numbers begin: 18, 35, 65 gives 18-34, 35-64, 65+. Lists of lists are several levels.
    recoding : {"local", "global"}, default "local"
        "local": every class is coarsened as far as it needs, nothing is suppressed, every cell is true.
        "global": one level for each column, the exact optimum over all combinations of levels.
    suppress_at_most : float, default 0
        Under global recoding: share of the records that may lose all their cells instead.
    objective : {"loss", "arx-loss", "precision", "cells"}, default "loss"
        What a cell loses. "loss": the share of the domain its node stands for beyond the value itself.
        "arx-loss": the same, columns put together as product(1 + x) ^ (1 / q) - 1, as ARX's Loss; global only.
        "precision": levels climbed, as a share of the column's. "cells": 1 if the value is no longer exact.
    importance : dict of column to float, optional
        Weight of a column in the loss.
    sensitive : sequence of str, optional
        Columns whose values must stay uncertain; they are not coarsened.
    l, entropy_l, t, alpha, beta, enhanced_beta, delta : optional
        Conditions on the sensitive columns, see `Conditions`.
    classes : {"ancestors", "sets"}, default "ancestors"
        Release a class at its common ancestors, or as the values present in it (local recoding).
    columns : sequence of str, optional
        The quasi-identifiers; all but the sensitive columns unless given.
    apart : str, optional
        A column, households for one, of which every class must hold k different values: k counts them instead of
        records. Give `columns` as well.
    proposals : int, default 150
        Of the local search, for each record that is not released as it is.
    certify : bool or "full", default True
        Bound the loss of local recoding from below; "full" with more work for a higher bound.
    time_limit : float, optional
        Seconds for each programme of a small table; left open, work is counted instead and a run repeats.
    random_state : int, default 0

    Attributes
    ----------
    node_ : tuple of int or None
        The level of each column under global recoding.
    suppressed_ : int
        Records without any cell left.
    losses_ : dict of column to float
        Mean loss of a cell in each column.
    exact_ : float
        Share of the cells released as they were.
    conditions_ : Conditions

    Notes
    -----
    The bound of local recoding is on k alone and holds the more with further conditions; it is for classes
    at common ancestors. Suppressed records hold the conditions as a class of their own, or the node is not
    allowed. Released combinations are counted again before anything is handed out.

    References
    ----------
    .. [1] L. Sweeney (2002). Achieving k-anonymity privacy protection using generalization and suppression.
       International Journal of Uncertainty, Fuzziness and Knowledge-Based Systems 10(5), 571-588.
       doi:10.1142/S021848850200165X
    .. [2] F. Prasser, F. Kohlmayer (2015). Putting statistical disclosure control into practice: the ARX data
       anonymization tool. In: Medical Data Privacy Handbook, Springer, 111-148.
       doi:10.1007/978-3-319-23633-9_6
    .. [3] J. Cao, P. Karras (2012). Publishing microdata with a robust privacy guarantee. PVLDB 5(11),
       1388-1399. doi:10.14778/2350229.2350255

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.generalization import Generalize
    >>> frame = pl.DataFrame({"age": [20, 31, 34, 60, 70, 80], "sex": list("mmmfff")})
    >>> Generalize(k=3, breaks={"age": [18, 35, 65]}).fit_transform(frame)["age"].to_list()
    ['18-34', '18-34', '18-34', '*', '*', '*']
    """

    name: ClassVar[str] = "generalize"
    node_: tuple[int, ...] | None
    _rules: ClassVar[dict[str, Constraint]] = {
        **RULES,
        "recoding": Options(("local", "global")),
        "suppress_at_most": Interval(Real, 0, 1),
        "objective": Options(OBJECTIVES),
        "classes": Options(("ancestors", "sets")),
        "proposals": Interval(Integral, 0),
        "certify": Options((True, False, "full")),
        "time_limit": AnyOf((Unset(), Interval(Real, 0))),
        "random_state": Interval(Integral, 0),
    }

    def __init__(
        self,
        k: int = 5,
        *,
        hierarchies: Mapping[str, Any] | str | Path | None = None,
        breaks: Mapping[str, Sequence[Any]] | None = None,
        recoding: str = "local",
        suppress_at_most: float = 0.0,
        objective: str = "loss",
        importance: Mapping[str, float] | None = None,
        sensitive: Sequence[str] = (),
        l: int | None = None,
        entropy_l: float | None = None,
        t: float | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        enhanced_beta: float | None = None,
        delta: float | None = None,
        classes: str = "ancestors",
        columns: Sequence[str] | None = None,
        apart: str | None = None,
        proposals: int = 150,
        certify: bool | str = True,
        time_limit: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.k = k
        self.hierarchies = hierarchies
        self.breaks = breaks
        self.recoding = recoding
        self.suppress_at_most = suppress_at_most
        self.objective = objective
        self.importance = importance
        self.sensitive = sensitive
        self.l = l
        self.entropy_l = entropy_l
        self.t = t
        self.alpha = alpha
        self.beta = beta
        self.enhanced_beta = enhanced_beta
        self.delta = delta
        self.classes = classes
        self.columns = columns
        self.apart = apart
        self.proposals = proposals
        self.certify = certify
        self.time_limit = time_limit
        self.random_state = random_state

    def check(self) -> Self:
        """Raise `ParameterError` for the first parameter that is not allowed, or for two that exclude each other."""
        super().check()
        if self.recoding == "local" and self.suppress_at_most > 0:
            raise ParameterError(
                "'suppress_at_most' of Generalize is for global recoding: local suppresses nothing."
            )
        if self.recoding == "local" and self.objective == "arx-loss":
            raise ParameterError("'objective' of Generalize may be 'arx-loss' for global recoding only.")
        if self.recoding == "global" and self.classes == "sets":
            raise ParameterError("'classes' of Generalize may be 'sets' for local recoding only.")
        asked = [name for name in RULES if name != "k" and getattr(self, name) is not None]
        if asked and not len(self.sensitive):
            raise ParameterError(f"{asked[0]!r} of Generalize is a condition on sensitive columns. Got none.")
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the classes.

        Parameters
        ----------
        X : pandas.DataFrame, polars.DataFrame, pyarrow.Table or array
        y : ignored
        """
        del y
        table = self._opened(X)
        self.conditions_ = self._conditions(X)
        names = [name for name in table.columns if name not in self.sensitive]
        weights = column_weights(self.importance, names)
        weights = weights / weights.sum()
        given, breaks = hierarchies_of(self.hierarchies), dict(self.breaks or {})
        for name in breaks:
            if name not in names:
                raise ParameterError(f"'breaks' must name quasi-identifiers of the table. Got {name!r}.")
        coded = [code_column(table[name], given.get(name), breaks.get(name)) for name in names]
        costs = [weights[c] * node_costs(column.tree, self.objective) for c, column in enumerate(coded)]
        lattice = Lattice.of(
            np.stack([column.codes for column in coded], axis=1), [c.tree for c in coded], costs
        )
        nodes = self._local(lattice) if self.recoding == "local" else self._global(lattice, weights)
        self._settle(table, coded, nodes, weights)
        return self

    def _conditions(self, X: Any) -> Conditions:
        codes, ordered = [], []
        if len(self.sensitive):
            table = table_of(X, list(self.sensitive))
            for name in table.columns:
                numbers = table[name].rank("dense").fill_null(0).to_numpy().astype(np.int64)
                codes.append(np.unique(numbers, return_inverse=True)[1].reshape(-1))
                ordered.append(table[name].dtype.is_numeric() or table[name].dtype.is_temporal())
        return Conditions(
            self.k,
            self.l,
            self.entropy_l,
            self.t,
            self.alpha,
            self.beta,
            self.delta,
            tuple(codes),
            tuple(ordered),
            self._apart(X),
            self.enhanced_beta,
        )

    def _local(self, lattice: Lattice) -> np.ndarray:
        found = recode_locally(
            lattice, self.conditions_, proposals=self.proposals, certify=self.certify, time_limit=self.time_limit,
            random_state=self.random_state,
        )  # fmt: skip
        self.labels_, self.loss_, self.bound_, self.node_ = found.labels, found.loss, found.bound, None
        self.bound_seconds_ = found.seconds
        return found.nodes[found.labels]

    def _global(self, lattice: Lattice, weights: np.ndarray) -> np.ndarray:
        if lattice.tuples.shape[0] * self.conditions_.width > MOST_COUNTS:
            raise InputError(
                "Global recoding counts every sensitive value and household in every class, at most "
                f"{MOST_COUNTS:,} in all. Got {lattice.tuples.shape[0]:,} distinct records and "
                f"{self.conditions_.width:,} values: recode locally, or count records."
            )
        began = time.process_time()
        found = best_node(
            lattice, self.conditions_, self.suppress_at_most, weights, geometric=self.objective == "arx-loss"
        )
        if found is None:
            raise GuaranteeError(
                f"No combination of levels holds {self.conditions_}: the whole table does not."
            )
        self.labels_, self.loss_, self.bound_, self.node_ = found.labels, found.loss, found.bound, found.node
        # The search proves its own result.
        self.bound_seconds_ = time.process_time() - began
        levels = zip(lattice.hierarchies, found.node, strict=True)
        nodes = np.stack(
            [tree.up[level][lattice.tuples[lattice.of_row, c]] for c, (tree, level) in enumerate(levels)],
            axis=1,
        )
        nodes[found.labels < 0] = -1
        return nodes

    def _settle(
        self, table: pl.DataFrame, coded: Sequence[CodedColumn], nodes: np.ndarray, weights: np.ndarray
    ) -> None:
        """The released cells and the figures, counted on them."""
        self.suppressed_ = int((self.labels_ < 0).sum())
        self.n_groups_ = int(self.labels_.max(initial=-1)) + 1
        self.losses_, new, exact = {}, {}, 0.0
        for c, column in enumerate(coded):
            tree, name = column.tree, column.cells.name
            if self.classes == "sets":
                new[name], covered = sets_of(column, self.labels_)
                alone = (covered[self.labels_] <= tree.covered[column.codes]) & (column.start == 0)
                share = (covered[self.labels_] - 1.0) / max(tree.domain - 1.0, 1.0)
                self.losses_[name] = float(np.clip(np.where(alone, 0.0, share), 0.0, 1.0).mean())
                if bool(alone.all()):
                    new[name] = column.cells
            else:
                new[name] = released(column, nodes[:, c])
                alone = (nodes[:, c] >= 0) & (nodes[:, c] < len(tree.leaves)) & (column.start == 0)
                cost = np.append(node_costs(tree, self.objective), 1.0)
                self.losses_[name] = float(cost[nodes[:, c]].mean())
            exact += float(alone.mean()) / len(coded)
        self.exact_ = exact
        if self.classes == "sets":
            self.loss_ = float(np.array(list(self.losses_.values())) @ weights)
            self.bound_ = None
        self.released_ = table.with_columns(new[name] for name in new)
        rows = self.released_.select(list(new))
        smallest = min(rows.group_by(rows.columns).len("__rows__")["__rows__"].to_list())
        if smallest < self.k:
            raise InternalError(f"A combination occurs {smallest} times where {self.k} were promised.")


def node_costs(tree: Hierarchy, objective: str) -> np.ndarray:
    """What a cell loses at each node, from 0 for a value to 1 for the root."""
    leaves = np.arange(tree.n_nodes) < len(tree.leaves)
    if objective == "cells":
        return np.where(leaves, 0.0, 1.0)
    if objective == "precision":
        return tree.level_of / max(tree.n_levels - 1, 1)
    # Of a domain of values one is the value itself; of a range of measurements nothing is.
    unit = float(tree.covered[: len(tree.leaves)].min())
    if tree.domain <= unit:
        return np.zeros(tree.n_nodes)
    return np.where(leaves, 0.0, np.clip((tree.covered - unit) / (tree.domain - unit), 0.0, 1.0))
