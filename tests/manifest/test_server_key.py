"""The option `server.key`: a secret that no message shows."""

from __future__ import annotations

import os
import pathlib

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest import Manifest
from resource_server.manifest.load import load
from resource_server.runtime.server_key import ServerKey, process_key

KEY = "3f9c1d0e8a7b6c5d4e3f2a1b0c9d8e7f"
OTHER = "00112233445566778899aabbccddeeff"


def loaded(folder: pathlib.Path, server: str) -> Manifest:
    file = folder / "mcp-resources.yaml"
    file.write_text(f"version: 1\nserver:\n{server}\nroots: {{here: {{path: .}}}}\n")
    return load(file)


def refusals(folder: pathlib.Path, server: str) -> list[str]:
    """Return the problems of a manifest, without the name of the file."""
    with pytest.raises(ManifestError) as raised:
        loaded(folder, server)
    return [str(each).partition("mcp-resources.yaml:")[2] for each in raised.value.diagnostics]


def test_the_key_is_an_environment_variable_or_a_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESOURCE_SERVER_KEY", KEY)
    given = loaded(tmp_path, '  key: "${RESOURCE_SERVER_KEY}"')
    (tmp_path / "server.secret").write_text(f"{KEY}\n")
    read = loaded(tmp_path, "  key: {file: server.secret}")
    assert given.server.secret == read.server.secret == ServerKey(KEY.encode())
    monkeypatch.setenv("RESOURCE_SERVER_KEY", f"{KEY}\n")
    assert loaded(tmp_path, '  key: "${RESOURCE_SERVER_KEY}"').server.secret == read.server.secret
    assert loaded(tmp_path, f"  key: {OTHER}x").server.secret != given.server.secret
    assert loaded(tmp_path, "  name: acme").server.secret is process_key()


def test_a_manifest_does_not_show_its_key(tmp_path: pathlib.Path) -> None:
    (tmp_path / "server.secret").write_text(OTHER)
    for option in (f"  key: {KEY}", "  key: {file: server.secret}"):
        shown = repr(loaded(tmp_path, option))
        assert KEY not in shown
        assert OTHER not in shown


@pytest.mark.parametrize(
    ("option", "position", "words"),
    [
        ('  key: ""', "3:8: server.key: ", "is empty; write one as 'openssl rand -hex 32'"),
        ("  key: a short one", "3:8: server.key: ", "is too short (11 characters; 32 or more"),
        ('  key: "${NO_SUCH_KEY}"', "3:8: server.key: ", "NO_SUCH_KEY is not set"),
        ("  key: 12345678", "3:8: server.key: ", "expected"),
        ("  key: {file: absent}", "3:15: server.key.file: ", "cannot be read: no such file"),
        ("  key: {file: empty}", "3:15: server.key.file: ", "is empty"),
        ("  key: {file: short}", "3:15: server.key.file: ", "is too short (5 characters"),
        ("  key: {file: large}", "3:15: server.key.file: ", "is longer than 4096 bytes"),
        ("  key: {file: .}", "3:15: server.key.file: ", "is not a regular file"),
        ("  key: {file: pipe}", "3:15: server.key.file: ", "is not a regular file"),
        (f"  key: '{' ' * 40}'", "3:8: server.key: ", "is empty"),
        ("  key: {}", "3:3: server.key: ", "option 'file' is missing"),
    ],
)
def test_an_unusable_key_is_a_mistake_that_does_not_show_it(
    tmp_path: pathlib.Path, option: str, position: str, words: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "short").write_text("abcde")
    (tmp_path / "large").write_text("abcde" * 1000)
    (refused,) = refusals(tmp_path, option)
    assert refused.startswith(position), refused
    assert words in refused
    for secret in ("a short one", "abcde", "12345678"):
        assert secret not in refused
