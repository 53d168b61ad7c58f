"""Every exception from a rule of the linter says why."""

from __future__ import annotations

import re

from common.sources import ROOT


def test_every_exception_from_a_rule_has_its_reason():
    """On the same line, or in the comment above."""
    bare = []
    for path in sorted(ROOT.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for above, line in zip(["", *lines], lines, strict=False):
            if re.search(r"# noqa(: [A-Z0-9, ]+)?$", line) and not above.lstrip().startswith("#"):
                bare.append(f"{path.relative_to(ROOT)}: {line.strip()}")
    assert bare == []
