"""`check`: what each mount exposes and hides, how changes are detected, and mistakes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from resource_server.runtime import file_system_kind
from tests.cases import for_each
from tests.cli.conftest import ROOT, Lines, Outcome, Run
from tests.waiting import PATIENCE_S

NUMBERS = """
from resource_server.provider import NotACollection, Resource, ResourceNotFound

class Numbers:
    def __init__(self, count: int = 3) -> None:
        self.count = count

    templates = ()

    def list(self, parent, *, after, limit):
        if parent:
            raise NotACollection
        first = int(after[0]) + 1 if after else 0
        last = min(first + limit, self.count)
        return [Resource(path=(f"{n:06}",), name=str(n)) for n in range(first, last)]

    def metadata(self, path):
        if path == ():
            return Resource(path=(), name="numbers", type="collection")
        if path[0].isdigit() and int(path[0]) < self.count:
            return Resource(path=path, name=path[0])
        raise ResourceNotFound

    def read(self, path, query):
        return []

    def hides(self, *, limit):
        paths = [(f"-{n}",) for n in range(1, 6)][:limit]
        return [*[(path, "negative") for path in paths], (("a", "\\x1b"), "no number")]

    def explain(self, path):
        return "a number"

    def warnings(self, *, thorough):
        return []
"""


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    (tmp_path / "numbers.py").write_text(NUMBERS, "utf-8")
    (tmp_path / "mcp-resources.yaml").write_text(
        "providers:\n  n: {use: numbers.py}\n  many: {use: numbers.py, count: 20000}\n", "utf-8"
    )
    return tmp_path


def facts(out: str) -> dict[str, str]:
    """Return the indented lines of a report by their first word."""
    lines = [line for line in out.splitlines() if line.startswith("  ")]
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in reversed(lines)}


def test_a_folder_is_reported_with_its_abilities(run: Run, folder: Path) -> None:
    done = run("check", folder)
    assert done.status == 0
    assert done.out.startswith("project  file:///project/\n")
    report = facts(done.out)
    assert report["provider"] == "filesystem"
    assert report["offers"] == "list, read, metadata, complete, fetch, check, watch"
    assert report["resources"] == "7"
    assert report["template"] == "file:///project/{+path}"


def test_watch_is_not_an_ability_if_it_is_switched_off(run: Run, numbers: Path) -> None:
    watching = "\n    async def changes(self, interest):\n        yield\n"
    (numbers / "numbers.py").write_text(NUMBERS + watching, "utf-8")
    (numbers / "mcp-resources.yaml").write_text(
        "providers:\n  on: {use: numbers.py}\n  off: {use: numbers.py, watch: off}\n", "utf-8"
    )
    on, off = json.loads(run("check", numbers, "--json").out)["mounts"]
    assert on["abilities"] == ["list", "read", "metadata", "check", "watch"]
    assert off["abilities"] == ["list", "read", "metadata", "check"]


def test_json_reports_the_same_facts(run: Run, folder: Path) -> None:
    done = run("check", folder, "--json")
    (report,) = json.loads(done.out)["mounts"]
    assert (done.status, done.err) == (0, "")
    assert (report["name"], report["uri"], report["resources"]) == (
        "project",
        "file:///project/",
        7,
    )


def test_counting_stops_at_a_limit(run: Run, numbers: Path) -> None:
    done = run("check", numbers, "--json")
    few, many = json.loads(done.out)["mounts"]
    assert (few["resources"], few.get("more")) == (4, None)
    assert (many["resources"], many["more"]) == (10_000, True)
    assert "10,000+" in run("check", numbers).out


def test_hidden_resources_are_summarized_by_rule(run: Run, numbers: Path) -> None:
    lines = run("check", numbers).out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("  hidden")][:2] == [
        "5, negative (-1, -2, -3, …)",
        r"1, no number (a/\x1b)",
    ]


FAILING = pytest.mark.parametrize(
    "failing", ["raise KeyError", "import asyncio; raise asyncio.CancelledError"]
)


@FAILING
def test_a_provider_whose_hides_fails_is_status_1(run: Run, numbers: Path, failing: str) -> None:
    plugin = numbers / "numbers.py"
    plugin.write_text(NUMBERS.replace("paths = [", f"{failing}\n        paths = ["), "utf-8")
    done = run("check", numbers)
    assert done.status == 1
    assert facts(done.out)["problem"] == "its hidden paths cannot be determined; -v shows why"


WARNING = """
    async def warnings(self, *, thorough):
        return [("", "the login may write\\x1b"), ("count", "no such number; did you mean 4?")]
"""


def test_warnings_are_reported_and_an_option_without_a_match_is_status_1(
    run: Run, numbers: Path
) -> None:
    (numbers / "numbers.py").write_text(NUMBERS + WARNING, "utf-8")
    (numbers / "mcp-resources.yaml").write_text("providers:\n  n: {use: numbers.py, count: 5}\n")
    done = run("check", numbers)
    mistake = (
        f"{numbers}/mcp-resources.yaml:2:31: providers.n.count: no such number; did you mean 4?"
    )
    assert done.status == 1
    assert facts(done.out)["warning"] == r"the login may write\x1b"
    assert facts(done.out)["mistake"] == mistake
    (report,) = json.loads(run("check", numbers, "--json").out)["mounts"]
    assert report["mistakes"] == [mistake]
    assert len(report["warnings"]) == 1


def test_a_key_of_directories_without_a_matching_directory_is_a_mistake(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "docs" / "api").mkdir(parents=True)
    (tmp_path / "a.txt").touch()
    (tmp_path / "mcp-resources.yaml").write_text(
        "roots:\n  r:\n    path: .\n    directories:\n"
        "      Private: {title: T}\n"
        "      docs/apl/: {title: T}\n"
        "      quite/another: {title: T}\n"
        "      a.txt: {title: T}\n"
        "      ./docs/api: {title: T}\n"
        "      mcp-resources.yaml: {exposed: false}\n"
    )
    done = run("check", tmp_path, "--json")
    (report,) = json.loads(done.out)["mounts"]
    assert done.status == 1
    assert [each.partition(".yaml:")[2] for each in report["mistakes"]] == [
        "5:16: roots.r.directories.Private: no such directory; did you mean 'private'?",
        "6:18: roots.r.directories[\"docs/apl/\"]: no such directory; did you mean 'docs/api'?",
        '7:22: roots.r.directories["quite/another"]: no such directory',
        "8:14: roots.r.directories[\"a.txt\"]: 'a.txt' is no directory",
    ]
    (tmp_path / "mcp-resources.yaml").write_text(
        "roots: {r: {path: ., directories: {private: {exposed: false}}}}\n"
    )
    assert run("check", tmp_path).status == 0


def test_a_warning_alone_is_no_failure(run: Run, numbers: Path) -> None:
    unsafe = "\n    def warnings(self, *, thorough): return [('', 'the login may write')]\n"
    (numbers / "numbers.py").write_text(NUMBERS + unsafe, "utf-8")
    done = run("check", numbers)
    assert (done.status, facts(done.out)["warning"]) == (0, "the login may write")


@FAILING
def test_a_provider_whose_warnings_fail_is_status_1(run: Run, numbers: Path, failing: str) -> None:
    wrong = f"\n    def warnings(self, *, thorough): {failing}\n"
    (numbers / "numbers.py").write_text(NUMBERS + wrong, "utf-8")
    done = run("check", numbers)
    assert done.status == 1
    assert facts(done.out)["problem"] == "its warnings cannot be determined; -v shows why"


def test_a_missing_libmagic_is_reported_without_failing(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "magic.py").write_text("raise ImportError\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "resource_server", "check", str(folder)],
        env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr.startswith("resource-server: libmagic is missing, so")
    assert done.stderr.count("\n") == 1


def test_an_unlisted_mount_is_reported_as_unlisted(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text("roots:\n  a: {path: ., listed: false}\n", "utf-8")
    done = run("check", folder)
    assert done.status == 0
    assert facts(done.out)["listed"] == "no, only readable by URI"


def test_a_mount_that_cannot_serve_is_status_1(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "roots:\n  here: {path: docs}\n  gone: {path: nowhere}\n", "utf-8"
    )
    done = run("check", folder)
    assert done.status == 1
    assert "gone  file:///gone/\n  provider  filesystem\n  problem " in done.out
    assert done.err == ""  # it is said once
    assert "here  file:///here/\n  provider   filesystem\n  offers" in done.out


def test_a_mount_that_cannot_be_listed_is_status_1(run: Run, numbers: Path) -> None:
    plugin = numbers / "numbers.py"
    plugin.write_text(
        NUMBERS.replace("raise NotACollection", "raise").replace("if parent", "if not parent"),
        "utf-8",
    )
    done = run("check", numbers)
    assert done.status == 1
    assert facts(done.out)["problem"] == "its resources cannot be listed; -v shows why"


@pytest.mark.parametrize("count", [5, 150])
def test_a_listing_that_begins_again_is_a_problem(run: Run, numbers: Path, count: int) -> None:
    plugin = numbers / "numbers.py"
    plugin.write_text(NUMBERS.replace("if after else 0", "if False else 0"), "utf-8")
    (numbers / "mcp-resources.yaml").write_text(
        f"providers:\n  n: {{use: numbers.py, count: {count}}}\n", "utf-8"
    )
    done = run("check", numbers)
    assert done.status == 1
    assert facts(done.out)["problem"] == "its resources cannot be listed; -v shows why"


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("templates = ()", "templates = 5", "its resources cannot be determined"),
        (
            "templates = ()",
            "templates = property(lambda self: 1 / 0)",
            "its resources cannot be determined",
        ),
        (
            'name="numbers", type="collection")',
            'name="numbers") and None',
            "its resources cannot be listed",
        ),
    ],
)
def test_a_plugin_that_breaks_the_contract_is_a_problem_of_its_mount(
    run: Run, numbers: Path, good: str, bad: str, problem: str
) -> None:
    assert good in NUMBERS
    (numbers / "numbers.py").write_text(NUMBERS.replace(good, bad), "utf-8")
    done = run("check", numbers)
    assert done.status == 1
    assert facts(done.out)["problem"] == f"{problem}; -v shows why"


def test_plugin_problems_are_reported_together_with_manifest_problems(
    run: Run, numbers: Path
) -> None:
    manifest = numbers / "mcp-resources.yaml"
    manifest.write_text(
        "serve: {}\nproviders:\n  a: {use: numbers.py, cuont: 2}\n  b: {use: nothing.py}\n", "utf-8"
    )
    done = run("check", numbers)
    assert (done.status, done.out) == (2, "")
    places = [line.split(": ")[0].removeprefix(f"{manifest}:") for line in done.err.splitlines()]
    assert places == ["1:1", "3:24", "4:12"]


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("file:///project/README.md", "exposed"),
        ("file:///project/.env", "secret: "),
        ("file:///project/none", "no such file"),
    ],
)
def test_one_resource_is_explained(run: Run, folder: Path, uri: str, reason: str) -> None:
    done = run("check", folder, "--explain", uri)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"{uri}: {reason}")
    assert done.out.count("\n") == 1


def test_a_name_that_is_not_utf_8_is_explained(run: Run, folder: Path) -> None:
    (folder / ".a\udcff").touch()
    done = run("check", folder, "--explain", "file:///project/.a\udcff", "--json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["uri"] == "file:///project/.a%FF"


def test_a_uri_outside_every_mount_is_status_1(run: Run, folder: Path) -> None:
    done = run("check", folder, "--explain", "docs://x/y", "--json")
    assert done.status == 1
    assert json.loads(done.out) == {
        "uri": "docs://x/y",
        "explanation": "the URI is outside all mounts; known base URIs: file:///project/",
    }


@pytest.mark.parametrize(("name", "words"), [("000002", "exposed by n"), ("9", "hidden by n")])
def test_explain_reports_only_visibility_for_a_provider_without_explain(
    run: Run, numbers: Path, name: str, words: str
) -> None:
    plugin = numbers / "numbers.py"
    plugin.write_text(NUMBERS.partition("    def hides")[0], "utf-8")
    done = run("check", numbers, "--explain", f"resource://n/{name}")
    assert done.out.startswith(f"resource://n/{name}: {words}")


GUARDED = """
roots:
  project:
    path: project
    directories: {docs: {access: {scopes: [docs:read]}}}
  all: {path: project, access: {scopes: [b, a]}}
  open: {path: project}
"""


def test_required_scopes_are_reported_with_a_warning_if_nothing_enforces_them(
    run: Run, folder: Path
) -> None:
    manifest = folder.parent / "mcp-resources.yaml"
    manifest.write_text(GUARDED)
    done = run("check", manifest)
    assert done.status == 0
    assert "access     directories.docs.access: docs:read\n" in done.out
    assert "access     access: a, b\n" in done.out
    assert done.out.count("warning    'access' has no effect: without 'http.auth'") == 2
    given = "token: 0123456789abcdef"
    for scopes in ("a, b, 'docs:read'", ""):
        manifest.write_text(
            f"{GUARDED}http: {{auth: {{tokens: [{{{given}, scopes: [{scopes}]}}]}}}}"
        )
        assert "warning" not in run("check", manifest).out


def test_static_tokens_that_lack_scopes_because_they_name_none_are_reported(
    run: Run, folder: Path
) -> None:
    manifest = folder.parent / "mcp-resources.yaml"
    plain = "auth: {scopes: ['docs:read'], tokens: [0123456789abcdef, fedcba9876543210]}"
    manifest.write_text(f"{GUARDED}http: {{{plain}}}")
    done = run("check", manifest)
    assert done.status == 0
    (warning,) = (line for line in done.out.splitlines() if "warning" in line)
    assert warning.endswith(
        "static tokens without 'scopes' have those of http.auth.scopes: "
        "token-1, token-2 see nothing that requires a, b"
    )


def test_the_rule_that_requires_scopes_is_named(run: Run, folder: Path) -> None:
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "x.txt").write_text("x")
    manifest = folder.parent / "mcp-resources.yaml"
    manifest.write_text(GUARDED)
    uris = ["file:///project/docs/x.txt", "file:///all/docs", "file:///open/docs"]
    asked = [argument for uri in uris for argument in ("--explain", uri)]
    assert run("check", *asked, manifest).out.splitlines() == [
        f"{uris[0]}: exposed, to callers with docs:read (directories.docs.access)",
        f"{uris[1]}: exposed; all requires a, b (access)",
        f"{uris[2]}: exposed",
    ]


def test_the_token_cost_of_the_tools_is_reported(run: Run, folder: Path) -> None:
    told = run("check", str(folder)).out.splitlines()[-1]
    assert told.startswith("4 tools, about ")
    assert told.endswith(" tokens in tools/list")
    found = json.loads(run("check", str(folder), "--json").out)["tools"]
    assert found["count"] == 4
    assert f" {found['tokens']:,} " in told
    assert found["tokens"] < 1100


def test_no_token_cost_is_reported_without_tools(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text("roots:\n  r: {path: docs}\ntools: false\n", "utf-8")
    assert "tokens" not in run("check", str(folder)).out
    assert json.loads(run("check", str(folder), "--json").out)["tools"] == {
        "count": 0,
        "tokens": 0,
        "warnings": [],
    }


def test_tools_that_hosts_may_not_offer_are_warned_of(run: Run, tmp_path: Path) -> None:
    tools = """
    def tools(self):
        from resource_server.provider.tools import Tool
        names = [*(f"tool{n}" for n in range(36)), "x" * 46, "y" * 47]
        return [Tool(name=name, description="x" if "x" in name else "") for name in names]
    def call_tool(self, name, arguments, asked):
        raise AssertionError
"""
    (tmp_path / "numbers.py").write_text(NUMBERS + tools, "utf-8")
    (tmp_path / "mcp-resources.yaml").write_text("providers:\n  n: {use: numbers.py}\n", "utf-8")
    done = run("check", str(tmp_path))
    assert done.status == 0
    warnings = [line.split(None, 1)[1] for line in done.out.splitlines() if "warning" in line]
    assert warnings[0] == "42 tools: some hosts offer a model at most 40, of all servers"
    assert warnings[1] == ("tool tool0: without a description; a model cannot know when to call it")
    assert [each for each in warnings if " characters;" in each] == [
        f"tool {'y' * 47}: the name has 47 characters; "
        "with a host's own prefix, more than 46 are too many"
    ]
    assert len(warnings) == 1 + 36 + 1 + 1
    found = json.loads(run("check", str(tmp_path), "--json").out)["tools"]
    assert found["warnings"] == warnings


def test_a_dropped_tool_is_named_with_the_reason(run: Run, tmp_path: Path) -> None:
    tools = """
    def tools(self):
        from resource_server.provider.tools import Tool
        return [Tool(name="a b", description="x"), Tool(name="good", description="x")]
    def call_tool(self, name, arguments, asked):
        raise AssertionError
"""
    (tmp_path / "numbers.py").write_text(NUMBERS + tools, "utf-8")
    (tmp_path / "mcp-resources.yaml").write_text("providers:\n  n: {use: numbers.py}\n", "utf-8")
    checked = run("check", str(tmp_path))
    assert checked.out.splitlines()[-1].startswith("5 tools, ")
    assert "mount n: tool 'a b' is left out: a name is 1 to 128 of" in checked.err
    assert "tools" in facts(checked.out)["offers"]


# -- how changes are detected

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
        timeout=PATIENCE_S,
        check=False,
    )
    if done.stdout == "not permitted\n":
        pytest.skip("needs a user namespace")
    return done.stdout.splitlines()


@linux_only
def test_a_folder_without_inotify_is_reported_as_polled_with_a_remedy(
    folder: Path,
) -> None:
    [line] = [line for line in limited("check", folder) if line.startswith("  watch ")]
    assert line.split(maxsplit=1)[1].startswith("poll (no inotify: ")
    assert SYSCTL in line


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


# -- prompts


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


# -- converters and data files


def checked(
    folder: Path, *arguments: str, path: Path = ROOT, without: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Check a folder in a process of its own, where some modules cannot be imported."""
    hidden = "".join(f"sys.modules[{name!r}] = None; " for name in without)
    code = f"import sys; {hidden}from resource_server.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "check", str(folder), *arguments],
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}"},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    made = tmp_path / "documents"
    made.mkdir()
    for name in ("a.pdf", "b.pdf", "c.csv", "d.txt"):
        (made / name).write_bytes(b"x,y\n1,2\n")
    return made


@pytest.mark.skipif(sys.platform != "linux", reason="landlock and seccomp are those of Linux")
def test_documents_with_other_formats_are_counted_and_their_workers_tried(documents: Path) -> None:
    done = checked(documents)
    assert done.returncode == 0
    assert facts(done.stdout)["converts"] == "2 pdf, 1 csv"
    confined = "converters run in processes of their own, confined by landlock and seccomp"
    assert confined in done.stdout.splitlines()
    report = json.loads(checked(documents, "--json").stdout)
    assert report["mounts"][0]["converts"] == {"application/pdf": 2, "text/csv": 1}
    assert report["converters"] == {
        "protections": ["landlock", "seccomp"],
        "missing": [],
        "unusable": {},
    }


def test_no_worker_is_tried_for_a_folder_that_converts_nothing(documents: Path) -> None:
    manifest = "roots:\n  a: {path: ., convert: off}\n"
    (documents / "mcp-resources.yaml").write_text(manifest, "utf-8")
    done = checked(documents, without=["pypdfium2"])
    assert "conver" not in done.stdout
    assert done.returncode == 0


def test_documents_that_wait_for_packages_are_counted_with_the_command(documents: Path) -> None:
    done = checked(documents, without=["pypdfium2"])
    assert done.returncode == 0
    report = facts(done.stdout)
    assert report["converts"] == "1 csv"
    assert report["warning"].startswith("reading 2 pdf in other formats needs more packages; ")
    assert "documents" in report["warning"]


def test_a_converter_that_cannot_be_imported_is_status_1(documents: Path, tmp_path: Path) -> None:
    # Workers find installed modules only, and not those of PYTHONPATH.
    (tmp_path / "mine.py").write_text("def convert(file, request): ...\n", "utf-8")
    information = tmp_path / "mine-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    entry = "[resource_server.converters]\ntext/csv = mine:convert\n"
    (information / "entry_points.txt").write_text(entry, "utf-8")
    done = checked(documents, path=tmp_path)
    problem = "text/csv: its converter cannot be imported (ModuleNotFoundError: mine)"
    assert facts(done.stdout)["problem"] == problem
    assert done.returncode == 1


def test_data_files_that_are_left_out_are_warned_of(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "fine.csv").write_text("a,b\n1,2\n", "utf-8")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "none.csv").touch()
    manifest = "databases:\n  d: {url: 'files:**/*.*'}\n"
    (tmp_path / "mcp-resources.yaml").write_text(manifest, "utf-8")
    done = run("check", tmp_path)
    warnings = [line.split(maxsplit=1)[1] for line in done.out.splitlines() if "warning" in line]
    assert [warning for warning in warnings if "data file" in warning] == [
        "a data file is left out: deep/none.csv: it is empty",
        "a data file is left out: torn.parquet: it is damaged, or not what its name says; replace "
        "or remove it",
    ]
    assert done.err == ""
    assert done.status == 0


def test_data_files_without_a_table_are_a_problem(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "none.csv").touch()
    done = run("check", tmp_path / "none.csv")
    told = "no data file can be read as a table: none.csv: it is empty"
    assert facts(done.out)["problem"] == told
    assert done.status == 1


def test_one_bad_file_of_a_table_is_named_and_left_out(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "1.csv").write_text("a,b\n1,2\n", "utf-8")
    (tmp_path / "2.csv").touch()
    done = run("check", f"files:{tmp_path}/*.csv?table=all")
    told = "a data file is left out: 2.csv: it is empty"
    assert facts(done.out)["warning"] == told
    assert done.status == 0


# Landlock takes 16 rule sets of a process, and refuses the next one.
LANDLOCKED = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
for _ in range(16):
    rights = struct.pack("Q", 1 << 11)
    rules = libc.syscall(444, rights, ctypes.c_size_t(len(rights)), 0)
    if rules < 0 or libc.syscall(446, rules, 0) != 0:
        sys.exit(77)
from resource_server.cli import main
main(["check", *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these protections")
def test_a_database_process_that_is_not_confined_is_warned_of(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LANDLOCKED, str(tmp_path / "a.csv")],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this kernel has no Landlock")
    told = "this system does not confine the process that reads it by landlock"
    assert facts(done.stdout)["warning"] == told, done.stderr
    assert done.returncode == 0
    assert "does not confine" not in run("check", tmp_path / "a.csv").out


OWNED = """
databases:
  shop:
    url: sqlite:///shop.db
    tables: {orders: {where: "owner = :claims.sub"}}
    queries: {mine: {sql: "select id from orders where owner = :claims.sub"}}
"""


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """A manifest of a table whose rows are by a claim."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as made:
        made.execute("create table orders (id integer primary key, owner text)")
    (tmp_path / "mcp-resources.yaml").write_text(OWNED)
    return tmp_path / "mcp-resources.yaml"


def test_rows_by_claims_are_reported_with_what_lacks_without_tokens(run: Run, owned: Path) -> None:
    done = run("check", owned)
    assert done.status == 0
    (warning,) = (line for line in done.out.splitlines() if "warning" in line)
    assert "the caller's sub does not exist without tokens; write `claims: {sub: …}`" in warning
    assert "rows by    sub" in done.out
    assert facts(done.out)["resources"] == "1"
    for claims in (["--claims", "sub=alice"], ["--claims", 'sub="5"']):
        done = run("check", owned, *claims)
        assert (done.status, facts(done.out)["resources"]) == (0, "6")
        assert "warning" not in done.out
    owned.write_text(f"server: {{claims: {{sub: alice}}}}{OWNED}")
    assert facts(run("check", owned).out)["resources"] == "6"


def test_what_depends_on_a_claim_is_explained(run: Run, owned: Path) -> None:
    uris = ("sqlite://shop/orders", "sqlite://shop/~query/mine")
    for uri in uris:
        done = run("check", owned, "--explain", uri)
        assert "from callers without tokens: `server.claims` has no sub" in done.out
    done = run("check", owned, "--claims", "sub=alice", "--explain", uris[0])
    assert done.out.strip().endswith("exposed, rows by sub (tables.orders.where)")


@for_each("claims", ["sub", "a b=1", "=1", "sub=1"])
def test_claims_that_are_not_written_as_name_and_value_are_refused(
    run: Run, owned: Path, claims: str
) -> None:
    done = run("check", owned, "--claims", claims, "--claims", "sub.id=1")
    assert done.status == 2
    assert "--claims" in done.err
