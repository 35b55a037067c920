from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import (
    DirectoryOptions,
)
from resource_server.runtime.eager import settle
from tests.providers.filesystem.trees import (
    TREE,
    address,
    plant,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path / "root", TREE)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("README.md", "exposed"),
        ("src/build", "ignored by .gitignore:1 'build' in src/"),
        ("src/build/out.o", "in 'src/build': ignored by .gitignore:1 'build' in src/"),
        ("server.pem", "secret: matches '*.pem'"),
        (".hidden", "name begins with a dot"),
        ("a/x.txt", "excluded by '/a/*.txt'"),
        ("link", "symbolic link"),
        ("pipe", "neither a file nor a directory"),
        ("nope", "no such file or directory"),
        ("a.txt/x", "'a.txt' is a file: nothing lies below it"),
        ("empty", "exposed"),
        ("a-b/z.txt", "listed, never read: readable: false"),
    ],
)
def test_explain_names_the_rule(root: Path, path: str, sentence: str) -> None:
    (root / "link").symlink_to("a.txt")
    os.mkfifo(root / "pipe")
    provider = Filesystem(
        path=root,
        exclude=("/a/*.txt",),
        directories={"a-b": DirectoryOptions(readable=False)},
    )
    assert provider.explain(address(path)) == sentence


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read everything"
)
def test_explain_tells_of_what_the_process_may_not_read(root: Path) -> None:
    (root / "a.txt").chmod(0)
    (root / "empty").chmod(0)
    script = f"""
from pathlib import Path
from resource_server.providers.filesystem import Filesystem
folder = Filesystem(path=Path({str(root)!r}))
for name in ("a.txt", "empty", "README.md"):
    print(folder.explain((name,)).partition(";")[0])
"""
    # Without these capabilities, root is bound by permissions as anybody.
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    command = [*(bound if os.geteuid() == 0 else ()), sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    refused = "exposed by the rules, but this process may not read it"
    assert done.stdout.splitlines() == [refused, refused, "exposed"]


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read everything"
)
def test_a_visible_file_without_permission_cannot_be_read_and_a_hidden_one_is_not_found(
    root: Path,
) -> None:
    (root / "a.txt").chmod(0)
    (root / ".env").write_text("TOKEN=fake")
    (root / ".env").chmod(0)
    (root / "shop.db").touch()
    (root / "shop.db").chmod(0)
    script = f"""
import asyncio
from pathlib import Path
from resource_server.providers.filesystem import Filesystem
folder = Filesystem(path=Path({str(root)!r}))
folder.withhold({{{str(root / "shop.db")!r}: "a database"}})
async def main():
    for name in ("a.txt", ".env", "shop.db", "absent"):
        try:
            await folder.read((name,), {{}})
        except Exception as error:
            print(type(error).__name__, error, sep=": ")
asyncio.run(main())
"""
    # Without these capabilities, root is bound by permissions as anybody.
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    command = [*(bound if os.geteuid() == 0 else ()), sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "ResourceUnreadable: cannot be read: this server has no permission for it",
        *["ResourceNotFound: resource not found"] * 3,
    ]


async def test_hidden_paths_are_reported_with_their_rule_at_the_topmost_level(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").write_text("TOKEN=fake")
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "out/deep").mkdir(parents=True)
    (tmp_path / "out/deep/file").touch()
    (tmp_path / "src").mkdir()
    (tmp_path / "src/x.bak").touch()
    os.mkfifo(tmp_path / "pipe")
    provider = Filesystem(path=tmp_path, exclude=("*.bak",), hidden=True)
    hidden = list(await settle(provider.hides(limit=10)))
    assert hidden == [
        ((".env",), "secret: matches '*.env'"),
        (("out",), "ignored by .gitignore:1 'out/'"),
        (("pipe",), "neither a file nor a directory"),
        (("src", "x.bak"), "excluded by '*.bak'"),
    ]
    assert await settle(provider.hides(limit=2)) == hidden[:2]
