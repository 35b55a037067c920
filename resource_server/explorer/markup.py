"""Markdown and source code of documents as HTML in which nothing of theirs runs or loads."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from time import thread_time
from typing import Any
from urllib.parse import urljoin, urlsplit

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup
from pygments import lexers
from pygments.lexer import Lexer
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String

from resource_server.explorer.addresses import page_address
from resource_server.explorer.page import visible_text

MAX_SOURCE = 400_000
"""Characters of source on a page, at most."""
MAX_MARKDOWN = 200_000
"""Characters of Markdown on a page, at most."""
_MAX_COLOURED = 40_000
"""Tokens with a colour on a page, at most; each takes some 25 bytes."""
_MAX_LEXED = 100_000
"""Characters of a page with colours, at most."""
_MAX_LEXED_LINE = 500
"""Characters of a line with colours, at most; after a longer one, no line has colours."""
_MAX_ADDRESSES = 1_000_000
"""Characters of all links of a document, at most: a definition of a link may be used many times."""
_COLOURED: Mapping[str, Sequence[Any]] = {
    "k": (Keyword, Operator.Word, Name.Tag),
    "s": (String,),
    "c": (Comment,),
    "m": (Number,),
    "n": (Name.Builtin, Name.Class, Name.Function, Name.Decorator, Name.Attribute, Name.Exception),
    "h": (Generic.Heading, Generic.Subheading),
}
_STYLES = {kind: style for style, kinds in _COLOURED.items() for kind in kinds}
"""The kinds of tokens that are not shown as other text, each with its class."""
LANGUAGES = (
    "Bash, Batchfile, C, C#, C++, CMake, CSS, Clojure, Dart, Diff, Docker, Elixir, Erlang, F#, Go, "
    "GraphQL, Groovy, HTML, Haskell, INI, JSON, JSX, Java, JavaScript, Julia, Kotlin, LessCss, "
    "Lua, Makefile, Markdown, Nginx configuration file, Nix, OCaml, PHP, Perl, PowerShell, "
    "Properties, Protocol Buffer, Python, Ruby, Rust, S, SCSS, SQL, Swift, TOML, TSX, TeX, "
    "TypeScript, VB.net, XML, YAML, Zig, reStructuredText"
).split(", ")
"""Lexers that hold the interpreter for at most 0.2 s on hostile texts; others may for hours."""
_STATES: Mapping[str, Sequence[Any]] = dict.fromkeys(("C", "C++"), (("function",),))
"""The state in which a lexer begins, if its first one is none of those: it finds functions."""
_lexers: Any = lexers  # the options of its functions have no types
_WEB = ("http", "https")
_TAGS = frozenset(nh3.ALLOWED_TAGS) - {"map", "area"}


@lru_cache(maxsize=16)
def rendered_markdown(text: str, uri: str, root: str) -> Markup:
    """Return Markdown as HTML; links to resources lead to their pages, pictures of the web to it.

    `uri` is the document's own, which relative links begin at; `root` the path of the explorer.
    """
    env: dict[str, Any] = {"uri": uri, "root": root, "addresses": _MAX_ADDRESSES}
    rendered = _parser().render(str(visible_text(text)), env)
    return trusted(
        nh3.clean(
            rendered,
            tags=set(_TAGS),
            attributes={
                "a": {"href", "title"},
                "img": {"src", "alt", "title"},
                "td": {"class"},
                "th": {"class"},
                "code": {"class"},
                "ol": {"start"},
            },
            url_schemes=set(_WEB) | {"mailto"},
            url_relative="pass_through",
        )
    )


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # Its own check refuses the schemes of resources, and allows pictures that are data.
    parser.validateLink = _is_any_link
    parser.core.ruler.push("addresses", _resolve_addresses)
    return parser


def _is_any_link(url: str) -> bool:
    return True


def _resolve_addresses(state: Any) -> None:
    for block in state.tokens:
        if style := block.attrs.pop("style", ""):
            # The policy of pages allows no styles in attributes.
            block.attrs["class"] = str(style).removeprefix("text-align:")
        for token in block.children or ():
            state.env["addresses"] -= sum(len(str(each)) for each in token.attrs.values())
            if state.env["addresses"] < 0:
                token.attrs = dict.fromkeys(token.attrs, "")
            elif token.type == "link_open":
                address = _page_of(str(token.attrs["href"]), state.env, "")
                token.attrs["href"] = address or "#"
            elif token.type == "image":
                address = _page_of(str(token.attrs["src"]), state.env, "raw/")
                is_own = address is not None and address.startswith("/")
                token.attrs["src"] = address if is_own else ""


def _page_of(address: str, env: dict[str, Any], kind: str) -> str | None:
    """Return where a link leads: to the web, to a page of the explorer, or nowhere."""
    try:
        scheme = urlsplit(address).scheme.lower()
    except ValueError:
        return None
    if scheme in _WEB:
        return address
    if scheme == "mailto":
        return address if not kind else None
    if address.startswith("#"):
        return None
    if not scheme:
        base_scheme, _, rest = str(env["uri"]).partition(":")
        # `urljoin` joins only schemes that it knows.
        address = base_scheme + urljoin(f"http:{rest}", address).removeprefix("http")
    elif "://" not in address or {".", ".."} & {*address.partition("?")[0].split("/")}:
        return None  # a browser would go up in the address of the page
    return f"{env['root']}{kind}{page_address(address)}"


def trusted(text: str) -> Markup:
    """Return HTML in which all text of documents is escaped or cleaned."""
    return Markup(text)  # noqa: S704 - the callers escape or clean


def escaped_html(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as HTML, by one pass over all of them."""
    if not all(map(str.isprintable, texts)):
        texts = [str(visible_text(each)) for each in texts]
    # No visible text has this character.
    return html.escape("\0".join(texts)).split("\0") if texts else ()


@lru_cache(maxsize=4)
def source_lines(
    text: str, name: str, media_type: str, first: int | None, colour_s: float = 1.0
) -> Markup:
    """Return source code as rows of a table: the number of each line, and its coloured text.

    `first` is the number of the first line; without it, lines have none. The text that is left
    after `colour_s` seconds of the processor has no colours.
    """
    highlighted = _highlighted(text, _lexer(name, media_type), thread_time() + colour_s)
    if first is None:
        rows = [f"<tr><td><code>{line}</code></td></tr>" for line in highlighted]
        return trusted("\n".join(rows))
    rows = [
        f'<tr id="L{number}"><th scope="row"><a href="#L{number}">{number}</a>'
        f"</th><td><code>{line}</code></td></tr>"
        for number, line in enumerate(highlighted, first)
    ]
    return trusted("\n".join(rows))


def _highlighted(text: str, lexer: type[Lexer] | None, ends: float) -> Sequence[str]:
    """Return the lines of source code as HTML, with a class for each kind of token."""
    # Lexers begin a line at any carriage return.
    text = str(visible_text(text)).replace("\r\n", "\n")
    if lexer is None:
        return html.escape(text).split("\n")
    styles: list[str] = []
    texts: list[str] = []
    for style, tokens in groupby(coloured_tokens(text, lexer, ends), itemgetter(0)):
        styles.append(style)
        texts.append("".join([value for _, value in tokens]))
    lines: list[list[str]] = [[]]
    for style, value in zip(styles, escaped_html(texts), strict=True):
        for at, part in enumerate(value.split("\n")):
            if at:
                lines.append([])
            if part:
                lines[-1].append(f'<span class="{style}">{part}</span>' if style else part)
    return ["".join(line) for line in lines]


def coloured_tokens(text: str, lexer: type[Lexer], ends: float) -> Iterator[tuple[str, str]]:
    """Yield the classes of tokens with their text; what is left when there is too much has none."""
    at = coloured = 0
    # Code in other languages, as in Markdown, may have any lexer.
    tokens: Any = lexer(handlecodeblocks=False).get_tokens_unprocessed
    for _, kind, value in tokens(text[: _usual(text)], *_STATES.get(lexer.name, ())):
        style = _style(kind)
        yield style, value
        at += len(value)
        coloured += bool(style)
        if coloured == _MAX_COLOURED or thread_time() > ends:
            break
    yield "", text[at:]


def _usual(text: str) -> int:
    """Return the length of the beginning that no lexer takes long for."""
    length = 0
    for line in text.split("\n"):
        if len(line) > _MAX_LEXED_LINE or length + len(line) > _MAX_LEXED:
            break
        length += len(line) + 1
    return length


@cache
def _style(kind: Any) -> str:
    """Return the class of a kind of token, or else of the kind that it is one of."""
    return _STYLES.get(kind) or (_style(kind.parent) if kind.parent else "")


@lru_cache(256)
def _lexer(name: str, media_type: str) -> type[Lexer] | None:
    """Return the lexer of a language, by the name of the document, else by its media type."""
    known = {each[0]: each for each in _lexers.get_all_lexers(plugins=False)}
    languages = [known[language] for language in LANGUAGES]
    by_name = [each[0] for each in languages if any(fnmatchcase(name, it) for it in each[2])]
    by_type = [each[0] for each in languages if media_type in each[3]]
    found = (by_name or by_type)[:1]
    return _lexers.find_lexer_class(*found) if found else None
