from __future__ import annotations

import json
import os
import pty
import select
from pathlib import Path

import pytest

from tests.cli.conftest import Run, started
from tests.waiting import PATIENCE_S

README = "file:///project/README.md"
BLOB = "file:///project/blob.bin"


def on_a_terminal(*arguments: str | Path) -> tuple[int, str, str]:
    """Run a command with a terminal as standard output; return status, that output and errors."""
    terminal, end = pty.openpty()
    with started(*arguments, stdout=end) as (process, errors):
        os.close(end)
        seen = b""
        while select.select([terminal], [], [], 20)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # Linux: nobody has the other end any more
                break
            if not data:
                break
            seen += data
        os.close(terminal)
        status = process.wait(PATIENCE_S)
        return status, seen.decode().replace("\r\n", "\n"), errors.read()


def test_text_is_printed_verbatim(run: Run, folder: Path) -> None:
    (folder / "odd.txt").write_bytes("no end\r\n\x1b[31m\u202e ☃".encode())
    done = run("read", folder, "file:///project/odd.txt")
    assert (done.status, done.err) == (0, "")
    assert done.raw == "no end\r\n\x1b[31m\u202e ☃".encode()


def test_bytes_are_printed_verbatim(run: Run, folder: Path) -> None:
    done = run("read", folder, BLOB)
    assert (done.status, done.err) == (0, "")
    assert done.raw == bytes(range(256)) * 8


def test_text_cannot_control_a_terminal(folder: Path) -> None:
    (folder / "odd.txt").write_bytes("a\tb\r\n\x1b[31mred \u202e grüße\n".encode())
    status, seen, errors = on_a_terminal("read", folder, "file:///project/odd.txt")
    assert (status, errors) == (0, "")
    assert seen == "a\tb\n\\x1b[31mred \\u202e grüße\n"


def test_bytes_are_refused_by_a_terminal_with_a_hint(folder: Path) -> None:
    status, seen, errors = on_a_terminal("read", folder, BLOB)
    assert (status, seen) == (1, "")
    assert errors.count("\n") == 1
    assert "> FILE" in errors


def test_a_listing_on_a_terminal_has_short_sizes_and_colours(folder: Path) -> None:
    status, seen, _ = on_a_terminal("list", folder)
    assert status == 0
    assert "2.0K\x1b[0m  file:///project/blob.bin\n" in seen
    assert "\x1b[1mfile:///project/docs/\x1b[0m" in seen


def test_a_collection_is_listed_with_a_note(run: Run, folder: Path) -> None:
    done = run("read", folder, "file:///project/docs")
    assert done.status == 0
    assert done.err == "resource-server: this is a collection; its children: file:///project/docs\n"
    assert [line.split()[-1] for line in done.out.splitlines()] == [
        "file:///project/docs/deep/",
        "file:///project/docs/guide.txt",
    ]


def test_the_continuation_of_a_range_is_on_standard_error(run: Run, folder: Path) -> None:
    guide = "file:///project/docs/guide.txt"
    done = run("read", folder, f"{guide}?lines=1-2")
    assert (done.status, done.out) == (0, "one\ntwo\n")
    assert done.err.startswith("resource-server: more follows, ")
    assert f"; continue with {guide}?lines=3-" in done.err
    assert done.err.count("\n") == 1


def test_the_end_of_a_document_needs_no_note(run: Run, folder: Path) -> None:
    done = run("read", folder, "file:///project/docs/guide.txt?tail=1")
    assert (done.out, done.err) == ("three\n", "")


def test_a_document_over_the_limit_is_refused_with_its_first_range(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text("roots:\n  project: {path: ., max_size: 1KiB}\n")
    done = run("read", folder, BLOB)
    assert (done.status, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert f"{BLOB} (readable from {BLOB}?bytes=0-" in done.err


@pytest.mark.parametrize("command", ["read", "metadata"])
@pytest.mark.parametrize(
    "uri",
    [
        "file:///project/.env",
        "file:///project/none.txt",
        "file:///project/../x",
        "other://x/",
        "file:///project/a%0Ab%1B",
    ],
)
def test_hidden_absent_and_malformed_look_the_same(
    run: Run, folder: Path, command: str, uri: str
) -> None:
    done = run(command, folder, uri)
    assert (done.status, done.out) == (1, "")
    # Of a malformed path, only the beginning is known.
    error = done.err.replace("; did you mean file:///project?", "")
    assert error == f"resource-server: resource not found: {uri}\n"


def test_a_uri_in_an_error_cannot_control_a_terminal(run: Run, folder: Path) -> None:
    done = run("read", folder, "file:///project/\x1b[31m\n")
    assert done.err.startswith(
        "resource-server: resource not found: file:///project/\\x1b[31m\\n; did you mean"
    )


def test_an_unknown_query_is_one_line(run: Run, folder: Path) -> None:
    done = run("read", folder, f"{README}?lnes=1")
    assert (done.status, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert done.err.endswith(f": {README}?lnes=1\n")


def test_json_is_the_result_sent_to_clients(run: Run, folder: Path) -> None:
    (content,) = json.loads(run("read", folder, README, "--json").out)["contents"]
    assert (content["uri"], content["text"]) == (README, "# Read me\n")
