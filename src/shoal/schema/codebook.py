"""DDI codebooks in and out: variables with their labels, categories, missing codes and ranges.

The standard library's parser is enough, and safe here: a file that declares a document type (where entities could be
defined) is refused before it is parsed. Nothing is fetched.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.parsers import expat

from shoal.errors import SchemaError
from shoal.schema.column import Column
from shoal.schema.model import Schema

NAMESPACE = "ddi:codebook:2_5"
_LARGEST = 64 << 20
# Missing codes of one declared range that are listed.
_MOST_CODES = 100
_NATURES = {"nominal": "category", "ordinal": "ordered", "interval": "number", "ratio": "number"}
_OF_KIND = {
    "category": "nominal",
    "boolean": "nominal",
    "ordered": "ordinal",
    "number": "ratio",
    "date": "other",
}


def read_codebook(path: str | Path) -> Schema:
    """A schema from a DDI codebook (version 2): kinds, levels, bounds and missing codes as documented.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Schema
        Roles are left open: a codebook does not say them.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from shoal.schema import Column, Schema, read_codebook, write_codebook
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "survey.xml"
    >>> write_codebook(Schema({"sex": Column("sex", kind="category", levels=("f", "m"))}, id="survey"), file)
    >>> read_codebook(file).columns["sex"].levels
    ('f', 'm')
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SchemaError(f"The codebook {str(path)!r} cannot be read: {error.strerror}.") from None
    if len(data) > _LARGEST:
        raise SchemaError(f"The codebook {str(path)!r} must have at most 64 MB. It has {len(data):,} bytes.")
    try:
        _refuse_document_type(data)
        root = ET.fromstring(data)  # noqa: S314 (without a document type there are no entities)
    except (expat.ExpatError, ET.ParseError, LookupError, ValueError) as error:
        raise SchemaError(
            f"The codebook {str(path)!r} must be XML without a document type: {error}."
        ) from None
    found = [each for each in root.iter() if _local(each) == "var"]
    if not found:
        raise SchemaError(f"The codebook {str(path)!r} must describe variables (var). It describes none.")
    columns: dict[str, Column] = {}
    for each in found:
        name = each.get("name") or ""
        if not name or name in columns:
            raise SchemaError(
                f"The variables of the codebook {str(path)!r} must have different names. Got {name!r}."
            )
        columns[name] = _column(name, each)
    title = next((text for each in root.iter() if _local(each) == "titl" and (text := _text(each))), "")
    return Schema(columns, id=title or path.stem or "table")


def write_codebook(schema: Schema, path: str | Path, labels: Mapping[str, Any] | None = None) -> None:
    """Write a DDI codebook (version 2.5) of the columns of a schema.

    Parameters
    ----------
    schema : Schema
    path : str or Path
    labels : mapping, optional
        What a file of SPSS, Stata or SAS declares of its variables: `column_labels`, `variable_value_labels`,
        `missing_ranges` and `measures`. Nothing is taken from its cells.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from shoal.schema import Column, Schema, read_codebook, write_codebook
    >>> path = Path(tempfile.mkdtemp()) / "codebook.xml"
    >>> write_codebook(Schema({"age": Column("age", bounds=(0, 110))}), path)
    >>> read_codebook(path).columns["age"].bounds
    (0.0, 110.0)
    """
    known = labels or {}
    root = ET.Element(f"{{{NAMESPACE}}}codeBook", {"version": "2.5"})
    study = root
    for name in ("stdyDscr", "citation", "titlStmt"):
        study = ET.SubElement(study, f"{{{NAMESPACE}}}{name}")
    ET.SubElement(study, f"{{{NAMESPACE}}}titl").text = schema.id
    described = ET.SubElement(root, f"{{{NAMESPACE}}}dataDscr")
    for number, (name, column) in enumerate(schema.columns.items(), 1):
        _variable(described, number, name, column, known)
    ET.register_namespace("", NAMESPACE)
    ET.indent(root)
    try:
        Path(path).write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")
    except OSError as error:
        raise SchemaError(f"The codebook {str(path)!r} cannot be written: {error.strerror}.") from None


def _refuse_document_type(data: bytes) -> None:
    """Raise where entities could be defined, whatever the encoding of the file."""

    def refuse(*_facts: Any) -> None:
        raise ValueError("it has a document type")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(data, True)


def _variable(parent: ET.Element, number: int, name: str, column: Column, known: Mapping[str, Any]) -> None:
    nature = _OF_KIND[column.kind]
    if nature == "nominal" and known.get("measures", {}).get(name) == "ordinal":
        nature = "ordinal"
    facts = {"ID": f"V{number}", "name": name, "nature": nature}
    var = ET.SubElement(parent, f"{{{NAMESPACE}}}var", facts)
    label = known.get("column_labels", {}).get(name)
    if label:
        ET.SubElement(var, f"{{{NAMESPACE}}}labl").text = str(label)
    if column.bounds is not None:
        allowed = ET.SubElement(var, f"{{{NAMESPACE}}}valrng")
        ET.SubElement(
            allowed, f"{{{NAMESPACE}}}range", {"min": str(column.bounds[0]), "max": str(column.bounds[1])}
        )
    ranges = known.get("missing_ranges", {}).get(name, ())
    if ranges:
        invalid = ET.SubElement(var, f"{{{NAMESPACE}}}invalrng")
        for each in ranges:
            ends = {"min": _code(each["lo"]), "max": _code(each["hi"])}
            ET.SubElement(invalid, f"{{{NAMESPACE}}}range", ends)
    labelled = known.get("variable_value_labels", {}).get(name, {})
    words = {_code(code): word for code, word in labelled.items()}
    gone_too = {code: any(_within(code, each) for each in ranges) for code in labelled}
    levels = column.levels or tuple(code for code, gone in gone_too.items() if not gone)
    codes = column.missing_codes or tuple(code for code, gone in gone_too.items() if gone)
    for value, gone in [*((_code(each), False) for each in levels), *((_code(each), True) for each in codes)]:
        entry = ET.SubElement(var, f"{{{NAMESPACE}}}catgry", {"missing": "Y"} if gone else {})
        ET.SubElement(entry, f"{{{NAMESPACE}}}catValu").text = value
        if value in words:
            ET.SubElement(entry, f"{{{NAMESPACE}}}labl").text = str(words[value])
    shown = {"type": "character" if column.kind in ("category", "date") else "numeric"}
    ET.SubElement(
        var, f"{{{NAMESPACE}}}varFormat", shown | ({"category": "date"} if column.kind == "date" else {})
    )


def _code(value: Any) -> str:
    """A code as text: 1 for 1.0, as a column of whole numbers shows it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _within(code: Any, limits: Mapping[str, Any]) -> bool:
    low, high = limits["lo"], limits["hi"]
    return isinstance(code, str) == isinstance(low, str) and bool(low <= code <= high)


def _column(name: str, var: ET.Element) -> Column:
    """A column from what the codebook says of its variable."""
    entries = [each for each in var if _local(each) == "catgry"]
    valid: list[str] = []
    gone: list[str] = []
    for entry in entries:
        value = next((_text(each) for each in entry if _local(each) == "catValu"), "")
        (gone if entry.get("missing", "N").upper() == "Y" else valid).append(value)
    nature = (var.get("nature") or "").lower()
    kind = _NATURES.get(nature) or ("category" if valid else "number")
    form = next((each for each in var if _local(each) == "varFormat"), ET.Element("varFormat"))
    if nature not in _NATURES and not valid and form.get("type") == "character":
        kind = "date" if form.get("category") == "date" else "category"
    bounds = None
    inside = [each for part in var if _local(part) == "valrng" for each in part]
    ends = next((each for each in inside if _local(each) == "range"), None)
    gone += [code for part in var if _local(part) == "invalrng" for code in _codes(part)]
    if kind == "number" and ends is not None:
        bounds = _ends(ends.get("min"), ends.get("max"))
    levels = tuple(dict.fromkeys(valid)) if kind in ("category", "ordered") and valid else None
    codes = tuple(code for code in dict.fromkeys(gone) if code not in (levels or ()))
    return Column(name, kind=kind, levels=levels, bounds=bounds, missing_codes=codes)


def _codes(invalid: ET.Element) -> list[str]:
    """The codes that are declared as missing, those of short ranges of whole numbers one by one."""
    found: list[str] = []
    for each in invalid:
        if _local(each) == "item" and each.get("VALUE"):
            found.append(str(each.get("VALUE")))
        low, high = each.get("min"), each.get("max")
        if _local(each) == "range" and low and high:
            ends = _ends(low, high)
            if low == high:
                found.append(low)
            elif ends and float.is_integer(ends[0]) and ends[1] - ends[0] < _MOST_CODES:
                found += [str(code) for code in range(int(ends[0]), int(ends[1]) + 1)]
    return found


def _ends(low: str | None, high: str | None) -> tuple[float, float] | None:
    try:
        found = (float(low or "nan"), float(high or "nan"))
    except ValueError:
        return None
    return found if found[0] < found[1] else None


def _local(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: ET.Element) -> str:
    return "".join(element.itertext()).strip()
