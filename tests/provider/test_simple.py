from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
import pytest

from resource_server import plugins
from resource_server.errors import ManifestError, MountUnavailable, ResourceNotFound
from resource_server.manifest.model import MountOptions
from resource_server.manifest.schema import manifest_schema
from resource_server.manifest.typed_options import options_of
from resource_server.provider import Provider, SupportsComplete, SupportsLevels
from resource_server.provider.simple import (
    MOUNT_OPTIONS,
    Document,
    FunctionProvider,
    TemplateProvider,
    combined,
    document,
    documents,
    template,
)
from resource_server.testing import ErrorReply, check_provider, client
from tests.waiting import PATIENCE_S, pause, quiet_for, steady, until

pytestmark = pytest.mark.anyio

TEXTS = {
    "today.md": "# Today",
    "2026/01/first.md": "Grüße",
    "2026/01/empty": "",
    "2026/\U0001f642 a#b?c%.txt": "odd",
    "2026/data.json": {"a": [1, None]},
    "2026/picture.png": b"\x89PNG\0",
}


@documents
def notes() -> Mapping[str, Any]:
    """Notes by day."""
    return TEXTS


@documents
async def awaited() -> Mapping[str, Any]:
    return TEXTS


@documents(refresh=30)
def yielded() -> Iterator[tuple[str, Any]]:
    yield from TEXTS.items()


@documents(refresh=30)
async def streamed() -> AsyncIterator[tuple[str, Any]]:
    for pair in TEXTS.items():
        yield pair


@document("2026/today.md")
async def today() -> Document:
    return Document(content="# Today", title="This day")


@template("issues/{number}.json", refresh=30)
def issue(number: int, *, most: int = 10) -> dict[str, int] | None:
    """An issue by its number."""
    return {"number": number} if 0 <= number < most else None


@template("{who}/{day}")
async def diary(day: str, who: str) -> str | None:
    return f"{who}: {day}" if who == "ada" else None


async def test_the_provider_of_every_kind_of_function_keeps_the_contract() -> None:
    for function in (notes, awaited, yielded, streamed, today, issue, diary):
        provider: Provider = function()
        await check_provider(provider)
    assert isinstance(notes(), SupportsComplete)
    assert isinstance(notes(), SupportsLevels)


SEVERAL = """
from resource_server.provider.simple import documents, template

calls = []

@template("issues/{number}.json", refresh=0.02)
def issue(number: int, most: int = 10):
    calls.append(number)
    return {"number": number, "calls": len(calls)} if number < most else None

@documents(refresh=0.02)
def notes(folder: str, most: int = 10):
    "Notes and issues."
    return {"notes/a.md": folder, "issues/all.md": str(most), "issues/3.json": "mine"}
"""


async def test_functions_of_one_file_are_one_mount(tmp_path: pathlib.Path) -> None:
    (tmp_path / "several.py").write_text(SEVERAL)
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text("providers: {p: {use: several.py, uri: 'x://y/', folder: here, most: 8}}\n")
    found = plugins.find_with_plugins(str(manifest))
    provider = plugins.load_provider(found.mounts[0], found)
    async with client(provider, base="x://y/", revision="2025-11-25") as connected:
        listed = await connected.request("resources/list", {})
        assert {each["uri"].removeprefix("x://y") for each in listed["resources"]} == {
            "", "/issues", "/issues/3.json", "/issues/all.md", "/notes", "/notes/a.md"
        }  # fmt: skip
        assert listed["resources"][0]["description"] == "Notes and issues."
        for path, text in (
            ("notes/a.md", "here"),
            ("issues/all.md", "8"),
            ("issues/3.json", "mine"),
            ("issues/7.json", '{"number":7,"calls":1}'),
        ):
            read = await connected.request("resources/read", {"uri": f"x://y/{path}"})
            assert read["contents"][0]["text"].replace(" ", "").replace("\n", "") == text
        for absent in ("issues/8.json", "notes", "x"):
            method = "resources/list" if absent == "x" else "resources/read"
            if absent != "notes":
                with pytest.raises(ErrorReply):
                    await connected.request(method, {"uri": f"x://y/{absent}"})
        templates = await connected.request("resources/templates/list", {})
        names = [each["uriTemplate"] for each in templates["resourceTemplates"]]
        assert names == ["x://y/{+path}", "x://y/issues/{number}.json"]
    for each in ("folder: 1", "folder: here, mots: 1", "most: 1"):
        manifest.write_text(f"providers: {{p: {{use: several.py, uri: 'x://y/', {each}}}}}\n")
        with pytest.raises(ManifestError):
            plugins.find_with_plugins(str(manifest))


async def test_functions_of_one_file_keep_the_contract(tmp_path: pathlib.Path) -> None:
    await check_provider(combined([notes, issue])(most=5))

    @documents
    def other(most: str = "x") -> Mapping[str, str]:
        return {}

    with pytest.raises(ValueError, match="disagree about the option 'most'"):
        combined([issue, other])


async def test_changes_of_all_functions_of_one_file_are_reported() -> None:
    counts = {"a": 0, "b": 0}

    @documents(refresh=0.02)
    def shelf() -> Mapping[str, str]:
        counts["a"] += 1
        return {"a": str(counts["a"])}

    @template("x/{name}", refresh=0.02)
    def book(name: str) -> str:
        counts["b"] += 1
        return str(counts["b"])

    async with client(combined([shelf, book])(), base="x://y/", revision="2025-11-25") as connected:
        for path in ("a", "x/b"):
            await connected.request("resources/subscribe", {"uri": f"x://y/{path}"})
        before = dict(counts)
        await until(lambda: counts["a"] > before["a"] + 2 and counts["b"] > before["b"] + 2)


async def test_a_client_lists_reads_searches_and_completes_the_documents() -> None:
    async with client(notes(), base="notes://x/", revision="2025-11-25") as connected:
        listed = await connected.request("resources/list", {})
        assert len(listed["resources"]) == 3 + len(TEXTS)
        assert listed["resources"][0]["description"] == "Notes by day."
        read = await connected.request("resources/read", {"uri": "notes://x/2026/01/first.md"})
        assert (read["contents"][0]["text"], read["contents"][0]["mimeType"]) == (
            "Grüße",
            "text/markdown",
        )
        asked = {"name": "search_resources", "arguments": {"query": "Grüße"}}
        assert "first.md" in json.dumps(await connected.request("tools/call", asked))
        ref = {"type": "ref/resource", "uri": "notes://x/{+path}"}
        typed = {"ref": ref, "argument": {"name": "path", "value": "2026/0"}}
        done = await connected.request("completion/complete", typed)
        assert done["completion"]["values"] == ["2026/01/"]


async def test_a_template_calls_the_function_with_its_variables_and_options() -> None:
    calls: list[int] = []

    @template("issues/{number}.json")
    def counted(number: int, *, limit: int = 5) -> dict[str, int] | None:
        calls.append(number)
        return {"number": number} if number < limit else None

    async with client(counted(limit=8), base="x://y/") as connected:
        read = await connected.request("resources/read", {"uri": "x://y/issues/7.json"})
        assert json.loads(read["contents"][0]["text"]) == {"number": 7}
        assert calls == [7]
        for absent in ("issues/8.json", "issues/007.json", "issues/x.json", "issues/7.xml", "7"):
            with pytest.raises(ErrorReply, match="not found"):
                await connected.request("resources/read", {"uri": f"x://y/{absent}"})
        assert {*calls} == {7, 8}
        listed = await connected.request("resources/templates/list", {})
        assert listed["resourceTemplates"][0]["uriTemplate"] == "x://y/issues/{number}.json"


class Source:
    """Documents that a test changes, with a failure on request."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {"a": "1", "b/c": "1"}
        self.error: BaseException | None = None
        self.called_at: list[float] = []
        self.released = threading.Event()
        self.released.set()

    def load(self) -> dict[str, str]:
        self.called_at.append(time.monotonic())
        self.released.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return dict(self.texts)

    @property
    def calls(self) -> int:
        return len(self.called_at)

    def provider(self, refresh: float | None = 0.02) -> FunctionProvider:
        return documents(refresh=refresh)(self.load)()


async def test_a_change_of_the_function_is_reported_to_subscribers_and_listings() -> None:
    source = Source()

    def change() -> tuple[str, ...]:
        source.texts["b/c"] = source.texts["b/c"] + "!"
        return ("b", "c")

    await check_provider(source.provider(), make_change=change)
    told: list[str] = []
    async with client(
        source.provider(), base="x://y/", on_notification=lambda each: told.append(each["method"])
    ) as connected:
        await connected.request("resources/subscribe", {"uri": "x://y/b/c"})
        source.texts["b/d"] = "new"
        await until(lambda: "notifications/resources/list_changed" in told)
        change()
        await until(lambda: "notifications/resources/updated" in told)


async def test_nothing_is_called_while_nobody_asks_or_watches() -> None:
    source = Source()
    async with client(source.provider(), base="x://y/") as connected:
        await connected.request("resources/subscribe", {"uri": "x://y/a"})
        before = source.calls
        await until(lambda: source.calls > before + 2)
        await connected.request("resources/unsubscribe", {"uri": "x://y/a"})
        await steady(lambda: source.calls, 0.1)
        before = source.calls
        await quiet_for(0.1)
        assert source.calls == before
    once = source.provider(refresh=None)
    assert once.watch == "off"
    async with once:
        before = source.calls
        await once.metadata(("a",))
        assert source.calls == before


async def test_after_a_failure_the_last_documents_are_served_and_attempts_become_rare(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source()
    async with source.provider(refresh=0.01) as provider:
        source.error = ValueError("password=geheim")
        loaded = source.calls
        while source.calls < loaded + 5:
            assert (await provider.read(("a",), {}))[0].data == "1"
            await pause(0.002)
        gaps = [after - before for before, after in pairwise(source.called_at[loaded:])]
        assert all(gap >= 0.01 * 2**number for number, gap in enumerate(gaps)), gaps
        [*_, record] = caplog.records
        assert record.levelno == logging.WARNING
        assert "load: the last documents are served on" in record.getMessage()
        assert f"ValueError in line {Source.load.__code__.co_firstlineno + 4}" in caplog.text
        assert "geheim" not in caplog.text
        assert "stale_since" in ((await provider.metadata(())).details or {})
        source.error, source.texts["a"] = None, "2"
        await until(lambda: time.monotonic() >= provider.due)
        await provider.read(("a",), {})
        await until(lambda: provider.refreshing is None)
        assert (await provider.read(("a",), {}))[0].data == "2"
        assert (await provider.metadata(())).details is None


async def test_unusable_documents_of_a_refresh_do_not_replace_the_last_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source()
    async with source.provider(refresh=0.01) as provider:
        source.texts["../x"] = ""
        await until(lambda: time.monotonic() >= provider.due)
        assert [each.name for each in await provider.list((), after=None, limit=9)] == ["a", "b"]
        await until(lambda: provider.refreshing is None)
        assert "'../x': no segment of a path is empty" in caplog.text


async def test_a_mount_whose_function_fails_at_the_start_says_so_and_serves_later() -> None:
    source = Source()
    for error in (OSError("/secret"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()):
        source.error = error
        expected = f"^load raised {type(error).__name__} in line "
        with pytest.raises(MountUnavailable, match=expected) as caught:
            await source.provider().__aenter__()
        assert "secret" not in str(caught.value)
    source.error = MountUnavailable("the feed asks for a token")
    with pytest.raises(MountUnavailable, match=r"^load: the feed asks for a token$"):
        await source.provider().__aenter__()

    async def leave() -> Mapping[str, str]:
        raise SystemExit(3)

    with pytest.raises(MountUnavailable, match=r"^leave raised SystemExit"):
        await documents(leave)().__aenter__()
    source.error = None
    async with source.provider() as provider:
        assert (await provider.metadata(("a",))).size == 1


async def test_a_slow_function_blocks_neither_the_loop_nor_requests() -> None:
    source = Source()
    async with source.provider(refresh=0.05) as provider:
        source.released.clear()
        calls = source.calls
        await until(lambda: time.monotonic() >= provider.due)
        try:
            reads = [provider.read(("a",), {}) for _ in range(20)]
            assert all(found[0].data == "1" for found in await asyncio.gather(*reads))
            assert provider.refreshing is not None, "the function still waits"
            await until(lambda: source.calls > calls)
            assert source.calls == calls + 1
        finally:
            source.released.set()


async def test_the_next_start_waits_for_the_call_of_a_cancelled_one() -> None:
    source = Source()
    source.released.clear()
    provider = source.provider()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await provider.__aenter__()
    source.released.set()
    async with provider:
        assert source.calls == 1


async def test_a_failing_function_of_a_template_fails_the_request_only() -> None:
    @template("{name}")
    def broken(name: str) -> str:
        if name == "absent":
            raise ResourceNotFound
        raise ValueError("geheim")

    provider = broken()
    with pytest.raises(MountUnavailable, match=r"^broken raised ValueError in line \d+$"):
        await provider.read(("x",), {})
    with pytest.raises(ResourceNotFound):
        await provider.read(("absent",), {})


MODULE = '''
from __future__ import annotations
import pathlib
from typing import TYPE_CHECKING, Annotated, Literal
import msgspec
from resource_server.provider.simple import documents
if TYPE_CHECKING:
    from collections.abc import Mapping

def load(
    folder: pathlib.Path,
    order: Literal["new", "old"] = "new",
    limit: Annotated[int, msgspec.Meta(ge=1)] = 9,
) -> Mapping[str, str]:
    """Notes of a folder."""
    return {"folder": str(folder), "order": order, "limit": str(limit)}

notes = documents(load)
'''


def loaded(folder: pathlib.Path, options: str) -> Any:
    (folder / "feed.py").write_text(MODULE, "utf-8")
    text = f"providers: {{feed: {{use: feed.py, {options}}}}}"
    (folder / "mcp-resources.yaml").write_text(text, "utf-8")
    manifest = plugins.find_with_plugins(str(folder))
    return plugins.load_provider(manifest.mounts[0], manifest)


async def test_parameters_are_options_of_the_manifest(tmp_path: pathlib.Path) -> None:
    async with loaded(tmp_path, "folder: data, limit: 3") as provider:
        found = {
            each.name: (await provider.read(each.path, {}))[0].data
            for each in await provider.list((), after=None, limit=9)
        }
    assert found == {"folder": str(tmp_path / "data"), "order": "new", "limit": "3"}


def test_options_that_a_function_does_not_take_are_refused(tmp_path: pathlib.Path) -> None:
    for options, message in (
        ("limit: 3", "option 'folder' is missing"),
        ("folder: x, limit: 0", "expected 1 or more, found the number 0"),
        ("folder: x, order: odd", "expected one of new, old, found 'odd'; did you mean 'old'?"),
        ("folder: x, limt: 1", "unknown option; did you mean 'limit'?"),
    ):
        with pytest.raises(ManifestError, match="feed") as caught:
            loaded(tmp_path, options)
        assert [each.message for each in caught.value.diagnostics] == [message]


def test_an_installed_function_has_its_options_in_the_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @documents
    def feed(order: Literal["new", "old"], limit: Annotated[int, msgspec.Meta(ge=1)] = 9) -> Any:
        """Records of a feed."""
        return {order: str(limit)}

    class Entry:
        value = "feed"

        def load(self) -> object:
            return feed

    monkeypatch.setattr(
        "resource_server.manifest.provider_references.installed", lambda: {"feed": Entry()}
    )
    found = manifest_schema()["$defs"]["provider-feed"]
    assert (found["description"], found["required"]) == ("Records of a feed.", ["order"])
    assert found["properties"]["limit"]["default"] == 9


def function_of(parameter: str) -> Callable[..., Any]:
    """Return a function with one untyped parameter."""
    return eval(f"lambda {parameter}: {{}}")  # noqa: S307 - written above


def test_functions_that_cannot_be_providers_are_refused_at_once() -> None:
    def nothing() -> Any: ...

    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"refresh is .*; write a number of seconds above 0"):
            documents(refresh=wrong)
    with pytest.raises(TypeError, match=r"parameter '\*names' of <lambda> cannot be an option"):
        documents(function_of("*names"))
    with pytest.raises(TypeError, match="parameter 'uri' of <lambda> is an option of every mount"):
        documents(function_of("uri"))
    with pytest.raises(TypeError, match="parameter '_x' of <lambda> is private"):
        documents(function_of("_x"))
    with pytest.raises(TypeError, match="the function has no parameter 'number'"):
        template("issues/{number}")(nothing)
    with pytest.raises(ValueError, match="without a slash at either end"):
        document("/today.md")
    for text in ("issues", "{+path}", "{a}{b}", "a/{b"):
        with pytest.raises(ValueError, match=r"variable|template"):
            template(text)

    def wrong_type(number: float) -> Any:
        return number

    with pytest.raises(TypeError, match="its type is str or int"):
        template("{number}")(wrong_type)


def test_the_options_of_every_mount_are_those_of_the_manifest() -> None:
    assert {*options_of(MountOptions), "use"} == MOUNT_OPTIONS


def test_the_contract_is_imported_without_the_simple_form() -> None:
    code = "import sys, resource_server.provider; print('anyio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_made_classes_have_the_words_of_their_functions() -> None:
    made: Any = notes
    assert issubclass(made, FunctionProvider)
    assert (made.__name__, made.__doc__, made.__module__) == ("notes", "Notes by day.", __name__)
    templated: Any = issue
    assert issubclass(templated, TemplateProvider)
