from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from plugins.git import Git
from resource_server.errors import MountUnavailable, NotACollection, ResourceNotFound
from resource_server.provider import ByteSize
from resource_server.testing import check_provider, client

pytestmark = pytest.mark.anyio

DATE = "2026-01-02T03:04:05Z"
AUTHOR = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": DATE,
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}
FILES = {
    "README.md": b"# One\n",
    "docs/\U0001f642 a#b?c%.txt": "Grüße".encode(),
    "docs/deep/empty": b"",
    "docs/new\nline": b"odd",
    "picture.png": b"\x89PNG\0",
    "--help": b"an option?",
}


def git(folder: Path, *command: str, data: bytes = b"", date: str = DATE) -> str:
    """Return what git prints."""
    done = subprocess.run(
        ["git", *command],
        cwd=folder,
        input=data,
        env={**os.environ, **AUTHOR, "GIT_COMMITTER_DATE": date},
        capture_output=True,
        check=True,
    )
    return os.fsdecode(done.stdout).strip()


def commit(folder: Path, message: str, date: str = DATE) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "-qm", message, date=date)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / os.fsdecode(b"docs/latin\xfc")).write_bytes(b"latin")
    (folder / "link").symlink_to("/etc/passwd")
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "One")
    git(folder, "tag", "-a", "v1.0", "-m", "First")
    git(folder, "tag", "blob", git(folder, "hash-object", "-w", "README.md"))
    (folder / "README.md").write_text("# Two\n")
    git(folder, "branch", "feature/x")
    commit(folder, "Two", date="2026-02-03T04:05:06Z")
    return folder


async def names(found: Git, *path: str) -> list[str]:
    return [child.name for child in await found.list(path, after=None, limit=100)]


async def test_a_working_copy_and_a_bare_repository_keep_the_contract(repository: Path) -> None:
    def change() -> tuple[str, ...]:
        (repository / "README.md").write_text("# Three\n")
        commit(repository, "Three")
        return ("branches", "main", "README.md")

    await check_provider(Git(repository), max_resources=16, make_change=change)
    git(repository, "clone", "-q", "--bare", str(repository), "../bare.git")
    await check_provider(Git(repository.parent / "bare.git"), max_resources=2)
    git(repository, "init", "-q", "../empty")
    await check_provider(Git(repository.parent / "empty"))


async def test_a_client_reads_files_at_revisions(repository: Path) -> None:
    async with client(Git(repository), base="git://x/", revision="2026-07-28") as connected:

        async def text(path: str) -> str:
            read = await connected.request("resources/read", {"uri": f"git://x/{path}"})
            return read["contents"][0]["text"]

        assert await text("branches/main/README.md") == "# Two\n"
        assert await text("branches/feature:x/README.md") == "# One\n"
        assert await text("tags/v1.0/docs/%F0%9F%99%82%20a%23b%3Fc%25.txt") == "Grüße"
        assert await text("tags/v1.0/docs/latin%FC") == "latin"
        assert await text("tags/v1.0/--help") == "an option?"
        latest, first = await names(Git(repository), "commits")
        assert latest.startswith("20260203T")
        assert first.startswith("20260102T030405Z-")
        assert await text(f"commits/{first}/README.md") == "# One\n"


async def test_commits_are_paged_from_the_latest(repository: Path) -> None:
    found = Git(repository)
    latest, first = await found.list(("commits",), after=None, limit=9)
    assert await found.list(("commits",), after=None, limit=1) == [latest]
    assert await found.list(("commits",), after=latest.path, limit=9) == [first]
    assert await found.list(("commits",), after=("commits", "20260115T"), limit=9) == [first]
    assert await found.list(("commits",), after=first.path, limit=9) == []


async def test_tags_of_commits_are_served_but_not_those_of_blobs(repository: Path) -> None:
    git(repository, "tag", "light")
    assert await names(Git(repository), "tags") == ["light", "v1.0"]
    with pytest.raises(ResourceNotFound):
        await Git(repository).list(("tags", "blob"), after=None, limit=1)


async def test_what_is_below_a_file_is_not_found(repository: Path) -> None:
    found = Git(repository)
    with pytest.raises(NotACollection):
        await found.list(("branches", "main", "README.md"), after=None, limit=1)
    for path in (
        ("branches", "main", "README.md", "x"),
        ("changes",),
        ("branches", "main", "a\0b"),
    ):
        with pytest.raises(ResourceNotFound):
            await found.metadata(path)


async def test_links_submodules_and_names_that_leave_the_tree_are_left_out(
    repository: Path,
) -> None:
    blob = git(repository, "hash-object", "-w", "--stdin", data=b"evil")
    entries = "".join(f"100644 blob {blob}\t{name}\n" for name in ("..", ".", "ok", ".git"))
    entries += f"160000 commit {git(repository, 'rev-parse', 'HEAD')}\tmodule\n"
    tree = git(repository, "mktree", "--missing", data=entries.encode())
    evil = git(repository, "commit-tree", "-m", "evil", tree)
    git(repository, "update-ref", "refs/heads/evil", evil)
    found = Git(repository)
    assert await names(found, "branches", "evil") == [".git", "ok"]
    assert "link" not in await names(found, "branches", "main")
    with pytest.raises(ResourceNotFound):
        await found.read(("branches", "main", "link"), {})


async def test_only_objects_of_branches_and_tags_are_served(repository: Path) -> None:
    lost = git(repository, "commit-tree", "-m", "lost", "HEAD^{tree}")
    found = Git(repository)
    for revision in (lost, "HEAD", "main~1", "main^{tree}", "--all", "@{-1}", "main:docs"):
        for kind in ("branches", "tags", "commits"):
            with pytest.raises(ResourceNotFound):
                await found.read((kind, revision, "README.md"), {})


async def test_huge_files_are_listed_but_not_read(repository: Path) -> None:
    (repository / "huge").write_bytes(b"x\n" * 600)
    commit(repository, "Huge")
    found = Git(repository, max_size=ByteSize(1000))
    huge = await found.metadata(("branches", "main", "huge"))
    assert (huge.size, huge.readable) == (1200, False)
    with pytest.raises(ResourceNotFound):
        await found.read(huge.path, {})
    assert (await found.read(("branches", "main", "README.md"), {}))[0].data == "# Two\n"


async def test_a_command_that_hangs_is_given_up(repository: Path) -> None:
    os.mkfifo(repository / ".git/refs/heads/pipe")
    found = Git(repository)
    found.timeout_s = 0.5
    with pytest.raises(MountUnavailable, match="git for-each-ref failed: TimeoutError"):
        await found.list(("branches",), after=None, limit=1)
    (repository / ".git/refs/heads/pipe").unlink()
    assert await names(found, "branches") == ["feature:x", "main"]


async def test_a_name_in_a_tree_is_never_taken_for_an_entry(repository: Path) -> None:
    lost = git(repository, "hash-object", "-w", "--stdin", data=b"secret")
    head = git(repository, "rev-parse", "HEAD")
    fake = f"x\n100644 blob {lost}       6\tsecret"
    entry = f"160000 commit {head}\t{fake}\0".encode()
    tree = git(repository, "mktree", "-z", "--missing", data=entry)
    evil = git(repository, "commit-tree", "-m", "evil", tree)
    git(repository, "update-ref", "refs/heads/evil", evil)
    assert await names(Git(repository), "branches", "evil") == []


async def test_the_configuration_of_a_repository_runs_nothing(repository: Path) -> None:
    trap = repository.parent / "trap"
    ran = repository.parent / "ran"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    trap.chmod(0o755)
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.hooksPath",
        "diff.external",
        "diff.trap.command",
        "diff.trap.textconv",
        "filter.trap.smudge",
        "gpg.program",
        "interactive.diffFilter",
    ):
        git(repository, "config", name, str(trap))
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/attributes").write_text("* diff=trap filter=trap\n")
    git(repository, "config", "log.showSignature", "true")
    ran.unlink(missing_ok=True)
    found = Git(repository)

    async def visit(parent: tuple[str, ...]) -> None:
        for child in await found.list(parent, after=None, limit=100):
            if child.type == "collection":
                await visit(child.path)
            else:
                await found.read(child.path, {})

    await visit(())
    assert not ran.exists()
    # A partial clone, whose missing objects are fetched by a program.
    git(repository, "config", "core.repositoryFormatVersion", "1")
    git(repository, "config", "extensions.partialClone", "evil")
    git(repository, "config", "remote.evil.promisor", "true")
    git(repository, "config", "remote.evil.url", f"ext::{trap}")
    git(repository, "config", "protocol.ext.allow", "always")
    ran.unlink(missing_ok=True)
    blob = git(repository, "rev-parse", "HEAD:README.md")
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for kind in ("branches", "commits"):
        with suppress(MountUnavailable, ResourceNotFound):
            await visit((kind,))
    assert not ran.exists()


async def test_what_is_no_repository_is_unavailable(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "inner").mkdir()
    for folder in (tmp_path / "inner", tmp_path / "missing"):
        with pytest.raises(MountUnavailable, match="git for-each-ref failed"):
            await Git(folder).list(("branches",), after=None, limit=1)
