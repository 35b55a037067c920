from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.provider import Annotations
from resource_server.providers.filesystem.exposure.ignore_files import IgnoreRules
from resource_server.providers.filesystem.exposure.rules import (
    DirectoryRules,
    ExposureRules,
    Selection,
    selection,
)
from resource_server.providers.filesystem.options import (
    DirectoryOptions,
    directory_keys,
)

SHOWN = DirectoryRules(hidden=True)


def hidden_by(scope: DirectoryRules, path: str, rules: ExposureRules | None = None) -> str | None:
    """Return what hides a path, as met from the root down; a final slash makes it a directory."""
    rules = rules or ExposureRules({})
    *folders, last = path.split("/") if not path.endswith("/") else [*path[:-1].split("/"), ""]
    prefix = ""
    for folder in folders:
        reason = rules.hidden_by(scope, prefix, folder, is_directory=True)
        if reason:
            return reason
        scope = rules.enter(scope, prefix + folder)
        prefix += f"{folder}/"
    return rules.hidden_by(scope, prefix, last, is_directory=False) if last else None


def shown(
    scope: DirectoryRules, paths: Iterable[str], rules: ExposureRules | None = None
) -> list[str]:
    return [path for path in paths if hidden_by(scope, path, rules) is None]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("name", [".SSH/x", ".\u017fsh/x", "Server.PEM", ".Git/config"])
def test_a_secret_spelled_in_another_case_is_hidden(name: str) -> None:
    assert hidden_by(SHOWN, name) is not None


def test_neither_include_nor_hidden_lifts_a_secret() -> None:
    scope = DirectoryRules(hidden=True, include=Selection([".env.local", "*.pem"]))
    assert hidden_by(scope, ".env.local") == "secret: matches '.env*'"
    assert hidden_by(scope, "a.pem") == "secret: matches '*.pem'"


def test_allow_lifts_a_pattern_of_the_list_or_a_path() -> None:
    rules = ExposureRules({}, ["*.pem", "/Certs/ca.key"])
    assert shown(SHOWN, ["a/b.pem", "certs/ca.key"], rules) == ["a/b.pem", "certs/ca.key"]
    assert hidden_by(SHOWN, "other/ca.key", rules) == "secret: matches '*.key'"


def test_dotted_names_are_hidden_unless_the_option_shows_them() -> None:
    assert hidden_by(DirectoryRules(), ".github/x") == "name begins with a dot"
    assert hidden_by(SHOWN, ".github/x") is None


def test_exclude_wins_over_include() -> None:
    scope = DirectoryRules(include=Selection(["docs/"]), exclude=Selection(["*.tmp", "docs/old/"]))
    assert shown(scope, ["docs/a.md", "docs/a.tmp", "docs/old/a.md"]) == ["docs/a.md"]
    assert hidden_by(scope, "docs/old/a.md") == "excluded by 'docs/old/'"


def test_include_shows_what_matches_and_the_way_to_it() -> None:
    scope = DirectoryRules(include=Selection(["/docs/api/*.md", "src/**", "!src/gen/"]))
    assert shown(scope, ["docs/", "docs/api/", "docs/api/a.md", "src/", "src/a/b.c"]) == [
        "docs/",
        "docs/api/",
        "docs/api/a.md",
        "src/",
        "src/a/b.c",
    ]
    for path in ("a.md", "docs/a.md", "docs/img/", "lib/", "src/gen/x.c", "docs/api/a.txt"):
        assert hidden_by(scope, path) == "not included"


def test_include_of_a_name_keeps_every_directory_that_may_hold_it() -> None:
    scope = DirectoryRules(include=Selection(["*.md"]))
    assert shown(scope, ["a/b/", "a/b/c.md", "a/b/c.txt"]) == ["a/b/", "a/b/c.md"]


def test_everything_below_an_included_directory_is_included() -> None:
    assert shown(DirectoryRules(include=Selection(["docs/"])), ["docs/a/b/c.txt"]) == [
        "docs/a/b/c.txt"
    ]


def test_the_default_includes_everything_without_a_pattern() -> None:
    assert selection(("**",)) is None


def test_what_is_not_exposed_is_hidden_whatever_it_is() -> None:
    rules = ExposureRules({"scratch": DirectoryOptions(exposed=False), "docs": DirectoryOptions()})
    assert shown(DirectoryRules(), ["scratch", "docs", "a/scratch"], rules) == ["docs", "a/scratch"]


def test_the_environment_of_processes_and_of_their_threads_is_hidden() -> None:
    paths = ["proc/1/environ", "proc/1/task/1/environ", "proc/1/task/1/cmdline", "proc/1/status"]
    assert shown(DirectoryRules(), paths) == ["proc/1/status"]


def test_a_directory_hides_and_shows_by_its_own_options() -> None:
    rules = ExposureRules(
        {
            "scratch": DirectoryOptions(exposed=False),
            ".github": DirectoryOptions(hidden=True),
            "build": DirectoryOptions(gitignore=False),
            "docs": DirectoryOptions(include=("*.md",), exclude=("old.md",)),
        }
    )
    ignores = IgnoreRules("", [(".gitignore", b"build\ntmp\n")])
    scope = DirectoryRules(ignores=(ignores,))
    assert hidden_by(scope, "scratch/x", rules) == "exposed: false in directories"
    assert shown(scope, ["a/scratch/x", ".github/.x", "build/tmp"], rules) == [
        "a/scratch/x",
        ".github/.x",
        "build/tmp",
    ]
    assert hidden_by(scope, "tmp/x", rules) == "ignored by .gitignore:2 'tmp'"
    assert shown(scope, ["docs/a.md", "docs/old.md", "docs/b.txt"], rules) == ["docs/a.md"]


def test_the_deepest_directory_wins_and_inherits_the_rest() -> None:
    rules = ExposureRules(
        {
            "a": DirectoryOptions(
                annotations=Annotations(audience=("user",), priority=0.1),
                readable=False,
                listed=False,
            ),
            "a/b": DirectoryOptions(
                annotations=Annotations(priority=0.9), readable=True, encoding="latin-1"
            ),
        }
    )
    above = rules.enter(DirectoryRules(encoding="utf-8"), "a")
    below = rules.enter(rules.enter(above, "a/b"), "a/b/c")
    assert (above.readable, above.encoding) == (False, "utf-8")
    assert (below.readable, below.listed) == (True, False)
    assert below.annotations == Annotations(audience=("user",), priority=0.9)
    assert below.encoding == "iso8859-1"


def test_a_scope_stays_the_same_object_until_something_changes() -> None:
    scope = DirectoryRules()
    assert ExposureRules({}).enter(scope, "a") is scope


NAMES = st.sampled_from(
    ["a", "id_rsa", "ID_RSA", ".env", "x.pem", "b.md", "credentials", "credentials.py", "k.log"]
) | st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=6)


@given(st.lists(NAMES, unique=True), st.sets(NAMES), st.booleans(), st.booleans())
def test_many_names_are_decided_as_one_is(
    names: list[str], directories: set[str], hidden: bool, ignored: bool
) -> None:
    ignores = (IgnoreRules("", [(".gitignore", b"*.log\na/\n")]),) if ignored else ()
    rules, scope = ExposureRules({}), DirectoryRules(hidden=hidden, ignores=ignores)
    assert rules.exposed(scope, "", names, directories) == [
        name
        for name in names
        if rules.hidden_by(scope, "", name, is_directory=name in directories) is None
    ]


@pytest.mark.parametrize("key", ["", ".", "/a", "a/../b", "../a"])
def test_a_directory_key_that_is_no_path_below_the_root_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="no path below the root"):
        directory_keys({key: DirectoryOptions()})


@pytest.mark.parametrize("key", ["priv*", "private/*", "?x", "a/**/b"])
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
