from __future__ import annotations

import pytest

from resource_server.documents.path_selection import PathSelection
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from tests.cases import for_each
from tests.providers.filesystem.exposure.judging import SHOWN, hidden_by, shown


@pytest.mark.guarantee("secrets-stay-hidden")
@for_each(
    ("secret", "harmless"),
    [
        (".env", ".env.example"),
        (".env.local", "environment/letter"),
        ("prod.env", "env.py"),
        ("a/server.pem", "a/server.pem.md"),
        ("SERVER.KEY", "monkey.txt"),
        ("id_rsa", "id_rsa.pub"),
        ("id_ed25519_work", "id_mapping.py"),
        (".ssh/config", "ssh/config"),
        (".git/config", ".gitignore"),
        (".aws/x", "aws/x"),
        (".docker/config.json", "docker/config.json"),
        ("a/.docker/config.json", "config.json"),
        (".config/gcloud/access_tokens.db", ".config/other/x"),
        ("credentials", "credentials.py"),
        ("credentials.json", "src/credentials/store.go"),
        ("my-service-account-1.json", "accounts.json"),
        ("prod.tfstate.backup", "tfstate.go"),
        ("secrets.yaml", "secrets.py"),
        (".netrc", "netrc.c"),
        (".bash_history", "history.md"),
        ("vault.kdbx", "vault.md"),
    ],
)
def test_a_secret_is_hidden_and_its_harmless_neighbour_is_not(secret: str, harmless: str) -> None:
    assert (hidden_by(SHOWN, secret) or "").startswith("secret: ")
    assert shown(SHOWN, [harmless]) == [harmless]


@pytest.mark.guarantee("secrets-stay-hidden")
@for_each("name", [".SSH/x", ".\u017fsh/x", "Server.PEM", ".Git/config"])
def test_a_secret_spelled_in_another_case_is_hidden(name: str) -> None:
    assert hidden_by(SHOWN, name) is not None


@pytest.mark.guarantee("secrets-stay-hidden")
def test_neither_include_nor_hidden_lifts_a_secret() -> None:
    rules = DirectoryRules(hidden=True, include=PathSelection([".env.local", "*.pem"]))
    assert hidden_by(rules, ".env.local") == "secret: matches '.env*'"
    assert hidden_by(rules, "a.pem") == "secret: matches '*.pem'"


@pytest.mark.guarantee("secrets-stay-hidden")
def test_allow_lifts_a_pattern_of_the_list_or_a_path() -> None:
    exposure = ExposureRules({}, ["*.pem", "/Certs/ca.key"])
    assert shown(SHOWN, ["a/b.pem", "certs/ca.key"], exposure) == ["a/b.pem", "certs/ca.key"]
    assert hidden_by(SHOWN, "other/ca.key", exposure) == "secret: matches '*.key'"


@pytest.mark.guarantee("secrets-stay-hidden")
def test_the_environment_of_processes_and_of_their_threads_is_hidden() -> None:
    paths = ["proc/1/environ", "proc/1/task/1/environ", "proc/1/task/1/cmdline", "proc/1/status"]
    assert shown(DirectoryRules(), paths) == ["proc/1/status"]
