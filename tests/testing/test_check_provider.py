from __future__ import annotations

from pathlib import Path as FilePath
from typing import Self

import anyio.lowlevel
import pytest

from resource_server.errors import (
    MountUnavailable,
)
from resource_server.provider import (
    Path,
    Provider,
    Resource,
    SupportsCheck,
    SupportsComplete,
    SupportsFetch,
    SupportsLevels,
)
from resource_server.provider.tools import ToolRequest as ToolRequest
from resource_server.providers.filesystem import Filesystem
from resource_server.testing import ErrorReply, ProviderViolations, check_provider, client
from tests.cases import for_each
from tests.testing.shelf import Shelf

pytestmark = pytest.mark.anyio


_: type[Provider] = Shelf


_completes: type[SupportsComplete] = Shelf


_levels: type[SupportsLevels] = Shelf


_fetches: type[SupportsFetch] = Shelf


_checks: type[SupportsCheck] = Shelf


class OnlyEnters(Shelf):
    async def __aenter__(self) -> Self:
        return self


class Mixes(Shelf):
    """Keeps the path of a call where another call overwrites it."""

    async def metadata(self, path: Path) -> Resource:
        self.path = path
        await anyio.lowlevel.checkpoint()
        return await super().metadata(self.path)


class DiesOnLeaving(Shelf):
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.items = {}


BROKEN: list[tuple[type[Shelf], str]] = [
    (OnlyEnters, "an async context manager has both __aenter__ and __aexit__"),
    (Mixes, "methods can run concurrently"),
    (DiesOnLeaving, "a provider can be entered again"),
]


@for_each(("broken", "rule"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
async def test_each_broken_rule_is_reported(broken: type[Shelf], rule: str) -> None:
    with pytest.raises(ProviderViolations) as caught:
        await check_provider(broken())
    assert any(sentence.startswith(rule) for sentence in caught.value.violations), caught.value


async def test_a_provider_that_keeps_the_contract_passes() -> None:
    await check_provider(Shelf())


async def test_the_check_is_bounded_on_a_large_provider() -> None:
    large = Shelf({(f"{n:05}",): "x" for n in range(3000)})
    await check_provider(large, max_resources=50)
    assert large.calls < 600


async def test_an_unavailable_provider_raises_its_own_error() -> None:
    class Away(Shelf):
        async def __aenter__(self) -> Self:
            raise MountUnavailable("gone")

        async def __aexit__(self, *_: object) -> None:
            pass

    with pytest.raises(MountUnavailable, match="gone"):
        await check_provider(Away())


async def test_the_test_client_gets_the_same_responses_as_any_client() -> None:
    async with client(Shelf(), base="shelf://books/") as connected:
        read = await connected.request("resources/read", {"uri": "shelf://books/a/b/deep"})
        assert read["contents"][0]["text"] == "deep"
        with pytest.raises(ErrorReply, match="not found"):
            await connected.request("resources/read", {"uri": "shelf://books/none"})


async def test_the_file_system_provider_keeps_the_contract(tmp_path: FilePath) -> None:
    for name, data in {
        "README.md": b"# Read me\n",
        "src/app.py": b"print('hi')\n",
        "src/deep/er/file.json": b"{}",
        "data/empty.csv": b"",
        "data/bytes.bin": bytes(range(256)),
        "data/utf-16.txt": "Grüße".encode("utf-16"),
        "data/bom.txt": b"\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe",
        "data/latin.txt": b"Gr\xfc\xdfe",
        "data/large.log": b"line\n" * 5000,
        "odd/ü #?%\n.txt": b"odd",
        "ignored/x.txt": b"x",
        ".gitignore": b"ignored/\n",
        ".env": b"SECRET=1",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (tmp_path / "empty").mkdir()

    def make_change() -> Path:
        (tmp_path / "src/deep/er/file.json").write_bytes(b"[]")
        return ("src", "deep", "er", "file.json")

    await check_provider(Filesystem(path=tmp_path), make_change=make_change)
