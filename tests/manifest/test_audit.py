from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest.audit import AuditFileOptions
from resource_server.manifest.load import load
from tests.cases import for_each


def _load(folder: Path, text: str) -> object:
    (folder / "docs").mkdir(exist_ok=True)
    manifest = folder / "mcp-resources.yaml"
    manifest.write_text(f"roots: {{docs: {{path: docs}}}}\n{text}")
    return load(manifest).audit


def test_a_record_has_a_file_and_limits(tmp_path: Path) -> None:
    found = _load(tmp_path, "audit: {file: audit.jsonl, rotate: 1MiB, keep: 3, on_error: refuse}")
    assert found == AuditFileOptions(
        file=tmp_path / "audit.jsonl",
        rotate=found.rotate,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
        keep=3,
        on_error="refuse",
    )


def test_a_record_may_go_to_standard_error(tmp_path: Path) -> None:
    assert _load(tmp_path, "audit: stderr") == "stderr"
    assert _load(tmp_path, "") is None


@for_each(
    "text, problem",
    [
        ("audit:", "option 'file' is missing"),
        ("audit: {}", "option 'file' is missing"),
        ("audit: true", "expected 'stderr', or options such as {file: audit.jsonl}, found true"),
        ("audit: stdout", "expected 'stderr', or options"),
        ("audit: [a]", "expected 'stderr', or options"),
        ("audit: {file: a.jsonl, rotate: 1KiB}", "rotate: expected 64KiB or more"),
        ("audit: {file: a.jsonl, keep: 0}", "expected 1 or more"),
        ("audit: {file: a.jsonl, on_error: ignore}", "expected one of drop, refuse"),
        ("audit: {file: a.jsonl, access: {}}", "option 'scopes' is missing"),
        ("audit: {file: a.jsonl, access: {scopes: []}}", "1 or more items"),
        ("audit: {fiel: a.jsonl}", "file"),
        (
            "audit: {file: a.jsonl, access: {scopes: [a]}}\n"
            "databases: {activity: {url: 'sqlite:///x.db'}}",
            "already has this name, which the record needs",
        ),
        (
            "audit: {file: a.jsonl, access: {scopes: [a]}}\n"
            "databases: {x: {url: 'sqlite:///x.db', uri: 'activity://server/'}}",
            "already has activity://server/, which the record needs",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ManifestError, match="audit") as refused:
        _load(tmp_path, text)
    assert problem in str(refused.value)


def test_the_activity_exists_only_with_scopes(tmp_path: Path) -> None:
    def mounts(text: str) -> list[str]:
        _load(tmp_path, text)
        return [spec.base for spec in load(tmp_path / "mcp-resources.yaml").mounts]

    assert mounts("audit: {file: a.jsonl}") == ["file:///docs/"]
    with_scopes = "audit: {file: a.jsonl, access: {scopes: [audit]}}"
    assert mounts(with_scopes) == ["file:///docs/", "activity://server/"]
    spec = load(tmp_path / "mcp-resources.yaml").mounts[-1]
    assert spec.access == frozenset(("audit",))
    assert spec == load(tmp_path / "mcp-resources.yaml").mounts[-1]
