"""Skills and directories (SEP-2640) on the wire, in every revision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from resource_server.catalog.catalog import CatalogLimits
from resource_server.errors import MountUnavailable, ResourceNotFound
from resource_server.provider import Path as Address
from resource_server.provider import Skill
from resource_server.providers.filesystem import Filesystem
from tests.cases import for_each
from tests.protocol.wire import EVERY, HANDSHAKE, MODERN, Wire, initialize, server_of
from tests.providers_for_tests import Folder, SlowTree, Tree

pytestmark = pytest.mark.anyio

BASE = "test://one"
_URI = {"type": "string", "pattern": f"^{BASE}"}
_SKILL = {
    "type": "object",
    "required": ["uri", "frontmatter", "resources"],
    "additionalProperties": False,
    "properties": {
        "uri": {"type": "string", "pattern": "/SKILL.md$"},
        "frontmatter": {
            "type": "object",
            "required": ["name", "description"],
            "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
        },
        "resources": {
            "oneOf": [
                {"const": "dynamic"},
                {
                    "type": "array",
                    "maxItems": 512,
                    "items": {
                        "type": "object",
                        "required": ["uri", "digest", "size"],
                        "additionalProperties": False,
                        "properties": {
                            "uri": _URI,
                            "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                            "size": {"type": "integer", "minimum": 0},
                        },
                    },
                },
            ]
        },
    },
}
_DIRECTORY = {"type": "array", "items": {"type": "object", "required": ["uri", "name"]}}
_RESULTS = {
    "skills/list": {"skills": {"type": "array", "items": _SKILL}},
    "skills/get": {"skill": _SKILL},
    "resources/directory/read": {"resources": _DIRECTORY},
}


def check(method: str, revision: str, result: Any) -> Any:
    """Validate a result against the types of SEP-2640, and return it."""
    members: dict[str, Any] = dict(_RESULTS[method])
    required = list(members)
    if method != "skills/get":
        members["nextCursor"] = {"type": "string"}
    if revision in MODERN:
        members |= {
            "resultType": {"const": "complete"},
            "ttlMs": {"type": "integer", "minimum": 0},
            "cacheScope": {"enum": ["public", "private"]},
        }
        required += ["resultType", "ttlMs", "cacheScope"]
    members["_meta"] = {"type": "object"}
    schema = {"required": required, "properties": members, "additionalProperties": False}
    jsonschema.validate(result, schema)
    return result


async def ask(wire: Wire, revision: str, method: str, **params: Any) -> Any:
    return check(method, revision, await wire.result(method, params))


def skill_md(name: str) -> str:
    return f"---\nname: {name}\ndescription: About {name}\n---\n"


@pytest.fixture
def folder(tmp_path: Path) -> Filesystem:
    for name in ("brew", "pour", "serve"):
        (tmp_path / name / "notes").mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(skill_md(name))
        (tmp_path / name / "notes" / "a b.md").write_text("x")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/SKILL.md").write_text("# nothing")
    (tmp_path / "empty").mkdir()
    return Filesystem(path=tmp_path)


@for_each("revision", EVERY)
async def test_the_extension_is_declared_and_answered(revision: str) -> None:
    server = await server_of(Tree({"folder": {}}))
    if revision in HANDSHAKE:
        wire = Wire(server)
        described = wire.ask(initialize(revision))["result"]
    else:
        wire = Wire(server, revision)
        described = await wire.result("server/discover")
    capabilities = described["capabilities"]
    assert capabilities["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
    assert "resources" in capabilities
    assert (await ask(wire, revision, "skills/list"))["skills"] == []
    code = (await wire.error("skills/get", {"uri": f"{BASE}/folder/SKILL.md"}))["code"]
    assert code == -32602


@pytest.mark.parametrize("revision", EVERY)
async def test_skills_are_listed_page_by_page_and_found_by_uri(
    folder: Filesystem, revision: str
) -> None:
    wire = Wire(await server_of(folder, limits=CatalogLimits(page_size=2)), revision)
    first = await ask(wire, revision, "skills/list")
    second = await ask(wire, revision, "skills/list", cursor=first["nextCursor"])
    assert "nextCursor" not in second
    skills = [*first["skills"], *second["skills"]]
    assert [skill["uri"] for skill in skills] == [
        f"{BASE}/{name}/SKILL.md" for name in ("brew", "pour", "serve")
    ]
    assert [each["uri"] for each in skills[0]["resources"]] == [
        f"{BASE}/brew/SKILL.md",
        f"{BASE}/brew/notes/a%20b.md",
    ]
    for skill in skills:
        found = await ask(wire, revision, "skills/get", uri=skill["uri"])
        assert found["skill"] == skill
    refused = [
        f"{BASE}/broken/SKILL.md",
        f"{BASE}/none/SKILL.md",
        f"{BASE}/brew",
        f"{BASE}/brew/notes/a%20b.md",
        f"{BASE}/brew/SKILL.md?lines=1-2",
        "skill://elsewhere/SKILL.md",
        "no uri",
    ]
    for uri in refused:
        error = await wire.error("skills/get", {"uri": uri})
        assert (error["code"], error["message"]) == (-32602, "No skill is served at this URI")
    for cursor in ("x", first["nextCursor"][:-4]):
        assert (await wire.error("skills/list", {"cursor": cursor}))["code"] == -32602
    assert (await wire.error("skills/get", {}))["code"] == -32602


@pytest.mark.parametrize("revision", EVERY)
async def test_a_directory_is_read_without_going_deeper(folder: Filesystem, revision: str) -> None:
    wire = Wire(await server_of(folder, limits=CatalogLimits(page_size=2)), revision)

    async def children(uri: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        params = {"uri": uri}
        while True:
            page = await ask(wire, revision, "resources/directory/read", **params)
            found += [(each["uri"], each["mimeType"]) for each in page["resources"]]
            if "nextCursor" not in page:
                return found
            params["cursor"] = page["nextCursor"]

    for spelling in (BASE, f"{BASE}/"):
        assert await children(spelling) == [
            (f"{BASE}/{name}", "inode/directory")
            for name in ("brew", "broken", "empty", "pour", "serve")
        ]
    assert await children(f"{BASE}/brew") == [
        (f"{BASE}/brew/SKILL.md", "text/markdown"),
        (f"{BASE}/brew/notes", "inode/directory"),
    ]
    assert await children(f"{BASE}/empty") == []
    for uri in (f"{BASE}/brew/SKILL.md", f"{BASE}/none", f"{BASE}/../etc", "test://other/", "x"):
        error = await wire.error("resources/directory/read", {"uri": uri})
        expected = (-32602, "No directory is served at this URI")
        assert (error["code"], error["message"]) == expected


@for_each("revision", EVERY)
@for_each("tree", [Tree, SlowTree])
async def test_any_collection_is_a_directory(revision: str, tree: type[Tree]) -> None:
    nodes: dict[str, Any] = {"a.txt": "a", "folder": {"b.txt": "b"}, "hidden": Folder({})}
    wire = Wire(await server_of(tree(nodes)), revision)
    found = await ask(wire, revision, "resources/directory/read", uri=f"{BASE}/folder")
    assert [each["uri"] for each in found["resources"]] == [f"{BASE}/folder/b.txt"]


class Generated(Tree):
    """A tree with skills of its own, as a plugin has them."""

    skills: Sequence[Skill] = (
        Skill(("a", "SKILL.md"), {"name": "a", "description": "A"}, None),
        Skill(("b", "SKILL.md"), {"name": "b", "description": "B"}, None),
    )

    async def list_skills(self, *, after: Address | None, limit: int) -> Sequence[Skill]:
        return [each for each in self.skills if after is None or each.path > after][:limit]

    async def get_skill(self, path: Address) -> Skill:
        for each in self.skills:
            if each.path == path:
                return each
        raise ResourceNotFound


class Failing(Generated):
    async def list_skills(self, *, after: Address | None, limit: int) -> Sequence[Skill]:
        raise MountUnavailable("of the operator")

    async def get_skill(self, path: Address) -> Skill:
        raise MountUnavailable("of the operator")


class Lying(Generated):
    async def list_skills(self, *, after: Address | None, limit: int) -> Any:
        return [self.skills[0]] * limit  # without an end

    async def get_skill(self, path: Address) -> Any:
        return {"uri": "x"}


@for_each("revision", EVERY)
async def test_generated_skills_of_a_plugin_are_dynamic(revision: str) -> None:
    wire = Wire(await server_of(Generated({}), limits=CatalogLimits(page_size=1)), revision)
    first = await ask(wire, revision, "skills/list")
    assert first["skills"] == [
        {
            "uri": f"{BASE}/a/SKILL.md",
            "frontmatter": {"name": "a", "description": "A"},
            "resources": "dynamic",
        }
    ]
    second = await ask(wire, revision, "skills/list", cursor=first["nextCursor"])
    assert [each["uri"] for each in second["skills"]] == [f"{BASE}/b/SKILL.md"]
    assert "nextCursor" not in second


@pytest.mark.parametrize("provider", [Failing, Lying])
@pytest.mark.parametrize("revision", EVERY)
async def test_a_mount_that_fails_breaks_no_list_of_others(
    folder: Filesystem, provider: type[Tree], revision: str
) -> None:
    wire = Wire(await server_of(folder, provider({})), revision)
    page = await wire.result("skills/list")
    uris = [each["uri"] for each in page["skills"]]
    assert uris == [f"{BASE}/{name}/SKILL.md" for name in ("brew", "pour", "serve")]
    assert page["_meta"]["resource-server/unavailable"] == ["two"]
    assert (await wire.error("skills/get", {"uri": "test://two/a/SKILL.md"}))["code"] < 0


async def test_frontmatter_that_is_no_json_leaves_out_one_skill() -> None:
    generated = Generated({})
    broken = Skill(("a", "SKILL.md"), {"name": "a", "description": "\ud800"}, None)
    generated.skills = (broken, Generated.skills[1])
    wire = Wire(await server_of(generated), "2026-07-28")
    page = await wire.result("skills/list")
    assert [each["uri"] for each in page["skills"]] == [f"{BASE}/b/SKILL.md"]
