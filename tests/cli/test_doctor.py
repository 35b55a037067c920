"""`resource-server doctor`: with a home folder of its own, with hosts and without."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from resource_server.cli.commands.doctor import InotifyLimits, inotify_limits
from resource_server.runtime import extras, installation
from tests.cli.conftest import Run


def findings(run: Run) -> dict[str, dict[str, Any]]:
    done = run("doctor", "--json")
    found = json.loads(done.out)["findings"]
    assert done.status == any(each["state"] == "problem" for each in found)
    return {each["name"]: each for each in found}


def connected(home: Path, *arguments: str, **members: object) -> None:
    (home / ".cursor").mkdir(exist_ok=True)
    program, *rest = installation.detect().program()
    entry = {"command": program, "args": [*rest, "serve", *arguments], **members}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"mine": entry}}))


def test_all_that_is_needed_works_here(run: Run, home: Path) -> None:
    found = findings(run)
    assert {name for name, each in found.items() if each["state"] == "problem"} == set()
    assert sys.executable in found["Python"]["text"]
    assert installation.detect().origin in found["resource-server"]["text"]
    assert {f"extra {extra}" for extra in extras.PACKAGES} <= found.keys()
    assert found["Node"]["state"] == "missing"
    assert found["hosts"]["text"] == "none is found on this machine"


def test_node_that_does_not_run_is_no_problem(run: Run, home: Path, tmp_path: Path) -> None:
    node = tmp_path / "bin" / "node"
    node.parent.mkdir()
    node.write_text("#!/bin/sh\nexit 1\n")
    node.chmod(0o755)
    found = findings(run)["Node"]
    assert found["state"] == "missing"
    assert found["text"] == f"{node} does not run; only the MCP Inspector needs it"


def test_a_person_gets_one_line_a_finding(run: Run, home: Path) -> None:
    done = run("doctor")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("ok       Python            CPython ")


def test_a_missing_extra_is_no_problem_and_has_its_command(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    found = findings(run)["extra http"]
    assert (found["state"], found["text"]) == ("missing", "lacks httptools; add it:")
    assert found["command"] == extras.install_command("http")


def test_hosts_are_told_with_the_answers_of_their_servers(
    run: Run, home: Path, folder: Path
) -> None:
    (home / ".gemini").mkdir()
    connected(home, str(folder))
    found = findings(run)
    assert found["Cursor"]["state"] == "ok"
    assert found["Cursor"]["text"].startswith("mine: answers in ")
    assert found["Gemini CLI"]["command"] == "resource-server install gemini ."


def test_a_server_that_does_not_start_is_a_problem_without_its_secrets(
    run: Run, home: Path, tmp_path: Path
) -> None:
    connected(home, str(tmp_path / "gone"), env={"TOKEN": "hunter2"})
    done = run("doctor")
    assert done.status == 1
    assert "problem  Cursor            mine: " in done.out
    assert "hunter2" not in done.out


@pytest.mark.parametrize("variable", ["", "/no/such/home"])
def test_a_home_folder_that_does_not_exist_is_no_problem(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv("HOME", variable)
    assert findings(run)["hosts"]["state"] == "missing"


def test_a_limit_that_is_nearly_used_up_comes_with_the_command_that_raises_it(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from resource_server.cli.commands import doctor

    monkeypatch.setattr(doctor, "inotify_limits", lambda: InotifyLimits(100, 10, 5, 10))
    found = findings(run)["inotify"]
    assert found["state"] == "problem"
    assert found["command"] == "sysctl fs.inotify.max_user_instances=20"


def test_watches_and_instances_of_this_user_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "sys" / "fs" / "inotify"
    folder.mkdir(parents=True)
    (folder / "max_user_watches").write_text("100\n")
    (folder / "max_user_instances").write_text("10\n")
    process = tmp_path / "12"
    for name in "fd", "fdinfo":
        (process / name).mkdir(parents=True)
    (process / "fd" / "3").symlink_to("anon_inode:inotify")
    (process / "fd" / "4").symlink_to("/dev/null")
    (process / "fdinfo" / "3").write_text("pos: 0\ninotify wd:1 ino:2\ninotify wd:2 ino:3\n")
    (tmp_path / "13").mkdir()  # it has ended
    assert inotify_limits(tmp_path) == InotifyLimits(100, 10, watches=2, instances=1)


def test_a_system_without_inotify_has_no_limits(tmp_path: Path) -> None:
    assert inotify_limits(tmp_path) is None


def test_a_limit_is_short_when_less_than_a_tenth_is_left() -> None:
    assert InotifyLimits(100, 10, watches=91, instances=1).short == "watches"
    assert InotifyLimits(100, 10, watches=1, instances=10).short == "instances"
    assert InotifyLimits(100, 10, watches=90, instances=9).short is None
