from __future__ import annotations

import time

import pytest

from resource_server.provider.search import SearchRequest
from resource_server.search import ranking
from resource_server.search.ranking import MAX_RANKED, PART, PROSE, is_definition
from resource_server.search.text_match import LineQuery, Matches
from tests.cases import for_each

WORST = PART, PROSE, 2


def matched(query: str, text: str, path: str = "a.txt", **options: object) -> Matches:
    words = tuple(query.split()) if " " in query else ()
    request = SearchRequest(text=query, where="text", words=words, **options)  # pyright: ignore[reportArgumentType]
    found = LineQuery(request).matches(text.encode(), path=tuple(path.split("/")))
    assert found.count, text
    return found


def rank(query: str, text: str, path: str = "a.txt", **options: object) -> int:
    return matched(query, text, path, **options).rank


@for_each(
    ("query", "documents"),
    [
        ("query set", ["a query set", "the set of a query", "queryset"]),
        ("queryset", ["the queryset", "get_querysets"]),
        ("größe", ["die Größe", "Größen"]),
        ("QuerySet", ["class QuerySet:", "    class QuerySet:", "a QuerySet", "a queryset"]),
        ("QuerySet", ["class QuerySet:", "QuerySet = 1", "    QuerySet = 1", "x(QuerySet)"]),
        ("/Query.*/", ["class QuerySet:", "a class of QuerySet"]),
    ],
)
def test_better_matches_rank_first(query: str, documents: list[str]) -> None:
    is_pattern = query.startswith("/")
    ranks = [rank(query.strip("/"), text, is_pattern=is_pattern) for text in documents]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)


@for_each(
    "line",
    [
        "class Needle(Base):",
        "export default class Needle extends Base {",
        "class Needle < Base",
        "def needle(a, b):",
        "async def needle():",
        "def needle",
        "function needle(a) {",
        "export async function* needle() {",
        "pub(crate) fn needle<T>(a: T) {",
        "func needle(a int) error {",
        "func (s *Server) needle(a int) {",
        "type Needle struct {",
        "type Needle = string | number;",
        "type Needle string",
        "interface Needle {",
        "struct needle {",
        "export const needle = () => {",
        "export declare const enum Needle {",
        "export abstract class Needle<T> {",
        "const fn needle() {",
        "enum class Needle : int {",
        "case class Needle(a: Int)",
        "const needle: Type = 1",
        "CREATE TABLE needle (id int)",
        'create table if not exists "needle" (id int)',
        "CREATE OR REPLACE VIEW public.needle AS SELECT 1",
        "static int needle(void) {",
        "NEEDLE = 1",
        "needle: int = 1",
        "needle := 1",
    ],
)
def test_a_line_that_defines_a_name_is_a_definition(line: str) -> None:
    assert is_definition(rank("needle", line, "a.py"))
    assert is_definition(rank("needle", f"x\n\n{line}\nneedle\n", "a.py"))
    if not line.isupper():
        assert not is_definition(rank("needle", line.replace("eedle", "eedles"), "a.py"))


@for_each(
    "line",
    [
        "the class needle is",
        "class Hay(Needle):",
        "type needle or so",
        "if needle == 1:",
        "needle(1)",
        "return needle(1) {",
        "call(needle=1)",
        "# needle",
        "needle => 1",
    ],
)
def test_prose_and_uses_are_no_definitions(line: str) -> None:
    assert not is_definition(rank("needle", line, "a.py"))


@for_each(
    "text",
    [
        "# The needle",
        "### needle",
        "needle\n======",
        "x\n\nA needle\n--------\n",
        ".. class:: Needle(x)",
    ],
)
def test_headings_of_documents_rank_before_prose(text: str) -> None:
    assert rank("needle", text, "a.md") < rank("needle", "a needle", "a.md")


@for_each(
    ("query", "text"),
    [
        ("needle", "## `needle`"),
        ("Needle", "x\n\nNeedle\n------\n"),
        ("3.0 release", "3.0 release\n==========="),
        ("Needle API reference", ":class:`Needle` API reference\n======================="),
        ("needle and hay", "# Needle *and* hay"),
    ],
)
def test_a_heading_of_the_sought_words_alone_ranks_as_an_inner_definition(
    query: str, text: str
) -> None:
    found = matched(query, f"{query}\n\n{text}", "a.md")
    assert is_definition(found.rank)
    assert found.best == 3 + text.count("\n\n") * 2
    assert not is_definition(rank(query, f"# The {query}", "a.md"))
    assert not is_definition(rank(query, text, "a.py"))
    assert rank("needle", "class needle:") < rank("needle", "# needle", "a.md")


def test_a_comment_is_no_heading() -> None:
    assert rank("needle", "# a needle", "a.py") == rank("needle", "a needle", "a.py")


def test_a_name_in_the_path_ranks_before_prose() -> None:
    assert rank("needle", "the needle", "src/needle.py") < rank("needle", "the needle", "src/x.py")
    assert rank("needle", "the needle", "needles.py") == rank("needle", "the needle", "src/x.py")


@for_each(
    "path",
    [
        "node_modules/a/index.js",
        "web/vendor/a.py",
        "third_party/a.c",
        "app.min.js",
        "locale/de/LC_MESSAGES/django.po",
        "x/de.po",
        "package-lock.json",
        "poetry.lock",
        "api_pb2.py",
        "dist/a.js",
        "a.js.map",
    ],
)
def test_vendored_generated_and_translated_text_ranks_last(path: str) -> None:
    last = rank("needle", "a needle", path)
    assert rank("needle", "a needle", "src/a.js") < last
    # But before worse matches.
    assert last < rank("needle", "needles", "src/a.js")


@for_each("text", ["x" * 6_000 + " needle", "// Code generated by x\n\na needle"])
def test_text_that_looks_generated_ranks_last(text: str) -> None:
    assert rank("needle", "a needle", "a.js") < rank("needle", text, "a.js")


def test_words_missing_from_a_line_rank_last() -> None:
    of_three = rank("one two six", "one two\nsix", together="document")
    assert rank("one two six", "one\ntwo\nsix", together="document") > of_three
    assert rank("one two six", "one two", together="most") >= of_three


def test_the_best_line_is_quoted_though_others_are_before_it() -> None:
    text = "needle()\n" * 50 + "def needle():\n" + "needle()\n" * 50
    found = matched("needle", text)
    assert [line.number for line in found.lines] == [1, 2, 3, 4, 51]
    assert (found.best, found.has_more, found.count, found.shown) == (51, True, 101, 5)
    assert matched("needle", "needle\n" * 50).best is None


def test_a_million_matches_are_ranked_within_a_bound() -> None:
    query = LineQuery(SearchRequest(text="needle", where="text"))
    ranked: list[int] = []
    line = ranking.LineRanker.line

    def spied(*given: object, **options: bool) -> ranking.LineRank | None:
        ranked.append(1)
        return line(*given, **options)  # pyright: ignore[reportArgumentType]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking.LineRanker, "line", spied)
        query.matches(b"a needle\n" * 1_000_000)
        query.matches(b"a needle " * 1_000_000)
    assert len(ranked) <= 2 * MAX_RANKED


@for_each(
    "piece", ["a ", "a.b", "(", "class ", "a<b>,", "export ", "x: ", "a = ", "create temp ", "*& "]
)
def test_no_line_takes_long_to_rank(piece: str) -> None:
    ranker = ranking.LineRanker(SearchRequest(text="needle", where="text"))
    for end in ("needle", "needle {", "needle(x) {", " needle) {"):
        line = (piece * 2_000)[:990] + end
        begin = time.process_time()
        for _ in range(10):
            ranker.line(line.encode(), line.index("needle"), WORST, has_headings=True)
        assert time.process_time() - begin < 0.5
