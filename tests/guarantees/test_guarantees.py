from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import reference
from tests.guarantees.counts import counted, outdated
from tests.guarantees.marks import marks
from tests.guarantees.page import PAGE, SECTION, sections
from tests.guarantees.promises import PROMISES, Promise
from tests.worlds.registry import NAMES

ROOT = Path(__file__).parents[2]
BY_NAME = {each.name: each for each in PROMISES}


def plain(markdown: str) -> str:
    """Return Markdown in one line, without emphasis, code marks and links."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown.replace("**", "").replace("`", ""))
    return " ".join(text.split())


SECURITY = (ROOT / "docs/security.md").read_text("utf-8")
DATABASES = (ROOT / "docs/databases.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def bullets(markdown: str) -> list[str]:
    """Return the points of all lists, without emphasis."""
    return [plain(each) for each in re.findall(r"^\* (.*?)(?=^\* |^\S|^$)", markdown, re.M | re.S)]


def test_each_promise_is_made_once() -> None:
    assert len(BY_NAME) == len(PROMISES)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
def test_a_promise_is_in_the_words_of_its_page(promise: Promise) -> None:
    pages = plain(README), plain(SECURITY), plain(DATABASES)
    for sentence in promise.sentences:
        assert any(sentence in page for page in pages), sentence


@pytest.mark.parametrize(
    "bullet",
    [
        *bullets(SECURITY),
        *bullets(README.partition("## What is safe about it")[2].partition("\n## ")[0]),
    ],
    ids=lambda bullet: bullet.partition(".")[0],
)
def test_every_line_of_security_has_a_promise(bullet: str) -> None:
    sentences = [sentence for each in PROMISES for sentence in each.sentences]
    assert any(sentence in bullet for sentence in sentences)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
def test_a_promise_names_modules_and_worlds_that_exist(promise: Promise) -> None:
    assert all((ROOT / "resource_server" / module).exists() for module in promise.modules)
    assert set(promise.worlds) <= set(NAMES)


def test_every_promise_has_tests_and_every_mark_a_promise() -> None:
    assert {mark.guarantee for mark in marks()} == set(BY_NAME)


def test_the_page_of_guarantees_is_up_to_date() -> None:
    assert reference.shown(SECTION, PAGE) == sections(), "run python -m tests.guarantees"


def test_each_test_that_the_docs_name_is_there() -> None:
    named = re.findall(
        r"`(tests/[^`]*\.py)(?:::(\w+))?`", (ROOT / "docs/how-it-is-tested.md").read_text()
    )
    assert len(named) > 50
    for file, test in named:
        assert f"def {test}" in (ROOT / file).read_text("utf-8"), f"{file}::{test}"


def test_a_count_that_is_far_off_is_outdated() -> None:
    number = 1000
    tests = [f"tests/manifest/test_load.py::test_{each}" for each in range(number)]
    assert counted(tests)["the manifest"] == number
    assert any("tests of the manifest, of 1000" in each for each in outdated(tests))
