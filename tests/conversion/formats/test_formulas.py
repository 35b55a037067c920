"""Formulas of Office documents as LaTeX."""

from __future__ import annotations

import pytest

from resource_server.conversion.formats.archives import parse_xml
from resource_server.conversion.formats.formulas import latex_of

MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def latex(inner: str) -> str:
    return latex_of(parse_xml(f'<m:oMath xmlns:m="{MATH}">{inner}</m:oMath>'.encode()))


def letters(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


@pytest.mark.parametrize(
    ("inner", "shown"),
    [
        ("<m:f><m:num>{a}</m:num><m:den>{b}</m:den></m:f>", r"\frac{a}{b}"),
        ("<m:rad><m:deg>{a}</m:deg><m:e>{b}</m:e></m:rad>", r"\sqrt[a]{b}"),
        ("<m:rad><m:deg/><m:e>{b}</m:e></m:rad>", r"\sqrt{b}"),
        (
            "<m:sSubSup><m:e>{a}</m:e><m:sub>{b}</m:sub><m:sup>{a}</m:sup></m:sSubSup>",
            "a_{b}^{a}",
        ),
        (
            '<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{a}</m:sub>'
            "<m:e>{b}</m:e></m:nary>",
            r"\sum_{a} b",
        ),
        ("<m:d><m:e>{a}</m:e><m:e>{b}</m:e></m:d>", "(a, b)"),
        ("<m:func><m:fName>{a}</m:fName><m:e>{b}</m:e></m:func>", "a b"),
        (
            "<m:m><m:mr><m:e>{a}</m:e><m:e>{b}</m:e></m:mr><m:mr><m:e>{b}</m:e></m:mr></m:m>",
            r"\begin{matrix}a & b \\ b\end{matrix}",
        ),
        ("<m:acc><m:e>{a}</m:e></m:acc>{b}", "ab"),
    ],
)
def test_formulas_keep_their_form(inner: str, shown: str) -> None:
    inner = inner.replace("{a}", letters("a")).replace("{b}", letters("b"))
    assert latex(inner) == shown


@pytest.mark.parametrize(
    ("inner", "shown"),
    [
        ("", ""),
        ("<m:f/>", r"\frac{}{}"),
        ("<m:rad/>", r"\sqrt{}"),
        ("<m:sSub/>", ""),
        ("<m:nary/>", r"\int"),
        ("<m:nary><m:naryPr><m:chr/></m:naryPr></m:nary>", ""),
        ("<m:d/>", "()"),
        ("<m:m/>", r"\begin{matrix}\end{matrix}"),
        ("<m:r><m:t> a\n  b </m:t></m:r>", "a b"),
    ],
)
def test_what_a_formula_lacks_is_empty(inner: str, shown: str) -> None:
    assert latex(inner) == shown


@pytest.mark.parametrize("form", ["<m:acc><m:e>{}</m:e></m:acc>", "<m:f><m:num>{}</m:num></m:f>"])
def test_formulas_that_are_nested_deeply_end_soon(form: str) -> None:
    inner = letters("deep")
    for _ in range(90):
        inner = form.replace("{}", inner)
    assert "deep" in latex(inner)
    assert latex(inner).count("frac") <= 50
