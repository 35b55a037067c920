from __future__ import annotations

import pathlib

import pytest

from resource_server.errors import ManifestError
from resource_server.manifest.load import load

TEN_MISTAKES = """\
roots: {project: {path: .}}
prompts:
  "a b": {messages: [{text: x}]}
  review:
    titel: Review
    arguments:
      fo-cus: {}
      file: {complete: "file:///projct/{+file}"}
      other: {}
    messages:
      - {role: usr, resource: "file:///project/{+fil}"}
      - {text: 'Like {"a": 1} for {zzz}'}
      - {text: "{ {oter}"}
      - {text: a, resource: "file:///project/b"}
      - {role: user}
      - 5
  empty:
"""


def problems(folder: pathlib.Path, text: str) -> list[str]:
    file = folder / "m.yaml"
    file.write_text(text, "utf-8")
    try:
        load(file)
    except ManifestError as error:
        return [str(found).removeprefix(f"{folder}/m.yaml:") for found in error.diagnostics]
    return []


def of_message(folder: pathlib.Path, message: str, roots: str = "p: {path: .}") -> list[str]:
    found = problems(
        folder,
        f"roots: {{{roots}}}\n"
        f"prompts: {{p: {{arguments: {{file: }}, messages: [{{{message}}}]}}}}\n",
    )
    return [each.partition(": ")[2] for each in found]


def of_complete(folder: pathlib.Path, template: str) -> list[str]:
    found = problems(
        folder,
        "roots: {p: {path: .}}\nprompts: {p: {messages: [{text: x}], arguments: "
        f"{{table: , file: {{complete: '{template}'}}}}}}}}\n",
    )
    return [each.partition("arguments.file.complete: ")[2] for each in found]


def test_ten_mistakes_in_prompts_are_reported_together_in_file_order(
    tmp_path: pathlib.Path,
) -> None:
    assert problems(tmp_path, TEN_MISTAKES) == [
        '3:3: prompts["a b"]: a name starts with a letter or digit and continues with those, '
        "'.', '_' or '-', 64 at most",
        "5:5: prompts.review.titel: unknown option; did you mean 'title'?",
        "7:7: prompts.review.arguments.fo-cus: a name starts with a letter or '_' and continues "
        "with those and digits, 64 at most",
        "8:24: prompts.review.arguments.file.complete: the URI is outside all mounts; "
        "known base URIs: file:///project/",
        "11:16: prompts.review.messages[0].role: expected one of user, assistant, found 'usr'; "
        "did you mean 'user'?",
        "11:31: prompts.review.messages[0].resource: there is no argument 'fil'; "
        "did you mean 'file'?",
        "12:16: prompts.review.messages[1].text: no argument is named '\"a\": 1'; "
        "write '{{' and '}}' for braces",
        "12:16: prompts.review.messages[1].text: there is no argument 'zzz'; add it to 'arguments'",
        "13:16: prompts.review.messages[2].text: an unpaired brace; "
        "write '{{' and '}}' for literal braces",
        "14:9: prompts.review.messages[3]: a message has either 'text' or 'resource'; "
        "write two messages",
        "15:9: prompts.review.messages[4]: a message needs 'text' or 'resource'; "
        "this one has neither",
        "16:9: prompts.review.messages[5]: expected a mapping, found the number 5",
        "17:3: prompts.empty: option 'messages' is missing",
    ]


@pytest.mark.parametrize(
    "section", ["5", "[a]", "x", "{a: 5}", "{a: {arguments: 5, messages: 5}}", "{1: }"]
)
def test_malformed_prompts_are_refused_at_their_position(
    tmp_path: pathlib.Path, section: str
) -> None:
    found = problems(tmp_path, f"roots: {{p: {{path: .}}}}\nprompts: {section}\n")
    assert found
    assert all(": prompts" in each for each in found)


def test_a_prompt_needs_a_message(tmp_path: pathlib.Path) -> None:
    found = problems(tmp_path, "roots: {p: {path: .}}\nprompts: {p: {messages: []}}\n")
    assert found == ["2:25: prompts.p.messages: expected 1 or more items, found an empty list"]


@pytest.mark.parametrize(
    "uri",
    ["file:///q/{+file}", "{+file}", "{file}", "/a.txt", "file:///p{file}", "file:///p/../a", ""],
)
def test_a_resource_outside_every_mount_is_refused(tmp_path: pathlib.Path, uri: str) -> None:
    assert of_message(tmp_path, f"resource: '{uri}'") == [
        "prompts.p.messages[0].resource: the URI is outside all mounts; known base URIs: file:///p/"
    ]


@pytest.mark.parametrize(
    "uri", ["file:///p", "file:///p/{+file}", "FILE:///%70/a", "file:///p{?file}"]
)
def test_a_resource_of_a_mount_is_accepted_in_any_spelling(
    tmp_path: pathlib.Path, uri: str
) -> None:
    assert of_message(tmp_path, f"resource: '{uri}'") == []


def test_unknown_mounts_cause_no_prompt_errors(tmp_path: pathlib.Path) -> None:
    found = of_message(tmp_path, "resource: 'file:///q/a'", roots="q: {path: ., uri: nonsense}")
    assert all("resource" not in each for each in found)


@pytest.mark.parametrize("uri", ["file:///p/{+file", "file:///p/{#file}", "file:///p/{{file}}"])
def test_a_malformed_resource_template_is_refused(tmp_path: pathlib.Path, uri: str) -> None:
    assert of_message(tmp_path, f"resource: '{uri}'") == [
        "prompts.p.messages[0].resource: expected a URI template such as "
        f"file:///project/{{+file}}, found '{uri}'"
    ]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (
            "file:///p/{+a}/{b}",
            "several unknown variables; all but {file} must be other arguments",
        ),
        (
            "file:///p/{+a}/{file}",
            "several unknown variables; all but {file} must be other arguments",
        ),
        (
            "file:///p/docs",
            "no variable for the argument to complete; write one, as in file:///project/{+file}",
        ),
        (
            "file:///p/{table}",
            "no variable for the argument to complete; write one, as in file:///project/{+file}",
        ),
        (
            "file:///p/{+file}/x",
            "the variable must end the URI, after a slash, as in file:///project/{+file}",
        ),
        (
            "file:///p/x-{file}",
            "the variable must end the URI, after a slash, as in file:///project/{+file}",
        ),
        (
            "file:///p/{file}/{table}",
            "the variable must end the URI, after a slash, as in file:///project/{+file}",
        ),
        ("file:///q/{+file}", "the URI is outside all mounts; known base URIs: file:///p/"),
    ],
)
def test_an_unusable_completion_template_is_refused(
    tmp_path: pathlib.Path, template: str, reason: str
) -> None:
    assert of_complete(tmp_path, template) == [reason]


@pytest.mark.parametrize(
    "template",
    [
        "file:///p/{+path}",
        "file:///p/docs/{file}",
        "file:///p/{table}/{+file}",
        "file:///p/x{?file}",
    ],
)
def test_a_usable_completion_template_is_accepted(tmp_path: pathlib.Path, template: str) -> None:
    assert of_complete(tmp_path, template) == []


def test_values_from_the_environment_are_not_shown_in_problems(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "file:///{hunter2}/{x y}")
    for message in ("text: '${SECRET}'", "resource: '${SECRET}'", "text: '{${SECRET}'"):
        found = of_message(tmp_path, message)
        assert found
        assert not [each for each in found if "hunter2" in each or "x y" in each]


def test_an_unset_variable_is_the_only_problem_of_its_text(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    (found,) = of_message(tmp_path, "text: '${NOT_SET} {x'")
    assert "NOT_SET is not set" in found
