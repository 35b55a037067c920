from __future__ import annotations

import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import ManifestError
from resource_server.manifest import yaml_reader
from resource_server.manifest.data import Positions, Problems
from resource_server.manifest.environment import substitute
from resource_server.manifest.load import load
from tests.cases import for_each

ENVIRONMENT = {"NAME": "value", "EMPTY": "", "YAML": "x: [1, 2]\n- &a", "DOLLAR": "${NAME}"}


def filled(value: str) -> object:
    problems = Problems("m.yaml")
    data, _ = substitute({"key": value}, Positions(), ENVIRONMENT, problems)
    problems.raise_any()
    return data["key"]


@for_each(
    ("text", "value"),
    [
        ("${NAME}", "value"),
        ("a ${NAME}${NAME} b", "a valuevalue b"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("${NONE:-other}", "other"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-$b {c}", "a:-$b {c"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("$NAME $$ {NAME}", "$NAME $$ {NAME}"),
        ("${DOLLAR}", "${NAME}"),
        ("${YAML}", "x: [1, 2]\n- &a"),
    ],
)
def test_variables_are_substituted_once_and_as_text(text: str, value: str) -> None:
    assert filled(text) == value


@for_each("text", ["${", "${1X}", "${A-B}", "${NAME", "${NONE:-${NAME}}", "${}"])
def test_an_unfinished_reference_is_reported_with_the_correct_form(text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        filled(text)
    assert str(caught.value) == (
        "m.yaml: key: unfinished '${'; write ${NAME}, ${NAME:-default}, or $${ for a literal ${"
    )


def test_every_unset_variable_is_named_at_its_position() -> None:
    problems = Problems("m.yaml")
    data, positions = yaml_reader.parse_manifest("a: ${ONE} ${TWO}\nb:\n  - ${THREE}\n", problems)
    substitute(data, positions, ENVIRONMENT, problems)
    assert [str(found) for found in problems.sorted()] == [
        "m.yaml:1:4: a: environment variable ONE is not set; set it or write ${ONE:-default}",
        "m.yaml:1:4: a: environment variable TWO is not set; set it or write ${TWO:-default}",
        "m.yaml:3:5: b[0]: environment variable THREE is not set; "
        "set it or write ${THREE:-default}",
    ]


def test_keys_are_not_substituted() -> None:
    data, _ = substitute({"${NAME}": 1}, Positions(), ENVIRONMENT, Problems("m.yaml"))
    assert data == {"${NAME}": 1}


@given(st.text("${}:-NAME ", max_size=30))
def test_any_text_is_substituted_or_refused(text: str) -> None:
    problems = Problems("m.yaml")
    data, _ = substitute({"key": text}, Positions(), ENVIRONMENT, problems)
    assert isinstance(data["key"], str)


def test_numbers_and_choices_may_come_from_the_environment(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIZE", "50")
    monkeypatch.setenv("LISTED", "false")
    monkeypatch.setenv("MODE", "inline")
    (tmp_path / "m.yaml").write_text(
        "server: {page_size: '${SIZE}', alternatives: '${MODE}'}\n"
        "roots: {docs: {path: ., listed: '${LISTED}'}}\n"
    )
    manifest = load(tmp_path / "m.yaml")
    assert manifest.server.page_size == 50
    assert manifest.server.alternatives == "inline"
    assert manifest.mounts[0].listed is False


def test_a_value_with_an_unset_variable_has_no_other_problem(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "server: {page_size: '${NO_SUCH_VARIABLE}'}\nroots: {a: {path: .}}\n"
    )
    with pytest.raises(ManifestError) as caught:
        load(tmp_path / "m.yaml")
    (found,) = caught.value.diagnostics
    assert found.message.startswith("environment variable NO_SUCH_VARIABLE is not set")


def test_only_a_path_may_have_bytes_that_are_not_utf_8(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latin = os.fsdecode(b"caf\xe9")
    (tmp_path / latin).mkdir()
    monkeypatch.setenv("LATIN", latin)
    (tmp_path / "m.yaml").write_text(
        "server: {title: 'At ${LATIN}'}\n"
        "roots:\n"
        "  a: {path: '${LATIN}', description: '${LATIN}', directories: {d: {title: '${LATIN}'}}}\n"
        "databases: {b: {url: 'sqlite:///${LATIN}/b.db', title: '${LATIN}'}}\n"
        "prompts: {c: {messages: [{text: '${LATIN}'}]}}\n"
    )
    with pytest.raises(ManifestError) as caught:
        load(tmp_path / "m.yaml")
    problem = "environment variable LATIN is not UTF-8"
    assert [str(found).partition(".yaml:")[2] for found in caught.value.diagnostics] == [
        f"1:17: server.title: {problem}",
        f"3:38: roots.a.description: {problem}",
        f"3:75: roots.a.directories.d.title: {problem}",
        f"4:56: databases.b.title: {problem}",
        f"5:33: prompts.c.messages[0].text: {problem}",
    ]
    (tmp_path / "m.yaml").write_text(
        "roots: {a: {path: '${LATIN}'}}\ndatabases: {b: {url: 'sqlite:///${LATIN}/b.db'}}\n"
    )
    folder, database = load(tmp_path / "m.yaml").mounts
    assert folder.options["path"] == latin
    assert str(database.options["url"]).endswith("/caf%E9/b.db")


def test_values_of_variables_never_appear_in_diagnostics(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cr'et\nhidden")
    (tmp_path / "m.yaml").write_text(
        "server:\n"
        "  page_size: ${TOKEN}\n"
        "  alternatives: in ${TOKEN}\n"
        "  cache: {ttl: '${TOKEN}', scope: '${TOKEN}'}\n"
        "roots:\n"
        "  a: {path: ., uri: '${TOKEN}', max_size: '${TOKEN}', types: {'*.x': '${TOKEN}'}}\n"
        "  b: {path: ., encoding: '${TOKEN}', directories: '${TOKEN}'}\n"
        "  c: '${TOKEN}'\n"
        "  d: {path: ., encoding: 'no ${TOKEN}'}\n"
        "providers:\n"
        "  e: {use: '${TOKEN}'}\n"
    )
    (tmp_path / "other.yaml").write_text(
        "server: '${TOKEN}'\nroots: '${TOKEN}'\nversion: '${TOKEN}'"
    )
    with pytest.raises(ManifestError) as other:
        load(tmp_path / "other.yaml")
    assert "cr'et" not in str(other.value)
    with pytest.raises(ManifestError) as caught:
        load(tmp_path / "m.yaml")
    shown = "\n".join(found.message for found in caught.value.diagnostics)
    assert len(caught.value.diagnostics) >= 9
    assert "cr'et" not in shown
    assert "hidden" not in shown
    assert "found 'in ${TOKEN}'" in shown
