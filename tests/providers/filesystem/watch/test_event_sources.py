from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.providers.filesystem import Filesystem
from resource_server.subscriptions.broker import Broker
from tests.listeners import (
    EVENTS,
    IMPATIENT,
    LIST,
    Folder,
    Recorder,
    mounted,
    uri_of,
    watched,
)

pytestmark = pytest.mark.anyio


inotify_only = pytest.mark.skipif(sys.platform != "linux", reason="Linux has inotify")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def folder(root: Path) -> Folder:
    """A folder with `a.txt`, `b.txt`, `sub/c.txt` and `sub/deep/d.txt`."""
    folder = Folder(root)
    for name in ("a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"):
        folder.write(name, f"body of {name}")
    return folder


async def test_any_name_is_watched(folder: Folder) -> None:
    names = ["sp ace", "naïve-ü", "🎉.txt", "new\nline", "%2e%2e", "a?b#c", "é" * 120]
    files = [f"{name}/{name}" for name in names]
    for file in files:
        folder.write(file, "first")
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow(*files, *names)
        for file in files:
            folder.write(file, "second, longer")
        await scene.tells(*files, *names)


@inotify_only
async def test_a_name_that_is_not_utf_8_is_watched(folder: Folder) -> None:
    name = os.fsdecode(b"caf\xe9")
    folder.write(f"{name}/{name}", "first")
    async with watched(folder.root) as scene:
        await scene.follow(f"{name}/{name}", name)
        folder.write(f"{name}/{name}", "second, longer")
        await scene.tells(f"{name}/{name}", name)
        folder.write(f"{name}/{name}2")
        await scene.tells(name, LIST)


async def test_a_name_that_is_not_utf_8_does_not_stop_the_watch(folder: Folder) -> None:
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow("a.txt")
        folder.write(os.fsdecode(b"caf\xe9"))
        folder.write("a.txt", "other")
        await scene.of("a.txt", LIST)
        await scene.quiet()
        folder.write("a.txt", "and another")
        await scene.of("a.txt")


async def test_mounts_of_one_folder_are_notified_independently(
    folder: Folder,
) -> None:
    names = {"one": "sub/c.txt", "two": "sub/c.txt", "three": "c.txt"}
    roots = (folder.root, folder.root, folder.at("sub"))
    mounts = [mounted(Filesystem(path), name) for name, path in zip(names, roots, strict=True)]
    hub = Broker(Catalog(mounts), IMPATIENT)
    recorder = Recorder(names_mounts=True)
    try:
        for name, path in names.items():
            await hub.subscribe(uri_of(path, f"test://{name}/"), recorder)
        folder.write("sub/c.txt", "other")
        await recorder.of("one/sub/c.txt", "two/sub/c.txt", "three/c.txt")
        hub.unsubscribe("test://two/sub/c.txt", recorder)
        await recorder.quiet()
        folder.write("sub/c.txt", "another")
        await recorder.of("one/sub/c.txt", "three/c.txt")
        assert set(await recorder.quiet()) == {"one/sub/c.txt", "three/c.txt"}
        hub.replace_catalog(Catalog(mounts[2:]), relist=False)
        await recorder.of("one/sub/c.txt")
        await recorder.quiet()
        folder.write("sub/c.txt", "yet another")
        await recorder.of("three/c.txt")
        assert set(await recorder.quiet()) == {"three/c.txt"}
    finally:
        await hub.close()
