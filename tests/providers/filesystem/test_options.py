from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resource_server.documents.options import Secrets
from resource_server.errors import (
    ManifestError,
)
from resource_server.manifest.load import load
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions, directory_keys
from tests.cases import for_each
from tests.providers.filesystem.trees import (
    TREE,
    from_manifest,
    plant,
    walk,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path / "root", TREE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "utf-9"}, "utf-9"),
        ({"encoding": "base64"}, "base64"),
        ({"include": ("[a",)}, r"include: '\[a'"),
        ({"exclude": ("#x",)}, "exclude: '#x'"),
        ({"types": {"*.x": "html"}}, "no media type"),
        ({"directories": {"../x": DirectoryOptions()}}, "no path below the root"),
    ],
)
def test_invalid_options_are_refused_with_the_value_found(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Filesystem(path=tmp_path, **options)


def test_invalid_nested_options_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^allow: '\[a'"):
        Secrets(allow=("[a",))
    with pytest.raises(ValueError, match="nope"):
        DirectoryOptions(encoding="nope")


async def test_the_manifest_builds_every_option(root: Path) -> None:
    provider = from_manifest(
        root,
        {
            "include": ["**", "!empty/"],
            "exclude": ["a-b/"],
            "gitignore": False,
            "hidden": True,
            "symlinks": "within-root",
            "max_size": "1MiB",
            "encoding": "latin-1",
            "types": {"*.md": "text/x-notes"},
            "secrets": {"allow": ["*.pem"]},
            "directories": {"a": {"title": "A", "annotations": {"audience": ["user"]}}},
            "watch": "off",
        },
    )
    found = await walk(provider)
    assert {"server.pem", ".hidden/x", "src/build/out.o", "src/.gitignore"} <= set(found)
    assert not {"a-b", "empty"} & set(found)
    assert provider.metadata(("README.md",)).mime_type == "text/x-notes"
    assert provider.metadata(("a",)).title == "A"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("secrets: {alow: []}", "roots.r.secrets.alow: unknown option; did you mean 'allow'?"),
        ("secrets: {allow: ['[a']}", ":4:22: roots.r.secrets.allow: '[a' is no pattern"),
        ("directories: {a: {titel: A}}", "titel: unknown option; did you mean 'title'?"),
        ("directories: {a: {annotations: {prio: 1}}}", "did you mean 'priority'?"),
        ("directories: {a: {annotations: {priority: 2}}}", "roots.r.directories.a.annotations"),
        ("symlinks: follow", "roots.r.symlinks: expected one of deny, within-root"),
        ("watch: sometimes", "roots.r.watch: expected one of"),
        ("max_size: big", "roots.r.max_size: not a size"),
        (
            "convert: [docx, pfd]",
            ":4:21: roots.r.convert[1]: not a kind of document that can be converted, such as pdf; "
            "did you mean 'pdf'? (found 'pfd')",
        ),
        ("convert: [text/x-rust]", "roots.r.convert[0]: not a kind of document"),
        ("convert: pdf", "expected one of auto, off, false or a list, found 'pdf'"),
        ("convert: aut", "found 'aut'; did you mean 'auto'?"),
    ],
)
def test_the_manifest_refuses_invalid_options(root: Path, options: str, problem: str) -> None:
    manifest = root / "mcp-resources.yaml"
    manifest.write_text(f"roots:\n  r:\n    path: .\n    {options}\n")
    with pytest.raises(ManifestError) as refused:
        load(manifest)
    assert problem in str(refused.value)


@for_each("key", ["", ".", "/a", "a/../b", "../a"])
def test_a_directory_key_outside_the_root_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="no path below the root"):
        directory_keys({key: DirectoryOptions()})


@for_each("key", ["priv*", "private/*", "?x", "a/**/b"])
def test_a_directory_key_that_is_a_pattern_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is a pattern"):
        directory_keys({key: DirectoryOptions(exposed=False)})


def test_a_directory_key_with_brackets_is_a_name() -> None:
    assert list(directory_keys({"app/[slug]": DirectoryOptions()})) == ["app/[slug]"]


def test_directory_keys_are_normal_paths() -> None:
    options = DirectoryOptions()
    assert directory_keys({"./a//b/": options}) == {"a/b": options}
    with pytest.raises(ValueError, match="given twice"):
        directory_keys({"a": options, "a/": options})
