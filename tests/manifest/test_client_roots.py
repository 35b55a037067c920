"""`from: client` in the manifest: what goes with it, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest import Manifest
from resource_server.manifest.load import load


def read(folder: Path, text: str) -> Manifest:
    (folder / "m.yaml").write_text(text, "utf-8")
    return load(folder / "m.yaml")


def test_client_roots_are_not_mounts_until_a_client_connects(tmp_path: Path) -> None:
    found = read(tmp_path, "roots: {a: {from: client}, b: {path: .}, c: {from: client}}")
    assert [spec.name for spec in found.mounts] == ["b"]
    assert [spec.name for spec in found.client_roots] == ["a", "c"]


def test_client_roots_alone_are_enough_to_serve(tmp_path: Path) -> None:
    (spec,) = read(tmp_path, "roots: {a: {from: client}}").client_roots
    assert spec.client is not None
    assert spec.client.allow == ()


def test_allowed_paths_are_relative_to_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLACE", "placed")
    text = "roots: {a: {from: client, allow: [x, ~/y, '/z', '${PLACE}'], hidden: true}}"
    (spec,) = read(tmp_path, text).client_roots
    assert spec.client is not None
    assert spec.client.allow == (
        tmp_path / "x",
        tmp_path / "home" / "y",
        Path("/z"),
        tmp_path / "placed",
    )
    assert spec.options["hidden"] is True


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            "{from: client, path: .}",
            "1:27: roots.a.path: this option conflicts with 'from: client'; the client sets it",
        ),
        (
            "{from: client, uri: 'docs://x/'}",
            "1:27: roots.a.uri: this option conflicts with 'from: client'; the client sets it",
        ),
        ("{path: ., allow: [x]}", "1:22: roots.a.allow: this option needs 'from: client'"),
        ("{from: server}", "1:19: roots.a.from: expected 'client', found 'server'"),
        ("{from: }", "1:19: roots.a.from: expected 'client', found nothing"),
        ("{from: [client]}", "1:19: roots.a.from: expected 'client', found a list"),
        (
            "{from: client, allow: []}",
            "1:34: roots.a.allow: expected 1 or more items, found an empty list",
        ),
        ("{from: client, allow: }", "1:34: roots.a.allow: expected a list, found nothing"),
        (
            "{from: client, allow: x}",
            "1:34: roots.a.allow: expected a list, found 'x'; put it in brackets",
        ),
        (
            "{from: client, allow: [5]}",
            "1:35: roots.a.allow[0]: expected a path, found the number 5",
        ),
        (
            "{from: client, hiden: true}",
            "1:27: roots.a.hiden: unknown option; did you mean 'hidden'?",
        ),
        (
            "{from: client, alow: [x]}",
            "1:27: roots.a.alow: unknown option; did you mean 'allow'?",
        ),
        ("{path: ., form: client}", "1:22: roots.a.form: unknown option; did you mean 'from'?"),
    ],
)
def test_each_problem_has_a_position_and_a_remedy(
    tmp_path: Path, options: str, problem: str
) -> None:
    with pytest.raises(ManifestError) as raised:
        read(tmp_path, f"roots: {{a: {options}}}")
    (diagnostic,) = raised.value.diagnostics
    assert str(diagnostic).removeprefix(str(tmp_path / "m.yaml") + ":") == problem


def test_a_provider_cannot_use_client_folders(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="unknown option"):
        read(tmp_path, "providers: {a: {use: filesystem, from: client}}")


def test_mount_names_are_unique(tmp_path: Path) -> None:
    text = "roots: {a: {from: client}}\nproviders: {a: {use: x.py}}"
    with pytest.raises(ManifestError, match=r"roots\.a on line 1 already has this name"):
        read(tmp_path, text)


def test_prompts_may_name_client_folders_that_are_not_known_yet(tmp_path: Path) -> None:
    text = (
        "roots: {a: {from: client}}\n"
        "prompts: {p: {messages: [{role: user, resource: 'file:///project/x'}]}}"
    )
    assert "p" in read(tmp_path, text).prompts
