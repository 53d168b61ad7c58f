"""Files in, files out: the only place that knows formats.

Reading says what it had to guess (encoding, delimiter). Writing goes to a temporary file beside the target
which is renamed when complete, so that nothing is ever half-written.
"""

from __future__ import annotations

from shoal.io._cells import CellKind, typed
from shoal.io._ddi import Variable, ddi_codebook
from shoal.io._files import (
    atomic,
    check_apart,
    check_folder,
    check_page,
    copy_files,
    first_line,
    left_out,
    make_folder,
    remove_temporaries,
    together,
    write_text,
)
from shoal.io._folder import common_types, in_types
from shoal.io._stored import read_stored
from shoal.io._tables import (
    COMPRESSED,
    FORMATS,
    STATISTICAL,
    TEXT,
    ReadTable,
    check_ending,
    check_writable,
    lost_in_writing,
    read_source,
    read_table,
    write_table,
)
from shoal.io._text import (
    SAMPLE_BYTES,
    RecordLines,
    TextWriter,
    codec,
    found_encoding,
    found_marks,
    has_blank_lines,
    header,
    named_mark,
    records_over_lines,
    refuse_compressed,
    refuse_ragged,
    unreadable,
    with_empty_records,
    written_marks,
    wrong_encoding,
)

__all__ = [
    "COMPRESSED",
    "FORMATS",
    "SAMPLE_BYTES",
    "STATISTICAL",
    "TEXT",
    "CellKind",
    "ReadTable",
    "RecordLines",
    "TextWriter",
    "Variable",
    "atomic",
    "check_apart",
    "check_ending",
    "check_folder",
    "check_page",
    "check_writable",
    "codec",
    "common_types",
    "copy_files",
    "ddi_codebook",
    "first_line",
    "found_encoding",
    "found_marks",
    "has_blank_lines",
    "header",
    "in_types",
    "left_out",
    "lost_in_writing",
    "make_folder",
    "named_mark",
    "read_source",
    "read_stored",
    "read_table",
    "records_over_lines",
    "refuse_compressed",
    "refuse_ragged",
    "remove_temporaries",
    "together",
    "typed",
    "unreadable",
    "with_empty_records",
    "write_table",
    "write_text",
    "written_marks",
    "wrong_encoding",
]
