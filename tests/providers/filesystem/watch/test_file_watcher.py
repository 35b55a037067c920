"""What subscribers of a folder are told when it changes, by each way of noticing."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from resource_server.providers.filesystem import file_search
from resource_server.providers.filesystem.options import DirectoryOptions, WatchMode
from tests.listeners import (
    EVENTS,
    EVERY,
    IMPATIENT,
    LIST,
    Folder,
    held,
    uri_of,
    watched,
)
from tests.waiting import PATIENCE_S, grow_old, pause, quiet_for, until

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


# -- what is in a file


async def test_a_write_notifies_of_the_file_and_its_collection_but_not_the_list(
    folder: Folder,
) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("a.txt", "b.txt", "", "sub")
        folder.write("a.txt", "more than it was")
        await scene.tells("a.txt", "")


async def test_a_write_is_reported_to_subscribers_of_the_collection_alone(
    folder: Folder,
) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("sub")
        for text in ("more than it was", "and other than it was"):
            folder.write("sub/c.txt", text)
            await scene.tells("sub")


async def test_a_change_right_after_the_subscription_is_notified(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.subscribe("sub/deep/d.txt")
        folder.write("sub/deep/d.txt", "more than it was")
        await scene.tells("sub/deep/d.txt")


CHANGES: dict[str, Callable[[Folder], object]] = {
    "append": lambda folder: folder.append("a.txt"),
    "touch": lambda folder: folder.at("a.txt").touch(),
    "in place": lambda folder: folder.write("a.txt", "other"),
    "replace": lambda folder: folder.save("a.txt", "other"),
    "visible temporary": lambda folder: folder.save("a.txt", "other", temporary="visible.tmp"),
    "many": lambda folder: [folder.append("a.txt") for _ in range(50)],
    "truncate": lambda folder: os.truncate(folder.at("a.txt"), 3),
}


@inotify_only
@pytest.mark.parametrize("change", CHANGES)
async def test_one_change_is_one_event(folder: Folder, change: str) -> None:
    async with watched(folder.root) as scene:
        grow_old(folder.root)  # what is as young as its watch is told of to be sure
        await scene.follow("a.txt", "")
        CHANGES[change](folder)
        await scene.tells_once("a.txt", "")


@pytest.mark.parametrize("temporary", [".a.txt.swp", "a.txt.tmp"])
async def test_an_atomic_save_notifies_only_of_the_file_and_its_collection(
    folder: Folder, temporary: str
) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("a.txt", "", "sub")
        folder.save("a.txt", "new", temporary=temporary)
        await scene.tells("a.txt", "")


async def test_a_save_that_keeps_a_backup_until_it_is_done_is_one_change(folder: Folder) -> None:
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow("a.txt")
        folder.move("a.txt", "a.txt~")
        folder.write("a.txt", "new")
        folder.remove("a.txt~")
        await scene.tells_once("a.txt")


@inotify_only
async def test_a_file_missing_for_a_moment_is_notified_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(folder.root, timing=replace(IMPATIENT, vanish_grace_s=0.2)) as scene:
        await scene.subscribe("a.txt", "b.txt")
        folder.remove("a.txt")
        folder.write("b.txt", "told of when it has been noticed that the other is gone")
        await scene.of("b.txt")
        folder.write("a.txt", "new")
        await scene.tells_once("a.txt")


async def test_an_open_log_is_notified_while_it_grows_and_at_its_end(
    folder: Folder,
) -> None:
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow("a.txt")
        with folder.at("a.txt").open("a", buffering=1) as log:
            for number in range(100):
                log.write(f"{number}\n")
                await pause(0.002)
            await scene.of("a.txt")
            log.write("the last line\n")
            await scene.tells_once("a.txt")


@inotify_only
async def test_an_open_log_is_not_notified_for_every_line(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(folder.root, timing=replace(IMPATIENT, notify_interval_s=0.05)) as scene:
        await scene.subscribe("a.txt")
        began = time.monotonic()
        with folder.at("a.txt").open("a", buffering=1) as log:
            for number in range(100):
                log.write(f"{number}\n")
                await pause(0.001)
        most = (time.monotonic() - began) / 0.05 + 2
        assert 2 <= len((await scene.quiet())["inotify"]) <= most


async def test_changes_below_its_children_do_not_notify_a_collection(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("")
        folder.write("sub/c.txt", "only below")
        folder.write("sub/new.txt")
        await scene.tells(LIST)


@inotify_only
async def test_a_short_lived_file_is_notified_if_it_was_listed_meanwhile(folder: Folder) -> None:
    async with watched(folder.root) as scene:
        await scene.follow()
        folder.write("sub/visible.tmp")
        folder.remove("sub/visible.tmp")
        await scene.tells_nothing()
        folder.write("sub/visible.tmp")
        page = await scene.view.catalog.list()
        assert uri_of("sub/visible.tmp") in [entry.uri for entry in page.entries]
        folder.remove("sub/visible.tmp")
        await scene.tells(LIST)


@inotify_only
async def test_changes_of_hidden_files_are_not_reported_whoever_lists_meanwhile(
    folder: Folder,
) -> None:
    folder.write(".gitignore", "*.log\n")
    async with watched(folder.root) as scene:
        await scene.follow()
        for name in (".env", "x.log", "sub/.swp"):
            await scene.view.catalog.list()
            folder.write(name)
            await scene.view.catalog.list()
            folder.remove(name)
            await scene.view.catalog.list()
        await scene.tells_nothing()


async def test_an_unreadable_file_cannot_be_subscribed_to(folder: Folder) -> None:
    options = {"sub": DirectoryOptions(readable=False)}
    async with watched(folder.root, directories=options) as scene:
        await scene.refuses("sub/b.txt")


@inotify_only
async def test_reading_a_file_is_not_a_change(folder: Folder) -> None:
    async with watched(folder.root) as scene:
        await scene.follow("a.txt", "")
        for _ in range(100):
            folder.at("a.txt").read_text()
            list(folder.at("sub").iterdir())
        await scene.tells_nothing()


@inotify_only
@pytest.mark.parametrize("option", ["inotify", "poll"])
async def test_a_permission_change_is_notified_once(folder: Folder, option: WatchMode) -> None:
    async with watched(folder.root, [option]) as scene:
        grow_old(folder.root)  # what is as young as its watch is told of to be sure
        await scene.follow("a.txt", "")
        for mode in (0o600, 0o400):
            folder.at("a.txt").chmod(mode)
            await scene.tells_once("a.txt", "")


# -- what comes and goes


async def test_creating_and_deleting_a_file_notifies_of_its_collection_and_the_list(
    folder: Folder,
) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("", "sub")
        folder.write("sub/new.txt")
        await scene.tells("sub", LIST)
        folder.remove("sub/new.txt")
        await scene.tells("sub", LIST)


async def test_a_subscribed_file_is_notified_at_each_deletion_and_recreation(
    folder: Folder,
) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("a.txt")
        for _ in range(2):
            folder.remove("a.txt")
            await scene.tells("a.txt", LIST)
            folder.write("a.txt", "back")
            await scene.tells("a.txt", LIST)
        folder.write("a.txt", "and written to")
        await scene.tells("a.txt")


async def test_a_subscription_survives_the_removal_of_its_directories(folder: Folder) -> None:
    name = "sub/deep/d.txt"
    async with watched(folder.root, EVERY) as scene:
        await scene.follow(name, "sub/deep", "sub")
        for _ in range(2):
            folder.remove("sub")
            await scene.tells(name, "sub/deep", "sub", LIST)
            folder.write(name, "back")
            await scene.tells(name, "sub/deep", "sub", LIST)
        folder.write(name, "and written to")
        await scene.tells(name, "sub/deep")


async def test_a_subscription_survives_moving_its_directory_away_and_back(
    folder: Folder, tmp_path: Path
) -> None:
    name = "sub/deep/d.txt"
    async with watched(folder.root, EVERY) as scene:
        await scene.follow(name)
        folder.move("sub", tmp_path / "away")
        await scene.tells(name, LIST)
        (tmp_path / "away/deep/d.txt").write_text("changed outside")
        await scene.tells_nothing()
        (tmp_path / "away").rename(folder.at("sub"))
        await scene.tells(name, LIST)
        folder.write(name, "and written to")
        await scene.tells(name)


async def test_a_directory_moved_within_the_root_is_notified_in_both_places(
    folder: Folder,
) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("sub/c.txt", "sub/deep/d.txt", "")
        folder.move("sub", "moved")
        await scene.tells("sub/c.txt", "sub/deep/d.txt", "", LIST)
        await scene.subscribe("moved/deep/d.txt", "moved/deep")
        folder.write("moved/deep/d.txt", "other")
        await scene.tells("moved/deep/d.txt", "moved/deep")
        folder.move("moved", "sub")
        await scene.tells("sub/c.txt", "sub/deep/d.txt", "moved/deep/d.txt", "moved/deep", "", LIST)


async def test_a_directory_replaced_by_a_file_and_back_is_notified(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("sub/c.txt", "sub")
        folder.remove("sub")
        folder.write("sub", "now a file")
        await scene.of("sub/c.txt", "sub", LIST)
        await scene.quiet()
        folder.write("sub", "now another file")
        await scene.tells("sub")
        folder.remove("sub")
        folder.write("sub/c.txt", "back")
        await scene.of("sub/c.txt", "sub", LIST)
        await scene.quiet()
        folder.write("sub/c.txt", "and written to")
        await scene.tells("sub/c.txt", "sub")


async def test_an_immediately_replaced_directory_is_notified(folder: Folder) -> None:
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow()
        folder.remove("sub/deep")
        folder.write("sub/deep/other.txt")
        await scene.tells(LIST)
        folder.write("sub/deep/another.txt")
        await scene.tells(LIST)


async def test_two_swapped_directories_are_notified(folder: Folder) -> None:
    folder.write("bus/c.txt", "body")
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow("sub/c.txt", "bus/c.txt", "bus")
        folder.move("sub", "between")
        folder.move("bus", "sub")
        folder.move("between", "bus")
        await scene.tells("sub/c.txt", "bus/c.txt", "bus", LIST)
        folder.write("bus/c.txt", "written to")
        await scene.tells("bus/c.txt", "bus")


async def test_a_file_created_with_all_its_directories_is_notified(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("a.txt")
        folder.write("x/y/z/new.txt")
        await scene.tells(LIST)
        await scene.subscribe("x/y/z/new.txt", "x/y")
        folder.write("x/y/z/new.txt", "other")
        await scene.tells("x/y/z/new.txt")
        folder.write("x/y/z/newer.txt")
        await scene.tells(LIST)


async def test_a_tree_moved_into_the_root_is_watched(folder: Folder, tmp_path: Path) -> None:
    outside = Folder(tmp_path / "outside")
    outside.write("x/y/z.txt")
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("")
        outside.move("x", folder.at("x"))
        await scene.tells("", LIST)
        folder.write("x/y/new.txt")
        await scene.tells(LIST)
        await scene.subscribe("x/y/z.txt")
        folder.write("x/y/z.txt", "other")
        await scene.tells("x/y/z.txt")


async def test_a_tree_moved_out_of_the_root_is_no_longer_watched(
    folder: Folder, tmp_path: Path
) -> None:
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow("sub/c.txt")
        folder.move("sub", tmp_path / "outside")
        await scene.tells("sub/c.txt", LIST)
        (tmp_path / "outside/c.txt").write_text("changed")
        (tmp_path / "outside/new.txt").write_text("new")
        (tmp_path / "outside/deep/new.txt").write_text("new")
        await scene.tells_nothing()


# -- the root


async def test_a_recreated_root_is_watched_again(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("a.txt", "sub/c.txt", "")
        folder.remove("")
        await scene.of("a.txt", "sub/c.txt", "", LIST)
        folder.write("a.txt", "back")
        folder.write("sub/c.txt", "back")
        await scene.of("a.txt", "sub/c.txt", "", LIST)
        folder.write("a.txt", "and written to")
        await scene.of("a.txt", "")
        folder.write("sub/new.txt")
        await scene.of(LIST)


async def test_an_immediately_recreated_root_is_watched_again(
    folder: Folder,
) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("a.txt")
        folder.remove("")
        folder.write("a.txt", "back")
        await scene.of("a.txt", LIST)
        folder.write("a.txt", "and written to")
        await scene.of("a.txt")
        folder.write("new.txt")
        await scene.of(LIST)


async def test_a_replaced_root_is_watched(folder: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    other.write("a.txt", "of the other")
    other.write("sub/c.txt", "of the other")
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("a.txt", "sub/c.txt")
        folder.root.rename(tmp_path / "before")
        other.root.rename(folder.root)
        await scene.of("a.txt", "sub/c.txt", LIST)
        folder.write("sub/c.txt", "and written to")
        await scene.of("sub/c.txt")
        (tmp_path / "before/sub/c.txt").write_text("nobody cares")
        (tmp_path / "before/new.txt").write_text("nobody cares")
        await scene.tells_nothing()


# -- what is not shown


async def test_changes_of_hidden_files_are_not_reported(folder: Folder) -> None:
    folder.write(".gitignore", "*.log\nbuild/\n")
    folder.write(".git/info/exclude", "")
    async with watched(folder.root, EVERY, exclude=("*.bak",)) as scene:
        await scene.follow("", "a.txt")
        for name in (
            ".hidden",
            ".env",
            "server.pem",
            "x.log",
            "a.txt.bak",
            "build/out.o",
            ".git/x",
        ):
            folder.write(name, "first")
            folder.write(name, "second, longer")
        await quiet_for(0.06)  # and once more, when what came has been looked at
        for name in (
            ".hidden",
            ".env",
            "server.pem",
            "x.log",
            "a.txt.bak",
            "build/out.o",
            ".git/x",
        ):
            folder.append(name)
            folder.at(name).chmod(0o600)
            folder.remove(name)
        folder.link("link", "a.txt")
        os.mkfifo(folder.at("fifo"))
        await scene.tells_nothing()


@pytest.mark.parametrize("name", [".env", "x.log", "none.txt", "sub/none", "a.txt/x", "link"])
async def test_absent_and_hidden_paths_cannot_be_subscribed_to(folder: Folder, name: str) -> None:
    folder.write(".gitignore", "*.log\n")
    folder.write(".env")
    folder.write("x.log")
    folder.link("link", "a.txt")
    async with watched(folder.root) as scene:
        await scene.refuses(name)
        await scene.subscribe("a.txt")
        folder.write("x.log", "other")
        await scene.tells_nothing()


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_changed_ignore_file_hides_and_reveals_files(
    folder: Folder, *, replaced: bool
) -> None:
    folder.write(".gitignore", "nothing\n")

    def edit(text: str) -> None:
        (folder.save if replaced else folder.write)(".gitignore", text)

    async with watched(folder.root, EVERY) as scene:
        await scene.follow("a.txt", "", "sub/deep/d.txt", "sub")
        edit("a.txt\ndeep/\n")
        await scene.tells("a.txt", "", "sub/deep/d.txt", "sub", LIST)
        folder.write("a.txt", "hidden now")
        folder.write("sub/deep/d.txt", "hidden now")
        folder.write("sub/deep/new.txt", "hidden now")
        await scene.tells_nothing()
        edit("nothing\n")
        await scene.tells("a.txt", "", "sub/deep/d.txt", "sub", LIST)
        folder.write("sub/deep/d.txt", "shown again")
        await scene.tells("sub/deep/d.txt")


async def test_a_new_or_deleted_ignore_file_hides_and_reveals_files(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow("sub/c.txt", "sub/deep/d.txt", "b.txt", "")
        folder.write("sub/.ignore", "*.txt\n")
        await scene.tells("sub/c.txt", "sub/deep/d.txt", LIST)
        folder.remove("sub/.ignore")
        await scene.tells("sub/c.txt", "sub/deep/d.txt", LIST)


@pytest.mark.parametrize("replaced", [False, True])
async def test_the_exclude_file_of_the_repository_hides_and_reveals_files(
    folder: Folder, *, replaced: bool
) -> None:
    folder.write(".git/info/exclude", "# nothing\n")
    async with watched(folder.root, EVENTS) as scene:
        await scene.follow("sub/c.txt", "a.txt")
        (folder.save if replaced else folder.write)(".git/info/exclude", "c.txt\n")
        await scene.tells("sub/c.txt", LIST)
        (folder.save if replaced else folder.write)(".git/info/exclude", "# nothing\n")
        await scene.tells("sub/c.txt", LIST)


async def test_an_unlisted_directory_notifies_only_its_subscribers(
    folder: Folder,
) -> None:
    directories = {"sub": DirectoryOptions(listed=False)}
    async with watched(folder.root, EVERY, directories=directories) as scene:
        await scene.follow("sub", "sub/deep")
        folder.write("sub/new.txt")
        folder.write("sub/deep/new.txt")
        folder.write("sub/deep/er/new.txt")
        await scene.tells("sub", "sub/deep")


async def test_changes_of_directories_that_are_not_exposed_are_not_notified(folder: Folder) -> None:
    directories = {"sub": DirectoryOptions(exposed=False)}
    async with watched(folder.root, EVENTS, directories=directories) as scene:
        await scene.follow("")
        await scene.refuses("sub/c.txt")
        folder.write("sub/new.txt")
        folder.write("sub/c.txt", "other")
        folder.remove("sub/deep")
        await scene.tells_nothing()


@inotify_only
async def test_hidden_directories_are_not_watched(folder: Folder) -> None:
    folder.write(".gitignore", "node_modules/\n")
    folder.make("node_modules/a/b/c")
    folder.make(".git/objects/ab")
    before = held()
    async with watched(folder.root) as scene:
        await scene.follow()
        # Three directories and the ignore file.
        await until(lambda: held() == before + 4)
        folder.write(".gitignore", "sub/\n")
        await scene.tells(LIST)
        # The root, `node_modules` with all below and the ignore file.
        await until(lambda: held() == before + 6)


async def test_hanging_work_in_shared_threads_does_not_delay_a_watcher(folder: Folder) -> None:
    release = threading.Event()
    threads = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(threads)
    threads.submit(release.wait)
    try:
        async with watched(folder.root, EVERY) as scene:
            await scene.follow("a.txt", "sub")
            folder.write("a.txt", "other")
            await scene.tells("a.txt")
            folder.write("sub/new.txt")
            await scene.tells("sub", LIST)
    finally:
        release.set()


@inotify_only
async def test_a_folder_is_watched_when_its_first_search_has_ended(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1000):
        folder.make(f"sub/{at}")
    begun, go_on = threading.Event(), threading.Event()
    matches = file_search.DocumentSearcher.matches

    def slowly(*given: Any) -> Any:
        begun.set()
        go_on.wait(PATIENCE_S)
        return matches(*given)

    # Patched: the folder has to be followed while a search goes on.
    monkeypatch.setattr(file_search.DocumentSearcher, "matches", slowly)
    timing = replace(IMPATIENT, watch_yield_s=PATIENCE_S, search_s=PATIENCE_S)
    before = held()
    async with watched(folder.root, timing=timing) as scene:
        searching = asyncio.create_task(scene.view.catalog.search("body", where="text"))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        scene.follow_list()
        await until(lambda: held() > before)
        await quiet_for(1)
        assert held() < before + 1000
        go_on.set()
        assert len((await searching).hits) == 4
        await until(lambda: held() > before + 1000)


async def test_an_unwatched_folder_can_be_subscribed_to(folder: Folder) -> None:
    async with watched(folder.root, ["off"]) as scene:
        await scene.follow("a.txt")
        folder.write("a.txt", "the sweep will find it")
        await scene.tells_nothing()
