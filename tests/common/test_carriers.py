"""Values between functions have classes of their own; loose objects stay at the edges."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import shoal

ROOT = Path(shoal.__file__).parent
# Where objects of plain values come in and go out: JSON and TOML are read and written there.
EDGES = {"cli", "client", "evidence", "research", "schema", "server", "datasets", "io", "typing"}
# Elsewhere: how many lines besides `to_dict` and `from_dict` a part may have. The numbers may only fall.
INSIDE = {
    "attacks": 1,
    "audit": 3,  # rows of made-up tables
    "comparison": 2,
    "dp": 11,  # rows of answers and of streams; files of models
    "engine": 1,
    "publish": 4,
    "release": 1,
    "report": 2,
    "risk": 1,
    "utility": 1,
}


def counted(pattern: str, leave_out: str = "a^") -> Counter[str]:
    """Lines of each part that hold a pattern."""
    found: Counter[str] = Counter()
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for line in path.read_text(encoding="utf-8").splitlines():
            found[part] += bool(re.search(pattern, line)) and not re.search(leave_out, line)
    return +found


def test_loose_dictionaries_have_one_of_three_names():
    assert counted(r"dict\[str, Any\]") == {"typing": 3}


def test_plain_objects_stay_at_the_edges():
    named = r"(: |-> |= |\[|, )(Json|Record|Keywords)\b"
    found = counted(named, r"import|def (to|from)_dict|def settings")
    inside = Counter({part: count for part, count in found.items() if part not in EDGES})
    assert inside == Counter(INSIDE), (inside - Counter(INSIDE), Counter(INSIDE) - inside)
