"""The SkillsClient of the TypeScript SDK reads every file of every skill, and verifies it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.clients import typescript
from tests.clients.conftest import TRANSPORTS, Reach, serve

BASE = "skill://teashop"
MANIFEST = f"roots: {{team: {{path: team, uri: {BASE}/}}}}\n"

# What a skill may hold, and what must not make a client refuse all the others.
FILES: dict[str, bytes] = {
    "refunds/SKILL.md": b"---\nname: refunds\ndescription: Refund an order\nversion: 1.0\n"
    b"retry: no\nsince: 2024-01-01\nmetadata: {version: '1.0'}\n---\n# Refunds\n",
    "refunds/templates/full letter.md": b"\xef\xbb\xbfDear customer\r\n",
    "refunds/templates/Q&A.md": "Ünïcödé\n".encode(),
    "refunds/templates/utf16.txt": b"\xff\xfe" + "hällo".encode("utf-16-le"),
    "refunds/logo.png": b"\x89PNG\x00\xff",
    "refunds/empty.txt": b"",
    "refunds/nul.txt": b"a\0b",
    "refunds/.hidden": b"hidden",
    "refunds/nested/SKILL.md": b"---\r\nname: nested\r\ndescription: >\r\n  In another\r\n---\r\n",
    "marked/SKILL.md": b"\xef\xbb\xbf---\nname: marked\ndescription: With a mark\n---\n",
    "numbers/SKILL.md": b"---\nname: numbers\ndescription: x\nmetadata: {version: 1.0}\n---\n",
    "other/SKILL.md": b"---\nname: another\ndescription: x\n---\n",
    "nothing/SKILL.md": b"# No frontmatter\n",
}
NAMES = ["marked", "refunds", "nested"]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that serves the skills; run it in the project's root."""
    top = tmp_path_factory.mktemp("skills")
    for name, data in FILES.items():
        file: Path = top / "team" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (top / "mcp-resources.yaml").write_text(MANIFEST)
    return serve(top)


@pytest.mark.deep
@typescript.NEEDS
@pytest.mark.parametrize(
    ("transport", "revision"), [*itertools.product(TRANSPORTS, ("2025-11-25", "2026-07-28"))]
)
def test_the_typescript_client_verifies_every_file(
    serving: list[str], reach: Reach, transport: str, revision: str
) -> None:
    asked = {
        "client": "v2",
        "revision": revision,
        "serving": reach(serving, transport),
        "directory": f"{BASE}/refunds",
    }
    seen = typescript.run("skills.mjs", asked)
    assert (seen["revision"], seen["supported"], seen["directoryRead"]) == (revision, True, True)
    listed = seen["listed"]
    assert [skill["frontmatter"]["name"] for skill in listed["skills"]] == NAMES
    assert listed["invalid"] == []
    assert ("ttlMs" in listed) == (revision >= "2026")
    assert listed["skills"][1]["frontmatter"] == {
        "name": "refunds",
        "description": "Refund an order",
        "version": 1,
        "retry": "no",
        "since": "2024-01-01",
        "metadata": {"version": "1.0"},
    }
    files = {uri.removeprefix(f"{BASE}/"): file for uri, file in seen["files"].items()}
    exposed = {
        name.replace(" ", "%20").replace("&", "%26"): len(data)
        for name, data in FILES.items()
        if name.split("/")[0] in NAMES and "/." not in name
    }
    assert {name.replace("&", "%26"): file["bytes"] for name, file in files.items()} == exposed
    assert all(file["verified"] for file in files.values())
    assert dict(seen["children"]) == {
        f"{BASE}/refunds/SKILL.md": "text/markdown",
        f"{BASE}/refunds/empty.txt": "text/plain",
        f"{BASE}/refunds/logo.png": "image/png",
        f"{BASE}/refunds/nested": "inode/directory",
        f"{BASE}/refunds/nul.txt": "text/plain",
        f"{BASE}/refunds/templates": "inode/directory",
    }
    assert (seen["noDirectory"], seen["noSkill"]) == (-32602, -32602)
