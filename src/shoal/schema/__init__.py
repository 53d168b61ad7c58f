"""Public facts about a table: what each column is, how its file is read, and who must be protected.

One schema serves both jobs. It holds nothing that was read from private data: bounds and levels come from
the codebook, and a guessed schema leaves them open. `model` holds the table, `column` and `unit` its
parts, `checks` their rules, `toml` the file, `missing` the one decoder of missing cells.
"""

from __future__ import annotations

from shoal.schema.codebook import read_codebook, write_codebook
from shoal.schema.column import AGGREGATES, KINDS, MISSING_POLICIES, ROLES, Column
from shoal.schema.missing import decode_missing, decode_table
from shoal.schema.model import CURRENCIES, Schema
from shoal.schema.parts import FileFormat, Indicator, Link, Rule
from shoal.schema.steps import Step, Steps
from shoal.schema.unit import Cells, Keys, Unit

__all__ = [
    "AGGREGATES",
    "CURRENCIES",
    "KINDS",
    "MISSING_POLICIES",
    "ROLES",
    "Cells",
    "Column",
    "FileFormat",
    "Indicator",
    "Keys",
    "Link",
    "Rule",
    "Schema",
    "Step",
    "Steps",
    "Unit",
    "decode_missing",
    "decode_table",
    "read_codebook",
    "write_codebook",
]
