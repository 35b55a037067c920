"""Providers in ten lines: a function that returns documents becomes a whole provider.

    @documents(refresh=30)
    def notes(folder: Path, limit: int = 100) -> Iterator[tuple[str, str]]:
        "Notes by their day."
        for file in sorted(folder.glob("*.md"))[-limit:]:
            yield f"{file.stem[:4]}/{file.name}", file.read_text()

`notes` is now a provider class for `use: notes.py`, with the options `folder` and `limit`. Its
documents have collections, versions, paging, search, completion and, with `refresh`, changes.
`@document("today.md")` takes a function that returns one document, and
`@template("issues/{number}.json")` one that returns the document for the variables of its path.

Several such functions in one file are one mount. Functions are called off the event loop, or are
`async`. If a refresh fails, the documents of the last one are served on, and the next attempts come
after increasing delays. The whole contract is in `resource_server.provider.core`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import re
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
    Set,
)
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import (
    Any,
    ClassVar,
    Literal,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    get_type_hints,
    overload,
)

import msgspec
from anyio import CapacityLimiter, to_thread

from resource_server import uris
from resource_server.errors import (
    InvalidParameter,
    MountUnavailable,
    NotACollection,
    ResourceError,
    ResourceNotFound,
    ResourceServerError,
)
from resource_server.provider.core import (
    Change,
    Content,
    Interest,
    Path,
    Provider,
    Resource,
    ResourceType,
    Template,
)
from resource_server.provider.document_tree import (
    MAX_DOCUMENTS,
    Contents,
    Document,
    DocumentTree,
    StoredDocument,
    UnusableDocuments,
    split_path,
    store,
)
from resource_server.runtime.eager import is_cancelled
from resource_server.runtime.rates import Backoff

__all__ = [
    "Contents",
    "Document",
    "Found",
    "FunctionProvider",
    "TemplateProvider",
    "document",
    "documents",
    "template",
]

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Made = TypeVar("Made", bound="_FromFunction")

Pairs: TypeAlias = Mapping[str, Contents] | Iterable[tuple[str, Contents]]
Found: TypeAlias = Pairs | Awaitable[Pairs] | AsyncIterable[tuple[str, Contents]]
"""Result of a function for `documents`: contents by path, as a mapping or as pairs."""
One: TypeAlias = Contents | Awaitable[Contents]
Maybe: TypeAlias = Contents | Awaitable[Contents | None] | None

MOUNT_OPTIONS = frozenset(
    ("use", "uri", "title", "description", "annotations", "listed", "watch", "access")
)
"""Options of every mount, which a parameter cannot be."""
_PATIENCE_S = 2.0
"""How long a request waits for a refresh before it gets the documents of the last one."""
_RETRY_S = 1.0
_RETRY_MAX_S = 60.0
_MAX_COMPLETIONS = 1000
_MAX_CALLS = 8
"""Calls of a template's function at a time."""


@overload
def documents(function: Callable[P, Found], /) -> Callable[P, FunctionProvider]: ...
@overload
def documents(
    *, refresh: float | None = None
) -> Callable[[Callable[P, Found]], Callable[P, FunctionProvider]]: ...
def documents(
    function: Callable[..., Found] | None = None, /, *, refresh: float | None = None
) -> Callable[..., Any]:
    """Return the provider class of a function that returns contents by path.

    The function is called when the mount starts, and again after `refresh` seconds if anybody
    requests or watches the documents; without `refresh`, only once. Its parameters are the options.

    Raises:
        TypeError: a parameter cannot be an option.
        ValueError: `refresh` is no time above 0.
    """
    _check_refresh(refresh)

    def made(function: Callable[..., Found]) -> type[FunctionProvider]:
        return _provider_class(FunctionProvider, function, {"refresh_s": refresh})

    return made if function is None else made(function)


def document(
    path: str, *, refresh: float | None = None
) -> Callable[[Callable[P, One]], Callable[P, FunctionProvider]]:
    """Return a decorator for a function that returns the document at `path`.

    Raises:
        ValueError: `path` is no path, or `refresh` no time above 0.
    """
    split_path(path)
    _check_refresh(refresh)

    def made(function: Callable[..., One]) -> Any:
        members = {"refresh_s": refresh, "only_path": path}
        return _provider_class(FunctionProvider, function, members)

    return made


def template(
    uri_template: str, *, refresh: float | None = None
) -> Callable[[Callable[..., Maybe]], Callable[..., TemplateProvider]]:
    """Return a decorator for a function that returns the document for the variables of its path.

    In `issues/{number}.json`, `number` is a parameter of type `str` or `int`; all other parameters
    are options. The function is called for every request, and returns None for what does not exist.
    Subscribed documents are compared every `refresh` seconds.

    Raises:
        ValueError: the template is malformed, or `refresh` is no time above 0.
    """
    _check_refresh(refresh)
    pattern = _PathPattern(uri_template)

    def made(function: Callable[..., Maybe]) -> type[TemplateProvider]:
        for name in pattern.variables - inspect.signature(function).parameters.keys():
            raise TypeError(f"{uri_template!r}: the function has no parameter '{name}'")
        members = {"refresh_s": refresh}
        made = _provider_class(TemplateProvider, function, members, pattern.variables)
        made.pattern = pattern
        made.numbers = pattern.numbers(get_type_hints(made.__init__))
        return made

    return made


def _check_refresh(refresh: float | None) -> None:
    if refresh is not None and not (0 < refresh < math.inf):
        raise ValueError(f"refresh is {refresh!r}; write a number of seconds above 0, or None")


def _provider_class(
    base: type[Made],
    function: Callable[..., Any],
    members: Mapping[str, object],
    variables: Iterable[str] = (),
) -> type[Made]:
    """Return a class whose constructor has the parameters of a function, except `variables`."""
    name = str(getattr(function, "__name__", "documents"))
    whole = inspect.signature(function)
    options = [each for each in whole.parameters.values() if each.name not in variables]
    for each in options:
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise TypeError(f"parameter '{each}' of {name} cannot be an option; give it a name")
        if each.name in MOUNT_OPTIONS:
            raise TypeError(f"parameter '{each.name}' of {name} is an option of every mount")
        if each.name.startswith("_") and each.default is each.empty:
            raise TypeError(f"parameter '{each.name}' of {name} is private and has no default")
    signature = whole.replace(parameters=options, return_annotation=whole.empty)

    @functools.wraps(function)
    def construct(self: Made, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        base.__init__(self, function, bound.arguments)

    construct.__annotations__ = _hints(function)
    made: Any = type(
        name,
        (base,),
        {
            **members,
            "__init__": construct,
            "__doc__": inspect.getdoc(function),
            "__module__": getattr(function, "__module__", __name__),
            "__signature__": signature,
        },
    )
    return made


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of parameters; that of the result may not be importable."""
    annotations: dict[str, Any] = getattr(function, "__annotations__", {})
    return {name: hint for name, hint in annotations.items() if name != "return"}


class _Function:
    """A user's function with its options, called off the event loop."""

    def __init__(
        self, function: Callable[..., Any], options: Mapping[str, Any], *, at_once: int
    ) -> None:
        self.name = str(getattr(function, "__name__", "documents"))
        summary = (inspect.getdoc(function) or "").partition("\n\n")[0]
        self.description = " ".join(summary.split()) or None
        self._function = function
        self._options = options
        self._limiter = CapacityLimiter(at_once)

    async def call(self, finish: Callable[[Any], T], variables: Mapping[str, Any]) -> T:
        """Return `finish` of the function's result; both run in worker threads.

        Raises:
            ResourceError: as the function raised it.
            MountUnavailable: the function failed; the message names the kind of error and the line,
                since only the package's own messages are known to hold no secret.
        """
        try:
            found = await self._in_thread(
                functools.partial(self._function, **variables, **self._options)
            )
            if hasattr(found, "__await__"):
                found = await found
            if hasattr(found, "__aiter__"):
                found = await _gathered(found)
            return await self._in_thread(functools.partial(finish, found))
        except UnusableDocuments as error:
            raise MountUnavailable(f"{self.name}: {error}") from error
        except ResourceError:
            raise
        except BaseException as error:
            if isinstance(error, GeneratorExit) or is_cancelled():
                raise
            raise self._failed(error) from error

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)

    def _failed(self, error: BaseException) -> MountUnavailable:
        if isinstance(error, ResourceServerError) and str(error):
            return MountUnavailable(f"{self.name}: {error}")
        file = getattr(inspect.unwrap(self._function), "__code__", None)
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if file is not None and frame.filename == file.co_filename
        ]
        place = f" in line {lines[-1]}" if lines else ""
        logger.debug("%s failed", self.name, exc_info=error)
        return MountUnavailable(f"{self.name} raised {type(error).__name__}{place}")


async def _gathered(found: AsyncIterable[Any]) -> list[Any]:
    gathered: list[Any] = []
    async for each in found:
        gathered.append(each)
        if len(gathered) > MAX_DOCUMENTS:
            break  # the tree refuses so many
    return gathered


class _FromFunction(ABC):
    """What the providers of functions have in common."""

    is_combinable: ClassVar = True
    """Whether several such classes of one file are one mount."""
    refresh_s: ClassVar[float | None] = None
    at_once: ClassVar[int] = 1
    """Calls of the function at a time."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._function = _Function(function, options, at_once=self.at_once)

    @property
    def watch(self) -> Literal["auto", "off"]:
        """Without a refresh there is nothing to watch."""
        return "off" if self.refresh_s is None else "auto"

    @abstractmethod
    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """See `Provider.list`."""

    @abstractmethod
    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        """See `SupportsFetch.fetch`."""

    async def metadata(self, path: Path) -> Resource:
        """Return the metadata of a document or collection."""
        return (await self.fetch(path, {}))[0]

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return the body of a document."""
        return (await self.fetch(path, query))[1]

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Refresh while a client is interested, and compare."""
        async for change in _changes([self], interest):
            yield change

    @abstractmethod
    async def state(self) -> object:
        """Return what the function gave last, as another object after each refresh."""

    @abstractmethod
    def pause_s(self) -> float | None:
        """Return the seconds until the next refresh; None if there will be none."""

    @abstractmethod
    def changed(self, before: Any, now: Any, paths: Set[Path]) -> Set[Path]:
        """Return the subscribed paths to be compared, after a refresh."""

    @abstractmethod
    async def relisted(self, before: Any, now: Any) -> Sequence[Path]:
        """Return the collections whose sets of children differ, after a refresh."""


async def _changes(parts: Sequence[_FromFunction], interest: Interest) -> AsyncIterator[Change]:
    before = [await part.state() for part in parts]
    while True:
        is_watched = interest.paths or interest.listing
        pauses_s = [pause for part in parts if (pause := part.pause_s()) is not None]
        came, _ = await interest.next(min(pauses_s, default=None) if is_watched else None)
        changed, relisted = set(came), list[Path]()
        for at, part in enumerate(parts):
            now = await part.state()
            if now is not before[at]:
                changed |= part.changed(before[at], now, interest.paths)
                if interest.listing:
                    relisted += await part.relisted(before[at], now)
                before[at] = now
        for path in changed:
            yield Change(path)
        for path in relisted:
            yield Change(path, "children")


class FunctionProvider(_FromFunction):
    """The documents that a function returns, kept in memory and refreshed.

    Nothing is refreshed while nobody requests or watches anything.
    """

    templates = (Template("{+path}", name="document", title="A document or collection"),)
    only_path: ClassVar[str | None] = None
    """The path of the only document, whose contents the function returns."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        super().__init__(function, options)
        self._tree: DocumentTree | None = None
        self.due = 0.0
        """When the tree is to be refreshed."""
        self._started = 0.0
        self.refreshing: asyncio.Task[None] | None = None
        self._problem: BaseException | None = None
        """Why the last call failed."""
        self._loaded = datetime.now(UTC)
        longest = max(_RETRY_MAX_S, self.refresh_s or 0)
        self._backoff = Backoff(min(_RETRY_S, self.refresh_s or _RETRY_S), longest)

    async def __aenter__(self) -> Self:
        await self._first()
        return self

    async def __aexit__(self, *_: object) -> None:
        task, self.refreshing, self._tree, self.due = self.refreshing, None, None, 0.0
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the children of a collection, by name."""
        return (await self._current()).children(parent, after, limit)

    async def level(
        self, depth: int, type: ResourceType, *, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        """Return the collections or documents of one level."""
        return (await self._current()).level(depth, type, after, limit)

    async def metadata(self, path: Path) -> Resource:
        """Return the metadata of a document or collection."""
        return self._described(await self._current(), path)

    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        """Return metadata and body from the same refresh."""
        tree = await self._current()
        found = tree.find(path)
        return self._described(tree, path), () if found is None else _body(found, query)

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Return the paths that begin with the typed text and end with its segment."""
        return (await self._current()).complete(value, _MAX_COMPLETIONS)

    async def state(self) -> DocumentTree:
        """Return the latest documents, after a refresh if one is due."""
        return await self._current()

    def changed(self, before: Any, now: Any, paths: Set[Path]) -> Set[Path]:
        """Return the subscribed paths whose documents differ."""
        return {path for path in paths if now.version(path) != before.version(path)}

    async def relisted(self, before: Any, now: Any) -> Sequence[Path]:
        """Return the collections whose sets of children differ."""
        return await to_thread.run_sync(now.relisted, before)

    def _described(self, tree: DocumentTree, path: Path) -> Resource:
        """Return a resource; the mount's own says since when its refresh fails."""
        found = tree.resource(path)
        if path or self._problem is None:
            return found
        stale_since = self._loaded.isoformat(timespec="seconds")
        return msgspec.structs.replace(found, details={"stale_since": stale_since})

    def pause_s(self) -> float | None:
        """Return the seconds until the next refresh; None if there will be none."""
        if self.refresh_s is None:
            return None
        return self.refresh_s if self.refreshing else max(0.0, self.due - time.monotonic())

    async def _current(self) -> DocumentTree:
        """Return the latest documents, which are older than `refresh` only if that fails or waits.

        Raises:
            MountUnavailable, ResourceError: there are none, as the function failed.
        """
        if self._tree is None:
            return await self._first()
        if time.monotonic() >= self.due:
            task = self._refresh()
            patience_s = self._started + min(_PATIENCE_S, self.refresh_s or 0) - time.monotonic()
            if patience_s > 0:
                await asyncio.wait([task], timeout=patience_s)
        return self._tree

    async def _first(self) -> DocumentTree:
        # Not cancelled with its request: a slow function is awaited by the next one.
        await asyncio.wait([self._refresh()])
        if self._tree is None:
            raise self._problem or MountUnavailable(f"{self._function.name}: it was closed")
        return self._tree

    def _refresh(self) -> asyncio.Task[None]:
        if self.refreshing is None:
            self._started = time.monotonic()
            self.refreshing = asyncio.create_task(self._load())
        return self.refreshing

    async def _load(self) -> None:
        try:
            tree = await self._function.call(self._build, {})
        except (MountUnavailable, ResourceError) as error:
            self._problem = error
            delay_s = self._backoff.next_s()
            if self._tree is not None:
                last = "the last documents are served on, and the next attempt is in %g s: %s"
                logger.warning(f"%s: {last}", self._function.name, delay_s, error)  # noqa: G004
        else:
            self._tree, self._problem, self._loaded = tree, None, datetime.now(UTC)
            self._backoff.reset()
            delay_s = math.inf if self.refresh_s is None else self.refresh_s
        finally:
            self.refreshing = None
        self.due = time.monotonic() + delay_s

    def _build(self, found: Any) -> DocumentTree:
        pairs = found if self.only_path is None else {self.only_path: found}
        return DocumentTree(pairs, self._function.name, self._function.description)


def _body(found: StoredDocument | None, query: Mapping[str, str]) -> Sequence[Content]:
    if found is None:
        raise ResourceNotFound
    for name in query:
        raise InvalidParameter(f"unknown query parameter {name!r}; the document takes none")
    return found.contents()


class TemplateProvider(_FromFunction):
    """The documents that a function returns for the variables of a path."""

    pattern: ClassVar[_PathPattern]
    numbers: ClassVar[Set[str]]
    """The variables of the path that are numbers."""
    at_once = _MAX_CALLS

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        super().__init__(function, options)
        self._due = 0.0
        self._round = object()

    @property
    def templates(self) -> Sequence[Template]:
        """The template of the function."""
        name, description = self._function.name, self._function.description
        return (Template(self.pattern.text, name=name, description=description, type="document"),)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the next collection on the way to the variables; documents are not listed."""
        fixed, depth = self.pattern.fixed, len(parent)
        if parent != fixed[:depth]:
            await self._document(parent)
            raise NotACollection
        child = fixed[: depth + 1]
        if len(child) == depth or (after is not None and child <= after) or limit < 1:
            return []
        return [self._collection(child)]

    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        """Return metadata and body, by one call of the function."""
        if path == self.pattern.fixed[: len(path)]:
            return self._collection(path), ()
        found = await self._document(path)
        return found.resource(path), _body(found, query)

    async def state(self) -> object:
        """Return another object after each refresh time."""
        if self.refresh_s is not None and time.monotonic() >= self._due:
            self._due = time.monotonic() + self.refresh_s
            self._round = object()
        return self._round

    def pause_s(self) -> float | None:
        """Return the seconds until the next comparison; None if there will be none."""
        return None if self.refresh_s is None else max(0.0, self._due - time.monotonic())

    def changed(self, before: Any, now: Any, paths: Set[Path]) -> Set[Path]:
        """Have every subscribed document compared after each refresh time."""
        return set(paths)

    async def relisted(self, before: Any, now: Any) -> Sequence[Path]:
        """Return nothing: collections do not change, and documents are not listed."""
        return ()

    def _collection(self, path: Path) -> Resource:
        name = path[-1] if path else self._function.name
        description = None if path else self._function.description
        return Resource(path=path, name=name, description=description, type="collection")

    async def _document(self, path: Path) -> StoredDocument:
        variables = self.pattern.match(path, self.numbers)

        def stored(found: Any) -> StoredDocument | None:
            return None if found is None else store("/".join(path), found)

        found = await self._function.call(stored, variables)
        if found is None:
            raise ResourceNotFound
        return found


class CombinedProvider:
    """The documents of several functions as one mount; a path is of the first that has it."""

    kinds: ClassVar[Sequence[type[_FromFunction]]]

    def __init__(self, options: Mapping[str, Any]) -> None:
        signatures = [inspect.signature(kind).parameters for kind in self.kinds]
        self._parts = [
            kind(**{name: options[name] for name in names})
            for kind, names in zip(self.kinds, signatures, strict=True)
        ]
        self._lifetime = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as lifetime:
            for part in self._parts:
                if isinstance(part, FunctionProvider):
                    await lifetime.enter_async_context(part)
            self._lifetime = lifetime.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._lifetime.aclose()

    @property
    def watch(self) -> Literal["auto", "off"]:
        """Whether any of the functions is called again."""
        return "auto" if any(part.watch == "auto" for part in self._parts) else "off"

    @property
    def templates(self) -> Sequence[Template]:
        """The templates of all functions."""
        return [each for part in self._parts for each in cast("Provider", part).templates]

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the children of a collection, by name."""
        found: dict[Path, Resource] = {}
        refusals: list[ResourceError] = []
        for part in self._parts:
            try:
                children = await part.list(parent, after=after, limit=limit)
            except (ResourceNotFound, NotACollection) as error:
                refusals.append(error)
            else:
                found = {child.path: child for child in children} | found
        if len(refusals) == len(self._parts):
            raise next((each for each in refusals if isinstance(each, NotACollection)), refusals[0])
        return [found[path] for path in sorted(found)][:limit]

    async def fetch(
        self, path: Path, query: Mapping[str, str]
    ) -> tuple[Resource, Sequence[Content]]:
        """Return metadata and body from the first function that has them."""
        for part in self._parts:
            with suppress(ResourceNotFound):
                return await part.fetch(path, query)
        raise ResourceNotFound

    async def metadata(self, path: Path) -> Resource:
        """Return the metadata of a document or collection."""
        return (await self.fetch(path, {}))[0]

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return the body of a document."""
        return (await self.fetch(path, query))[1]

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Return the listed paths that begin with the typed text."""
        found: list[str] = []
        for part in self._parts:
            if isinstance(part, FunctionProvider) and variable == "path":
                found += await part.complete(variable, value, given=given)
        return found

    def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Refresh all functions while a client is interested, and compare."""
        return _changes(self._parts, interest)


def combined(made: Sequence[Callable[..., Any]]) -> Any:
    """Return the provider class of several others made by these decorators, with all their options.

    Raises:
        ValueError: two functions disagree about an option.
    """
    kinds = cast("Sequence[type[_FromFunction]]", made)
    options: dict[str, inspect.Parameter] = {}
    hints: dict[str, Any] = {}
    for kind in kinds:
        for each in inspect.signature(kind).parameters.values():
            if options.setdefault(each.name, each) != each:
                raise ValueError(f"the functions disagree about the option '{each.name}'")
        hints |= kind.__init__.__annotations__
    ordered = sorted(options.values(), key=lambda each: each.default is not each.empty)
    signature = inspect.Signature(
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in ordered]
    )

    def construct(self: CombinedProvider, **given: Any) -> None:
        bound = signature.bind(**given)
        bound.apply_defaults()
        CombinedProvider.__init__(self, bound.arguments)

    construct.__annotations__ = hints
    first = sorted(kinds, key=lambda kind: not issubclass(kind, FunctionProvider))
    members = {"kinds": first, "__init__": construct, "__signature__": signature}
    return type(first[0].__name__, (CombinedProvider,), {**members, "__doc__": first[0].__doc__})


class _PathPattern:
    """The template of a path: which variables a path has."""

    def __init__(self, text: str) -> None:
        self.text = text
        operators = uris.template_variables(text)
        segments = split_path(text)
        if not operators or set(operators.values()) != {""}:
            raise ValueError(f"{text!r}: write variables as {{name}}, at least one")
        self.variables = frozenset(operators)
        if any(segment.count("{") > 1 for segment in segments):
            raise ValueError(f"{text!r}: a segment has one variable at most")
        at = next(at for at, segment in enumerate(segments) if "{" in segment)
        self.fixed = segments[:at]
        """The segments before the first variable."""
        self._segments = [
            re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(each)), re.DOTALL)
            for each in segments
        ]

    def numbers(self, hints: Mapping[str, Any]) -> frozenset[str]:
        """Return the variables that are numbers by the types of parameters.

        Raises:
            TypeError: a type is neither `str` nor `int`.
        """
        types = {name: hints.get(name, str) for name in self.variables}
        for name in types:
            if types[name] not in (str, int):
                raise TypeError(f"parameter '{name}' is in the path; its type is str or int")
        return frozenset(name for name in types if types[name] is int)

    def match(self, path: Path, numbers: Set[str]) -> dict[str, str | int]:
        """Return the variables of a path, those in `numbers` as such.

        Raises:
            ResourceNotFound: the template has no such path.
        """
        if len(path) != len(self._segments):
            raise ResourceNotFound
        values: dict[str, str | int] = {}
        for segment, pattern in zip(path, self._segments, strict=True):
            found = pattern.fullmatch(segment)
            if found is None:
                raise ResourceNotFound
            for name, value in found.groupdict().items():
                values[name] = _number(value) if name in numbers else value
        return values


def _number(text: str) -> int:
    # One number has one path: neither `+7` nor `007`.
    if not re.fullmatch(r"0|-?[1-9]\d{0,17}", text, re.ASCII):
        raise ResourceNotFound
    return int(text)
