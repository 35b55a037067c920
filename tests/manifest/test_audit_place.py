from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.errors import ManifestError
from resource_server.serving.server_builder import load_manifest
from tests.cases import for_each

pytestmark = pytest.mark.guarantee("record-is-not-served")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "inner").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "link").symlink_to("docs")
    (tmp_path / "logs" / "x.jsonl").write_text("{}\n")
    (tmp_path / "docs" / "record.jsonl").symlink_to("../logs/audit.jsonl")
    (tmp_path / "docs" / "second.jsonl").symlink_to("../logs/audit.2.jsonl")
    return tmp_path


def _load(folder: Path, text: str) -> None:
    (folder / "mcp-resources.yaml").write_text(text)
    load_manifest(str(folder / "mcp-resources.yaml"), allow_plugins=False)


@for_each(
    "file, mounts",
    [
        ("audit.jsonl", "roots: {all: {path: .}}"),
        ("docs/audit.jsonl", "roots: {docs: {path: docs}}"),
        ("docs/inner/audit.jsonl", "roots: {docs: {path: docs}}"),
        ("link/audit.jsonl", "roots: {docs: {path: docs}}"),
        ("docs/audit.jsonl", "roots: {docs: {path: link}}"),
        ("docs/audit.jsonl", "roots: {docs: {path: docs, exclude: ['*.jsonl']}}"),
        ("logs/audit.jsonl", "databases: {logs: {url: 'files:logs/*.jsonl'}}"),
        ("logs/audit.jsonl", "databases: {logs: {url: 'files:**/*.jsonl'}}"),
        ("logs/audit.jsonl", "databases: {logs: {url: 'files:docs/record.jsonl'}}"),
        ("logs/audit.jsonl", "databases: {logs: {url: 'files:docs/second.jsonl'}}"),
        ("logs/audit.jsonl", "databases: {logs: {url: 'files:logs/audit.3.jsonl'}}"),
        ("logs/audit.jsonl", "databases: {logs: {url: 'files:logs/audit.[4-9].jsonl'}}"),
    ],
)
def test_a_record_inside_a_mount_is_refused(folder: Path, file: str, mounts: str) -> None:
    with pytest.raises(ManifestError) as refused:
        _load(folder, f"{mounts}\naudit: {{file: {file}}}\n")
    assert "where clients could read it; name a file elsewhere" in str(refused.value)
    assert "audit.file" in str(refused.value)


@for_each(
    "file, mounts",
    [
        ("audit.jsonl", "roots: {docs: {path: docs}}"),
        ("logs/audit.jsonl", "roots: {docs: {path: docs}}"),
        ("audit.jsonl", "databases: {logs: {url: 'files:logs/*.jsonl'}}"),
        ("logs/audit.log", "databases: {logs: {url: 'files:logs/*.jsonl'}}"),
        ("logs/audit.jsonl", "databases: {logs: {url: 'files:logs/x.jsonl'}}"),
        ("logs/audit.jsonl", "databases: {logs: {url: 'files:docs/*.jsonl'}}"),
    ],
)
def test_a_record_beside_a_mount_is_allowed(folder: Path, file: str, mounts: str) -> None:
    _load(folder, f"{mounts}\naudit: {{file: {file}}}\n")


def test_a_record_inside_another_source_is_refused(folder: Path) -> None:
    manifest = folder / "mcp-resources.yaml"
    manifest.write_text("roots: {docs: {path: docs}}\naudit: {file: logs/audit.jsonl}\n")
    load_manifest(str(manifest), str(folder / "docs" / "inner"), allow_plugins=False)
    with pytest.raises(ManifestError, match="lies in another source"):
        load_manifest(str(manifest), str(folder / "logs"), allow_plugins=False)
