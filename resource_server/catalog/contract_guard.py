"""The gate to a provider: the only place where its code runs, limited in time and checked.

A provider may return a result or an awaitable, may hang, and may raise anything. Behind
`GuardedProvider` every call is a coroutine that ends: with a result of the promised type, or with
an `Exception`. What would end the server (`SystemExit`, `KeyboardInterrupt`, `GeneratorExit`) or
looks like a cancelled request (`CancelledError`) becomes `ProviderFailed`.

An immediate result costs no task and no timer. A call that waits runs in its own task, which is
abandoned at its timeout, even if it ignores its cancellation.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, nullcontext, suppress
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from resource_server.access import WHOLE, claim_path
from resource_server.errors import (
    DeadlineExceeded,
    MountUnavailable,
    NotACollection,
    ProviderFailed,
    ResourceNotFound,
    ResourceServerError,
)
from resource_server.provider import (
    Change,
    Content,
    Interest,
    Link,
    Path,
    Provider,
    Resource,
    ResourceType,
    ServerKey,
    SupportsAccess,
    SupportsCheck,
    SupportsClaims,
    SupportsComplete,
    SupportsFetch,
    SupportsLevels,
    SupportsMount,
    SupportsParameters,
    SupportsRecord,
    SupportsTimeout,
    SupportsWatch,
    Template,
)
from resource_server.provider.search import (
    Hit,
    MatchedLine,
    SearchPage,
    SearchRequest,
    SupportsSearch,
    Unsearched,
    Where,
)
from resource_server.provider.skills import Skill, SupportsSkills
from resource_server.provider.tools import SupportsTools, Tool, ToolRequest, ToolResult
from resource_server.runtime.eager import (
    CANCEL_S,
    TimeLimit,
    Turns,
    in_own_task,
    is_cancelled,
    settle,
)
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.search.indexes import IndexState

T = TypeVar("T")

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with the number of items done and the total, if known."""

Ability: TypeAlias = Literal[
    "access",
    "check",
    "claims",
    "complete",
    "fetch",
    "levels",
    "mount",
    "parameters",
    "record",
    "search",
    "skills",
    "timeout",
    "tools",
    "watch",
]

_PROTOCOLS: Mapping[Ability, type] = {
    "access": SupportsAccess,
    "check": SupportsCheck,
    "claims": SupportsClaims,
    "complete": SupportsComplete,
    "fetch": SupportsFetch,
    "levels": SupportsLevels,
    "mount": SupportsMount,
    "parameters": SupportsParameters,
    "record": SupportsRecord,
    "search": SupportsSearch,
    "skills": SupportsSkills,
    "timeout": SupportsTimeout,
    "tools": SupportsTools,
    "watch": SupportsWatch,
}

_SEQUENCES = (list, tuple, Sequence)
"""The common ones first: the check of an abstract class takes longer."""

MAX_ABANDONED = 100
"""Calls that were given up and have not ended; with more, a provider is called no further."""


class GuardedProvider:
    """A provider behind coroutine methods that end in time and keep to the contract.

    A method of an optional protocol may be called only if `abilities` has it.

    Every method raises what the provider raises, and

        MountUnavailable: the call took too long (`call_tool`: DeadlineExceeded).
        ProviderFailed: the provider raised a `BaseException`, such as `SystemExit`.
        ResourceServerError: the result breaks the contract.
    """

    def __init__(self, provider: Provider, timing: Timing = DEFAULT_TIMING) -> None:
        # Optional methods are reached through `Any`: `abilities` names those that exist.
        self._provider: Any = provider
        self._timing = timing
        self._call_s = timing.call_s
        self._start_s = timing.mount_start_s
        self._abandoned = set[asyncio.Future[Any]]()
        self._is_entering = False
        """Whether an attempt is still running, even one that was given up because it hangs."""
        self._is_entered = False
        with _contained():
            self.abilities = frozenset(
                name for name, protocol in _PROTOCOLS.items() if _implements(provider, protocol)
            )
            """The optional protocols that the provider implements."""
            self.incomplete = incomplete_abilities(provider)
            """Methods of abilities that are implemented only in part."""
            self._has_lifetime = isinstance(provider, AbstractAsyncContextManager)
            self.restrictions = self._restrictions()
            """The scopes that parts of the provider need, by option; empty without the ability."""
            self.claims = self._claims()
            """The claims whose values decide on what it shows; empty without the ability."""
            self.is_watch_off = getattr(provider, "watch", None) == "off"
            """Whether the provider has an option `watch` with the value `off`."""
            self.is_swept = bool(getattr(provider, "is_swept", True))
            """False where comparisons cost money: its own watch alone asks for them."""
            self.parameters = self._parameters()
            """The URI parameters that tools offer; empty without the ability."""
            if "timeout" in self.abilities:
                self._call_s = max(self._call_s, float(self._provider.call_timeout_s))
            self._start_s = max(self._start_s, float(getattr(provider, "start_timeout_s", 0)))
        self._can_fetch = "fetch" in self.abilities

    def _parameters(self) -> frozenset[str]:
        if "parameters" not in self.abilities:
            return frozenset()
        found: object = self._provider.parameters
        if not isinstance(found, Set):
            raise _broken("parameters", "a set of names", found)
        return frozenset(cast("Set[str]", found))

    def _claims(self) -> frozenset[str]:
        if "claims" not in self.abilities:
            return frozenset()
        found: object = self._provider.claims
        if not isinstance(found, Set):
            raise _broken("claims", "a set of names", found)
        names = frozenset(cast("Set[str]", found))
        for name in names:
            if name != WHOLE:
                claim_path(name)
        return names

    def _restrictions(self) -> Mapping[str, frozenset[str]]:
        if "access" not in self.abilities:
            return {}
        found: object = self._provider.restrictions
        if not isinstance(found, Mapping):
            raise _broken("restrictions", "a mapping", found)
        rules: dict[str, frozenset[str]] = {}
        for option, scopes in cast("Mapping[str, object]", found).items():
            if not isinstance(scopes, Set):
                raise _broken("restrictions", "sets of scopes", scopes)
            rules[option] = frozenset(cast("Set[str]", scopes))
        return rules

    # -- calls without waiting

    @property
    def templates(self) -> Sequence[Template]:
        """The provider's templates."""
        with _contained():
            return _all("templates", Template, self._provider.templates)

    @property
    def watched_by(self) -> str | None:
        """The provider's means of watching, if it has several to choose from."""
        with _contained():
            means: object = getattr(self._provider, "watched_by", None)
            return means if isinstance(means, str) else None

    @property
    def index_state(self) -> IndexState | None:
        """The state of the provider's search index, if it has one."""
        with _contained():
            index = getattr(self._provider, "search_index", None)
            state: object = getattr(index, "state", None)
            return state if isinstance(state, IndexState) else None

    @property
    def storage_counts(self) -> tuple[int, int, int] | None:
        """The numbers of requests to object storage, of failed ones and of bytes, if it has any."""
        with _contained():
            counts: object = getattr(self._provider, "storage_counts", None)
            return cast("tuple[int, int, int]", counts) if isinstance(counts, tuple) else None

    def is_instance(self, of: type) -> bool:
        """Return whether the provider is an instance of a class."""
        return isinstance(self._provider, of)

    def recorded_address(
        self, path: Path, query: Mapping[str, str], *, served: bool
    ) -> tuple[Path, Mapping[str, str]]:
        """See `SupportsRecord.recorded_address`; without the ability, only values are left out."""
        if "record" not in self.abilities:
            return path, query if served else dict.fromkeys(query, "...")
        with _contained():
            return self._provider.recorded_address(path, query, served=served)

    def recorded_call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """See `SupportsRecord.recorded_call`."""
        with _contained():
            has = "record" in self.abilities
            return self._provider.recorded_call(tool, arguments) if has else None

    def mounted(self, link: Link, key: ServerKey) -> None:
        """Call `SupportsMount.mounted`, if the provider has it."""
        if "mount" in self.abilities:
            with _contained():
                self._provider.mounted(link, key)

    def narrowed(self, scopes: frozenset[str]) -> Provider:
        """Return the provider for callers with these scopes, for a mount of its own."""
        with _contained():
            narrowed: Provider = self._provider.narrowed(scopes)
            return narrowed

    def with_claims(self, values: Mapping[str, Any]) -> Provider:
        """Return the provider for callers with these claims, for a mount of its own."""
        with _contained():
            narrowed: Provider = self._provider.with_claims(values)
            return narrowed

    @property
    def call_s(self) -> float:
        """Seconds that a call may take."""
        return self._call_s

    # -- lifetime

    async def enter(self) -> None:
        """Enter the provider's lifetime, if it has one.

        An attempt that is given up or cancelled, and succeeds nevertheless, is left again.
        """
        if not self._has_lifetime:
            return
        if self._is_entering:
            raise MountUnavailable("the previous attempt to start hangs and has not ended yet")
        try:
            await self._wait(self._entered(), TimeLimit(self._start_s))
        except asyncio.CancelledError:
            # The attempt may have succeeded before its caller could hear of it.
            if self._is_entered:
                with suppress(Exception):
                    await self.leave()
            raise

    async def _entered(self) -> None:
        self._is_entering = True
        try:
            await settle(self._provider.__aenter__())
            self._is_entered = True
            if is_cancelled():
                await self._left()
        finally:
            self._is_entering = False

    async def leave(self) -> None:
        """Leave the provider's lifetime, if it has one."""
        if self._has_lifetime:
            await self._wait(self._left(), TimeLimit(self._timing.mount_close_s))

    async def _left(self) -> None:
        self._is_entered = False
        await settle(self._provider.__aexit__(None, None, None))

    # -- changes

    async def watch(self, interest: Interest, on_change: Callable[[Change], None]) -> None:
        """Pass each change of `SupportsWatch.changes` to `on_change` until the iterator ends.

        Has no time limit. If the caller is cancelled, it returns when the iterator is closed.
        """
        await self._wait(self._follow(interest, on_change), None, cancel_s=None)

    async def _follow(self, interest: Interest, on_change: Callable[[Change], None]) -> None:
        changes = self._provider.changes(interest)
        # Not every iterator can be closed early; a generator can, and has to be.
        async with aclosing(changes) if hasattr(changes, "aclose") else nullcontext():
            turns = Turns()
            async for change in changes:
                if not isinstance(change, Change) or not isinstance(
                    cast("object", change.path), tuple
                ):
                    raise _broken("changes()", "changes with a tuple as path", change)
                on_change(change)
                await turns.others()

    # -- the contract

    async def metadata(self, path: Path, time_limit: TimeLimit | None = None) -> Resource:
        """See `Provider.metadata`."""
        found = await self._call("metadata", path, time_limit=time_limit)
        if not isinstance(found, Resource):
            raise _broken("metadata()", "a Resource", found)
        return found

    async def read(
        self, path: Path, query: Mapping[str, str], time_limit: TimeLimit | None = None
    ) -> Sequence[Content]:
        """See `Provider.read`."""
        found = await self._call("read", path, query, time_limit=time_limit)
        return _all("read()", Content, found)

    async def fetch(
        self, path: Path, query: Mapping[str, str], time_limit: TimeLimit | None = None
    ) -> tuple[Resource, Sequence[Content]]:
        """Return a resource's metadata and, for a document, its contents."""
        if self._can_fetch:
            # Some steps less than `_call`: this is the read of a file.
            try:
                found = self._provider.fetch(path, query)
            except Exception:
                raise
            except BaseException as error:
                raise ProviderFailed(error) from error
            if hasattr(found, "__await__"):
                found = await self._wait(found, time_limit or TimeLimit(self._call_s))
            resource, contents = _pair("fetch()", found)
            if not isinstance(resource, Resource):
                raise _broken("fetch()", "a pair of Resource and contents", resource)
            return resource, _all("fetch()", Content, contents)
        # Metadata first: content newer than its version only causes one extra notification.
        resource = await self.metadata(path, time_limit)
        if resource.type == "collection":
            return resource, ()
        return resource, await self.read(path, query, time_limit)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the direct children of a collection; see `Provider.list`.

        A child outside its parent could lead in circles, and a listing that repeats `after` would
        never end: they break the contract.
        """
        found = await self._call("list", parent, after=after, limit=limit)
        children = _all("list()", Resource, found)
        for child in children:
            if child.path[:-1] != parent or not child.path:
                raise ResourceServerError(
                    "list() returned a resource that is not a child of `parent`"
                )
        _check_order("list", children, after)
        return children

    async def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        """Return listed resources `depth` levels below the mount; see `SupportsLevels.level`.

        Without the ability, the collections come among the documents.
        """
        if "levels" in self.abilities:
            found = await self._call("level", depth, type, after=after, limit=limit)
            members = _all("level()", Resource, found)
            if [each for each in members if len(each.path) != depth or each.type != type]:
                raise ResourceServerError("level() returned a resource of another depth or type")
            _check_order("level", members, after)
            return members
        if type == "collection":
            return ()
        return await self.below((), after or (), limit, depth=depth)

    async def below(
        self,
        top: Path,
        after: Path,
        limit: int,
        *,
        include_unlisted: bool = False,
        depth: int | None = None,
    ) -> list[Resource]:
        """Return up to `limit` descendants of `top` after `after`, depth first, made from `list`.

        Unlisted resources are left out with all below them, unless `include_unlisted`; with
        `depth`, so are those of other levels.
        """
        levels = [
            _Level(after[:place], after[: place + 1], deque())
            for place in range(len(top), len(after))
        ]
        if depth is None or len(after) < depth:
            levels.append(_Level(after, None, deque()))
        found: list[Resource] = []
        while levels and len(found) < limit:
            level = levels[-1]
            if level.pending:
                resource = level.pending.popleft()
                if resource.listed or include_unlisted:
                    place = len(resource.path)
                    if depth is None or place == depth:
                        found.append(resource)
                    if resource.type == "collection" and (depth is None or place < depth):
                        levels.append(_Level(resource.path, None, deque()))
            elif level.ended:
                levels.pop()
            else:
                wanted = limit - len(found)
                try:
                    children = await self.list(level.parent, after=level.last, limit=wanted)
                except (ResourceNotFound, NotACollection):
                    children = ()  # gone since the last page, or a document
                level.pending.extend(children)
                level.ended = len(children) < wanted
                if children:
                    level.last = children[-1].path
        return found

    # -- optional protocols

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        """See `SupportsComplete.complete`."""
        return _all("complete()", str, await self._call("complete", variable, value, given=given))

    def searches(self, where: Where) -> bool:
        """Return whether the provider itself searches names, or text."""
        searches_text = getattr(self._provider, "searches_text", True)
        return "search" in self.abilities and (where == "names" or bool(searches_text))

    async def search(
        self, request: SearchRequest, *, below: Path, after: str | None, limit: int, deadline: float
    ) -> SearchPage:
        """See `SupportsSearch.search`."""
        page = _search_page(
            await self._call(
                "search", request, below=below, after=after, limit=limit, deadline=deadline
            )
        )
        for later in page.later.values():
            _search_page(later)
        return page

    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Skill]:
        """See `SupportsSkills.list_skills`."""
        found = await self._call("list_skills", after=after, limit=limit)
        skills = _all("list_skills()", Skill, found)
        paths = {skill.path for skill in skills}
        if len(paths) < len(skills) or after in paths:
            raise ResourceServerError("list_skills() returned a skill again")
        return skills

    async def get_skill(self, path: Path) -> Skill:
        """See `SupportsSkills.get_skill`."""
        found = await self._call("get_skill", path)
        if not isinstance(found, Skill):
            raise _broken("get_skill()", "a Skill", found)
        return found

    async def tools(self) -> Sequence[Tool]:
        """See `SupportsTools.tools`; each item is left to the caller to check."""
        limit = TimeLimit(self._timing.tool_list_timeout_s)
        found = _all("tools()", object, await self._call("tools", time_limit=limit))
        return cast("Sequence[Tool]", found)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        request: ToolRequest,
        time_limit: TimeLimit,
    ) -> ToolResult:
        """See `SupportsTools.call_tool`.

        Raises:
            DeadlineExceeded: the time limit is over.
        """
        try:
            result = await self._call("call_tool", name, arguments, request, time_limit=time_limit)
        except MountUnavailable:
            if time_limit.left_s() > 0:
                raise
            raise DeadlineExceeded(
                f"the tool took longer than {time_limit.seconds:g} s, which no option raises"
            ) from None
        if not isinstance(result, ToolResult):
            raise _broken("call_tool()", "a ToolResult", result)
        return result

    # -- for the operator

    async def explain(self, path: Path) -> str:
        """See `SupportsCheck.explain`."""
        text = await self._call("explain", path)
        if not isinstance(text, str):
            raise _broken("explain()", "text", text)
        return text

    async def hides(self, *, limit: int) -> Sequence[tuple[Path, str]]:
        """See `SupportsCheck.hides`."""
        time_limit = TimeLimit(self._timing.survey_s)
        found = await self._call("hides", limit=limit, time_limit=time_limit)
        return cast("Sequence[tuple[Path, str]]", _pairs("hides()", tuple, found))

    async def warnings(self, *, thorough: bool) -> Sequence[tuple[str, str]]:
        """See `SupportsCheck.warnings`."""
        time_limit = TimeLimit(self._timing.survey_s)
        found = await self._call("warnings", thorough=thorough, time_limit=time_limit)
        return cast("Sequence[tuple[str, str]]", _pairs("warnings()", str, found))

    # -- the gate

    def _begin(self, method: str, *args: object, **options: object) -> Any:
        """Call a method of the provider; return its result, or an awaitable of it."""
        try:
            return getattr(self._provider, method)(*args, **options)
        except Exception:
            raise
        except BaseException as error:
            raise ProviderFailed(error) from error

    async def _call(
        self, method: str, *args: object, time_limit: TimeLimit | None = None, **options: object
    ) -> object:
        """Call a method of the provider; wait for its result within the limit, if it has to."""
        outcome = self._begin(method, *args, **options)
        if not hasattr(outcome, "__await__"):
            return outcome
        return await self._wait(outcome, time_limit or TimeLimit(self._call_s))

    async def _wait(
        self, work: Awaitable[T], limit: TimeLimit | None, *, cancel_s: float | None = CANCEL_S
    ) -> T:
        """Wait for code of the provider, in a task of its own."""
        if len(self._abandoned) >= MAX_ABANDONED:
            if inspect.iscoroutine(work):
                work.close()
            raise MountUnavailable(f"{MAX_ABANDONED} earlier calls hang and have not ended yet")
        return await in_own_task(work, limit, cancel_s=cancel_s, on_abandoned=self._abandon)

    def _abandon(self, task: asyncio.Future[Any]) -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)


def _implements(provider: object, protocol: type) -> bool:
    """Return whether a provider has the members of a protocol, even if reading one fails.

    `isinstance` alone reads properties, and a failing `restrictions` would count as none.
    """
    if isinstance(provider, protocol):
        return True
    return all(
        inspect.getattr_static(provider, name, None) is not None for name in _members(protocol)
    )


def _members(protocol: type) -> Sequence[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def incomplete_abilities(provider: object) -> Sequence[str]:
    """Return which methods a provider has without the others of the same ability."""
    # An option may have the name of a method.
    options = [each.name for each in fields(provider)] if is_dataclass(provider) else []
    found: list[str] = []
    for members in map(_members, _PROTOCOLS.values()):
        there = [name for name in members if hasattr(type(provider), name) and name not in options]
        lacking = [name for name in members if inspect.getattr_static(provider, name, None) is None]
        if there and lacking:
            found.append(f"{', '.join(there)} without {', '.join(lacking)}")
    return found


@contextmanager
def _contained() -> Generator[None]:
    """Contain what a provider raises in a call that never waits."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        raise ProviderFailed(error) from error


def _all(method: str, of: type[T], found: object) -> Sequence[T]:
    """Check that a provider returned a sequence of one type; a generator might never end."""
    if not isinstance(found, _SEQUENCES):
        raise _broken(method, "a sequence", found)
    items = cast("Sequence[T]", found)
    if len(items) == 1 and isinstance(items[0], of):  # the content of a read
        return items
    for kind in set(map(type, items)):  # each type once, as a page has a thousand items
        if not issubclass(kind, of):
            other = next(each for each in items if type(each) is kind)
            raise _broken(method, f"a sequence of {of.__name__}", other)
    return items


def _pair(method: str, found: object) -> tuple[object, object]:
    if not isinstance(found, tuple) or len(found) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise _broken(method, "a pair", cast("object", found))
    return found  # pyright: ignore[reportUnknownVariableType] - a cast takes as long as the rest


def _pairs(method: str, first: type, found: object) -> Sequence[object]:
    """Check that a provider returned pairs of `first` and text."""
    pairs = _all(method, object, found)
    for pair in pairs:
        one, other = _pair(method, pair)
        if not isinstance(one, first) or not isinstance(other, str):
            raise _broken(method, f"pairs of {first.__name__} and str", pair)
    return pairs


def _search_page(page: object) -> SearchPage:
    """Return a page of a search whose members have the right types."""
    if not isinstance(page, SearchPage):
        raise _broken("search()", "a SearchPage", page)
    for hit in _all("search()", Hit, page.hits):
        if not isinstance(cast("object", hit.resource), Resource):
            raise _broken("search()", "hits with a Resource", hit.resource)
        _all("search()", MatchedLine, hit.lines)
        if not isinstance(cast("object", hit.matches), int | None):
            raise _broken("search()", "a number of matches", hit.matches)
    for gap in _all("search()", Unsearched, page.unsearched):
        if not isinstance(cast("object", gap.why), str):
            raise _broken("search()", "reasons in words", gap.why)
        if not isinstance(cast("object", gap.count), int):
            raise _broken("search()", "a number of resources that were not searched", gap.count)
    if not isinstance(cast("object", page.beyond), int):
        raise _broken("search()", "a number of matches beyond", page.beyond)
    return page


def _broken(method: str, promised: str, found: object) -> ResourceServerError:
    return ResourceServerError(f"{method} must return {promised}, not a {type(found).__name__}")


class _Level(msgspec.Struct):
    """One level of a walk: a collection, with children that were fetched but not yet used."""

    parent: Path
    last: Path | None
    pending: deque[Resource]
    ended: bool = False


def _check_order(method: str, found: Sequence[Resource], after: Path | None) -> None:
    if after is not None and after in [resource.path for resource in found]:
        raise ResourceServerError(f"{method}() returned `after` again, not what follows it")
