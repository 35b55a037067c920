"""Documents on a page: rendered or coloured, never run."""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path

import pytest

from resource_server.explorer.markup import rendered_markdown
from tests.cases import for_each
from tests.explorer.shop import Elements, make_shop, opened, text_of
from tests.transports.program import Answer, Program, running

pytestmark = pytest.mark.guarantee("pages-show-what-clients-get")


def source(page: Answer) -> str:
    """Return the source on a page, whose tokens are elements."""
    table = page.body.decode().partition('<table class="source"')[2].partition("</table>")[0]
    return unescape(re.sub("<[^>]*>", "", table))


README = "file:///project/README.md"


def test_markdown_is_rendered_and_its_html_is_text(program: Program) -> None:
    page = opened(program, README)
    article = page.body.decode().partition("<article")[2].partition("</article>")[0]
    assert "<h1>Shop</h1>" in article
    assert "&lt;script&gt;" in article
    assert "<td>1</td>" in article
    assert '<td class="right">2</td>' in article
    assert "style=" not in article
    assert "javascript:" not in article


def test_a_link_that_goes_up_in_the_address_of_its_page_leads_nowhere() -> None:
    text = "[a](file:///project/../../tools) ![b](file:///a/../../live/file:x)"
    html = rendered_markdown(text, README, "/explore/")
    assert "tools" not in html
    assert "live" not in html


def test_links_of_markdown_lead_to_pages(program: Program) -> None:
    links = Elements(opened(program, README)).links()
    assert "/explore/file:%2F%2F/project/docs/prices.md" in links


def test_only_pictures_of_this_server_are_loaded(program: Program) -> None:
    sources = [each.get("src") for each in Elements(opened(program, README)).named("img")]
    assert "/explore/raw/file:%2F%2F/project/docs/dot.svg" in sources
    assert not any("evil" in (each or "") for each in sources)


def test_the_source_of_markdown_is_a_page_of_its_own(program: Program) -> None:
    assert "[prices](docs/prices.md)" in source(opened(program, README, "source/"))


def test_source_has_colours_and_numbered_lines(program: Program) -> None:
    page = opened(program, "file:///project/main.py")
    body = page.body.decode()
    assert '<span class="k">def</span>' in body
    assert "    return '<b>'" in source(page)
    assert {each.get("id") for each in Elements(page).named("tr")} == {"L1", "L2", "L3"}


def test_a_part_of_a_document_keeps_its_line_numbers(program: Program) -> None:
    page = opened(program, "file:///project/main.py?lines=2-3")
    assert {each.get("id") for each in Elements(page).named("tr")} == {"L2", "L3"}


def test_json_is_a_tree_above_its_source(program: Program) -> None:
    page = opened(program, "file:///project/tea.json")
    tree = page.body.decode().partition('<ul class="tree">')[2].partition("</details>")[0]
    assert "<b>tea</b> [3]" in tree
    assert "<b>1</b>: 1.50" in tree
    assert "<b>2</b>: &quot;&lt;b&gt;&quot;" in tree
    assert source(page).count("Assam") == 1
    part = opened(program, "file:///project/tea.json?bytes=0-5")
    assert '<ul class="tree">' not in part.body.decode()


def test_html_is_shown_as_source(program: Program) -> None:
    page = opened(program, "file:///project/page.html", "source/")
    assert "<script>alert(1)</script>" in source(page)
    scripts = {each.get("src") or "" for each in Elements(page).named("script")}
    assert all(each.startswith("/explore/assets/") for each in scripts)


def test_characters_that_reverse_text_are_named(program: Program) -> None:
    page = opened(program, "file:///project/%E2%80%AEgnp.txt")
    assert "\u202e" not in page.body.decode()
    assert "⟨U+202E⟩reversed" in re.sub("<[^>]*>", "", page.body.decode())


@for_each(
    "uri",
    [
        "file:///project/secret.txt",
        "file:///project/none.txt",
        "file:///project/../project/secret.txt",
        "file:///project/%2e%2e/secret.txt",
        "file:///project/docs/..%2Fsecret.txt",
        "file:///elsewhere/a",
        "http://example.org/",
        "nonsense",
    ],
)
@for_each("kind", ["", "source/", "model/", "raw/", "live/"])
def test_what_is_hidden_or_not_there_is_not_shown(program: Program, uri: str, kind: str) -> None:
    page = opened(program, uri, kind)
    assert page.status in (404, 200 if kind == "model/" else 404)
    assert b"hidden\n" not in page.body
    assert page.body == opened(program, uri.replace("secret", "nosuch"), kind).body.replace(
        b"nosuch", b"secret"
    )


def test_lines_whose_numbers_are_not_known_have_none(program: Program) -> None:
    page = opened(program, "file:///project/main.py?tail=1")
    assert "return" in source(page)
    assert not [each for each in Elements(page).named("tr") if "id" in each]


@for_each("name", ["a.txt", "b.png", "c.pdf", "d.bin", "README.md"])
@for_each("kind", ["", "source/"])
def test_what_is_listed_and_cannot_be_read_has_a_page_that_says_so(
    program: Program, name: str, kind: str
) -> None:
    page = opened(program, f"file:///project/closed/{name}", kind)
    assert page.status == 200
    assert "is listed, but cannot be read" in text_of(page)
    assert b"closed\n" not in page.body
    assert not any("/raw/" in each for each in Elements(page).links())
    assert opened(program, f"file:///project/closed/{name}0", kind).status == 404


# Root may read everything: it gives up the capabilities to do so, and begins anew.
_AS_ANYBODY = """
import ctypes, os, sys
if "AS_ANYBODY" not in os.environ:
    os.environ["AS_ANYBODY"] = "yes"
    for each in (1, 2):
        ctypes.CDLL(None).prctl(24, each, 0, 0, 0)
    os.execv(sys.executable, sys.orig_argv)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="rights of Linux")
def test_what_the_server_may_not_read_has_a_page_that_says_so(tmp_path: Path) -> None:
    manifest = make_shop(tmp_path)
    for name in ("main.py", "page.html", "docs/dot.svg", "docs"):
        (tmp_path / "project" / name).chmod(0)
    try:
        with running(manifest, code=_AS_ANYBODY) as program:
            for name in ("main.py", "page.html", "docs"):
                page = opened(program, f"file:///project/{name}")
                assert page.status == 200
                assert "is listed, but cannot be read" in text_of(page)
                assert not any("/raw/" in each for each in Elements(page).links())
            assert opened(program, "file:///project/docs/dot.svg").status == 404
    finally:
        (tmp_path / "project" / "docs").chmod(0o755)
