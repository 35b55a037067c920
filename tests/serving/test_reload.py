"""A manifest that changes while it is served: what clients are told, and what stays as it was."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import QUIET_S, Client, connected, keep
from tests.waiting import block

DOCS = "roots:\n  docs: {path: docs}\n"
MORE = DOCS + "  more: {path: more}\n"

TELLING = """
import pathlib, sys, time
from resource_server.errors import ResourceNotFound
from resource_server.provider import Content, Resource

HERE = pathlib.Path(__file__).parent

def say(*words):
    print(*words, file=sys.stderr, flush=True)

def wait_for(name):
    say("waiting for", name)
    while not (HERE / name).exists():
        time.sleep(0.01)

{at_import}

class Telling:
    templates = ()
    async def __aenter__(self):
        say("entered")
    async def __aexit__(self, *_):
        say("closed")
    def list(self, parent, *, after, limit):
        return []
    def metadata(self, path):
        if len(path) > 1:
            raise ResourceNotFound
        return Resource(path=path, name="x", type="document" if path else "collection")
    async def read(self, path, query):
        from anyio import to_thread
        await to_thread.run_sync(wait_for, "released", abandon_on_cancel=True)
        return [Content("late")]
"""
PLUGIN = "providers:\n  plugin: {use: telling.py}\n"
WITH_PLUGIN = ["file:///docs", "resource://plugin", "file:///docs/docs.txt"]


RELOADED = "resource-server: the manifest was reloaded: "


def others(lines: list[str]) -> list[str]:
    """Return the lines that are no report of a reload."""
    return [line for line in lines if not line.startswith(RELOADED)]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A folder with a manifest that serves one of its folders, and what others may serve."""
    for name in ("docs", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name, "utf-8")
    (tmp_path / "telling.py").write_text(TELLING.format(at_import=""), "utf-8")
    keep(tmp_path, DOCS)
    return tmp_path


def read(client: Client, uri: str) -> str:
    return client.request("resources/read", uri=uri)["result"]["contents"][0]["text"]


def relisted(client: Client) -> list[str]:
    """Return what is listed once the client has been told that it is something else."""
    assert client.told() == ("list_changed", None)
    return client.listed()


def test_each_manifest_of_several_sources_is_followed(top: Path) -> None:
    keep(top, "roots: {other: {path: more}}", "other.yaml")
    (top / "plain").mkdir()
    with connected(top, top / "other.yaml", top / "plain", top / "more") as client:
        collections = ["file:///docs", "file:///other", "file:///plain", "file:///more"]
        assert client.listed()[:4] == collections
        keep(top, "roots: {another: {path: more}}", "other.yaml")
        assert relisted(client)[:4] == [*collections[:1], "file:///another", *collections[2:]]
        # Added later, it is a document like any other.
        keep(top / "plain", "roots: {never: {path: .}}")
        assert "file:///plain/mcp-resources.yaml" in relisted(client)
        (top / "other.yaml").unlink()
        client.errors.until("the manifest is gone")
        keep(top, "roots: {changed: {path: docs}}")
        assert relisted(client)[:4] == ["file:///changed", "file:///another", *collections[2:]]
        keep(top, "roots: {another: {path: docs}}")
        client.errors.until("is invalid")
        client.errors.until("already has the base URI file:///another/")
        assert read(client, "file:///changed/docs.txt") == "docs"


def test_an_added_mount_is_listed_and_clients_are_notified(top: Path) -> None:
    with connected(top) as client:
        assert client.listed() == ["file:///docs", "file:///docs/docs.txt"]
        keep(top, MORE)
        assert relisted(client) == [
            "file:///docs",
            "file:///more",
            "file:///docs/docs.txt",
            "file:///more/more.txt",
        ]
        assert read(client, "file:///more/more.txt") == "more"
        assert others(client.end()) == []


def test_a_removed_mount_is_gone_and_its_subscribers_are_notified(top: Path) -> None:
    keep(top, MORE)
    with connected(top) as client:
        client.request("resources/subscribe", uri="file:///more/more.txt")
        client.request("resources/subscribe", uri="file:///docs/docs.txt")
        keep(top, DOCS)
        assert {client.told(), client.told()} == {
            ("list_changed", None),
            ("updated", "file:///more/more.txt"),
        }
        assert client.listed() == ["file:///docs", "file:///docs/docs.txt"]
        answer = client.request("resources/read", uri="file:///more/more.txt")
        assert answer["error"]["code"] == -32002
        assert client.untold() == []


def test_subscriptions_in_an_unchanged_mount_survive(top: Path) -> None:
    with connected(top) as client:
        client.request("resources/subscribe", uri="file:///docs/docs.txt")
        keep(top, MORE)
        relisted(client)
        (top / "docs" / "docs.txt").write_text("changed", "utf-8")
        assert client.told() == ("updated", "file:///docs/docs.txt")
        assert read(client, "file:///docs/docs.txt") == "changed"


def test_an_unchanged_mount_is_not_restarted(top: Path) -> None:
    keep(top, DOCS + PLUGIN)
    with connected(top) as client:
        client.errors.until("entered")
        keep(top, MORE + PLUGIN)
        relisted(client)
        keep(top, PLUGIN + MORE)
        relisted(client)
        assert others(client.end()) == ["closed"]


def test_subscribers_are_notified_when_a_changed_option_hides_a_resource(top: Path) -> None:
    with connected(top) as client:
        client.request("resources/subscribe", uri="file:///docs/docs.txt")
        keep(top, "roots:\n  docs: {path: docs, exclude: ['*.txt']}\n")
        assert {client.told(), client.told()} == {
            ("list_changed", None),
            ("updated", "file:///docs/docs.txt"),
        }
        assert client.listed() == ["file:///docs"]


@pytest.mark.parametrize(
    "option",
    [
        "directories: {sub: {readable: false}}",
        "directories: {sub: {max_size: 2}}",
        "encoding: utf-16",
        "types: {'*.txt': text/html}",
    ],
)
def test_subscribers_are_notified_when_an_option_changes_what_is_read(
    top: Path, option: str
) -> None:
    (top / "docs" / "sub").mkdir()
    (top / "docs" / "sub" / "some.txt").write_text("some", "utf-8")
    with connected(top) as client:
        client.request("resources/subscribe", uri="file:///docs/sub/some.txt")
        keep(top, f"roots:\n  docs: {{path: docs, {option}}}\n")
        assert ("updated", "file:///docs/sub/some.txt") in {client.told(), client.told()}


def test_a_changed_limit_does_not_change_the_list(top: Path) -> None:
    with connected("-v", top) as client:
        keep(top, "server: {page_size: 1}\n" + DOCS)
        client.errors.until("the manifest was reloaded: no mount changed")
        assert len(client.request("resources/list")["result"]["resources"]) == 1
        assert client.untold() == []


def test_the_log_names_the_mounts_that_changed(top: Path) -> None:
    keep(top, DOCS + "  gone: {path: more}\n")
    with connected("-v", top) as client:
        keep(top, "roots:\n  docs: {path: docs, title: Docs}\n  new: {path: more}\n")
        told = client.errors.until("the manifest was reloaded")[-1]
        assert told.endswith(": added new; removed gone; changed docs")


def test_an_invalid_manifest_is_reported_and_the_previous_one_stays(top: Path) -> None:
    with connected(top) as client:
        keep(top, MORE + "  x: {path: ., exlude: [a]}\n")
        client.errors.until("the manifest is invalid")
        problem = client.errors.next()
        assert problem.startswith(f"{top / 'mcp-resources.yaml'}:4:16: roots.x.exlude: ")
        assert "did you mean 'exclude'?" in problem
        assert client.listed() == ["file:///docs", "file:///docs/docs.txt"]
        keep(top, MORE)
        assert len(relisted(client)) == 4
        assert client.end() == [RELOADED + "added more"]


def test_the_same_problems_of_a_manifest_are_reported_once(top: Path) -> None:
    with connected("-vv", top) as client:
        keep(top, "rotos: {}\n")
        client.errors.until(":1:1: rotos: ")
        (top / "mcp-resources.yaml").touch()
        told = client.errors.until("the manifest is still invalid")
        assert not [line for line in told if "rotos" in line]
        keep(top, "rotos: {}\nnothing: {}\n")
        client.errors.until(":2:1: nothing: ")


def test_a_manifest_is_not_loaded_while_it_is_being_written(top: Path) -> None:
    # Cut anywhere it is invalid, or valid and something else.
    manifest = MORE + "server: {page_size: 7}\n"
    with connected("-v", top) as client:
        with (top / "mcp-resources.yaml").open("w", encoding="utf-8") as file:
            for character in manifest[:12]:
                file.write(character)
                file.flush()
                block(0.05)  # a slow writer
            file.write(manifest[12:])
        assert len(relisted(client)) == 4
        told = client.end()
        assert [line for line in told if "manifest" in line] == [RELOADED + "added more"]


def test_a_removed_manifest_stays_in_effect_until_it_is_back(top: Path) -> None:
    with connected(top) as client:
        (top / "mcp-resources.yaml").unlink()
        client.errors.until("the manifest is gone")
        assert client.listed() == ["file:///docs", "file:///docs/docs.txt"]
        keep(top, MORE)
        assert len(relisted(client)) == 4
        assert others(client.end()) == []


def test_a_manifest_added_to_a_folder_without_one_is_ignored(top: Path) -> None:
    (top / "mcp-resources.yaml").unlink()
    with connected(top / ".") as client:
        before = client.listed()
        keep(top, MORE)
        after = relisted(client)
        assert sorted(after) == sorted([*before, f"file:///{top.name}/mcp-resources.yaml"])


def test_a_manifest_replaced_by_a_folder_counts_as_removed(top: Path) -> None:
    with connected(top / "mcp-resources.yaml") as client:
        before = client.listed()
        (top / "mcp-resources.yaml").unlink()
        (top / "mcp-resources.yaml").mkdir()
        client.errors.until("the manifest is gone")
        assert client.listed() == before


def test_a_manifest_behind_a_link_is_reloaded_when_the_link_changes(top: Path) -> None:
    (top / "one").mkdir()
    (top / "two").mkdir()
    keep(top / "one", "roots:\n  docs: {path: docs}\n")
    keep(top / "two", "roots:\n  docs: {path: docs}\n  more: {path: more}\n")
    (top / "now").symlink_to("one")
    (top / "mcp-resources.yaml").unlink()
    (top / "mcp-resources.yaml").symlink_to("now/mcp-resources.yaml")
    with connected(top) as client:
        assert len(client.listed()) == 2
        (top / "next").symlink_to("two")
        (top / "next").rename(top / "now")
        assert len(relisted(client)) == 4


def test_a_new_mount_that_cannot_start_is_reported_and_appears_once_it_can(top: Path) -> None:
    with connected(top) as client:
        keep(top, DOCS + "  late: {path: late}\n")
        assert len(relisted(client)) == 2
        client.errors.until("mount late is unavailable")
        (top / "late").mkdir()
        assert relisted(client) == ["file:///docs", "file:///late", "file:///docs/docs.txt"]


def test_an_unlisted_new_mount_is_reported_if_it_cannot_start(top: Path) -> None:
    with connected(top) as client:
        keep(top, DOCS + "  late: {path: late, listed: false}\n")
        client.errors.until("mount late is unavailable")


def test_a_plugin_that_failed_to_load_is_retried(top: Path) -> None:
    (top / "telling.py").write_text("import nothing_of_that_name\n", "utf-8")
    keep(top, DOCS + PLUGIN)
    with connected(top) as client:
        client.errors.until("nothing_of_that_name")
        (top / "telling.py").write_text(TELLING.format(at_import=""), "utf-8")
        (top / "mcp-resources.yaml").touch()
        client.errors.until("entered")
        assert relisted(client) == WITH_PLUGIN


@pytest.mark.guarantee("plugins-are-named")
def test_plugins_stay_refused_after_a_reload(top: Path) -> None:
    with connected("--no-plugins", top) as client:
        keep(top, MORE + PLUGIN)
        assert len(relisted(client)) == 4
        *_, told = client.errors.until("mount plugin is unavailable")
        assert "not allowed" in told


def test_strict_keeps_the_previous_manifest_after_a_failed_reload(top: Path) -> None:
    with connected("--strict", top) as client:
        keep(top, DOCS + "providers:\n  plugin: {use: no.py}\n")
        client.errors.until("the manifest is invalid")
        client.errors.until(":4:17: providers.plugin.use: ")
        assert len(client.listed()) == 2


def test_requests_are_served_while_a_manifest_loads(top: Path) -> None:
    (top / "telling.py").write_text(TELLING.format(at_import="wait_for('released')"), "utf-8")
    with connected(top) as client:
        keep(top, DOCS + PLUGIN)
        client.errors.until("waiting for released")
        assert len(client.listed()) == 2
        (top / "released").touch()
        assert relisted(client) == WITH_PLUGIN


def test_serving_can_end_while_a_manifest_loads(top: Path) -> None:
    (top / "telling.py").write_text(TELLING.format(at_import="wait_for('released')"), "utf-8")
    with connected(top) as client:
        keep(top, DOCS + PLUGIN)
        client.errors.until("waiting for released")
        assert others(client.end()) == []


def test_requests_in_flight_in_a_removed_mount_complete(top: Path) -> None:
    keep(top, DOCS + PLUGIN)
    with connected(top) as client:
        reading = client.send("resources/read", uri="resource://plugin/x")
        client.errors.until("waiting for released")
        keep(top, DOCS)
        assert client.told() == ("list_changed", None)
        assert others(client.errors.rest(QUIET_S)) == []
        (top / "released").touch()
        assert client.answer(reading)["result"]["contents"][0]["text"] == "late"
        assert others(client.end()) == ["closed"]


def test_list_changed_is_advertised_although_nothing_is_watched(top: Path) -> None:
    keep(top, "roots:\n  docs: {path: docs, watch: off}\n")
    with connected(top) as client:
        assert client.capabilities["resources"] == {"subscribe": False, "listChanged": True}


def test_clients_are_notified_of_added_renamed_and_disabled_tools(top: Path) -> None:
    def offered(client: Client) -> list[str]:
        """Return the tools once the client has been told that they are others."""
        assert client.told() == ("notifications/tools/list_changed", None)
        return [tool["name"] for tool in client.request("tools/list")["result"]["tools"]]

    with connected(top) as client:
        assert client.capabilities["tools"] == {"listChanged": True}
        keep(top, DOCS + "tools: {prefix: acme_, search: false}\n")
        assert offered(client) == [
            "acme_list_resources",
            "acme_read_resource",
            "acme_resource_metadata",
        ]
        keep(top, DOCS + "tools: false\n")
        assert offered(client) == []
        gone = client.request("tools/call", name="list_resources")
        assert gone["error"]["code"] == -32602
        keep(top, DOCS + "tools: {prefix: 5}\n")
        client.errors.until("tools.prefix")
        keep(top, DOCS)
        assert len(offered(client)) == 4
        assert client.untold() == []


def test_disabled_tools_are_not_advertised(top: Path) -> None:
    keep(top, DOCS + "tools: false\n")
    with connected(top) as client:
        assert "tools" not in client.capabilities
        assert others(client.end()) == []


def test_a_reload_keeps_hashes_and_a_new_key_changes_them(top: Path) -> None:
    with closing(sqlite3.connect(top / "shop.db")) as connection, connection:
        connection.execute("create table people (id integer primary key, mail)")
        connection.execute("insert into people values (1, 'ann@example.org')")
    table = "{people: {columns: {mask: {mail: hash}}}}"
    shop = f"databases:\n  shop: {{url: sqlite:///shop.db, tables: {table}}}\n"
    keep(top, shop + DOCS)
    with connected(str(top)) as client:
        row = read(client, "sqlite://shop/people/1")
        keep(top, shop + MORE)
        assert "file:///more" in relisted(client)
        assert read(client, "sqlite://shop/people/1") == row
        keep(top, f"server: {{key: {'0123456789abcdef' * 2}}}\n{shop}{DOCS}")
        # A mount that is made anew may also offer other tools.
        assert client.told() == ("notifications/tools/list_changed", None)
        assert "file:///more" not in relisted(client)
        assert read(client, "sqlite://shop/people/1") != row
