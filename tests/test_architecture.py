"""The package is as `resource_server/README.md` and `pyproject.toml` say it is.

`python -m tests.test_architecture` writes the map's folders into that README, and prints the map
with every module: the layers of the import-linter contract, and the first line of each docstring.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "resource_server"
MAP = PACKAGE / "README.md"
BEGIN, END = "<!-- map -->\n", "<!-- end of map -->\n"

# What a folder served without a manifest has no use for; each would be felt at every start.
HEAVY = set(
    "botocore jsonschema magic mcp pathspec pydantic pydantic_core re2 referencing "
    "sqlalchemy yaml".split()
)

LINT = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"


def layers() -> list[list[str]]:
    """Return the modules of each layer of the contract, highest first."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = config["tool"]["importlinter"]["contracts"][0]
    return [sorted(re.findall(r"\w+", layer)) for layer in contract["layers"]]


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def first_line(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text("utf-8")))
    assert docstring, f"{file.relative_to(ROOT)} has no docstring"
    return docstring.splitlines()[0]


def entries(name: str) -> list[Path]:
    """Return the module of a layer, or its packages and modules, each package first."""
    if (PACKAGE / f"{name}.py").is_file():
        return [PACKAGE / f"{name}.py"]
    found = [
        file
        for folder in sorted({file.parent for file in (PACKAGE / name).rglob("*.py")})
        for file in sorted(folder.glob("*.py"), key=lambda file: (file.stem != "__init__", file))
    ]
    assert found, f"the layer {name} has no module"
    return found


def table(*, modules: bool) -> str:
    """Return the layers with their folders, and the modules in them."""
    lines = ["| layer | module | what it gives |", "|---|---|---|"]
    every = layers()
    for number, names in enumerate(every):
        for file in (file for name in names for file in entries(name)):
            shown = file.relative_to(PACKAGE).as_posix().removesuffix("__init__.py")
            if modules or shown.endswith("/") or "/" not in shown:
                lines.append(f"| {len(every) - 1 - number} | `{shown}` | {first_line(file)} |")
    return "\n".join(lines) + "\n"


def with_folders(text: str) -> str:
    """Return the text of the map with its folders written anew."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table(modules=False) + END + rest.partition(END)[2]


def test_the_map_has_every_layer_and_folder_with_the_first_line_of_its_docstring() -> None:
    assert with_folders(MAP.read_text("utf-8")) == MAP.read_text("utf-8"), (
        "run: python -m tests.test_architecture"
    )


def test_the_folders_are_written_into_the_map_and_the_rest_is_kept() -> None:
    written = MAP.read_text("utf-8")
    _, begin, rest = written.partition(BEGIN)
    folders, end, _ = rest.partition(END)
    assert begin
    assert end
    assert with_folders(written.replace(folders, "| old |\n")) == written


def test_every_module_of_the_package_is_in_the_printed_map() -> None:
    printed = table(modules=True)
    for file in files():
        name = file.relative_to(PACKAGE).as_posix()
        if name != "__init__.py":
            assert f"`{name.removesuffix('__init__.py')}`" in printed


def test_every_file_that_the_map_names_exists() -> None:
    named = re.findall(r"`([\w/]+(?:/|\.py))`", MAP.read_text("utf-8"))
    assert len(named) > 60
    assert [
        name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()
    ] == []


def test_imports_respect_the_layers() -> None:
    found = subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_module_above_the_manifest_imports_a_built_in_provider() -> None:
    order = [name for names in layers() for name in names]
    above = order[: order.index("manifest")]
    named = [
        file.relative_to(PACKAGE).as_posix()
        for file in files()
        if file.relative_to(PACKAGE).parts[0].removesuffix(".py") in above
        and re.search(r"resource_server\.providers\b|\bfilesystem\b", file.read_text("utf-8"))
    ]
    assert named == []


def test_serving_a_folder_loads_no_heavy_module(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello", "utf-8")
    messages = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "resources/list"},
        {"id": 3, "method": "resources/read", "params": {"uri": f"file:///{tmp_path.name}/a.txt"}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    served = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "resource_server", "serve", str(tmp_path)],
        input=lines,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    answers = [json.loads(line) for line in served.stdout.splitlines()]
    assert answers[-1]["result"]["contents"][0]["text"] == "hello"
    imported = re.findall(r"^import time:.*\| +(\w+)", served.stderr, re.MULTILINE)
    assert "msgspec" in imported
    assert not HEAVY & set(imported)


SLEEPERS = {
    "tests/waiting.py",
    # Providers of a server of their own: they take time.
    "tests/conformance/tools.py",
    "tests/worlds/board.py",
    "tests/worlds/probe.py",
}
"""Files of tests that may sleep; others call what `tests/waiting.py` has."""


def test_tests_wait_for_conditions_and_never_sleep() -> None:
    sleeping = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if not {"node_modules", "benchmarks"} & set(path.parts)
        and str(path.relative_to(ROOT)) not in SLEEPERS
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and _sleeps(call)
    ]
    assert not sleeping, "use tests/waiting.py"


def _sleeps(call: ast.Call) -> bool:
    """Return whether a call is one of `sleep`, but for the `sleep(0)` that gives others a turn."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name == "sleep" and not (
        len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    )


def test_no_test_returns_before_it_asserts() -> None:
    vacuous = [
        f"{path.relative_to(ROOT)}:{early}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "node_modules" not in path.parts
        for test in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef)
        if test.name.startswith("test_") and (early := _vacuous_return(test))
    ]
    assert not vacuous, "leave the parameters out, or let hypothesis `assume`"


def _vacuous_return(test: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line of a return that no assertion and no expected error precedes, or 0."""
    todo: list[ast.AST] = list(reversed(test.body))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            return node.lineno
        if isinstance(node, ast.Assert) or getattr(node, "attr", "") == "raises":
            return 0
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ExceptHandler):
            todo += reversed(list(ast.iter_child_nodes(node)))
    return 0


if __name__ == "__main__":
    MAP.write_text(with_folders(MAP.read_text("utf-8")), "utf-8")
    sys.stdout.write(table(modules=True))
