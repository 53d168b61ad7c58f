"""Codebooks in DDI-Codebook 2.5 (XML): what every variable of a table is, as archives read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

NAMESPACE = "ddi:codebook:2_5"


@dataclass(frozen=True)
class Variable:
    """A variable of a codebook.

    Attributes
    ----------
    name : str
    label : str
    numeric : bool
        Whether its cells are numbers.
    discrete : bool
        Whether it has categories rather than a continuum.
    weight : bool
        Whether it is the survey weight.
    low, high : float or str or None
        Its range.
    categories : tuple of (value, label, count)
        A count of None is not written.
    missing_codes : tuple of str
    valid, missing : int or None
        Cells with a value, and without.
    text : str
        What a user should know about it.
    """

    name: str
    label: str = ""
    numeric: bool = True
    discrete: bool = False
    weight: bool = False
    low: float | str | None = None
    high: float | str | None = None
    categories: tuple[tuple[str, str, int | None], ...] = ()
    missing_codes: tuple[str, ...] = ()
    valid: int | None = None
    missing: int | None = None
    text: str = ""


def ddi_codebook(
    title: str, variables: Sequence[Variable], *, n_records: int | None = None, file: str = "", abstract: str = "",
    producer: str = "",
) -> str:  # fmt: skip
    """A codebook as XML text.

    Parameters
    ----------
    title : str
        Of the study.
    variables : sequence of Variable
    n_records : int, optional
    file : str, optional
        Name of the data file.
    abstract : str, optional
        What the study is, and how its file was protected.
    producer : str, optional
        The software that wrote it.

    References
    ----------
    .. [1] DDI Alliance (2014). DDI-Codebook 2.5. https://ddialliance.org/Specification/DDI-Codebook/2.5/

    Examples
    --------
    >>> from shoal.io import Variable, ddi_codebook
    >>> text = ddi_codebook("Survey", [Variable("age", low=0, high=110)], n_records=12)
    >>> '<var ID="V1" name="age"' in text
    True
    """
    ElementTree.register_namespace("", NAMESPACE)
    root = ElementTree.Element(_tag("codeBook"), {"version": "2.5"})
    for part in ("docDscr", "stdyDscr"):
        made = _add(root, part)
        citation = _add(made, "citation")
        _add(_add(citation, "titlStmt"), "titl", title)
        if producer:
            _add(_add(citation, "prodStmt"), "software", producer)
        if part == "stdyDscr" and abstract:
            _add(_add(made, "stdyInfo"), "abstract", abstract)
    described = _add(_add(root, "fileDscr", ID="F1"), "fileTxt")
    if file:
        _add(described, "fileName", file)
    size = _add(described, "dimensns")
    if n_records is not None:
        _add(size, "caseQnty", str(n_records))
    _add(size, "varQnty", str(len(variables)))
    data = _add(root, "dataDscr")
    for at, variable in enumerate(variables, 1):
        _variable(data, at, variable)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _variable(data: ElementTree.Element, at: int, variable: Variable) -> None:
    """One variable, its parts in the order of the standard."""
    facts = {"ID": f"V{at}", "name": variable.name, "intrvl": "discrete" if variable.discrete else "contin"}
    made = _add(data, "var", **facts, **({"wgt": "wgt"} if variable.weight else {}), files="F1")
    if variable.label:
        _add(made, "labl", variable.label)
    if variable.low is not None or variable.high is not None:
        ends = {
            key: str(value)
            for key, value in (("min", variable.low), ("max", variable.high))
            if value is not None
        }
        _add(_add(made, "valrng"), "range", **ends)
    if variable.missing_codes:
        invalid = _add(made, "invalrng")
        for code in variable.missing_codes:
            _add(invalid, "item", VALUE=code)
    for kind, count in (("vald", variable.valid), ("invd", variable.missing)):
        if count is not None:
            _add(made, "sumStat", str(count), type=kind)
    if variable.text:
        _add(made, "txt", variable.text)
    for value, label, count in variable.categories:
        category = _add(made, "catgry")
        _add(category, "catValu", value)
        if label:
            _add(category, "labl", label)
        if count is not None:
            _add(category, "catStat", str(count), type="freq")
    _add(made, "varFormat", type="numeric" if variable.numeric else "character")


def _add(parent: ElementTree.Element, tag: str, text: str = "", /, **facts: str) -> ElementTree.Element:
    made = ElementTree.SubElement(parent, _tag(tag), facts)
    # Control characters have no place in XML.
    made.text = "".join(letter for letter in text if letter >= " " or letter in "\t\n") or None
    return made


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"
