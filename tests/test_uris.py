from __future__ import annotations

import os
import re
import string
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_server import uris
from resource_server.errors import InvalidParameter, ResourceNotFound
from tests.cases import for_each

NEVER = ("", ".", "..")

# What `os.fsdecode` can return for one name: any text, and any bytes as lone surrogates.
file_names = st.one_of(
    st.binary(min_size=1, max_size=255).map(os.fsdecode),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100),
    st.text("ab%/?#&=+ .~:\\\n\x7f\u202e\U0001f600\udcff", min_size=1, max_size=12),
)
segments = file_names.filter(lambda s: s not in NEVER and "/" not in s and "\0" not in s)
paths = st.lists(segments, max_size=5).map(tuple)
bases = st.sampled_from(
    ["file:///", "file:///project/", "docs://handbook/", "git://a%20b/c%2Bd/", "x+y.z-1://h:80/"]
)
# A query value is text; only names of files can be bytes that are not UTF-8.
queries = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    max_size=3,
)


def escaped(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in os.fsencode(character))


# --- one resource, one canonical spelling


@given(bases, paths, queries)
@example("file:///", ("a b.py",), {})
@example("docs://handbook/", (), {"format": "text/html"})
def test_a_joined_uri_parses_back_to_its_path_and_query(
    base: str, path: tuple[str, ...], query: dict[str, str]
) -> None:
    root = uris.parse(base)
    uri = uris.join(base, path, query)
    reference = uris.parse(uri)
    assert (reference.scheme, reference.authority) == (root.scheme, root.authority)
    assert reference.path == root.path + path
    assert reference.query == query
    assert uri.isascii()


@given(bases, paths, queries)
def test_a_canonical_uri_is_the_spelling_of_its_own_parts(
    base: str, path: tuple[str, ...], query: dict[str, str]
) -> None:
    uri = uris.join(base, path, dict(sorted(query.items())))
    reference = uris.parse(uris.join(base, path, query))
    below = reference.path[len(uris.parse(base).path) :]
    assert uris.join(base, below, reference.query) == uri


@given(segments)
def test_only_unreserved_characters_stay_bare(segment: str) -> None:
    assert re.fullmatch(r"(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})+", uris.quote_segment(segment))


@given(segments, st.data())
def test_any_equivalent_spelling_parses_to_the_same_segment(
    segment: str, data: st.DataObject
) -> None:
    plain = set(string.ascii_letters + string.digits + "-._~!$&'()*+,;=:@é")
    spelling = "".join(
        character if character in plain and data.draw(st.booleans()) else escaped(character)
        for character in segment
    )
    assert uris.parse(f"file:///project/{spelling}").path == ("project", segment)


@given(st.text(max_size=40))
def test_parsing_any_text_succeeds_or_is_refused(text: str) -> None:
    for uri in (text, f"file:///{text}", f"docs://{text}", f"docs://handbook/a?{text}"):
        try:
            reference = uris.parse(uri)
        except (ResourceNotFound, InvalidParameter):
            continue
        assert not set(reference.path) & set(NEVER)
        assert not any("/" in segment or "\0" in segment for segment in reference.path)


def test_a_segment_is_decoded_once() -> None:
    assert uris.parse("file:///a/%252e%252e").path == ("a", "%2e%2e")


def test_scheme_and_authority_ignore_case_and_the_path_does_not() -> None:
    reference = uris.parse("DOCS://HandBook/ReadMe")
    assert (reference.scheme, reference.authority) == ("docs", "handbook")
    assert reference.path == ("ReadMe",)


def test_localhost_counts_as_an_empty_authority_only_for_files() -> None:
    assert uris.parse("file://localhost/a") == uris.parse("file:///a")
    assert uris.parse("docs://localhost/a").authority == "localhost"


def test_one_trailing_slash_is_ignored() -> None:
    assert uris.parse("file:///project/") == uris.parse("file:///project")


# --- hostile spellings, each beside its nearest legitimate one (5-security.md, Files 3)


@pytest.mark.guarantee("no-spelling-reaches-more")
@for_each(
    ("hostile", "legitimate", "path"),
    [
        ("file:///p/../a", "file:///p/..a", ("p", "..a")),
        ("file:///p/..", "file:///p/...", ("p", "...")),
        ("file:///p/%2e%2e/a", "file:///p/%2e%2ea", ("p", "..a")),
        ("file:///p/%2E./a", "file:///p/%2E.a", ("p", "..a")),
        ("file:///p/./a", "file:///p/.a", ("p", ".a")),
        ("file:///p/%2e", "file:///p/%2ea", ("p", ".a")),
        ("file:///p/a%2Fb", "file:///p/a%5Cb", ("p", "a\\b")),
        ("file:///p/a%2fb", "file:///p/a/b", ("p", "a", "b")),
        ("file:///p/..%2f..%2fetc", "file:///p/..%252f..%252fetc", ("p", "..%2f..%2fetc")),
        ("file:///p//a", "file:///p/a", ("p", "a")),
        ("file:////p/a", "file:///p/a", ("p", "a")),
        ("file:///p//", "file:///p/", ("p",)),
        ("file:////", "file:///", ()),
        ("file:///p/a%00", "file:///p/a%01", ("p", "a\x01")),
        ("file:///p/a%00.txt", "file:///p/a%2500.txt", ("p", "a%00.txt")),
        ("file:///p/a\0b", "file:///p/a%0Ab", ("p", "a\nb")),
        ("file:///p/a\nb", "file:///p/a%0Ab", ("p", "a\nb")),
        ("file:///p/a\x7fb", "file:///p/a%7Fb", ("p", "a\x7fb")),
        ("file:///p/a#part", "file:///p/a%23part", ("p", "a#part")),
        ("file:///p/a#", "file:///p/a", ("p", "a")),
        ("file:///p/\ud800", "file:///p/\ud7ff", ("p", "\ud7ff")),
        ("file:///p/\udc80", "file:///p/%80", ("p", "\udc80")),
        ("/etc/passwd", "file:///etc/passwd", ("etc", "passwd")),
        ("//p/a", "file:///p/a", ("p", "a")),
        ("", "file:///", ()),
        ("1file:///p", "f1le:///p", ("p",)),
        ("fi_le:///p", "fi-le:///p", ("p",)),
    ],
)
def test_a_hostile_spelling_is_not_found_and_a_similar_one_parses(
    hostile: str, legitimate: str, path: tuple[str, ...]
) -> None:
    with pytest.raises(ResourceNotFound):
        uris.parse(hostile)
    assert uris.parse(legitimate).path == path


@for_each(
    ("sent", "canonical"),
    [
        # Hosts leave these unencoded, and they can mean nothing else.
        ("file:///p/a b", "file:///p/a%20b"),
        ("file:///p/a%", "file:///p/a%25"),
        ("file:///p/a%2", "file:///p/a%252"),
        ("file:///p/a%zz", "file:///p/a%25zz"),
        ("file:///p/a%u002e", "file:///p/a%25u002e"),
        ("file:///p/50% off%20", "file:///p/50%25%20off%20"),
        ("file:///p/%%2e", "file:///p/%25."),
        ("file:///p/a?q=100% b", "file:///p/a?q=100%25%20b"),
    ],
)
def test_an_unencoded_space_or_percent_sign_is_itself(sent: str, canonical: str) -> None:
    assert uris.parse(sent) == uris.parse(canonical)


# --- what hosts make of a URI


def other_paths(uri: str) -> list[tuple[str, ...]]:
    return [reference.path for reference in uris.other_readings(uri)]


@for_each(
    ("sent", "readings"),
    [
        ("file:///p/a.md", []),
        ("file:///p/caf\u00e9 [1]{2}.md", [("p", "caf\u00e9%20[1]{2}.md")]),
        ("file:///p/100%.md", []),
        # Encoded once too often, as by the SDK's UriTemplate.
        ("file:///p/100%2525.md", [("p", "100%.md"), ("p", "100%2525.md")]),
        # Decoded once too often, and encoded by the rules for URLs, as by VS Code.
        ("file:///p/a%20b.md", [("p", "a%20b.md")]),
        (
            "file:///p/my%20docs/%C3%A9%20b.md",
            [
                ("p", "my%20docs", "\u00e9%20b.md"),
                ("p", "my docs", "\u00e9%20b.md"),
                ("p", "my%20docs", "\u00e9 b.md"),
                ("p", "my%20docs", "%C3%A9%20b.md"),
            ],
        ),
        # `%ce` is no character, `%C3%A9` is one.
        (
            "file:///p/per%cent/%C3%A9%80",
            [
                ("p", "per%cent", "\u00e9%80"),
                ("p", "per\udccent", "\u00e9%80"),
                ("p", "per%cent", "\u00e9\udc80"),
                ("p", "per%cent", "%C3%A9%80"),
            ],
        ),
        # A segment stays one segment, and no reading has dots or NUL.
        ("file:///p/..%2f..%2fetc", [("p", "..%2f..%2fetc")]),
        ("file:///p/%252e%252e/etc", [("p", "%252e%252e", "etc")]),
        ("file:///p/a%252fb", [("p", "a%252fb")]),
        ("file:///p/a%2500", [("p", "a%2500")]),
        ("file:///p/../a%20b", []),
        ("file:///p/a\nb%20", []),
        ("file:///p/a%20b#c", []),
    ],
)
def test_other_readings_of_a_uri_undo_what_hosts_do(
    sent: str, readings: list[tuple[str, ...]]
) -> None:
    assert other_paths(sent) == readings


@for_each(
    ("wrapped", "within"),
    [
        ("mcp-resource://6d6370/file/dylo78gyp/p/a.md", "file:///p/a.md"),
        ("MCP-Resource://6D/file/DYLO78GYP/p/a%2520b.md?tail=3", "file:///p/a%2520b.md?tail=3"),
        ("mcp-resource:///docs/handbook/a/b", "docs://handbook/a/b"),
        ("mcp-resource://x/docs/host%3A80/a", "docs://host:80/a"),
        ("mcp-resource://x/file/dylo78gyp", "file://"),
        ("mcp-resource://x/mcp-resource/x/file/dylo78gyp/a", "mcp-resource://x/file/dylo78gyp/a"),
    ],
)
def test_a_wrapped_uri_is_read_as_the_one_within(wrapped: str, within: str) -> None:
    first, *others = uris.other_readings(wrapped)
    assert first == uris.parse(within)
    assert others == list(uris.other_readings(within)) or "mcp-resource" in within


@pytest.mark.guarantee("no-spelling-reaches-more")
@for_each(
    ("inside", "readings"),
    [
        ("", []),
        ("/", []),
        ("//", []),
        ("x", []),
        ("x/", []),
        ("x/file", []),
        ("x/file/", [()]),
        ("x//a/b", []),
        ("x/..//a", []),
        ("x/fi%6Ce/dylo78gyp/p/a", []),
        ("x/file:/dylo78gyp/p/a", []),
        ("x/file/dylo78gyp/../etc", []),
        ("x/file/dylo78gyp/p/%2e./etc", [("p", "%2e.", "etc")]),
        ("x/file/dylo78gyp/%252e%252e/b", [("%2e%2e", "b"), ("%252e%252e", "b")]),
        ("x/file/dylo78gyp/p/a%2Fb", [("p", "a%2Fb")]),
        ("x/file/dylo78gyp/p/a%00", [("p", "a%00")]),
        ("x/file/dylo78gyp/p/a\nb", []),
        ("x/file/dylo78gyp/p/a#b", []),
        ("x/file/dylo78gyp//p", []),
        ("x/file/" + "y" * uris.MAX_URI_LENGTH, []),
    ],
)
def test_whatever_is_wrapped_gives_no_path_that_a_uri_cannot_have(
    inside: str, readings: list[tuple[str, ...]]
) -> None:
    assert other_paths(f"mcp-resource://{inside}") == readings


@given(st.one_of(st.text(max_size=40), st.text("ab%20/.?#\xe9", max_size=40)), st.booleans())
def test_other_readings_are_few_and_each_has_a_canonical_uri(text: str, wrapped: bool) -> None:
    scheme, start = ("mcp-resource", "x/docs/h/") if wrapped else ("docs", "h/")
    try:
        readings = list(uris.other_readings(f"{scheme}://{start}{text}"))
    except InvalidParameter:
        return
    assert len(readings) <= 11
    for reference in readings:
        canonical = uris.join("docs://h/", reference.path, reference.query)
        assert uris.parse(canonical) == reference


@given(paths.filter(bool))
def test_a_path_encoded_twice_or_not_at_all_is_among_the_readings(path: tuple[str, ...]) -> None:
    once = uris.join("docs://h/", path)
    twice = "docs://h/" + "/".join(map(uris.quote_segment, once[len("docs://h/") :].split("/")))
    assert path in [uris.parse(twice).path, *other_paths(twice)]


@pytest.mark.guarantee("no-spelling-reaches-more")
@for_each("overlong", ["%C0%AE%C0%AE", "%c0%af", "%E0%80%AF", "%F0%80%80%AF"])
def test_overlong_utf8_never_becomes_a_dot_or_a_slash(overlong: str) -> None:
    (segment,) = uris.parse(f"file:///{overlong}").path
    assert set(segment) <= {chr(0xDC00 + byte) for byte in range(0x80, 0x100)}
    assert uris.quote_segment(segment) == overlong.upper()


def test_a_uri_over_the_length_limit_is_not_found() -> None:
    start = "file:///"
    longest = start + "a" * (uris.MAX_URI_LENGTH - len(start))
    assert uris.parse(longest).path == (longest.removeprefix(start),)
    with pytest.raises(ResourceNotFound):
        uris.parse(longest + "a")


def test_the_longest_linux_path_fits_when_every_byte_is_encoded() -> None:
    path = ("\udcff" * 255,) * 16
    assert uris.parse(uris.join("file:///project/", path)).path == ("project", *path)


# --- queries


@for_each(
    ("uri", "query"),
    [
        ("file:///a", {}),
        ("file:///a?", {}),
        ("file:///a?lines=10-40", {"lines": "10-40"}),
        ("file:///a?bytes=0-9&tail=1", {"bytes": "0-9", "tail": "1"}),
        ("file:///a?format=text%2Fhtml", {"format": "text/html"}),
        ("file:///a?format=text/html", {"format": "text/html"}),
        ("file:///a?q=1+1%2B1", {"q": "1+1+1"}),
        ("file:///a?q=a=b", {"q": "a=b"}),
        ("file:///a?q=a?b", {"q": "a?b"}),
        ("file:///a?q=", {"q": ""}),
        ("file:///a?q", {"q": ""}),
        ("file:///a?q=%2e%2e%2f", {"q": "../"}),
        ("file:///a?lines%3D1-2%26format%3dcsv", {"lines": "1-2", "format": "csv"}),
        ("file:///a?q%3D%2541%FF%00", {"q": "A\udcff\0"}),
        ("file:///a?q=a%3Db", {"q": "a=b"}),
        ("file:///a?a%3Db=c", {"a=b": "c"}),
    ],
)
def test_a_query_is_split_then_decoded(uri: str, query: dict[str, str]) -> None:
    assert uris.parse(uri).query == query
    assert uris.parse(uri).path == ("a",)


@for_each("query", ["a=1&a=2", "a=1&a=1", "a=1&%61=1"])
def test_a_repeated_query_parameter_is_refused_by_name(query: str) -> None:
    with pytest.raises(InvalidParameter, match="'a'"):
        uris.parse(f"file:///a?{query}")


# --- bases


@for_each(
    ("written", "base"),
    [
        ("docs://handbook", "docs://handbook/"),
        ("docs://handbook/", "docs://handbook/"),
        ("DOCS://HandBook/Part", "docs://handbook/Part/"),
        ("file:///", "file:///"),
        ("file:///project", "file:///project/"),
        ("file://localhost/project/", "file:///project/"),
        ("file:///a%20b/%c3%a9/%41/", "file:///a%20b/%C3%A9/A/"),
        ("docs://host:8080/", "docs://host:8080/"),
        ("docs://[::1]/", "docs://[::1]/"),
    ],
)
def test_a_base_is_canonical_and_ends_in_a_slash(written: str, base: str) -> None:
    assert uris.normalise_base(written) == base
    assert uris.normalise_base(base) == base


@for_each(
    ("uri", "says"),
    [
        ("handbook", "scheme"),
        ("docs://hand book/", "scheme"),
        ("docs://handbook/a b/", "scheme"),
        ("docs://handbook/100%/", "scheme"),
        ("docs://handbook/../etc/", "scheme"),
        ("docs://handbook/#top", "scheme"),
        ("docs:handbook", "//"),
        ("docs:/handbook/", "//"),
        ("docs:///", "name"),
        ("docs://", "name"),
        ("docs://handbook/?", "query"),
        ("docs://handbook/?a=1", "query"),
        ("docs://handbook/?a=1&a=2", "scheme"),
    ],
)
def test_an_unusable_base_is_refused_with_the_reason(uri: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        uris.normalise_base(uri)


@given(file_names, paths)
@example("\udcff", ())
def test_a_base_of_any_name_is_canonical(name: str, path: tuple[str, ...]) -> None:
    written = uris.join(f"docs://{uris.quote_segment(name)}/", path)
    base = uris.normalise_base(written)
    assert uris.parse(base) == uris.parse(written)
    assert uris.normalise_base(base) == base


def test_the_collection_of_a_mount_is_its_base_without_the_slash() -> None:
    assert uris.join("docs://handbook/", ()) == "docs://handbook"
    assert uris.join("file:///project/", ()) == "file:///project"
    assert uris.join("file:///", ()) == "file:///"


# --- templates


@for_each(
    ("template", "variables"),
    [
        ("", {}),
        ("readme", {}),
        ("{+path}", {"path": "+"}),
        ("{table}/{key}", {"table": "", "key": ""}),
        ("search{?q,limit}", {"q": "?", "limit": "?"}),
        ("search?q=1{&limit}", {"limit": "&"}),
        ("{a.b}", {"a.b": ""}),
    ],
)
def test_template_variables_have_their_operators(template: str, variables: dict[str, str]) -> None:
    assert uris.template_variables(template) == variables


@for_each(
    "template",
    [
        "{",
        "}",
        "{}",
        "{a",
        "a}",
        "{{a}}",
        "{a}{a}",
        "{a,a}",
        "{a,}",
        "{#a}",
        "{/a}",
        "{.a}",
        "{;a}",
        "{a*}",
        "{a:3}",
        "{a b}",
        "{ä}",
    ],
)
def test_an_unusable_template_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="template"):
        uris.template_variables(template)


@given(st.lists(segments, min_size=1, max_size=4).map("/".join))
def test_a_completed_path_decodes_to_the_original(path: str) -> None:
    assert uris.unquote_path(uris.quote_path(path)) == path


@given(paths.filter(bool))
def test_a_completed_path_is_the_tail_of_the_canonical_uri(path: tuple[str, ...]) -> None:
    assert uris.join("docs://h/", path) == "docs://h/" + uris.quote_path("/".join(path))


def test_a_path_typed_unencoded_is_taken_literally() -> None:
    assert uris.unquote_path("src/a b é") == "src/a b é"


def test_a_plain_path_encodes_only_what_would_not_survive() -> None:
    assert uris.plain_path("my docs/説明 [1]&(2)+=,;:@!$'*~\".md") == (
        "my docs/説明 [1]&(2)+=,;:@!$'*~\".md"
    )
    assert uris.plain_path("100%/a?b/#c/d\\e") == "100%25/a%3Fb/%23c/d%5Ce"
    assert uris.plain_path("a\u202eb\u2066\U000e0041") == "a%E2%80%AEb%E2%81%A6%F3%A0%81%81"
    assert uris.plain_path("\x1b[31m\n\x7f\x9b\u2028\udcff") == "%1B[31m%0A%7F%C2%9B%E2%80%A8%FF"


def test_controls_in_a_name_are_escaped() -> None:
    assert uris.without_controls("Grüße 説明 👨\u200d👩.md") == "Grüße 説明 👨\u200d👩.md"
    assert uris.without_controls("a\x1b[31m\nb\u202ec\U000e0041\udcff") == (
        "a\\x1b[31m\\nb\\u202ec\\U000e0041\ufffd"
    )


def test_a_wrapped_uri_is_no_longer_than_any_other() -> None:
    inner = "docs://h/a.md"
    host = "a" * (uris.MAX_URI_LENGTH - len("mcp-resource:////docs/h/a.md"))
    assert list(uris.other_readings(f"mcp-resource://{host}/docs/h/a.md")) == [uris.parse(inner)]
    assert not list(uris.other_readings(f"mcp-resource://{host}aa/docs/h/a.md"))


@given(paths.filter(bool))
def test_a_plain_path_expands_to_the_canonical_uri(path: tuple[str, ...]) -> None:
    plain = uris.plain_path("/".join(path))
    assert plain.encode().decode() == plain
    assert uris.unquote_path(plain) == "/".join(path)
    assert uris.expand("docs://h/{+path}", {"path": plain}) == uris.join("docs://h/", path)
    # A client that fills the value in as it is asks for the same.
    assert uris.parse(f"docs://h/{plain}").path == path


@for_each(
    ("typed", "meanings"),
    [
        ("docs/my f", ["docs/my f"]),
        ("docs/my%20f", ["docs/my f", "docs/my%20f"]),
        ("per%25cent/a%20b", ["per%cent/a b", "per%cent/a%20b", "per%25cent/a%20b"]),
        ("100%", ["100%"]),
        ("%", ["%"]),
        ("%2e%2e/", ["../", "%2e%2e/"]),
    ],
)
def test_a_typed_path_is_encoded_or_a_name_as_it_is(typed: str, meanings: list[str]) -> None:
    assert list(uris.typed_paths(typed)) == meanings


values = st.one_of(file_names, st.text("a/%41?#&={}.\0", max_size=8))


@given(values)
def test_a_value_expands_to_one_segment_or_is_not_addressable(value: str) -> None:
    uri = uris.expand("docs://h/{x}", {"x": value})
    if value in NEVER[1:] or set("/\0") & set(value):
        with pytest.raises(ResourceNotFound):
            uris.parse(uri)
    else:
        assert uris.parse(uri).path == ((value,) if value else ())


@given(paths.filter(bool))
def test_a_path_expands_to_itself_encoded_or_without_percent_signs(
    path: tuple[str, ...],
) -> None:
    plain = "/".join(path)
    for value in (uris.quote_path(plain), plain):
        if value == plain and "%" in plain:
            continue
        assert uris.parse(uris.expand("docs://h/{+x}", {"x": value})).path == path


@pytest.mark.guarantee("no-spelling-reaches-more")
@given(values, values)
def test_no_value_escapes_its_variable(x: str, y: str) -> None:
    uri = uris.expand("docs://h/{+x}{?y}", {"x": x, "y": y})
    assert uri.startswith("docs://h/")
    assert uri.count("?") == 1
    assert not set(uri) & set("#{} \0")
    try:
        assert uris.parse(uri).query == {"y": y}
    except ResourceNotFound:
        assert len(uri) > uris.MAX_URI_LENGTH or not x or set("/.\0%") & set(x)


def test_variables_without_a_value_expand_to_nothing() -> None:
    assert uris.expand("docs://h/{a}{?b,c}{&d}", {}) == "docs://h/"
    assert uris.expand("docs://h/{a}{?b,c}", {"c": "1 2"}) == "docs://h/?c=1%202"
    assert uris.expand("docs://h/x?a=1{&b}", {"b": "&"}) == "docs://h/x?a=1&b=%26"


# --- display


@given(st.one_of(st.text(), st.binary().map(os.fsdecode)))
def test_displayed_text_is_always_valid_unicode(text: str) -> None:
    shown = uris.display(text)
    assert uris.is_unicode(shown)
    assert uris.is_unicode(text) == (shown == text)
    assert len(shown) == len(text)
    assert shown.encode().decode() == shown


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_valid_text_is_displayed_unchanged(text: str) -> None:
    assert uris.display(text) == text


def test_long_uris_are_not_cached() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100):
            uris.parse(f"file:///{number}" + "/ab" * 5000)
        assert tracemalloc.get_traced_memory()[0] - before < 5_000_000
    finally:
        tracemalloc.stop()
