from __future__ import annotations

import json
import os
import pathlib
from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import ManifestError
from resource_server.manifest import yaml_reader
from resource_server.manifest.data import Positions, Problems
from resource_server.runtime import yaml_composer
from tests.cases import for_each


def parse(text: str) -> tuple[dict[str, object], Positions]:
    problems = Problems("m.yaml")
    found = yaml_reader.parse_manifest(text, problems)
    problems.raise_any()
    return found


def problem(text: str) -> str:
    with pytest.raises(ManifestError) as caught:
        parse(text)
    return str(caught.value)


def problem_of_bytes(folder: pathlib.Path, data: bytes) -> str:
    (folder / "m.yaml").write_bytes(data)
    with pytest.raises(ManifestError) as caught:
        yaml_reader.read_manifest_text(folder / "m.yaml", Problems("m.yaml"))
    return str(caught.value)


def test_every_key_and_value_has_its_line_and_column() -> None:
    data, positions = parse("a:\n  é: [1, 'x']\nb: {c: d}\n")
    assert data == {"a": {"é": [1, "x"]}, "b": {"c": "d"}}
    assert positions.keys == {
        ("a",): (1, 1),
        ("a", "é"): (2, 3),
        ("b",): (3, 1),
        ("b", "c"): (3, 5),
    }
    assert positions.values == {
        (): (1, 1),
        ("a",): (2, 3),
        ("a", "é"): (2, 6),
        ("a", "é", 0): (2, 7),
        ("a", "é", 1): (2, 10),
        ("b",): (3, 4),
        ("b", "c"): (3, 8),
    }


def test_both_parsers_of_pyyaml_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x\n  - 1\n  - {b: 'c: d'}\ne: *x\nf: |\n  g\n  h\n"
    found = parse(text)
    monkeypatch.setattr(yaml_composer, "_Parser", yaml.SafeLoader)
    assert parse(text) == found


@for_each(
    ("written", "value"),
    [
        ("off", "off"),
        ("no", "no"),
        ("yes", "yes"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("010", 10),
        ("0x1F", 31),
        ("-7", -7),
        ("1_000", "1_000"),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("-.inf", float("-inf")),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("! 5", "5"),
        ("=", "="),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_plain_values_are_read_as_yaml_1_2_does(written: str, value: object) -> None:
    data, _ = parse(f"a: {written}\n")
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


def test_keys_are_the_text_as_written() -> None:
    data, _ = parse("2024: a\nno: b\n0x10: c\n")
    assert data == {"2024": "a", "no": "b", "0x10": "c"}


@pytest.mark.parametrize("text", ["\ufeffa: 1\r\nb: 2\r\n", "a: 1\r\nb: 2\r\n"])
def test_byte_order_mark_and_windows_line_ends_do_not_shift_positions(
    tmp_path: pathlib.Path, text: str
) -> None:
    (tmp_path / "m.yaml").write_bytes(text.encode())
    read = yaml_reader.read_manifest_text(tmp_path / "m.yaml", Problems("m.yaml"))
    data, positions = parse(read)
    assert data == {"a": 1, "b": 2}
    assert positions.values == {(): (1, 1), ("a",): (1, 4), ("b",): (2, 4)}


def test_a_byte_order_mark_does_not_count_as_a_column(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.yaml").write_bytes("\ufeffa: \x01".encode())
    read = yaml_reader.read_manifest_text(tmp_path / "m.yaml", Problems("m.yaml"))
    assert problem(read).startswith("m.yaml:1:4: unprintable character")


@for_each("text", ["", "\n\n", "# only a comment\n", "---\n", "~\n", "--- null\n...\n"])
def test_an_empty_manifest_is_refused_with_an_example(text: str) -> None:
    assert problem(text) == (
        "m.yaml:1:1: the manifest is empty; start with: roots: {project: {path: .}}"
    )


@for_each(("text", "what"), [("- a\n", "a list"), ("hello\n", "'hello'"), ("5\n", "the number 5")])
def test_anything_but_a_mapping_is_refused(text: str, what: str) -> None:
    assert problem(text) == (
        f"m.yaml:1:1: expected a mapping, found {what}; start with: roots: {{project: {{path: .}}}}"
    )


@for_each(
    ("text", "message"),
    [
        ("a:\n\tb: 1\n", "2:1: not valid YAML: a tab; indent with spaces"),
        ("a:\n  b: 1\n\tc: 2\n", "3:1: not valid YAML: a tab; indent with spaces"),
        (
            "a: b: c\n",
            "1:5: not valid YAML: unexpected ':'; quote text that contains ': ', or check the "
            "indentation",
        ),
        (
            "a: 1\nb\nc: 2\n",
            "3:1: not valid YAML: expected 'key: value' on line 2; is a ':' missing?",
        ),
        ("a: @b\n", "1:4: not valid YAML: a value cannot start with '@'; quote it"),
        (
            'a: "C:\\data"\n',
            "1:7: not valid YAML: a '\\' within double quotes starts an escape; use single "
            "quotes, or double it",
        ),
        ("a: 'b\n", "2:1: not valid YAML: the quote opened on line 1 is not closed"),
        (
            "a: [1, 2\nb: 3\n",
            "2:2: not valid YAML: expected ',' or ']' in the list opened on line 1",
        ),
        (
            "a: {b: ${C}}\n",
            "1:9: not valid YAML: expected ',' or '}' in the mapping opened on line 1; "
            "quote text that contains '${'",
        ),
        ("a: {b\n", "2:1: not valid YAML: expected ',' or '}' in the mapping opened on line 1"),
        (
            "a: 1\n- b\n",
            "2:1: not valid YAML: expected a key and ':', as on line 1; check the indentation",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "2:1: a second YAML document; a manifest has one, so remove this '---'",
        ),
        ("a: \x01\n", "1:4: unprintable character U+0001; is this a text file?"),
        ("a: *b\n", "1:4: a: alias '*b' has no anchor before it"),
        ("a: &b [*b]\n", "1:8: a[0]: alias '*b' refers to itself"),
        (
            "a: !!python/name:os.system x\n",
            "1:4: a: tag '!!python/name:os.system' is not supported; remove it",
        ),
        ("a: !secret [x]\n", "1:4: a: tag '!secret' is not supported; remove it"),
        ("a: !!map text\n", "1:4: a: tag '!!map' is not supported; remove it"),
        ("a: !!str {x: 1}\n", "1:4: a: tag '!!str' is not supported; remove it"),
        ("a: !!seq foo\n", "1:4: a: tag '!!seq' is not supported; remove it"),
        ("!secret a: x\n", "1:1: tag '!secret' is not supported; remove it"),
        ("[a]: b\n", "1:1: a key must be text; is a ':' or a quote misplaced?"),
        ('"": b\n', "1:1: a key must be text; is a ':' or a quote misplaced?"),
        ("a:\n  <<: 5\n", '2:7: a["<<"]: expected a mapping, or a list of them, to merge'),
    ],
)
def test_unusable_yaml_is_one_line_with_its_position(text: str, message: str) -> None:
    assert problem(text) == f"m.yaml:{message}"


def test_all_duplicate_keys_are_reported() -> None:
    assert problem("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\n") == (
        "m.yaml:5:3: b.c: duplicate key; first on line 3\n"
        "m.yaml:6:1: a: duplicate key; first on line 1"
    )


def test_duplicate_keys_and_tags_above_a_syntax_error_are_reported_with_it() -> None:
    assert problem("a: 1\na: 2\nb: !secret x\nc: @d\n") == (
        "m.yaml:2:1: a: duplicate key; first on line 1\n"
        "m.yaml:3:4: b: tag '!secret' is not supported; remove it\n"
        "m.yaml:4:4: not valid YAML: a value cannot start with '@'; quote it"
    )


def test_a_collection_may_have_the_tag_of_its_kind() -> None:
    data, _ = parse("a: !!map {b: !!seq [1]}\nc: ! [2]\n")
    assert data == {"a": {"b": [1]}, "c": [2]}


def test_an_anchor_may_be_reused() -> None:
    data, positions = parse("a: &x {b: 1}\nc: *x\n&k d: *k\n")
    assert data == {"a": {"b": 1}, "c": {"b": 1}, "d": "d"}
    assert positions.values["c", "b"] == (1, 11)


def test_written_keys_override_merged_keys() -> None:
    data, _ = parse("a: &a {b: 1, c: 1}\nd: &d {c: 2, e: 2}\nf: {<<: [*a, *d], b: 3}\n")
    assert data["f"] == {"b": 3, "c": 1, "e": 2}


def test_exponential_aliases_are_refused_before_expansion() -> None:
    levels = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]\n" for i in range(1, 10))
    assert problem("l0: &l0 [a, b]\n" + levels).endswith(
        "more than 100,000 values after expanding aliases"
    )


def test_aliases_that_nest_too_deep_are_refused() -> None:
    levels = "".join(f"l{i}: &l{i} [*l{i - 1}]\n" for i in range(1, 5000))
    assert problem("l0: &l0 [a]\n" + levels).endswith("nested deeper than 64 levels")


@for_each(
    ("opening", "place"),
    [
        ("[", "2:67: a[0][0]"),
        ("{a: ", "2:259: a.a.a"),
        ("- ", "2:131: a[0][0]"),
        ("? ", '2:131: a["?"]["?"]'),
    ],
)
def test_ten_thousand_levels_are_refused(opening: str, place: str) -> None:
    # PyYAML itself refuses a thousand, from 6.0.4 on: the message is the same.
    found = problem("a:\n  " + opening * 10_000)
    assert found == f"m.yaml:{place}: nested deeper than 64 levels"


def test_a_mebibyte_of_nesting_is_refused() -> None:
    assert problem("[" * yaml_reader.MAX_BYTES).endswith("nested deeper than 64 levels")


def test_sixty_levels_are_not_deep() -> None:
    data, _ = parse("a: " + "[" * 60 + "]" * 60)
    assert data


def test_text_over_one_mebibyte_is_refused(tmp_path: pathlib.Path) -> None:
    assert problem_of_bytes(tmp_path, b"#" * (1024 * 1024 + 1)) == (
        "m.yaml: larger than 1 MiB; a manifest is a small YAML file"
    )


def test_text_of_one_mebibyte_is_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.yaml").write_bytes(b"#" * 1024 * 1024)
    assert (
        len(yaml_reader.read_manifest_text(tmp_path / "m.yaml", Problems("m.yaml"))) == 1024 * 1024
    )


def test_text_that_is_not_utf_8_is_refused_at_its_position(tmp_path: pathlib.Path) -> None:
    assert problem_of_bytes(tmp_path, "a: ü\nbé: é\n".encode() + b"c: \xff\n") == (
        "m.yaml:3:4: not UTF-8 text; save the file as UTF-8"
    )


def test_a_fifo_is_refused_without_waiting(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "m.yaml")
    with pytest.raises(ManifestError, match="not a regular file; name a manifest or a folder"):
        yaml_reader.read_manifest_text(tmp_path / "m.yaml", Problems("m.yaml"))


@pytest.mark.parametrize(
    ("name", "reason"), [("none.yaml", "no such file or directory"), ("a\0b", "not a file name")]
)
def test_an_unreadable_file_is_refused_with_the_reason(
    tmp_path: pathlib.Path, name: str, reason: str
) -> None:
    with pytest.raises(ManifestError, match=f"cannot be read: {reason}"):
        yaml_reader.read_manifest_text(tmp_path / name, Problems("m.yaml"))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(data)
    problems = Problems("any.yaml")
    with suppress(ManifestError):
        yaml_reader.parse_manifest(yaml_reader.read_manifest_text(file, problems), problems)
    assert all("\n" not in str(found) for found in problems.sorted())


@given(st.text("ab:-{}[]&*!|>'\"%@`#,?~<\n \t0", max_size=60))
def test_any_text_of_yaml_indicators_is_read_or_refused(text: str) -> None:
    problems = Problems("any.yaml")
    with suppress(ManifestError):
        yaml_reader.parse_manifest(text, problems)
    assert all("\n" not in str(found) for found in problems.sorted())


_text = st.text(st.characters(exclude_categories=["Cc", "Cn", "Cs", "Zl", "Zp"]), max_size=8)
_keys = _text.filter(lambda key: key not in ("", "<<"))
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(_keys, _values, min_size=1, max_size=4))
def test_json_is_read_as_yaml(data: dict[str, object]) -> None:
    text = json.dumps(data, ensure_ascii=False)
    assert yaml_reader.parse_manifest(text, Problems("m.json"))[0] == data
