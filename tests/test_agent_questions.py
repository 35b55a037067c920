"""The measure of `python -m tests.benchmarks agent` counts and judges as it says it does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.agent import files, measure, shop, sources
from tests.benchmarks.agent.comparison import compare
from tests.benchmarks.agent.conversation import (
    JSON,
    POLICIES,
    TEXT,
    Asked,
    Given,
    answers,
    definitions,
    weigh,
)
from tests.benchmarks.agent.question import Lines, Names, Question, Rows
from tests.cases import for_each

ASKED = Asked("a server", [], "", r"next: \S+", ("/scratch/x81", "/home"))
DONE = Given(100, "complete")


def result(*texts: str, **members: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **members}


def question(asks: str, *facts: str, later: str = "") -> Question:
    return Question(asks, facts, ours=[], peer=[], later=later)


def by_text(given: Mapping[str, Given]) -> dict[str, dict[str, Given]]:
    return {asks: {TEXT.name: each} for asks, each in given.items()}


def test_there_are_forty_questions_and_each_is_asked_once() -> None:
    every = [*files.QUESTIONS, *shop.QUESTIONS]
    assert len({each.asks for each in files.QUESTIONS}) == len(files.QUESTIONS)
    assert len({each.asks for each in shop.QUESTIONS}) == len(shop.QUESTIONS)
    assert len(every) >= 40


def test_every_question_is_asked_of_this_server_or_says_what_is_missing() -> None:
    assert not [
        each for each in (*files.QUESTIONS, *shop.QUESTIONS) if not each.ours and not each.later
    ]


def test_only_counts_and_groups_of_a_table_wait_for_a_later_version() -> None:
    waiting = [each.later for each in (*files.QUESTIONS, *shop.QUESTIONS) if each.later]
    assert [re.match("counts|groups", each) is not None for each in waiting] == [True, True]


def test_json_is_counted_in_the_place_of_text_and_not_beside_it() -> None:
    answer = result("one\ntwo", structuredContent={"a": "é\n"})
    assert weigh([answer], [], TEXT, ASKED).characters == len("one\ntwo")
    assert weigh([answer], [], JSON, ASKED).characters == len('{"a":"é\\n"}')


def test_without_json_the_text_is_counted_by_both_policies() -> None:
    assert [weigh([result("one")], [], each, ASKED).characters for each in POLICIES] == [3, 3]


def test_images_are_no_characters_and_other_blocks_are_their_json() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    answer = {"content": [image, link]}
    assert weigh([answer], [], TEXT, ASKED).characters == len("\n") + len(
        '{"type":"resource_link","uri":"file:///a","name":"a"}'
    )


def test_the_temporary_folder_counts_as_a_usual_one() -> None:
    assert weigh([result("/scratch/x81/a.py")], [], TEXT, ASKED).characters == len("/home/a.py")


def test_the_version_of_a_file_counts_the_same_each_time() -> None:
    texts = ('{"server/version":"0a1"}', '{"server/version":"0123456789abcdef"}')
    first, second = (weigh([result(text)], [], TEXT, ASKED).characters for text in texts)
    assert first == second == len(texts[1])


@for_each(
    ("answer", "verdict"),
    [
        (result("one two"), "complete"),
        (result("one\nnext: cursor"), "marked"),
        (result("one"), "silently short"),
        (result("no such file", isError=True), "failed"),
        (result("no such file: one, two?", isError=True), "complete"),
    ],
)
def test_an_answer_is_judged_by_the_facts_in_it(answer: dict[str, Any], verdict: str) -> None:
    assert weigh([answer], ["one", "two"], TEXT, ASKED).verdict == verdict


def test_a_fact_only_in_the_text_is_missing_for_a_host_that_takes_the_json() -> None:
    answer = result("one two", structuredContent={"lines": ["one"]})
    assert weigh([answer], ["one", "two"], JSON, ASKED).missing == ["two"]


def test_a_server_without_marks_is_never_taken_to_have_marked_a_part() -> None:
    unmarked = Asked("a server", [], "", None, ("", ""))
    assert weigh([result("next: cursor")], ["two"], TEXT, unmarked).verdict == "silently short"


def test_ratios_are_over_questions_that_both_answer() -> None:
    questions = [question("a"), question("b"), question("ours"), question("theirs"), question("c")]
    ours = {"a": Given(50, "complete"), "b": Given(800, "marked"), "ours": DONE, "c": DONE}
    theirs = {"a": DONE, "b": DONE, "theirs": DONE, "c": Given(1, "silently short")}
    found = compare(questions, by_text(ours), by_text(theirs), TEXT.name)
    assert (found.ours, found.theirs) == (850, 200)
    assert found.mean == pytest.approx(2.0)
    assert found.unanswered == ["theirs"]


def test_a_question_for_a_later_version_is_not_missed_now() -> None:
    questions = [question("a"), question("count", later="counts")]
    found = compare(questions, by_text({"a": DONE}), by_text({"a": DONE, "count": DONE}), "text")
    assert found.unanswered == []


def test_our_answers_that_are_short_without_a_mark_are_named() -> None:
    short = by_text({"a": Given(5, "silently short")})
    found = compare([question("a")], short, by_text({"a": DONE}), TEXT.name)
    assert (found.silent, found.unanswered) == (["a"], ["a"])


def test_facts_are_taken_from_the_source(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.py").write_text("x = 1\n  y = f(2)\n")
    assert Names("**/*.py", 2).facts(tmp_path) == [r"a/b\.py"]
    assert Lines("a/*.py", "y").facts(tmp_path) == [re.escape("y = f(2)")]
    with pytest.raises(AssertionError, match="nothing in the source"):
        Question("a", [Names("*.txt")], ours=[], peer=[]).expressions(tmp_path)


@pytest.fixture(scope="module")
def shop_set(tmp_path_factory: pytest.TempPathFactory) -> measure.QuestionSet:
    return measure.shop_set(sources.shop(tmp_path_factory.mktemp("shop")))


def unanswered(given: Mapping[str, Mapping[str, Given]]) -> list[tuple[str, str, Sequence[str]]]:
    return [
        (asks, policy, each.missing)
        for asks, by_policy in given.items()
        for policy, each in by_policy.items()
        if each.verdict != "complete"
    ]


def test_the_shop_has_the_same_rows_each_time(
    shop_set: measure.QuestionSet, tmp_path: Path
) -> None:
    every = Rows("select * from orders join order_lines on order_id = id")
    assert every.facts(shop_set.source) == every.facts(sources.shop(tmp_path))


def test_this_server_answers_all_about_the_shop(shop_set: measure.QuestionSet) -> None:
    assert unanswered(measure.answers_of_ours(shop_set)) == []


def test_the_built_in_tools_cost_less_than_1200_tokens(shop_set: measure.QuestionSet) -> None:
    every = definitions(shop_set.ours)
    assert set(every) > measure.BUILT_IN
    assert sum(every[name] for name in measure.BUILT_IN) / measure.CHARACTERS_A_TOKEN < 1_200


def test_the_docs_show_each_question() -> None:
    shown = (sources.ROOT / "docs/performance.md").read_text("utf-8")
    every = [*files.QUESTIONS, *shop.QUESTIONS]
    assert f"{len(every)} everyday questions" in shown
    assert [each.asks for each in every if f"\n| {each.asks} |" not in shown] == []


def test_dbhub_answers_all_about_the_shop_in_twice_as_many_characters(
    shop_set: measure.QuestionSet,
) -> None:
    if shop_set.peer is None:
        pytest.skip(
            "not installed: npm install --prefix FOLDER @bytebase/dbhub (BENCHMARK_NODE_MODULES)"
        )
    theirs = measure.answers_of_peer(shop_set)
    assert unanswered(theirs) == []
    ours = measure.answers_of_ours(shop_set)
    for policy in POLICIES:
        found = compare(shop_set.questions, ours, theirs, policy.name)
        assert found.ours / found.theirs <= measure.MOST_IN_TOTAL
        assert found.mean <= measure.MOST_IN_THE_MEAN


SMALL = Question(
    "a file by its name",
    [r"b\.py"],
    ours=[("search_resources", {"query": "b.py", "uri": "{root}"})],
    peer=[("search_files", {"path": "{root}", "pattern": "**/b.py"})],
)


@pytest.fixture
def small_set(tmp_path: Path) -> measure.QuestionSet:
    folder = tmp_path / "small"
    (folder / "a").mkdir(parents=True)
    (folder / "a/b.py").write_text("x = 1\n")
    return measure.django_set(folder)


def test_this_server_answers_about_a_folder(small_set: measure.QuestionSet) -> None:
    found = answers(small_set.ours, small_set.source, [(SMALL, SMALL.ours)])
    assert unanswered(found) == []


def test_server_filesystem_answers_about_a_folder(small_set: measure.QuestionSet) -> None:
    if small_set.peer is None:
        pytest.skip("not installed: npm install @modelcontextprotocol/server-filesystem")
    found = answers(small_set.peer, small_set.source, [(SMALL, SMALL.peer)])
    assert unanswered(found) == []
    assert found[SMALL.asks][TEXT.name].characters == len("/home/ada/src/small/a/b.py")
