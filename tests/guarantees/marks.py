"""The marks of tests, read from their source: which tests prove a guarantee."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]


class Mark(NamedTuple):
    """A guarantee that a test proves, or all tests of a file."""

    guarantee: str
    file: str
    """Relative to the repository."""
    test: str | None
    """Name of the test; None for `pytestmark`, which marks the whole file."""


def marks() -> Iterator[Mark]:
    """Yield the marks of all tests, by file and line."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "mark.guarantee(" not in text:
            continue
        file = str(path.relative_to(TESTS.parent))
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for each in node.decorator_list:
                    yield from (Mark(name, file, node.name) for name in _guarantees(each))
            elif isinstance(node, ast.Assign):
                yield from (Mark(name, file, None) for name in _guarantees(node))


def _guarantees(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="guarantee"), args=[ast.Constant(value=str(name))]
            ):
                yield name
            case _:
                pass
