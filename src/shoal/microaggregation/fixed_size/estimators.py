"""The fixed-size family: MDAV, MDAV-generic, MD, CBFS and V-MDAV.

Each method takes an extreme record, groups it with its nearest records, and goes on with the rest. The plain
definitions are in `plain`. Large tables use the kernels in `tree`, which give the same labels.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._repair import repair
from shoal.microaggregation.fixed_size.plain import plain_md
from shoal.microaggregation.fixed_size.tree import fast_cbfs, fast_mdav, fast_mdav_generic, fast_v_mdav
from shoal.params import Constraint, Interval, Options


class MDAV(Microaggregator):
    """Maximum distance to average vector: two opposite groups of `k` at a time.

    While at least 2k records are left, the record r farthest from their centroid and the record s farthest
    from r each form a group with their k-1 nearest (only r, if s is already in its group). If k..2k-1 are
    left, they form the last group. Fewer join, one by one, the group whose centroid is nearest.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2 / k) distances at most, O(n) memory; large tables skip most of them by a tree, with the same labels.
    Group sizes are k, but for the last group (k..2k-1) or groups that other records joined (at most 2k-1).

    This rule gives all fourteen printed losses [1] for Tarragona and Census (k = 3 to 100). The rule of the textbook,
    which stops at 3k records, is `MDAVGeneric`; it misses three of the fourteen.

    References
    ----------
    .. [1] J. Domingo-Ferrer, J. M. Mateo-Sanz (2002). Practical data-oriented microaggregation for
       statistical disclosure control. IEEE TKDE 14(1), 189-201. doi:10.1109/69.979982

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MDAV
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MDAV(k=3).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "mdav"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return fast_mdav(Z, self.k)


class MDAVGeneric(Microaggregator):
    """MDAV by the rule of the textbook and of most tools: the last 2k to 3k-1 records make two groups.

    While at least 3k records are left, it forms groups as `MDAV` does. Of the last 2k to 3k-1 records, the one farthest
    from their centroid forms a group with its k-1 nearest, and the others form the last group.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2 / k) distances at most, O(n) memory; large tables skip most of them by a tree, with the same labels.
    Group sizes are k, but for the last (k..2k-1).

    References
    ----------
    .. [1] J. Domingo-Ferrer, V. Torra (2005). Ordinal, continuous and heterogeneous k-anonymity through
       microaggregation. Data Mining and Knowledge Discovery 11(2), 195-212. doi:10.1007/s10618-005-0007-5

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MDAVGeneric
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0], [13.0]])
    >>> MDAVGeneric(k=3).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1, 1, 1]
    """

    name: ClassVar = "mdav-generic"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return fast_mdav_generic(Z, self.k)


class MD(Microaggregator):
    """Maximum distance (diameter-based fixed size): groups grown at both ends of the diameter.

    While at least 2k records are left, the two records farthest apart each grow a group of `k`.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    grow : {"centroid", "record"}, default "centroid"
        "centroid": a group grows one record at a time towards its current centroid, as [2] describes it, which loses
        less at small k. "record": it takes the records nearest to its extreme record, which gives the losses published
        for MD (Tarragona, k = 3: 16.983; "centroid" gives 15.604).

    Notes
    -----
    Each record remembers the record farthest from it, and searches anew only when that one is gone. O(n^2) distances at
    the start, O(n) memory.

    References
    ----------
    .. [1] J. Domingo-Ferrer, J. M. Mateo-Sanz (2002). Practical data-oriented microaggregation for
       statistical disclosure control. IEEE TKDE 14(1), 189-201. doi:10.1109/69.979982
    .. [2] H.-J. Lin, P.-Y. Yin. A divisive partitioning method to microaggregation (in Chinese).

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MD
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MD(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "md"
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "grow": Options(("centroid", "record")),
    }

    def __init__(self, k: int = 5, grow: str = "centroid") -> None:
        self.k = k
        self.grow = grow

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return plain_md(Z, self.k, self.grow == "centroid")


class CBFS(Microaggregator):
    """Centroid-based fixed size: one group at a time around the record farthest from the centroid.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    grow : {"record", "centroid"}, default "record"
        "record": a group takes the records nearest to its extreme record, as published. "centroid": it grows one record
        at a time towards its current centroid, which loses less at small k.

    Notes
    -----
    O(n^2 / k) distances at most, O(n) memory; large tables skip most of them by a tree, with the same labels.
    Group sizes are k, but for the last (k..2k-1).

    References
    ----------
    .. [1] M. Laszlo, S. Mukherjee (2005). Minimum spanning tree partitioning algorithm for
       microaggregation. IEEE TKDE 17(7), 902-911. doi:10.1109/TKDE.2005.112

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import CBFS
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> CBFS(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "cbfs"
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "grow": Options(("record", "centroid")),
    }

    def __init__(self, k: int = 5, grow: str = "record") -> None:
        self.k = k
        self.grow = grow

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return fast_cbfs(Z, self.k, self.grow == "centroid")


class VMDAV(Microaggregator):
    """Variable-size MDAV: each group of `k` may be extended up to 2k-1 by records near it.

    A free record joins when its distance to the group is below `gamma` times its distance to its nearest
    other free record.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    gamma : float, default 0.2
        Reach of the extension; 0 extends nothing. 1.1 suits clustered data.

    Notes
    -----
    O(n^2 / k) distances, O(n) memory. The extreme record is the one farthest from the centroid of the
    whole table, as in [1]. The last records, if fewer than k, join their nearest group. A group that then exceeds 2k-1
    is split.

    References
    ----------
    .. [1] A. Solanas, A. Martinez-Balleste (2006). V-MDAV: a multivariate microaggregation with variable
       group size. COMPSTAT, 917-925.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import VMDAV
    >>> X = np.array([[1.0], [2.0], [3.0], [3.1], [10.0], [11.0], [12.0]])
    >>> VMDAV(k=3, gamma=1.0).fit(X).labels_.tolist()
    [1, 1, 1, 1, 0, 0, 0]
    """

    name: ClassVar = "v-mdav"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2), "gamma": Interval(Real, 0)}

    def __init__(self, k: int = 5, gamma: float = 0.2) -> None:
        self.k = k
        self.gamma = gamma

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return repair(Z, fast_v_mdav(Z, self.k, float(self.gamma)), self.k)
