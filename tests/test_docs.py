"""README and docs are executed: commands, manifests, client configurations, references, links."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from resource_server.manifest import http, model, prompts
from resource_server.manifest.load import SECTIONS, load
from resource_server.manifest.typed_options import options_of
from tests import picture, reference
from tests.explorer import pictures
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
"""Pages whose commands and examples run here; other tests run those of plugins and examples."""
LINKED = (
    *PAGES[1:],
    *(
        page
        for name in ("*.md", "[!.]*/README.md", "examples/*/README.md")
        for page in ROOT.glob(name)
    ),
)
TEXT = "".join(page.read_text() for page in PAGES)
TOKEN = "change-this-token-first"  # noqa: S105 - the one in docs/http.md
PARAMETERS = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
"""Of `initialize`."""


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of one language on all pages, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def transcript(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command shown after a `$`, with the output shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run(command: str, folder: Path = ROOT) -> str:
    """Run a shown command as a user would and return what the terminal would show."""
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        shlex.split(command),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout


def test_watch_prints_changes_as_documented(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("text") if "resource-server watch" in block]
    command, note, *shown = block.splitlines()
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples/project", project, ignore=shutil.ignore_patterns(".cache"))
    scripts = sysconfig.get_path("scripts")
    process = subprocess.Popen(
        [f"{scripts}/resource-server", *shlex.split(command)[2:-1], str(project)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == f"{note}\n"
        (project / "README.md").touch()
        printed = [process.stdout.readline()]
        (project / "docs/prices.md").rename(project / "docs/price-list.md")
        both = [process.stdout.readline() for _ in range(2)]
        printed += sorted(both, key=lambda line: line.split()[1], reverse=True)
        (project / "web/cart.js").unlink()
        printed.append(process.stdout.readline())
        process.terminate()
    assert [line.split()[1:] for line in printed] == [line.split()[1:] for line in shown]


@pytest.mark.parametrize("block", blocks("console"))
def test_documented_commands_print_the_documented_output(block: str) -> None:
    if sys.platform != "linux":
        block = block.replace("inotify", "watchfiles")
        confined = ", confined by landlock and seccomp"
        unconfined = "\n  warning    this system does not confine them by landlock and seccomp"
        block = block.replace(confined, unconfined)
    for command, output in transcript(block):
        assert run(command).rstrip() == output.rstrip()


@pytest.mark.parametrize("manifest", blocks("yaml"))
def test_a_documented_manifest_loads(
    manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"\$\{(\w+)\}", manifest):
        monkeypatch.setenv(name, TOKEN)
    file = tmp_path / "mcp-resources.yaml"
    file.write_text(manifest)
    found = load(file)
    assert found.mounts or found.client_roots


def configurations() -> Iterator[dict[str, Any]]:
    """Yield each server entry of the shown client configurations."""
    documents = [json.loads(block) for block in blocks("json")]
    documents += [tomllib.loads(block) for block in blocks("toml")]
    for document in documents:
        for key in ("servers", "mcpServers", "mcp_servers"):
            yield from document.get(key, {}).values()


def is_program(entry: Mapping[str, Any]) -> bool:
    return entry.get("command") == "resource-server"


@pytest.mark.parametrize("entry", list(filter(is_program, configurations())))
def test_a_documented_client_configuration_starts_a_server(
    entry: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "hello.txt").write_text("hello")
    arguments = [str(tmp_path) if "/" in argument else argument for argument in entry["args"]]
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMETERS}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}
    done = subprocess.run(
        [sys.executable, "-m", "resource_server", *arguments],
        input=f"{json.dumps(hello)}\n{json.dumps(listing)}\n",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert "hello.txt" in [resource["name"] for resource in replies[1]["result"]["resources"]]


def shown_request(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the URL of a client configuration, and its authorization header."""
    if "command" in entry:
        assert entry["args"][:2] == ["-y", "mcp-remote"]
        [url, option, header] = entry["args"][2:]
        assert option == "--header"
        [variable] = entry["env"]
        name, value = header.replace(f"${{{variable}}}", entry["env"][variable]).split(":")
    elif "bearer_token_env_var" in entry:
        assert {"url", "bearer_token_env_var"} == entry.keys()
        url, name, value = entry["url"], "Authorization", f"Bearer {TOKEN}"
    else:
        assert entry["type"] == "http"
        url, [(name, value)] = entry["url"], entry["headers"].items()
        value = re.sub(r"\$\{(input:token|RESOURCE_SERVER_TOKEN)\}", TOKEN, value)
    assert name == "Authorization"
    return url, value


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that requires the token shown in docs/http.md."""
    place = tmp_path_factory.mktemp("guarded")
    manifest = place / "mcp-resources.yaml"
    manifest.write_text(f"http: {{auth: {{tokens: [{TOKEN}]}}}}\nroots: {{project: {{path: .}}}}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "resource_server", "serve", manifest, "--http", "127.0.0.1:0"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        assert "http.auth.tokens" in process.stderr.readline()  # it is a sample
        yield process.stderr.readline().split()[-1]
        process.terminate()


@pytest.mark.parametrize("entry", [each for each in configurations() if not is_program(each)])
def test_a_documented_client_configuration_has_the_url_and_token_of_the_server(
    entry: Mapping[str, Any], guarded: str
) -> None:
    url, shown = shown_request(entry)
    [address] = set(re.findall(r"serve \. --http (\S+)`", TEXT))
    assert url == f"http://{address}/mcp" == re.sub(r":\d+/", ":8000/", guarded)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMETERS}
    accept = {"accept": "application/json, text/event-stream"}
    for headers, status in ({**accept, "authorization": shown}, 200), (accept, 401):
        assert httpx2.post(guarded, json=ping, headers=headers).status_code == status


def test_every_client_has_a_configuration_for_stdio_and_one_for_http() -> None:
    hosts, http = ((DOCS / name).read_text() for name in ("hosts.md", "http.md"))
    for client in ("VS Code", "Claude Code", "Claude Desktop", "Codex"):
        shown = re.compile(rf"^\*\*{client}\*\*[^\n]*\n\n```(json|toml)$", re.MULTILINE)
        assert len(shown.findall(hosts)) == len(shown.findall(http)) == 1


def test_ci_runs_the_test_command_of_the_readme() -> None:
    install = re.compile(r"pip install (-q )?-e '\.\[(docs,)?test\]'")
    shown, run = "\n".join(blocks("sh")), (ROOT / ".ci/run").read_text()
    assert install.search(shown)
    assert install.search(run)
    [tests] = re.findall(r"/(pytest\b.*)", shown)
    assert re.search(rf"^ *{re.escape(tests)} -m '' [^|;]*&& return$", run, re.MULTILINE)


def test_the_plugin_of_the_readme_is_that_of_the_example() -> None:
    shown = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / "examples/notes/notes.py").read_text()]
    [manifest] = re.findall(r"has `(providers: .*?)`", README)
    example = load(ROOT / "examples/notes/mcp-resources.yaml").mounts
    (beside := ROOT / "examples/notes/readme.yaml").write_text(f"{manifest}\n")
    try:
        assert load(beside).mounts == example
    finally:
        beside.unlink()


def option_classes() -> Iterator[type[Any]]:
    """Yield the classes of the manifest's options."""
    for module in (model, http, prompts):
        named = [each for each in vars(module).values() if isinstance(each, type)]
        yield from (each for each in named if each.__module__ == module.__name__)


NO_OPTIONS = (model.Manifest, model.MountSpec, model.Origin)
"""Classes of the manifest as it is decoded."""


@pytest.mark.parametrize("options", [each for each in option_classes() if each not in NO_OPTIONS])
def test_every_option_of_the_manifest_is_in_its_reference(options: type[Any]) -> None:
    page = (DOCS / "manifest.md").read_text()
    names = options_of(options)
    assert names
    for name in names:
        name = "from" if name == "from_" else name
        assert re.search(rf"^\| `([\w.]+\.)?{name}` \|", page, re.MULTILINE), name


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_of_the_manifest_is_in_its_reference(section: str) -> None:
    page = (DOCS / "manifest.md").read_text()
    assert f"\n| `{section}` |" in page
    assert section == "version" or re.search(rf"^### `{section}(\.NAME)?`$", page, re.MULTILINE)


@pytest.mark.parametrize("section", reference.PAGES)
def test_a_generated_section_is_up_to_date(section: str) -> None:
    # `python -m tests.reference` writes them.
    assert reference.shown(section, reference.PAGES[section]) == reference.generate(section)


def test_the_picture_shows_what_the_program_prints() -> None:
    # `python -m tests.picture` draws it.
    assert picture.shown() == picture.plain(picture.recorded())


def test_there_is_a_picture_of_every_view_in_every_look() -> None:
    # `python -m tests.picture` takes them.
    views = {f"{view}-{look.name}.png" for view in pictures.VIEWS for look in pictures.LOOKS}
    assert {each.name for each in pictures.FOLDER.iterdir()} == {*views, "explorer.png"}


def test_the_readme_is_short() -> None:
    assert README.count("\n") <= 200


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    for link in (link for link in links if "://" not in link):
        target, _, anchor = link.partition("#")
        file = (page.parent / target) if target else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


def test_every_page_of_the_docs_is_listed_in_the_readme() -> None:
    for page in PAGES[1:]:
        assert f"(docs/{page.name})" in README


def test_the_site_is_built_without_a_warning_or_a_link_that_leads_out_of_it(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = ("--config-file", DOCS / "mkdocs.yml", "--site-dir", tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", *command],
        cwd=tmp_path,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "excluded" not in done.stderr
    assert (tmp_path / "site/docs/manifest/index.html").exists()
    first = (tmp_path / "site/index.html").read_text("utf-8")
    needed = re.findall(r'<(?:link|script|img)[^>]* (?:href|src)="([^"]+)"', first)
    assert len(needed) > 3
    assert [each for each in needed if not (tmp_path / "site" / each).exists()] == []
