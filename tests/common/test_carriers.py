"""Values between functions have classes of their own; loose objects stay at the edges."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import shoal

ROOT = Path(shoal.__file__).parent
# Parts that still say `dict[str, Any]`, and how often at the most. The numbers may only fall.
LOOSE = {"dp": 23, "server": 2}
# Where objects of plain values come in and go out: JSON and TOML are read and written there.
EDGES = {"cli", "client", "evidence", "research", "schema", "server", "datasets", "io"}
# Elsewhere: how many besides `to_dict` a part may have. The numbers may only fall.
INSIDE = {"attacks": 1, "publish": 5, "release": 6, "report": 2, "risk": 1}


def counted(pattern: str, leave_out: str = "a^") -> Counter[str]:
    """Lines of each part that hold a pattern."""
    found: Counter[str] = Counter()
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for line in path.read_text(encoding="utf-8").splitlines():
            found[part] += bool(re.search(pattern, line)) and not re.search(leave_out, line)
    return +found


def test_no_new_loose_dictionaries():
    found = counted(r"dict\[str, Any\]")
    found["typing"] -= 3  # the three names themselves
    assert +found <= Counter(LOOSE), +found - Counter(LOOSE)


def test_plain_objects_stay_at_the_edges():
    found = counted(r"\bJson\b", r"import|def (to|from)_dict|def settings")
    inside = Counter({part: count for part, count in found.items() if part not in EDGES | {"typing", "dp"}})
    assert inside <= Counter(INSIDE), inside - Counter(INSIDE)
