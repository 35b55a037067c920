"""Formulas of Office documents (OMML) as LaTeX, in which fractions stay fractions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats.archives import below

_MAX_DEPTH: Final = 50
_SIGNS: Final = {"∑": r"\sum", "∏": r"\prod", "∫": r"\int"}


def latex_of(formula: Element) -> str:
    """Return a formula in one line; what is nested too deeply has no form."""
    return " ".join(_math_text(formula, _MAX_DEPTH).split())


def _math_text(parent: Element | None, depth: int) -> str:
    if parent is None:
        return ""
    if not depth:
        return "".join(text.text or "" for text in parent.iter("m:t"))
    return "".join(_piece(child, depth - 1) for child in parent)


def _piece(element: Element, depth: int) -> str:
    if element.tag == "m:t":
        return element.text or ""
    form = _FORMS.get(element.tag)
    if form is None:
        return _math_text(element, depth)
    return form(element, lambda name: _math_text(element.find(name), depth), depth)


_Inner = Callable[[str], str]


def _fraction(_: Element, inner: _Inner, __: int) -> str:
    return f"\\frac{{{inner('m:num')}}}{{{inner('m:den')}}}"


def _root(_: Element, inner: _Inner, __: int) -> str:
    degree = inner("m:deg")
    return f"\\sqrt{f'[{degree}]' if degree else ''}{{{inner('m:e')}}}"


def _marks(inner: _Inner) -> str:
    low, high = inner("m:sub"), inner("m:sup")
    return (f"_{{{low}}}" if low else "") + (f"^{{{high}}}" if high else "")


def _marked(_: Element, inner: _Inner, __: int) -> str:
    return f"{inner('m:e')}{_marks(inner)}"


def _sum(element: Element, inner: _Inner, _: int) -> str:
    sign = _property(element, "m:naryPr", "m:chr", "∫")
    return f"{_SIGNS.get(sign, sign)}{_marks(inner)} {inner('m:e')}"


def _function(_: Element, inner: _Inner, __: int) -> str:
    return f"{inner('m:fName')} {inner('m:e')}"


def _enclosed(element: Element, _: _Inner, depth: int) -> str:
    begin = _property(element, "m:dPr", "m:begChr", "(")
    end = _property(element, "m:dPr", "m:endChr", ")")
    return begin + ", ".join(_math_text(part, depth) for part in element.findall("m:e")) + end


def _matrix(element: Element, _: _Inner, depth: int) -> str:
    rows = (
        " & ".join(_math_text(cell, depth) for cell in row.findall("m:e"))
        for row in element.findall("m:mr")
    )
    return "\\begin{matrix}" + " \\\\ ".join(rows) + "\\end{matrix}"


def _property(element: Element, properties: str, name: str, otherwise: str) -> str:
    found = below(element, properties, name)
    return otherwise if found is None else found.get("m:val", "")


_FORMS: Final[Mapping[str, Callable[[Element, _Inner, int], str]]] = {
    "m:f": _fraction,
    "m:rad": _root,
    "m:sSub": _marked,
    "m:sSup": _marked,
    "m:sSubSup": _marked,
    "m:nary": _sum,
    "m:func": _function,
    "m:d": _enclosed,
    "m:m": _matrix,
}
