from __future__ import annotations

import os
from pathlib import Path

import pytest

from resource_server.errors import ResourceBusy, ResourceNotFound
from resource_server.providers.filesystem.contained_root import ContainedRoot
from resource_server.providers.filesystem.directory import (
    Directory,
    DirectoryCache,
    DirectoryListing,
    WeightedLru,
)
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from tests.providers.filesystem.watch.descriptors import few_descriptors

LONG_AGO_NS = 1_700_000_000_123_456_789


def settle(*paths: Path) -> None:
    """Wait until a change of the paths would show in their times."""
    for path in paths:
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    newest = max(path.stat().st_ctime_ns for path in paths)
    probe = paths[0].parent / "probe"
    while True:
        probe.touch()
        if probe.stat().st_ctime_ns - newest > 50_000_000:
            break
    probe.unlink()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "sub").mkdir(parents=True)
    for name in ("b.txt", "a.log", "sub/c.log"):
        (tmp_path / "root" / name).touch()
    return tmp_path / "root"


@pytest.fixture
def directories(root: Path) -> DirectoryCache:
    return DirectoryCache(
        ContainedRoot(root), ExposureRules({}), DirectoryRules(), follow_links=False
    )


def listing(directories: DirectoryCache, directory: Directory, root: Path) -> DirectoryListing:
    fd = os.open(root / directory.prefix, os.O_RDONLY)
    try:
        return directories.listing(directory, fd)
    finally:
        os.close(fd)


def test_names_are_cached_while_nothing_changes(root: Path, directories: DirectoryCache) -> None:
    settle(root)
    first = listing(directories, directories.top(), root)
    assert first.names == ("a.log", "b.txt", "sub")
    assert first.directories == {"sub"}
    assert directories.top().listing is first


def test_a_new_name_is_visible_immediately(root: Path, directories: DirectoryCache) -> None:
    settle(root)
    listing(directories, directories.top(), root)
    (root / "new").touch()
    assert directories.top().listing is None
    assert listing(directories, directories.top(), root).names == ("a.log", "b.txt", "new", "sub")


def test_a_listing_read_within_a_tick_of_a_change_is_not_cached(
    root: Path, directories: DirectoryCache
) -> None:
    # Whole seconds: a file system that counts no finer, so a tick is two of them.
    os.utime(root, ns=(1_700_000_000_000_000_000, 1_700_000_000_000_000_000))
    listing(directories, directories.top(), root)
    assert directories.top().listing is None
    settle(root)
    listing(directories, directories.top(), root)
    assert directories.top().listing is not None


def test_without_descriptors_an_ignore_file_is_busy_and_obeyed_later(
    root: Path, directories: DirectoryCache
) -> None:
    (root / "sub" / ".gitignore").write_text("*.log")
    (root / "sub" / "d.txt").touch()
    settle(root, root / "sub", root / "sub" / ".gitignore")
    top = directories.top()
    with few_descriptors(0), pytest.raises(ResourceBusy):
        directories.enter(top, "sub", (root / "sub").stat())
    sub = directories.enter(top, "sub", (root / "sub").stat())
    assert sub is not None
    assert listing(directories, sub, root).names == ("d.txt",)


def test_a_changed_rule_is_obeyed_in_subdirectories(
    root: Path, directories: DirectoryCache
) -> None:
    (root / ".gitignore").write_text("*.txt")
    settle(root, root / "sub", root / ".gitignore")
    top = directories.top()
    sub = directories.enter(top, "sub", (root / "sub").stat())
    assert sub is not None
    assert listing(directories, sub, root).names == ("c.log",)
    # In place: neither directory's own times move.
    (root / ".gitignore").write_text("*.log")
    top = directories.top()
    sub = directories.enter(top, "sub", (root / "sub").stat())
    assert sub is not None
    assert listing(directories, sub, root).names == ()


def test_a_new_exclude_file_of_the_repository_is_obeyed(
    root: Path, directories: DirectoryCache
) -> None:
    (root / ".git/info").mkdir(parents=True)
    settle(root)
    assert "a.log" in listing(directories, directories.top(), root).names
    (root / ".git/info/exclude").write_text("*.log")
    assert "a.log" not in listing(directories, directories.top(), root).names


def test_a_new_file_leaves_the_rules_the_same_object(
    root: Path, directories: DirectoryCache
) -> None:
    (root / ".gitignore").write_text("*.log")
    settle(root, root / ".gitignore")
    scope = directories.top().rules
    (root / "new").touch()
    assert directories.top().rules is scope


def test_a_hidden_directory_is_not_entered(root: Path, directories: DirectoryCache) -> None:
    (root / ".git").mkdir()
    assert directories.enter(directories.top(), ".git", (root / ".git").stat()) is None


@pytest.mark.parametrize("path", ["missing", "a\0b", "\ud800"])
def test_a_path_that_names_nothing_is_not_found(directories: DirectoryCache, path: str) -> None:
    with pytest.raises(ResourceNotFound):
        directories.status(path)


def test_the_least_recently_used_entry_is_evicted() -> None:
    held = WeightedLru[str, int](3, lambda _: 1)
    for name, value in (("a", 1), ("b", 2), ("c", 3)):
        held.put(name, value)
    assert held.get("a") == 1
    held.put("d", 4)
    assert [held.get(name) for name in "abcd"] == [1, None, 3, 4]


def test_the_last_value_is_kept_at_any_weight() -> None:
    held = WeightedLru[str, int](3, abs)
    held.put("a", 1)
    held.put("b", 10)
    assert (held.get("a"), held.get("b")) == (None, 10)
    held.put("c", 3)
    assert (held.get("b"), held.get("c")) == (None, 3)
