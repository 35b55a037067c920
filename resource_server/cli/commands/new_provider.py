"""`resource-server new-provider`: writes a package with a provider of its own, and its tests."""

from __future__ import annotations

import keyword
import pathlib
import re

import click

from resource_server.cli import console, log_output
from resource_server.manifest import provider_references

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)
_MAX_LENGTH = 60
_TAKEN = frozenset(("documents", "iterator"))
"""Names that the module imports."""

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "resource-server-@NAME@"
version = "0.1.0"
description = "The provider @NAME@ for resource-server"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["resource-server"]

[project.optional-dependencies]
test = ["anyio", "pytest"]

[project.entry-points."@GROUP@"]
@NAME@ = "resource_server_@IDENTIFIER@:@IDENTIFIER@"

[tool.pytest.ini_options]
pythonpath = ["."]
"""

_MODULE = '''\
"""The provider `@NAME@`."""

from __future__ import annotations

from collections.abc import Iterator

from resource_server.provider.simple import documents


@documents(refresh=30)
def @IDENTIFIER@(
    greeting: str = "Hello", names: tuple[str, ...] = ("Ada", "Alan")
) -> Iterator[tuple[str, str]]:
    """Greetings by name."""
    for name in names:
        yield f"greetings/{name.lower()}.md", f"# {greeting}, {name}!\\n"
'''

_TESTS = """\
from __future__ import annotations

import pytest
from resource_server.testing import check_provider, client

from resource_server_@IDENTIFIER@ import @IDENTIFIER@


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_the_provider_keeps_the_contract() -> None:
    await check_provider(@IDENTIFIER@())


@pytest.mark.anyio
async def test_a_client_reads_a_document() -> None:
    async with client(@IDENTIFIER@(greeting="Hi"), base="@NAME@://mount/") as connected:
        asked = {"uri": "@NAME@://mount/greetings/ada.md"}
        result = await connected.request("resources/read", asked)
    assert result["contents"][0]["text"] == "# Hi, Ada!\\n"
"""

_MANIFEST = """\
version: 1
providers:
  @NAME@:
    use: resource_server_@IDENTIFIER@.py   # once installed: `use: @NAME@`
    uri: @NAME@://mount/
    greeting: Hello
"""

_README = """\
# resource-server-@NAME@

The provider `@NAME@` for resource-server.

```console
$ resource-server list .                     # the manifest of this folder
$ pip install -e '.[test]' && pytest
```

Installed, it is used in any manifest:

```yaml
providers:
  @NAME@:
    use: @NAME@
    uri: @NAME@://mount/
```
"""

_FILES = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    "mcp-resources.yaml": _MANIFEST,
    "resource_server_@IDENTIFIER@.py": _MODULE,
    "tests/test_@IDENTIFIER@.py": _TESTS,
}


@click.command("new-provider", short_help="Write a package with a provider.")
@click.argument("name")
@click.option(
    "--folder", metavar="FOLDER", help="New or empty folder; the default is resource-server-NAME."
)
def command(name: str, folder: str | None) -> int:
    """Write a package with the provider NAME, made from a function, and its tests."""
    log_output.log_to_stderr(0)
    identifier = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _MAX_LENGTH:
        return console.fail(
            f"found the name '{console.escaped(name[:80])}'; write up to {_MAX_LENGTH} lower-case "
            "letters, digits and single hyphens, a letter first: my-notes",
            status=2,
        )
    if keyword.iskeyword(name) or name in _TAKEN or name in provider_references.built_in_names():
        return console.fail(f"the name '{name}' is taken; choose another: my-{name}", status=2)
    to = pathlib.Path(f"resource-server-{name}" if folder is None else folder)
    shown = console.escaped(str(to))
    try:
        to.mkdir(exist_ok=True)
        if any(to.iterdir()):
            return console.fail(f"the folder is not empty; choose another with --folder: {shown}")
        for file, text in _FILES.items():
            place = to / _filled(file, name, identifier)
            place.parent.mkdir(exist_ok=True)
            with place.open("x", encoding="utf-8") as stream:
                stream.write(_filled(text, name, identifier))
    except FileExistsError:
        return console.fail(f"is no folder; choose another with --folder: {shown}")
    except OSError as error:
        return console.fail(f"cannot be written, {error.strerror}: {shown}")
    console.print_line(f"wrote {shown}; next: resource-server list {shown}")
    return 0


def _filled(text: str, name: str, identifier: str) -> str:
    text = text.replace("@GROUP@", provider_references.GROUP)
    return text.replace("@NAME@", name).replace("@IDENTIFIER@", identifier)
