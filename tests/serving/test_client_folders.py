"""Folders offered by a client: which are served, under which name, and which are refused."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from resource_server.manifest.load import load
from resource_server.provider import ClientRoot
from resource_server.serving import client_folders
from tests.cli.conftest import PATIENCE_S, Client, Run, connected, keep, started
from tests.protocol.wire import ENVELOPE, request

CLIENT = "roots:\n  workspace: {from: client}\n"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A folder with a manifest, and folders `a`, `b`, `a/in` that a client may offer."""
    for name in ("a/in", "b", "manifest"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "a.txt").write_text("of a", "utf-8")
    (tmp_path / "b" / "b.txt").write_text("of b", "utf-8")
    (tmp_path / "b" / ".env").write_text("TOKEN=1", "utf-8")
    keep(tmp_path / "manifest", CLIENT)
    return tmp_path


def manifest(top: Path, text: str = CLIENT) -> Any:
    keep(top / "manifest", text)
    return load(top / "manifest" / "mcp-resources.yaml")


def offered(root: str | ClientRoot | Path) -> ClientRoot:
    if isinstance(root, ClientRoot):
        return root
    return ClientRoot(root if isinstance(root, str) else root.as_uri())


def mounts(
    top: Path, *roots: str | ClientRoot | Path, text: str = CLIENT
) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return where each mount is, below the temporary folder, and what was refused."""
    folders = client_folders.offered_folders([offered(each) for each in roots])
    found = client_folders.folder_mounts(manifest(top, text), folders)
    served = {
        spec.base: str(Path(str(spec.options["path"])).relative_to(top)) for spec in found.mounts
    }
    return served, found.refused


# -- which are served


def test_each_folder_is_a_separate_mount(top: Path) -> None:
    served, refused = mounts(top, top / "a", top / "b")
    assert served == {"file:///a/": "a", "file:///b/": "b"}
    assert refused == ()


@pytest.mark.guarantee("record-is-not-served")
def test_a_folder_with_the_record_of_reads_is_refused(top: Path) -> None:
    text = f"{CLIENT}audit: {{file: ../a/audit.jsonl}}\n"
    served, refused = mounts(top, top / "a", top / "b", text=text)
    assert served == {"file:///b/": "b"}
    assert refused == ("'a': it has the record of reads",)


def test_no_folders_make_no_mounts(top: Path) -> None:
    assert mounts(top) == ({}, ())


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("My project", "file:///My-project/"),
        ("../../etc", "file:///etc/"),
        ("a/b", "file:///a-b/"),
        ("..", "file:///root/"),
        ("", "file:///a/"),
        ("\u202egpj", "file:///gpj/"),
        ("x" * 500, f"file:///{'x' * 64}/"),
    ],
)
def test_a_mount_takes_the_clients_name_if_it_is_valid(top: Path, name: str, base: str) -> None:
    served, _ = mounts(top, ClientRoot((top / "a").as_uri(), name))
    assert list(served) == [base]


def test_the_title_of_a_mount_is_the_name_the_client_sent(top: Path) -> None:
    (folder,) = client_folders.offered_folders([ClientRoot((top / "a").as_uri(), "My project")])
    (spec,) = client_folders.folder_mounts(manifest(top), [folder]).mounts
    assert (spec.name, spec.title) == ("My-project", "My project")


def test_two_folders_of_the_same_name_get_distinct_names(top: Path) -> None:
    roots = [ClientRoot((top / name).as_uri(), "same") for name in ("a", "b")]
    assert mounts(top, *roots)[0] == {"file:///same/": "a", "file:///same-2/": "b"}


def test_client_folders_never_shadow_mounts_of_the_manifest(top: Path) -> None:
    text = CLIENT + "  a: {path: .}\n  other: {path: ., uri: 'file:///a-2/'}\n"
    assert mounts(top, top / "a", text=text)[0] == {"file:///a-3/": "a"}


def test_duplicate_folders_are_merged(top: Path) -> None:
    (top / "link").symlink_to(top / "a")
    uri = (top / "a").as_uri()
    roots = [uri, uri + "/", uri.replace("file:///", "file://localhost/"), top / "link"]
    assert mounts(top, *roots) == ({"file:///a/": "a"}, ())


@pytest.mark.parametrize("inner_first", [True, False])
def test_a_nested_folder_is_served_only_inside_its_parent(top: Path, inner_first: bool) -> None:
    roots = [top / "a" / "in", top / "a"]
    served, refused = mounts(top, *(roots if inner_first else reversed(roots)))
    assert served == {"file:///a/": "a"}
    assert refused == ("'in': it is inside another folder, and served there",)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("file:///no/such/folder", "'folder': it cannot be opened: no such file or directory"),
        ("file://server/share", "'share': it is on another machine"),
        ("https://example.org/x", "'x': its URI does not name a file"),
        ("file:///tmp?x=1", "'tmp': its URI does not name a file"),
        ("file:///a/../etc", "'etc': its URI cannot be used"),
        ("file:///a/%2e%2e/etc", "'etc': its URI cannot be used"),
        ("file:///a%00b", "'a\\x00b': its URI cannot be used"),
        ("file:///a%2Fb", "'a/b': its URI cannot be used"),
        ("file:relative", "'file:relative': its URI cannot be used"),
        ("/etc", "'etc': its URI cannot be used"),
        ("", "'root': its URI cannot be used"),
        ("file:///" + "x" * 20_000, f"'{'x' * 59}…': its URI cannot be used"),
        ("file:///" + "x" * 4_000, f"'{'x' * 59}…': it cannot be opened: file name too long"),
    ],
)
def test_a_uri_that_is_not_a_local_folder_is_refused(top: Path, uri: str, reason: str) -> None:
    assert mounts(top, uri, top / "b") == ({"file:///b/": "b"}, (reason,))


def test_a_file_is_refused_as_a_folder(top: Path) -> None:
    assert mounts(top, top / "a" / "a.txt")[1] == ("'a.txt': it is not a folder",)


def test_a_socket_is_refused_as_a_folder(top: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(top / "s"))
        assert mounts(top, top / "s")[1] == ("'s': it is not a folder",)


def test_a_circular_link_is_refused(top: Path) -> None:
    (top / "x").symlink_to(top / "x")
    assert mounts(top, top / "x")[1] == (
        "'x': it cannot be opened: too many levels of symbolic links",
    )


ALLOW = "roots:\n  workspace: {from: client, allow: [../a]}\n"


def test_folders_outside_the_allowed_paths_are_refused(top: Path) -> None:
    (top / "abc").mkdir()
    served, refused = mounts(top, top / "a" / "in", top / "b", top, top / "abc", text=ALLOW)
    assert served == {"file:///in/": "a/in"}
    assert [each.partition("'")[2].partition("'")[0] for each in refused] == ["b", top.name, "abc"]
    assert all("outside the folders in 'allow'" in each for each in refused)


def test_a_symlink_cannot_escape_the_allowed_paths(top: Path) -> None:
    (top / "a" / "out").symlink_to(top / "b")
    (top / "into").symlink_to(top / "a" / "in")
    served, refused = mounts(top, top / "a" / "out", top / "into", text=ALLOW)
    assert served == {"file:///into/": "a/in"}
    assert refused == ("'out': it is outside the folders in 'allow'",)


def test_an_allowed_path_may_be_a_symlink(top: Path) -> None:
    (top / "allowed").symlink_to(top / "a")
    text = "roots:\n  workspace: {from: client, allow: [../allowed]}\n"
    assert mounts(top, top / "a", text=text)[0] == {"file:///a/": "a"}


def test_a_folder_belongs_to_the_first_entry_that_allows_it(top: Path) -> None:
    text = ALLOW + "  rest: {from: client, hidden: true}\n"
    folders = client_folders.offered_folders([offered(top / name) for name in ("a", "b")])
    found = client_folders.folder_mounts(manifest(top, text), folders).mounts
    assert [(spec.name, spec.options.get("hidden")) for spec in found] == [("a", None), ("b", True)]


def test_only_the_first_folders_up_to_the_limit_are_served(top: Path) -> None:
    most = client_folders.MAX_FOLDERS
    folders = [top / "many" / f"{number}" for number in range(most + 2)]
    for folder in folders:
        folder.mkdir(parents=True)
    served, refused = mounts(top, *folders, *[top] * 5_000)
    assert list(served) == [f"file:///{number}/" for number in range(most)]
    assert refused == (f"'{most}': only the first {most} are served",)


# -- in a process


class Offering(Client):
    """A client of `serve` that offers folders."""

    can: Mapping[str, Any] = {"roots": {"listChanged": True}}

    def asked(self) -> dict[str, Any]:
        """Return the next question."""
        while (message := self.next()).get("method") != "roots/list":
            self.notifications.append(message)
        return message

    def offer(self, *folders: Path) -> None:
        """Answer the next question with these."""
        roots = [{"uri": folder.as_uri()} for folder in folders]
        self.tell({"id": self.asked()["id"], "result": {"roots": roots}})

    def changed(self) -> None:
        self.tell({"method": "notifications/roots/list_changed"})


@contextlib.contextmanager
def offering(*arguments: str | Path) -> Generator[Offering]:
    with started("serve", *arguments, stdin=subprocess.PIPE) as (process, errors):
        yield Offering(process, errors)


def relisted(client: Client, *, tools: bool = False) -> list[str]:
    """Return what is listed once the client has been told that it is something else.

    With `tools` it is first told of other tools: parts can be read only while there is a mount
    that can be read in parts.
    """
    if tools:
        assert client.told() == ("notifications/tools/list_changed", None)
    assert client.told() == ("list_changed", None)
    return client.listed()


def test_client_folders_are_listed_read_and_watched(top: Path) -> None:
    with offering(top / "manifest") as client:
        assert client.capabilities["resources"] == {"subscribe": True, "listChanged": True}
        client.offer(top / "a", top / "b")
        assert relisted(client, tools=True) == [
            "file:///a",
            "file:///b",
            "file:///a/in",
            "file:///a/a.txt",
            "file:///b/b.txt",
        ]
        read = client.request("resources/read", uri="file:///b/b.txt")
        assert read["result"]["contents"][0]["text"] == "of b"
        assert "error" in client.request("resources/read", uri="file:///b/.env")
        client.request("resources/subscribe", uri="file:///a/a.txt")
        (top / "a" / "a.txt").write_text("changed", "utf-8")
        assert client.told() == ("updated", "file:///a/a.txt")
        assert client.end() == []


def test_a_withdrawn_client_folder_is_no_longer_served(top: Path) -> None:
    with offering(top / "manifest") as client:
        client.offer(top / "a", top / "b")
        relisted(client, tools=True)
        client.request("resources/subscribe", uri="file:///a/a.txt")
        client.request("resources/subscribe", uri="file:///b/b.txt")
        client.changed()
        client.offer(top / "b")
        assert {client.told(), client.told()} == {
            ("list_changed", None),
            ("updated", "file:///a/a.txt"),
        }
        assert client.listed() == ["file:///b", "file:///b/b.txt"]
        (top / "b" / "b.txt").write_text("changed", "utf-8")
        assert client.told() == ("updated", "file:///b/b.txt")


def test_folders_and_the_manifest_may_change_together(top: Path) -> None:
    with offering(top / "manifest") as client:
        client.offer(top / "a")
        relisted(client, tools=True)
        keep(top / "manifest", CLIENT.replace("}", ", exclude: ['*.txt']}"))
        assert relisted(client) == ["file:///a", "file:///a/in"]
        keep(top / "manifest", ALLOW)
        relisted(client)
        client.changed()
        client.offer(top / "a", top / "b")
        lines = client.errors.until("not served")
        assert lines[-1].endswith("'b': it is outside the folders in 'allow'")
        assert client.listed() == ["file:///a", "file:///a/in", "file:///a/a.txt"]


def test_a_repeatedly_refused_folder_is_logged_once(top: Path) -> None:
    keep(top / "manifest", ALLOW)
    with offering(top / "manifest") as client:
        offers = [
            ((top / "a", top / "b"), True),
            ((top / "a" / "in", top / "b"), False),
            ((), True),
        ]
        for folders, tools in offers:
            client.offer(*folders)
            relisted(client, tools=tools)
            client.changed()
        assert len([line for line in client.end() if "'b'" in line]) == 1


def test_roots_are_requested_once_a_reloaded_manifest_needs_them(top: Path) -> None:
    keep(top / "manifest", "roots: {docs: {path: .}}")
    with offering(top / "manifest") as client:
        before = client.listed()
        keep(top / "manifest", CLIENT)
        client.offer(top / "a")
        assert "file:///a" not in before
        while client.told() != ("list_changed", None) or "file:///a" not in client.listed():
            pass


def test_roots_are_not_requested_unless_the_manifest_needs_them(top: Path) -> None:
    keep(top / "manifest", "roots: {docs: {path: .}}")
    with offering(top / "manifest") as client:
        client.changed()
        assert client.untold() == []


def test_a_client_that_never_answers_is_served_the_other_mounts(top: Path) -> None:
    keep(top / "manifest", CLIENT + "  docs: {path: ../a}\n")
    with offering(top / "manifest") as client:
        client.asked()
        assert client.listed() == ["file:///docs", "file:///docs/in", "file:///docs/a.txt"]
        assert client.end() == []


def test_a_client_that_disconnects_midway_leaves_no_state(top: Path) -> None:
    with offering(top / "manifest") as client:
        client.offer(top / "a")
        assert client.end() == []


def warnings_of(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if "the folders of the client are not served" in line]


def test_a_client_without_roots_support_is_logged_once(top: Path) -> None:
    with connected(top / "manifest") as client:
        client.request("ping")
        keep(top / "manifest", CLIENT + "  docs: {path: ../a}\n")
        relisted(client, tools=True)
        assert len(warnings_of(client.end())) == 1
    keep(top / "manifest", "roots: {docs: {path: ../a}}")
    with connected(top / "manifest") as client:
        assert client.end() == []


def test_a_client_without_roots_support_is_logged_when_a_reload_needs_roots(top: Path) -> None:
    keep(top / "manifest", "roots: {docs: {path: ../a}}")
    with connected(top / "manifest") as client:
        keep(top / "manifest", CLIENT)
        assert relisted(client, tools=True) == []
        assert len(warnings_of(client.end())) == 1


def test_a_client_of_a_revision_without_roots_is_logged_once(top: Path) -> None:
    with started("serve", top / "manifest", stdin=subprocess.PIPE) as (process, _):
        asked = [request("resources/list", {"_meta": ENVELOPE}, id) for id in (1, 2)]
        told = "".join(f"{json.dumps(each)}\n" for each in asked)
        out, err = process.communicate(told, timeout=PATIENCE_S)
        assert ["result" in json.loads(line) for line in out.splitlines()] == [True, True]
        assert len(warnings_of(err.splitlines())) == 1


# -- in `check`


def test_check_reports_that_folders_come_from_the_client(top: Path, run: Run) -> None:
    outcome = run("check", top / "manifest")
    assert outcome.status == 0
    assert outcome.out.splitlines()[0].startswith("workspace")
    assert "client" in outcome.out


def mistakes(top: Path, run: Run, text: str) -> list[list[str]]:
    """Return what is told of each entry, from its place on; the status says if there is any."""
    keep(top / "manifest", text)
    outcome = run("check", top / "manifest", "--json")
    reports = json.loads(outcome.out)["mounts"]
    told = [[each.partition(".yaml:")[2] for each in one.get("mistakes", ())] for one in reports]
    assert outcome.status == (1 if any(told) else 0)
    return told


def test_check_reports_allowed_folders_that_do_not_exist(top: Path, run: Run) -> None:
    text = "roots:\n  w: {from: client, allow: [../a, nope, ../a/a.txt]}\n"
    assert mistakes(top, run, text) == [
        [
            "2:35: roots.w.allow[1]: no such folder",
            "2:41: roots.w.allow[2]: no such folder",
        ]
    ]
    assert mistakes(top, run, ALLOW) == [[]]


def test_check_reports_entries_shadowed_by_an_earlier_one(top: Path, run: Run) -> None:
    text = CLIENT + "  rest: {from: client, hidden: true}\n  more: {from: client}\n"
    told = "'workspace' above takes all folders; give it 'allow', or move it to the end"
    assert mistakes(top, run, text) == [
        [],
        [f"3:16: roots.rest.from: {told}"],
        [f"4:16: roots.more.from: {told}"],
    ]
    assert mistakes(top, run, ALLOW + "  rest: {from: client}\n") == [[], []]
