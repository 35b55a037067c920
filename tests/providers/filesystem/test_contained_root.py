from __future__ import annotations

import errno
import gc
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resource_server.errors import (
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
)
from resource_server.providers.filesystem.contained_root import (
    ContainedRoot,
    ResolverName,
    resource_error,
)
from tests.cases import for_each

OpenRoot = Callable[..., ContainedRoot]


@pytest.fixture(params=["openat2", "walk"])
def resolver(request: pytest.FixtureRequest) -> ResolverName:
    try:
        ContainedRoot(".", resolver=request.param)
    except NotImplementedError as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A root `shop` with a file and a folder in it, beside what nobody may read."""
    (tmp_path / "shop" / "docs").mkdir(parents=True)
    (tmp_path / "shop" / "docs" / "a.txt").write_text("inside")
    (tmp_path / "shop_private").mkdir()
    (tmp_path / "shop_private" / "key").write_text("secret")
    (tmp_path / "key").write_text("secret")
    return tmp_path / "shop"


@pytest.fixture
def root(folder: Path, resolver: ResolverName) -> Iterator[ContainedRoot]:
    root = ContainedRoot(folder, resolver=resolver)
    yield root
    root.close()


def content(root: ContainedRoot, *path: str) -> str:
    fd, _ = root.open_file(path)
    try:
        return os.read(fd, 100).decode()
    finally:
        os.close(fd)


def names(root: ContainedRoot, *path: str) -> list[str]:
    fd, _ = root.open_directory(path)
    try:
        with os.scandir(fd) as entries:
            return sorted(entry.name for entry in entries)
    finally:
        os.close(fd)


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def is_absent(root: ContainedRoot, *path: str) -> bool:
    """Whether every way of opening says not found."""
    for ask in (root.open_file, root.open_directory, root.open, root.stat):
        try:
            answer = ask(path)
        except ResourceNotFound:
            continue
        if isinstance(answer, int):
            os.close(answer)
        return False
    return True


# --- what is there


def test_a_file_is_opened_with_its_status(root: ContainedRoot) -> None:
    fd, status = root.open_file(("docs", "a.txt"))
    assert os.read(fd, 100) == b"inside"
    assert status.st_size == 6
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_a_folder_is_opened_for_listing(root: ContainedRoot) -> None:
    assert names(root, "docs") == ["a.txt"]


def test_the_root_itself_is_opened_for_listing(root: ContainedRoot) -> None:
    assert names(root) == ["docs"]
    assert stat.S_ISDIR(root.stat(()).st_mode)


def test_a_file_with_a_known_status_is_opened(root: ContainedRoot) -> None:
    fd, _ = root.open_file(("docs", "a.txt"), status=root.stat(("docs", "a.txt")))
    os.close(fd)


def test_a_cached_file_is_opened_without_waiting(root: ContainedRoot) -> None:
    root.stat(("docs", "a.txt"))
    fd, _ = root.open_file(("docs", "a.txt"), cached=True)
    os.close(fd)


def test_a_missing_file_is_never_opened_as_cached(root: ContainedRoot) -> None:
    with pytest.raises((ResourceNotFound, BlockingIOError)):
        root.open_file(("docs", "b.txt"), cached=True)


def test_a_missing_file_is_not_found(root: ContainedRoot) -> None:
    assert is_absent(root, "docs", "b.txt")
    assert is_absent(root, "nowhere", "b.txt")


def test_a_folder_cannot_be_opened_as_a_file_but_has_a_status(root: ContainedRoot) -> None:
    with pytest.raises(ResourceNotFound):
        root.open_file(("docs",))
    assert stat.S_ISDIR(root.stat(("docs",)).st_mode)


def test_a_file_is_not_a_collection(root: ContainedRoot) -> None:
    with pytest.raises(NotACollection):
        root.open_directory(("docs", "a.txt"))


def test_a_file_in_the_middle_of_a_path_is_not_found(root: ContainedRoot) -> None:
    assert is_absent(root, "docs", "a.txt", "b")


@pytest.mark.guarantee("closed-by-the-kernel")
@pytest.mark.parametrize(
    "name",
    [
        "a b.txt",
        'it\'s "quoted".txt',
        "line\nbreak",
        "100%41.txt",
        "#?&;$(x)",
        "\u202eexe.txt",
        "\U0001f600",
        "..a",
        "...",
        "~",
        "a\\b",
        "C:",
        os.fsdecode(b"caf\xe9"),
        "n" * 255,
    ],
)
def test_any_valid_file_name_can_be_opened(root: ContainedRoot, folder: Path, name: str) -> None:
    (folder / name).write_text("here")
    assert content(root, name) == "here"


@pytest.mark.parametrize("name", ["n" * 256, "\ud800", "n" * 5000], ids=["256", "lone", "5000"])
def test_a_name_that_no_file_can_have_is_not_found(root: ContainedRoot, name: str) -> None:
    assert is_absent(root, name)
    assert is_absent(root, name, "a.txt")


def test_a_file_deeper_than_the_longest_path_is_opened(
    root: ContainedRoot, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ("d" * 200,) * 30
    monkeypatch.chdir(folder)  # no absolute path reaches that deep
    for name in path:
        Path(name).mkdir()
        os.chdir(name)
    Path("deep.txt").write_text("deep")
    assert content(root, *path, "deep.txt") == "deep"
    assert names(root, *path) == ["deep.txt"]
    assert is_absent(root, *path, "shallow.txt")


# --- traversal


@pytest.mark.guarantee("closed-by-the-kernel")
@pytest.mark.parametrize(
    "path",
    [
        ("..", "key"),
        ("docs", "..", "docs", "a.txt"),
        ("docs", "..", "..", "key"),
        ("../key",),
        ("docs/a.txt",),
        ("docs", "../docs/a.txt"),
        ("docs", "."),
        (".",),
        ("..",),
        ("",),
        ("docs", "", "a.txt"),
        ("docs", "a.txt", ""),
        ("/etc/passwd",),
        ("", "etc", "passwd"),
        ("..", "shop_private", "key"),
        ("_private", "key"),
        ("~root",),
        ("%2e%2e", "key"),
        ("%2e%2e%2fkey",),
        ("..%2fkey",),
        ("..\\key",),
        ("docs\\a.txt",),
        ("\uff0e\uff0e", "key"),
        ("\udcc0\udcae\udcc0\udcae", "key"),
        ("C:", "key"),
        ("\\\\server\\share",),
        ("docs", "a.txt\0"),
        ("docs", "a.txt\0.png"),
        ("docs\0", "a.txt"),
        ("\0",),
    ],
)
def test_a_malformed_or_escaping_path_is_not_found(
    root: ContainedRoot, path: tuple[str, ...]
) -> None:
    assert is_absent(root, *path)
    assert content(root, "docs", "a.txt") == "inside"


@pytest.mark.guarantee("nothing-is-written")
def test_files_are_never_opened_for_writing(root: ContainedRoot) -> None:
    fd = root.open(("docs", "a.txt"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(fd, b"x")
    os.close(fd)


# --- symbolic links

LINKS = {
    "file": "docs/a.txt",
    "folder": "docs",
    "up-and-back": "docs/../docs/./a.txt",
    "chain": "file",
    "docs/up": "../docs/a.txt",
    "here": ".",
    "slash": "docs/",
}
OUTSIDE = {
    "parent": "../key",
    "parent-folder": "..",
    "absolute": "/etc/hostname",
    "root": "/",
    "dangling": "nowhere",
    "loop": "loop",
    "ping": "pong",
    "pong": "ping",
    "chain-out": "parent",
    "docs/up-twice": "../../key",
    "sibling": "../shop_private/key",
    "out-and-in": "../shop/docs/a.txt",
    "slash-on-file": "docs/a.txt/",
}


def link(folder: Path, links: dict[str, str]) -> None:
    for name, target in links.items():
        (folder / name).symlink_to(target)


@pytest.mark.guarantee("links-stay-inside")
@pytest.mark.parametrize("name", [*LINKS, *OUTSIDE])
def test_a_link_is_not_opened_where_links_are_denied(
    root: ContainedRoot, folder: Path, name: str
) -> None:
    link(folder, LINKS | OUTSIDE)
    path = tuple(name.split("/"))
    for ask in (root.open_file, root.open_directory, root.open):
        with pytest.raises(ResourceNotFound):
            ask(path)
    assert stat.S_ISLNK(root.stat(path).st_mode)
    assert is_absent(root, *path, "a.txt")
    assert is_absent(root, *path, "key")
    assert content(root, "docs", "a.txt") == "inside"


@pytest.mark.guarantee("closed-by-the-kernel")
@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="no /proc")
def test_magic_links_of_proc_are_never_followed(resolver: ResolverName) -> None:
    root = ContainedRoot("/proc/self", resolver=resolver)
    for path in (("root",), ("root", "etc", "passwd"), ("cwd",), ("exe",), ("fd", "0")):
        with pytest.raises(ResourceNotFound):
            root.open(path)
    assert content(root, "comm")


def test_a_root_that_is_itself_a_link_is_served(folder: Path, resolver: ResolverName) -> None:
    (folder.parent / "alias").symlink_to(folder)
    assert (
        content(ContainedRoot(folder.parent / "alias", resolver=resolver), "docs", "a.txt")
        == "inside"
    )


def test_the_whole_file_system_can_be_a_root(folder: Path, resolver: ResolverName) -> None:
    root = ContainedRoot("/", resolver=resolver)
    path = (folder / "docs" / "a.txt").resolve().parts[1:]
    assert content(root, *path) == "inside"
    assert is_absent(root, "..", *path)


SWAP = """
import os
while True:
    for name in ("real", "out"):
        os.rename(name, "door")
        os.rename("door", name)
"""


@pytest.mark.guarantee("closed-by-the-kernel")
def test_swapping_a_folder_for_a_link_never_escapes_the_root(
    folder: Path, resolver: ResolverName
) -> None:
    root = ContainedRoot(folder, resolver=resolver)
    (folder / "real").mkdir()
    (folder / "real" / "key").write_text("inside")
    (folder / "out").symlink_to("../shop_private")
    swapping = subprocess.Popen([sys.executable, "-c", SWAP], cwd=folder, stdin=subprocess.PIPE)
    seen: dict[str, int] = {}
    try:
        end = time.monotonic() + 0.5
        while time.monotonic() < end or (not seen.get("inside") and time.monotonic() < end + 20):
            try:
                answer = content(root, "door", "key")
            except ResourceNotFound:
                answer = "absent"
            seen[answer] = seen.get(answer, 0) + 1
    finally:
        swapping.kill()
        swapping.communicate()
    assert seen["inside"]
    assert set(seen) <= {"inside", "absent"}


# --- neither files nor folders


@pytest.mark.guarantee("regular-files-only")
def test_a_fifo_is_not_found_without_blocking(root: ContainedRoot, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for ask in (root.open_file, root.open_directory):
        with pytest.raises(ResourceNotFound):
            ask(("pipe",))
    with pytest.raises(ResourceNotFound):
        root.open_file(("pipe",), status=root.stat(("docs", "a.txt")))


@pytest.mark.guarantee("regular-files-only")
def test_a_socket_is_not_found(
    root: ContainedRoot, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for ask in (root.open_file, root.open_directory, root.open):
            with pytest.raises(ResourceNotFound):
                ask(("socket",))


@pytest.mark.guarantee("regular-files-only")
def test_a_device_is_not_found(resolver: ResolverName) -> None:
    root = ContainedRoot("/dev", resolver=resolver)
    for ask in (root.open_file, root.open_directory):
        with pytest.raises(ResourceNotFound):
            ask(("null",))
    assert stat.S_ISCHR(root.stat(("null",)).st_mode)


@pytest.mark.guarantee("regular-files-only")
def test_a_device_is_checked_before_it_is_opened() -> None:
    code = (
        "import sys\n"
        "from resource_server.providers.filesystem.contained_root import ContainedRoot\n"
        "opened = []; root = ContainedRoot('/dev', resolver='walk')\n"
        "sys.addaudithook(lambda event, about: event == 'open' and opened.append(about[0]))\n"
        "try: root.open_file(('null',))\n"
        "except Exception as error: print(type(error).__name__, opened)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "ResourceNotFound ['/dev']\n"


@pytest.mark.guarantee("refusal-looks-like-absence")
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_not_found(root: ContainedRoot, folder: Path) -> None:
    (folder / "docs" / "a.txt").chmod(0)
    with pytest.raises(ResourceNotFound):
        root.open_file(("docs", "a.txt"))
    (folder / "docs" / "a.txt").chmod(0o600)
    assert content(root, "docs", "a.txt") == "inside"


# --- errors


def test_running_out_of_descriptors_is_busy(root: ContainedRoot) -> None:
    resource = pytest.importorskip("resource")
    root.stat(("docs", "a.txt"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(ResourceBusy):
            root.open_file(("docs", "a.txt"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert content(root, "docs", "a.txt") == "inside"


@pytest.mark.guarantee("refusal-looks-like-absence")
@for_each("code", sorted(errno.errorcode))
def test_system_errors_are_not_found_or_busy_without_a_path(code: int) -> None:
    answer = resource_error(OSError(code, "text", "/srv/secret/place"))
    assert isinstance(answer, ResourceNotFound | ResourceBusy)
    assert "secret" not in str(answer)


def test_a_failing_disk_is_logged_for_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    resource_error(OSError(errno.EIO, "text", "/srv/secret/place"))
    assert "input/output error" in caplog.text
    assert "secret" not in caplog.text


def test_refused_opens_leave_no_descriptor_behind(root: ContainedRoot, folder: Path) -> None:
    link(folder, LINKS | OUTSIDE)
    os.mkfifo(folder / "pipe")
    paths = [("docs",), ("docs", "no"), ("docs", "up-twice"), ("here", "folder", "no"), ("pipe",)]
    root.stat(())
    gc.collect()
    before = descriptors()
    with pytest.raises(ResourceNotFound):
        root.open_file(("pipe",), status=root.stat(("docs", "a.txt")))
    for path in paths:
        for ask in (root.open_file, root.open_directory):
            try:
                fd, _ = ask(path)
            except (ResourceNotFound, NotACollection):
                continue
            os.close(fd)
    assert descriptors() == before


# --- a root that comes and goes


def test_a_deleted_root_is_not_found_until_it_is_recreated(
    root: ContainedRoot, folder: Path
) -> None:
    assert content(root, "docs", "a.txt") == "inside"
    shutil.rmtree(folder)
    assert is_absent(root)
    assert is_absent(root, "docs", "a.txt")
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a.txt").write_text("again")
    assert content(root, "docs", "a.txt") == "again"


def test_a_replaced_root_is_served_from_the_new_folder(root: ContainedRoot, folder: Path) -> None:
    assert content(root, "docs", "a.txt") == "inside"
    (folder.parent / "next" / "docs").mkdir(parents=True)
    (folder.parent / "next" / "docs" / "a.txt").write_text("new")
    folder.rename(folder.parent / "old")
    (folder.parent / "next").rename(folder)
    assert content(root, "docs", "a.txt") == "new"


def test_a_root_that_became_a_file_is_not_found(root: ContainedRoot, folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")
    assert is_absent(root)


def test_a_closed_root_has_no_descriptor_and_can_be_reopened(root: ContainedRoot) -> None:
    before = descriptors()
    root.stat(())
    assert descriptors() == before + 1
    root.close()
    assert descriptors() == before
    assert content(root, "docs", "a.txt") == "inside"


def test_threads_reading_during_a_root_replacement_see_one_consistent_root(
    folder: Path, resolver: ResolverName
) -> None:
    root = ContainedRoot(folder, resolver=resolver)
    (folder / "key").write_text("inside")
    (folder.parent / "b").mkdir()
    (folder.parent / "b" / "key").write_text("inside")
    stop = threading.Event()
    seen: set[str] = set()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                try:
                    seen.add(content(root, "key"))
                except ResourceNotFound:
                    seen.add("absent")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        folder.rename(folder.parent / "a")
        (folder.parent / "b").rename(folder)
        root.close()
        folder.rename(folder.parent / "b")
        (folder.parent / "a").rename(folder)
        # Takes the numbers of descriptors that were closed too early.
        os.close(os.open(folder.parent, os.O_RDONLY))
    stop.set()
    for thread in threads:
        thread.join(10)
    assert not failures
    assert seen <= {"inside", "absent"}


# --- check


def test_a_root_that_can_be_served_passes_the_check(root: ContainedRoot) -> None:
    root.check()


def test_the_check_names_a_missing_folder(folder: Path) -> None:
    with pytest.raises(MountUnavailable, match="nowhere' does not exist"):
        ContainedRoot(folder / "nowhere").check()


def test_the_check_reports_a_file_instead_of_a_folder(folder: Path) -> None:
    with pytest.raises(MountUnavailable, match=r"a\.txt' is not a folder"):
        ContainedRoot(folder / "docs" / "a.txt").check()


def test_the_check_refuses_a_path_invalid_for_system_calls() -> None:
    with pytest.raises(MountUnavailable, match="cannot be reached"):
        ContainedRoot("a\0b").check()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_the_check_reports_a_missing_permission(root: ContainedRoot, folder: Path) -> None:
    folder.chmod(0)
    try:
        with pytest.raises(MountUnavailable, match="cannot be listed"):
            root.check()
    finally:
        folder.chmod(0o700)
