from __future__ import annotations

import json
from pathlib import Path

import pytest

from resource_server.cli.commands.list import MAX_LINES
from tests.cli.conftest import Run


def names(out: str) -> list[str]:
    """Return the lines of a tree without their column of sizes."""
    return [line[12:] for line in out.splitlines()]


def test_each_line_has_an_address_and_collections_end_in_a_slash(run: Run, folder: Path) -> None:
    done = run("list", folder)
    assert (done.status, done.err) == (0, "")
    assert names(done.out) == [
        "file:///project/",
        "file:///project/docs/",
        "file:///project/docs/deep/",
        "file:///project/docs/deep/note.txt",
        "file:///project/docs/guide.txt",
        "file:///project/README.md",
        "file:///project/blob.bin",
    ]


def test_the_addresses_of_a_list_are_for_copying(run: Run, folder: Path) -> None:
    (folder / "Übersicht $(x) 'a' b.md").write_text("odd\n", "utf-8")
    (address,) = [each for each in names(run("list", folder).out) if "bersicht" in each]
    assert address == "file:///project/Übersicht%20%24%28x%29%20%27a%27%20b.md"
    assert run("read", folder, address).out == "odd\n"
    for each in names(run("list", folder).out):
        assert run("metadata", folder, each).status == 0


def test_sizes_are_in_a_column_with_all_their_digits(run: Run, folder: Path) -> None:
    sizes = {line[12:].strip(): line[:10].strip() for line in run("list", folder).out.splitlines()}
    assert sizes["file:///project/blob.bin"] == "2048"
    assert sizes["file:///project/docs/"] == ""


def test_each_mount_is_followed_by_what_it_has(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "roots:\n  a: {path: docs, title: The docs}\n  b: {path: docs/deep}\n", "utf-8"
    )
    assert names(run("list", folder).out) == [
        "file:///a/  The docs",
        "file:///a/deep/",
        "file:///a/deep/note.txt",
        "file:///a/guide.txt",
        "file:///b/",
        "file:///b/note.txt",
    ]


def test_a_uri_lists_its_direct_children_with_their_uris(run: Run, folder: Path) -> None:
    done = run("list", folder, "file:///project/docs")
    assert names(done.out) == ["file:///project/docs/deep/", "file:///project/docs/guide.txt"]


def test_a_document_has_no_children(run: Run, folder: Path) -> None:
    done = run("list", folder, "file:///project/README.md")
    assert (done.status, done.out) == (1, "")
    assert done.err == "resource-server: not a collection: file:///project/README.md\n"


def test_json_is_one_resource_per_line_as_sent_to_clients(run: Run, folder: Path) -> None:
    done = run("list", folder, "--json")
    resources = [json.loads(line) for line in done.out.splitlines()]
    assert (done.status, done.err, len(resources)) == (0, "", 7)
    # Collections of a level come before its documents.
    assert [each["uri"] for each in resources[1:3]] == [
        "file:///project/docs",
        "file:///project/README.md",
    ]
    assert resources[2]["resourceType"] == "document"
    assert resources[2]["_meta"]["resource-server/resourceType"] == "document"


def test_uris_are_one_on_each_line_for_other_commands(run: Run, folder: Path) -> None:
    (folder / "a b\n\x1b.txt").write_text("odd", "utf-8")
    done = run("list", "--uris", folder)
    uris = done.out.splitlines()
    assert (done.status, done.err, len(uris)) == (0, "", 8)
    assert "file:///project/docs/deep" in uris
    assert run("read", folder, "file:///project/a%20b%0A%1B.txt").out == "odd"
    assert "file:///project/a%20b%0A%1B.txt" in uris
    below = run("list", folder, folder / "docs", "--uris").out.splitlines()
    assert below == ["file:///project/docs/deep", "file:///project/docs/guide.txt"]


def test_uris_and_json_exclude_each_other(run: Run, folder: Path) -> None:
    done = run("list", "--uris", "--json", folder)
    assert (done.status, done.out) == (2, "")
    assert "--uris or --json, not both" in done.err


@pytest.mark.parametrize("option", ["--uris", "--json"])
def test_a_bounded_listing_for_programs_is_reported(run: Run, folder: Path, option: str) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "server: {listing: {max: 3}}\nroots: {a: {path: .}}\n", "utf-8"
    )
    done = run("list", option, folder)
    assert (done.status, len(done.out.splitlines())) == (0, 3)
    assert "more than the listing has" in done.err


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    for number in range(MAX_LINES + 20):
        (tmp_path / f"{number:04}").touch()
    return tmp_path


def test_a_long_listing_is_truncated_with_the_number_left(run: Run, crowded: Path) -> None:
    done = run("list", crowded)
    assert len(done.out.splitlines()) == MAX_LINES
    assert done.err == "resource-server: 21 more; --all prints them\n"


def test_a_bounded_listing_is_reported(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "server: {listing: {max: 3}}\nroots: {a: {path: .}}\n", "utf-8"
    )
    done = run("list", folder)
    assert names(done.out) == ["file:///a/", "file:///a/docs/", "file:///a/README.md"]
    assert done.err == (
        "resource-server: more than the listing has is below its collections; list one by its URI\n"
    )


@pytest.mark.parametrize("option", ["--all", "--json"])
def test_a_long_listing_is_complete_on_request(run: Run, crowded: Path, option: str) -> None:
    done = run("list", crowded, option)
    assert (len(done.out.splitlines()), done.err) == (MAX_LINES + 21, "")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb", "a%0Ab"),
        ("a\x1b[31mb", "a%1B%5B31mb"),
        ("a\u202eb", "a%E2%80%AEb"),
        ("grüße ☃", "grüße%20%E2%98%83"),
        (b"a\xffb", "a%FFb"),
    ],
    ids=["newline", "escape sequence", "bidi", "harmless", "not UTF-8"],
)
def test_names_cannot_control_a_terminal(
    run: Run, tmp_path: Path, name: str | bytes, shown: str
) -> None:
    (
        tmp_path / (name if isinstance(name, str) else name.decode("utf-8", "surrogateescape"))
    ).touch()
    (address,) = names(run("list", tmp_path).out)[1:]
    assert address.rpartition("/")[2] == shown


def test_an_unavailable_mount_is_reported_and_the_others_are_listed(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "roots:\n  here: {path: docs/deep}\n  gone: {path: nowhere}\n", "utf-8"
    )
    done = run("list", folder)
    assert done.status == 1
    assert names(done.out) == ["file:///here/", "file:///here/note.txt"]
    assert done.err.startswith("resource-server: warning: mount gone is unavailable: ")
    assert done.err.count("\n") == 1


def test_a_refused_plugin_does_not_stop_the_others(run: Run, folder: Path) -> None:
    (folder / "mine.py").write_text("raise SystemExit('this ran')\n", "utf-8")
    (folder / "mcp-resources.yaml").write_text(
        "roots:\n  here: {path: docs/deep}\nproviders:\n  mine: {use: mine.py}\n", "utf-8"
    )
    done = run("list", folder, "--no-plugins")
    assert (done.status, names(done.out)) == (1, ["file:///here/", "file:///here/note.txt"])
    assert "not allowed" in done.err
    assert "this ran" in run("list", folder).err
