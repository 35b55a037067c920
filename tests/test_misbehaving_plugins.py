"""Plugins that misbehave in any method in any way: every request is answered, others serve.

Over the engine, and over both transports of the real program. Blocking the event loop is the one
thing that no server can contain in its own process.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from resource_server import access
from resource_server.access import Caller
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.manifest.sources import find_manifest
from resource_server.protocol.server import Server
from resource_server.provider import Provider
from resource_server.runtime.timing import Timing
from resource_server.serving import server_builder
from tests import misbehaving
from tests.cases import for_each
from tests.commands import command
from tests.misbehaving import METHODS, WAYS, WAYS_AT_ONCE, WAYS_OF_A_PROCESS, Misbehaving
from tests.protocol.wire import CLIENT, Wire
from tests.transports.program import Answer, Program, modern, running
from tests.waiting import PATIENCE_S

Asked: TypeAlias = tuple[str, Mapping[str, Any]]
"""A method with its parameters."""

ROOT = Path(__file__).parent.parent
LIMITS = {
    "mount_start_s": 0.2,
    "mount_close_s": 0.2,
    "call_s": 0.2,
    "survey_s": 0.2,
    "listing_s": 0.5,
    "search_s": 0.2,
    "search_mount_grace_s": 0.2,
    "tool_timeout_s": 0.2,
    "tool_list_timeout_s": 0.2,
    "watch_close_s": 0.2,
}
"""Members of `Timing`: a hanging plugin is given up soon."""
GOOD = "good"
DOC = "resources/read", {"uri": f"test://{GOOD}/doc"}


OPENING: Asked = (
    "initialize",
    {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": CLIENT,
    },
)


def requests(methods: Sequence[str]) -> Iterator[Asked]:
    """Yield requests that reach each mount by every way."""
    for name in (*methods, GOOD):
        name = named(name)
        base, doc = f"test://{name}/", f"test://{name}/doc"
        yield "resources/list", {"uri": base}
        yield "resources/read", {"uri": base}
        yield "resources/read", {"uri": doc}
        yield "resources/metadata", {"uri": doc}
        yield (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": f"{base}{{+path}}"},
                "argument": {"name": "path", "value": ""},
            },
        )
        # Whichever mount comes first has the plain name.
        yield "tools/call", {"name": f"{name}_roll"}
        yield "tools/call", {"name": "search_resources", "arguments": {"query": "o", "uri": base}}
    yield "tools/call", {"name": "roll"}
    yield "tools/call", {"name": "search_resources", "arguments": {"query": "doc"}}
    yield "resources/list", {}
    yield "resources/templates/list", {}
    yield "tools/list", {}


def named(method: str) -> str:
    """Return the name of the mount that misbehaves in a method."""
    return method.strip("_").replace("_", "-")


def faulty(way: str) -> list[str]:
    """Return the methods that can misbehave in this way."""
    return [name for name in METHODS if way in WAYS_AT_ONCE or name not in misbehaving.AT_ONCE]


def check_good(asked: Mapping[int, Asked], replies: Sequence[Mapping[str, Any]]) -> None:
    """Check that the mount that behaves is in every list of all mounts, in spite of the others."""
    results: dict[str, Any] = {}
    for reply in replies:
        method, params = asked[reply["id"]]
        if method.endswith("/list") and not params:
            results[method] = reply["result"]
    uris = {each["uri"] for each in results["resources/list"]["resources"]}
    assert {f"test://{GOOD}", f"test://{GOOD}/doc", f"test://{GOOD}/more"} <= uris
    templates = results["resources/templates/list"]["resourceTemplates"]
    assert f"test://{GOOD}/{{+path}}" in {each["uriTemplate"] for each in templates}
    assert "roll" in str(results["tools/list"])


# -- the engine


@pytest.mark.guarantee("plugins-cannot-end-the-server")
@pytest.mark.anyio
@for_each("way", WAYS)
async def test_the_engine_answers_each_request_once(way: str) -> None:
    timing = Timing(**LIMITS)
    providers: dict[str, Provider] = {name: Misbehaving(name, way) for name in faulty(way)}
    providers[GOOD] = Misbehaving("nothing", way)
    mounts: list[Mount] = []
    for name, provider in providers.items():
        try:
            mounts.append(Mount(named(name), f"test://{named(name)}/", provider, timing=timing))
        except Exception:
            assert name == "restrictions"  # `server_builder` makes a mount of it that never starts
    misbehaving.released.clear()
    server = Server(Catalog(mounts, timing=timing), timing=timing)
    names = [name for name in providers if name != GOOD]
    try:
        async with server:
            for scopes in (None, frozenset[str]()):
                with access.acting(Caller(scopes=scopes)):
                    await check_engine(server, names)
    finally:
        misbehaving.released.set()


async def check_engine(server: Server, names: Sequence[str]) -> None:
    wire = Wire(server, "2025-11-25")
    asked = {wire.start(*each): each for each in requests(names)}
    for name in (*names, GOOD):
        uri = f"test://{named(name)}/doc"
        for method in ("resources/subscribe", "resources/unsubscribe"):
            asked[wire.start(method, {"uri": uri})] = method, {"uri": uri}
    await wire.until(lambda: len(wire.replies) >= len(asked))
    assert Counter(each["id"] for each in wire.replies) == Counter(asked.keys())
    check_good(asked, wire.replies)
    assert (await wire.result(*DOC))["contents"][0]["text"] == "text"
    await wire.connection.close()


# -- the program


def manifest(folder: Path, way: str) -> Path:
    """Write a manifest with a mount for each method, which misbehaves in it."""
    use = f"{ROOT}/tests/misbehaving.py:Misbehaving"
    lines = ["providers:"]
    for method in (*faulty(way), GOOD):
        name = named(method)
        options = f"method: {method}, way: '{way}'"
        lines.append(f"  {name}: {{use: '{use}', uri: 'test://{name}/', {options}}}")
    file = folder / "mcp-resources.yaml"
    file.write_text("\n".join((*lines, "")), "utf-8")
    return file


@pytest.mark.guarantee("plugins-cannot-end-the-server")
@pytest.mark.parametrize("way", WAYS_OF_A_PROCESS)
def test_stdio_answers_each_request_once_and_the_process_lives(tmp_path: Path, way: str) -> None:
    with subprocess.Popen(
        [*command(Timing(**LIMITS)), "serve", str(manifest(tmp_path, way))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            asked = dict(enumerate([OPENING, *requests(faulty(way))]))
            for id, (method, params) in asked.items():
                message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
                process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            answers = [answer_of(process) for _ in asked]
            assert Counter(each["id"] for each in answers) == Counter(asked.keys())
            check_good(asked, answers)
            ping = {"jsonrpc": "2.0", "id": "last", "method": DOC[0], "params": DOC[1]}
            process.stdin.write(json.dumps(ping) + "\n")
            process.stdin.flush()
            assert answer_of(process)["result"]["contents"][0]["text"] == "text"
            process.stdin.close()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def answer_of(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    while line := process.stdout.readline():
        message = json.loads(line)
        if "id" in message:
            return message
    assert process.stderr is not None
    raise AssertionError(f"the server ended: {process.stderr.read()}")


@pytest.mark.deep
@pytest.mark.guarantee("plugins-cannot-end-the-server")
@pytest.mark.parametrize("way", WAYS_OF_A_PROCESS)
def test_http_answers_each_request_and_the_process_lives(tmp_path: Path, way: str) -> None:
    with running(manifest(tmp_path, way), timing=LIMITS) as program:
        every = list(requests(faulty(way)))
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(partial(ask, program), every))
        assert all(each.status in (200, 400, 404) for each in answers)
        check_good(
            dict(enumerate(every)), [{**each.json, "id": id} for id, each in enumerate(answers)]
        )
        assert program.read(f"test://{GOOD}/doc") == "text"


def ask(program: Program, asked: Asked) -> Answer:
    """Send a request with all headers that repeat its body."""
    method, params = asked
    headers = {"mcp_name": params["name"]} if method == "tools/call" else {}
    return program.ask(modern(method, params, **headers))


@pytest.mark.deep
@pytest.mark.parametrize("way", WAYS_OF_A_PROCESS)
def test_check_reports_each_mount_and_ends(tmp_path: Path, way: str) -> None:
    file = manifest(tmp_path, way)
    for explained in ((), ("--explain", "test://explain/doc", "--explain", f"test://{GOOD}/doc")):
        ended = subprocess.run(
            [*command(Timing(**LIMITS)), "check", str(file), *explained],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert ended.returncode == 1, ended.stderr
        assert "Traceback" not in ended.stderr
        assert f"test://{GOOD}/" in ended.stdout
    assert f"exposed by {GOOD}" in ended.stdout


# -- mounts that cannot be made


@pytest.mark.guarantee("plugins-cannot-end-the-server")
@pytest.mark.parametrize("way", WAYS_AT_ONCE)
def test_a_mount_whose_restrictions_fail_serves_nothing(tmp_path: Path, way: str) -> None:
    found = find_manifest(str(manifest(tmp_path, way)))
    server = server_builder.build_server(found, allow_plugins=True)
    problems = {each.name for each in server.catalog.mounts if each.problem != "not started"}
    assert problems == set()
    (mount,) = (each for each in server.catalog.mounts if each.name == "restrictions")
    assert not mount.provider.is_instance(Misbehaving)
