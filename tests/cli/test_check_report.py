"""Reports of `check`: how changes of each mount are detected, and mistakes in prompts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from resource_server.providers.filesystem.watch import file_system_kind
from tests.cli.conftest import ROOT, Lines, Outcome, Run

PLUGIN = """
from resource_server.provider import Resource

class Quiet:
    templates = ()
    def list(self, parent, *, after, limit): return []
    def metadata(self, path): return Resource(path=path, name="x", type="collection")
    def read(self, path, query): return []

class Loud(Quiet):
    async def changes(self, interest):
        yield
"""
LIMITED = """
import sys
from resource_server.cli import main
from tests.providers.filesystem.watch.teller import limit

try:
    limit(instances=0)
except OSError:
    sys.exit("not permitted")
main(sys.argv[1:])
"""
SYSCTL = "sysctl fs.inotify.max_user_instances="

ROOTS = "roots:\n  project: {path: ., directories: {docs/deep: {readable: false}}}\n"

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="Linux has inotify")


def watches(run: Run, folder: Path, manifest: str) -> dict[str, str]:
    """Return how each mount of a manifest is watched, by its name."""
    (folder / "mcp-resources.yaml").write_text(manifest, "utf-8")
    reports = json.loads(run("check", folder, "--json").out)["mounts"]
    return {report["name"]: report["watch"] for report in reports}


@linux_only
def test_a_folder_is_reported_with_its_watcher(run: Run, folder: Path) -> None:
    options = ("auto", "inotify", "watchfiles", "poll", "off")
    roots = "".join(f"  {option}: {{path: ., watch: {option}}}\n" for option in options)
    found = watches(run, folder, f"roots:\n{roots}")
    assert found == {option: option for option in options} | {"auto": "inotify"}
    assert "\n  watch      inotify\n" in run("check", folder).out


@linux_only
def test_a_folder_on_a_remote_file_system_is_reported_as_polled(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("auto", "inotify", "watchfiles")
    roots = "".join(f"  {option}: {{path: ., watch: {option}}}\n" for option in options)
    table = Path("/proc/self/mountinfo").read_bytes()
    here = file_system_kind.file_system_type(table, bytes(folder.resolve()))
    # Patched: there is no network file system at hand.
    monkeypatch.setattr(file_system_kind, "_REMOTE", {here})
    found = watches(run, folder, f"roots:\n{roots}  state: {{path: /proc/self/net}}\n")
    remote = "poll (remote file system)"
    assert found == {
        "auto": remote,
        "inotify": remote,
        "watchfiles": f"watchfiles and {remote}",
        "state": "poll (pseudo file system)",
    }


def test_a_plugin_is_reported_as_watched_or_unwatched(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN, "utf-8")
    manifest = """
    providers:
      loud: {use: mine.py:Loud}
      muted: {use: mine.py:Loud, watch: off}
      quiet: {use: mine.py:Quiet}
    """
    found = watches(run, tmp_path, manifest)
    assert found == {"loud": "on", "muted": "off", "quiet": "off"}


def limited(*arguments: str | Path) -> list[str]:
    """Return the output of a command line that cannot open an inotify instance."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, arguments)],
        env={"PYTHONPATH": str(ROOT)},
        input="",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    if done.stdout == "not permitted\n":
        pytest.skip("needs a user namespace")
    return done.stdout.splitlines()


@pytest.mark.slow
@linux_only
def test_a_folder_without_inotify_is_reported_as_polled_with_a_remedy(
    folder: Path,
) -> None:
    [line] = [line for line in limited("check", folder) if line.startswith("  watch ")]
    assert line.split(maxsplit=1)[1].startswith("poll (no inotify: ")
    assert SYSCTL in line


@pytest.mark.slow
@linux_only
def test_missing_inotify_is_reported_once_for_all_folders_with_a_remedy(
    folder: Path,
) -> None:
    manifest = "roots:\n  one: {path: docs}\n  two: {path: docs}\n"
    (folder / "mcp-resources.yaml").write_text(manifest, "utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", LIMITED, "watch", str(folder)],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        errors = Lines(process.stderr)
        try:
            begun = errors.next()
            if begun == "not permitted":
                pytest.skip("needs a user namespace")
            said = [begun, *(() if "Ctrl-C" in begun else errors.until("Ctrl-C"))]
            (folder / "docs" / "guide.txt").touch()
            told = Lines(process.stdout)
            changed = {told.next().split()[-1] for _ in range(2)}
            assert changed == {"file:///one/guide.txt", "file:///two/guide.txt"}
        finally:
            process.kill()
    said += errors.rest()
    [line] = [line for line in said if "inotify" in line]
    assert SYSCTL in line


def check(run: Run, folder: Path, prompts: str, *options: str) -> Outcome:
    (folder / "mcp-resources.yaml").write_text(f"{ROOTS}prompts:\n{prompts}", "utf-8")
    return run("check", folder, *options)


def mistakes(run: Run, folder: Path, prompts: str) -> list[str]:
    done = check(run, folder, prompts, "--json")
    found = [
        mistake for each in json.loads(done.out)["prompts"] for mistake in each.get("mistakes", ())
    ]
    assert done.status == (1 if found else 0)
    return [each.partition("mcp-resources.yaml:")[2] for each in found]


def test_a_prompt_is_reported_with_its_arguments(run: Run, folder: Path) -> None:
    prompts = (
        "  hello:\n    title: Say hello\n    arguments: {who: {required: true}, how: }\n"
        "    messages: [{text: '{how} {who}'}]\n"
    )
    done = check(run, folder, prompts)
    assert done.status == 0
    expected = "hello  prompt\n  title      Say hello\n  arguments  who (required), how\n"
    assert expected in done.out
    (report,) = json.loads(check(run, folder, prompts, "--json").out)["prompts"]
    assert report == {
        "name": "hello",
        "title": "Say hello",
        "arguments": ["who", "how"],
        "required": ["who"],
        "mistakes": [],
    }


def test_an_unreadable_resource_is_a_mistake_for_every_plugin_error(run: Run, folder: Path) -> None:
    plugin = "import asyncio\nclass Mine:\n    templates = ()\n"
    for name in ("list", "metadata", "read"):
        plugin += f"    def {name}(self, *_, **__): raise asyncio.CancelledError\n"
    (folder / "mine.py").write_text(plugin, "utf-8")
    prompts = "  p: {messages: [{resource: 'resource://mine/x'}]}\n"
    (folder / "mcp-resources.yaml").write_text(
        f"providers: {{mine: {{use: mine.py}}}}\nprompts:\n{prompts}", "utf-8"
    )
    done = run("check", folder)
    assert done.status == 1
    assert "cannot be read; -v shows why: resource://mine/x" in done.out


def test_a_missing_resource_is_a_mistake_reported_at_its_position(run: Run, folder: Path) -> None:
    prompts = (
        "  p:\n    messages:\n"
        "      - {resource: 'file:///project/README.md'}\n"
        "      - {resource: 'file:///project/REDME.md'}\n"
        "      - {resource: 'file:///project/.env'}\n"
        "      - {resource: 'file:///project/docs/deep/note.txt'}\n"
        "      - {resource: 'file:///project/docs'}\n"
    )
    absent = "resource not found: file:///project"
    assert mistakes(run, folder, prompts) == [
        f"7:20: prompts.p.messages[1].resource: {absent}/REDME.md",
        f"8:20: prompts.p.messages[2].resource: {absent}/.env",
        f"9:20: prompts.p.messages[3].resource: {absent}/docs/deep/note.txt",
    ]


def test_a_resource_with_arguments_is_checked_with_their_defaults(run: Run, folder: Path) -> None:
    prompts = (
        "  p:\n    arguments: {a: {required: true}, b: {default: none.md}}\n    messages:\n"
        "      - {resource: 'file:///project/{a}'}\n"
        "      - {resource: 'file:///project/{b}'}\n"
    )
    assert mistakes(run, folder, prompts) == [
        "8:20: prompts.p.messages[1].resource: resource not found: file:///project/none.md"
    ]


def test_an_argument_without_suggestions_is_a_mistake(run: Run, folder: Path) -> None:
    prompts = (
        "  p:\n    arguments:\n"
        "      a: {complete: 'file:///project/docs/{a}'}\n"
        "      b: {complete: 'file:///project/README.md{?lines}'}\n"
        "      c: {complete: 'file:///project/README.md{?line}'}\n"
        "    messages: [{text: x}]\n"
    )
    assert mistakes(run, folder, prompts) == [
        "8:21: prompts.p.arguments.c.complete: matches no template of its mount, "
        "so nothing is suggested"
    ]


def test_an_unavailable_mount_is_not_a_mistake_of_the_prompt(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "roots: {gone: {path: nowhere}}\n"
        "prompts: {p: {arguments: {a: {complete: 'file:///gone/x{?none}'}},"
        " messages: [{resource: 'file:///gone/a'}]}}\n",
        "utf-8",
    )
    (report,) = json.loads(run("check", folder, "--json").out)["prompts"]
    assert report["mistakes"] == []
