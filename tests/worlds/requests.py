"""Request sequences: everything that a client may send, chosen by what it has seen so far."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

from hypothesis import strategies as st

from tests.spellings import HOST_SPELLINGS, host_spellings
from tests.worlds.callers import Asker
from tests.worlds.pages import Opened, openings

MAX_PAGES = 30
"""Pages of one listing or search that are followed."""
MAX_SEEN = 50
"""Seen URIs that are remembered."""

_BUILT_IN = (
    *("list_resources", "read_resource", "resource_metadata", "search_resources"),
    *("query_table", "query_database"),
)
_OPTIONAL = ("format", "n")
"""URI parameters that are completed although no template has them."""
SUFFIXES = (
    "?lines=1-2",
    "?bytes=0-3",
    "?tail=1",
    "?format=json",
    "?format=csv",
    "?format=markdown",
    "?format=columns",
    "?format=text",
    "?format=png&pages=1",
    "?format=markdown&lines=1-3",
    "?encoding=cp1252",
    "?pages=1",
    "?sheet=x",
    "?rows=1-2",
    "?limit=1",
    "?limit=2&format=csv",
    "?columns=id",
    "?columns=id,secret",
    "?columns=secret",
    "?after=x",
    "/~rows?until=x",
    "?count",
    "?sort=-id&limit=1",
    "?sort=secret",
    "?where.num.gt=1&count",
    "?where.secret=hush",
    "?where.pin.like=h%25",
    "/~rows?sort=-num,name&limit=2",
    "/~rows?where.shown.ne=1&count",
    "/~summary?by=num&max=name",
    "/~summary?by=pin",
    "/~summary?sum=num&by=note&sort=-count",
    "/~summary?max=secret",
    "/~schema",
    "/~rows",
    "/~rows?limit=1",
    "/~cell/name",
    "/~cell/secret",
    "/x",
    "/",
    "?lines=9999-",
    "?n=1",
    "?",
)
"""Endings put behind a URI: parameters of every document, and guesses below it."""


_SELECTIONS: Sequence[Mapping[str, Any]] = (
    {"count": True},
    {"where": {"num.gt": 1}, "sort": "-num,id", "limit": 2},
    {"where": {"secret": "hush"}},
    {"where": {"name.like": "%n%"}, "count": True},
    {"by": "note", "sum": "num", "sort": "-count"},
    {"by": "pin"},
    {"sort": "pin"},
    {"by": "shown", "min": "id", "max": "name"},
)
"""Arguments of `query_table` beside the URI."""

_PARTS: Sequence[Mapping[str, Any]] = (
    {"lines": "1-2", "number": True},
    {"lines": "2-"},
    {"tail": 1},
    {"bytes": "0-3"},
    {"format": "csv"},
    {"rows": 1},
)
"""Arguments of `read_resource` beside the URI."""


STATEMENTS: Sequence[str] = (
    "select * from people order by id, name, num, note",
    "select count(*), max(num), min(id), sum(num) from people",
    "select id from people where 100 / (num - :i) > -1000 order by id",
    "select id from people where abs(num - 9223372036854775807 - :i) > 0 order by id",
    "select id from people where json(note) is not null order by id",
    "select pin, count(*) from people group by pin order by pin",
    "select id from people where pin = :n order by id",
    "select id from people where pin > :n order by pin, id",
    "select o.id, p.name from orders o left join people p on p.id = o.person order by o.id",
    "select secret from people order by id",
    "select id from people order by secret, id",
    "select shown from people order by id",
    "select extra from people order by id",
    "select id, row_number() over (order by id) as r from people order by id",
    "select count(*) from vault",
    "select count(*) from main.people",
    "with people as (select 1 as id) select * from people",
    "with v as (select * from other_vault) select count(*) from v",
    "select id from orders where exists (select 1 from vault) order by id",
    "select * from seen order by id",
    "select * from blocked",
    "select count(*) from people a natural join people b",
    "select word from words where word = :n",
    "select * from sqlite_sequence",
    "select count(*) from sqlite_schema",
    "select id from people where cast(note as integer) > :i order by id",
    "select id from people where cast(note as json) is not null order by id",
    "select sqrt(num - :i) from people order by id",
    "select p from people p order by p",
    "select p.secret from people p",
    "select * from public.people",
    "select count(*) from information_schema.columns",
    "select count(*) from pg_class",
    "select p.current_user from people p",
    "select x.current_setting from unnest(array['server_version']) x",
    "select max(note), min(pin), count(distinct name), count(note) from people",
)
"""SQL of callers about tables of `twin_databases`."""


def misspelt(uri: str) -> Sequence[str]:
    """Return a URI as hosts may send it: encoded or decoded once too often, or wrapped."""
    scheme, _, rest = uri.partition("://")
    authority, _, path = rest.partition("/")
    spellings = (
        f"{scheme}://{authority}/{quote(path, safe='/~')}",
        f"{scheme}://{authority}/{unquote(path)}",
        uri.replace("%25", "%"),
        f"mcp-resource://6f6e65/{scheme}/{authority}/{path}",
    )
    return [each for each in dict.fromkeys(spellings) if each != uri]


@dataclass(frozen=True)
class Step:
    """A request about a seen or guessed URI, or about a word.

    `place` counts through the URIs, `word` through the words; both begin again after the last.
    """

    kind: str
    place: int = 0
    word: int = 0
    suffix: str = ""


class Known:
    """What a client knows: URIs and templates in responses, and the URIs and words it guesses."""

    def __init__(self, guesses: Sequence[str], words: Sequence[str]) -> None:
        self.guesses = guesses
        self.words = words
        self.seen: dict[str, None] = {}
        """URIs in responses, in the order of their first appearance."""
        self.templates: dict[str, None] = {}
        self.tools: dict[str, Mapping[str, Any]] = {}
        self.prompts: dict[str, Mapping[str, Any]] = {}
        self.cursors: list[str] = []

    @property
    def targets(self) -> Sequence[str]:
        """Every URI that it may ask for."""
        return [*self.seen, *self.guesses]

    def see(self, uri: str) -> None:
        """Remember a URI, unless there are too many."""
        if len(self.seen) < MAX_SEEN:
            self.seen.setdefault(uri)

    def learn(self, response: Any) -> None:
        """Remember what a response names."""
        for found in _objects(response):
            for each in (found.get("uri"), found.get("next")):
                if isinstance(each, str) and "://" in each and "?format=" not in each:
                    self.see(each)
            if isinstance(template := found.get("uriTemplate"), str):
                self.templates.setdefault(template)
            if "inputSchema" in found:
                self.tools[found["name"]] = found
            elif "messages" not in found and "arguments" in found and "name" in found:
                self.prompts[found["name"]] = found
            if isinstance(cursor := found.get("nextCursor"), str):
                self.cursors.append(cursor)
            if isinstance(found.get("base"), str) and "items" in found:
                for item in found["items"]:
                    path = item if isinstance(item, str) else item[0]
                    self.see(f"{found['base']}{path}".rstrip("/"))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        yield members
        for each in members.values():
            yield from _objects(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _objects(each)


class Conversation:
    """The requests of one client, each chosen by what the responses so far have named.

    Args:
        client: the client.
        guesses: URIs to ask for although nothing names them.
        words: words to search for and to complete.
        values: arguments of tools and prompts.
        given: variables that are already filled in where a template is completed.
        opens_pages: whether each request is followed by the explorer's pages about it.
    """

    def __init__(
        self,
        client: Asker,
        guesses: Sequence[str],
        words: Sequence[str],
        values: Sequence[str],
        given: Mapping[str, str],
        *,
        opens_pages: bool = True,
    ) -> None:
        self.client = client
        self._opens_pages = opens_pages
        self._values = values
        self._given = given
        self._opened = Opened()
        self.known = Known(guesses, words)

    async def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        response = await self.client.ask(method, params)
        self.known.learn(response)
        for opening in openings(method, params) if self._opens_pages else ():
            if self._opened.add(opening):
                await self.client.open(opening)
        return response

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        response = await self._ask("tools/call", name=tool, arguments=arguments)
        return response.get("result", {}).get("structuredContent", {})

    async def explore(self) -> None:
        """List everything, and read, describe, complete, search and guess all of it."""
        await self._ask("tools/list")
        await self._ask("prompts/list")
        await self._ask("resources/templates/list")
        await self._pages("resources/list")
        for uri in tuple(self.known.seen):
            await self._pages("resources/list", uri=uri)
        await self._pages("skills/list")
        for uri in tuple(self.known.seen):
            await self._ask("resources/metadata", uri=uri)
            await self._pages("resources/directory/read", uri=uri)
        for uri in self.known.targets:
            await self._ask("resources/read", uri=uri)
        for uri in self.known.guesses:
            for spelling in (*misspelt(uri), *host_spellings(uri)[1:2]):
                await self._ask("resources/read", uri=spelling)
        await self._search_all()
        await self._complete_all()
        await self._call_all()

    async def _pages(self, method: str, **params: Any) -> None:
        response = await self._ask(method, **params)
        for _ in range(MAX_PAGES):
            cursor = response.get("result", {}).get("nextCursor")
            if cursor is None:
                return
            response = await self._ask(method, **params, cursor=cursor)

    async def _search_all(self) -> None:
        for word in self.known.words:
            for where in ("names", "text"):
                arguments = {"query": word, "in": where}
                found = await self._call("search_resources", **arguments)
                for _ in range(MAX_PAGES):
                    if "next" not in found:
                        break
                    found = await self._call("search_resources", **arguments, cursor=found["next"])
            # The number of all matches, where they do not fit, and what a glob leaves of them.
            await self._call("search_resources", query=word, limit=1, context=5)
            await self._call("search_resources", query=f"{word} {word}x a", case=True)
            await self._call("search_resources", query=word, files="*[!a]*", limit=1, show="counts")
            await self._call("search_resources", query=word, show="files")

    async def _complete_all(self) -> None:
        for template in self.known.templates:
            for variable in (*_variables(template), *_OPTIONAL):
                for value in ("", *self.known.words):
                    await self._complete(template, variable, value, **self._given)
        for name, prompt in self.known.prompts.items():
            for argument in prompt["arguments"]:
                for value in ("", *self.known.words[:3]):
                    await self._complete_prompt(name, argument["name"], value)

    async def _complete(self, template: str, variable: str, value: str, **given: str) -> None:
        await self._ask(
            "completion/complete",
            ref={"type": "ref/resource", "uri": template},
            argument={"name": variable, "value": value},
            context={"arguments": given},
        )

    async def _complete_prompt(self, prompt: str, argument: str, value: str) -> None:
        await self._ask(
            "completion/complete",
            ref={"type": "ref/prompt", "name": prompt},
            argument={"name": argument, "value": value},
        )

    async def _call_all(self) -> None:
        queries = [pair for pair in self.known.tools.items() if pair[0] not in _BUILT_IN]
        for name, tool in queries:
            names = list(tool["inputSchema"].get("properties", {}))
            for word in self._values if names else ("",):
                given = {each: _as(word, tool, each) for each in names}
                await self._call(name, **given)
        for name, prompt in self.known.prompts.items():
            for word in self._values:
                given = {each["name"]: word for each in prompt["arguments"]}
                await self._ask("prompts/get", name=name, arguments=given)

    # -- single steps

    async def take(self, step: Step) -> None:
        """Send the request of one step."""
        targets, words = self.known.targets, self.known.words
        uri = targets[step.place % len(targets)] + step.suffix
        word = words[step.word % len(words)]
        await _STEPS[step.kind](self, uri, word, step)

    async def list(self, uri: str, word: str, step: Step) -> None:
        await self._pages("resources/list", uri=uri)

    async def list_with_cursor(self, uri: str, word: str, step: Step) -> None:
        cursors = self.known.cursors or ["x"]
        await self._ask("resources/list", uri=uri, cursor=cursors[step.word % len(cursors)])

    async def list_all_with_cursor(self, uri: str, word: str, step: Step) -> None:
        cursors = self.known.cursors or ["x"]
        await self._ask("resources/list", cursor=cursors[step.word % len(cursors)])

    async def read(self, uri: str, word: str, step: Step) -> None:
        await self._ask("resources/read", uri=uri)

    async def read_as_hosts(self, uri: str, word: str, step: Step) -> None:
        spelling = host_spellings(uri)[step.word % HOST_SPELLINGS]
        await self._ask("resources/read", uri=spelling)
        await self._ask("resources/metadata", uri=spelling)
        await self._pages("resources/list", uri=spelling)
        await self._ask("resources/subscribe", uri=spelling)
        await self._call("read_resource", uri=spelling)

    async def read_below(self, uri: str, word: str, step: Step) -> None:
        await self._ask("resources/read", uri=f"{uri}/{quote(word, safe='')}")

    async def describe(self, uri: str, word: str, step: Step) -> None:
        await self._ask("resources/metadata", uri=uri)

    async def subscribe(self, uri: str, word: str, step: Step) -> None:
        await self._ask("resources/subscribe", uri=uri)
        await self._ask("resources/unsubscribe", uri=uri)

    async def search(self, uri: str, word: str, step: Step) -> None:
        for query, options in (
            (word, {"uri": uri}),
            (word[:3], {"limit": 2}),
            (f"{word} n1 12", {}),
        ):
            found = await self._call("search_resources", query=query, **options)
            for _ in range(MAX_PAGES):
                if "next" not in found:
                    break
                found = await self._call(
                    "search_resources", query=query, cursor=found["next"], **options
                )

    async def search_pattern(self, uri: str, word: str, step: Step) -> None:
        await self._call("search_resources", query=f"/{word[:1]}.*/", uri=uri)

    async def search_names(self, uri: str, word: str, step: Step) -> None:
        await self._call("search_resources", query=f"*{word}*", uri=uri)

    async def use_tool(self, uri: str, word: str, step: Step) -> None:
        for name in ("list_resources", "read_resource", "resource_metadata"):
            await self._call(name, uri=uri)
        await self._call("read_resource", uri=uri, lines="1-", number=True)
        await self._call("read_resource", uri=uri, rows=2, format="csv")
        await self._call("list_resources", uri=uri, depth=3)
        await self._call("list_resources", uri=uri, pattern=f"*{word}*")
        await self._call("list_resources", pattern=word)

    async def read_part(self, uri: str, word: str, step: Step) -> None:
        for part in _PARTS:
            await self._call("read_resource", uri=uri, **part)

    async def search_with(self, uri: str, word: str, step: Step) -> None:
        for options in ({"files": f"*{word}*"}, {"context": 2}, {"case": True, "limit": 1}):
            await self._call("search_resources", query=f'"{word}" {word[:1]}', **options)

    async def directory(self, uri: str, word: str, step: Step) -> None:
        await self._pages("resources/directory/read", uri=uri)

    async def skill(self, uri: str, word: str, step: Step) -> None:
        await self._ask("skills/get", uri=uri)
        await self._ask("skills/get", uri=f"{uri.rstrip('/')}/SKILL.md")

    async def misspell(self, uri: str, word: str, step: Step) -> None:
        for spelling in misspelt(uri):
            await self._ask("resources/read", uri=spelling)
            await self._ask("resources/metadata", uri=spelling)
            await self._ask("resources/directory/read", uri=spelling)
            await self._ask("resources/subscribe", uri=spelling)
            await self._ask("resources/unsubscribe", uri=spelling)
            await self._call("read_resource", uri=spelling)

    async def complete_word(self, uri: str, word: str, step: Step) -> None:
        templates = [*self.known.templates] or ["x"]
        template = templates[step.place % len(templates)]
        variables = _variables(template)
        for variable in variables:
            given = {each: word for each in variables if each != variable}
            await self._complete(template, variable, "", **given)
            for seen in (*self.known.seen, *self.known.guesses)[:8]:
                await self._complete(template, variable, seen.partition("://")[2].split("/", 1)[-1])

    async def query(self, uri: str, word: str, step: Step) -> None:
        queries = [each for each in self.known.targets if "~query/" in each] or [uri]
        await self._ask(
            "resources/read", uri=f"{queries[step.place % len(queries)]}?n={quote(word, safe='')}"
        )

    async def query_table(self, uri: str, word: str, step: Step) -> None:
        for selection in _SELECTIONS:
            await self._call("query_table", uri=uri, **selection)
        await self._call("query_table", uri=uri, where={"name": word}, count=True)

    async def query_database(self, uri: str, word: str, step: Step) -> None:
        if "query_database" not in self.known.tools:
            return
        path = uri.partition("://")[2].partition("/")[2]
        table = quote(path.partition("/")[0][:40], safe="") or "people"
        named = (f'select * from "{table}"', f'select count(*) from "{table}"')  # noqa: S608
        for sql in (*STATEMENTS, *named):
            given: dict[str, Any] = {"n": word} if ":n" in sql else {}
            given |= {"i": step.place} if ":i" in sql else {}
            await self._call("query_database", sql=sql, parameters=given)

    async def prompt(self, uri: str, word: str, step: Step) -> None:
        for name, prompt in self.known.prompts.items():
            path = uri.partition("://")[2].split("/", 1)[-1]
            given = {each["name"]: path for each in prompt["arguments"]}
            await self._ask("prompts/get", name=name, arguments=given)


_STEPS: Mapping[str, Callable[[Conversation, str, str, Step], Awaitable[None]]] = {
    "list": Conversation.list,
    "list with cursor": Conversation.list_with_cursor,
    "list all with cursor": Conversation.list_all_with_cursor,
    "read": Conversation.read,
    "read as hosts do": Conversation.read_as_hosts,
    "read below": Conversation.read_below,
    "describe": Conversation.describe,
    "subscribe": Conversation.subscribe,
    "search": Conversation.search,
    "search pattern": Conversation.search_pattern,
    "search names": Conversation.search_names,
    "use tools": Conversation.use_tool,
    "read part": Conversation.read_part,
    "search with": Conversation.search_with,
    "directory": Conversation.directory,
    "skill": Conversation.skill,
    "misspell": Conversation.misspell,
    "complete": Conversation.complete_word,
    "query": Conversation.query,
    "prompt": Conversation.prompt,
    "query table": Conversation.query_table,
    "query database": Conversation.query_database,
}

steps = st.builds(
    Step,
    kind=st.sampled_from(tuple(_STEPS)),
    place=st.integers(0, MAX_SEEN),
    word=st.integers(0, 20),
    suffix=st.one_of(st.just(""), st.sampled_from(SUFFIXES)),
)


def _variables(template: str) -> list[str]:
    """Return the names of a template's variables."""
    found: list[str] = []
    for part in template.split("{")[1:]:
        names = part.partition("}")[0].lstrip("+?&#/")
        found += [name for name in names.split(",") if name]
    return found


def _as(word: str, tool: Mapping[str, Any], argument: str) -> Any:
    """Return a word as the type that an argument has."""
    kind = tool["inputSchema"]["properties"][argument].get("type")
    if kind in ("integer", "number"):
        return int(word) if word.lstrip("-").isdigit() else len(word)
    return word
