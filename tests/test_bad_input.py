"""Bad input from end to end: the real command, a real folder, raw lines over its standard streams.

Every server here has to end with status 0 and nothing on standard error, but for what a test names.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from resource_server import uris
from tests.protocol.wire import CLIENT, ENVELOPE, EVERY, MODERN
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(os.name == "nt", reason="names, pipes and links of POSIX")

ROOT = Path(__file__).parent.parent
NOT_FOUND, UNREADABLE = -32002, -32013
BAD_PARAMS, INVALID, UNPARSABLE = -32602, -32600, -32700

# Root may read everything: it has to give up these capabilities (CAP_DAC_OVERRIDE and
# CAP_DAC_READ_SEARCH, by PR_CAPBSET_DROP) to be refused like anybody else.
AS_ANYBODY = """
import ctypes, os, sys
if os.geteuid() == 0 and any(ctypes.CDLL(None).prctl(24, each, 0, 0, 0) for each in (1, 2)):
    sys.exit("no right to give up rights")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class Serving:
    """A server process: raw lines in, answers out."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin, self.stdout = process.stdin, process.stdout

    def send(self, *lines: bytes) -> None:
        self.stdin.write(b"".join(line + b"\n" for line in lines))
        self.stdin.flush()

    def answer(self) -> Any:
        line = self.stdout.readline()
        assert line, "the server closed its output"
        return json.loads(line)

    def ask(self, method: str, params: object = None, id: object = 1) -> Any:
        """Return the whole answer to one request."""
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.send(json.dumps(message if params is None else {**message, "params": params}).encode())
        return self.answer()

    def result(self, method: str, **params: object) -> Any:
        """Return the result of a request that has to succeed."""
        answer = self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def code(self, method: str, **params: object) -> int:
        """Return the code of the error that a request has to be answered by."""
        answer = self.ask(method, params)
        assert "error" in answer, answer
        return answer["error"]["code"]

    def text(self, uri: str) -> str:
        (content,) = self.result("resources/read", uri=uri)["contents"]
        return content["text"]

    def listing(self, **params: object) -> list[Any]:
        """Return every page of a listing."""
        page = self.result("resources/list", **params)
        found = page["resources"]
        while "nextCursor" in page:
            page = self.result("resources/list", **params, cursor=page["nextCursor"])
            found += page["resources"]
        return found

    def initialize(self, revision: object = "2025-11-25") -> Any:
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
        return self.ask("initialize", params)


@contextmanager
def serving(
    source: Path, *, said: str | None = "", opened: bool = True, anybody: bool = False
) -> Generator[Serving]:
    """Serve `source`; at the end look at the exit status and at standard error.

    `said` is what has to be found there: nothing else, or None for any warning but a traceback.
    """
    rights = ["-c", AS_ANYBODY] if anybody else []
    with subprocess.Popen(
        [sys.executable, *rights, "-m", "resource_server", "serve", str(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        server = Serving(process)
        try:
            if opened:
                assert "result" in server.initialize()
            yield server
            with contextlib.suppress(BrokenPipeError):
                server.stdin.close()
            assert process.wait(PATIENCE_S) == 0
            assert process.stderr is not None
            errors = process.stderr.read().decode()
            assert "Traceback" not in errors
            assert said is None or errors == said
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `p` with a document and a collection, beside a file that is not served."""
    top = tmp_path / "p"
    (top / "docs").mkdir(parents=True)
    (top / "a.txt").write_text("inside\n")
    (top / "docs" / "b.txt").write_text("deeper\n")
    (tmp_path / "secret.txt").write_text("outside\n")
    return top


# -- folders


@pytest.mark.parametrize("what", ["missing", "file"])
def test_a_root_that_is_not_a_folder_is_reported_and_the_others_serve(
    folder: Path, what: str
) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "roots:\n  good: {path: docs}\n  missing: {path: no}\n  file: {path: a.txt}\n"
    )
    with serving(folder, said=None) as server:
        assert server.text("file:///good/b.txt") == "deeper\n"
        assert [entry["name"] for entry in server.listing()] == ["good", "b.txt"]
        refused = server.ask("resources/read", {"uri": f"file:///{what}/b.txt"})["error"]
        assert refused["data"]["retryable"] is True
        assert str(folder) not in json.dumps(refused)


@pytest.mark.skipif(sys.platform != "linux", reason="gives up capabilities of Linux")
def test_files_that_may_not_be_read_are_named_so_and_the_rest_is_served(folder: Path) -> None:
    (folder / "shut").mkdir()
    (folder / "shut" / "in.txt").write_text("x")
    (folder / "docs" / "b.txt").chmod(0)
    (folder / "shut").chmod(0)
    try:
        with serving(folder, anybody=True, said=None) as server:
            listed = [entry["name"] for entry in server.listing()]
            assert listed == ["p", "docs", "shut", "a.txt", "b.txt"]
            assert server.code("resources/read", uri="file:///p/docs/b.txt") == UNREADABLE
            assert server.code("resources/read", uri="file:///p/shut/in.txt") == NOT_FOUND
            assert server.text("file:///p/a.txt") == "inside\n"
    finally:
        (folder / "shut").chmod(0o700)


@pytest.mark.skipif(sys.platform != "linux", reason="gives up capabilities of Linux")
def test_a_root_without_permission_is_reported_in_one_line(folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text("roots:\n  good: {path: docs}\n  bad: {path: s}\n")
    (folder / "s").mkdir(mode=0)
    said = (
        "resource-server: warning: mount bad is unavailable: folder 's' cannot be "
        "listed: Permission denied; give this user permission to read and to search it\n"
    )
    with serving(folder, anybody=True, said=said) as server:
        assert server.text("file:///good/b.txt") == "deeper\n"


def test_a_folder_removed_and_replaced_while_serving_is_served_again(folder: Path) -> None:
    with serving(folder, said="") as server:
        assert server.text("file:///p/a.txt") == "inside\n"
        folder.rename(folder.parent / "old")
        assert server.code("resources/metadata", uri="file:///p/a.txt") == NOT_FOUND
        # What a read has just seen of a directory is believed for a moment: ask until it is over.
        read = {"uri": "file:///p/a.txt"}
        answers = (server.ask("resources/read", read) for _ in range(100_000))
        refused = next(answer for answer in answers if "error" in answer)
        assert refused["error"]["code"] == NOT_FOUND
        folder.mkdir()
        (folder / "a.txt").write_text("new\n")
        assert server.text("file:///p/a.txt") == "new\n"
        assert [entry["name"] for entry in server.listing()] == ["p", "a.txt"]


def test_the_root_of_the_machine_is_paged_and_read() -> None:
    with serving(Path("/")) as server:
        (mount, *_) = server.result("resources/list")["resources"]
        names = [entry["name"] for entry in server.listing(uri=mount["uri"])]
        assert {"etc", "usr"} <= set(names)
        assert server.text(f"{mount['uri']}/etc/passwd")


@pytest.mark.deep
def test_100_000_names_in_one_directory_are_paged_and_read(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    # Hard links are made faster than files; a file has at most 65,000 of them.
    sources = [str(tmp_path / name) for name in ("even", "odd")]
    for source in sources:
        Path(source).touch()
    for number in range(100_000):
        os.link(sources[number % 2], f"{tmp_path}/many/{number:06}")
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text(
        "server: {page_size: 1000, listing: {max: 100000}}\nroots:\n  many: {path: many}\n"
    )
    base = "file:///many"
    with serving(manifest) as server:
        page = server.result("resources/list", uri=base)
        assert [entry["name"] for entry in page["resources"]] == [f"{n:06}" for n in range(1000)]
        assert server.text(f"{base}/099999") == ""
        argument = {"name": "path", "value": "0999"}
        found = server.result(
            "completion/complete",
            ref={"type": "ref/resource", "uri": f"{base}/{{+path}}"},
            argument=argument,
        )["completion"]
        assert found["values"] == [f"0999{n:02}" for n in range(100)]
        # The bound counts the mount, too: the last name is beyond it.
        listed = [entry["name"] for entry in server.listing()]
        assert listed == ["many", *(f"{number:06}" for number in range(99_999))]


def test_a_tree_300_levels_deep_is_listed_and_read(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("directory", dir_fd=here)
        below = os.open("directory", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    file = os.open("end.txt", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.write(file, b"the end\n")
    os.close(file)
    os.close(here)
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text("server: {listing: {depth: 100}}\nroots:\n  deep: {path: directory}\n")
    with serving(manifest) as server:
        levels = ["file:///deep" + "/directory" * level for level in range(300)]
        listed = [entry["uri"] for entry in server.listing()]
        assert listed == levels[:101]
        for above, below in itertools.pairwise(levels):
            assert [entry["uri"] for entry in server.listing(uri=above)] == [below]
        (end,) = server.listing(uri=levels[-1])
        assert end["uri"] == f"{levels[-1]}/end.txt"
        assert server.text(end["uri"]) == "the end\n"


# -- names


NAMES = (
    b" spaces at both ends ",
    b"quote'\"`$(x)",
    b"new\nline\r\ttab",
    b"100%",
    b"%2e%2e%2f",
    b"a#b",
    b"what?lines=1",
    b"a:b",
    b"{+path}",
    b"back\\slash",
    b"control \x1b[31m\x07",
    "emoji \N{ROCKET}".encode(),
    "bidi \N{RIGHT-TO-LEFT OVERRIDE}txt".encode(),
    b"invalid \xff\xfe",
    b"surrogate \xed\xa0\x80",
    b"x" * 255,
)


def test_resources_of_any_name_are_listed_described_completed_and_read(
    tmp_path: Path,
) -> None:
    top = os.fsencode(tmp_path)
    for name in NAMES:
        directory = os.path.join(top, b"d-" + name[:253])  # noqa: PTH118
        os.mkdir(directory)  # noqa: PTH102
        Path(os.fsdecode(os.path.join(directory, name))).write_bytes(name)  # noqa: PTH118
    base = f"file:///{tmp_path.name}"
    with serving(tmp_path) as server:
        found = server.listing()
        assert len(found) == 1 + 2 * len(NAMES)
        bodies: set[bytes] = set()
        for entry in found:
            assert server.result("resources/metadata", uri=entry["uri"])["resource"] == entry
            if entry["resourceType"] == "collection":
                continue
            uri = entry["uri"]
            read = server.result("resources/read", uri=f"{uri}?bytes=0-999")["contents"][0]
            bodies.add(os.fsencode(read["text"]) if "text" in read else b"blob")
            completed = server.result(
                "completion/complete",
                ref={"type": "ref/resource", "uri": f"{base}/{{+path}}"},
                argument={"name": "path", "value": uri.removeprefix(f"{base}/")},
            )
            (value,) = completed["completion"]["values"]
            assert uris.unquote_path(value) == uris.unquote_path(uri.removeprefix(f"{base}/"))
            # As it is, and as an RFC 6570 client expands it.
            for asked in (f"{base}/{value}", uris.expand(f"{base}/{{+path}}", {"path": value})):
                assert server.result("resources/metadata", uri=asked)["resource"] == entry
        invalid = {b"invalid \xff\xfe", b"surrogate \xed\xa0\x80"}
        assert bodies >= set(NAMES) - invalid


TRAVERSALS = (
    "../secret.txt",
    "docs/../../secret.txt",
    "%2e%2e/secret.txt",
    "%2E%2E%2Fsecret.txt",
    "..%2fsecret.txt",
    "..%252fsecret.txt",
    "%252e%252e/secret.txt",
    "..%5csecret.txt",
    "..\\secret.txt",
    "..;/secret.txt",
    "%c0%ae%c0%ae/secret.txt",
    "..%c0%afsecret.txt",
    "%u002e%u002e/secret.txt",
    "/../secret.txt",
    "//secret.txt",
    "./a.txt",
    "docs/.",
    "docs//b.txt",
    "docs%2fb.txt",
    "a.txt%00",
    "a.txt%00.png",
    "a.txt/.",
    "a.txt/..",
    "a.txt/b.txt",
    "a.txt::$DATA",
    "a.txt.",
    "a.txt%20",
    "a.txt#x",
    "~/secret.txt",
    "docs/%zz",
    "docs/%",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "..",
    "x" * 300,
    "x/" * 5000,
)
# One character away from a served name: the error names it, but it is not read.
NEARLY = {"a.txt%00", "a.txt.", "a.txt%20"}


@pytest.mark.guarantee("closed-by-the-kernel")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_no_spelling_of_a_path_escapes_the_root_and_plain_ones_are_read(
    folder: Path, revision: str
) -> None:
    modern = revision in MODERN
    extra: dict[str, object] = {"_meta": ENVELOPE} if modern else {}
    with serving(folder, opened=not modern) as server:
        for spelling in TRAVERSALS:
            uri = f"file:///p/{spelling}"
            near = {"suggestions": ["file:///p/a.txt"]} if spelling in NEARLY else {}
            for method in ("resources/read", "resources/metadata", "resources/list"):
                error = server.ask(method, {"uri": uri, **extra})["error"]
                assert (error["code"], error["data"]) == (
                    BAD_PARAMS if modern else NOT_FOUND,
                    {"uri": uri, **near},
                ), spelling
        for spelling in ("file:///p/a.txt", "FILE:///p/%61.txt", "file://localhost/p/a.txt"):
            read = server.result("resources/read", uri=spelling, **extra)["contents"]
            assert read[0]["text"] == "inside\n"


# -- what is no ordinary file


@pytest.mark.guarantee("regular-files-only")
def test_pipes_sockets_and_devices_are_not_found_without_blocking(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
        (folder / "mcp-resources.yaml").write_text("roots:\n  p: {path: .}\n  dev: {path: /dev}\n")
        with serving(folder) as server:
            for uri in ("p/pipe", "p/socket", "dev/null", "dev/zero", "dev/tty"):
                assert server.code("resources/read", uri=f"file:///{uri}") == NOT_FOUND
            assert server.text("file:///p/a.txt") == "inside\n"
            names = [entry["name"] for entry in server.listing(uri="file:///p")]
            assert names == ["a.txt", "docs"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_files_of_proc_are_read_and_its_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mcp-resources.yaml").write_text("roots:\n  proc: {path: /proc}\n")
    with serving(tmp_path, said=None) as server:
        own = f"file:///proc/{server.process.pid}"
        assert server.text(f"{own}/status").startswith("Name:")
        assert server.text("file:///proc/version")
        for link in ("cwd", "root", "exe", "fd/0", "root/etc/passwd", "cwd/mcp-resources.yaml"):
            assert server.code("resources/read", uri=f"{own}/{link}") == NOT_FOUND
        assert "error" in server.ask("resources/read", {"uri": f"{own}/mem"})
        assert server.result("resources/list", uri=f"{own}/fd")["resources"] == []


def test_a_sparse_file_of_5_gib_is_readable_only_in_ranges(folder: Path) -> None:
    with (folder / "huge.txt").open("wb") as huge:
        huge.write(b"first\n")
        huge.truncate(5 << 30)
        huge.seek(0, os.SEEK_END)
        huge.write(b"\nlast\n")
    with serving(folder) as server:
        refused = server.ask("resources/read", {"uri": "file:///p/huge.txt"})["error"]
        assert refused["code"] == -32010
        assert refused["data"]["size"] == (5 << 30) + 6
        assert server.text("file:///p/huge.txt?lines=1-1") == "first\n"
        assert server.text("file:///p/huge.txt?tail=1") == "last\n"
        assert server.code("resources/read", uri="file:///p/huge.txt?bytes=9-1") == BAD_PARAMS


@contextmanager
def meanwhile(work: Callable[[], None]) -> Generator[None]:
    """Do `work` over and over in a thread."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_reading_a_file_that_grows_and_shrinks_always_gets_a_response(folder: Path) -> None:
    changing = folder / "changing.txt"
    changing.write_bytes(b"x" * 700_000)

    def change() -> None:
        for size in (0, 1, 700_000, 65_536, 300_000):
            os.truncate(changing, size)

    with meanwhile(change), serving(folder) as server:
        for query in ("", "?bytes=0-99999", "?lines=1-2", "?tail=1") * 40:
            read = server.ask("resources/read", {"uri": f"file:///p/changing.txt{query}"})
            # Shorter than the range begins is an answer, too.
            assert "result" in read or read["error"]["code"] == BAD_PARAMS, read


@pytest.mark.guarantee("links-stay-inside")
@pytest.mark.parametrize("links", ["deny", "within-root"])
def test_looping_and_swapped_links_never_escape_the_root(folder: Path, links: str) -> None:
    (folder / "mcp-resources.yaml").write_text(f"roots:\n  p: {{path: ., symlinks: {links}}}\n")
    (folder / "loop").symlink_to("loop")
    (folder / "docs" / "up").symlink_to("..")
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("outside\n")
    (folder / "evil").symlink_to(outside)

    def swap() -> None:
        (folder / "docs").rename(folder / "aside")
        (folder / "evil").rename(folder / "docs")
        (folder / "docs").rename(folder / "evil")
        (folder / "aside").rename(folder / "docs")

    with serving(folder) as server:
        assert server.code("resources/read", uri="file:///p/loop") == NOT_FOUND
        assert server.code("resources/read", uri="file:///p/evil/b.txt") == NOT_FOUND
        assert len(server.listing()) < 20
        with meanwhile(swap):
            seen = {
                server.ask("resources/read", {"uri": "file:///p/docs/b.txt"}).get(
                    "result", {"contents": [{"text": None}]}
                )["contents"][0]["text"]
                for _ in range(500)
            }
        assert seen <= {"deeper\n", None}
        assert server.text("file:///p/docs/b.txt") == "deeper\n"


# -- lines


@pytest.mark.guarantee("any-input-is-answered")
def test_every_malformed_line_gets_an_error_and_the_next_request_is_served(folder: Path) -> None:
    lines: Iterable[tuple[bytes, int | None]] = [
        (b"", None),
        (b" \t\r", None),
        (b"{", UNPARSABLE),
        (b"\xff\xfe\x00", UNPARSABLE),
        (b"Content-Length: 20", UNPARSABLE),
        (b"[" * 200_000, UNPARSABLE),
        (b'{"a":' * 200_000, UNPARSABLE),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}', UNPARSABLE),
        (b"null", INVALID),
        (b"[]", INVALID),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID),
        (b'"ping"', INVALID),
        (b"{}", INVALID),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', INVALID),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601),
        (b'{"jsonrpc":"2.0","method":"no/such"}', None),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}', None),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', None),
    ]
    with serving(folder) as server:
        for line, code in lines:
            server.send(line)
            if code is not None:
                assert server.answer()["error"]["code"] == code, line[:80]
            assert server.ask("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.guarantee("any-input-is-answered")
def test_a_line_of_100_mb_is_refused_and_the_next_request_is_served(folder: Path) -> None:
    with serving(folder) as server:
        for _ in range(100):
            server.stdin.write(b"[" * 1_000_000)
        server.send(b"")
        assert server.answer()["error"]["code"] == INVALID
        assert server.ask("ping")["result"] == {}


JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "\0",
    "x" * 9000,
    [],
    ["x"],
    {},
    {"x": {}},
)
GOOD: dict[str, dict[str, Any]] = {
    "ping": {},
    "logging/setLevel": {"level": "info"},
    "resources/list": {"uri": "file:///p", "cursor": "x"},
    "resources/read": {"uri": "file:///p/a.txt"},
    "resources/metadata": {"uri": "file:///p/a.txt"},
    "resources/templates/list": {"cursor": "x"},
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "file:///p/{+path}"},
        "argument": {"name": "path", "value": "a"},
        "context": {"arguments": {"path": "a"}},
    },
    "server/discover": {},
    "initialize": {"protocolVersion": "x", "capabilities": {}, "clientInfo": CLIENT},
}


@pytest.mark.guarantee("any-input-is-answered")
@pytest.mark.parametrize("revision", EVERY)
def test_params_of_wrong_types_are_refused_by_every_method(folder: Path, revision: str) -> None:
    modern = revision in MODERN
    with serving(folder, opened=False) as server:
        if not modern:
            assert server.initialize(revision)["result"]["protocolVersion"] == revision
        for method, good in GOOD.items():
            for member in [*good, "_meta"]:
                for junk in JUNK:
                    envelope = {"_meta": ENVELOPE} if modern else {}
                    answer = server.ask(method, {**envelope, **good, member: junk})
                    # An empty cursor, a null member, an object for an object: some are allowed.
                    codes = {BAD_PARAMS, NOT_FOUND, INVALID, -32601, -32022}
                    assert "result" in answer or answer["error"]["code"] in codes, answer
            wrong = server.ask(method, {**({"_meta": ENVELOPE} if modern else {}), "uri": 7})
            if method in ("resources/read", "resources/metadata", "resources/list"):
                assert wrong["error"]["code"] == BAD_PARAMS


# -- cursors and the order of requests


def test_foreign_cursors_are_refused_and_cursors_survive_changes(
    tmp_path: Path,
) -> None:
    for root in ("one", "two"):
        (tmp_path / root).mkdir()
        for number in range(150):
            (tmp_path / root / f"{number:03}.txt").touch()
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text("roots:\n  one: {path: one}\n  two: {path: two}\n")
    with serving(manifest) as server:
        cursor = server.result("resources/list", uri="file:///one")["nextCursor"]
        forged = [cursor[:-2], cursor + "A", cursor.swapcase(), "eA", "x" * 9000, "☃", "1"]
        for bad in forged:
            refused = server.ask("resources/list", {"uri": "file:///one", "cursor": bad})
            assert refused["error"]["code"] == BAD_PARAMS, bad
        for params in ({"uri": "file:///two"}, {}):
            assert server.code("resources/list", cursor=cursor, **params) == BAD_PARAMS
        assert server.code("resources/templates/list", cursor=cursor) == BAD_PARAMS
        for number in (99, 100, 149):
            (tmp_path / "one" / f"{number:03}.txt").unlink()
        page = server.result("resources/list", uri="file:///one", cursor=cursor)
        assert [entry["name"] for entry in page["resources"]] == [
            f"{number:03}.txt" for number in range(101, 149)
        ]


def test_requests_before_initialize_are_refused_and_a_second_one_changes_nothing(
    folder: Path,
) -> None:
    with serving(folder, opened=False) as server:
        assert server.ask("ping")["result"] == {}
        for method, params in GOOD.items():
            if method not in ("ping", "initialize"):
                assert "error" in server.ask(method, params), method
        wrong: tuple[Any, ...] = (7, None, [], {})
        for version in wrong:
            assert server.initialize(version)["error"]["code"] == BAD_PARAMS
        unknown = server.initialize("1999-01-01")
        assert unknown["result"]["protocolVersion"] == "2025-11-25"
        assert server.initialize("2024-11-05")["error"]["code"] == INVALID
        assert server.text("file:///p/a.txt") == "inside\n"


def test_an_unknown_modern_revision_is_refused_with_the_supported_ones(folder: Path) -> None:
    with serving(folder, opened=False) as server:
        meta = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
        refused = server.ask("resources/list", {"_meta": meta})["error"]
        assert refused["code"] == -32022
        assert refused["data"]["requested"] == "2099-01-01"
        assert "2026-07-28" in refused["data"]["supported"]


# -- clients that leave


def test_a_client_that_closes_amid_requests_and_a_line_leaves_no_state(folder: Path) -> None:
    (folder / "large.txt").write_bytes(b"x" * 5_000_000)
    with serving(folder) as server:
        read = {"jsonrpc": "2.0", "method": "resources/read"}
        params = {"uri": "file:///p/large.txt"}
        server.send(
            *(json.dumps({**read, "id": n, "params": params}).encode() for n in range(20)),
        )
        server.stdin.write(b'{"jsonrpc": "2.0", "id"')
        server.stdin.flush()
        server.stdout.close()


@pytest.mark.guarantee("any-input-is-answered")
def test_a_client_that_never_reads_and_then_closes_leaves_no_state(folder: Path) -> None:
    with serving(folder) as server:
        message = b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}\n'
        os.set_blocking(server.stdin.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(100_000):
                os.write(server.stdin.fileno(), message)
        server.stdout.close()


# -- manifests

MISTAKES = """
version: 3
servr: {}
server: {page_size: ten, cache: {scope: nobody}}
roots:
  one: {path: ., exlude: [a], max_size: huge, symlinks: maybe}
  two: {path: ., encoding: klingon, priority: 1}
  three: 7
providers:
  four: {uri: "not a uri"}
""".lstrip()


MANIFESTS = {
    "empty": b"",
    "comment": b"# nothing\n",
    "cyclic": b"a: &a [*a]\n",
    "deep": b"[" * 1_000_000,
    "huge": b"#" * 2_000_000,
    "not utf-8": b"a: \xff\n",
    "tab": b"a:\t- b\n",
    "ten mistakes": MISTAKES.encode(),
}
COMMANDS = (["serve"], ["list"], ["read", "file:///x"], ["metadata", "file:///x"])


@pytest.mark.parametrize(
    ("command", "kind"),
    [*((["check"], kind) for kind in MANIFESTS), *((each, "ten mistakes") for each in COMMANDS)],
)
def test_every_command_reports_a_bad_manifest_with_one_line_per_problem(
    tmp_path: Path, command: list[str], kind: str
) -> None:
    file = tmp_path / "mcp-resources.yaml"
    file.write_bytes(MANIFESTS[kind])
    name, *uri = command
    done = subprocess.run(
        [sys.executable, "-m", "resource_server", name, str(file), *uri],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    told = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert len(told) >= (10 if kind == "ten mistakes" else 1)
    assert all(line.startswith(f"{file}:") for line in told)
