"""Charts in drawings, as tables."""

from __future__ import annotations

from resource_server.conversion.formats.slides import convert
from tests.conversion.formats.zipped import text_of, zipped

_OFFICE = "http://schemas.openxmlformats.org/"
_RELATED = f"{_OFFICE}officeDocument/2006/relationships"
_CHART = f"{_OFFICE}drawingml/2006/chart"
_NAMES = (
    f'xmlns:p="{_OFFICE}presentationml/2006/main" xmlns:a="{_OFFICE}drawingml/2006/main" '
    f'xmlns:r="{_RELATED}" xmlns:c="{_CHART}"'
)


def _related(kind: str, target: str) -> str:
    mode = "External" if "://" in target else "Internal"
    return (
        f'<Relationships xmlns="{_OFFICE}package/2006/relationships"><Relationship Id="r" '
        f'Type="{_RELATED}/{kind}" Target="{target}" TargetMode="{mode}"/></Relationships>'
    )


def _charted(chart: str, target: str = "../charts/c.xml") -> str:
    """Return the text of a presentation of one slide, with this chart."""
    frame = '<p:graphicFrame><c:chart r:id="r"/></p:graphicFrame>'
    members = {
        "ppt/presentation.xml": f'<p:presentation {_NAMES}><p:sldIdLst><p:sldId r:id="r"/>'
        "</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": _related("slide", "slides/slide1.xml"),
        "ppt/slides/slide1.xml": f"<p:sld {_NAMES}><p:cSld><p:spTree>{frame}</p:spTree></p:cSld>"
        "</p:sld>",
        "ppt/slides/_rels/slide1.xml.rels": _related("chart", target),
        "ppt/charts/c.xml": chart,
    }
    return text_of(convert, zipped(members))


def _series(name: str, labels: dict[int, str], values: dict[int, str]) -> str:
    def points(each: dict[int, str]) -> str:
        return "".join(f'<c:pt idx="{at}"><c:v>{v}</c:v></c:pt>' for at, v in each.items())

    return (
        f"<c:ser><c:tx>{points({0: name})}</c:tx><c:cat>{points(labels)}</c:cat>"
        f"<c:val>{points(values)}</c:val></c:ser>"
    )


def test_a_chart_is_a_table_of_its_values() -> None:
    series = _series("North", {0: "Q1", 1: "Q|2"}, {0: "1.5", 1: "2"})
    series += _series("South &amp; West", {}, {1: "3", 2: "4"})
    text = _charted(
        f"<c:chartSpace {_NAMES}><c:chart><c:title><a:t>By </a:t><a:t>quarter"
        f"</a:t></c:title>{series}</c:chart></c:chartSpace>"
    )
    assert "[Chart: By quarter]" in text
    assert (
        "|  | North | South & West |\n| --- | --- | --- |\n"
        "| Q1 | 1.5 |  |\n| Q\\|2 | 2 | 3 |\n|  |  | 4 |\n"
    ) in text


def test_a_chart_that_is_missing_or_outside_is_left_out() -> None:
    for target in ("../charts/none.xml", "https://example.com/chart.xml"):
        assert "no text" in _charted("<x/>", target)


def test_a_chart_of_a_million_points_is_cut() -> None:
    points = dict.fromkeys(range(100_000), "1")
    text = _charted(f'<c:chartSpace xmlns:c="{_CHART}">{_series("A", {}, points)}</c:chartSpace>')
    assert 5_000 < len(text) < 50_000
