from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from resource_server.cli.hosts.installed_entries import answer_of
from resource_server.cli.hosts.server_entry import ServerEntry

FAITHFUL = """
import json, os, sys
print("hello")
for line in sys.stdin:
    if json.loads(line).get("id") == 2:
        answer = json.loads(os.environ["ANSWER"])
        print(json.dumps({"jsonrpc": "2.0", "id": 2, **answer}), flush=True)
"""


def entry(code: str, *arguments: str, answer: str = "") -> ServerEntry:
    command = (sys.executable, "-c", code, *arguments)
    return ServerEntry("n", command, environment={"ANSWER": answer})


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process by its descriptor")
def test_a_server_that_hangs_ends_with_its_children(tmp_path: Path) -> None:
    script = 'sleep 600 & echo $! > "$0"; wait'
    hanging = ServerEntry("n", ("/bin/sh", "-c", script, str(tmp_path / "child")))
    assert answer_of(hanging, 2.0) == (False, "no answer within 2 s")
    child = int((tmp_path / "child").read_text())
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(child)
        ended, _, _ = select.select([descriptor], [], [], 20)
        os.close(descriptor)
        assert ended


def test_every_kind_of_answer_is_said_in_a_line() -> None:
    for answer, is_well, words in (
        (
            '{"result": {"resources": [{}, {}], "nextCursor": "x"}}',
            True,
            "s with 2 or more resources",
        ),
        ('{"result": {"resources": [{}]}}', True, "s with 1 resource"),
        ('{"error": {"code": 1, "message": "no\\nway"}}', False, "answers with an error: no way"),
        ('{"result": {}}', False, "answers something that is no listing"),
    ):
        found = answer_of(entry(FAITHFUL, answer=answer), 20)
        assert (found[0], words in found[1]) == (is_well, True), found
    assert answer_of(entry("import sys; sys.exit('broken\\nlast')"), 20) == (False, "last")
    assert answer_of(ServerEntry("n", ("/missing/x",)), 1) == (
        False,
        "cannot be started, no such file or directory",
    )
